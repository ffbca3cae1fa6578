"""Each action without each member that it requires, and each required member of a wrong type."""

import re
import sys

from wire import ARN, PASS, ROLE, client, refused

sfn = client(sys.argv[1], checked=False)
machine = f"{ARN}:stateMachine:orders"
GIVEN = {
    "name": "orders",
    "definition": PASS,
    "roleArn": ROLE,
    "stateMachineArn": machine,
    "stateMachineAliasArn": f"{machine}:live",
    "stateMachineVersionArn": f"{machine}:1",
    "routingConfiguration": [{"stateMachineVersionArn": f"{machine}:1", "weight": 100}],
    "activityArn": f"{ARN}:activity:pack",
    "executionArn": f"{ARN}:execution:orders:first",
    "mapRunArn": f"{ARN}:mapRun:orders/each:00000000-0000-4000-8000-000000000000",
    "resourceArn": machine,
    "taskToken": "token",
    "output": "{}",
    "tags": [{"key": "k", "value": "v"}],
    "tagKeys": ["k"],
}

tried = 0
model = sfn.meta.service_model
for action in model.operation_names:
    call = getattr(sfn, re.sub(r"(?<!^)(?=[A-Z])", "_", action).lower())
    shape = model.operation_model(action).input_shape
    for name in shape.required_members:
        given = {other: GIVEN[other] for other in shape.required_members if other != name}
        words = (
            f"1 validation error detected: Value null at '{name}' failed to satisfy constraint: "
            "Member must not be null"
        )
        refused("ValidationException", words, call, **given)
        if shape.members[name].type_name == "string":
            refused("SerializationException", re.compile("."), call, **given, **{name: {"no": "such"}})
        tried += 1
    if len(shape.required_members) > 1:
        count = len(shape.required_members)
        words = re.compile(
            rf"^{count} validation errors detected: (Value null at '\w+' .*Member must not be null(; )?){{{count}}}$"
        )
        refused("ValidationException", words, call)

# Inside of members, too.
INSIDE = [
    ("create_state_machine_alias", "routingConfiguration.1.member.stateMachineVersionArn", [{"weight": 100}]),
    (
        "create_state_machine_alias",
        "routingConfiguration.1.member.weight",
        [{"stateMachineVersionArn": machine + ":1"}],
    ),
    ("create_activity", "encryptionConfiguration.type", {}),
]
for action, place, value in INSIDE:
    words = (
        f"1 validation error detected: Value null at '{place}' failed to satisfy constraint: "
        "Member must not be null"
    )
    given = {"name": "live", place.split(".")[0]: value}
    refused("ValidationException", words, getattr(sfn, action), **given)

assert tried >= 40, tried
