"""Powertools for AWS Lambda (Python): an idempotent function behind a small HTTP server.

The key is the header, the lease is what the context says is left of the invocation, and the rest is as it comes. With
`--validate` the body is compared too. The statuses of refusals are chosen here: Powertools raises exceptions.
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyPersistenceLayerError,
    IdempotencyValidationError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.cache import CachePersistenceLayer

from shop import Shop

STATUS = {
    IdempotencyAlreadyInProgressError: 409,
    IdempotencyValidationError: 422,
    IdempotencyPersistenceLayerError: 503,
}

shop = Shop("--validate")
if shop.options.store.startswith("redis:"):
    layer = CachePersistenceLayer(url=shop.options.store)
    beside = f"redis {version('redis')}"
else:
    import boto3

    client = boto3.client(
        "dynamodb",
        endpoint_url=shop.options.store,
        region_name="eu-central-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",
    )
    try:
        client.create_table(
            TableName="idempotency",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
    except client.exceptions.ResourceInUseException:
        pass
    layer = DynamoDBPersistenceLayer(table_name="idempotency", boto3_client=client)
    beside = f"boto3 {version('boto3')}, moto {version('moto')}"
config = IdempotencyConfig(
    event_key_jmespath='headers."Idempotency-Key"', payload_validation_jmespath=shop.options.validate or ""
)


class Context:
    def get_remaining_time_in_millis(self):
        return shop.options.lease_ms


@idempotent(config=config, persistence_store=layer)
def pay(event, _context):
    return shop.pay(json.loads(event["body"]))


class Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        event = {"headers": {"Idempotency-Key": self.headers["Idempotency-Key"]}, "body": body}
        try:
            status, answer = 201, pay(event, Context())
        except Exception as error:
            status, answer = STATUS.get(type(error), 500), {"error": repr(error)}
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


server = ThreadingHTTPServer(("127.0.0.1", 0), Door, bind_and_activate=False)
server.socket.close()
server.socket = shop.listen(f"aws-lambda-powertools {version('aws-lambda-powertools')}", beside)
server.serve_forever()
