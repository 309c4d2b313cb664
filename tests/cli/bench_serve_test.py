"""glint bench serve against a real server: nothing fails, nothing is out of order, and it counts what it sends. Times are not judged.

    bench_serve_test.py GLINT MODEL_DIR
"""
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "server"))
from served import Served

GLINT, MODEL = sys.argv[1:]


def bench(*arguments, code=0):
    done = subprocess.run([GLINT, "bench", "serve", *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


def side_by_side(*arguments, code=0):
    done = subprocess.run([GLINT, "bench", "report", *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done


with Served([GLINT, "serve", MODEL], "--max-num-seqs", "16") as server:
    out, _ = bench(server.url, "-c", "1,8,40", "--input-len", "8", "--output-len", "5", "--num-prompts", "48", "--check", "6", "--json")
    report = json.loads(out)
    assert report["model"] == "glm5-tiny" and [r["concurrency"] for r in report["results"]] == [1, 8, 40], report
    for result in report["results"]:
        assert result["failed"] == result["different"] == 0 and result["compared"] == 6, result
        assert result["requests"] == 48 and result["output_tokens"] == 48 * 5, result
        # Tokens that are no whole character yet come with the next: chunks can be fewer.
        assert 0 < result["itl_ms"]["count"] <= 48 * 4 and result["ttft_ms"]["count"] == 48, result
        assert result["engine"]["steps"] >= 5 and result["output_tokens_per_s"] > 0, result
    # The server counted the tokens that were asked for: each measurement and its answers asked again.
    assert server.request("/engine")[2]["generated_tokens"] == 3 * (48 + 6) * 5

    out, _ = bench(server.url, "-c", "3", "--input-len", "4", "--output-len", "200", "--long-prompt", "300", "--repeat", "2",
                   "--pause", "0.1", "--json")
    result = json.loads(out)["results"][0]
    assert result["failed"] == 0 and result["prefill_ms"]["count"] == 2, result
    assert result["plain_itl_ms"]["count"] > 0 and result["beside_itl_ms"]["count"] > 0, result

    out, _ = bench(server.url, "-c", "2", "--request-rate", "inf", "--num-prompts", "4", "--input-len", "4", "--output-len", "3")
    assert "Output tok/s" in out and "TPOT ms" in out and "4 requests in" in out, out

    # A rate that is asked for to be infinite: all at once, once.
    out, _ = bench(server.url, "--request-rate", "inf", "--num-prompts", "4", "--output-len", "3", "--tokenizer", "x", "--trust-remote-code", "--disable-tqdm", "--json")
    report = json.loads(out)
    assert [r["concurrency"] for r in report["results"]] == [0] and report["figures"][0]["name"] == "output, all at once", report

    # Drawn answers differ each time, and so may those at a temperature that the server chooses.
    for temperature in ("1", "null"):
        out, _ = bench(server.url, "-c", "2", "--num-prompts", "8", "--output-len", "8", "--extra-body", '{"temperature": %s}' % temperature, "--json")
        result = json.loads(out)["results"][0]
        assert result["failed"] == result["compared"] == 0 and result["requests"] == 8, result

    out, _ = bench(server.url, "-c", "2", "--num-prompts", "4", "--output-len", "8", "--temperature", "1", "--top-p", "0.9", "--top-k", "5", "--json")
    assert json.loads(out)["results"][0]["failed"] == json.loads(out)["results"][0]["compared"] == 0, out
    # Each is sent: the server says which it does not take.
    for wrong in ("top-p=2", "min-p=2", "top-k=-7", "frequency-penalty=9", "presence-penalty=9", "repetition-penalty=-1", "temperature=-1"):
        _, err = bench(server.url, "-c", "1", "--num-prompts", "1", "--output-len", "1", f"--{wrong}", code=1)
        assert wrong.split("=")[0].replace("-", "_") in err, err
    out, _ = bench(server.url, "-c", "1", "--num-prompts", "1", "--output-len", "1", "--top-p", "2", "--extra-request-body", '{"top_p": 1}', "--json")
    assert json.loads(out)["results"][0]["failed"] == 0, out

    # Several: the table of the field, the files that other tools read, and a page.
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        out, _ = bench(server.url, "-c", "1,4", "--num-prompts", "6", "--input-len", "4", "--output-len", "3", "--num-warmups", "2",
                       "--goodput", "ttft:60000", "e2el:60000", "--save-result", "--save-detailed", "--result-dir", folder,
                       "--figures", folder / "figures.json", "--output-file", folder / "lines.jsonl", "--label", "here", "--html", folder / "page.html")
        assert out.startswith("Concurrent  Output tok/s  TTFT (ms)  TPOT (ms)  ITL p99 (ms)"), out
        for word in ("Peak sustained throughput", "Peak burst throughput", "Saturation point"):
            assert word in out, out
        # Lines are whole: half of one, of a run that was killed, is not gone on with.
        lines = folder / "cut.jsonl"
        lines.write_text('{}\n{"half')
        bench(server.url, "-c", "1", "--num-prompts", "1", "--input-len", "4", "--output-len", "3", "--output-file", lines)
        *whole, half, last = lines.read_text().splitlines()
        assert [json.loads(line) for line in (*whole, last)] and half == '{"half', lines.read_text()
        figures = {f["name"]: f for f in json.loads((folder / "figures.json").read_text())["figures"]}
        assert figures["output, 4 at once"]["better"] == "more" and figures["ITL p99, 1 at once"]["median"] > 0, figures
        files = sorted(folder.glob("here-infqps-concurrency*-glm5-tiny-*.json"))
        assert len(files) == 2, files
        for file, clients in zip(files, (1, 4)):
            result = json.loads(file.read_text())
            assert result["max_concurrency"] == clients and result["completed"] == 6 and result["failed"] == 0, result
            assert result["total_input_tokens"] == 24 and result["total_output_tokens"] == 18 and result["label"] == "here", result
            assert result["request_goodput"] == result["request_throughput"] and result["errors"] == [""] * 6, result
            assert 0 < result["median_ttft_ms"] <= result["p99_ttft_ms"] <= result["p99_e2el_ms"], result
            assert 1 <= result["max_concurrent_requests"] <= 6 and len(result["ttfts"]) == 6, result
        lines = [json.loads(line) for line in (folder / "lines.jsonl").read_text().splitlines()]
        assert [line["max_concurrency"] for line in lines] == [1, 4] and lines[0]["total_output_tokens"] == 18, lines
        table = side_by_side(folder / "lines.jsonl").stdout.splitlines()
        assert [line.split("  ")[0] for line in table[1:]] == ["1 at once", "4 at once"], table
        page = (folder / "page.html").read_text()
        assert page.count("<h2>Timeline</h2>") == 2 and "<script" not in page and 'class="answer"' in page

        # Each of one load has a file of its own, however soon they follow each other.
        bench(server.url, "-c", "1,1,1", "--num-prompts", "1", "--output-len", "1", "--check", "0", "--save-result", "--result-dir", folder / "same")
        assert len(list((folder / "same").iterdir())) == 3, list((folder / "same").iterdir())

        # Saved runs, side by side.
        bench(server.url, "-c", "4", "--num-prompts", "4", "--input-len", "4", "--output-len", "3", "--save-result", "--result-dir", folder / "an/other")
        others = list((folder / "an/other").iterdir())
        both = side_by_side(*files, *others, "--html", folder / "both.html").stdout.splitlines()
        assert [line.split("  ")[0] for line in both[1:]] == ["here", "here", "other"] and "4 at once" in both[3], both
        page = (folder / "both.html").read_text()
        assert "<h1>here, other</h1>" in page and page.count('<g class="s1">') == 4 and page.count("<h2>Timeline</h2>") == 2, page
        for wrong, word in [([folder / "figures.json"], "figures.json"), ([files[0], files[0]], "--label"), ([folder / "none"], "none"),
                            ([f"{MODEL}/chat_template.jinja"], "`glint bench serve` saved")]:
            done = side_by_side(*wrong, code=2)
            assert word in done.stderr and done.stderr.count("\n") == 1, done.stderr

        # An open loop takes as long as its requests come.
        out, _ = bench(server.url, "--request-rate", "40", "--num-prompts", "20", "--input-len", "4", "--output-len", "3", "--json")
        result = json.loads(out)["results"][0]
        assert result["failed"] == 0 and result["seconds"] >= 0.5 and result["concurrency"] == 0, result
        out, _ = bench(server.url, "--ramp-up-strategy", "linear", "--ramp-up-start-rps", "20", "--ramp-up-end-rps", "60",
                       "--num-prompts", "10", "--input-len", "4", "--output-len", "3", "-c", "3", "--json")
        assert json.loads(out)["results"][0]["failed"] == 0, out

        # Prompts of other lengths, with a beginning in common.
        out, _ = bench(server.url, "-c", "4", "--num-prompts", "12", "--random-input-len", "40", "--random-output-len", "10",
                       "--random-range-ratio", '{"input": 0.5, "output": 1}', "--range-dialect", "sglang", "--random-prefix-len", "64", "--json")
        result = json.loads(out)["results"][0]
        assert result["failed"] == result["different"] == 0 and 12 * 84 <= result["input_tokens"] <= 12 * 104, result
        assert result["output_tokens"] == 120, result

        # Chat takes text, whose tokens the server counts.
        out, _ = bench(server.url, "--backend", "openai-chat", "-c", "2", "--num-prompts", "4", "--input-len", "40", "--output-len", "5", "--json")
        result = json.loads(out)["results"][0]
        assert result["failed"] == 0 and result["output_tokens"] == 20 and result["input_tokens"] >= 4 * 40, result

        # The server and the kind of endpoint by the names of other benchmarks.
        port = server.url.rsplit(":", 1)[1]
        short = ["--num-prompts", "1", "-c", "1", "--output-len", "1", "--check", "0", "--json"]
        for named in (["--base-url", server.url + "/v1", "--backend", "vllm"],
                      ["--host", "127.0.0.1", "--port", port, "--backend", "sglang-oai-chat", "--endpoint", "/v1/chat/completions"]):
            report = json.loads(bench(*named, *short)[0])
            assert report["results"][0]["failed"] == 0 and port in report["url"], report
        assert "404" in bench(server.url, *short, "--endpoint", "/elsewhere/completions", code=1)[1]

        # Percentiles by choice.
        one = ["-c", "1", "--num-prompts", "2", "--output-len", "3", "--percentile-metrics", "ttft,e2el", "--metric-percentiles", "25,99.9"]
        out, _ = bench(server.url, *one, "--result-filename", "chosen.json", "--result-dir", folder)
        assert "      p25    p99.9      max" in out and "E2E ms" in out and "TPOT ms" not in out, out
        chosen = json.loads((folder / "chosen.json").read_text())
        assert chosen["p25_ttft_ms"] <= chosen["p99.9_ttft_ms"] and "mean_itl_ms" not in chosen, chosen

        # Conversations from a file.
        talks = [{"conversations": [{"from": "human", "value": "Hello."}, {"from": "gpt", "value": "Hi, how are you?"},
                                    {"from": "human", "value": "Well."}, {"from": "gpt", "value": "Good."}]}]
        (folder / "talks.json").write_text(json.dumps(talks))
        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
        (folder / "tools.json").write_text(json.dumps([tool]))
        talk = ["-c", "2", "--num-prompts", "3", "--dataset-name", "sharegpt", "--dataset-path", folder / "talks.json",
                "--backend", "openai-chat", "--json"]
        out, _ = bench(server.url, *talk, "--max-turns", "2")
        result = json.loads(out)["results"][0]
        assert json.loads(out)["input_len"] is None, out
        assert result["failed"] == 0 and result["requests"] == 6 and result["output_tokens"] == 3 * (4 + 1), result
        # A call ends an answer.
        out, _ = bench(server.url, *talk, "--output-len", "200", "--tools", folder / "tools.json", "--extra-body", '{"tool_choice": "required"}')
        result = json.loads(out)["results"][0]
        assert result["failed"] == 0 and 0 < result["output_tokens"] < 3 * 200, result
        _, err = bench(server.url, "-c", "1", "--num-prompts", "1", "--num-warmups", "1", "--dataset-name", "sharegpt", "--dataset-path",
                       folder / "talks.json", "--json")
        assert "has 1 conversation for 1 request and 1 warm-up:" in err, err
    for arguments, word in [(["--goodput", "x:1"], "--goodput"), (["--request-rate", "0"], "--request-rate"),
                            (["--burstiness", "0"], "--burstiness"), (["--backend", "openai-chat", "--vocab", "9"], "--vocab is for"),
                            (["--backend", "openai-chat", "--check", "9"], "--check has no meaning with --backend openai-chat"),
                            (["--random-range-ratio", "2"], "--random-range-ratio"), (["--random-range-ratio", '{"input": 1}'], "expected a number, or"), (["--num-prompts", "0"], "--num-prompts is 0"),
                            (["--ramp-up-end-rps", "4"], "--ramp-up-end-rps needs --ramp-up-strategy"), (["--num-prefixes", "2"], "--random-prefix-len"),
                            (["--percentile-metrics", "ttft,x"], "got \"x\""), (["--metric-percentiles", "50,101"], "--metric-percentiles"),
                            (["--repeat", "2"], "--repeat needs --long-prompt"), (["--result-dir", "x"], "--result-dir needs --save-result"),
                            (["--extra-body", "[]"], "--extra-body"), (["--base-url", "http://x"], "URL and --base-url both"), (["--port", "9"], "URL and --port both"),
                            (["--backend", "sglang"], "sglang-oai"), (["--endpoint", "/v1/chat/completions"], "--endpoint is"),
                            (["--backend", "vllm-chat", "--endpoint", "/v1/completions"], "end with /chat/completions"),
                            (["--extra-body", '{"temperature": 1}', "--check", "2"], "--check compares answers of temperature 0"),
                            (["--temperature", "1", "--check", "2"], "--check compares answers of temperature 0"),
                            (["--burstiness", "2"], "--burstiness needs a finite --request-rate"), (["--long-prompt", "64", "--burstiness", "2"], "--burstiness"),
                            (["--long-prompt", "64", "--label", "x"], "--label"), (["--long-prompt", "64", "--check", "2"], "--check"),
                            (["--request-rate", "9", "--check", "2"], "--check has no meaning with --request-rate"),
                            (["--ramp-up-strategy", "linear", "--ramp-up-start-rps", "1", "--ramp-up-end-rps", "2", "--check", "2"], "--check"),
                            (["--dataset-name", "sharegpt", "--dataset-path", "/none", "--check", "8"], "--check"),
                            (["--dataset-name", "sharegpt", "--dataset-path", "/none"], "/none"),
                            (["--dataset-name", "sharegpt", "--dataset-path", "/none", "--input-len", "128"], "--input-len is for prompts drawn at random"),
                            (["--dataset-name", "sharegpt", "--dataset-path", "/none", "--vocab", "9"], "--vocab is for prompts"),
                            (["--html", "/none/x"], "/none/x"), (["--figures", "/none/x"], "/none/x"), (["--output-file", "/none/x"], "/none/x"),
                            (["--dataset-name", "sharegpt", "--dataset-path", folder / "talks.json", "--html", folder / "talks.json"], "--dataset-path"),
                            (["--html", folder / "x", "--output-file", folder / "x"], "--html"),
                            (["--save-result", "--result-dir", "/proc/none"], "/proc/none")]:
        out, err = bench(server.url, *arguments, code=2)
        assert not out and word in err and err.count("\n") == 1, err

    # Prompts that do not fit are failures, and the exit code says so.
    out, err = bench(server.url, "-c", "2", "--num-prompts", "3", "--input-len", "5000", code=1)
    assert "3 requests failed" in err and "maximum context length" in err and "no request succeeded" in out, (out, err)
    url = server.url
for named, address in [(["--host", "::1", "--port", "1"], "[::1]:1"), (["--port", "1"], "127.0.0.1:1")]:
    assert address in bench(*named, code=2)[1]
_, err = bench("--base-url", "http://x", "--host", "y", code=2)
assert "--base-url and --host both" in err, err
_, err = bench(url, code=2)
assert "cannot reach" in err and len(err.strip().split("\n")) == 1, err
_, err = bench("ftp://x", code=2)
_, err = bench(url + "/v1/completions", code=2)
assert "got the path" in err and "/v1/completions" in err, err
_, err = bench(url, "--concurrency", "0", code=2)
assert "--concurrency is 0" in err, err
with Served([GLINT, "serve", MODEL], "--api-key", "k") as server:
    _, err = bench(server.url, code=2)
    assert "GLINT_API_KEY" in err, err
print("bench serve measures")
