"""Who may call: requests signed with a key that the server knows, at about its time, as they were signed."""

import datetime
import re
import sys
from unittest import mock

import boto3
import botocore.auth
from botocore import UNSIGNED
from botocore.config import Config

from wire import PASS, ROLE, client, refused, same

endpoint = sys.argv[1]
KEY, SECRET = "AKIAEXAMPLE000000001", "wJalrXUtnFEMI0K7MDENG1bPxRfiCYEXAMPLEKEY2"

sfn = client(endpoint, key=KEY, secret=SECRET)
arn = sfn.create_state_machine(name="orders", definition=PASS, roleArn=ROLE)["stateMachineArn"]
same([one["name"] for one in sfn.list_state_machines()["stateMachines"]], ["orders"])
# Names and texts beyond ASCII are signed, too.
sfn.start_execution(stateMachineArn=arn, input='"Größe ✓"')

wrong = client(endpoint, key=KEY, secret="another")
mismatch = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access "
    "Key and signing method. Consult the service documentation for details."
)
refused("InvalidSignatureException", mismatch, wrong.list_state_machines)
unknown = client(endpoint, key="AKIAEXAMPLE000000002", secret=SECRET)
words = "The security token included in the request is invalid."
refused("UnrecognizedClientException", words, unknown.list_state_machines)
unsigned = boto3.client(
    "stepfunctions",
    endpoint_url=endpoint,
    region_name="us-east-1",
    config=Config(signature_version=UNSIGNED, retries={"total_max_attempts": 1}),
)
refused("MissingAuthenticationTokenException", "Missing Authentication Token", unsigned.list_state_machines)


def at(shift):
    """A client whose clock is off."""
    now = datetime.datetime.now(datetime.timezone.utc) + shift
    return mock.patch.object(
        botocore.auth, "get_current_datetime", lambda remove_tzinfo=True: now.replace(tzinfo=None)
    )


for shift in (datetime.timedelta(minutes=-16), datetime.timedelta(minutes=16)):
    with at(shift):
        refused(
            "InvalidSignatureException",
            re.compile("^Signature (expired|not yet current): "),
            sfn.list_state_machines,
        )
for shift in (datetime.timedelta(minutes=-4), datetime.timedelta(minutes=4)):
    with at(shift):
        sfn.list_state_machines()


def change(request, **_):
    request.body = request.body.replace(b'"maxResults": 1', b'"maxResults": 2')


changed = client(endpoint, key=KEY, secret=SECRET)
changed.meta.events.register("before-send.sfn", change)
changed.list_state_machines()
refused("InvalidSignatureException", mismatch, changed.list_state_machines, maxResults=1)


def retarget(request, **_):
    del request.headers["X-Amz-Target"]
    request.headers["X-Amz-Target"] = "AWSStepFunctions.ListActivities"


redirected = client(endpoint, key=KEY, secret=SECRET)
redirected.meta.events.register("before-send.sfn.ListStateMachines", retarget)
refused("InvalidSignatureException", mismatch, redirected.list_state_machines)
elsewhere = boto3.client(
    "stepfunctions",
    endpoint_url=endpoint,
    region_name="eu-west-1",
    aws_access_key_id=KEY,
    aws_secret_access_key=SECRET,
    config=Config(retries={"total_max_attempts": 1}),
)
refused(
    "InvalidSignatureException", re.compile("^Credential should be scoped to "), elsewhere.list_state_machines
)
