"""Plays the scenarios that break idempotency layers against services that have one, and prints what came of it.

    play.py --peers FOLDER [--payments PROGRAM] [--only NAME] [--scenario NAME] [--verbose]

Each service does the same deed, a line in a ledger, and is spoken to over HTTP. It is told on its command line where to
kill or stop itself; two instances share a store, and a relay in front of the store can be cut. FOLDER holds what
scripts/peers-idempotency installs, PROGRAM is our own example; that script says the rest.
"""

import argparse
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from stage import API_KEY, LEASE, Scene, end, start, stopped

HERE = Path(__file__).resolve().parent
AT_ONCE = 3  # scenarios


class Peer:
    """A service: how it is started, where its store is, and how it is asked."""

    def __init__(self, name, command, store, path="/payments", signs_in=False, what="cents", variants=()):
        self.name, self.command, self.store, self.path = name, command, store, path
        self.signs_in, self.what, self.variants = signs_in, what, variants


def peers(folder, payments):
    python = [str(folder / "venv/bin/python")]
    node = ["node"]
    ours = [] if payments is None else [
        Peer("perdura, `at_most_once`", [payments], "redis"),
        Peer("perdura, `durable`", [payments], "redis", path="/orders", what="item"),
    ]
    validated = (("with payload validation", ["--validate", "body"]),)
    powertools = python + [str(HERE / "powertools.py")]
    express = node + [str(HERE / "express-idempotency.cjs")]
    return ours + [
        Peer("axum-idempotent", [str(folder / "cargo/debug/peer-axum-idempotent")], "postgres", signs_in=True),
        Peer("Powertools, Python, DynamoDB", powertools, "dynamodb", variants=validated),
        Peer("Powertools, Python, Redis", powertools, "redis", variants=validated),
        Peer("Powertools, TypeScript, Redis", node + [str(HERE / "powertools.cjs")], "redis", variants=validated),
        Peer("express-idempotency, memory", express, "memory"),
        Peer("express-idempotency, Redis", express, "redis"),
        Peer("asgi-idempotency-header", python + [str(HERE / "asgi-idempotency-header.py")], "redis"),
        Peer("idemptx", python + [str(HERE / "idemptx-fastapi.py")], "redis"),
    ]


def ten_at_once(scene):
    """Ten at the same moment, half of them to a second instance."""
    ports = [scene.instance(work=1)[1]]
    ports.append(scene.instance(work=1)[1] if scene.relay else ports[0])
    ready = threading.Barrier(10)

    def caller(nth):
        ready.wait()
        scene.ask(ports[nth % 2])

    with ThreadPoolExecutor(10) as callers:
        list(callers.map(caller, range(10)))
    return scene.summary(counted=True)


def another_body(scene):
    """First, the key with another body, and the first again."""
    _, port = scene.instance()
    for scene.amount in ("500", "900", "500"):
        scene.ask(port)
    return scene.summary()


def overtaken(scene, fails):
    """The first is stopped before its deed, longer than the lease; a second instance is asked; the first goes on."""
    if not scene.relay:
        return "–"
    _, second = scene.instance()
    program, first = scene.instance("before-effect=stop")
    paused = scene.ask_beside(first)
    stopped(program)
    time.sleep(LEASE + 0.5)
    scene.ask(second)
    with the_world_refuses(scene.ledger) if fails else ExitStack():
        program.send_signal(signal.SIGCONT)
        paused()
        time.sleep(0.5)  # what it may still do when it has answered
    scene.ask(second)
    return scene.summary()


@contextmanager
def the_world_refuses(ledger):
    """The ledger cannot be written meanwhile."""
    aside = ledger.with_suffix(".aside")
    if ledger.exists():
        ledger.rename(aside)
    ledger.mkdir()
    try:
        yield
    finally:
        ledger.rmdir()
        if aside.exists():
            aside.rename(ledger)


def late_success(scene):
    """Answers: of the second instance, of the first when it went on, of the second again."""
    return overtaken(scene, fails=False)


def late_failure(scene):
    """The same, and the first fails when it goes on."""
    return overtaken(scene, fails=True)


def oversized(scene):
    """An answer of 1.9 MB, and the same again. Written out, a number is longer than it was sent."""
    _, port = scene.instance()
    scene.amount = f"[{','.join(['1e15'] * 100_000)}]"
    scene.ask(port)
    scene.ask_until_done(port)
    return scene.summary()


def client_gone(scene):
    """The client goes away after the deed and before the answer, and comes again a second later."""
    program, port = scene.instance("after-effect=stop", work=0.3)
    body, headers = scene.request()
    lines = [f"POST {scene.peer.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(("\r\n".join(lines) + "\r\n\r\n" + body).encode())
    stopped(program)
    client.close()
    program.send_signal(signal.SIGCONT)
    time.sleep(1)
    scene.ask_until_done(port)
    return scene.summary()


def crash(scene):
    """SIGKILL after the deed and before the record, and the request again, to another process."""
    other = scene.instance()[1] if scene.relay else None
    program, port = scene.instance("after-effect=kill")
    scene.ask(port, keep=False)
    program.wait()
    scene.ask_until_done(other or scene.instance()[1])
    return scene.summary()


def store_down(scene):
    """Asked while the store is down, and again when it is back."""
    if not scene.relay:
        return "–"
    _, port = scene.instance()
    scene.relay.cut()
    scene.ask(port)
    scene.relay.mend()
    time.sleep(1)
    scene.ask_until_done(port)
    return scene.summary()


def store_lost(scene):
    """The store goes down after the deed and before the record, for longer than the lease; then the request again."""
    if not scene.relay:
        return "–"
    program, port = scene.instance("after-effect=stop")
    first = scene.ask_beside(port)
    stopped(program)
    scene.relay.cut()
    program.send_signal(signal.SIGCONT)
    time.sleep(LEASE + 1)
    scene.relay.mend()
    first()
    scene.ask_until_done(port)
    return scene.summary()


SCENARIOS = {
    "ten at once": ten_at_once,
    "another body": another_body,
    "late success": late_success,
    "late failure": late_failure,
    "oversized": oversized,
    "client gone": client_gone,
    "crash": crash,
    "store down": store_down,
    "store lost": store_lost,
}


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--peers", type=Path, required=True)
    options.add_argument("--payments")
    options.add_argument("--only", default="", help="peers whose name has this in it")
    options.add_argument("--scenario", default="", help="scenarios whose name has this in it")
    options.add_argument("--verbose", action="store_true", help="also every answer")
    options = options.parse_args()
    options.peers = options.peers.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of all that is to be cleaned up
    os.environ |= {
        "NODE_PATH": str(options.peers / "node/node_modules"),
        "PAYMENTS_SECRET": "a secret of this run only, and long enough",
        "PAYMENTS_API_KEYS": f"ann={API_KEY}",
        "PYTHONWARNINGS": "ignore",
    }
    stores = {"redis": os.environ["PERDURA_REDIS"], "postgres": os.environ["PERDURA_POSTGRES"]}
    chosen = [peer for peer in peers(options.peers, options.payments) if options.only in peer.name]
    names = [name for name in SCENARIOS if options.scenario in name]
    notes, versions = [], []

    def play(peer, name, folder, more=()):
        folder.mkdir()
        with Scene(peer, stores, folder, more) as scene:
            summary = SCENARIOS.get(name, Scene.instance)(scene)
            if options.verbose:
                bodies = [f"{answer.status} {answer.body[:200]!r}" for answer in scene.answers]
                print(f"{peer.name}, {name}:", *bodies, sep="\n    ", file=sys.stderr)
            return summary, scene.what_it_is

    with tempfile.TemporaryDirectory() as scratch, ExitStack() as servers:
        moto, _, port = start([str(options.peers / "venv/bin/python"), str(HERE / "dynamodb.py")])
        servers.callback(end, moto)
        stores["dynamodb"] = f"http://127.0.0.1:{port}"
        print("|", " | ".join(["", *names]), "|")
        print("|---" * (len(names) + 1) + "|", flush=True)
        for nth, peer in enumerate(chosen):
            # Some make their tables when they first start, and not all can do that twice at the same moment.
            _, what_it_is = play(peer, "nothing", Path(scratch, f"{nth}"))
            versions.append(f"{peer.name}: {what_it_is or 'as built here'}")
            with ThreadPoolExecutor(AT_ONCE) as hands:
                cell = lambda name: play(peer, name, Path(scratch, f"{nth}-{name.replace(' ', '-')}"))
                cells = list(hands.map(cell, names))
            print("|", " | ".join([peer.name, *(summary for summary, _ in cells)]), "|", flush=True)
            for label, more in peer.variants if "another body" in names else ():
                summary, _ = play(peer, "another body", Path(scratch, f"{nth}-variant"), more)
                notes.append(f"{peer.name}, {label}, another body: {summary}")
    print("", *(f"- {line}" for line in notes + versions), sep="\n")


if __name__ == "__main__":
    main()
