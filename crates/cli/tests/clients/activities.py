"""Activities and task tokens: polled, answered, kept alive, and given up."""

import json
import re
import sys
import threading
import time

from wire import (
    ARN,
    ROLE,
    activity_machine,
    client,
    ended,
    has,
    machine,
    members,
    refused,
    same,
    types,
    until,
)

sfn = client(sys.argv[1])
arn = f"{ARN}:activity:pack"

made = sfn.create_activity(name="pack", tags=[{"key": "team", "value": "shop"}])
members(made, "activityArn", "creationDate")
same(made["activityArn"], arn)
same(sfn.create_activity(name="pack")["creationDate"], made["creationDate"])
has(sfn.describe_activity(activityArn=arn), activityArn=arn, name="pack", creationDate=made["creationDate"])
same(sfn.list_tags_for_resource(resourceArn=arn)["tags"], [{"key": "team", "value": "shop"}])
listed = sfn.list_activities()["activities"]
same(listed, [{"activityArn": arn, "name": "pack", "creationDate": made["creationDate"]}])

definition = activity_machine(arn)
packing = sfn.create_state_machine(name="packing", definition=definition, roleArn=ROLE)["stateMachineArn"]


def begin(value, of=packing):
    return sfn.start_execution(stateMachineArn=of, input=json.dumps(value))["executionArn"]


def poll(activity=arn):
    return sfn.get_activity_task(activityArn=activity, workerName="packer")


# A task is handed out once, to whoever polls, before or after it is there.
polled = []
early = threading.Thread(target=lambda: polled.append(poll()))
early.start()
first = begin({"box": 1})
early.join()
members(polled[0], "taskToken", "input")
same(json.loads(polled[0]["input"]), {"box": 1})
members(sfn.send_task_heartbeat(taskToken=polled[0]["taskToken"]))
members(sfn.send_task_success(taskToken=polled[0]["taskToken"], output='{"packed": true}'))
same(json.loads(ended(sfn, first)["output"]), {"packed": True})
events = sfn.get_execution_history(executionArn=first)["events"]
has(
    next(event for event in events if event["type"] == "ActivityStarted"),
    activityStartedEventDetails={"workerName": "packer"},
)
has(
    next(event for event in events if event["type"] == "ActivityScheduled")["activityScheduledEventDetails"],
    resource=arn,
)

# A failure carries its words. A token is good for one answer, which may be sent again: its receipt was perhaps lost.
second = begin({"box": 2})
token = poll()["taskToken"]
members(sfn.send_task_failure(taskToken=token, error="Torn", cause="the box is torn"))
has(ended(sfn, second), status="FAILED", error="Torn", cause="the box is torn")
members(sfn.send_task_failure(taskToken=token, error="Torn", cause="the box is torn"))
gone = "Task Timed Out: 'Provided task does not exist anymore'"
for call in (sfn.send_task_failure, sfn.send_task_heartbeat):
    refused("TaskTimedOut", gone, call, taskToken=token)
refused("TaskTimedOut", gone, sfn.send_task_success, taskToken=token, output="1")
refused("InvalidToken", "Invalid Token: 'Invalid token'", sfn.send_task_heartbeat, taskToken="not a token")

# An output that is no JSON is refused, and the task goes on.
third = begin({"box": 3})
token = poll()["taskToken"]
refused(
    "InvalidOutput", re.compile("^Invalid Output"), sfn.send_task_success, taskToken=token, output="{torn"
)
sfn.send_task_success(taskToken=token, output="3")
has(ended(sfn, third), output="3")

# Heartbeats keep a task alive for longer than its silence may last; without them it is given up.
quiet = activity_machine(arn, HeartbeatSeconds=3, TimeoutSeconds=60)
beating = sfn.create_state_machine(name="beating", definition=quiet, roleArn=ROLE)["stateMachineArn"]
alive = begin(1, beating)
token = poll()["taskToken"]
began = time.monotonic()
while time.monotonic() - began < 4:
    sfn.send_task_heartbeat(taskToken=token)
    same(sfn.describe_execution(executionArn=alive)["status"], "RUNNING")
    time.sleep(0.1)
sfn.send_task_success(taskToken=token, output="true")
has(ended(sfn, alive), output="true")
silent = begin(2, beating)
token = poll()["taskToken"]
has(ended(sfn, silent), status="FAILED", error="States.Timeout")
same(types(sfn, silent)[-2:], ["ActivityTimedOut", "ExecutionFailed"])
refused("TaskTimedOut", gone, sfn.send_task_success, taskToken=token, output="1")

# A token travels with a child: `.waitForTaskToken` waits for whoever has it.
child = sfn.create_state_machine(name="child", definition=definition, roleArn=ROLE)["stateMachineArn"]
parent = machine(
    {
        "Ask": {
            "Type": "Task",
            "Resource": "arn:aws:states:::states:startExecution.waitForTaskToken",
            "Parameters": {"StateMachineArn": child, "Input": {"token.$": "$$.Task.Token"}},
            "End": True,
        }
    }
)
parent = sfn.create_state_machine(name="parent", definition=parent, roleArn=ROLE)["stateMachineArn"]
asking = begin({}, parent)
task = poll()
token = json.loads(task["input"])["token"]
sfn.send_task_heartbeat(taskToken=token)
sfn.send_task_success(taskToken=token, output='{"answer": 42}')
same(json.loads(ended(sfn, asking)["output"]), {"answer": 42})
sfn.send_task_success(taskToken=task["taskToken"], output="0")

members(sfn.delete_activity(activityArn=arn))
members(sfn.delete_activity(activityArn=arn))
refused("ActivityDoesNotExist", f"Activity Does Not Exist: '{arn}'", sfn.describe_activity, activityArn=arn)
refused("ActivityDoesNotExist", f"Activity Does Not Exist: '{arn}'", sfn.get_activity_task, activityArn=arn)
until(sfn.list_activities, lambda found: found["activities"] == [])
