"""Starts `glint serve` (or another of its names) for a test, on a free port, and waits until it serves."""
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request


def text_of(stream):
    """The text of a streamed completion."""
    chunks = [json.loads(line[6:]) for line in stream.split("\n") if line.startswith("data: {")]
    return "".join(choice["text"] for chunk in chunks for choice in chunk.get("choices", []))


def until(what, true, seconds=120):
    """Waits for `true()`, and returns it."""
    end = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.02)
    return value


def free_port():
    """For a program that is told its port. It lies below those that the system picks by itself, or another program might get it meanwhile."""
    picked = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(10000, max(picked, 20000)), 1000):
        with contextlib.suppress(OSError), socket.socket() as one:
            one.bind(("", port))
            return port
    raise RuntimeError("no port is free")


class Served:
    """A program that serves; its lines on stderr are in `lines`."""

    def __init__(self, command, *arguments, env=None, port=0):
        self.process = subprocess.Popen([*command, *map(str, arguments), "--port", str(port)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self.lines = []
        self.url = None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))
            found = re.fullmatch(r"""(?:{.*"message":")?serving (\S+) on (https?://[^\s"]+)(?:"})?""", line.strip())
            if found:
                self.name, self.url = found.groups()
                break
        if self.url is None:
            raise RuntimeError(f"exit {self.process.wait()}: " + "\n".join(self.lines))
        # Later lines are read too, so that a full pipe never stops the server.
        self.reader = threading.Thread(target=lambda: self.lines.extend(line.rstrip("\n") for line in self.process.stderr))
        self.reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end()

    def end(self, how=signal.SIGTERM, seconds=60):
        """Sends the signal and returns the exit code."""
        self.process.send_signal(how)
        code = self.process.wait(seconds)
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def request(self, path, body=None, headers=None):
        """(status, headers, body): JSON if it is."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                status, head, text = response.status, response.headers, response.read().decode()
        except urllib.error.HTTPError as error:
            status, head, text = error.code, error.headers, error.read().decode()
        return status, head, json.loads(text) if "json" in head.get("content-type", "") else text

    def ranks(self):
        return self.request("/server_info")[2]["ranks"]

    def generated_tokens(self):
        return self.request("/server_info")[2]["engine"]["generated_tokens"]

    def until_health_is(self, status):
        until(f"health is {status}", lambda: self.request("/health")[0] == status)

    def busy(self, run):
        """The futures that `run` returns, of requests that have not all ended: a fault would come too late then."""
        for _ in range(10):
            done, running = self.generated_tokens(), run()
            until("tokens", lambda: self.generated_tokens() > done + 100)
            if not all(one.done() for one in running):
                return running
        raise AssertionError("the fault comes too late")

    def loses_a_rank(self, rank, how=signal.SIGKILL):
        """Which is back when this returns."""
        lost = self.ranks()[rank]["pid"]
        os.kill(lost, how)
        self.until_rank_is_new(rank, lost)

    def until_rank_is_new(self, rank, *lost):
        """Another process than the `lost` ones runs it, and all serve: the state between may be too short to be seen."""
        until(f"rank {rank} is back",
              lambda: any(one["rank"] == rank and one.get("pid", lost[0]) not in lost for one in self.ranks()) and self.request("/health")[0] == 200)
