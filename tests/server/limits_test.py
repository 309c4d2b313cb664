"""Little memory: under `ulimit -v`, and in a control group of 1 GB, the server refuses what it cannot hold, and lives. With too few
threads it does not begin.

    limits_test.py GLINT MODEL_DIR [--requests N] [--seed S]

Sends mutated and outsized requests, some of which are left before their answer. Every answer has a status below 500, or 503;
the program goes on, and what it holds is back within 20 % of what it was when it had nothing to do. Where no control group can be
made, that part says so.
"""
import argparse
import collections
import http.client
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import threading
import time

from served import Served, until

parser = argparse.ArgumentParser()
parser.add_argument("glint", type=pathlib.Path)
parser.add_argument("model", type=pathlib.Path)
parser.add_argument("--requests", type=int, default=240, help="of each part")
parser.add_argument("--seed", type=int, default=1)
arguments = parser.parse_args()

GIB = 1 << 30
CLIENTS = 4
SERVE = [arguments.glint.resolve(), "serve", arguments.model.resolve(), "--threads", 1, "--kv-cache-tokens", 8192,
         "--max-num-seqs", 8, "--max-num-batched-tokens", 256, "--log-level", "error"]

ORDINARY = [
    ("/v1/completions", {"prompt": "The cat", "max_tokens": 3, "temperature": 0}),
    ("/v1/completions", {"prompt": [5, 6, 7], "max_tokens": 2, "n": 3, "logprobs": 5, "stop": ["x"], "logit_bias": {"5": 3}}),
    ("/v1/completions", {"prompt": "a", "max_tokens": 4, "stream": True, "stream_options": {"include_usage": True}}),
    ("/v1/chat/completions", {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "Hi"}],
                              "max_tokens": 3, "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}),
    ("/v1/messages", {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "max_tokens": 3}),
    ("/v1/responses", {"input": "Hi", "max_output_tokens": 3}),
    ("/generate", {"text": "a", "return_logprob": True, "top_logprobs_num": 3, "logprob_start_len": 0,
                   "sampling_params": {"max_new_tokens": 3}, "stream": True}),
    ("/tokenize", {"prompt": "a text of words", "return_token_strs": True}),
    ("/detokenize", {"tokens": [5, 6, 7]}),
    ("/apply-template", {"messages": [{"role": "user", "content": "Hi"}]}),
    ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "Hi"}]}),
    ("/abort_request", {"rid": "nobody"}),
]


# The kernel makes huge pages of small ones when it likes, and then counts memory that nobody asked for: not here.
WITHOUT_HUGE_PAGES = [sys.executable, "-c", "import ctypes, os, sys; ctypes.CDLL(None).prctl(41, 1, 0, 0, 0); "
                      "os.execv(sys.argv[1], sys.argv[1:])"]


def completion(**fields):
    return "/v1/completions", {"prompt": "a", "max_tokens": 8, "ignore_eos": True, **fields}


def user(content, count=1):
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": content}] * count, "max_tokens": 2}


OUTSIZED = [
    lambda: ("/tokenize", {"prompt": "a" * 20_000_000}),
    lambda: ("/tokenize", {"prompt": "a b " * 5_000_000, "return_token_strs": True}),
    lambda: ("/tokenize", {"prompt": [""] * 4_000_000}),
    lambda: completion(n=128, stop_token_ids=[3000] * 1_000_000),
    lambda: completion(n=128, allowed_token_ids=[300] * 1_000_000),
    lambda: completion(n=128, bad_words=["abc " * 1000] * 1000),
    lambda: completion(n=128, stop=["abc " * 1000] * 60),
    lambda: completion(x=[0] * 8_000_000),
    lambda: completion(prompt=[5] * 3_000_000),
    lambda: completion(prompt=[list(range(1, 3600))] * 24, prompt_logprobs=20),
    lambda: user("", 1_200_000),
    lambda: user("</think>" * 2_000_000),
    lambda: user("<|user|>" * 400_000),
    lambda: ("/v1/messages", {"system": "x" * 15_000_000, "messages": [], "max_tokens": 1}),
    lambda: ("/detokenize", {"tokens": [5] * 3_000_000, "return_token_strs": True}),
    lambda: ("/v1/completions", b'{"prompt":"a","max_tokens":' + b"1" * 5_000_000 + b"}"),
    lambda: ("/v1/completions", b"[" * 3_000_000),
    lambda: ("/v1/completions", b" " * 70_000_000),
    lambda: completion(model="m" * 3_000_000),
]


def mutated(rng):
    path, body = rng.choice(ORDINARY)
    data = bytearray(json.dumps(body).encode())
    for _ in range(rng.choice((0, 1, 1, 2, 5, 20))):
        at = rng.randrange(len(data))
        how = rng.randrange(5)
        if how == 0:
            data[at] = rng.randrange(256)
        elif how == 1:
            del data[at:at + rng.randrange(1, 9)]
        elif how == 2:
            data[at:at] = rng.choice((b"[", b"{", b'"', b"-1", b"1e999", b"null", b"\\ud800", b"\xff", b",", b"9" * 30, b"true"))
        elif how == 3:
            data[at:at] = data[max(0, at - 20):at] * rng.randrange(1, 50)
        else:
            path = rng.choice(ORDINARY)[0]
        data = data or bytearray(b"{")
    return path, bytes(data)


def send(server, path, data, leave, counts):
    host, port = server.url.removeprefix("http://").split(":")
    if leave:  # the whole body, or a part of it, and nobody reads the answer
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode()
            try:
                connection.sendall(head + data[:len(data) if leave == 1 else len(data) // 2])
            except OSError:  # refused while it was sent
                pass
        counts["left"] += 1
        return
    connection = http.client.HTTPConnection(host, int(port), timeout=300)
    try:
        connection.request("POST", path, data, {"content-type": "application/json"})
        response = connection.getresponse()
        body = response.read()
    except (BrokenPipeError, ConnectionResetError):  # refused by its length, before it was sent
        counts["refused early"] += 1
        return
    finally:
        connection.close()
    assert response.status < 500 or response.status == 503, (response.status, path, data[:300], body[:300])
    assert response.status == 200 or len(body) < 4096, (response.status, len(body), body[:300])
    counts[response.status] += 1


def rss(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def flood(server, requests, seed):
    """Requests of CLIENTS threads: one in twenty is outsized."""
    counts = collections.Counter()
    problems = []
    numbers = iter(range(requests))
    lock = threading.Lock()

    def client():
        while not problems:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            rng = random.Random(seed * 1_000_003 + number)
            path, body = OUTSIZED[number // 20 % len(OUTSIZED)]() if number % 20 == 0 else mutated(rng)
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            try:
                send(server, path, data, rng.choice((0, 0, 0, 0, 0, 0, 1, 2)), counts)
            except Exception as error:  # told below: a thread's own would only be printed
                problems.append((number, path, repr(error)))

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    code = server.process.poll()
    assert code is None, f"the server ended with {code}: " + "\n".join(server.lines[-5:])
    assert not problems, problems[:3]
    return counts


def settles(read, limit, seconds=90):
    """The first value of read() that is at most `limit`, or the last one."""
    end = time.monotonic() + seconds
    while (value := read()) > limit and time.monotonic() < end:
        time.sleep(1)
    return value


def holds(name, command):
    with Served([*map(str, command), *WITHOUT_HUGE_PAGES, *map(str, SERVE)]) as server:
        # The largest step and the whole cache have been there before what is idle is measured.
        for path, body in ORDINARY + [completion(prompt=list(range(1, 3600)), prompt_logprobs=5, n=8, max_tokens=64)] * 2:
            server.request(path, body)
        time.sleep(11)  # what is free goes back every ten seconds
        idle = rss(server)
        counts = flood(server, arguments.requests, arguments.seed)
        # 503: requests whose clients have left may hold memory a little longer.
        status = until("it answers", lambda: (now := server.request("/v1/completions", ORDINARY[0][1])[0]) != 503 and now)
        assert status == 200, status
        after = settles(lambda: rss(server), idle * 1.2)
        peak = int(pathlib.Path(f"/proc/{server.process.pid}/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
        print(f"{name}: {dict(counts)}; {idle:.0f} MB idle, {peak:.0f} MB at most, {after:.0f} MB afterwards", flush=True)
        assert after <= idle * 1.2, (idle, after)
        code = server.end()
        assert code == 0, code


class ControlGroup:
    """A control group, of version 1 or 2; `path` is None where none can be made."""

    def __init__(self, controller, v1_file, v2_file, limit):
        self.path = None
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            _, names, own = line.split(":", 2)
            v1 = names == controller
            if not v1 and names:
                continue
            for root in ((f"/sys/fs/cgroup/{controller}{own}", f"/sys/fs/cgroup/{controller}") if v1 else (f"/sys/fs/cgroup{own}", "/sys/fs/cgroup")):
                path = pathlib.Path(root) / f"glint-limits-{os.getpid()}"
                try:
                    path.mkdir()
                except OSError:
                    continue
                try:
                    (path / (v1_file if v1 else v2_file)).write_text(str(limit))
                    self.path = path
                    return
                except OSError:
                    path.rmdir()

    def inside(self):
        """Before a command: what runs it in the group."""
        return ["sh", "-c", f'echo $$ > {self.path}/cgroup.procs; exec "$@"', "sh"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for _ in range(50):
            try:
                if self.path:
                    self.path.rmdir()
                return
            except OSError:  # the program has not quite ended
                time.sleep(0.1)


holds("ulimit -v 1.5 GB", ["sh", "-c", f'ulimit -v {3 * GIB // 2 // 1024}; exec "$@"', "sh"])
with ControlGroup("memory", "memory.limit_in_bytes", "memory.max", GIB) as group:
    if group.path:
        holds("a control group of 1 GB", group.inside())
    else:
        print("no control group can be made here: that part was left out")
for threads in range(2, 10):  # the server has more: each time another one cannot begin
    with ControlGroup("pids", "pids.max", "pids.max", threads) as group:
        if group.path:
            done = subprocess.run([*group.inside(), *map(str, SERVE), "--port", "0"], capture_output=True, text=True, timeout=60)
            assert done.returncode == 2 and "glint: cannot start a thread; give" in done.stderr, (threads, done)

