"""Express machines: answered at once or run on their own, with names that need not be unique."""

import json
import re
import socket
import sys

from wire import ARN, FAIL, PASS, ROLE, client, has, machine, refused, same

endpoint = sys.argv[1]
sfn = client(endpoint)
quick = sfn.create_state_machine(name="quick", definition=PASS, roleArn=ROLE, type="EXPRESS")[
    "stateMachineArn"
]
has(sfn.describe_state_machine(stateMachineArn=quick), type="EXPRESS")

answer = sfn.start_sync_execution(stateMachineArn=quick, name="one", input='{"a": 1}', traceHeader="Root=1")
has(
    answer,
    stateMachineArn=quick,
    name="one",
    status="SUCCEEDED",
    input='{"a": 1}',
    inputDetails={"included": True},
    outputDetails={"included": True},
    traceHeader="Root=1",
)
same(json.loads(answer["output"]), {"done": True})
assert re.fullmatch(re.escape(f"{ARN}:express:quick:one:") + r"[0-9a-f-]{36}", answer["executionArn"]), answer
assert answer["stopDate"] >= answer["startDate"], answer
same(sorted(answer["billingDetails"]), ["billedDurationInMilliseconds", "billedMemoryUsedInMB"])
# The same name is another execution.
assert sfn.start_sync_execution(stateMachineArn=quick, name="one")["executionArn"] != answer["executionArn"]
bare = sfn.start_sync_execution(stateMachineArn=quick, includedData="METADATA_ONLY")
assert "output" not in bare and bare["outputDetails"] == {"included": False}, bare

# An execution that fails is an answer, not an error of the call.
broken = sfn.create_state_machine(name="broken", definition=FAIL, roleArn=ROLE, type="EXPRESS")[
    "stateMachineArn"
]
answer = has(
    sfn.start_sync_execution(stateMachineArn=broken), status="FAILED", error="Broken", cause="on purpose"
)
assert "output" not in answer, answer
late = machine({"Wait": {"Type": "Wait", "Seconds": 30, "End": True}}, TimeoutSeconds=1)
late = sfn.create_state_machine(name="late", definition=late, roleArn=ROLE, type="EXPRESS")["stateMachineArn"]
has(sfn.start_sync_execution(stateMachineArn=late), status="TIMED_OUT")

# On its own: an ARN, and nothing to ask about it.
arn = sfn.start_execution(stateMachineArn=quick, name="two")["executionArn"]
assert re.fullmatch(re.escape(f"{ARN}:express:quick:two:") + r"[0-9a-f-]{36}", arn), arn
for ask in (sfn.describe_execution, sfn.get_execution_history, sfn.stop_execution, sfn.redrive_execution):
    refused("InvalidArn", re.compile("^Invalid Arn: "), ask, executionArn=arn)
unsupported = "This operation is not supported by this type of state machine"
refused("StateMachineTypeNotSupported", unsupported, sfn.list_executions, stateMachineArn=quick)
standard = sfn.create_state_machine(name="standard", definition=PASS, roleArn=ROLE)["stateMachineArn"]
refused("StateMachineTypeNotSupported", unsupported, sfn.start_sync_execution, stateMachineArn=standard)

# A client that puts `sync-` before the host, and what an entry in the hosts file would do for it.
names = set()
resolve = socket.getaddrinfo


def lead_here(host, *more, **named):
    names.add(host)
    return resolve("127.0.0.1", *more, **named)


socket.getaddrinfo = lead_here
prefixed = client(endpoint.replace("127.0.0.1", "states.internal"), prefix=True)
has(prefixed.start_sync_execution(stateMachineArn=quick), status="SUCCEEDED")
has(
    prefixed.test_state(definition='{"Type": "Succeed"}', roleArn=ROLE, input="5"),
    status="SUCCEEDED",
    output="5",
)
same(names, {"sync-states.internal"})
