// A stack as people write it with CDK, synthesised into the folder that is given. It says which template it wrote.

const { App, DefaultStackSynthesizer, Duration, Stack } = require('aws-cdk-lib')
const lambda = require('aws-cdk-lib/aws-lambda')
const sfn = require('aws-cdk-lib/aws-stepfunctions')
const tasks = require('aws-cdk-lib/aws-stepfunctions-tasks')

const outdir = process.argv[2]
const app = new App({ outdir, analyticsReporting: false })
const stack = new Stack(app, 'Orders', {
  synthesizer: new DefaultStackSynthesizer({ generateBootstrapVersionRule: false }),
})

const charge = new lambda.Function(stack, 'Charge', {
  functionName: 'charge',
  runtime: lambda.Runtime.PYTHON_3_12,
  handler: 'index.handler',
  code: lambda.Code.fromInline('def handler(event, context): return event'),
})
new sfn.Activity(stack, 'Pack', { activityName: 'pack' })

const ship = new sfn.StateMachine(stack, 'Ship', {
  stateMachineName: 'ship',
  definitionBody: sfn.DefinitionBody.fromChainable(
    new sfn.Pass(stack, 'Shipped', { outputs: { shipped: '{% $states.input.item %}' }, queryLanguage: sfn.QueryLanguage.JSONATA }),
  ),
})

const each = new sfn.Map(stack, 'Each item', { itemsPath: '$.items', maxConcurrency: 2, resultPath: '$.shipped' })
each.itemProcessor(
  new tasks.StepFunctionsStartExecution(stack, 'Ship it', {
    stateMachine: ship,
    integrationPattern: sfn.IntegrationPattern.RUN_JOB,
    input: sfn.TaskInput.fromObject({ item: sfn.JsonPath.stringAt('$') }),
    outputPath: '$.Output',
  }),
)
const charged = new tasks.LambdaInvoke(stack, 'Charge it', {
  lambdaFunction: charge,
  payload: sfn.TaskInput.fromObject({ total: sfn.JsonPath.numberAt('$.total') }),
  resultSelector: { total: sfn.JsonPath.numberAt('$.Payload.total') },
  resultPath: '$.charged',
}).addRetry({ maxAttempts: 2, interval: Duration.seconds(1) })

const definition = new sfn.Choice(stack, 'Anything to pay?')
  .when(sfn.Condition.numberGreaterThan('$.total', 0), charged.next(each))
  .otherwise(new sfn.Succeed(stack, 'Nothing to do'))
const orders = new sfn.StateMachine(stack, 'Machine', {
  stateMachineName: 'orders',
  definitionBody: sfn.DefinitionBody.fromChainable(definition),
  timeout: Duration.minutes(5),
  tracingEnabled: true,
})
const version = new sfn.CfnStateMachineVersion(stack, 'Version', { stateMachineArn: orders.stateMachineArn })
new sfn.CfnStateMachineAlias(stack, 'Live', {
  name: 'live',
  routingConfiguration: [{ stateMachineVersionArn: version.ref, weight: 100 }],
})

app.synth()
console.log('Orders.template.json')
