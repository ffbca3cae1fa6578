"""What the services in Python share: the options of the example service, its deed, and where the plug is pulled."""

import argparse
import asyncio
import itertools
import json
import os
import signal
import socket
import time

receipts = itertools.count(1)


class Shop:
    def __init__(self, *more):
        options = argparse.ArgumentParser()
        options.add_argument("--store")
        options.add_argument("--ledger")
        options.add_argument("--lease-ms", type=int)
        options.add_argument("--work-ms", type=int, default=0)
        options.add_argument("--halt-at", default="")
        for name in more:
            options.add_argument(name)
        self.options = options.parse_args()

    def listen(self, *what):
        """A socket on a free port. Says what this is, and where; who asks early waits for the service to come."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        print("this is " + ", ".join(what))
        print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        return listener

    def pay(self, payment):
        """The deed, with work before it and after it."""
        self._plug("before-effect")
        time.sleep(self.options.work_ms / 1000)
        answer = self._deed(payment)
        time.sleep(self.options.work_ms / 1000)
        return answer

    async def pay_async(self, payment):
        """The same on an event loop."""
        self._plug("before-effect")
        await asyncio.sleep(self.options.work_ms / 1000)
        answer = self._deed(payment)
        await asyncio.sleep(self.options.work_ms / 1000)
        return answer

    def _deed(self, payment):
        answer = {"receipt": f"{os.getpid()}-{next(receipts)}", "cents": payment["cents"]}
        line = {"reference": payment["reference"], "receipt": answer["receipt"]}
        with open(self.options.ledger, "a") as ledger:
            ledger.write(json.dumps(line) + "\n")
        self._plug("after-effect")
        return answer

    def _plug(self, point):
        at, _, how = self.options.halt_at.partition("=")
        if at == point:
            self.options.halt_at = ""
            os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGSTOP)
            time.sleep(0.02)
