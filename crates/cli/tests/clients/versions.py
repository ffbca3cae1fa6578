"""Versions and aliases: published, routed by weight, described, listed, deleted."""

import sys

from wire import ARN, ROLE, client, ended, has, machine, members, refused, same

sfn = client(sys.argv[1])
arn = f"{ARN}:stateMachine:orders"


def numbered(number):
    return machine({"Done": {"Type": "Pass", "Result": number, "End": True}})


made = sfn.create_state_machine(
    name="orders", definition=numbered(1), roleArn=ROLE, publish=True, versionDescription="the first"
)
members(made, "stateMachineArn", "creationDate", "stateMachineVersionArn")
same(made["stateMachineVersionArn"], f"{arn}:1")

# A version is published once for each revision, and numbers are not used again.
same(sfn.publish_state_machine_version(stateMachineArn=arn)["stateMachineVersionArn"], f"{arn}:1")
second = sfn.update_state_machine(
    stateMachineArn=arn, definition=numbered(2), publish=True, versionDescription="2nd"
)
members(second, "updateDate", "revisionId", "stateMachineVersionArn")
same(second["stateMachineVersionArn"], f"{arn}:2")
third = sfn.update_state_machine(stateMachineArn=arn, definition=numbered(3))
published = sfn.publish_state_machine_version(
    stateMachineArn=arn, revisionId=third["revisionId"], description="the third"
)
members(published, "creationDate", "stateMachineVersionArn")
same(published["stateMachineVersionArn"], f"{arn}:3")
refused(
    "ConflictException",
    "Failed to publish the State Machine version for revision "
    f"{second['revisionId']}. The current State Machine revision is {third['revisionId']}.",
    sfn.publish_state_machine_version,
    stateMachineArn=arn,
    revisionId=second["revisionId"],
)
versions = sfn.list_state_machine_versions(stateMachineArn=arn)["stateMachineVersions"]
same([one["stateMachineVersionArn"] for one in versions], [f"{arn}:3", f"{arn}:2", f"{arn}:1"])
described = sfn.describe_state_machine(stateMachineArn=f"{arn}:2")
has(
    described,
    stateMachineArn=f"{arn}:2",
    definition=numbered(2),
    description="2nd",
    revisionId=second["revisionId"],
)

# An alias leads to one version or, by weight, to two.
route = [{"stateMachineVersionArn": f"{arn}:1", "weight": 100}]
alias = sfn.create_state_machine_alias(name="live", description="what runs", routingConfiguration=route)
members(alias, "stateMachineAliasArn", "creationDate")
same(alias["stateMachineAliasArn"], f"{arn}:live")
described = sfn.describe_state_machine_alias(stateMachineAliasArn=f"{arn}:live")
has(
    described,
    name="live",
    description="what runs",
    routingConfiguration=route,
    creationDate=alias["creationDate"],
)
by_alias = sfn.start_execution(stateMachineArn=f"{arn}:live")["executionArn"]
has(
    ended(sfn, by_alias),
    output="1",
    stateMachineArn=arn,
    stateMachineVersionArn=f"{arn}:1",
    stateMachineAliasArn=f"{arn}:live",
)
by_version = sfn.start_execution(stateMachineArn=f"{arn}:2")["executionArn"]
found = has(ended(sfn, by_version), output="2", stateMachineVersionArn=f"{arn}:2")
assert "stateMachineAliasArn" not in found, found
plain = ended(sfn, sfn.start_execution(stateMachineArn=arn)["executionArn"])
has(plain, output="3")
assert "stateMachineVersionArn" not in plain, plain
of_alias = sfn.list_executions(stateMachineArn=f"{arn}:live")["executions"]
same([one["executionArn"] for one in of_alias], [by_alias])
of_version = sfn.list_executions(stateMachineArn=f"{arn}:2")["executions"]
same([one["executionArn"] for one in of_version], [by_version])

halves = [
    {"stateMachineVersionArn": f"{arn}:2", "weight": 50},
    {"stateMachineVersionArn": f"{arn}:3", "weight": 50},
]
members(
    sfn.update_state_machine_alias(stateMachineAliasArn=f"{arn}:live", routingConfiguration=halves),
    "updateDate",
)
described = sfn.describe_state_machine_alias(stateMachineAliasArn=f"{arn}:live")
has(described, routingConfiguration=halves, description="what runs")
# Sixty of one kind come by chance once in 10^18 runs.
starts = [sfn.start_execution(stateMachineArn=f"{arn}:live")["executionArn"] for _ in range(60)]
same({ended(sfn, one)["output"] for one in starts}, {"2", "3"})
whole = [
    {"stateMachineVersionArn": f"{arn}:2", "weight": 0},
    {"stateMachineVersionArn": f"{arn}:3", "weight": 100},
]
sfn.update_state_machine_alias(
    stateMachineAliasArn=f"{arn}:live", routingConfiguration=whole, description="all"
)
starts = [sfn.start_execution(stateMachineArn=f"{arn}:live")["executionArn"] for _ in range(5)]
same({ended(sfn, one)["output"] for one in starts}, {"3"})
aliases = sfn.list_state_machine_aliases(stateMachineArn=arn)["stateMachineAliases"]
same([one["stateMachineAliasArn"] for one in aliases], [f"{arn}:live"])
same(sfn.list_state_machine_aliases(stateMachineArn=f"{arn}:1")["stateMachineAliases"], [])

# What an alias leads to cannot be deleted; what is not there can.
referenced = (
    "Version to be deleted must not be referenced by an alias. "
    "Current list of aliases referencing this version: [live]"
)
refused("ConflictException", referenced, sfn.delete_state_machine_version, stateMachineVersionArn=f"{arn}:3")
members(sfn.delete_state_machine_alias(stateMachineAliasArn=f"{arn}:live"))
members(sfn.delete_state_machine_alias(stateMachineAliasArn=f"{arn}:live"))
members(sfn.delete_state_machine_version(stateMachineVersionArn=f"{arn}:3"))
members(sfn.delete_state_machine_version(stateMachineVersionArn=f"{arn}:3"))
versions = sfn.list_state_machine_versions(stateMachineArn=arn)["stateMachineVersions"]
same([one["stateMachineVersionArn"] for one in versions], [f"{arn}:2", f"{arn}:1"])
sfn.update_state_machine(stateMachineArn=arn, definition=numbered(4), publish=True)
versions = sfn.list_state_machine_versions(stateMachineArn=arn)["stateMachineVersions"]
same(versions[0]["stateMachineVersionArn"], f"{arn}:4")
