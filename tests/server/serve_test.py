"""`glint serve` as a program: the command lines of other servers, keys, TLS, signals, ports, clients that vanish, steps that hang.

    serve_test.py GLINT MODEL_DIR
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from served import Served, free_port, until

GLINT, MODEL = (pathlib.Path(each).resolve() for each in sys.argv[1:3])
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="glint-serve-test-"))


def link(path, to=MODEL):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(to)
    return path


def cached(model_id, to):
    """A Hugging Face cache that holds `to` under that id: its environment."""
    home = FOLDER / "hf"
    snapshot = link(home / "hub" / ("models--" + model_id.replace("/", "--")) / "snapshots" / "0123abcd", to)
    refs = snapshot.parent.parent / "refs"
    refs.mkdir()
    (refs / "main").write_text("0123abcd")
    return {**os.environ, "HF_HOME": str(home)}


def refused(*command, env=None, port=0):
    """The one sentence with which the program ends."""
    done = subprocess.run([*map(str, command), "--port", str(port)], capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 2, (command, done.returncode, done.stderr)
    lines = done.stderr.strip().split("\n")
    assert len(lines) == 1, lines
    return lines[0]


def holds(text, *parts):
    for part in parts:
        assert part in text, (part, text)


def curl(server, path, data):
    """The curl lines of the guides, but for the address."""
    done = subprocess.run(["curl", "-sS", "-f", server.url + path, "-H", "Content-Type: application/json", "-d", data],
                          capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    assert answer["usage"]["completion_tokens"] > 0, answer
    return answer


def completion(server, **body):
    return server.request("/v1/completions", {"prompt": "The cat", "max_tokens": 3, **body})


class Stream:
    """A completion that streams, read on a thread: what came is in `events`."""

    def __init__(self, server, tokens, prompt="Once"):
        body = {"prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "stream": True, "return_token_ids": True}
        request = urllib.request.Request(server.url + "/v1/completions", json.dumps(body).encode(),
                                         {"content-type": "application/json"})
        self.response = urllib.request.urlopen(request, timeout=300)
        self.events = []
        self.first = threading.Event()
        self.thread = threading.Thread(target=self.read)
        self.thread.start()
        assert self.first.wait(120), "no token came"

    def read(self):
        try:
            for line in self.response:
                if line.startswith(b"data: "):
                    self.events.append(line[6:].strip().decode())
                    self.first.set()
        except (OSError, ValueError):
            pass  # cut off
        self.response.close()

    def tokens(self):
        """After its end: how many tokens came, and whether the end did."""
        self.thread.join(300)
        chunks = [json.loads(event) for event in self.events if event.startswith("{")]
        return sum(len(choice["token_ids"]) for chunk in chunks for choice in chunk["choices"]), self.events[-1] == "[DONE]"


# --- The command lines of the guides ---

def vllm_of_its_guide():
    env = cached("zai-org/GLM-5-FP8", MODEL)
    flags = ["--tensor-parallel-size", "8", "--threads", "2", "--gpu-memory-utilization", "0.90", "--trust-remote-code"]
    long = ["--max-model-len", "32768"]
    holds(refused(GLINT, "vllm", "serve", "zai-org/GLM-5-FP8", *flags, *long, env=env), "32768", "4096")
    chat = """{
    "model": "zai-org/GLM-5-FP8",
    "messages": [{"role": "user", "content": "Explain Differential Sparse Attention"}],
    "max_tokens": 256
  }"""
    with Served([GLINT, "vllm", "serve", "zai-org/GLM-5-FP8"], *flags, env=env) as server:
        assert server.request("/health")[0] == 200  # at once
        curl(server, "/v1/chat/completions", chat)
        said = "\n".join(server.lines)
        holds(said, "tp 8 -> 2: there are 2 threads", "ignored: --trust-remote-code (")
        assert server.name == "GLM-5-FP8" and server.url.startswith("http://0.0.0.0:"), server.url
        shown = server.request("/v1/models")[2]["data"]
        assert [model["id"] for model in shown] == ["GLM-5-FP8"], shown
        assert server.request("/v1/models/zai-org/GLM-5-FP8")[0] == 200
        status, _, body = completion(server, model="gpt-4")
        assert status == 404 and body["error"]["code"] == "model_not_found", body
    # Through a link, and with the model as an option.
    with Served([link(FOLDER / "vllm", GLINT), "serve", "--model", "zai-org/GLM-5-FP8", "--revision", "main"], *flags, env=env) as server:
        curl(server, "/v1/chat/completions", chat)


def sglang_of_the_model_card():
    flags = ("--served-model-name glm-5 --reasoning-parser glm45 --tool-call-parser glm47 --trust-remote-code --tp 8 "
             "--mem-fraction-static 0.95 --max-running-requests 8 --kv-cache-dtype fp8_e4m3 --quantization modelopt_fp4 "
             "--attention-backend flashinfer --moe-runner-backend flashinfer_cutlass --disable-custom-all-reduce "
             "--enable-flashinfer-allreduce-fusion --host 0.0.0.0").split()
    holds(refused(GLINT, "sglang", "--model", MODEL, *flags), "modelopt_fp4", "bf16")
    made = FOLDER / "GLM-5-NVFP4"
    subprocess.run([GLINT, "synth", MODEL / "config.json", made, "--format", "nvfp4"], check=True, capture_output=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        shutil.copy(MODEL / name, made)
    env = {**cached("lukealonso/GLM-5-NVFP4", made), "NCCL_IB_DISABLE": "1", "NCCL_P2P_LEVEL": "PHB",
           "NCCL_ALLOC_P2P_NET_LL_BUFFERS": "1", "NCCL_MIN_NCHANNELS": "8", "OMP_NUM_THREADS": "2",
           "SAFETENSORS_FAST_GPU": "1", "SGLANG_ENABLE_SPEC_V2": "1"}
    for command in ([GLINT, "sglang"], [link(FOLDER / "sglang", GLINT), "-m", "sglang.launch_server"]):
        with Served(command, "--model", "lukealonso/GLM-5-NVFP4", *flags, env=env) as server:
            said = "\n".join(server.lines)
            holds(said, "passed through: NCCL_IB_DISABLE=1", "passed through: NCCL_P2P_LEVEL=PHB",
                  "ignored: SAFETENSORS_FAST_GPU (", "ignored: SGLANG_ENABLE_SPEC_V2 (", "tp 8 -> 2: there are 2 threads",
                  "ignored: --attention-backend flashinfer (")
            assert "ignored: OMP_NUM_THREADS" not in said  # it has its meaning
            assert completion(server, model="glm-5")[0] == 200 and completion(server, model="GLM-5-NVFP4")[0] == 200
            plan = server.request("/server_info")[2]["config"]
            assert plan["step"].startswith("at most 8 requests"), plan


def trtllm_of_its_guides():
    folder = link(FOLDER / "workspace" / "GLM-5-nvfp4-v1")
    latency = FOLDER / "config.yml"
    latency.write_text("cuda_graph_config:\n    enable_padding: true\n    max_batch_size: 1024\nenable_attention_dp: false\n"
                       "enable_chunked_prefill: true\nkv_cache_config:\n    enable_block_reuse: false\n    dtype: fp8\n"
                       "# speculative_config:\n#   decoding_type: MTP\n#   num_nextn_predict_layers: 1\nstream_interval: 10\n")
    flags = ("--host localhost --backend pytorch --max_batch_size 32 --max_num_tokens 8192 --tp_size 8 --ep_size 8 "
             "--pp_size 1").split() + ["--config", latency]
    poem = json.dumps({"model": str(folder), "prompt": "Write a short poem about a cat and a dog", "max_tokens": 256,
                       "temperature": 0.6})
    with Served([GLINT, "trtllm-serve", folder], *flags) as server:
        curl(server, "/v1/completions", poem)
        plan = server.request("/server_info")[2]["config"]
        assert plan["prefix cache"] == "off" and plan["step"] == "at most 32 requests, 8,192 tokens", plan
        assert plan["compute, KV cache, index"].split(", ")[1] == "fp8", plan
        stream = Stream(server, 35)
        count, done = stream.tokens()
        sizes = [len(json.loads(event)["choices"][0]["token_ids"]) for event in stream.events if '"choices":[{' in event]
        assert count == 35 and done and max(sizes) == 10, sizes  # stream_interval
    sparse = FOLDER / "glm5_config.yaml"
    text = ("sparse_attention_config:\n  algorithm: dsa\n  index_n_heads: 32\n  index_head_dim: 128\n  index_topk: 2048\n"
            "kv_cache_config:\n  dtype: fp8\n  free_gpu_memory_fraction: 0.90\nenable_chunked_prefill: true\n")
    sparse.write_text(text)
    flags = ("--tp_size 8 --max_batch_size 64 --max_num_tokens 8192 --trust-remote-code --host 0.0.0.0 "
             "--extra_llm_api_options").split() + [sparse]
    flags[flags.index("--trust-remote-code")] = "--trust_remote_code"
    holds(refused(GLINT, "trtllm-serve", "serve", folder, *flags), "index_n_heads", "32", "4")
    sparse.write_text(text.replace("n_heads: 32", "n_heads: 4"))
    holds(refused(GLINT, "trtllm-serve", "serve", folder, *flags), "index_topk", "2048", "256")
    sparse.write_text(text.replace("n_heads: 32", "n_heads: 4").replace("2048", "256"))
    with Served([link(FOLDER / "trtllm-serve", GLINT), "serve", folder], "--log_level", "verbose", *flags) as server:
        curl(server, "/v1/completions", '{"model":"GLM-5-nvfp4-v1","prompt":"The capital of France is","max_tokens":50}')


def what_is_wrong_is_one_sentence():
    holds(refused(GLINT, "serve", MODEL, "--max-modle-len", "9"), "--max-modle-len", "did you mean --max-model-len?")
    holds(refused(GLINT, "serve", FOLDER / "nowhere"), "nowhere")
    holds(refused(GLINT, "serve", MODEL, "--api-key-file", FOLDER / "none"), "none")
    holds(refused(GLINT, "serve", MODEL, "--threads", "-1"), "--threads", "-1")
    holds(refused(GLINT, "serve", MODEL, "--chat-template", "chatml"), "--chat-template", 'no file "chatml"')
    holds(refused(GLINT, "serve", MODEL, "--chat-template", "{{ 1 + }}"), "--chat-template: line 1")
    holds(refused(GLINT, "serve", MODEL, "--ssl-certfile", MODEL / "config.json"), "--ssl-keyfile")
    holds(refused(GLINT, "serve", MODEL, "--host", "no.such.host.invalid"), "no.such.host.invalid")
    # A value that a file gave is looked for there.
    file = FOLDER / "wrong.yaml"
    for text, place, sentence in (("max_batch_size: many", "max_batch_size in", "--max-num-seqs expects an integer"),
                                  ("max-num-seqs: 0", "max-num-seqs in", "--max-num-seqs is 0; it must be from 1"),
                                  ("tensor-parallel-size: 0", "tensor-parallel-size in", "--tp is 0; it must be from 1 to 1024"),
                                  ("text-threads: 999", "text-threads in", "--text-threads is 999"),
                                  ("kv_cache_memory: lots", "kv_cache_memory in", "--kv-cache-memory: a size in bytes"),
                                  ("speculative_config:\n  method: ngram", "speculative_config.method in", "speculation by"),
                                  ("sparse_attention_config:\n  index_topk: 3", "sparse_attention_config.index_topk in", "index_topk is 3"),
                                  ("data-parallel-size: 4\ndata-parallel-size-local: 3", "data-parallel-size-local in", "3 from number 0")):
        file.write_text(text + "\n")
        holds(refused(GLINT, "serve", MODEL, "--config", file), sentence, f"{place} {file}")
    file.write_text("max-num-seqs: 4\n")
    error = refused(GLINT, "serve", MODEL, "--config", file, "--max-num-seqs", "0")
    assert "--max-num-seqs is 0" in error and str(file) not in error, error
    with Served([GLINT, "serve", MODEL]) as server:
        port = server.url.rsplit(":", 1)[1]
        holds(refused(GLINT, "serve", MODEL, port=port), port, "another program listens there")
        assert completion(server)[0] == 200


def a_template_may_be_the_text_itself():
    with Served([GLINT, "serve", MODEL], "--chat-template", "{% for m in messages %}{{ eos_token }}{{ m.content }}{% endfor %}") as server:
        chat = server.request("/tokenize", {"messages": [{"role": "user", "content": "Hi"}]})[2]
        assert chat["tokens"] == server.request("/tokenize", {"prompt": "<|endoftext|>Hi"})[2]["tokens"], chat


def seeds_and_reports():
    """Requests without a seed get the server's; who runs it sees what it does, and texts only on wish."""
    with Served([GLINT, "serve", MODEL], "--seed", "7", "--log-requests", "--log-prompts") as server:
        texts = [completion(server, prompt="Once upon a", max_tokens=20, temperature=1)[2]["choices"][0]["text"] for _ in range(2)]
        assert texts[0] == texts[1], texts
        until("the load is reported", lambda: any(re.search(r"requests? in work, .* tokens/s", line) for line in server.lines))
        assert any("Once upon a" in line for line in server.lines), server.lines
    with Served([GLINT, "serve", MODEL], "--log-requests", "--log-format", "json") as server:
        texts = {completion(server, prompt="Once upon a", max_tokens=20, temperature=1)[2]["choices"][0]["text"] for _ in range(4)}
        assert len(texts) > 1, texts
        until("requests are logged", lambda: any("/v1/completions" in line for line in server.lines))
        assert not any("Once upon a" in line for line in server.lines), server.lines
    assert all(isinstance(json.loads(line), dict) for line in server.lines), server.lines
    holds(refused(GLINT, "serve", MODEL, "--log-prompts"), "--log-requests")
    error = json.loads(refused(GLINT, "serve", MODEL, "--log-format", "json", "--max-num-seqs", "0"))
    assert error["level"] == "error" and "--max-num-seqs" in error["message"], error


# --- Who may ask ---

def keys_from_flag_file_and_environment():
    keys = FOLDER / "keys"
    keys.write_text("first\nsecond\r\n\n")
    plain = {name: value for name, value in os.environ.items() if name not in ("GLINT_API_KEY", "VLLM_API_KEY")}
    cases = [(["--api-key", "first", "--api-key", "second"], {}, "second"), (["--api-key-file", keys], {}, "second"),
             ([], {"GLINT_API_KEY": "mine"}, "mine"), ([], {"VLLM_API_KEY": "theirs"}, "theirs")]
    for flags, more, key in cases:
        with Served([GLINT, "serve", MODEL], *flags, env={**plain, **more}) as server:
            assert server.request("/health")[0] == 200
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Bearer {key}x"}):
                status, _, body = server.request("/v1/models", headers=headers)
                assert status == 401 and "error" in body, (flags, headers, status, body)
            assert server.request("/v1/models", headers={"authorization": f"Bearer {key}"})[0] == 200, flags
            assert server.request("/v1/models", headers={"x-api-key": key})[0] == 200, flags
            assert not any(key in line for line in server.lines), server.lines  # nothing tells it


def tls():
    certificate, key = FOLDER / "cert.pem", FOLDER / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate], check=True, capture_output=True)
    with Served([GLINT, "serve", MODEL], "--ssl-certfile", certificate, "--ssl-keyfile", key) as server:
        assert server.url.startswith("https://"), server.url
        trusting = ssl.create_default_context(cafile=certificate)
        body = json.dumps({"prompt": "The cat", "max_tokens": 3}).encode()
        request = urllib.request.Request(server.url + "/v1/completions", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60, context=trusting) as response:
            assert json.load(response)["usage"]["completion_tokens"] == 3
        try:  # who does not speak TLS is no harm
            urllib.request.urlopen(server.url.replace("https", "http") + "/health", timeout=60)
            raise AssertionError("plain HTTP on a TLS port")
        except (urllib.error.URLError, OSError):
            pass
        with urllib.request.urlopen(server.url + "/health", timeout=60, context=trusting) as response:
            assert response.status == 200


# --- Its life ---

def loading_is_told():
    """A model that takes a while: until it is there, 503 with the state; then 200."""
    folder = FOLDER / "slow"
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        link(folder / name, MODEL / name)
    config = json.loads((MODEL / "config.json").read_text())
    config.update(num_hidden_layers=40, moe_intermediate_size=512, intermediate_size=4096)
    for name in ("mlp_layer_types", "indexer_types", "layer_types"):
        config.pop(name, None)
    (folder / "config.json").write_text(json.dumps(config))
    port = free_port()
    answers = set()

    def poll(stop):
        while not stop.is_set():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as response:
                    answers.add((response.status, response.headers["x-glint-state"], None))
            except urllib.error.HTTPError as error:
                answers.add((error.code, error.headers["x-glint-state"], error.headers["retry-after"]))
            except (urllib.error.URLError, OSError):
                pass  # not yet listening, or ended
            time.sleep(0.005)

    stop = threading.Event()
    thread = threading.Thread(target=poll, args=[stop])
    thread.start()
    try:
        with Served([GLINT, "serve", folder, "--load-format", "dummy"], port=port) as server:
            assert server.request("/health")[0] == 200
            until("the other client sees it too", lambda: any(status == 200 for status, _, _ in answers))
    finally:
        stop.set()
        thread.join()
    starting = [answer for answer in answers if answer[1] == "starting"]
    assert starting and all(status == 503 and after for status, _, after in starting), answers


def the_first_signal_lets_answers_end():
    for how in (signal.SIGTERM, signal.SIGINT):
        assert any(an_answer_ends_after(how) for _ in range(3)), how


def an_answer_ends_after(how):
    """Whether the server was seen to drain: the answer may have ended before."""
    server = Served([GLINT, "serve", MODEL], "--shutdown-timeout", "600")
    stream = Stream(server, 1500)
    server.process.send_signal(how)
    try:
        until("the server drains", lambda: server.request("/health")[0] == 503)
        health, refusal = server.request("/health"), completion(server)
    except OSError:
        refusal = None
    assert stream.tokens() == (1500, True), stream.tokens()
    assert server.process.wait(60) == 0
    server.end(seconds=1)
    if refusal:
        status, headers, _ = health
        assert status == 503 and int(headers["retry-after"]) >= 1 and headers["x-glint-state"] == "draining", headers
        status, headers, body = refusal
        assert status == 503 and headers["retry-after"] and "error" in body, (status, body)
    return refusal is not None


def the_second_signal_ends_at_once():
    server = Served([GLINT, "serve", MODEL])
    stream = Stream(server, 4000)
    server.process.send_signal(signal.SIGTERM)
    until("the server drains", lambda: server.request("/health")[0] == 503)
    assert server.end(signal.SIGTERM) == 128 + signal.SIGTERM
    count, done = stream.tokens()
    assert 0 < count < 4000 and not done, (count, done)


def waiting_for_answers_has_an_end():
    server = Served([GLINT, "serve", MODEL], "--shutdown-timeout", "0.2")
    stream = Stream(server, 4000)
    assert server.end() == 0
    assert stream.tokens()[0] < 4000
    holds("\n".join(server.lines), "ending: 1 request", "cut off")


def killed_and_started_on_the_same_port():
    port = free_port()
    server = Served([GLINT, "serve", MODEL], port=port)
    stream = Stream(server, 4000)
    assert server.end(signal.SIGKILL) == -signal.SIGKILL
    stream.thread.join(60)
    with Served([GLINT, "serve", MODEL], port=port) as again:
        assert again.url == server.url and completion(again)[0] == 200


# --- What clients do to it ---

def who_vanishes_frees_its_pages():
    """Prompts of many small steps, whose clients go away while they are read."""
    with Served([GLINT, "serve", MODEL], "--max-num-batched-tokens", "64") as server:
        address = ("127.0.0.1", int(server.url.rsplit(":", 1)[1]))
        clients = []
        for i in range(16):
            body = json.dumps({"prompt": [100 + i] + [200 + j % 1000 for j in range(3500)], "max_tokens": 8}).encode()
            client = socket.create_connection(address)
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
                           b"content-length: %d\r\n\r\n" % len(body) + body)
            clients.append(client)
        engine = lambda: server.request("/engine")[2]
        until("prompts are read", lambda: engine()["used_pages"] > 0)
        for client in clients:
            client.close()
        until("all pages are free", lambda: engine()["used_pages"] == engine()["running"] == engine()["waiting"] == 0)
        state = engine()
        assert state["steps"] < 16 * 3500 / 64 and state["generated_tokens"] < 16 * 8, state  # not by running to their end
        assert completion(server)[0] == 200


def overload_is_refused_and_nothing_is_lost():
    with Served([GLINT, "serve", MODEL], "--max-num-seqs", "2", "--max-queued-requests", "4") as server:
        assert server.request("/pause_generation", {})[0] == 200
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            asked = [pool.submit(completion, server, max_tokens=60, ignore_eos=True, seed=i) for i in range(40)]
            until("those beyond 2 that run and 4 that wait are refused", lambda: sum(one.done() for one in asked) == 34)
            assert server.request("/continue_generation", {})[0] == 200
        for status, headers, body in (one.result() for one in asked):
            assert status in (200, 429), (status, body)
            assert status == 200 or int(headers["retry-after"]) >= 1
        assert [one.result()[0] for one in asked].count(200) == 6
        assert completion(server)[0] == 200


def a_step_that_hangs_ends_the_program():
    """Its clients hear of it: by a status, or, where tokens came before, by an event."""
    server = Served([GLINT, "serve", MODEL], "--watchdog-timeout", "1", "--threads", "1", "--max-num-batched-tokens", "32768",
                    "--step-slowdown", "0")
    stream = Stream(server, 4000)
    prompts = [[200 + (i + j) % 3000 for j in range(3900)] for i in range(8)]
    status, _, said = server.request("/v1/completions", {"prompt": prompts, "max_tokens": 1})
    assert status == 500 and "hung" in said["error"]["message"], (status, said)
    stream.thread.join(60)
    told = json.loads([event for event in stream.events if event.startswith("{")][-1])
    assert "hung" in told["error"]["message"], told
    code = server.process.wait(60)
    server.end(seconds=1)
    assert code == 70, code
    dump = "\n".join(server.lines)
    holds(dump, "a step hangs")
    assert re.search(r"tokens", dump.split("a step hangs", 1)[1]), dump


def main():
    tests = [vllm_of_its_guide, sglang_of_the_model_card, trtllm_of_its_guides, what_is_wrong_is_one_sentence,
             a_template_may_be_the_text_itself, seeds_and_reports, keys_from_flag_file_and_environment, tls, loading_is_told,
             the_first_signal_lets_answers_end, the_second_signal_ends_at_once, waiting_for_answers_has_an_end,
             killed_and_started_on_the_same_port, who_vanishes_frees_its_pages, overload_is_refused_and_nothing_is_lost,
             a_step_that_hangs_ends_the_program]
    wanted = sys.argv[3:]  # by hand: some of them
    try:
        for test in tests:
            if not wanted or test.__name__ in wanted:
                test()
                print(test.__name__, "passed", flush=True)
    finally:
        shutil.rmtree(FOLDER)


main()
