#!/usr/bin/env python3
"""Servers that answer in `glint train grpo`: the bits of the engine in process, from one, two and ranks, also where one is killed or hangs;
what does not fit, and what lies, is named.

    train_external_test.py build/release/glint models/glm5-tiny models/rl
"""
import http.server
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "server"))
from program import GLINT, check, output, refused, run
from served import Served, free_port, until
from small_model import make_small_model

TINY, PROBLEMS = sys.argv[2], pathlib.Path(sys.argv[3]) / "train.jsonl"
SERVE = (GLINT, "serve")
place = tempfile.TemporaryDirectory()
MODEL = make_small_model(TINY, pathlib.Path(place.name) / "model")  # where weights that have learned are not needed
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}


def train(out, *args, servers=(), problems=PROBLEMS, rounds=2, length=16, threads=1, model=MODEL):
    return ("train", "grpo", model, "--prompt-data", problems, "--rm-type", "deterministic_random", "--save", out, "--num-rollout", rounds,
            "--rollout-batch-size", 3, "--n-samples-per-prompt", 4, "--rollout-max-response-len", length, "--threads", threads, "--lr", "1e-4", *args,
            *(word for server in servers for word in ("--rollout-external-engine-addrs", getattr(server, "url", server))))


def serve(*args, model=MODEL, port=0):
    return Served(SERVE, model, "--threads", 1, "--max-model-len", "1k", "--kv-cache-tokens", 16384, *args, port=port)


def same_run(a, b, rounds=2):
    """All files of the last checkpoint but for what the answers cost, and the log but for times and what was found in a cache."""
    a, b = a / f"step-{rounds}", b / f"step-{rounds}"
    names = sorted(str(path.relative_to(a)) for path in a.rglob("*") if path.is_file())
    check(len(names) > 6 and names == sorted(str(path.relative_to(b)) for path in b.rglob("*") if path.is_file()), "files", names)
    for name in names:
        left, right = (a / name).read_bytes(), (b / name).read_bytes()
        if name.endswith("state.json"):
            left, right = (without(json.loads(text), "cached_tokens", "drafted", "accepted") for text in (left, right))
        check(left == right, f"{name} of {a} and {b} differ")
    metrics = [[{key: value for key, value in json.loads(line).items() if not key.startswith("perf/") and "cache" not in key}
                for line in (path.parent / "metrics.jsonl").read_text().splitlines()] for path in (a, b)]
    check(metrics[0] == metrics[1], "metrics", metrics)


def without(json_value, *names):
    if isinstance(json_value, dict):
        return {key: without(value, *names) for key, value in json_value.items() if key not in names}
    return [without(value, *names) for value in json_value] if isinstance(json_value, list) else json_value


def bits_are_those_of_the_engine_in_process(tmp):
    data = tmp / "tools.jsonl"
    data.write_text("".join(json.dumps({"prompt": [{"role": "user", "content": f"What is the weather in {city}?"}], "label": "x", "tools": [WEATHER]}) + "\n"
                            for city in ("Paris", "Oslo", "Rome")))
    program = tmp / "weather.py"
    program.write_text("import json, sys\nfor line in sys.stdin:\n    print(json.dumps('11 degrees'), flush=True)\n")
    kinds = {"plain": ("--eval-prompt-data", f"{PROBLEMS}@[0:3]", "--n-samples-per-eval-prompt", 2, "--eval-temperature", 0),
             "partial": ("--over-sampling-batch-size", 5, "--partial-rollout", "--use-rollout-routing-replay", "--rollout-temperature", "1.2"),
             "async": ("--async-rollout", "--over-sampling-batch-size", 4, "--pp", 2, "--ranks", "processes")}
    compare(tmp, kinds, data, MODEL, MODEL)
    compare(tmp, {"tools": ("--generate-tool-command", f"{sys.executable} {program}", "--rollout-top-k", 50)}, data, TINY, TINY)
    fp8 = tmp / "fp8-checkpoint"
    output("quantize", MODEL, fp8, "--format", "fp8")
    compare(tmp, {"fp8": ("--fp8-rollout", "--parity-gate", "1")}, data, MODEL, fp8)


def compare(tmp, kinds, data, model, served):
    with serve(model=served) as one, serve("--spec", "mtp:2", "--max-num-seqs", 3, model=served) as two:
        for name, args in kinds.items():
            args = (*args, "--save-interval", 0)
            how = {"model": model, "threads": 2 if "--pp" in args else 1, "length": 48 if name in ("partial", "tools") else 16, "problems": data if name == "tools" else PROBLEMS}
            here = output(*train(tmp / name, *args, **how))
            for servers in ((one,), (one, two)) if name == "plain" else ((one, two),):
                out = tmp / f"{name}-{len(servers)}"
                text = output(*train(out, *args, servers=servers, **how))
                check(text.count("parity: 0 of ") == (0 if name == "fp8" else 2) and text.count("parity: ") == here.count("parity: "), "parity", text)
                same_run(tmp / name, out)
            left = list((tmp / f"{name}-2/rollout-weights").iterdir())
            check([folder.name for folder in left] == ["step-2"], "the newest weights alone are left", left)
            for server in (one, two):
                check(server.request("/model_info")[2]["weight_version"].startswith("step-2-"), "the server has them")
        served = [server.request("/server_info")[2]["engine"]["generated_tokens"] for server in (one, two)]
        check(min(served) > 0, "both answer", served)


def ranks_answer(tmp):
    output(*train(tmp / "here", "--tp", 2, threads=2))
    with serve("--tp", 2, "--threads", 2) as server:
        text = output(*train(tmp / "there", "--tp", 2, threads=2, servers=(server,)))
        check(text.count("parity: 0 of ") == 2, "parity", text)
        same_run(tmp / "here", tmp / "there")
        refused(*train(tmp / "tp1", servers=(server,)), words=["log-probabilities"], on_stdout=True)


def answering(server):
    return server.request("/server_info")[2]["engine"]["running"]


def a_server_that_is_killed_or_hangs_loses_nothing(tmp):
    long = {"length": 240, "rounds": 2, "model": TINY}
    output(*train(tmp / "here", **long))

    def begin(out, *args, servers):
        command = [GLINT, *map(str, train(tmp / out, *args, servers=servers, **long))]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    with serve(model=TINY) as one, serve(model=TINY) as two:
        with begin("others", servers=(one, two)) as process:
            until("it answers", lambda: answering(two) > 0)
            two.end(signal.SIGKILL)
            text, said = process.communicate(timeout=300)
        check(process.returncode == 0 and text.count("parity: 0 of ") == 2, "the other answers", text + said)
        check(f"go to others: {two.url}" in said or two.url.split("//")[1] in said, "it is named", said)
        same_run(tmp / "here", tmp / "others")
    port = free_port()
    with serve(model=TINY, port=port) as one, serve(model=TINY) as hung:
        with begin("hung", "--rollout-external-timeout", 15, servers=(one, hung)) as process:
            until("it answers", lambda: answering(hung) > 0)
            hung.process.send_signal(signal.SIGSTOP)
            try:
                text, said = process.communicate(timeout=300)
            finally:
                hung.process.send_signal(signal.SIGCONT)
        check(process.returncode == 0 and text.count("parity: 0 of ") == 2, "the other answers", text + said)
        check(hung.url.split("//")[1] in said, "it is named", said)
        same_run(tmp / "here", tmp / "hung")
        # The only one, which comes back with other weights.
        with begin("back", servers=(one,)) as process:
            until("it answers", lambda: answering(one) > 0)
            one.end(signal.SIGKILL)
            with serve(model=TINY, port=port):
                text, said = process.communicate(timeout=300)
        check(process.returncode == 0 and "answers again" in said, "it goes on", text + said)
        same_run(tmp / "here", tmp / "back")
    # The only one, which stays away.
    for seconds in (2, 20, 20):  # longer where new weights are late; and anew where the server is killed after its last answer
        shutil.rmtree(tmp / "away", ignore_errors=True)
        with serve(model=TINY) as three:
            with begin("away", "--rollout-external-timeout", seconds, servers=(three,)) as process:
                for line in process.stdout:
                    if "round 1 of 2" in line:
                        break
                until("it answers", lambda: answering(three) > 0 or process.poll() is not None)
                three.end(signal.SIGKILL)
                text, said = process.communicate(timeout=120)
        if "saved" in text and process.returncode:
            break
    check(process.returncode == 2 and "saved" in text and f"after {seconds}.0 s (--rollout-external-timeout) there is no server" in said, "the end", text + said)
    check((tmp / "away/latest_checkpointed_iteration.txt").read_text() == "1\n", "round 1 is saved")
    with serve(model=TINY) as four:
        output(*train(tmp / "away", "--resume", servers=(four,), **long))
    same_run(tmp / "here", tmp / "away")


class Liar(http.server.BaseHTTPRequestHandler):
    """Passes all on to a server, but for a lie."""
    server_url, path_of, lie = "", "", None

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])) if self.command == "POST" else None
        request = urllib.request.Request(Liar.server_url + self.path, body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as response:
            text = response.read().decode()
        self.send_response(200)
        self.end_headers()
        try:
            for part in Liar.lie(text) if self.path == Liar.path_of else [text]:
                self.wfile.write(part.encode())
        except OSError:
            pass  # enough was read

    do_GET = do_POST

    def log_message(self, *_):
        pass


def what_lies_is_named(tmp):
    with serve() as server, http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar) as liar:
        Liar.server_url = server.url
        threading.Thread(target=liar.serve_forever, daemon=True).start()
        url = f"127.0.0.1:{liar.server_port}"
        lies = (("/model_info", r'"build":"[^"]*"', '"build":"0.0 (program 1)"', "build", "0.0 (program 1)"),
                ("/model_info", r'"max_model_len":\d+', '"max_model_len":9', "takes 9 tokens"),
                ("/model_info", ".+", "hello", "no JSON"),
                ("/model_info", ".+", "x" * (2 << 20), "there is no server to answer"),
                ("/update_weights_from_disk", r'"checksum":"[^"]*"', '"checksum":"1"', "does not confirm"),
                ("/generate", r'"weight_version":"[^"]*"', '"weight_version":"step-9"', 'weights "step-9"', "somebody else"),
                ("/generate", r'"output_ids":\[', '"output_ids":[99999,', "log-probabilities of"),
                ("/generate", r'"output_token_logprobs":\[\[', '"output_token_logprobs":[[NaN', "no sound JSON"))
        for path, found, told, *words in lies:
            shutil.rmtree(tmp / "out", ignore_errors=True)  # of a lie in the second round the first is saved
            Liar.path_of, Liar.lie = path, lambda text: [re.sub(found, told, text)]
            refused(*train(tmp / "out", "--rollout-external-timeout", 2 if len(told) > 1 << 20 else 20, servers=(url,)), words=[url, *words], on_stdout=True)
        # One that takes weights once: the round that made the next is done, and told.
        taken = []
        Liar.path_of, Liar.lie = "/update_weights_from_disk", lambda text: [re.sub(r'"checksum":"[^"]*"', '"checksum":"1"', text) if taken else taken.append(text) or text]
        shutil.rmtree(tmp / "out", ignore_errors=True)
        refused(*train(tmp / "out", "--rollout-external-timeout", 20, servers=(url,)), words=["does not confirm"], on_stdout=True)
        told, saved = (tmp / "out/metrics.jsonl").read_text(), int((tmp / "out/latest_checkpointed_iteration.txt").read_text())
        check(told.count("\n") == saved > 0, "rounds that are done", (told, saved))
        shutil.rmtree(tmp / "out")
        Liar.path_of, Liar.lie = "/generate", lambda text: ["data: [DONE]\n\n"]
        given_up = run(*train(tmp / "out", "--rollout-external-timeout", 60, servers=(url,)))
        check(given_up.returncode == 2 and f"has failed 10 times; see the log of the server: http://{url} ends an answer before its end" in given_up.stderr, "it is given up", given_up)
        Liar.lie = lambda text: (": " + "x" * (1 << 20) for _ in range(1000))
        refused(*train(tmp / "out", servers=(url,)), words=[url, "sends more for an answer"], on_stdout=True)
        # A log-probability that is off by a little is what parity is for.
        Liar.lie = lambda text: [re.sub(r'"output_token_logprobs":\[\[-', r"\g<0>1", text)]
        refused(*train(tmp / "out", "--parity-samples", 12, servers=(url,)), words=["log-probabilities"], on_stdout=True)
        liar.shutdown()


def what_does_not_fit_is_refused(tmp):
    other = tmp / "other"
    shutil.copytree(MODEL, other)
    config = json.loads((other / "config.json").read_text())
    config["rms_norm_eps"] *= 2
    (other / "config.json").write_text(json.dumps(config))
    with serve(model=other) as server:
        refused(*train(tmp / "out", servers=(server,)), words=[server.url, "is of another model than"], on_stdout=True)
    shutil.copy(f"{MODEL}/config.json", other)
    tokens = json.loads((other / "tokenizer.json").read_text())
    vocabulary = tokens["model"]["vocab"]
    a, b = list(vocabulary)[-2:]
    vocabulary[a], vocabulary[b] = vocabulary[b], vocabulary[a]
    (other / "tokenizer.json").write_text(json.dumps(tokens))
    with serve(model=other) as server:
        refused(*train(tmp / "out", servers=(server,)), words=[server.url, "has the vocabulary"], on_stdout=True)
    with serve() as server:
        key = train(tmp / "out", servers=(server,))
        refused(*key, "--rollout-max-response-len", 1000, words=[server.url, "takes 1000 tokens"], on_stdout=True)
        check(server.request("/update_weights_from_disk", {"model_path": MODEL, "checksum": "1"})[0] == 400, "a wrong checksum")
    with serve("--api-key", "secret") as server:
        refused(*train(tmp / "out", servers=(server,)), words=[server.url, "401", "GLINT_API_KEY"], on_stdout=True)
        output(*train(tmp / "keyed", rounds=1, servers=(server,)), env={"GLINT_API_KEY": "secret"})
    refused(*train(tmp / "out", "--rollout-external-timeout", 1, servers=("127.0.0.1:9",)), words=["there is no server to answer", "127.0.0.1:9"], on_stdout=True)
    for args, words in ((("--spec", "mtp:1"), ["--spec", "give it to the servers"]), (("--rollout-regex", "a"), ["--rollout-regex", "only an engine here"]),
                        (("--rollout-external-timeout", 0), ["--rollout-external-timeout is 0"])):
        refused(*train(tmp / "out", *args, servers=("a:1",)), words=words)
    for address, word in (("ftp://a", "ftp"), ("a:1/x", "has a path"), ("a:1,a:1", "comes twice"), (",", "names no server"), ("", "names no server")):
        refused(*train(tmp / "out", servers=(address,)), words=["--rollout-external-engine-addrs", word])
    # A signal ends the waiting.
    with subprocess.Popen([GLINT, *map(str, train(tmp / "out", servers=("127.0.0.1:9",)))], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(2)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


tests = (what_does_not_fit_is_refused, bits_are_those_of_the_engine_in_process, ranks_answer, a_server_that_is_killed_or_hangs_loses_nothing, what_lies_is_named)
for test in (one for one in tests if one.__name__ in sys.argv[4:] or len(sys.argv) == 4):
    with tempfile.TemporaryDirectory() as tmp:
        begin = time.monotonic()
        test(pathlib.Path(tmp))
        print(f"{test.__name__}: {time.monotonic() - begin:.1f} s", flush=True)
