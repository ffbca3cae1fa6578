"""The life of a state machine: made, made again, described, changed, tagged, validated, deleted."""

import json
import sys

from wire import ARN, FAIL, PASS, ROLE, client, ended, has, machine, members, refused, same, until

sfn = client(sys.argv[1])
arn = f"{ARN}:stateMachine:orders"

made = sfn.create_state_machine(
    name="orders",
    definition=PASS,
    roleArn=ROLE,
    tags=[{"key": "team", "value": "shop"}],
    tracingConfiguration={"enabled": True},
)
members(made, "stateMachineArn", "creationDate")
same(made["stateMachineArn"], arn)

# The same again is the same machine, whatever its role and tags are; another one is not.
again = sfn.create_state_machine(
    name="orders", definition=PASS, roleArn=ROLE + "2", tracingConfiguration={"enabled": True}
)
same(again["creationDate"], made["creationDate"])
taken = f"State Machine Already Exists: '{arn}'"
refused(
    "StateMachineAlreadyExists", taken, sfn.create_state_machine, name="orders", definition=FAIL, roleArn=ROLE
)

described = sfn.describe_state_machine(stateMachineArn=arn)
has(
    described,
    stateMachineArn=arn,
    name="orders",
    status="ACTIVE",
    definition=PASS,
    roleArn=ROLE,
    type="STANDARD",
    creationDate=made["creationDate"],
    loggingConfiguration={"level": "OFF", "includeExecutionData": False},
    tracingConfiguration={"enabled": True},
    encryptionConfiguration={"type": "AWS_OWNED_KEY"},
)
assert "revisionId" not in described, described
same(sfn.describe_state_machine(stateMachineArn=arn, includedData="METADATA_ONLY")["definition"], "")

# A change has a revision of its own.
changed = sfn.update_state_machine(stateMachineArn=arn, definition=FAIL)
members(changed, "updateDate", "revisionId")
described = has(
    sfn.describe_state_machine(stateMachineArn=arn),
    definition=FAIL,
    roleArn=ROLE,
    revisionId=changed["revisionId"],
    tracingConfiguration={"enabled": True},
)
role = sfn.update_state_machine(stateMachineArn=arn, roleArn=ROLE + "3")
assert role["revisionId"] != changed["revisionId"], role
has(sfn.describe_state_machine(stateMachineArn=arn), definition=FAIL, roleArn=ROLE + "3")

# Logging and encryption are kept and returned.
group = "arn:aws:logs:us-east-1:123456789012:log-group:orders:*"
logging = {
    "level": "ERROR",
    "includeExecutionData": True,
    "destinations": [{"cloudWatchLogsLogGroup": {"logGroupArn": group}}],
}
key = "arn:aws:kms:us-east-1:123456789012:key/0f8c5c48-55b1-4a05-9d9a-5b0c8f1f7b11"
encryption = {"type": "CUSTOMER_MANAGED_KMS_KEY", "kmsKeyId": key, "kmsDataKeyReusePeriodSeconds": 120}
sfn.update_state_machine(
    stateMachineArn=arn, loggingConfiguration=logging, encryptionConfiguration=encryption, definition=PASS
)
has(
    sfn.describe_state_machine(stateMachineArn=arn),
    loggingConfiguration=logging,
    encryptionConfiguration=encryption,
)

# Variables that states refer to.
assigns = machine(
    {
        "Set": {"Type": "Pass", "Assign": {"price": 3}, "Next": "Use"},
        "Use": {"Type": "Pass", "Parameters": {"paid.$": "$price"}, "End": True},
    }
)
variables = sfn.create_state_machine(name="variables", definition=assigns, roleArn=ROLE)["stateMachineArn"]
has(sfn.describe_state_machine(stateMachineArn=variables), variableReferences={"Use": ["price"]})

# Tags.
same(sfn.list_tags_for_resource(resourceArn=arn)["tags"], [{"key": "team", "value": "shop"}])
members(
    sfn.tag_resource(resourceArn=arn, tags=[{"key": "team", "value": "web"}, {"key": "cost", "value": ""}])
)
tags = sorted(sfn.list_tags_for_resource(resourceArn=arn)["tags"], key=lambda tag: tag["key"])
same(tags, [{"key": "cost", "value": ""}, {"key": "team", "value": "web"}])
members(sfn.untag_resource(resourceArn=arn, tagKeys=["team", "never"]))
same(sfn.list_tags_for_resource(resourceArn=arn)["tags"], [{"key": "cost", "value": ""}])
missing = f"{ARN}:stateMachine:nobody"
refused(
    "ResourceNotFound", f"Resource not found: '{missing}'", sfn.list_tags_for_resource, resourceArn=missing
)

# What is wrong with a definition, without making anything of it.
has(sfn.validate_state_machine_definition(definition=PASS), result="OK", diagnostics=[], truncated=False)
wrong = machine({"Done": {"Type": "Pass", "Next": "Nowhere"}})
found = has(sfn.validate_state_machine_definition(definition=wrong, type="STANDARD"), result="FAIL")
diagnostic = found["diagnostics"][0]
has(diagnostic, severity="ERROR", code="MISSING_TRANSITION_TARGET", location="/States/Done/Next")
several = machine({"A": {"Type": "Pass", "Next": "X"}, "B": {"Type": "Pass", "Next": "Y"}})
found = sfn.validate_state_machine_definition(definition=several, maxResults=1)
has(found, result="FAIL", truncated=True)
same(len(found["diagnostics"]), 1)

# Deleting ends what runs, and what is gone can be deleted again.
waits = machine({"Wait": {"Type": "Wait", "Seconds": 3600, "End": True}})
slow = sfn.create_state_machine(name="slow", definition=waits, roleArn=ROLE)["stateMachineArn"]
running = sfn.start_execution(stateMachineArn=slow, input=json.dumps({"a": 1}))["executionArn"]
members(sfn.delete_state_machine(stateMachineArn=slow))
same(ended(sfn, running)["status"], "ABORTED")


def machines():
    return [one["name"] for one in sfn.list_state_machines()["stateMachines"]]


until(machines, lambda names: "slow" not in names)
members(sfn.delete_state_machine(stateMachineArn=slow))
gone = f"State Machine Does Not Exist: '{slow}'"
refused("StateMachineDoesNotExist", gone, sfn.describe_state_machine, stateMachineArn=slow)
same(sorted(machines()), ["orders", "variables"])
listed = next(one for one in sfn.list_state_machines()["stateMachines"] if one["name"] == "orders")
same(
    listed,
    {"stateMachineArn": arn, "name": "orders", "type": "STANDARD", "creationDate": made["creationDate"]},
)
