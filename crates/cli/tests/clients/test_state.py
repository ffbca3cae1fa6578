"""TestState: one state, with what it would do shown at three levels, mocked, with variables, by name."""

import json
import re
import sys

from wire import ROLE, client, has, machine, refused, same

sfn = client(sys.argv[1])


def test(state, value="{}", **more):
    definition = state if isinstance(state, str) else json.dumps(state)
    return sfn.test_state(definition=definition, roleArn=ROLE, input=value, **more)


add = {
    "Type": "Pass",
    "Parameters": {"sum.$": "States.MathAdd($.a, 1)"},
    "ResultPath": "$.r",
    "Next": "After",
}
answer = has(test(add, '{"a": 1}'), status="SUCCEEDED", nextState="After")
same(json.loads(answer["output"]), {"a": 1, "r": {"sum": 2}})
assert "inspectionData" not in answer, answer
seen = test(add, '{"a": 1}', inspectionLevel="DEBUG")["inspectionData"]
same(json.loads(seen["input"]), {"a": 1})
same(json.loads(seen["afterParameters"]), {"sum": 2})
same(json.loads(seen["afterResultPath"]), {"a": 1, "r": {"sum": 2}})

choice = {
    "Type": "Choice",
    "Choices": [{"Variable": "$.a", "NumericEquals": 1, "Next": "One"}],
    "Default": "Other",
}
has(test(choice, '{"a": 1}'), status="SUCCEEDED", nextState="One")
has(test(choice, '{"a": 2}'), status="SUCCEEDED", nextState="Other")
has(test({"Type": "Fail", "Error": "No", "Cause": "why"}), status="FAILED", error="No", cause="why")
has(test({"Type": "Succeed"}, "5"), status="SUCCEEDED", output="5")

# With a mock nobody is called: a result, an error that is retried, one that is caught, and one that is neither.
pay = {
    "Type": "Task",
    "Resource": "arn:aws:states:::lambda:invoke",
    "Parameters": {"FunctionName": "pay", "Payload.$": "$"},
    "Retry": [{"ErrorEquals": ["Busy"], "IntervalSeconds": 3, "BackoffRate": 2}],
    "Catch": [{"ErrorEquals": ["Declined"], "Next": "Refund"}],
    "Next": "Ship",
}
mocked = {"result": json.dumps({"Payload": {"paid": True}, "StatusCode": 200})}
answer = has(test(pay, mock=mocked), status="SUCCEEDED", nextState="Ship")
same(json.loads(answer["output"])["Payload"], {"paid": True})
failed = {"errorOutput": {"error": "Busy", "cause": "later"}}
answer = has(test(pay, mock=failed, inspectionLevel="DEBUG"), status="RETRIABLE", error="Busy", cause="later")
has(answer["inspectionData"]["errorDetails"], retryIndex=0, retryBackoffIntervalSeconds=3)
answer = test(pay, mock=failed, inspectionLevel="DEBUG", stateConfiguration={"retrierRetryCount": 1})
has(answer["inspectionData"]["errorDetails"], retryIndex=0, retryBackoffIntervalSeconds=6)
failed = {"errorOutput": {"error": "Declined", "cause": "no money"}}
answer = has(test(pay, mock=failed, inspectionLevel="DEBUG"), status="CAUGHT_ERROR", nextState="Refund")
same(json.loads(answer["output"]), {"Error": "Declined", "Cause": "no money"})
has(answer["inspectionData"]["errorDetails"], catchIndex=0)
failed = {"errorOutput": {"error": "Other", "cause": "who knows"}}
has(test(pay, mock=failed), status="FAILED", error="Other", cause="who knows")
both = {"result": "{}", "errorOutput": {"error": "E", "cause": "C"}}
words = "A test mock should have only one of the following fields: [result, errorOutput]."
refused("ValidationException", words, sfn.test_state, definition=json.dumps(pay), roleArn=ROLE, mock=both)

# Variables and the context come from whoever asks.
uses = {
    "Type": "Pass",
    "QueryLanguage": "JSONata",
    "Output": "{% $price + $states.input.tax %}",
    "Assign": {"total": "{% $price * 2 %}"},
    "End": True,
}
answer = has(test(uses, '{"tax": 1}', variables='{"price": 4}', inspectionLevel="DEBUG"), output="5")
same(json.loads(answer["inspectionData"]["variables"]), {"price": 4, "total": 8})
named = {
    "Type": "Task",
    "Resource": "arn:aws:states:::lambda:invoke",
    "Parameters": {"FunctionName": "pay", "Payload": {"who.$": "$$.Execution.Name"}},
    "End": True,
}
context = json.dumps({"Execution": {"Name": "mine"}})
answer = test(named, mock=mocked, context=context, inspectionLevel="DEBUG")
same(json.loads(answer["inspectionData"]["afterParameters"])["Payload"], {"who": "mine"})

# One state of a whole definition, by its name.
whole = machine(
    {"A": {"Type": "Pass", "Result": 1, "Next": "B"}, "B": {"Type": "Pass", "Result": 2, "End": True}}
)
has(test(whole, stateName="B"), status="SUCCEEDED", output="2")
has(test(whole, stateName="A"), status="SUCCEEDED", output="1", nextState="B")

# A Map needs a mock, and so does what waits for a token.
each = {
    "Type": "Map",
    "ItemProcessor": {"StartAt": "P", "States": {"P": {"Type": "Pass", "End": True}}},
    "End": True,
}
words = re.compile("^TestState API does not support Map or Parallel states.")
refused("InvalidDefinition", words, sfn.test_state, definition=json.dumps(each), roleArn=ROLE, input="[1]")
answer = has(test(each, "[1, 2]", mock={"result": "[3, 4]"}), status="SUCCEEDED")
same(json.loads(answer["output"]), [3, 4])
