"""Every exception of the service's model, provoked once. The server has small quotas, and keys that do not work."""

import pathlib
import re
import sys
import threading

from botocore.exceptions import ReadTimeoutError

from wire import (
    ARN,
    FAIL,
    PASS,
    ROLE,
    activity_machine,
    another,
    client,
    ended,
    machine,
    refused,
    restart,
    same,
    until,
)

sfn = client(sys.argv[1])
provoked = set()


def provoke(code, words, call, /, **params):
    provoked.add(code)
    return refused(code, words, call, **params)


def made(name, definition=PASS, **more):
    return sfn.create_state_machine(name=name, definition=definition, roleArn=ROLE, **more)["stateMachineArn"]


def key(name):
    return {"type": "CUSTOMER_MANAGED_KMS_KEY", "kmsKeyId": f"alias/{name}"}


nobody = f"{ARN}:stateMachine:nobody"
orders = made("orders")

# Names, ARNs, definitions, inputs.
provoke("InvalidName", "Invalid Name: 'two words'", sfn.create_activity, name="two words")
words = "Invalid Arn: 'Invalid ARN prefix: no-arn'"
provoke("InvalidArn", words, sfn.describe_activity, activityArn="no-arn")
words = (
    "Invalid State Machine Definition: 'SCHEMA_VALIDATION_FAILED: These fields are required: [States] at /'"
)
definition = {"name": "x", "definition": '{"StartAt": "A"}', "roleArn": ROLE}
provoke("InvalidDefinition", words, sfn.create_state_machine, **definition)
provoke(
    "InvalidExecutionInput",
    re.compile("^Invalid State Machine Execution Input: 'Unrecognized token 'not': was expecting "),
    sfn.start_execution,
    stateMachineArn=orders,
    input="not JSON",
)
missing = "Either the definition, the role ARN, the LoggingConfiguration, or the TracingConfiguration must be specified"
provoke("MissingRequiredParameter", missing, sfn.update_state_machine, stateMachineArn=orders)
enum = (
    "1 validation error detected: Value 'succeeded' at 'statusFilter' failed to satisfy constraint: Member must "
    "satisfy enum value set: [SUCCEEDED, TIMED_OUT, PENDING_REDRIVE, ABORTED, FAILED, RUNNING]"
)
listed = {"stateMachineArn": orders, "statusFilter": "succeeded"}
provoke("ValidationException", enum, sfn.list_executions, **listed)
provoke("InvalidToken", "Invalid Token: 'Invalid token'", sfn.list_state_machines, nextToken="made-up")

# What is not there, what is there already.
words = f"State Machine Does Not Exist: '{nobody}'"
provoke("StateMachineDoesNotExist", words, sfn.start_execution, stateMachineArn=nobody)
missing = f"{ARN}:execution:orders:nobody"
words = f"Execution Does Not Exist: '{missing}'"
provoke("ExecutionDoesNotExist", words, sfn.describe_execution, executionArn=missing)
missing = f"{ARN}:activity:nobody"
words = f"Activity Does Not Exist: '{missing}'"
provoke("ActivityDoesNotExist", words, sfn.get_activity_task, activityArn=missing)
provoke("ResourceNotFound", f"Resource not found: '{nobody}'", sfn.list_tags_for_resource, resourceArn=nobody)
words = f"State Machine Already Exists: '{orders}'"
other = {"name": "orders", "definition": FAIL, "roleArn": ROLE}
provoke("StateMachineAlreadyExists", words, sfn.create_state_machine, **other)
done = sfn.start_execution(stateMachineArn=orders, name="one")["executionArn"]
ended(sfn, done)
words = f"Execution Already Exists: '{done}'"
provoke("ExecutionAlreadyExists", words, sfn.start_execution, stateMachineArn=orders, name="one")
words = "Execution is SUCCEEDED and cannot be redriven"
provoke("ExecutionNotRedrivable", words, sfn.redrive_execution, executionArn=done)
words = "This operation is not supported by this type of state machine"
provoke("StateMachineTypeNotSupported", words, sfn.start_sync_execution, stateMachineArn=orders)

# Tags, logging, tracing, encryption, keys.
tags = [{"key": f"k{number}", "value": ""} for number in range(51)]
provoke("TooManyTags", re.compile("."), sfn.tag_resource, resourceArn=orders, tags=tags)
words = "Invalid Logging Configuration: Must specify exactly one Log Destination."
provoke("InvalidLoggingConfiguration", words, made, name="x", loggingConfiguration={"level": "ALL"})
tracing = re.compile("^Invalid Tracing Configuration")
provoke("InvalidTracingConfiguration", tracing, made, name="x", tracingConfiguration={})
wrong = {"type": "AWS_OWNED_KEY", "kmsKeyId": "alias/good"}
words = re.compile("^Invalid Encryption Configuration")
provoke("InvalidEncryptionConfiguration", words, made, name="x", encryptionConfiguration=wrong)
provoke("KmsAccessDeniedException", re.compile("."), made, name="x", encryptionConfiguration=key("closed"))
provoke("KmsThrottlingException", re.compile("."), made, name="x", encryptionConfiguration=key("busy"))
sealed = made("sealed", encryptionConfiguration=key("good"))

# Activities: two at most, one poller each, and a task that is answered too late.
pack = sfn.create_activity(name="pack")["activityArn"]
words = re.compile("^Activity already exists", re.IGNORECASE)
provoke("ActivityAlreadyExists", words, sfn.create_activity, name="pack", encryptionConfiguration=key("good"))
sfn.create_activity(name="ship")
provoke("ActivityLimitExceeded", re.compile("."), sfn.create_activity, name="bill")
packing = made("packing", activity_machine(pack))
tasks = []


def wait():
    """A worker that has all the time there is."""
    while not tasks:
        try:
            tasks.append(client(sys.argv[1]).get_activity_task(activityArn=pack))
        except sfn.exceptions.ClientError as error:
            same(error.response["Error"]["Code"], "ActivityWorkerLimitExceeded")


def poll():
    """Another one, which gives up after a second where it was let in before the first."""
    try:
        return short.get_activity_task(activityArn=pack)
    except short.exceptions.ActivityWorkerLimitExceeded as error:
        return error.response["Error"]["Code"]
    except ReadTimeoutError:
        return "let in"


poller = threading.Thread(target=wait)
poller.start()
short = client(sys.argv[1], read_timeout=1)
provoked.add(until(poll, lambda came: came == "ActivityWorkerLimitExceeded"))
running = sfn.start_execution(stateMachineArn=packing)["executionArn"]
poller.join()
token = tasks[0]["taskToken"]
provoke(
    "InvalidOutput", re.compile("^Invalid Output"), sfn.send_task_success, taskToken=token, output="{torn"
)
sfn.send_task_success(taskToken=token, output="1")
ended(sfn, running)
words = "Task Timed Out: 'Provided task does not exist anymore'"
provoke("TaskTimedOut", words, sfn.send_task_success, taskToken=token, output="2")

# Executions: two at once at most.
first = sfn.start_execution(stateMachineArn=packing)["executionArn"]
second = sfn.start_execution(stateMachineArn=packing)["executionArn"]
provoke("ExecutionLimitExceeded", re.compile("."), sfn.start_execution, stateMachineArn=packing)
for arn in (first, second):
    sfn.stop_execution(executionArn=arn)

# Versions: two at most; aliases: one.
for number in (1, 2):
    definition = machine({"Done": {"Type": "Pass", "Result": number, "End": True}})
    sfn.update_state_machine(stateMachineArn=orders, definition=definition, publish=True)
full = {"stateMachineArn": orders, "definition": PASS, "publish": True}
provoke("ServiceQuotaExceededException", re.compile("."), sfn.update_state_machine, **full)
route = [{"stateMachineVersionArn": f"{orders}:1", "weight": 100}]
sfn.create_state_machine_alias(name="live", routingConfiguration=route)
again = {"name": "next", "routingConfiguration": route}
provoke("ServiceQuotaExceededException", re.compile("."), sfn.create_state_machine_alias, **again)
words = re.compile("^Version to be deleted must not be referenced by an alias")
provoke("ConflictException", words, sfn.delete_state_machine_version, stateMachineVersionArn=f"{orders}:1")

# Machines: four at most.
made("fourth")
provoke("StateMachineLimitExceeded", re.compile("."), made, name="fifth")

# A key that worked when the machine was made, and does no more.
settings = pathlib.Path("perdura.toml")
settings.write_text(settings.read_text().replace('"alias/good" = "enabled"', '"alias/good" = "disabled"'))
sfn = client(restart())
found = provoke("KmsInvalidStateException", re.compile("."), sfn.start_execution, stateMachineArn=sealed)
same(found["kmsKeyState"], "DISABLED")

# A token that was given out on other data is whole, but nobody waits for it here.
other = client(another())
words = re.compile("^Task does not exist", re.IGNORECASE)
provoke("TaskDoesNotExist", words, other.send_task_success, taskToken=token, output="1")

# A machine that is being deleted takes nothing more. What runs has to end first, so there is a moment to see it.
waits = machine({"Wait": {"Type": "Wait", "Seconds": 3600, "End": True}})


def delete():
    arn = other.create_state_machine(name="slow", definition=waits, roleArn=ROLE)["stateMachineArn"]
    for _ in range(200):
        other.start_execution(stateMachineArn=arn)
    other.delete_state_machine(stateMachineArn=arn)
    try:
        other.start_execution(stateMachineArn=arn)
    except other.exceptions.StateMachineDeleting as error:
        same(error.response["Error"]["Message"], f"State Machine is deleting: '{arn}'")
        return "StateMachineDeleting"
    except other.exceptions.StateMachineDoesNotExist:
        return "too late"


provoked.add(until(delete, lambda came: came == "StateMachineDeleting"))

modelled = {shape.name for shape in sfn.meta.service_model.error_shapes}
same(sorted(modelled - provoked), [])
