"""The same command line, started once for each rank by a launcher: the processes find each other and are one server.

    launched_ranks_test.py GLINT MODEL_DIR [mpirun]

Without `mpirun` torchrun's variables are set by hand. Where `prterun` lies beside it, as Open MPI 5 has it, it starts ranks, too.
"""
import concurrent.futures
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from served import Served, free_port, until

GLINT, MODEL, *LAUNCHERS = sys.argv[1:]
FLAGS = ("--threads", 2, "--kv-cache-tokens", 4096)
PROMPT = {"prompt": "Once upon a time", "max_tokens": 30, "seed": 4}


def answer(server):
    status, _, said = server.request("/v1/completions", PROMPT)
    assert status == 200, said
    return said["choices"][0]["text"]


def variables(rank, size, port):
    return {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port)}


def follower(rank, size, port, *flags):
    return subprocess.Popen([GLINT, "serve", MODEL, *map(str, flags)], env=variables(rank, size, port), stderr=subprocess.PIPE, text=True)


def torchrun_starts(expected):
    port, line = free_port(), ("--tp", 2, *FLAGS)
    other = follower(1, 2, port, *line)
    with Served([GLINT, "serve"], MODEL, *line, env=variables(0, 2, port)) as server:
        assert answer(server) == expected
        assert any(f"rank 0 waits at port {port} for the ranks from 1 to 1" in line for line in server.lines), server.lines
        first, second = server.ranks()
        assert first["pid"] == server.process.pid and second["heads"] == [2, 4], (first, second)
        assert second["collectives"]["tp"]["all_reduce"]["calls"] > 0, second
        # A rank that dies or hangs is started again by the process that the launcher started.
        for how in (signal.SIGKILL, signal.SIGSTOP):
            server.loses_a_rank(1, how)
            assert answer(server) == expected
    assert other.wait(60) == 0, other.stderr.read()


def somebody_waits_at(port):
    """Whether a connection there has brought bytes that nobody has read yet."""
    rows = [line.split() for table in pathlib.Path("/proc/net").glob("tcp*") for line in table.read_text().splitlines()]
    return any(row[1].endswith(f":{port:04X}") and row[3] == "01" and not row[4].endswith(":00000000") for row in rows)


def a_follower_ends_with_its_server():
    """So does one that has taken another's place, and waits until its rank is lost."""
    for replaced in (False, True):
        port, line = free_port(), ("--tp", 2, *FLAGS)
        other = follower(1, 2, port, *line)
        server = Served([GLINT, "serve"], MODEL, *line, env=variables(0, 2, port))
        if replaced:
            other.kill()
            other.wait()
            other = follower(1, 2, port, *line)
            until("it has connected", lambda: somebody_waits_at(port))
        server.end(signal.SIGKILL)
        said = other.communicate(timeout=60)[1]
        assert other.returncode == 0 and "rank 1 ends: rank 0 has" in said, said
        assert replaced != ("rank 1 serves until rank 0 ends" in said), said


def a_rank_is_there_for_the_next_leader():
    """Where the leader waited in vain for another rank, and hangs up, its process ends without a fault of its own."""
    ours, theirs = socket.socketpair()
    ours.close()
    said = subprocess.run(["bash", "-c", f'exec "$0" --run-a-rank-for-a-server 3<&{theirs.fileno()}', GLINT], pass_fds=[theirs.fileno()], timeout=60)
    assert said.returncode == 0, said


def those_left_over_disturb_nobody():
    """Ranks that still wait for a lost one when all start again: they are slow to see that they end."""
    port, line = free_port(), ("--ep", 8, "--threads", 8, "--kv-cache-tokens", 1024)
    others = [follower(rank, 8, port, *line) for rank in range(1, 8)]
    with Served([GLINT, "serve"], MODEL, *line, env=variables(0, 8, port)) as server, concurrent.futures.ThreadPoolExecutor(1) as pool:
        expected, running = answer(server), pool.submit(server.request, "/v1/completions", {**PROMPT, "max_tokens": 200})
        until("a step", lambda: server.request("/server_info")[2]["engine"]["running"])
        _, lost, *left = [rank["pid"] for rank in server.ranks()]
        for how, ranks in ((signal.SIGSTOP, left), (signal.SIGKILL, [lost])):
            for pid in ranks:
                os.kill(pid, how)
        time.sleep(0.1)
        for pid in left:
            os.kill(pid, signal.SIGCONT)
        assert running.result()[0] == 200 and answer(server) == expected
        assert sum("all ranks start again" in one for one in server.lines) == 1, server.lines
    for other in others:
        assert other.wait(60) == 0, other.stderr.read()


def a_server_ends_while_it_waits_for_a_rank():
    port, line = free_port(), ("--tp", 2, *FLAGS)
    other = follower(1, 2, port, *line)
    server = Served([GLINT, "serve"], MODEL, *line, env=variables(0, 2, port))
    lost = server.ranks()[1]["pid"]
    for pid in (other.pid, lost):
        os.kill(pid, signal.SIGKILL)
    other.wait()
    until("it waits", lambda: any("start again" in one for one in server.lines))
    server.until_health_is(503)
    assert server.end() == 0


def an_agent_that_looks_for_its_leader_ends_by_a_signal():
    """One that is there, but answers nobody."""
    port, line = free_port(), ("--tp", 2, *FLAGS)
    other = follower(1, 2, port, *line)
    with Served([GLINT, "serve"], MODEL, *line, env=variables(0, 2, port)) as server:
        lost = server.ranks()[1]["pid"]
        os.kill(server.process.pid, signal.SIGSTOP)
        os.kill(lost, signal.SIGKILL)
        for said in other.stderr:
            if "rank 1 looks for rank 0 at 127.0.0.1:" in said:
                break
        other.terminate()
        assert other.wait(60) == -signal.SIGTERM
        server.process.kill()


def ranks_end_with_their_launcher():
    """Also where it is killed, and a script stands between."""
    port = free_port()
    ranks = [{**variables(rank, 2, port), "TORCHELASTIC_RUN_ID": "none"} for rank in range(2)]
    line = ["bash", "-c", 'exec 2>&1; "$@"; echo "it ended by $?"', "script", GLINT, "serve", MODEL, "--tp", "2", *map(str, FLAGS), "--port", "0"]
    launcher = subprocess.Popen([sys.executable, "-c", f"import subprocess, time\nfor env in {ranks}: subprocess.Popen({line}, env=env)\ntime.sleep(1000)"],
                                stdout=subprocess.PIPE, text=True)
    said = []
    for one in launcher.stdout:
        said.append(one)
        if one.startswith("serving "):
            launcher.kill()
    launcher.wait()
    assert sum("it ended by 0" in one for one in said) == 2, said
    assert any(f"torchrun (process {launcher.pid}), which has started this rank, has ended" in one for one in said), said


def ranks_that_wait_say_for_whom():
    ports = free_port(), free_port()
    waits = [follower(rank, 2, port, "--tp", 2, *FLAGS, "--port", 0) for rank, port in enumerate(ports)]
    for process, why in zip(waits, (f"rank 1 of 2 has not come to port {ports[0]} yet",
                                    f"rank 1 finds no rank 0: cannot connect to 127.0.0.1:{ports[1]}: Connection refused; it looks on")):
        assert any(why in line for line in process.stderr), why  # it ends with the first such line
        process.terminate()
        assert process.wait(60) == -signal.SIGTERM


def a_machine_that_follows_has_a_plan():
    line = [GLINT, "serve", MODEL, "--tp", "2", "--pp", "2", "--threads", "4", "--nnodes", "2", "--node-rank", "1", "--master-addr", "a", "--dry-run"]
    said = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert said.returncode == 0 and "model weights" in said.stdout, said
    assert "ranks 2 to 3 of 4, by --nnodes; the first is at a:29501" in said.stderr, said


def what_differs_is_refused():
    said = subprocess.run([GLINT, "serve", MODEL, "--tp", "2"], env=variables(0, 3, 1), capture_output=True, text=True, timeout=60)
    assert said.returncode == 2 and "torchrun has started 3 processes, and --tp is 2" in said.stderr, said
    # Another layout of as many ranks, and a MODEL of another configuration.
    with tempfile.TemporaryDirectory() as top:
        other = shutil.copytree(MODEL, pathlib.Path(top, "other"))
        (other / "config.json").write_text((other / "config.json").read_text() + "\n")
        for words, why in (((MODEL, "--pp", "2"), "rank 1 has --pp 2, and rank 0 1;"),
                           ((MODEL, "--tp", "2", "--kv-dtype", "fp8"), "rank 1 has --kv-dtype fp8, and rank 0 bf16;"),
                           ((MODEL, "--tp", "2", "--spec", "mtp:1"), "rank 1 has --spec mtp:1, and rank 0 none;"),
                           ((str(other), "--tp", "2"), "rank 1 has a MODEL whose config.json has the checksum ")):
            port = free_port()
            both = [subprocess.Popen([GLINT, "serve", *one, *map(str, FLAGS)], env=variables(rank, 2, port), stderr=subprocess.PIPE, text=True)
                    for rank, one in enumerate(((MODEL, "--tp", "2"), words))]
            for process in both:
                said = process.communicate(timeout=60)[1]
                assert process.returncode == 2 and why in said, said
    # A program of other bytes, though of the same version.
    port, copy = free_port(), os.path.join(os.path.dirname(os.path.abspath(GLINT)), f"another_glint_{os.getpid()}")
    shutil.copy(GLINT, copy)
    try:
        with open(copy, "ab") as file:
            file.write(b"another")
        line = ["serve", MODEL, "--tp", "2", *map(str, FLAGS)]
        both = [subprocess.Popen([program, *line], env=variables(rank, 2, port), stderr=subprocess.PIPE, text=True)
                for rank, program in enumerate((GLINT, copy))]
        for process in both:
            said = process.communicate(timeout=60)[1]
            assert process.returncode == 2 and "rank 1 has glint" in said and "the same program" in said, said
    finally:
        os.remove(copy)


def machines_share_the_ranks(expected):
    """Two of them, each of which starts two ranks, by the command line or by a launcher that starts a process on each."""
    layout, port = ("--tp", 2, "--pp", 2, "--threads", 4, "--kv-cache-tokens", 4096), free_port()
    typed = [("--nnodes", 2, "--node-rank", node, "--master-addr", f"127.0.0.1:{port}") for node in range(2)]
    for lines, envs in ((typed, (None, None)), (((), ()), [variables(node, 2, free) for free in [free_port()] for node in range(2)])):
        other = subprocess.Popen([GLINT, "serve", MODEL, *map(str, (*layout, *lines[1]))], env=envs[1], stderr=subprocess.PIPE, text=True)
        with Served([GLINT, "serve"], MODEL, *layout, *lines[0], env=envs[0]) as server:
            assert answer(server) == expected
            ranks = server.ranks()
            assert [(rank["stage"], rank["tp_rank"]) for rank in ranks] == [(0, 0), (0, 1), (1, 0), (1, 1)], ranks
            parents = [int(pathlib.Path(f"/proc/{rank['pid']}/stat").read_text().rsplit(")", 1)[1].split()[1]) for rank in ranks]
            assert parents[1:] == [server.process.pid, other.pid, other.pid], parents
            for lost in (1, 3):
                server.loses_a_rank(lost)
                assert answer(server) == expected
        assert other.wait(60) == 0, other.stderr.read()
    said = subprocess.run([GLINT, "serve", MODEL, "--tp", "2", "--nnodes", "3", "--master-addr", "a"], capture_output=True, text=True, timeout=60)
    assert said.returncode == 2 and "--nnodes is 3, and --tp is 2" in said.stderr, said
    said = subprocess.run([GLINT, "serve", MODEL, "--tp", "2", "--nnodes", "2", "--master-addr", "a", "--headless"], capture_output=True, text=True, timeout=60)
    assert said.returncode == 2 and "--headless is for machines that follow" in said.stderr, said


def lines_of_machines(places, name):
    """A server over two machines, whose folders `places` are, each with a model of this name."""
    command, port = [os.path.abspath(GLINT), "serve", f"/proc/self/cwd/{name}", "--tp", 2, *FLAGS, "--nnodes", 2], free_port()
    return [["env", "-C", place, *map(str, command), "--master-addr", f"127.0.0.1:{port}", "--node-rank", str(node)]
            for node, place in enumerate(places)]


def scramble(model):
    """Other weights, of the same formats."""
    with open(model / "model.safetensors", "r+b") as file:
        file.seek(8 + int.from_bytes(file.read(8), "little"))
        file.write(bytes(8))


def other_files_are_refused(expected):
    """Files of the second machine that differ from the first one's."""
    with tempfile.TemporaryDirectory() as top:
        places = [pathlib.Path(top, str(node)) for node in range(2)]
        for place in places:
            place.mkdir()
            (place / "same").symlink_to(os.path.abspath(MODEL))
        (places[0] / "other").symlink_to(os.path.abspath(MODEL))
        shutil.copytree(MODEL, places[1] / "other")
        scramble(places[1] / "other")
        for name in ("other", "same"):
            lines = lines_of_machines(places, name)
            other = subprocess.Popen(lines[1], stderr=subprocess.DEVNULL)
            if name == "other":
                said = subprocess.run(lines[0], capture_output=True, text=True, timeout=60)
                assert said.returncode == 2 and "rank 1 has read another checkpoint" in said.stderr, said
            else:
                with Served(lines[0]) as server:
                    status, _, said = server.request("/update_weights_from_disk", {"model_path": "/proc/self/cwd/other"})
                    assert status != 200 and "rank 1 has read another checkpoint" in str(said), said
                    assert answer(server) == expected
            assert other.wait(60) == 0


def there_is_no_way_back():
    """The second machine lacks the new weights, and the old ones are gone from the first."""
    with tempfile.TemporaryDirectory() as top:
        places = [pathlib.Path(top, str(node)) for node in range(2)]
        for place in places:
            place.mkdir()
            (place / "old").symlink_to(os.path.abspath(MODEL))
        shutil.copytree(MODEL, places[0] / "new")
        scramble(places[0] / "new")
        lines = lines_of_machines(places, "old")
        other = subprocess.Popen(lines[1], stderr=subprocess.DEVNULL)
        with Served(lines[0]) as server:
            (places[0] / "old").unlink()
            other.send_signal(signal.SIGSTOP)  # its rank starts again only when the new weights are there
            try:
                status, _, said = server.request("/update_weights_from_disk", {"model_path": "/proc/self/cwd/new"})
                assert status != 200 and all(word in str(said) for word in ("different weights", "cwd/new", "cwd/old")), said
                (places[1] / "new").symlink_to(places[0] / "new")
            finally:
                other.send_signal(signal.SIGCONT)
            assert answer(server)
        assert other.wait(60) == 0


def starts(launch, layout, expected):
    with Served([*launch, GLINT, "serve"], MODEL, *layout, *FLAGS) as server:
        assert answer(server) == expected
        assert [rank["heads"] for rank in server.ranks()] == ([[0, 2], [2, 4]] if layout[0] == "--tp" else [[0, 4], [0, 4]])
        assert any("rank 1 of 2, by" in line for line in server.lines), server.lines
        assert [rank["stage"] for rank in server.ranks()] == ([0, 0] if layout[0] == "--tp" else [0, 1])
        server.loses_a_rank(1)
        assert answer(server) == expected
        os.kill(server.ranks()[0]["pid"], signal.SIGKILL)  # the launcher ends the others
        assert server.process.wait(60) != 0


def alone(*flags):
    with Served([GLINT, "serve"], MODEL, *flags, *FLAGS) as one:
        return answer(one)


text = alone("--reduce-slices", 2)
if LAUNCHERS:
    mpirun = [LAUNCHERS[0], "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"]
    starts(mpirun, ("--tp", 2), text)
    starts(mpirun, ("--pp", 2), alone())
    prterun = os.path.join(os.path.dirname(LAUNCHERS[0]), "prterun")
    if os.path.exists(prterun):  # it tells a process no more than its rank
        starts([prterun, "--allow-run-as-root", "--map-by", ":oversubscribe", "--bind-to", "none", "-n", "2",
                "-x", "MASTER_ADDR=127.0.0.1", "-x", "LOCAL_WORLD_SIZE=2"], ("--tp", 2), text)
else:
    torchrun_starts(text)
    a_follower_ends_with_its_server()
    a_rank_is_there_for_the_next_leader()
    those_left_over_disturb_nobody()
    a_server_ends_while_it_waits_for_a_rank()
    an_agent_that_looks_for_its_leader_ends_by_a_signal()
    ranks_end_with_their_launcher()
    ranks_that_wait_say_for_whom()
    a_machine_that_follows_has_a_plan()
    what_differs_is_refused()
    machines_share_the_ranks(text)
    other_files_are_refused(text)
    there_is_no_way_back()
