"""What a scenario is played with: instances of a service, a relay in front of their store, callers, and a ledger."""

import http.client
import json
import socket
import subprocess
import threading
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

LEASE = 3.0  # seconds; for those that have one
PATIENCE = 12.0  # an answer that takes longer is none
API_KEY = "open-sesame"


class Relay:
    """Stands in front of a server, on a port of its own, and can be cut and mended."""

    def __init__(self, host, port):
        self.target, self.port, self.sockets = (host, port), 0, set()
        self.mend()

    def mend(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def cut(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for each in list(self.sockets):
            close(each)
        self.sockets.clear()

    def _accept(self, listener):
        while True:
            try:
                here, _ = listener.accept()
            except OSError:
                return
            there = socket.create_connection(self.target)
            self.sockets |= {here, there}
            for pair in ((here, there), (there, here)):
                threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        close(source)
        close(sink)


def close(end):
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()


def start(command, log=subprocess.DEVNULL):
    """Starts a program and waits until it says where it listens: the program, what it said before, and its port."""
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    said = ""
    for line in program.stdout:
        if line.startswith("listening on "):
            threading.Thread(target=program.stdout.read, daemon=True).start()
            return program, said, urlsplit(line.removeprefix("listening on ").strip()).port
        said += line
    raise RuntimeError(f"{' '.join(command)} did not start; it ended with {program.wait()}")


def end(program):
    program.kill()
    program.wait()


class Answer:
    def __init__(self, status, body=b""):
        self.status, self.body = status, body

    @property
    def succeeded(self):
        return isinstance(self.status, int) and self.status < 300

    def told(self):
        """What the body says about itself: the receipt of a deed, or all of it where a deed has none."""
        try:
            body = json.loads(self.body)
            return body.get("receipt", self.body)
        except (ValueError, AttributeError):
            return self.body

    def reason(self):
        """Of a 409 that a retry does not change, in a word."""
        reasons = {"OUTCOME_UNKNOWN": " unknown", "RESULT_NOT_RETAINED": " not kept"}
        return next((word for reason, word in reasons.items() if reason.encode() in self.body), "")


class Scene:
    """One scenario with one peer: its ledger, its relay, its instances, the one key, and the answers in their order."""

    def __init__(self, peer, stores, folder, more=()):
        self.peer, self.folder, self.more = peer, folder, list(more)
        self.ledger, self.key, self.cookie = folder / "ledger", str(uuid.uuid4()), None
        self.stack, self.answers, self.what_it_is = ExitStack(), [], ""
        self.relay, self.amount = None, "500"
        if peer.store != "memory":
            url = urlsplit(stores[peer.store])
            self.relay = Relay(url.hostname, url.port)
            self.stack.callback(self.relay.cut)
            netloc = url.netloc.replace(f"{url.hostname}:{url.port}", f"127.0.0.1:{self.relay.port}")
            self.store = url._replace(netloc=netloc).geturl()
        else:
            self.store = "memory"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()

    def instance(self, halt_at=None, work=0.1):
        command = self.peer.command + [
            "--store", self.store, "--ledger", str(self.ledger), "--work-ms", str(int(work * 1000)),
            "--lease-ms", str(int(LEASE * 1000)), *self.more, *(["--halt-at", halt_at] if halt_at else []),
        ]
        if self.peer.name.startswith("perdura"):
            command += ["--listen", "127.0.0.1:0"]
        log = self.stack.enter_context(open(self.folder / "log", "a"))
        try:
            program, said, port = start(command, log)
        except RuntimeError as error:
            raise RuntimeError(f"{error}: {(self.folder / 'log').read_text()}") from None
        self.stack.callback(end, program)
        self.what_it_is = said.strip().removeprefix("this is ") if said.startswith("this is ") else ""
        if self.peer.signs_in and self.cookie is None:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            connection.request("POST", "/sign-in")
            self.cookie = connection.getresponse().getheader("set-cookie").split(";")[0]
        return program, port

    def request(self):
        """Body and headers. They are the same wherever and however it is sent: some compare all of it."""
        body = f'{{"reference": "{self.key}", "to": "bob", "{self.peer.what}": {self.amount}}}'
        headers = {
            "Host": "shop",
            "Accept-Encoding": "identity",
            "Content-Length": str(len(body)),
            "Content-Type": "application/json",
            "Idempotency-Key": self.key,
            "x-api-key": API_KEY,
        }
        return body, headers | ({"Cookie": self.cookie} if self.cookie else {})

    def ask(self, port, keep=True):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            connection.request("POST", self.peer.path, *self.request())
            response = connection.getresponse()
            answer = Answer(response.status, response.read())
        except TimeoutError:
            answer = Answer("no answer")
        except (OSError, http.client.HTTPException):
            answer = Answer("cut off")
        finally:
            connection.close()
        if keep:
            self.answers.append(answer)
        return answer

    def ask_beside(self, port):
        """Asks on a thread of its own. The answer is kept when it is joined."""
        asked = []
        thread = threading.Thread(target=lambda: asked.append(self.ask(port, keep=False)))
        thread.start()

        def join():
            thread.join()
            self.answers += asked

        return join

    def ask_until_done(self, port):
        """Asks again, and if refused once more when any lease has ended. Of two equal refusals one is kept."""
        refused = self.ask(port)
        if not refused.succeeded:
            time.sleep(LEASE + 0.5)
            if self.ask(port).status == refused.status:
                self.answers.pop()

    def deeds(self):
        lines = self.ledger.read_text().splitlines() if self.ledger.is_file() else []
        return [line for line in map(json.loads, lines) if line["reference"] == self.key]

    def summary(self, counted=False):
        """How often it was done, and the answers; a letter says which deed's answer it is."""
        deeds = self.deeds()
        known = [deed["receipt"] for deed in deeds if "receipt" in deed]
        texts = []
        for answer in self.answers:
            text = f"{answer.status}{answer.reason()}"
            if answer.succeeded:
                if answer.told() not in known:
                    known.append(answer.told())
                text += f" {chr(ord('A') + known.index(answer.told()))}"
            texts.append(text)
        return f"**{len(deeds)}**: {', '.join(self._counted() if counted else texts)}"

    def _counted(self):
        """How many got which status, and with how many different answers."""
        for status in sorted({answer.status for answer in self.answers}, key=str):
            told = [answer.told() for answer in self.answers if answer.status == status]
            differ = f" ({len(set(told))} different)" if status == 201 and len(set(told)) > 1 else ""
            yield f"{len(told)} × {status}{differ}"


def wait_until(what, true, patience=PATIENCE):
    until = time.monotonic() + patience
    while not true():
        if time.monotonic() > until:
            raise RuntimeError(f"waited in vain until {what}")
        time.sleep(0.01)


def stopped(program):
    state = lambda: Path(f"/proc/{program.pid}/stat").read_text().rpartition(") ")[2][0]
    wait_until("it stops", lambda: state() == "T")
