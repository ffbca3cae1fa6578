"""A stand-in for DynamoDB: moto, with one request at a time, so that a conditional write is one step as it is there."""

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=False)
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
