"""A function for perdura: POST JSON, answer JSON, and once for each Idempotency-Key.

    python3 worker.py [PORT] [FILE]
"""
import json, sqlite3, sys
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 8090
FILE = sys.argv[2] if len(sys.argv) > 2 else "charges.db"
BODY_MAX = 1 << 20
TABLES = """CREATE TABLE IF NOT EXISTS charge (receipt INTEGER PRIMARY KEY, customer TEXT, cents INTEGER);
            CREATE TABLE IF NOT EXISTS done (key TEXT PRIMARY KEY, request TEXT, answer TEXT);"""

def charge(database, order):
    """The effect. It stands in the transaction that remembers the key, so both happen or neither."""
    if order["cents"] <= 0:
        raise ValueError("an order has an amount")
    row = database.execute("INSERT INTO charge (customer, cents) VALUES (?, ?)", (order["customer"], order["cents"]))
    return {"receipt": row.lastrowid}

def once(key, request):
    """The answer to this key: the first one, whenever it is asked for again."""
    with closing(sqlite3.connect(FILE, timeout=30, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")  # a second call with the same key waits here for the first
        known = database.execute("SELECT request, answer FROM done WHERE key = ?", (key,)).fetchone()
        if known:
            return (200, known[1]) if known[0] == request else (422, error("KeyReused", "the key had another request"))
        try:
            answer = json.dumps(charge(database, json.loads(request)))
        except (ValueError, KeyError, TypeError) as refused:  # nothing was done: closing takes it back
            return 400, error(type(refused).__name__, str(refused))
        database.execute("INSERT INTO done VALUES (?, ?, ?)", (key, request, answer))
        database.execute("COMMIT")
        return 200, answer

def error(name, cause):
    return json.dumps({"errorType": name, "errorMessage": cause})

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        key, size = self.headers.get("Idempotency-Key"), int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(min(size, BODY_MAX))
        if not key or len(body) != size:
            status, answer = 400, error("BadRequest", "a request has an Idempotency-Key and at most 1 MiB")
        else:
            status, answer = once(key, body.decode(errors="replace"))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.encode())))
        self.end_headers()
        self.wfile.write(answer.encode())

with closing(sqlite3.connect(FILE)) as database:
    database.executescript(TABLES)
server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
print(f"listens on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
