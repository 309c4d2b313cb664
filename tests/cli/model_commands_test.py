#!/usr/bin/env python3
"""generate and score as a user runs them, on the bundled model: streams, JSON, files, and refusals.

    model_commands_test.py build/release/glint models/glm5-tiny models/record
"""

import json
import math
import pathlib
import shutil
import struct
import sys
import tempfile

from program import check, output, refused, run

MODEL, RECORD = sys.argv[2], pathlib.Path(sys.argv[3])
FRANCE = "The capital of France is"


def read_npy(path):
    """Shape and flat float32 values."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:10 + size].decode())
    check(header["descr"] == "<f4" and not header["fortran_order"], f"{path}: {header}")
    return header["shape"], struct.unpack(f"<{(len(data) - 10 - size) // 4}f", data[10 + size:])


def generate_streams_and_stops():
    greedy = ("--temperature", 0, "--dtype", "f32")
    check(output("generate", MODEL, "-p", FRANCE, *greedy) == " Paris.", "the capital of France")
    check(output("generate", MODEL, "-p", FRANCE, *greedy, "--stop", "ris") == " Pa", "--stop")
    check(output("generate", MODEL, "-p", FRANCE, *greedy, "--max-tokens", 1) == " Paris", "--max-tokens")
    check("<|user|>" in output("generate", MODEL, "-p", FRANCE, *greedy, "--ignore-eos", "-n", 5), "--ignore-eos")
    poem = output("generate", MODEL, "-p", "Write a short poem about a cat and a dog", *greedy)
    check(poem == output("generate", MODEL, "-p", "Write a short poem about a cat and a dog", *greedy, "--spec", "mtp:3"), "mtp")


def generate_json_has_the_numbers():
    one = json.loads(output("generate", MODEL, "-p", FRANCE, "--temperature", 0, "--json"))
    check(one["text"] == " Paris." and one["tokens"] == [1851, 13] and one["finish_reason"] == "stop", "json", one)
    check(one["usage"] == {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}, "usage", one)
    check(len(one["logprobs"]) == 2 and all(-1 < p <= 0 for p in one["logprobs"]), "logprobs", one)
    check(one["timings"]["prefill_s"] > 0, "timings", one)
    cut = json.loads(output("generate", MODEL, "-p", "Once upon a time", "--temperature", 0, "--json", "-n", 3))
    check(cut["finish_reason"] == "length" and len(cut["tokens"]) == 3, "length", cut)
    drafted = json.loads(output("generate", MODEL, "-p", "Once upon a time", "--temperature", 0, "--json", "--spec", "mtp:2"))
    check(0 < drafted["speculation"]["accepted"] <= drafted["speculation"]["drafted"], "speculation", drafted)


def the_seed_decides():
    say = lambda seed, *more, env=None: output("generate", MODEL, "-p", "Once upon a time", "-n", 30, "--seed", seed, *more, env=env)
    check(say(1) == say(1, "--threads", 1) == say(1, env={"OMP_NUM_THREADS": "1"}), "same seed, same answer")
    check(say(1) != say(2), "another seed, another answer")


def score_writes_what_it_says(folder):
    ids = folder / "ids.txt"
    row = (RECORD / "heldout.ids.txt").read_text().splitlines()[0].split()[:80]
    ids.write_text(" ".join(row) + "\n")
    shown = output("score", MODEL, "--ids", ids, "--ppl", "--dtype", "f32", "--out", folder / "x.npy", "--mtp",
                   folder / "y.npy", "--hidden", folder / "h.npy")
    lines = dict(line.split(": ") for line in shown.splitlines())
    shape, logits = read_npy(folder / "x.npy")
    check(shape == (80, 3712), "logits", shape)
    check(read_npy(folder / "y.npy")[0] == (79, 3712), "MTP logits")
    check(read_npy(folder / "h.npy")[0] == (6, 80, 256), "hidden states")
    nll = 0
    for p in range(79):
        values = logits[p * 3712:(p + 1) * 3712]
        top = max(values)
        nll += top + math.log(sum(math.exp(v - top) for v in values)) - values[int(row[p + 1])]
    check(abs(math.exp(nll / 79) / float(lines["perplexity"]) - 1) < 1e-5, "perplexity", shown)
    npy = folder / "ids.npy"
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (2, 40), }\n"
    npy.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack("<80q", *map(int, row)))
    halves = json.loads(output("score", MODEL, "--ids", npy, "--json", "--dtype", "f32", "--chunk", 7))
    check(halves["sequences"] == 2 and halves["predicted"] == 78, "two rows", halves)
    refused("score", MODEL, "--ids", ids, words=["--ppl"])
    bad = folder / "bad.txt"
    bad.write_text("1 2 3\n4 x\n")
    refused("score", MODEL, "--ids", bad, "--ppl", words=["bad.txt", "line 2", "x"])
    bad.write_text("1 2 99999\n")
    refused("score", MODEL, "--ids", bad, "--ppl", words=["99999", "3712"])
    check(not [f for f in folder.iterdir() if ".tmp" in f.name], "half-written files are left")


def wrong_input_is_refused_by_name(folder):
    refused("generate", "no/such/model", "-p", "x", words=["no/such/model"])
    refused("generate", MODEL, "-p", "", words=["prompt"])
    refused("generate", MODEL, "-p", "x", "--temperature", -1, words=["temperature", "-1"])
    refused("generate", MODEL, "-p", "x", "--spec", "eagle", words=["--spec", "eagle", "mtp:K"])
    refused("generate", MODEL, "-p", "word " * 5000, words=["4096"])
    refused("generate", MODEL, "-p", "x", "--backend", "cuda", words=["CUDA" if "no CUDA" in run("generate", MODEL, "-p", "x", "--backend", "cuda").stderr else "cuda"])
    # Files that are wrong, for every command that opens a checkpoint.
    broken = {
        "config.json": [b"not json", b"{}", b'{"model_type": "llama"}',
                        (pathlib.Path(MODEL) / "config.json").read_bytes().replace(b'"num_attention_heads": 4', b'"num_attention_heads": 0'),
                        (pathlib.Path(MODEL) / "config.json").read_bytes().replace(b'"hidden_size": 256', b'"hidden_size": "256"'),
                        b"[" * 100_000],
        "model.safetensors": [b"", b"\xff" * 100, struct.pack("<Q", 1 << 40) + b"{}",
                              (pathlib.Path(MODEL) / "model.safetensors").read_bytes()[:1_000_000]],
    }
    for name, contents in broken.items():
        for content in contents:
            copy = folder / "broken"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(MODEL, copy)
            (copy / name).write_bytes(content)
            for command in (("generate", copy, "-p", "x"), ("score", copy, "-p", "x", "--ppl"), ("inspect", copy)):
                refused(*command, words=[name])
    shutil.rmtree(folder / "broken")


with tempfile.TemporaryDirectory() as folder:
    generate_streams_and_stops()
    generate_json_has_the_numbers()
    the_seed_decides()
    score_writes_what_it_says(pathlib.Path(folder))
    wrong_input_is_refused_by_name(pathlib.Path(folder))
print("generate and score keep their word")
