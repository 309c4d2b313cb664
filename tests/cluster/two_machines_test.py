"""Ranks of two machines, which here are two network namespaces: they find each other by torchrun's variables and talk over TCP; a
rank or its agent that is killed and a link that is taken down cost time, and none of 64 streams a token. Training over them has
the bits of one process.

    two_machines_test.py GLINT MODEL_DIR        as root
"""
import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "server"))
from served import Served, text_of, until  # noqa: E402

GLINT, MODEL = sys.argv[1:]
NAMES = [f"glint{os.getpid()}{side}" for side in "ab"]
HOSTS = ("10.173.0.1", "10.173.0.2")
STREAMS = 64


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Machines:
    """Two namespaces and a cable between them."""

    def __enter__(self):
        for name in NAMES:
            ip("netns", "add", name)
        ip("link", "add", "cable", "netns", NAMES[0], "type", "veth", "peer", "name", "cable", "netns", NAMES[1])
        for name, host in zip(NAMES, HOSTS):
            ip("-n", name, "addr", "add", f"{host}/24", "dev", "cable")
            for device in ("lo", "cable"):
                ip("-n", name, "link", "set", device, "up")
        return self

    def __exit__(self, *_):
        for name in NAMES:
            ip("netns", "del", name)

    def cable(self, state):
        ip("-n", NAMES[1], "link", "set", "cable", state)


def on(machine, *command):
    return ["ip", "netns", "exec", NAMES[machine], *map(str, command)]


def variables(rank, ranks=2):
    return {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks // 2), "MASTER_ADDR": HOSTS[0], "MASTER_PORT": "29500"}


class OverTwoMachines(Served):
    """The server, whose requests go into its namespace through curl."""

    def request(self, path, body=None, headers=None):
        import json
        data = () if body is None else ("-H", "content-type: application/json", "-d", json.dumps(body))
        said = subprocess.run(on(0, "curl", "-sS", "-m", 120, "-w", "\n%{http_code}", self.url + path, *data), capture_output=True,
                              text=True, check=True).stdout
        text, _, status = said.rpartition("\n")
        return int(status), {}, json.loads(text) if text.startswith("{") else text


def streams():
    return [("/v1/completions", {"prompt": f"Story {i}: once upon a time there was", "max_tokens": 60, "ignore_eos": True,
                                 "seed": i, "temperature": i % 2, "stream": True}) for i in range(STREAMS)]


def run(server, pool):
    return [pool.submit(server.request, *one) for one in streams()]


def texts(running):
    return [text_of(one.result()[2]) for one in running]


FLAGS = ("--threads", 2, "--kv-cache-tokens", 4096)


def alone(pool, *flags):
    with Served([GLINT, "serve"], MODEL, *flags, *FLAGS) as one:
        said = texts(run(one, pool))
    assert all(said), said
    return said


class Follower:
    """The second machine's process, whose launcher starts it again where it dies."""

    def __init__(self, line, env):
        self.command, self.env = on(1, *line), env
        self.begin()

    def begin(self):
        self.process = subprocess.Popen(self.command, env=self.env)

    def die(self):
        self.process.kill()
        self.process.wait()


def loses_a_rank(server, machines, follower):
    os.kill(server.ranks()[-1]["pid"], signal.SIGKILL)


def loses_an_agent(server, machines, follower):
    """It is missed only when its rank is lost, too, and then the next one starts another."""
    follower.die()
    done = server.generated_tokens()
    until("tokens without an agent", lambda: server.generated_tokens() > done + 50)
    assert server.request("/health")[0] == 200
    follower.begin()
    loses_a_rank(server, machines, follower)


def loses_the_link(server, machines, follower):
    machines.cable("down")


def serves(machines, pool, layout, expected, faults, typed=False):
    """By a launcher's variables, or as it is `typed` on each machine, of which each has half of the ranks."""
    nodes = lambda node: ("--nnodes", 2, "--node-rank", node, "--master-addr", HOSTS[0]) if typed else ()
    env = (None, None) if typed else [variables(rank) for rank in range(2)]
    follower = Follower((GLINT, "serve", MODEL, *layout, *FLAGS, *nodes(1)), env[1])
    try:
        with OverTwoMachines(on(0, GLINT, "serve"), MODEL, *layout, *FLAGS, *nodes(0), env=env[0]) as server:
            assert texts(run(server, pool)) == expected
            kinds = [word[2:] for word in layout if str(word).startswith("--") and word != "--reduce-slices"]
            until("beats bring what was moved", lambda: all(rank["collectives"][kind] for kind in kinds for rank in server.ranks()))
            print(*layout, ": two machines say what one rank says", flush=True)
            for fault in faults:
                running = server.busy(lambda: run(server, pool))
                lost = server.ranks()[-1]
                fault(server, machines, follower)
                begin = time.monotonic()
                if fault == loses_the_link:
                    server.until_health_is(503)
                    machines.cable("up")
                server.until_rank_is_new(lost["rank"], lost["pid"])
                print(f"  {fault.__name__}: back after {time.monotonic() - begin:.1f} s", flush=True)
                assert texts(running) == expected, fault
        assert follower.process.wait(60) == 0, follower.process.returncode
    finally:
        if follower.process.poll() is None:
            follower.die()


def trains(folder, layout, ranks=4):
    """Answers, and learns from them, by a process for each rank, of which each machine has half."""
    prompts = HERE.parents[1] / "models/rl/train.jsonl"
    line = [GLINT, "train", "grpo", MODEL, "--prompt-data", prompts, "--rm-type", "math", "--num-rollout", 2, "--rollout-batch-size", 4,
            "--n-samples-per-prompt", 4, "--rollout-max-response-len", 40, "--lr", "1e-4", *layout]
    threads, processes = (pathlib.Path(folder) / name for name in ("threads", "processes"))
    subprocess.run([*map(str, line), "--threads", str(ranks), "--save", threads], stdout=subprocess.DEVNULL, check=True)
    running = [subprocess.Popen(on(rank * 2 // ranks, *line, "--ranks", "processes", "--threads", 2, "--save", processes), env=variables(rank, ranks),
                                stdout=subprocess.DEVNULL) for rank in range(ranks)]
    assert [one.wait(120) for one in running] == [0] * ranks
    name = "step-2/model.safetensors"
    assert (threads / name).read_bytes() == (processes / name).read_bytes(), layout
    print(*layout, ": training on two machines has the bits of one process", flush=True)


with Machines() as machines, concurrent.futures.ThreadPoolExecutor(STREAMS) as pool:
    serves(machines, pool, ("--tp", 2), alone(pool, "--reduce-slices", 2), (loses_a_rank, loses_the_link))
    serves(machines, pool, ("--pp", 2), alone(pool), (loses_an_agent, loses_the_link))
    serves(machines, pool, ("--tp", 2, "--pp", 2), alone(pool, "--reduce-slices", 2), (loses_a_rank, loses_the_link), typed=True)
    serves(machines, pool, ("--dp", 2, "--ep", 2), alone(pool), (loses_a_rank, loses_the_link), typed=True)
    for layout in (("--tp", 2, "--pp", 2), ("--tp", 2, "--ep", 4, "--dp", 2)):
        with tempfile.TemporaryDirectory() as folder:
            trains(folder, layout)
