"""Moto's server, with AWS's answer where moto's is another: each is what the service itself was recorded to give."""

import json
import re
import sys
from io import BytesIO

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

REQUEST_ID = "4f2b1c9e-7d35-4a0b-9c61-2e8f0a5d7b13"


def refused(kind, message):
    """An error of a service that speaks JSON."""
    return "400 BAD REQUEST", json.dumps({"__type": kind, "message": message})


def answer_of_aws(target, body):
    """What AWS says where moto fails or takes what is wrong; None: moto says it too."""
    if target == "DynamoDB_20120810.PutItem" and body.get("Item") is None:
        words = "1 validation error detected: Value null at 'item' failed to satisfy constraint: Member must not be null"
        return refused("com.amazon.coral.validate#ValidationException", words)
    if target == "secretsmanager.CreateSecret" and not re.fullmatch(r"[-/_+=.@!A-Za-z0-9]+", body.get("Name", "")):
        words = "Invalid name. Must be a valid name containing alphanumeric characters, or any of the following: -/_+=.@!"
        return refused("ValidationException", words)
    return None


class AsAws:
    def __init__(self, moto):
        self.moto = moto

    def __call__(self, environ, start_response):
        target = environ.get("HTTP_X_AMZ_TARGET", "")
        if target.startswith(("DynamoDB_", "secretsmanager.")):
            raw = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            environ["wsgi.input"] = BytesIO(raw)
            answer = answer_of_aws(target, json.loads(raw or b"{}"))
            if answer:
                status, text = answer
                kind = "application/x-amz-json-1.0" if target.startswith("DynamoDB_") else "application/x-amz-json-1.1"
                start_response(status, [("Content-Type", kind), ("x-amzn-RequestId", REQUEST_ID)])
                return [text.encode()]
        signed = environ.get("HTTP_AUTHORIZATION", "")
        begun = []
        said = b"".join(self.moto(environ, lambda status, headers, _=None: begun.extend((status, headers))))
        status, headers = begun
        if "/s3/" in signed:
            headers = headers + [("x-amz-id-2", "extended")] + checksum(headers)
        if "/sns/" in signed and b"<Code>NotFound</Code>" in said:
            said = re.sub(rb"<Message>.*?</Message>", b"<Message>Topic does not exist</Message>", said)
            headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
        start_response(status, headers)
        return [said]


def checksum(headers):
    """S3 tells the type of a checksum wherever it tells a checksum."""
    names = {name.lower() for name, _ in headers}
    is_untold = "x-amz-checksum-crc32" in names and "x-amz-checksum-type" not in names
    return [("x-amz-checksum-type", "FULL_OBJECT")] if is_untold else []


if __name__ == "__main__":
    run_simple(
        "127.0.0.1",
        int(sys.argv[1]),
        AsAws(DomainDispatcherApplication(create_backend_app)),
        threaded=True,
        request_handler=MotoRequestHandler,
    )
