#!/usr/bin/env bash
# A story by the aws command: story.sh AWS ENDPOINT. Each answer is held against what is expected.
set -euo pipefail
aws=$1 endpoint=$2
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_DEFAULT_REGION=us-east-1 AWS_PAGER=""
# Without it, two actions would go to a host of another name: sync-127.0.0.1.
export AWS_DISABLE_HOST_PREFIX_INJECTION=true

sfn() { "$aws" stepfunctions --endpoint-url "$endpoint" --output text "$@"; }
same() {
    [[ $1 == "$2" ]] || {
        printf '%s\n  wanted %s\n  found  %s\n' "${3:-}" "$2" "$1" >&2
        exit 1
    }
}

role=arn:aws:iam::123456789012:role/worker
arn=arn:aws:states:us-east-1:123456789012:stateMachine:orders
cat >orders.asl.json <<'ASL'
{"StartAt": "Price", "States": {"Price":
    {"Type": "Pass", "Parameters": {"total.$": "States.MathAdd($.price, 1)"}, "End": true}}}
ASL

same "$(sfn validate-state-machine-definition --definition file://orders.asl.json --query result)" OK
same "$(sfn create-state-machine --name orders --definition file://orders.asl.json --role-arn "$role" \
    --tags key=team,value=shop --publish --query '[stateMachineArn, stateMachineVersionArn]')" "$arn	$arn:1"
same "$(sfn list-state-machines --query 'stateMachines[].name')" orders
same "$(sfn list-tags-for-resource --resource-arn "$arn" --query 'tags[0].[key, value]')" "team	shop"

execution=$(sfn start-execution --state-machine-arn "$arn" --name first --input '{"price": 16}' --query executionArn)
same "$execution" arn:aws:states:us-east-1:123456789012:execution:orders:first
for ((look = 0; look < 50; look++)); do
    status=$(sfn describe-execution --execution-arn "$execution" --query status)
    [[ $status == RUNNING ]] || break
done
same "$status" SUCCEEDED
same "$(sfn describe-execution --execution-arn "$execution" --query output)" '{"total":17}'
same "$(sfn get-execution-history --execution-arn "$execution" --query 'events[].type')" \
    "ExecutionStarted	PassStateEntered	PassStateExited	ExecutionSucceeded"
# The command follows pages by itself.
pages=$(sfn get-execution-history --execution-arn "$execution" --page-size 1 --query 'events[].id')
same "$pages" $'1\n2\n3\n4' pages
same "$(sfn list-executions --state-machine-arn "$arn" --max-items 1 --query 'executions[].name')" first

same "$(sfn test-state --definition '{"Type": "Succeed"}' --role-arn "$role" --input 5 --query output)" 5 test-state

refusal=$(sfn describe-execution --execution-arn "$execution-2" 2>&1) && exit 1
[[ $refusal == *"(ExecutionDoesNotExist)"*"Execution Does Not Exist: '$execution-2'"* ]] || {
    echo "$refusal" >&2
    exit 1
}
same "$(sfn delete-state-machine --state-machine-arn "$arn")" ""
