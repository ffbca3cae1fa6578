"""Map Runs: described and listed while they run, changed, ended, and the executions of their items."""

import json
import re
import sys

from wire import ARN, ROLE, client, ended, has, machine, members, refused, same, until

sfn = client(sys.argv[1])
activity = sfn.create_activity(name="each")["activityArn"]
items = {
    "Each": {
        "Type": "Map",
        "Label": "each",
        "MaxConcurrency": 1,
        "ToleratedFailureCount": 0,
        "ItemProcessor": {
            "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
            "StartAt": "Work",
            "States": {"Work": {"Type": "Task", "Resource": activity, "End": True}},
        },
        "End": True,
    }
}
arn = sfn.create_state_machine(name="orders", definition=machine(items), roleArn=ROLE)["stateMachineArn"]
execution = sfn.start_execution(stateMachineArn=arn, input="[1, 2, 3]")["executionArn"]


def work():
    return sfn.get_activity_task(activityArn=activity)


first = work()
listed = sfn.list_map_runs(executionArn=execution)["mapRuns"]
same(len(listed), 1)
run = listed[0]["mapRunArn"]
assert re.fullmatch(re.escape(f"{ARN}:mapRun:orders/each:") + r"[0-9a-f-]{36}", run), run
members(listed[0], "executionArn", "mapRunArn", "stateMachineArn", "startDate")
has(listed[0], executionArn=execution, stateMachineArn=f"{arn}/each")
counts = {
    "pending": 2,
    "running": 1,
    "succeeded": 0,
    "failed": 0,
    "timedOut": 0,
    "aborted": 0,
    "total": 3,
    "resultsWritten": 0,
}


def described():
    return sfn.describe_map_run(mapRunArn=run)


found = until(described, lambda found: found["itemCounts"]["running"] == 1)
has(
    found,
    mapRunArn=run,
    executionArn=execution,
    status="RUNNING",
    maxConcurrency=1,
    toleratedFailurePercentage=0.0,
    toleratedFailureCount=0,
    redriveCount=0,
)
same({name: found["itemCounts"][name] for name in counts}, counts, "itemCounts")
has(found["executionCounts"], running=1, succeeded=0, failed=0, timedOut=0, aborted=0)
assert "stopDate" not in found, found

# Changed while it runs: more at once, and one failure is borne.
members(
    sfn.update_map_run(
        mapRunArn=run, maxConcurrency=3, toleratedFailureCount=1, toleratedFailurePercentage=50.0
    )
)
has(described(), maxConcurrency=3, toleratedFailureCount=1, toleratedFailurePercentage=50.0)
others = [work(), work()]
until(described, lambda found: found["itemCounts"]["running"] == 3)
sfn.send_task_failure(taskToken=first["taskToken"], error="Torn")
for task in others:
    sfn.send_task_success(taskToken=task["taskToken"], output=task["input"])
same(sorted(json.loads(task["input"]) for task in others), [2, 3])
has(ended(sfn, execution), status="SUCCEEDED")
found = has(described(), status="SUCCEEDED")
counts.update(pending=0, running=0, succeeded=2, failed=1)
del counts["resultsWritten"]
same({name: found["itemCounts"][name] for name in counts}, counts, "itemCounts")
assert found["stopDate"] >= found["startDate"], found
over = refused("ValidationException", re.compile("."), sfn.update_map_run, mapRunArn=run, maxConcurrency=1)
same(over["reason"], "CANNOT_UPDATE_COMPLETED_MAP_RUN")

# The items' own executions, by run.
children = sfn.list_executions(mapRunArn=run)["executions"]
same(sorted(child["status"] for child in children), ["FAILED", "SUCCEEDED", "SUCCEEDED"])
same({child["stateMachineArn"] for child in children}, {f"{arn}/each"})
same({child["mapRunArn"] for child in children}, {run})
same({child["itemCount"] for child in children}, {1})
failed = sfn.list_executions(mapRunArn=run, statusFilter="FAILED")["executions"]
same(len(failed), 1)
child = sfn.describe_execution(executionArn=failed[0]["executionArn"])
has(child, mapRunArn=run, error="Torn", input="1", redriveStatus="REDRIVABLE_BY_MAP_RUN")
has(sfn.describe_state_machine_for_execution(executionArn=child["executionArn"]), mapRunArn=run, label="each")
sfn.get_execution_history(executionArn=child["executionArn"])
missing = f"{ARN}:mapRun:orders/each:00000000-0000-4000-8000-000000000000"
refused("ResourceNotFound", f"Resource not found: '{missing}'", sfn.describe_map_run, mapRunArn=missing)

# A run that fails is redriven with its execution: the same run, and only what was not done.
strict = sfn.start_execution(stateMachineArn=arn, input='["a", "b"]')["executionArn"]
task = work()
sfn.send_task_failure(taskToken=task["taskToken"], error="Torn")
has(ended(sfn, strict), status="FAILED", error="States.ExceedToleratedFailureThreshold")
run = sfn.list_map_runs(executionArn=strict)["mapRuns"][0]["mapRunArn"]
has(described(), status="FAILED", redriveCount=0)
sfn.redrive_execution(executionArn=strict)
for _ in range(2):
    task = work()
    sfn.send_task_success(taskToken=task["taskToken"], output=task["input"])
same(json.loads(ended(sfn, strict)["output"]), ["a", "b"])
has(described(), status="SUCCEEDED", redriveCount=1)
same([one["mapRunArn"] for one in sfn.list_map_runs(executionArn=strict)["mapRuns"]], [run])

# A child may have a batch of items.
batches = {
    "Each": {
        "Type": "Map",
        "ItemBatcher": {"MaxItemsPerBatch": 2},
        "ItemProcessor": {
            "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "EXPRESS"},
            "StartAt": "Pass",
            "States": {"Pass": {"Type": "Pass", "End": True}},
        },
        "End": True,
    }
}
arn = sfn.create_state_machine(name="batches", definition=machine(batches), roleArn=ROLE)["stateMachineArn"]
execution = sfn.start_execution(stateMachineArn=arn, input="[1, 2, 3, 4, 5]")["executionArn"]
has(ended(sfn, execution), status="SUCCEEDED")
run = sfn.list_map_runs(executionArn=execution)["mapRuns"][0]["mapRunArn"]
children = sfn.list_executions(mapRunArn=run)["executions"]
same(sorted(child["itemCount"] for child in children), [1, 2, 2])
