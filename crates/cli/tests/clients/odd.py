"""Every member of every action with values that make no sense: a refusal with a code, or an answer, never a failure."""

import http.client
import json
import sys
from urllib.parse import urlsplit

from wire import ARN, PASS, ROLE, activity_machine, client, ended, machine, same

endpoint = sys.argv[1]
sfn = client(endpoint)

# Something of each kind, so that what is odd is the only thing that is wrong.
orders = sfn.create_state_machine(name="orders", definition=PASS, roleArn=ROLE, publish=True)[
    "stateMachineArn"
]
quick = sfn.create_state_machine(name="quick", definition=PASS, roleArn=ROLE, type="EXPRESS")[
    "stateMachineArn"
]
route = [{"stateMachineVersionArn": f"{orders}:1", "weight": 100}]
sfn.create_state_machine_alias(name="live", routingConfiguration=route)
pack = sfn.create_activity(name="pack")["activityArn"]
done = sfn.start_execution(stateMachineArn=orders, name="done")["executionArn"]
ended(sfn, done)
packing = sfn.create_state_machine(name="packing", definition=activity_machine(pack), roleArn=ROLE)[
    "stateMachineArn"
]
waiting = sfn.start_execution(stateMachineArn=packing, name="waiting")["executionArn"]
token = sfn.get_activity_task(activityArn=pack)["taskToken"]
express = sfn.start_execution(stateMachineArn=quick)["executionArn"]
each = {
    "Type": "Map",
    "Label": "each",
    "ItemProcessor": {
        "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
        "StartAt": "P",
        "States": {"P": {"Type": "Pass", "End": True}},
    },
    "End": True,
}
mapped = sfn.create_state_machine(name="mapped", definition=machine({"Each": each}), roleArn=ROLE)[
    "stateMachineArn"
]
mapping = sfn.start_execution(stateMachineArn=mapped, input="[1]")["executionArn"]
ended(sfn, mapping)
run = sfn.list_map_runs(executionArn=mapping)["mapRuns"][0]["mapRunArn"]

ARNS = [
    orders,
    f"{orders}:1",
    f"{orders}:live",
    f"{mapped}/each",
    quick,
    pack,
    done,
    waiting,
    express,
    mapping,
    run,
]
ODD_ARNS = [
    f"{ARN}",
    f"{ARN}:",
    f"{ARN}:stateMachine:",
    f"{ARN}:stateMachine:orders:",
    f"{ARN}:stateMachine:orders:0",
    f"{ARN}:stateMachine:orders:99999999999999999999",
    f"{ARN}:stateMachine:orders:live:more",
    f"{ARN}:stateMachine:no such",
    f"{ARN}:execution:orders",
    f"{ARN}:execution:orders:done:more",
    f"{ARN}:express:quick:one",
    f"{ARN}:express:quick:one:not-a-uuid",
    f"{ARN}:mapRun:mapped:one",
    f"{ARN}:mapRun:mapped/each:not-a-uuid",
    f"{ARN}:activity:",
    f"{ARN}:unheardOf:thing",
    orders.replace("us-east-1", "eu-west-1"),
    orders.replace("123456789012", "999999999999"),
    orders.replace("arn:aws:", "arn:aws-cn:"),
    "arn:aws:s3:::bucket",
    "arn:" * 60,
]
TEXTS = [
    "",
    " ",
    "x",
    "\u0000",
    "ü✓",
    "\ud83d\ude00",
    "null",
    "{",
    "[]",
    "{}",
    '"',
    "a" * 300,
    "\\",
    "'; --",
    "$",
    "%00",
]
VALUES = [
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    1e308,
    [],
    {},
    [None],
    [[]],
    [{}],
    {"a": None},
    {"key": "k"},
    "2026-01-01",
]
GIVEN = {
    "name": "orders",
    "definition": PASS,
    "roleArn": ROLE,
    "stateMachineArn": orders,
    "stateMachineAliasArn": f"{orders}:live",
    "stateMachineVersionArn": f"{orders}:1",
    "routingConfiguration": route,
    "activityArn": pack,
    "executionArn": done,
    "mapRunArn": run,
    "resourceArn": orders,
    "taskToken": token,
    "output": "{}",
    "tags": [],
    "tagKeys": ["k"],
}
# A poll that is taken waits for a minute; what is deleted is nothing that others can be asked about.
ONCE = {
    "GetActivityTask",
    "DeleteActivity",
    "DeleteStateMachine",
    "DeleteStateMachineAlias",
    "DeleteStateMachineVersion",
}

place = urlsplit(endpoint)
connection = http.client.HTTPConnection(place.hostname, place.port, timeout=90)
counts = {}


def send(action, body):
    head = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"AWSStepFunctions.{action}"}
    connection.request("POST", "/", body if isinstance(body, bytes) else json.dumps(body), head)
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status in (200, 400, 413), (action, body, answer.status, text[:500])
    found = json.loads(text)
    if answer.status != 200:
        assert found["__type"] and found.get("message", found.get("Message")) is not None, (
            action,
            body,
            found,
        )
    counts[answer.status] = counts.get(answer.status, 0) + 1
    return answer.status


model = sfn.meta.service_model
for action in model.operation_names:
    shape = model.operation_model(action).input_shape
    usual = {name: GIVEN[name] for name in shape.required_members}
    for name, member in shape.members.items():
        is_text = member.type_name == "string"
        odd = VALUES + TEXTS + (ODD_ARNS + ARNS if name.endswith("Arn") else [])
        if is_text and action in ONCE:
            odd = [value for value in odd if value not in ARNS and value is not None]
        if not (action in ONCE and name not in shape.required_members):
            for value in odd:
                send(action, {**usual, name: value})
    for body in (b"", b"null", b"[]", b"17", b'"x"', b"{", b"\xff\xfe", b'{"a": 1, "a": 2}', b"[" * 100_000):
        if shape.required_members or body != b"":
            send(action, body)
same(send("ListStateMachines", {"noSuchMember": 1, "maxResults": 1}), 200)
for action in ("NoSuchAction", "", "listStateMachines", "List\tStateMachines", "a" * 5000):
    same(send(action, {}), 400, action)

# It is as well as before.
same(ended(sfn, done)["status"], "SUCCEEDED")
same(sfn.describe_state_machine(stateMachineArn=quick)["name"], "quick")
assert counts[400] > 3000, counts
