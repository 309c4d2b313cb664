#!/usr/bin/env python3
"""The price of grammars that take minutes to compile, for other clients: gaps between the tokens of their streams, without and with them.

    tests/bench/grammar_gaps.py [--glint build/release/glint] [--model models/glm5-tiny] [--streams 4] [--seconds 30] [--attackers 2]

The attackers send each bomb of tests/server/grammar_bombs.py again and again, each time another one, so that none is remembered.
"""
import argparse
import http.client
import json
import math
import pathlib
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "server"))
from grammar_bombs import BOMBS  # noqa: E402
from served import Served  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--glint", type=pathlib.Path, default=ROOT / "build/release/glint")
parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/glm5-tiny")
parser.add_argument("--streams", type=int, default=4)
parser.add_argument("--seconds", type=float, default=30)
parser.add_argument("--attackers", type=int, default=2)
arguments = parser.parse_args()


class Load:
    def __init__(self, server, seconds):
        self.host, port = server.url.removeprefix("http://").split(":")
        self.port = int(port)
        self.end = time.monotonic() + seconds
        self.gaps = []
        self.answers = {}

    def post(self, path, body):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=600)
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        return connection, connection.getresponse()

    def stream(self):
        while time.monotonic() < self.end:
            connection, response = self.post("/v1/completions", {"prompt": "a", "max_tokens": 2000, "stream": True, "ignore_eos": True})
            last = None
            for line in response:
                if not line.startswith(b"data: {"):
                    continue
                now = time.monotonic()
                if last is not None:
                    self.gaps.append(now - last)
                last = now
                if now > self.end:
                    break
            connection.close()

    def attack(self, number):
        for count in range(1_000_000):
            for path, body in BOMBS.values():
                if time.monotonic() > self.end:
                    return
                # Another key each time, which means the same.
                text = json.dumps(body).replace("[a-z]{10,4900}", f"[a-z]{{10,{4900 - count % 90}}}").replace("{0,70}", f"{{0,{70 - count % 9}}}")
                connection, response = self.post(path, json.loads(text))
                response.read()
                connection.close()
                self.answers[response.status] = self.answers.get(response.status, 0) + 1


def measure(server, attackers):
    load = Load(server, arguments.seconds)
    threads = [threading.Thread(target=load.stream) for _ in range(arguments.streams)]
    threads += [threading.Thread(target=load.attack, args=(i,), daemon=True) for i in range(attackers)]
    for thread in threads:
        thread.start()
    for thread in threads[:arguments.streams]:
        thread.join()
    return sorted(load.gaps), load.answers


def percentile(values, share):
    return values[min(len(values) - 1, math.ceil(share * len(values)) - 1)]


with Served([arguments.glint, "serve"], arguments.model, "--log-level", "error") as server:
    measure_for = arguments.seconds
    normal, _ = measure(server, 0)
    attacked, answers = measure(server, arguments.attackers)
    limit = 2 * percentile(normal, 0.99)
    print(f"{arguments.streams} streams, {measure_for:.0f} s each; {arguments.attackers} attackers were answered {answers}")
    for name, gaps in ("without", normal), ("with", attacked):
        above = sum(gap > limit for gap in gaps)
        print(f"{name:8}{len(gaps):7} gaps: p50 {percentile(gaps, 0.5) * 1e3:.1f} ms, p99 {percentile(gaps, 0.99) * 1e3:.1f} ms, "
              f"p99.9 {percentile(gaps, 0.999) * 1e3:.1f} ms, longest {gaps[-1] * 1e3:.1f} ms; {above} above {limit * 1e3:.1f} ms (2 x p99 without)")
