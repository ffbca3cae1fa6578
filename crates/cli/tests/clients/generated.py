"""A client that a stranger generates from /openapi.json, and what is done with it."""

import importlib
import json
import subprocess
import sys
import uuid
from pathlib import Path
from urllib.request import urlopen

address = sys.argv[1]
with urlopen(f"{address}/openapi.json") as answer:
    Path("openapi.json").write_bytes(answer.read())
generator = Path(sys.executable).with_name("openapi-python-client")
generate = [generator, "generate", "--path", "openapi.json", "--meta", "none", "--output-path", "generated"]
subprocess.run(generate, check=True, stdout=subprocess.DEVNULL)
sys.path.insert(0, str(Path.cwd()))

from generated import Client, models  # noqa: E402

client = Client(base_url=address)


def call(operation, *path, key=None, **more):
    """Calls an operation by its name in the document."""
    module = importlib.import_module(f"generated.api.default.{operation}")
    if key:
        more["idempotency_key"] = key
    return module.sync_detailed(*path, client=client, **more)


def new_key():
    return str(uuid.uuid4())


WORK = {"StartAt": "Ask", "States": {"Ask": {
    "Type": "Task", "Resource": "arn:aws:states:us-east-1:123456789012:activity:approve", "End": True}}}

deployed = call("put_machine", "order", body=models.PutMachineBody.from_dict(WORK))
assert (deployed.status_code, deployed.parsed.machine) == (200, "order"), deployed
key = new_key()
start = models.Start(machine="order", name="A-1042", input_={"cents": 995})
started = call("start_execution", body=start, key=key)
assert (started.status_code, started.parsed.name) == (201, "A-1042"), started
again = call("start_execution", body=start, key=key)
assert (again.status_code, again.parsed.id) == (201, started.parsed.id), again
other = call("start_execution", body=models.Start(machine="none"), key=new_key())
assert (other.status_code, type(other.parsed)) == (404, models.Problem), other

task = call("poll_activity", "approve", body=models.Poll(worker="python"))
assert (task.status_code, task.parsed.input_) == (200, {"cents": 995}), task
done = models.Complete(token=task.parsed.token, output={"receipt": 1})
assert call("complete_task", body=done, key=new_key()).status_code == 204

shown = call("describe_execution", started.parsed.id)
while shown.parsed.status == "RUNNING":
    shown = call("describe_execution", started.parsed.id)
assert (shown.parsed.status, shown.parsed.output) == ("SUCCEEDED", {"receipt": 1}), shown
listed = call("list_executions", machine="order")
assert [one.id for one in listed.parsed.items] == [started.parsed.id], listed
events = json.loads(call("list_history", started.parsed.id).content)["items"]
assert [event["type"] for event in events][-1] == "ExecutionSucceeded", events
print("ok")
