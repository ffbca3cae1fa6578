"""What the programs beside this one share: a client of the server under test, and assertions that say what came."""

import atexit
import json
import re
import sys
import time

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

ARN = "arn:aws:states:us-east-1:123456789012"
ROLE = "arn:aws:iam::123456789012:role/worker"
PATIENCE_SECONDS = 30

# Every action that was called, whatever came of it. The test that runs the programs reads it off the last line.
called = set()
atexit.register(lambda: print("called", *sorted(called), flush=True))


def client(endpoint, *, checked=True, prefix=False, key="test", secret="test", read_timeout=90):
    """A client as any program has one, but without retries: what comes is what is looked at."""
    made = boto3.client(
        "stepfunctions",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=Config(
            inject_host_prefix=prefix,
            parameter_validation=checked,
            retries={"total_max_attempts": 1},
            read_timeout=read_timeout,
        ),
    )
    made.meta.events.register("before-call.sfn", lambda model, **_: called.add(model.name))
    return made


def restart():
    """Ends the server, starts it again on the same data, and gives its new address."""
    print("restart", flush=True)
    return sys.stdin.readline().strip()


def another():
    """Starts a further server, on data and with settings of its own."""
    print("another", flush=True)
    return sys.stdin.readline().strip()


def machine(states, start=None, **more):
    """A definition. Without `start` the first state is it."""
    return json.dumps({"StartAt": start or next(iter(states)), "States": states, **more})


PASS = machine({"Done": {"Type": "Pass", "Result": {"done": True}, "End": True}})
FAIL = machine({"Broken": {"Type": "Fail", "Error": "Broken", "Cause": "on purpose"}})


def activity_machine(arn, **more):
    return machine({"Work": {"Type": "Task", "Resource": arn, "End": True, **more}})


def same(found, wanted, what=""):
    assert found == wanted, f"{what}\n  wanted {wanted!r}\n  found  {found!r}"


def has(found, **wanted):
    """Members of an answer, and their values."""
    for name, value in wanted.items():
        assert name in found, f"{name} is missing in {found!r}"
        same(found[name], value, name)
    return found


def members(found, *names):
    """Exactly these members, the client's own aside."""
    same(sorted(set(found) - {"ResponseMetadata"}), sorted(names), f"members of {found!r}")
    return found


def refused(code, words, call, /, **params):
    """The call is refused with this code, and with these words or words of this pattern."""
    try:
        answer = call(**params)
    except ClientError as error:
        found = error.response["Error"]
        same(found["Code"], code, found["Message"])
        if isinstance(words, re.Pattern):
            assert words.search(found["Message"]), f"{words.pattern} is not in {found['Message']!r}"
        else:
            same(found["Message"], words)
        return error.response
    raise AssertionError(f"{code} did not come for {params!r}, but {answer!r}")


def until(ask, is_right):
    """Asks again and again until the answer is right."""
    began = time.monotonic()
    while True:
        answer = ask()
        if is_right(answer):
            return answer
        assert time.monotonic() - began < PATIENCE_SECONDS, f"it never came right: {answer!r}"
        time.sleep(0.01)


def ended(sfn, arn):
    """The description of an execution that is over."""
    return until(lambda: sfn.describe_execution(executionArn=arn), lambda found: found["status"] != "RUNNING")


def types(sfn, arn, **more):
    return [event["type"] for event in sfn.get_execution_history(executionArn=arn, **more)["events"]]
