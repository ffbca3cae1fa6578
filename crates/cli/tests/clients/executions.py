"""Executions: started by name, described, listed, stopped, redriven; with their histories."""

import json
import sys
import uuid

from wire import ARN, FAIL, PASS, ROLE, client, ended, has, machine, members, refused, same, types

sfn = client(sys.argv[1])
arn = sfn.create_state_machine(name="orders", definition=PASS, roleArn=ROLE)["stateMachineArn"]
execution = f"{ARN}:execution:orders:first"

started = sfn.start_execution(
    stateMachineArn=arn, name="first", input='{"order": 17}', traceHeader="Root=1-2-3"
)
members(started, "executionArn", "startDate")
same(started["executionArn"], execution)
described = ended(sfn, execution)
has(
    described,
    executionArn=execution,
    stateMachineArn=arn,
    name="first",
    status="SUCCEEDED",
    startDate=started["startDate"],
    input='{"order": 17}',
    inputDetails={"included": True},
    outputDetails={"included": True},
    traceHeader="Root=1-2-3",
    redriveCount=0,
    redriveStatus="NOT_REDRIVABLE",
    redriveStatusReason="Execution is SUCCEEDED and cannot be redriven",
)
same(json.loads(described["output"]), {"done": True})
assert described["stopDate"] >= described["startDate"], described
metadata = sfn.describe_execution(executionArn=execution, includedData="METADATA_ONLY")
has(metadata, inputDetails={"included": False}, outputDetails={"included": False})
assert not {"input", "output"} & set(metadata), metadata

# A name without one is drawn; the same name and input again are the same only while it runs.
drawn = sfn.start_execution(stateMachineArn=arn)["executionArn"]
same(str(uuid.UUID(drawn.rsplit(":", 1)[1])), drawn.rsplit(":", 1)[1])
has(ended(sfn, drawn), input="{}")
taken = f"Execution Already Exists: '{execution}'"
again = {"stateMachineArn": arn, "name": "first", "input": '{"order": 17}'}
refused("ExecutionAlreadyExists", taken, sfn.start_execution, **again)
waits = machine({"Wait": {"Type": "Wait", "Seconds": 3600, "End": True}})
slow = sfn.create_state_machine(name="slow", definition=waits, roleArn=ROLE)["stateMachineArn"]
running = sfn.start_execution(stateMachineArn=slow, name="one", input='{"a": 1}')
repeated = sfn.start_execution(stateMachineArn=slow, name="one", input='{"a": 1}')
same((repeated["executionArn"], repeated["startDate"]), (running["executionArn"], running["startDate"]))
other = {"stateMachineArn": slow, "name": "one", "input": '{"a": 2}'}
refused(
    "ExecutionAlreadyExists",
    f"Execution Already Exists: '{running['executionArn']}'",
    sfn.start_execution,
    **other,
)

# The history, either way around, with and without data.
whole = ["ExecutionStarted", "PassStateEntered", "PassStateExited", "ExecutionSucceeded"]
same(types(sfn, execution), whole)
same(types(sfn, execution, reverseOrder=True), whole[::-1])
events = sfn.get_execution_history(executionArn=execution)["events"]
same([(event["id"], event["previousEventId"]) for event in events], [(1, 0), (2, 0), (3, 2), (4, 3)])
has(
    events[0]["executionStartedEventDetails"],
    input='{"order": 17}',
    inputDetails={"truncated": False},
    roleArn=ROLE,
)
bare = sfn.get_execution_history(executionArn=execution, includeExecutionData=False)["events"]
assert "input" not in bare[0]["executionStartedEventDetails"], bare
assert "output" not in bare[3].get("executionSucceededEventDetails", {}), bare

# Lists: newest first, by status, by whether they were redriven.
listed = sfn.list_executions(stateMachineArn=arn)["executions"]
same([one["executionArn"] for one in listed], [drawn, execution])
members(
    listed[1], "executionArn", "stateMachineArn", "name", "status", "startDate", "stopDate", "redriveCount"
)
same(sfn.list_executions(stateMachineArn=arn, statusFilter="FAILED")["executions"], [])
shown = sfn.list_executions(stateMachineArn=slow, statusFilter="RUNNING")["executions"]
same([one["name"] for one in shown], ["one"])

# Which definition an execution has, although the machine has another by now.
sfn.update_state_machine(stateMachineArn=slow, definition=PASS)
found = sfn.describe_state_machine_for_execution(executionArn=running["executionArn"])
has(
    found,
    stateMachineArn=slow,
    name="slow",
    definition=waits,
    roleArn=ROLE,
    tracingConfiguration={"enabled": False},
)

# Stopping, with a reason; twice does no harm.
stopped = sfn.stop_execution(executionArn=running["executionArn"], error="Enough", cause="it took too long")
members(stopped, "stopDate")
has(ended(sfn, running["executionArn"]), status="ABORTED", error="Enough", cause="it took too long")
same(types(sfn, running["executionArn"]), ["ExecutionStarted", "WaitStateEntered", "ExecutionAborted"])
members(sfn.stop_execution(executionArn=running["executionArn"]), "stopDate")

# Redriving goes on where it failed, with the definition that it had.
activity = sfn.create_activity(name="maybe")["activityArn"]
steps = machine(
    {
        "Before": {"Type": "Pass", "Next": "Work"},
        "Work": {"Type": "Task", "Resource": activity, "End": True},
    }
)
retried = sfn.create_state_machine(name="retried", definition=steps, roleArn=ROLE)["stateMachineArn"]
broken = sfn.start_execution(stateMachineArn=retried, input="7")["executionArn"]
token = sfn.get_activity_task(activityArn=activity, workerName="w")["taskToken"]
sfn.send_task_failure(taskToken=token, error="Busy", cause="later")
has(
    ended(sfn, broken),
    status="FAILED",
    error="Busy",
    cause="later",
    redriveCount=0,
    redriveStatus="REDRIVABLE",
)
sfn.update_state_machine(stateMachineArn=retried, definition=FAIL)
redriven = sfn.redrive_execution(executionArn=broken, clientToken="token-1")
members(redriven, "redriveDate")
same(
    sfn.redrive_execution(executionArn=broken, clientToken="token-1")["redriveDate"], redriven["redriveDate"]
)
has(
    sfn.describe_execution(executionArn=broken),
    status="RUNNING",
    redriveCount=1,
    redriveDate=redriven["redriveDate"],
)
task = sfn.get_activity_task(activityArn=activity, workerName="w")
same(task["input"], "7")
sfn.send_task_success(taskToken=task["taskToken"], output='"paid"')
has(ended(sfn, broken), status="SUCCEEDED", output='"paid"', redriveCount=1)
work = ["ActivityScheduled", "ActivityStarted"]
same(
    types(sfn, broken),
    ["ExecutionStarted", "PassStateEntered", "PassStateExited", "TaskStateEntered", *work, "ActivityFailed"]
    + [
        "ExecutionFailed",
        "ExecutionRedriven",
        *work,
        "ActivitySucceeded",
        "TaskStateExited",
        "ExecutionSucceeded",
    ],
)
by_redrive = {
    kind: [
        one["executionArn"]
        for one in sfn.list_executions(stateMachineArn=retried, redriveFilter=kind)["executions"]
    ]
    for kind in ("REDRIVEN", "NOT_REDRIVEN")
}
same(by_redrive, {"REDRIVEN": [broken], "NOT_REDRIVEN": []})
words = "Execution is SUCCEEDED and cannot be redriven"
refused("ExecutionNotRedrivable", words, sfn.redrive_execution, executionArn=broken)
