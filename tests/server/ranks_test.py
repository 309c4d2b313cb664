"""A server over ranks says what one rank says (that cuts its sums in the same slices, where products are divided), tells what each
rank holds and has moved, and fits the sizes of other servers' command lines to the model and the machine.

    ranks_test.py GLINT MODEL_DIR

A rank that dies or hangs under streams costs none of them a token.
"""
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from served import Served, text_of, until

GLINT, MODEL = sys.argv[1:]
STREAMS = 64
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 120}}, "required": ["age"]}


def requests():
    """Greedy, seeded, structured, and a prompt of several chunks."""
    for i in range(6):
        yield "/v1/completions", {"prompt": f"Story {i}: once upon a time", "max_tokens": 40, "seed": i, "temperature": i % 3 * 0.5}
    yield "/v1/completions", {"prompt": "The cat and the dog. " * 40, "max_tokens": 20, "temperature": 0}
    yield "/v1/chat/completions", {"messages": [{"role": "user", "content": "A person as JSON."}], "max_tokens": 60, "seed": 3,
                                   "chat_template_kwargs": {"enable_thinking": False},
                                   "response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": SCHEMA}}}


def answers(server):
    """All at once."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        all_of = list(pool.map(lambda one: server.request(*one), requests()))
    assert all(status == 200 for status, _, _ in all_of), all_of
    return [answer["choices"][0].get("text") or answer["choices"][0]["message"]["content"] for _, _, answer in all_of]


def serve(*flags, command=("serve",)):
    room = () if "--kv-cache-tokens" in flags else ("--kv-cache-tokens", 4096)
    return Served([GLINT, *command], MODEL, *room, *flags)


def ranks_say_what_one_says():
    with serve("--reduce-slices", 4, "--threads", 1) as one:
        expected = answers(one)
        [whole] = one.ranks()
        assert whole["heads"] == [0, 4] and whole["collectives"]["tp"] == {}, whole
    for flags, size in ((("-tp", 2, "--threads", 2), 2),
                        (("--tp", 4, "--threads", 4, "--spec", "mtp:2", "--max-num-batched-tokens", 64), 4)):
        with serve("--reduce-slices", 4, *flags) as server:
            assert answers(server) == expected, flags
            moved = lambda: [rank["collectives"]["tp"] for rank in server.ranks()]
            until("what was begun beyond the last answer has ended", lambda: (told := moved()) == [told[0]] * size)
            ranks = server.ranks()
            assert [rank["rank"] for rank in ranks] == list(range(size)), ranks
            for i, rank in enumerate(ranks):
                assert rank["heads"] == [4 * i // size, 4 * (i + 1) // size], rank
                assert rank["layers"] == whole["layers"] and rank["experts"] == whole["experts"], rank
                assert 0 < rank["weight_bytes"] < whole["weight_bytes"], rank
                moved = rank["collectives"]["tp"]
                assert moved["all_reduce"]["calls"] > 0 < moved["all_gather"]["bytes"], rank


def replicas_say_what_one_says():
    with serve("--threads", 1) as one:
        expected = answers(one)
        [whole] = one.ranks()
    for flags, size in ((("--ep", 2, "--threads", 2), 2),
                        (("--dp", 3, "--ep", 3, "--threads", 3, "--spec", "mtp:2", "--max-num-batched-tokens", 64), 3),
                        (("--dp", 2, "--threads", 2, "--kv-cache-tokens", 512), 2)):  # this one preempts
        with serve(*flags) as server:
            assert answers(server) == expected, flags
            ranks = server.ranks()
            assert [(rank["rank"], rank["shard"], rank["heads"]) for rank in ranks] == [(i, i, [0, 4]) for i in range(size)], ranks
            if "--ep" not in flags:
                assert all(rank["experts"] == whole["experts"] for rank in ranks), ranks
                continue
            assert [rank["experts"][0] for rank in ranks[1:]] == [rank["experts"][1] for rank in ranks[:-1]], ranks
            assert [ranks[0]["experts"][0], ranks[-1]["experts"][1]] == whole["experts"], ranks
            for rank in ranks:
                assert 0 < rank["weight_bytes"] < whole["weight_bytes"], rank
                moved = rank["collectives"]
                assert moved["ep"]["exchange"]["bytes"] > 0 and moved["dp"]["recv" if rank["rank"] == 0 else "send"]["bytes"] > 0, rank
    with serve("--reduce-slices", 2, "--threads", 1) as one:
        expected = answers(one)
    with serve("-tp", 2, "--dp", 2, "--threads", 4) as server:
        assert answers(server) == expected
        assert [(rank["shard"], rank["tp_rank"]) for rank in server.ranks()] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def place(top):
    link = pathlib.Path(top, "model")
    link.symlink_to(os.path.abspath(MODEL))
    return link


def experts_move_and_nobody_notices():
    """Before, during and after moves, and after a rank was lost whose experts had moved, also where the files are not there at first."""
    with serve("--threads", 1) as one:
        expected = answers(one)
    with tempfile.TemporaryDirectory() as top, \
         Served([GLINT, "serve"], link := place(top), "--kv-cache-tokens", 4096, "--ep", 2, "--threads", 2, "--enable-eplb",
                "--ep-num-redundant-experts", 5, "--eplb-rebalance-num-iterations", 10) as server:
        for lost in ("", "lost", "unread"):
            if lost == "unread":
                link.unlink()
                threading.Timer(1.5, place, [top]).start()
            if lost:
                loses(server, signal.SIGKILL, "KILL, 2 ranks whose experts move")
            places = server.request("/server_info")[2]["experts"]
            assert all(slots == [*range(16), *range(5)] for slots in places["layers"].values()), places
            for _ in range(2):
                assert answers(server) == expected
            info = server.request("/server_info")[2]
            assert info["experts"]["ranks"] == 2 and info["experts"]["moved_layers"] > places["moved_layers"], info["experts"]
            for slots in info["experts"]["layers"].values():
                assert len(slots) == 21 and set(slots) == set(range(16)), slots
            assert [rank["expert_slots"] for rank in info["ranks"]] == [[0, 10], [10, 21]], info["ranks"]
        moved = info["experts"]["moved_experts"]
        assert any(line.startswith("glint:moved_experts_total") and float(line.split()[-1]) >= moved
                   for line in server.request("/metrics")[2].splitlines())
    with serve("--tp", 2, "--ep", 2, "--threads", 2, "--reduce-slices", 4, "--enable-eplb", "--eplb-rebalance-num-iterations", 10) as moves, \
         serve("--tp", 4, "--ep", 4, "--threads", 4) as stays:
        assert answers(moves) == answers(stays) and moves.request("/server_info")[2]["experts"]["moved_layers"] > 0


def replicas_that_share_sequences_say_what_one_says():
    """Each runs some rows of every prompt, and has the whole cache."""
    with serve("--threads", 1) as one:
        expected = answers(one)
        asks = {"prompt": "The cat and the dog. " * 30, "max_tokens": 8, "temperature": 0, "logprobs": 2, "echo": True}
        told = one.request("/v1/completions", asks)[2]["choices"][0]["logprobs"]
    for flags, size in ((("--cp", 2, "--threads", 2), 2),
                        (("--dp", 4, "--cp", 2, "--ep", 4, "--threads", 4, "--spec", "mtp:2", "--max-num-batched-tokens", 64), 4)):
        with serve(*flags) as server:
            assert answers(server) == expected, flags
            assert server.request("/v1/completions", asks)[2]["choices"][0]["logprobs"] == told, flags
            ranks = server.ranks()
            assert [rank["shard"] for rank in ranks] == [*range(size)], ranks
            assert all(rank["collectives"]["cp"]["exchange"]["bytes"] > 0 for rank in ranks), ranks
            assert server.request("/engine/selected_keys", {"tokens": [5, 6, 7]})[0] >= 400


def stages_say_what_one_says():
    with serve("--threads", 1) as one:
        expected = answers(one)
        [whole] = one.ranks()
        asks = {"prompt": "The cat and the dog.", "max_tokens": 8, "temperature": 0, "logprobs": 2, "echo": True}
        told = one.request("/v1/completions", asks)[2]["choices"][0]["logprobs"]
    layers = whole["layers"][1]
    for flags, size in ((("--pp", 2, "--threads", 2), 2),
                        (("-pp", 4, "--threads", 4, "--spec", "mtp:2", "--max-num-batched-tokens", 64, "--kv-cache-tokens", 1024), 4),
                        (("--pp", 2, "--ep", 2, "--threads", 4, "--spec", "mtp:1"), 2)):
        with serve(*flags) as server:
            assert answers(server) == expected, flags
            assert server.request("/v1/completions", asks)[2]["choices"][0]["logprobs"] == told, flags
            ranks = server.ranks()
            assert [rank["stage"] for rank in ranks] == sorted([*range(size)] * (len(ranks) // size)), ranks
            for rank in ranks:
                assert rank["layers"] == [layers * rank["stage"] // size, layers * (rank["stage"] + 1) // size], rank
                assert 0 < rank["weight_bytes"] < whole["weight_bytes"], rank
            assert ranks[0]["collectives"]["pp"]["send"]["bytes"] > 0 < ranks[-1]["collectives"]["pp"]["recv"]["bytes"], ranks
            assert server.request("/engine/selected_keys", {"tokens": [5, 6, 7]})[0] >= 400
    with serve("--reduce-slices", 2, "--threads", 1) as one:
        expected = answers(one)
    with serve("-tp", 2, "--pp", 2, "--threads", 4) as server:
        assert answers(server) == expected
        assert [(rank["stage"], rank["tp_rank"]) for rank in server.ranks()] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def sizes_of_others_fit():
    """Each server's own spelling; what the model or the machine cannot carry becomes the most that they do."""
    lines = ((("vllm", "serve"), ("--tensor-parallel-size", 8), 2, "tp 8 -> 2: there are 3 threads"),
             (("vllm", "serve"), ("--data-parallel-size", 2, "--enable-expert-parallel"), 2, "2 replicas, which share the experts"),
             (("sglang",), ("--tp", 8, "--ep-size", 8), 2, "tp 8 -> 2: there are 3 threads; ep 8 -> 2: there are 2 ranks"),
             (("vllm", "serve"), ("-tp", 2, "--enable-expert-parallel", "--enable-eplb", "--eplb-config", '{"num_redundant_experts": 99}'), 2,
              "redundant experts 99 -> 16: then each of 2 ranks has every expert"),
             (("sglang",), ("--tp", 8, "--enable-dp-attention", "--dp-size", 8, "--ep-size", 8), 3,
              "dp 8 -> 3: there are 3 threads; ep 8 -> 3: there are 3 replicas"),
             (("trtllm-serve",), ("--tp_size", 2, "--ep_size", 2, "--pp_size", 1, "--enable_attention_dp"), 2,
              "2 replicas, which share the experts"),
             (("trtllm-serve",), ("--pp_size", 8), 3, "pp 8 -> 3: there are 3 threads"),
             (("sglang",), ("--tp", 2, "--pp-size", 2), 2, "pp 2 -> 1: there are 3 threads"),
             (("vllm", "serve"), ("-pcp", 2), 2, "2 replicas, of which 2 share each sequence"),
             (("vllm", "serve"), ("--pipeline-parallel-size", 2), 2, "2 stages of layers"))
    for command, flags, size, note in lines:
        where = ("--model", MODEL) if command == ("sglang",) else (MODEL,)
        with Served([GLINT, *command], *where, "--kv-cache-tokens", 4096, *flags, "--threads", 3) as server:
            said = "\n".join(server.lines)
            assert note in said, said
            assert len(server.ranks()) == size, said
            assert server.request("/v1/completions", {"prompt": "The cat", "max_tokens": 4})[0] == 200


def generate_has_ranks():
    line = [GLINT, "generate", MODEL, "-p", "Once upon a time", "--seed", "5", "-n", "40", "--json", "--reduce-slices", "2", "--threads", "2"]
    said = [json.loads(subprocess.run([*line, *more], capture_output=True, text=True, check=True).stdout)
            for more in ((), ("--tp", "2"), ("--tp", "2", "--spec", "mtp:2"))]
    for one in said[1:]:
        assert one["text"] == said[0]["text"] and len(one["ranks"]) == 2, one
    assert said[1]["logprobs"] == said[0]["logprobs"]
    line = [GLINT, "generate", MODEL, "-p", "Once upon a time", "--seed", "5", "-n", "40", "--json", "--threads", "2"]
    said = [json.loads(subprocess.run([*line, *more], capture_output=True, text=True, check=True).stdout)
            for more in ((), ("--pp", "2"), ("--pp", "2", "--spec", "mtp:2"), ("--ep", "2"), ("--ep", "2", "--spec", "mtp:2"))]
    shared = json.loads(subprocess.run([*line, "--cp", "2", "--spec", "mtp:2"], capture_output=True, text=True, check=True).stdout)
    assert shared["text"] == said[0]["text"] and [rank["shard"] for rank in shared["ranks"]] == [0, 1], shared
    for one, places in zip(said[1:], ((0, 1), (0, 1), (0, 0), (0, 0))):
        assert one["text"] == said[0]["text"] and [rank["stage"] for rank in one["ranks"]] == [*places], one
    assert said[1]["logprobs"] == said[3]["logprobs"] == said[0]["logprobs"]
    assert [rank["experts"][0] > 0 for rank in said[3]["ranks"]] == [False, True], said[3]
    refused = subprocess.run([*line, "--dp", "2"], capture_output=True, text=True)
    assert refused.returncode == 2 and "sequences of their own" in refused.stderr, refused.stderr


def eval_has_ranks():
    line = [GLINT, "eval", MODEL, "--ref", MODEL, "--kv-dtype", "fp8", "--text", MODEL + "/config.json", "--context", "200", "--json", "--threads", "2"]
    alone = json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout)
    assert len(alone.pop("ranks")) == 1 and alone["layer_rows"] > 0 and alone["kl"]["mean"] > 0, alone
    for layout in ("--pp", "--cp", "--dp", "--ep"):
        done = subprocess.run([*line, layout, "2"], capture_output=True, text=True)
        assert done.returncode == 0, (layout, done.stderr)
        said = json.loads(done.stdout)
        assert len(said.pop("ranks")) == 2 and said == alone, (layout, said, alone)


def streams():
    return [("/v1/completions", {"prompt": f"Story {i}: once upon a time there was", "max_tokens": 120, "ignore_eos": True,
                                 "seed": i, "temperature": i % 2, "stream": True}) for i in range(STREAMS)]


def pids(server):
    return [rank["pid"] for rank in server.ranks()]


def lives(pid):
    """Whether the process is there, and not just its exit status."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children(server):
    return {int(pid) for file in pathlib.Path(f"/proc/{server.process.pid}/task").glob("*/children") for pid in file.read_text().split()}


def loses(server, how, what, twice=False):
    """A rank of the server, which is back when this returns; the ranks' processes before and now. `twice`: it dies before it is back, too."""
    before, had = pids(server), children(server)
    lost = [before[-1]]
    os.kill(before[-1], how)
    if twice:
        until("a new rank", lambda: children(server) - had)
        lost.append(max(children(server) - had))
        os.kill(lost[-1], signal.SIGKILL)
    begin = time.monotonic()
    server.until_rank_is_new(len(before) - 1, *lost)
    print(f"  {what}: back after {time.monotonic() - begin:.2f} s", flush=True)
    after = pids(server)
    assert not set(after[1:]) & set(before) and not any(map(lives, before[1:])), (before, after)
    return before, after


def a_lost_rank_costs_time_and_no_request():
    kill, stop = signal.SIGKILL, signal.SIGSTOP
    # Faults while the same requests run, or without any.
    cases = ((2, (([kill], True), ([kill], False)), ("--tp", 2)),
             (3, (([kill], True), ([kill], False)), ("--ep", 3, "--spec", "mtp:2", "--kv-cache-tokens", 1024)),
             (2, (([kill], True), ([stop], True)), ("--pp", 2)),
             (2, (([kill], "twice"),), ("--dp", 2)),
             (4, (([stop, kill], True),), ("--tp", 4, "--spec", "mtp:2", "--kv-cache-tokens", 4096)))  # these preempt
    for size, rounds, flags in cases:
        with serve("--threads", size, *flags) as server, concurrent.futures.ThreadPoolExecutor(STREAMS) as pool:
            run = lambda: [pool.submit(server.request, *one) for one in streams()]
            expected = [text_of(one.result()[2]) for one in run()]
            assert all(expected), expected
            for faults, busy in rounds:
                running = server.busy(run) if busy else []
                for number, how in enumerate(faults):
                    done = server.generated_tokens()
                    until("tokens", lambda: not number or server.generated_tokens() > done + 100 or all(one.done() for one in running))
                    before, after = loses(server, how, f"{how.name}, {size} ranks, {'busy' if busy else 'idle'}", busy == "twice")
                    assert before[0] == server.process.pid and len(set(before)) == size, before
                assert [text_of(one.result()[2]) for one in running or run()] == expected, faults
            assert server.request("/flush_cache", {})[0] == 200
            engine = lambda: server.request("/server_info")[2]["engine"]
            # A step may have begun beyond an answer's last token.
            until("all pages are free", lambda: (told := engine())["running"] == told["waiting"] == told["used_pages"] == 0)
            # The third fault is one too many, and who waits for an answer hears of it.
            running = server.busy(run)
            os.kill(after[1], signal.SIGKILL)
            told = [str(one.result()[2]) for one in running]
            assert any("3 times in ten minutes" in one for one in told), told
            assert server.process.wait(60) == 3, server.process.returncode
            until("no rank is left", lambda: not any(map(lives, after[1:])))
        server.reader.join()
        assert any("3 times in ten minutes" in line for line in server.lines), server.lines


def ranks_end_with_their_server():
    for how in (signal.SIGTERM, signal.SIGKILL):
        server = serve("--tp", 2, "--threads", 2)
        others = pids(server)[1:]
        assert all(map(lives, others)), others
        server.end(how)
        until("ranks end", lambda: not any(map(lives, others)))
    done = subprocess.run([GLINT, "--run-a-rank-for-a-server"], capture_output=True, stdin=subprocess.DEVNULL, timeout=30)
    assert done.returncode == 2, done


def weights_change_on_every_rank():
    with tempfile.TemporaryDirectory() as folder:
        served = pathlib.Path(folder) / "served"
        shutil.copytree(MODEL, served)
        with Served([GLINT, "serve"], served, "--kv-cache-tokens", 4096, "--tp", 2, "--threads", 2) as server:
            before = answers(server)
            status, _, said = server.request("/update_weights_from_disk", {"model_path": "/nowhere"})
            assert status != 200, said
            (served / "config.json").unlink()  # there is no way back, and none is needed
            status, _, said = server.request("/update_weights_from_disk", {"model_path": "/nowhere"})
            assert status != 200, said
            assert answers(server) == before
            status, _, said = server.request("/update_weights_from_disk", {"model_path": MODEL})
            assert status == 200, said
            assert answers(server) == before
            # A rank that is lost takes no weights, so neither does the first.
            silent = pathlib.Path(folder) / "silent"
            shutil.copytree(MODEL, silent)
            weights = bytearray((silent / "model.safetensors").read_bytes())
            data = 8 + int.from_bytes(weights[:8], "little")
            begin, end = json.loads(weights[8:data])["model.norm.weight"]["data_offsets"]
            weights[data + begin:data + end] = bytes(end - begin)
            (silent / "model.safetensors").write_bytes(weights)
            os.kill(pids(server)[1], signal.SIGKILL)
            time.sleep(0.05)
            status, _, said = server.request("/update_weights_from_disk", {"model_path": silent.as_posix()})
            server.until_health_is(200)
            assert (answers(server) == before) == (status != 200), said  # 200: the rank was back


for test in (ranks_say_what_one_says, replicas_say_what_one_says, experts_move_and_nobody_notices, replicas_that_share_sequences_say_what_one_says, stages_say_what_one_says, sizes_of_others_fit, generate_has_ranks, eval_has_ranks, ranks_end_with_their_server, weights_change_on_every_rank,
             a_lost_rank_costs_time_and_no_request):
    test()
    print(f"{test.__name__}: ok", flush=True)
