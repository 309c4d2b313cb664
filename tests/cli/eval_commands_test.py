#!/usr/bin/env python3
"""glint calibrate and glint eval as a user meets them: what they print and write, what they refuse, SIGTERM.

    eval_commands_test.py GLINT MODEL RECORD
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from program import GLINT, check, output, refused, succeed

MODEL, RECORD = sys.argv[2], pathlib.Path(sys.argv[3])


def ranges_of(path):
    return json.loads(path.read_text())["ranges"]


def calibrate_merges_to_one(folder):
    lines = ['{"text": "Once upon a time there was a cat"}',
             '{"messages": [{"role": "user", "content": "What is the capital of France?"}]}',
             '{"ids": [17, 5, 300, 2000]}']
    paths = []
    for i, line in enumerate(lines):
        (folder / f"{i}.jsonl").write_text(line + "\n")
        paths.append(folder / f"{i}.json")
        result = succeed("calibrate", MODEL, "--prompts", folder / f"{i}.jsonl", "--out", paths[-1])
        check("300 ranges" in result.stdout, "summary", result.stdout)
    # Experts that saw nothing are in the file with no token, and on stderr.
    unseen = {name: r for name, r in ranges_of(paths[2]).items() if r["tokens"] == 0}
    check(unseen and all(".experts." in name and r["amax"] == 0 for name, r in unseen.items()), "unseen", unseen)
    check("no token reached" in result.stderr and "of 16 experts (" in result.stderr, "unseen experts", result.stderr)
    # Merging needs no model, and equals one calibration with all prompts.
    (folder / "all.jsonl").write_text("\n".join(lines))
    shown = json.loads(output("calibrate", MODEL, "--prompts", folder / "all.jsonl", "--out", folder / "all.json", "--chunk", 9,
                              "--threads", 1, "--json"))
    check(shown["prompts"] == 3 and shown["ranges"] == 300 and shown["tokens"] > 20, "json", shown)
    succeed("calibrate", "--merge", *paths, "--out", folder / "merged.json")
    check((folder / "merged.json").read_bytes() == (folder / "all.json").read_bytes(), "merged is not one of all prompts")
    # The first linear of the model sees every token; the MTP layer, one less of each prompt.
    found = ranges_of(folder / "all.json")
    check(found["model.layers.0.self_attn.q_a_proj"]["tokens"] == shown["tokens"], "tokens")
    check(found["model.layers.5.self_attn.q_a_proj"]["tokens"] == shown["tokens"] - 3, "tokens of the MTP layer")


def calibrate_refuses(folder):
    prompts = folder / "0.jsonl"
    refused("calibrate", words=["MODEL"])
    refused("calibrate", MODEL, words=["--prompts"])
    refused("calibrate", MODEL, MODEL, "--prompts", prompts, words=["one MODEL"])
    refused("calibrate", MODEL, "--prompts", folder / "none.txt", words=["none.txt"])
    refused("calibrate", MODEL, "--prompts", prompts, "--chunk", 0, words=["--chunk", "0"])
    bad = folder / "bad.jsonl"
    bad.write_text('{"text": "a"}\n{"ids": [1, 99999]}\n')
    refused("calibrate", MODEL, "--prompts", bad, words=["bad.jsonl", "line 2", "99999"])
    refused("calibrate", "--merge", words=["--merge"])
    refused("calibrate", "--merge", folder / "0.json", "--prompts", prompts, words=["--prompts"])
    refused("calibrate", "--merge", folder / "0.json", "--chunk", 1024, words=["--merge runs nothing", "--chunk"])
    refused("calibrate", "--merge", folder / "0.json", "--dtype", "bf16", words=["--merge runs nothing", "--dtype"])
    refused("calibrate", "--merge", prompts, words=["0.jsonl", "format"])
    for file in (pathlib.Path(MODEL) / "chat_template.jinja", pathlib.Path(MODEL) / "model.safetensors"):
        refused("calibrate", "--merge", file, words=[str(file), "that glint calibrate wrote"])
    other = json.loads((folder / "0.json").read_text())
    del other["ranges"]["model.layers.0.mlp.down_proj"]
    (folder / "other.json").write_text(json.dumps(other))
    refused("calibrate", "--merge", folder / "0.json", folder / "other.json", words=["other.json", "different models"])
    refused("calibrate", MODEL, "--prompts", prompts, "--out", folder / "none/x.json", words=["none/x.json"])
    merged = json.loads(output("calibrate", "--merge", folder / "0.json", "--out", folder / "same.json", "--json"))
    check(merged["ranges"] > 0 and "tokens" not in merged, "a merge ran nothing", merged)
    check(not (folder / "calibration.json").exists(), "a refused command wrote")
    small = folder / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", small], capture_output=True).returncode != 0:
        return  # not allowed here
    try:
        refused("calibrate", MODEL, "--prompts", prompts, "--out", small / "x.json", words=["small/x.json needs", "are free there"])
        # There is room for the row of logits, not for the residual stream beside it.
        two = folder / "two.txt"
        two.write_text("1 2")
        refused("eval", MODEL, "--ref", MODEL, "--ids", two, "--tmp", small, words=["needs", "are free there", "--tmp"])
    finally:
        subprocess.run(["umount", small], check=True)


def catches(process, number):
    """Whether it has a handler of the signal."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) >> (number - 1) & 1


def sigterm_keeps_what_ran(folder):
    row = (RECORD / "heldout.ids.txt").read_text().splitlines()[0].split()
    prompts = folder / "many.jsonl"
    prompts.write_text("".join(json.dumps({"ids": [int(i) for i in row]}) + "\n" for _ in range(400)))
    out = folder / "many.json"
    process = subprocess.Popen([GLINT, "calibrate", MODEL, "--prompts", prompts, "--out", out], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    while not catches(process, signal.SIGTERM):  # while it loads, the signal ends it
        check(process.poll() is None, "it ended")
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    errors = process.communicate(timeout=300)[1]
    check(process.returncode == 143, f"exit {process.returncode}", errors)
    check("line " in errors and ".partial" in errors, "what is left to do", errors)
    check(not out.exists(), "an unfinished calibration looks finished")
    tokens = ranges_of(folder / "many.json.partial")["model.layers.0.self_attn.q_a_proj"]["tokens"]
    check(0 < tokens < 400 * len(row), "tokens", tokens)


def eval_compares(folder):
    ids = folder / "ids.txt"
    ids.write_text("\n".join((RECORD / "heldout.ids.txt").read_text().splitlines()[:2]))
    page = folder / "report.html"
    table = output("eval", MODEL, "--ref", MODEL, "--ref-dtype", "f32", "--ids", ids, "--html", page)
    for word in ("perplexity", "KL(ref || model)", "top-1 agreement", "after layer 3", "f32, KV f32, index keys f32"):
        check(word in table, word, table)
    check(page.read_text().startswith("<!DOCTYPE html>") and page.read_text().count("<svg") == 3, "page")
    shown = json.loads(output("eval", MODEL, "--ref", MODEL, "--ids", ids, "--kv-dtype", "fp8", "--json", "--layer-rows", 50))
    check(shown["rows"] == 2046 and 0 < shown["kl"]["mean"] < 1e-3 and shown["layer_rows"] == 50, "json", shown)
    check("KV fp8" in shown["model"]["computed_in"] and "KV bf16" in shown["reference"]["computed_in"], "caches", shown)
    size = os.path.getsize(pathlib.Path(MODEL) / "model.safetensors")
    check(shown["model"]["file_bytes"] == size, "file_bytes", shown)
    # Perplexities are those of `glint score`.
    scored = json.loads(output("score", MODEL, "--ids", ids, "--json"))
    check(abs(scored["perplexity"] / shown["reference"]["perplexity"] - 1) < 1e-6, "perplexity", (scored, shown))
    text = folder / "text.txt"
    text.write_text("Once upon a time there was a little cat. " * 30)
    shown = json.loads(output("eval", MODEL, "--ref", MODEL, "--text", text, "--context", 100, "--json"))
    check(shown["sequences"] > 2 and shown["kl"]["max"] == 0 and shown["top1_agreement"] == 1, "text", shown)
    # Ranks as threads: the bits of one rank that cuts its sums in as many slices, and others than those of whole sums.
    line = ("eval", MODEL, "--ref", MODEL, "--text", text, "--kv-dtype", "fp8", "--threads", 2, "--json")
    whole, sliced, two_ranks = (json.loads(output(*line, *more)) for more in ((), ("--reduce-slices", 2), ("--tp", 2)))
    check([len(said.pop("ranks")) for said in (whole, sliced, two_ranks)] == [1, 1, 2], "ranks", two_ranks)
    check(sliced == two_ranks != whole, "ranks change an evaluation", (sliced, two_ranks))
    fewer = succeed("eval", MODEL, "--ref", MODEL, "--text", text, "--dp", 3, "--threads", 2).stderr
    check(fewer.count("dp 3 -> 2") == 1, "the layout of both is told once", fewer)


def eval_refuses(folder):
    ids = folder / "ids.txt"
    golden = pathlib.Path(__file__).parent.parent / "golden" / "odd"
    refused("eval", MODEL, "--ids", ids, words=["--ref"])
    refused("eval", MODEL, "--ref", MODEL, words=["--text", "--ids"])
    refused("eval", MODEL, "--ref", "no/such/model", "--ids", ids, words=["no/such/model"])
    refused("eval", MODEL, "--ref", MODEL, "--ids", ids, "--tmp", folder / "none", words=["none"])
    # Before the reference runs, which may take hours.
    long = folder / "long.txt"
    long.write_text((" ".join(["5"] * 4096) + "\n") * 10_000)
    refused("eval", "no/such/model", "--ref", MODEL, "--ids", long, words=["no/such/model"])
    refused("eval", MODEL, "--ref", MODEL, "--ids", long, "--html", folder / "none/x.html", words=["none/x.html"])
    refused("eval", MODEL, "--ref", MODEL, "--ids", ids, "--layer-rows", -1, words=["--layer-rows", "-1"])
    refused("eval", MODEL, "--ref", MODEL, "--text", ids, "--context", 1, words=["--context", "1"])
    refused("eval", MODEL, "--ref", MODEL, "--ids", ids, "--context", 64, words=["--context cuts --text"])
    few = folder / "few.txt"
    few.write_text("1 2 3\n")
    refused("eval", golden, "--ref", MODEL, "--ids", few, words=["vocab_size 3712", "101"])
    few.write_text("5\n7\n")
    refused("eval", MODEL, "--ref", MODEL, "--ids", few, words=["two tokens"])


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    calibrate_merges_to_one(folder)
    calibrate_refuses(folder)
    sigterm_keeps_what_ran(folder)
    eval_compares(folder)
    eval_refuses(folder)
print("calibrate and eval keep their word")
