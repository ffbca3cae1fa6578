"""What `/v1` answers, held to its own OpenAPI document: schemathesis makes requests of it, good ones and bad ones.

Each operation has to be reached, and to succeed at least once where it can; no answer may be a server's error, have a
status or a content type that the document lacks, or a body that does not fit its schema.
"""

import hashlib
import json
import os
import secrets
import subprocess
import sys
import urllib.request
import uuid
from pathlib import Path

URL = sys.argv[1]
TASK = "arn:aws:states:us-east-1:123456789012:activity:jobs"
MACHINE = {"StartAt": "T", "States": {"T": {"Type": "Task", "Resource": TASK, "End": True}}}
ROUTES = {"routes": [{"version": 1, "weight": 100}]}
# These streams have no end while nothing ends; below they are asked once.
ENDLESS = {"/v1/executions:events": b"event: open\n", "/v1/executions/{execution}/events": b"id: 1-1\n"}
# What is for a broken execution, for a task that was taken, for a call in doubt, or for a server with a folder for backups: it
# is reached, and refused. What has ended may be cleaned up before it is erased, so it is erased once before; what is resumed
# may not be paused at that moment.
NEVER_WELL = {
    "deleteExecution", "completeTask", "failTask", "heartbeatTask", "resolveCall", "eraseExecution", "eraseKey", "createBackup",
    "resumeMachine", "resumeAll",
}  # fmt: skip


def token():
    """A token, and what the server keeps of it."""
    name, secret = secrets.token_hex(6), secrets.token_bytes(32)
    body = f"pdr_{name}{secret.hex()}"
    kept = {"id": name, "hash": hashlib.sha256(secret).hexdigest(), "name": name, "role": "admin", "tenant": "default"}
    return body + hashlib.sha256(body.encode()).hexdigest()[:8], kept


def ask(method, path, body=None, shows=None, wait=0):
    request = urllib.request.Request(URL + path, method=method, data=None if body is None else json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    request.add_header("Idempotency-Key", str(uuid.uuid4()))
    request.add_header("Prefer", f"wait={wait}")
    if shows:
        request.add_header("Authorization", f"Bearer {shows}")
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.loads(answer.read() or "null")


ask("PUT", "/v1/machines/m", MACHINE)
ask("PUT", "/v1/activities/jobs")
ask("POST", "/v1/machines/m/versions", {})
ask("PUT", "/v1/machines/m/aliases/live", ROUTES)
execution = ask("POST", "/v1/executions", {"machine": "m", "name": "n"})["id"]
ask("PUT", "/v1/machines/m", {**MACHINE, "Comment": "2"})
ask("POST", "/v1/machines/m/versions", {})
ask("PUT", "/v1/machines/m/aliases/spare", ROUTES)
ask("PUT", "/v1/machines/spare", MACHINE)
ask("PUT", "/v1/machines/passes", {"StartAt": "P", "States": {"P": {"Type": "Pass", "End": True}}})
for connection in ["bank", "spare"]:
    ask("PUT", f"/v1/connections/{connection}", {"sealed": "00"})
# From the first token on, everybody is asked for one.
mine, kept = token()
ask("POST", "/v1/tokens", kept)
_, gone = token()
ask("POST", "/v1/tokens", gone, mine)

for path in ["/v1/executions/PASSED/erase", "/v1/erase"]:
    key = str(uuid.uuid4())
    passed = ask("POST", "/v1/executions", {"machine": "passes", "rootKey": key}, mine, wait=20)
    assert passed["status"] == "SUCCEEDED", passed
    erased = ask("POST", path.replace("PASSED", passed["id"]), {"key": key} if path == "/v1/erase" else {}, mine)
    assert erased["executions"] == 1, erased

# What is there, and requests that can be carried out; every second request of an operation is about them.
known = {
    "machine": "m", "execution": execution, "activity": "jobs", "alias": "live", "connection": "bank", "key": execution,
}  # fmt: skip
good = {"putMachine": MACHINE, "putAlias": ROUTES, "createToken": token()[1], "startExecution": {"machine": "m"}}
# What is taken away is always this: schemathesis remembers the names that it was told, and would take away all.
taken = {
    "deleteMachine": {"machine": "spare"}, "deleteAlias": {"machine": "m", "alias": "spare"},
    "deleteVersion": {"machine": "m", "version": "2"}, "deleteConnection": {"connection": "spare"},
    "revokeToken": {"token": gone["id"]},
}  # fmt: skip
Path("known.json").write_text(json.dumps({"known": known, "good": good, "taken": taken, "token": mine}))
Path("hooks.py").write_text(
    '''
import collections, json, uuid
import schemathesis

TOLD = json.load(open("known.json"))
turns = collections.Counter()


@schemathesis.hook
def before_call(context, case, kwargs):
    name = case.operation.definition.raw.get("operationId")
    case.headers["Idempotency-Key"] = str(uuid.uuid4())
    case.headers["Prefer"] = "wait=0"
    case.headers["Authorization"] = "Bearer " + TOLD["token"]
    turns[name] += 1
    if name in TOLD["taken"]:
        case.path_parameters.update(TOLD["taken"][name])
    elif turns[name] % 2:
        for part in case.path_parameters or {}:
            case.path_parameters[part] = TOLD["known"].get(part, case.path_parameters[part])
        if name in TOLD["good"]:
            case.body, case.query = TOLD["good"][name], {}
            case.media_type = "application/json"


@schemathesis.hook
def after_call(context, case, response):
    with open("reached", "a") as reached:
        name = case.operation.definition.raw.get("operationId")
        reached.write(json.dumps([name, response.status_code]) + "\\n")
'''
)
command = [
    str(Path(sys.executable).parent / "schemathesis"), "run", URL + "/openapi.json", "--header", f"Authorization: Bearer {mine}",
    *(part for path in ENDLESS for part in ("--exclude-path", path)),
    "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
    "--phases", "examples,coverage,fuzzing", "--max-examples", "4", "--seed", "7", "--request-timeout", "10",
    "--suppress-health-check", "all", "--workers", "2", "--no-color",
]  # fmt: skip
ended = subprocess.run(command, env={**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": "."}, text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)  # fmt: skip
print(ended.stdout)
assert ended.returncode == 0, "see above"

document = ask("GET", "/openapi.json", shows=mine)
names = {told["operationId"]: path for path, methods in document["paths"].items() for told in methods.values()}
reached = [json.loads(line) for line in Path("reached").read_text().splitlines()]
called, well = {name for name, _ in reached}, {name for name, status in reached if status < 300}
# The document itself was read above, and schemathesis makes no request of it.
missing = {name for name, path in names.items() if path not in ENDLESS} - called - {"readOpenapi"}
assert not missing, f"not reached: {missing}"
refused = called - well - NEVER_WELL
assert not refused, f"never well: {refused}"
# The first one may have been stopped and cleaned up by now.
another = ask("POST", "/v1/executions", {"machine": "m"}, mine)["id"]
for path, first in ENDLESS.items():
    request = urllib.request.Request(URL + path.replace("{execution}", another))
    request.add_header("Authorization", f"Bearer {mine}")
    with urllib.request.urlopen(request, timeout=20) as stream:
        assert stream.readline() == first, path
print("called", len(called))
