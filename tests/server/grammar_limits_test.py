"""Grammars that would take minutes or gigabytes to compile: nobody waits for them, they end with who asked for them, and with the
server.

    grammar_limits_test.py GLINT MODEL_DIR

While such a grammar is compiled, a stream of another client goes on, and other requests, also with grammars, are answered: that is
shown by order, as the compilation has a budget of hours. No gap of the stream is as long as five seconds, less what the machine itself
stood still. Then what the budgets do, and which processes are left.
"""
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from grammar_bombs import BOMBS, completion
from served import Served, until

GLINT, MODEL = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
ARGUMENTS = [MODEL, "--threads", 1, "--kv-cache-tokens", 8192, "--max-num-seqs", 8, "--log-level", "error"]
SCHED_IDLE = 5


def children(parent):
    """The living processes that `parent` started, by id: the fields of /proc/PID/stat from the third on."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[1] == str(parent) and fields[0] not in "ZX":
                    found[int(entry.name)] = fields
    return found


class Processes:
    """Processes of a server that compile grammars."""

    def __init__(self, server):
        self.host, = until("a process for grammars", lambda: children(server.process.pid))

    def compiling(self):
        return children(self.host)

    def is_alive(self):
        return pathlib.Path(f"/proc/{self.host}").exists()


class Stalls:
    """The longest time that the machine let a thread wait that wanted to run."""

    def __init__(self):
        self.longest = 0.0
        self.ended = False
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def look(self):
        while not self.ended:
            begin = time.monotonic()
            time.sleep(0.01)
            self.longest = max(self.longest, time.monotonic() - begin - 0.01)

    def end(self):
        self.ended = True
        self.thread.join()


class Stream:
    """A client that reads for as long as it likes, counts the pieces it got, and knows the longest time between two."""

    def __init__(self, server):
        host, port = server.url.removeprefix("http://").split(":")
        self.connection = http.client.HTTPConnection(host, int(port), timeout=120)
        self.address = host, int(port)
        self.count = 0
        self.longest, self.last = 0.0, None
        self.ended = False
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def take_piece(self):
        now = time.monotonic()
        if self.last:
            self.longest = max(self.longest, now - self.last)
        self.last = now
        self.count += 1

    def read(self):
        while not self.ended:
            body = json.dumps({"prompt": "a", "max_tokens": 3000, "stream": True, "ignore_eos": True})
            self.connection.request("POST", "/v1/completions", body, {"content-type": "application/json"})
            response = self.connection.getresponse()
            for line in response:
                if line.startswith(b"data: {"):
                    self.take_piece()
                if self.ended:
                    break
            else:
                continue
            self.connection.close()

    def goes_on(self):
        seen = self.count
        until("the stream goes on", lambda: self.count > seen + 3)

    def end(self):
        self.ended = True
        self.thread.join()


def send(server, path, body):
    host, port = server.url.removeprefix("http://").split(":")
    data = json.dumps(body).encode()
    connection = socket.create_connection((host, int(port)), timeout=60)
    connection.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    return connection


@contextlib.contextmanager
def asked(server, path, body):
    """A client that sends a request, and leaves; nothing came by then."""
    with send(server, path, body) as connection:
        yield
        connection.setblocking(False)
        try:
            raise AssertionError(f"it is answered: {connection.recv(1000)}")
        except BlockingIOError:
            pass


def others_are_served(server, number):
    for path in ("/metrics", "/health", "/v1/models"):
        assert server.request(path)[0] == 200, path
    assert server.request("/tokenize", {"prompt": "a b c"})[0] == 200
    assert server.request(*completion())[0] == 200
    small = {"type": "object", "properties": {f"p{number}": {"type": "boolean"}}, "required": [f"p{number}"]}
    status, _, answer = server.request(*completion(guided_json=small, max_tokens=40))
    assert status == 200, answer


def nobody_waits():
    with Served([GLINT, "serve"], *ARGUMENTS, "--grammar-timeout", 80000, "--grammar-memory", "4G") as server:
        stream, stalls, processes = Stream(server), Stalls(), Processes(server)
        for number, (name, bomb) in enumerate(BOMBS.items()):
            stream.longest = stalls.longest = 0.0
            with asked(server, *bomb):
                until("a grammar compiles", processes.compiling)
                others_are_served(server, number)
                stream.goes_on()
            until("none compiles", lambda: not processes.compiling())  # with its client
            print(f"nobody waits for {name}: {1e3 * stream.longest:.0f} ms", flush=True)
            assert stream.longest < 5 + stalls.longest, (name, stream.longest, stalls.longest)
        stalls.end()

        with asked(server, *BOMBS["an expression"]):
            process, = until("a grammar compiles", processes.compiling)
            until("it is idle work", lambda: children(processes.host)[process][38] == str(SCHED_IDLE))
            assert int(children(processes.host)[process][16]) >= 10, "nice"
        until("none compiles", lambda: not processes.compiling())

        # Whoever names it can abort it; and the signal that ends the server does not wait for it.
        path, body = BOMBS["an expression"]
        aborted = []
        client = threading.Thread(target=lambda: aborted.append(server.request(path, body, {"x-request-id": "mine"})))
        client.start()
        until("a grammar compiles", processes.compiling)
        assert server.request("/abort_request", {"rid": "mine"})[2]["aborted"] == 1
        client.join()
        assert aborted[0][0] == 503 and "aborted" in str(aborted[0][2]), aborted
        until("none compiles", lambda: not processes.compiling())
        left = []
        client = threading.Thread(target=lambda: left.append(server.request(path, body)))
        client.start()
        until("a grammar compiles", processes.compiling)
        stream.end()
        assert server.end(seconds=120) == 0
        client.join()
        assert left[0][0] == 503, left
        until("the process has ended", lambda: not processes.is_alive())


def budgets():
    with Served([GLINT, "serve"], *ARGUMENTS, "--grammar-timeout", 0.3, "--grammar-memory", "96M") as server:
        processes = Processes(server)
        for name, (path, body) in BOMBS.items():
            status, _, answer = server.request(path, body)
            message = answer["error"]["message"]
            if status == 503 and "the machine is too busy" in message:  # other programs had it
                continue
            assert status == 400, (name, status, answer)
            assert "more than 0.3 s of processor time" in message or "more than 96 MiB of memory" in message, (name, message)
            assert server.request(path, body)[2]["error"]["message"] == message, name
            print(f"{name}: {message}", flush=True)
        os.kill(processes.host, signal.SIGKILL)
        until("the process has ended", lambda: processes.host not in children(server.process.pid))
        others_are_served(server, 0)
        assert server.end() == 0


def killed():
    """Whatever happens to the server, nothing of it goes on."""
    with Served([GLINT, "serve"], *ARGUMENTS, "--grammar-timeout", 80000) as server:
        processes = Processes(server)
        with send(server, *BOMBS["an expression"]):
            process, = until("a grammar compiles", processes.compiling)
            server.end(signal.SIGKILL)
            until("both have ended", lambda: not processes.is_alive() and not pathlib.Path(f"/proc/{process}").exists())


def under_other_names():
    with tempfile.TemporaryDirectory() as folder:
        link = pathlib.Path(folder) / "vllm"
        link.symlink_to(GLINT)
        with Served([link, "serve"], *ARGUMENTS, "--host", "127.0.0.1") as server:
            others_are_served(server, 0)
    alone = subprocess.run([GLINT, "--compile-grammars-for-a-server"], close_fds=True, stdin=subprocess.DEVNULL, timeout=60)
    assert alone.returncode == 2, alone
    for arguments, said in ((["--grammar-timeout", "0"], "--grammar-timeout is 0"), (["--grammar-memory", "x"], "--grammar-memory")):
        refused = subprocess.run([GLINT, "serve", MODEL, *arguments], capture_output=True, text=True, timeout=60)
        assert refused.returncode == 2 and said in refused.stderr, refused


nobody_waits()
budgets()
killed()
under_other_names()
