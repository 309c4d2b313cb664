#!/usr/bin/env python3
"""glint train gradients and reward as a user runs them: what they print, the names and shapes in a file, and refusals.

    train_test.py build/release/glint models/glm5-tiny tests/golden
"""

import json
import os
import pathlib
import re
import struct
import sys
import tempfile

from program import check, output, refused

TINY, GOLDENS = sys.argv[2], pathlib.Path(sys.argv[3])


def read_header(path):
    """{name: (dtype, shape)} of a safetensors file, whose size must be what the header says."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    check(len(data) == 8 + size + max(t["data_offsets"][1] for t in header.values()), f"size of {path}")
    return {name: (t["dtype"], t["shape"]) for name, t in header.items()}


def is_trained(name):
    return ".indexer." not in name and not name.endswith("e_score_correction_bias")


def names_and_shapes_are_the_checkpoints(tmp):
    model, ids = GOLDENS / "odd", GOLDENS / "gradients/odd/ids.txt"
    stored = read_header(model / "model.safetensors")
    layers = json.loads((model / "config.json").read_text())["num_hidden_layers"]
    for mtp in (True, False):
        text = output("train", "gradients", model, "--ids", ids, "--out", tmp / "g.safetensors", "--dtype", "f32",
                      *(("--mtp-loss", 1) if mtp else ()))
        check(("mtp loss: " in text) == mtp, "the draft layer's loss", text)
        check(re.search(r"^loss: 5\.31042\d+ over 108 tokens$", text, re.M), "loss", text)
        expected = {name: ("F32", shape) for name, (_, shape) in stored.items()
                    if is_trained(name) and (mtp or not name.startswith(f"model.layers.{layers}."))}
        check(read_header(tmp / "g.safetensors") == expected, "names and shapes")
    check([path.name for path in tmp.iterdir()] == ["g.safetensors"], "nothing else is left")


def batches_change_the_rounding_only(tmp):
    ids = tmp / "ids.txt"
    ids.write_text("5 6 7 8 9 10\n11 12 13\n14 15 16 17\n")
    norms = set()
    for tokens in (1, 8192):
        text = output("train", "gradients", GOLDENS / "odd", "--ids", ids, "--out", tmp / "g.safetensors", "--dtype", "f32",
                      "--batch-tokens", tokens)
        norm = re.search(r"gradient norm: (\S+)", text)[1]
        norms.add(f"{float(norm):.4g}")
    check(len(norms) == 1, "norms", norms)


def ranks_give_the_gradient_of_one(tmp):
    ids, found = tmp / "ids.txt", {}
    ids.write_text("5 6 7 8 9 10\n11 12 13\n14 15 16 17\n")
    for dp in (1, 2, 3):
        found[dp] = json.loads(output("train", "gradients", GOLDENS / "odd", "--ids", ids, "--out", tmp / f"g{dp}.safetensors", "--dtype", "f32",
                                      "--dp", dp, "--threads", 3, "--json"))
        one, here = found[1], found[dp]
        check(here["tokens"] == 10 and len(here["ranks"]) == dp, "ranks", here)
        for name in ("loss", "gradient_norm"):
            check(abs(here[name] - one[name]) <= 1e-5 * one[name], name, (one, here))
        calls = [rank["collectives"] for rank in here["ranks"]]
        check(calls == [{}] if dp == 1 else all(c["dp"]["all_reduce"]["bytes"] == 4 * here["parameters"] for c in calls), "collectives", calls)
        check(read_header(tmp / f"g{dp}.safetensors") == read_header(tmp / "g1.safetensors"), "the file")
    tiny = ("train", "gradients", TINY, "--ids", ids, "--dtype", "f32", "--mtp-loss", 0.3, "--json")
    one = json.loads(output(*tiny, "--out", tmp / "one"))
    layouts = ((("--tp", 2), "tp", "all_reduce"), (("--ep", 2), "ep", "exchange"), (("--tp", 2, "--ep", 2), "ep", "exchange"))
    for layout, group, call in layouts:
        here = json.loads(output(*tiny, "--out", tmp / group, "--threads", 2, *layout))
        for name in ("loss", "mtp_loss", "gradient_norm"):
            check(abs(here[name] - one[name]) <= 1e-5 * one[name], name, (layout, one, here))
        check(len(here["ranks"]) == 2 and all(rank["collectives"][group][call]["bytes"] > 0 for rank in here["ranks"]), "collectives", here)
        check(all(rank["gradient_bytes"] < one["ranks"][0]["gradient_bytes"] for rank in here["ranks"]), "each has a part", here)
        check(read_header(tmp / group) == read_header(tmp / "one"), "the file")
    for group, call in (("cp", "exchange"), ("pp", "send")):
        here = json.loads(output(*tiny, "--out", tmp / group, "--threads", 2, "--batch-tokens", 4, f"--{group}", 2))
        for name in ("loss", "mtp_loss", "gradient_norm"):
            check(abs(here[name] - one[name]) <= 1e-5 * one[name], name, (group, one, here))
        check(all(rank["collectives"][group][call]["bytes"] > 0 for rank in here["ranks"]), "collectives", here)
        check(read_header(tmp / group) == read_header(tmp / "one"), "the file")
    check([rank["layers"] for rank in here["ranks"]] == [[0, 2], [2, 5]], "stages", here)
    refuse = lambda *args, words: refused("train", "gradients", TINY, "--ids", ids, "--out", tmp / "g", "--threads", 8, *args, words=words)
    refuse("--tp", 3, words=["num_attention_heads"])
    refuse("--ep", 2, "--dp", 3, words=["ep is 2", "3 ranks"])
    refuse("--ep", 0, words=["--ep is 0"])
    refuse("--pp", 6, words=["pp is 6", "5 layers"])
    refuse("--cp", 2, "--dp", 3, words=["cp is 2", "dp, which is 3"])
    refused("train", "gradients", GOLDENS / "odd", "--ids", ids, "--out", tmp / "g", "--dp", 4, "--threads", 3, words=["4 ranks", "--threads 4"])


def what_cannot_work_is_refused(tmp):
    ids, out = tmp / "ids.txt", tmp / "g.safetensors"
    ids.write_text("5 6 7 8\n")
    train = ("train", "gradients")
    refused(*train, TINY, "--out", out, words=["--ids FILE"])
    refused(*train, TINY, "--ids", ids, words=["--out"])
    refused(*train, TINY, "--ids", ids, "--out", out, "--mtp-loss", -1, words=["--mtp-loss is -1"])
    refused(*train, TINY, "--ids", ids, "--out", out, "--batch-tokens", 0, words=["--batch-tokens is 0"])
    refused(*train, TINY, "--ids", ids, "--out", tmp / "nowhere/g", words=["nowhere"])
    # A file may not take the place of what others read and write.
    os.mkfifo(tmp / "pipe")
    refused(*train, TINY, "--ids", ids, "--out", tmp / "pipe", words=["pipe: it is not a regular file"])
    refused(*train, TINY, "--ids", ids, "--out", tmp, words=[f"{tmp}: it is a directory"])
    (tmp / "real").write_text("old")
    (tmp / "link").symlink_to("real")
    output(*train, TINY, "--ids", ids, "--out", tmp / "link")
    check((tmp / "link").is_symlink() and len((tmp / "real").read_bytes()) > 1000, "the file is replaced, not the link")
    refused(*train, GOLDENS / "fp8_block", "--ids", ids, "--out", out, words=["stored in fp8", "bf16 or f32"])
    ids.write_text("5 6 7 8\n5 999999\n")
    refused(*train, TINY, "--ids", ids, "--out", out, words=["ids.txt", "sequence 2", "999999"])
    ids.write_text("5\n6\n")
    refused(*train, TINY, "--ids", ids, "--out", out, words=["nothing to predict"])
    check(not out.exists(), "a refused run leaves no file")


def gradients_are_checked_on_the_checkpoint(tmp):
    check_gradients = ("train", "--check-gradients")
    text = output(*check_gradients, GOLDENS / "odd", "--ids", GOLDENS / "gradients/odd/ids.txt")
    check("51 of 51 parameters agree to 2 %. Loss" in text and text.count(" ok\n") == 51 and "lm_head " in text and ".eh_proj " in text, "the table", text)
    text = output(*check_gradients, GOLDENS / "odd", "--ids", GOLDENS / "gradients/odd/ids.txt", "--mtp-loss", 0)
    check("31 of 31 parameters agree" in text and "eh_proj" not in text, "without the draft layer", text)
    (tmp / "ids.txt").write_text("1 2 3\n")
    text = output(*check_gradients, TINY, "--ids", tmp / "ids.txt", "--mtp-loss", 0)
    check("parameters agree to 2 %; the loss tells nothing of the other " in text, "the rounding of a short text", text)
    refused(*check_gradients, GOLDENS / "odd", "--ids", GOLDENS / "gradients/odd/ids.txt", "--mtp-loss", -1, words=["--mtp-loss is -1"])
    (tmp / "ids.txt").write_text("5\n")
    refused(*check_gradients, GOLDENS / "odd", words=["--ids FILE"])
    refused(*check_gradients, GOLDENS / "odd", "--ids", tmp / "ids.txt", words=["at least 2 tokens"])
    refused(*check_gradients, GOLDENS / "fp8_block", "--ids", GOLDENS / "gradients/odd/ids.txt", words=["bf16 or f32"])


def rewards_are_explained(tmp):
    reward = ("train", "reward", "--label", 34, "--rm-type")
    said = tmp / "answer.txt"
    said.write_text("2 * 17</think>Answer: \\boxed{34.0}")
    check(output(*reward, "deepscaler", "--file", said) == "1.0: the answer equals the label\n", "right")
    found = json.loads(output(*reward, "dapo", "--text", "Answer: 33", "--json"))
    check(found == {"reward": -1.0, "answer": "33", "reason": 'the answer "33" is not "34"'}, "wrong", found)
    check(output(*reward, "math", "--text", "").startswith("0.0: there is no"), "an answer that says nothing")
    check(output("train", "reward", "--rm-type", "math", "--label", "", "--text", "\\boxed{}") == "0.0: the label is empty\n", "a label that says nothing")
    refused(*reward, "deepscale", "--text", "34", words=["deepscale", "deepscaler, math, dapo"])
    refused(*reward, "math", words=["--text", "--file"])


for test in (rewards_are_explained, gradients_are_checked_on_the_checkpoint, names_and_shapes_are_the_checkpoints, batches_change_the_rounding_only, ranks_give_the_gradient_of_one, what_cannot_work_is_refused):
    with tempfile.TemporaryDirectory() as tmp:
        test(pathlib.Path(tmp))
