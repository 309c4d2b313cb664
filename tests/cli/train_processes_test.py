#!/usr/bin/env python3
"""Ranks of training that are processes: the bits of threads, also when one is killed; nothing is left over; those of a launcher end together.

    train_processes_test.py build/release/glint models/glm5-tiny models/rl
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "server"))
from program import GLINT, check, in_time, output, refused
from served import free_port, until
from small_model import make_small_model

TINY, PROBLEMS = sys.argv[2], pathlib.Path(sys.argv[3]) / "train.jsonl"
place = tempfile.TemporaryDirectory()
MODEL = make_small_model(TINY, pathlib.Path(place.name) / "model")  # where weights that have learned, and their size, do not matter
EXAMPLES = [{"prompt": f"What is {a} + {a}?", "completion": f" It is {2 * a}."} for a in range(6)]
FOREVER = ("--steps", 100000)
EVAL = ("--eval-prompt-data", f"{PROBLEMS}@[0:4]", "--n-samples-per-eval-prompt", 2)


def sft(tmp, out, *args, ranks="processes", model=MODEL):
    data = tmp / "data.jsonl"
    data.write_text("".join(json.dumps(line) + "\n" for line in EXAMPLES))
    return ("train", "sft", "--data", data, "--out", tmp / out, "--global-batch-size", 4, "--lr", "1e-3", "--threads", 2,
            "--ranks", ranks, *args, "--", model)


def grpo(tmp, out, ranks, *args, model=MODEL):
    return ("train", "grpo", model, "--prompt-data", PROBLEMS, "--rm-type", "deterministic_random", "--save", tmp / out, "--num-rollout", 2,
            "--rollout-batch-size", 2, "--n-samples-per-prompt", 2, "--rollout-max-response-len", 12, "--threads", 2, "--lr", "1e-4",
            "--ranks", ranks, *args)


def start(*args, **kwargs):
    return subprocess.Popen([os.path.abspath(GLINT), *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs)


def find(process, words):
    return next((line for line in process.stdout if words in line), "")


def read_to(process, words):
    return find(process, words) or sys.exit(f"{words!r} was not printed; exit {process.wait()}\n{process.stderr.read()}")


def pids_in(line):
    return [int(pid) for pid in re.findall(r"rank \d+ is process (\d+)", line)]


def pids_of(process):
    return pids_in(read_to(process, "ranks: rank 0 is process"))


def gone(pids):
    until(f"{pids} have ended", lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), 60)


def same_files(a, b):
    names = sorted(str(path.relative_to(a)) for path in a.rglob("*") if path.is_file())
    check(len(names) > 6 and names == sorted(str(path.relative_to(b)) for path in b.rglob("*") if path.is_file()), "files", names)
    for name in names:
        check((a / name).read_bytes() == (b / name).read_bytes(), f"{name} of {a} and {b} differ")


def losses(out):
    return [(line["step"], line["train/loss"], line["train/grad_norm"]) for line in map(json.loads, (out / "train.jsonl").read_text().splitlines())]


def a_killed_rank_costs_time_alone(tmp, out, *more):
    shutil.rmtree(tmp / out, ignore_errors=True)
    with start(*sft(tmp, out, *more, "--save-interval", 10)) as process:
        first = pids_of(process)
        read_to(process, "step 12 of 40")
        with contextlib.suppress(ProcessLookupError):
            os.kill(first[1], signal.SIGKILL)
        second = pids_in(find(process, "ranks: rank 0 is process"))
        if not second:
            return False
        check(not set(first) & set(second), "all start again", (first, second))
        rest = process.stdout.read()
        said = process.stderr.read()
    check(process.returncode == 0 and f"rank 1 (process {first[1]}) has ended; all ranks start again" in said, "it goes on", (rest, said))
    check(f"of {len(second)} (process {second[-1]}): weights" in rest, "ranks at the end", rest)
    gone(first + second)
    return True


def the_bits_are_those_of_threads_also_after_a_kill(tmp):
    for layout in (("--dp", 2), ("--tp", 2, "--pp", 2, "--threads", 4)):
        name = layout[0]
        more = (*layout, "--steps", 40)
        output(*sft(tmp, f"threads{name}", *more, ranks="threads"))
        in_time(a_killed_rank_costs_time_alone, tmp, f"killed{name}", *more)
        same_files(tmp / f"threads{name}/step-40", tmp / f"killed{name}/step-40")
        check(losses(tmp / f"threads{name}") == losses(tmp / f"killed{name}"), "the log")


def metrics(out):
    """Replicas of processes have caches of their own."""
    return [{key: value for key, value in json.loads(line).items() if not key.startswith("perf/") and "cache" not in key} for line in (out / "metrics.jsonl").read_text().splitlines()]


def rewards_train_the_same_bits(tmp):
    """Each rank's process has the engine's rank as well, whose answers of other replicas come to the first; where it answers beside training, the first alone."""
    kinds = {"kl": ("--kl-loss-coef", "0.1", "--dp", 2, "--rollout-temperature", "0.9"), "async": ("--async-rollout", "--tp", 2),
             "stages": ("--kl-loss-coef", "0.1", "--tp", 2, "--pp", 2, "--threads", 4, "--use-rollout-routing-replay", "--enable-mtp-training"), "experts": ("--ep", 2, "--spec", "mtp:2", "--enable-mtp-training", *EVAL),
             "fp8": ("--fp8-rollout", "--parity-gate", "0.03", "--pp", 2)}
    memory, references = {}, {}
    for name, more in kinds.items():
        for ranks in ("threads", "processes"):
            text = output(*grpo(tmp, f"{name}-{ranks}", ranks, *more, model=TINY))
            check(text.count("parity: 0 of ") == (0 if name == "fp8" else 2), "parity", text)
        check(("dp send " in text) == (name in ("kl", "experts")), "the second replica answers", text)
        references[name] = [float(size) for size in re.findall(r", reference ([\d.]+) MiB", text)]
        memory[name] = [float(size) for size in re.findall(r"weights [\d.]+ MiB \(of its process ([\d.]+) MiB\)", text)]
        check(("pp send " in text) == (name in ("stages", "fp8")), "the second stage answers", text)
        same_files(tmp / f"{name}-threads/step-2", tmp / f"{name}-processes/step-2")
        check(metrics(tmp / f"{name}-threads") == metrics(tmp / f"{name}-processes"), "metrics", metrics(tmp / f"{name}-threads"))
    whole = memory["kl"][0]
    check(all(size < whole for size in memory["stages"] + memory["experts"]) and len(memory["stages"]) == 4, "each has its part alone", memory)
    check(memory["fp8"][1] < whole and not (tmp / "fp8-processes/rollout-weights").exists(), "its files are gone", memory)
    check(len(references["stages"]) == 4 and all(size < references["kl"][0] for size in references["stages"]), "also of the reference", references)
    check(memory["async"][0] == whole > memory["async"][1], "but the first, where it alone answers", memory)


def a_kill_cuts_an_evaluation_off(tmp, *long):
    shutil.rmtree(tmp / "killed", ignore_errors=True)
    with start(*grpo(tmp, "killed", "processes", *long, "--save-interval", 1)) as process:
        first = pids_of(process)
        read_to(process, "step-1")
        time.sleep(0.1)
        with contextlib.suppress(ProcessLookupError):
            os.kill(first[1], signal.SIGKILL)
        text, said = process.stdout.read(), process.stderr.read()
    if "ranks: rank 0 is process" not in text.split("eval after 1 round:")[0]:
        return False
    text, _, rest = text.partition("ranks: rank 0 is process")
    second = pids_in("rank 0 is process" + rest.split("\n")[0])
    check(process.returncode == 0 and f"rank 1 (process {first[1]}) has ended; all ranks start again" in said, "it goes on", (rest, said))
    check("eval after 1 round:" in rest and "round 1 of" not in rest, "the evaluation is made anew", rest)
    gone(first + second)
    return True


def a_signal_cuts_an_evaluation_off(tmp, *long):
    shutil.rmtree(tmp / "ended", ignore_errors=True)
    with start(*grpo(tmp, "ended", "processes", *long, "--save-interval", 0)) as process:
        pids = pids_of(process)
        read_to(process, "round 1 of")
        process.send_signal(signal.SIGTERM)
        rest, said = process.stdout.read(), process.stderr.read()
    if "eval after 1 round:" in rest:
        return False
    check(process.returncode == 0 and "ended by a signal after 1 of 2 rounds" in rest and said == "", "it ends well", (rest, said))
    check((tmp / "ended/step-1/model.safetensors").exists(), "it saves", rest)
    gone(pids)
    return True


def answers_are_cut_off(tmp):
    """Ranks are killed, and ended, while they answer."""
    long = ("--tp", 2, "--entropy-coef", "0.1", *EVAL, "--eval-interval", 1, "--eval-max-response-len", 600, "--rollout-regex", "[a-z]{4000}")
    output(*grpo(tmp, "whole", "threads", *long, "--eval-max-response-len", 12))
    in_time(a_kill_cuts_an_evaluation_off, tmp, *long)
    same_files(tmp / "whole/step-2", tmp / "killed/step-2")
    in_time(a_signal_cuts_an_evaluation_off, tmp, *long)


def signals_end_all(tmp):
    with start(*sft(tmp, "stopped", "--dp", 2, *FOREVER)) as process:
        pids = pids_of(process)
        read_to(process, "step 2 of")
        for pid in pids:
            os.kill(pid, signal.SIGTERM)  # as of a scheduler that signals every process: the first one's counts
        process.send_signal(signal.SIGTERM)
        rest, said = process.communicate(timeout=120)
    check(process.returncode == 0 and "--resume goes on" in rest and said == "", "it ends well", (rest, said))
    gone(pids)
    step = int((tmp / "stopped/latest_checkpointed_iteration.txt").read_text())
    check(step >= 2 and (tmp / f"stopped/step-{step}/model.safetensors").exists(), "it saves", step)
    with start(*sft(tmp, "orphans", "--dp", 2, *FOREVER)) as process:
        pids = pids_of(process)
        read_to(process, "step 1 of")
        process.kill()
    gone(pids)


def faults_have_an_end(tmp):
    with start(*sft(tmp, "faults", "--dp", 2, *FOREVER, "--max-restarts", 1)) as process:
        first = pids_of(process)
        os.kill(first[0], signal.SIGKILL)
        second = pids_of(process)
        read_to(process, "step 1 of")
        os.kill(second[1], signal.SIGSTOP)
        said = process.communicate(timeout=120)[1]
    check(process.returncode == 3 and "shows no life; ranks were lost 2 times" in said and "--resume goes on" in said, "it ends", said)
    gone(first + second)
    refused(*sft(tmp, "refused", "--dp", 2, "--data", tmp / "none.jsonl"), words=["none.jsonl"], on_stdout=True)
    refused(*sft(tmp, "refused", "--dp", 2, "--max-restarts", -1), words=["--max-restarts is -1"])
    refused(*sft(tmp, "refused", "--tp", 2, "--ep", 3), words=["ep is 3", "set ep to 2"])
    refused("--run-a-rank-of-training", *sft(tmp, "refused", "--dp", 1, "--out", "/proc/none"), words=["/proc/none"], on_stdout=True)


def as_rank(rank, port):
    return {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def launched(tmp, out, *args, model=MODEL, places=(".", ".")):
    port = free_port()
    return [start(*sft(tmp, out, "--dp", 2, *args, model=model), cwd=places[rank], env=as_rank(rank, port)) for rank in range(2)]


def a_rank_that_freezes_or_ends_before_all_have_met_is_lost(tmp):
    """First messages of a rank, from one of another machine that says nothing more, or hangs up while ranks connect."""
    both = []
    port = free_port()
    with socket.create_server(("127.0.0.1", port)) as gate:
        both.append(start(*sft(tmp, "frozen", "--dp", 2), env=as_rank(1, port)))
        with gate.accept()[0].makefile("rb") as stream:
            head = stream.read(16)
            hello = {**json.loads(stream.read(int.from_bytes(head[8:], "little"))), "machine": "another"}
        both[0].kill()
    both[0].communicate()
    for ends, why in ((False, "rank 1 shows no life"), (True, "rank 1 has ended")):
        leader = start(*sft(tmp, "frozen", "--dp", 2), env=as_rank(0, port))
        other = socket.socket()
        while other.connect_ex(("127.0.0.1", port)):
            time.sleep(0.1)
        stream = other.makefile("rwb")

        def say(message):
            stream.write(head[:8] + len(message).to_bytes(8, "little") + message)
            stream.flush()

        say(json.dumps(hello).encode())
        if ends:
            for answer in (b"", b'{"port": 1}', b""):  # to the hello, the start, and where all are
                stream.read(int.from_bytes(stream.read(16)[8:], "little"))
                if answer:
                    say(answer)
            other.shutdown(socket.SHUT_RDWR)
        said = leader.communicate(timeout=60)[1]
        check(leader.returncode == 3 and why in said, "the leader ends", said)


def launched_ranks_are_one_run_and_end_together(tmp):
    for process in launched(tmp, "launched", "--steps", 40):
        text, said = process.communicate(timeout=120)
        check(process.returncode == 0 and said == "", "it ends well", said)
    same_files(tmp / "threads--dp/step-40", tmp / "launched/step-40")
    for process in [*launched(tmp, "launched"), *launched(tmp, "launched")]:
        said = process.communicate(timeout=120)[1]
        check(process.returncode == 2 and "holds a run already" in said, "all refuse alike", said)
    for lost in (1, 0):
        both = launched(tmp, f"lost-{lost}", *FOREVER)
        read_to(both[0], "step 1 of")
        both[lost].kill()
        text, said = both[1 - lost].communicate(timeout=120)
        check(both[1 - lost].returncode == 3 and f"rank {lost} has ended" in said and "--resume" in said, "the other ends", said)
        both[lost].communicate()
    both = launched(tmp, "frozen", *FOREVER)
    read_to(both[0], "step 1 of")
    both[0].send_signal(signal.SIGSTOP)
    said = both[1].communicate(timeout=120)[1]
    check(both[1].returncode == 3 and "rank 0 shows no life" in said and "--resume" in said, "the other ends", said)
    both[0].kill()
    both[0].communicate()
    # Another machine's files, which here another folder holds.
    places = [tmp / "first", tmp / "second"]
    for place in places:
        shutil.copytree(MODEL, place)
    with open(places[1] / "model.safetensors", "r+b") as file:
        file.seek(8 + int.from_bytes(file.read(8), "little"))
        file.write(bytes(8))
    for process in launched(tmp, "other", "--steps", 1, model="/proc/self/cwd", places=places):
        said = process.communicate(timeout=120)[1]
        check(process.returncode == 2 and "rank 1 has read another checkpoint in /proc/self/cwd" in said, "other weights", said)
    refused(*sft(tmp, "refused", "--dp", 2), words=["torchrun has started 3 processes", "dp 2"],
            env={"RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"})


with tempfile.TemporaryDirectory() as folder:
    for test in (the_bits_are_those_of_threads_also_after_a_kill, rewards_train_the_same_bits, answers_are_cut_off, signals_end_all, faults_have_an_end,
                 launched_ranks_are_one_run_and_end_together, a_rank_that_freezes_or_ends_before_all_have_met_is_lost):
        begin = time.monotonic()
        test(pathlib.Path(folder))
        print(f"{test.__name__}: {time.monotonic() - begin:.1f} s", flush=True)
        for out in pathlib.Path(folder).iterdir():
            if out.is_dir() and out.name != "threads--dp":
                shutil.rmtree(out)
