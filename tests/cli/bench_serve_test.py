"""glint bench serve against a real server: nothing fails, nothing is out of order, and it counts what it sends. Times are not judged.

    bench_serve_test.py GLINT MODEL_DIR
"""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "server"))
from served import Served

GLINT, MODEL = sys.argv[1:]


def bench(*arguments, code=0):
    done = subprocess.run([GLINT, "bench", "serve", *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


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
    # What the server counted is what was asked: each measurement and its answers asked again.
    assert server.request("/engine")[2]["generated_tokens"] == 3 * (48 + 6) * 5

    out, _ = bench(server.url, "-c", "3", "--input-len", "4", "--output-len", "200", "--long-prompt", "300", "--repeat", "2",
                   "--pause", "0.1", "--json")
    result = json.loads(out)["results"][0]
    assert result["failed"] == 0 and result["prefill_ms"]["count"] == 2, result
    assert result["plain_itl_ms"]["count"] > 0 and result["beside_itl_ms"]["count"] > 0, result

    out, _ = bench(server.url, "-c", "2", "--num-prompts", "4", "--input-len", "4", "--output-len", "3")
    assert "tok/s" in out and len(out.strip().split("\n")) == 3, out

    # Prompts that do not fit are failures, and the exit code says so.
    _, err = bench(server.url, "-c", "2", "--num-prompts", "3", "--input-len", "5000", code=1)
    assert "3 requests failed" in err and "maximum context length" in err, err
    url = server.url
_, err = bench(url, code=2)
assert "cannot reach" in err and len(err.strip().split("\n")) == 1, err
_, err = bench("ftp://x", code=2)
_, err = bench(url, "--concurrency", "0", code=2)
assert "--concurrency is 0" in err, err
with Served([GLINT, "serve", MODEL], "--api-key", "k") as server:
    _, err = bench(server.url, code=2)
    assert "GLINT_API_KEY" in err, err
print("bench serve measures")
