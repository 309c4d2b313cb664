#!/usr/bin/env python3
"""Wrong files are refused alike by every command that reads them: exit code 2, one sentence that names the file, nothing on stdout.

    refusals_test.py build/release/glint models/glm5-tiny
"""

import json
import os
import pathlib
import shutil
import struct
import sys
import tempfile

from program import GLINT, check, run, succeed

sys.path.append(str(pathlib.Path(__file__).parents[1] / "server"))
from served import Served  # noqa: E402

TINY = pathlib.Path(sys.argv[2])
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
TEXT_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")
# The bundled model's kind, small enough to be copied for every case.
SMALL = {"hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
         "n_routed_experts": 4, "num_experts_per_tok": 2, "q_lora_rank": 32, "kv_lora_rank": 64, "qk_nope_head_dim": 32,
         "qk_rope_head_dim": 16, "qk_head_dim": 48, "v_head_dim": 32, "index_n_heads": 2, "index_head_dim": 32}


def commands(model, folder):
    """Command lines by what they read: each reads the configuration and the weights, and what its entry names."""
    text = folder / "text.txt"
    text.write_text("Once upon a time\n")
    out = folder / "out"
    return {
        "generate": (("generate", model, "-p", "x", "--chat", "-n", 1), TEXT_FILES),
        "chat": (("chat", model), TEXT_FILES),
        "score": (("score", model, "-p", "some text", "--ppl"), ("tokenizer.json", "generation_config.json")),
        "serve": (("serve", model, "--port", 0), TEXT_FILES),
        "eval": (("eval", model, "--ref", model, "--text", text), ("tokenizer.json", "generation_config.json")),
        "calibrate": (("calibrate", model, "--prompts", text, "--out", out), ("tokenizer.json", "generation_config.json")),
        "quantize": (("quantize", model, out, "--format", "fp8"), TEXT_FILES),
        "bench": (("bench", "local", model, "-p", 4, "-n", 1, "-r", 1), ("generation_config.json",)),
        "verify": (("verify", model), ()),
        "inspect": (("inspect", model), ("generation_config.json",)),
    }


def with_header(model, change):
    """The model's weights under a changed header."""
    data = (model / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = change(json.loads(data[8:8 + size]))
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + data[8 + size:]


def with_entry(name, **fields):
    def change(header):
        header[name] = {**header[name], **fields}
        return header
    return change


def wrong_weights(model):
    """Contents of model.safetensors, and what its refusal names besides the file."""
    norm, data = "model.norm.weight", (model / "model.safetensors").read_bytes()
    at = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])[norm]["data_offsets"]
    return [
        (b"", "cut short"),
        (data[:-1], "cut short"),
        (struct.pack("<Q", (1 << 64) - 1) + b"{}", "18446744073709551615"),
        (struct.pack("<Q", 1_000_000) + b"[" * 1_000_000, "too deep"),
        (with_header(model, lambda h: json.dumps(h).encode()[:-1] + b"," + json.dumps({norm: h[norm]}).encode()[1:]), "repeated key"),
        (with_header(model, with_entry(norm, data_offsets=[at[0] - 2, at[1] - 2])), "overlaps"),
        (with_header(model, with_entry(norm, data_offsets=[(1 << 63) - 8, (1 << 63) - 1])), norm),
        (with_header(model, with_entry(norm, shape=[1 << 32, 1 << 32])), norm),
        (with_header(model, with_entry(norm, dtype="BF17")), norm),
        (with_header(model, with_entry(norm, dtype="I16")), norm),
        (with_header(model, with_entry(norm, shape=[1, 64])), norm),
        (LFS, "git-lfs"),
    ]


def refused(model, folder, names, file, label, skipped=""):
    """By all commands that read `file` of the checkpoint; each refusal names it and `names`."""
    for command, (args, reads) in commands(model, folder).items():
        if file not in ("config.json", "model.safetensors", *reads) or command == skipped:
            continue
        done = run(*args)
        error = done.stderr
        if command in ("inspect", "verify") and done.stdout:  # they report what they find, and then judge
            check(done.returncode in (1, 2), f"{label}: {command} exits with {done.returncode}", error)
            continue
        check(done.returncode == 2 and done.stdout == "", f"{label}: {command} exits with {done.returncode}", error)
        check(error.startswith("glint: ") and error.count("\n") == 1, f"{label}: {command} says no single sentence", error)
        for name in (file, *names):
            check(name in error, f"{label}: {command} does not name {name!r}", error)
        check(not (folder / "out").exists(), f"{label}: {command} wrote something")


def all_refuse(model, folder):
    pristine = folder / "pristine"
    shutil.copytree(model, pristine)

    def each(file, contents, names, label, skipped=""):
        (model / file).unlink(missing_ok=True)
        if callable(contents):
            contents(model / file)
        else:
            (model / file).write_bytes(contents)
        refused(model, folder, names, file, label, skipped)
        (model / file).unlink()
        shutil.copy(pristine / file, model / file)

    for number, (contents, name) in enumerate(wrong_weights(model)):
        each("model.safetensors", contents, (name,), f"weights {number}")
    config = json.loads((model / "config.json").read_text())
    for key, value in (("model_type", "llama"), ("num_attention_heads", 0), ("hidden_size", "64"), ("kv_lora_rank", 10 ** 30),
                       ("num_hidden_layers", 1.5), ("vocab_size", -1), ("index_topk", None)):
        each("config.json", json.dumps({**config, key: value}).encode(), (key,), f"{key} = {value}")
    # A stop token that no vocabulary holds, as of a checkpoint whose tokenizer has more ids than the model.
    for file, skipped in (("config.json", ""), ("generation_config.json", "quantize")):
        whole = json.loads((model / file).read_text())
        each(file, json.dumps({**whole, "eos_token_id": [5, config["vocab_size"]]}).encode(),
             ("eos_token_id", str(config["vocab_size"])), f"eos_token_id of {file}", skipped)
    for file in ("config.json", "model.safetensors", *TEXT_FILES):
        each(file, LFS, ("git-lfs",), f"{file}, a pointer")
        each(file, os.mkfifo, (), f"{file}, a pipe")
        each(file, lambda path: path.symlink_to(path), (), f"{file}, a loop")
        each(file, lambda path: path.symlink_to("nowhere"), (), f"{file}, a link to nothing")
        if file != "chat_template.jinja":  # what quantize only copies, it does not understand
            each(file, b"{" * 1000, (), f"{file}, no JSON", "quantize" if file in TEXT_FILES else "")


def all_warn(model, folder):
    """A config that leaves out weights which are there runs, and every command that runs it says so."""
    pristine = (model / "config.json").read_text()
    (model / "config.json").write_text(json.dumps({**json.loads(pristine), "n_shared_experts": 0}))
    notes = set()
    for command in ("generate", "score", "inspect"):
        done = run(*commands(model, folder)[command][0])
        check(done.returncode == 0, f"{command}: exit {done.returncode}", done.stderr)
        notes.add(next((line for line in done.stderr.split("\n") if line.startswith("warning: ")), "no warning"))
    with Served([GLINT, "serve"], model) as server:
        notes.add(next((line for line in server.lines if line.startswith("warning: ")), "no warning"))
    check(len(notes) == 1, "the commands differ", notes)
    for word in (str(model), "config.json", "shared_experts", "glint inspect"):
        check(word in notes.copy().pop(), f"{word!r} is not named", notes)
    (model / "config.json").write_text(pristine)
    check("warning" not in run(*commands(model, folder)["generate"][0]).stderr, "a warning without reason")


def inputs_stay(model, folder):
    """No command writes a result over a file that it reads, by any name: one sentence names both options, and no byte changes."""
    ids, saved = folder / "ids.txt", folder / "saved.json"
    ids.write_text("5 6 7 8\n")
    ranges = folder / "ranges.json"
    succeed("calibrate", model, "--prompts", ids, "--out", ranges)
    saved.write_text("{}")
    link, weights = folder / "link", model / "model.safetensors"
    link.symlink_to(ids)
    files = (ids, saved, ranges, weights, model / "config.json")
    before = [file.read_bytes() for file in files]
    for args, names in [
            (("train", "gradients", model, "--ids", ids, "--out", link), ("--out", "--ids")),
            (("train", "gradients", model, "--ids", ids, "--out", weights), ("--out", "MODEL")),
            (("score", model, "--ids", ids, "--hidden", link), ("--hidden", "--ids")),
            (("score", model, "--ids", ids, "--out", folder / "x.npy", "--mtp", folder / "x.npy"), ("--mtp", "--out")),
            (("calibrate", model, "--prompts", ids, "--out", f"{folder}/./ids.txt"), ("--out", "--prompts")),
            (("calibrate", "--merge", ranges, "--out", ranges), ("--out", "a file to merge")),
            (("eval", model, "--ref", model, "--text", ids, "--html", link), ("--html", "--text")),
            (("plan", model / "config.json", "--device", "cpu", "--html", model / "config.json"), ("--html", "MODEL")),
            (("plan", model, "--device", "cpu", "--html", model / "config.json"), ("--html", "MODEL")),
            (("bench", "report", saved, "--html", saved), ("--html", "saved.json")),
            (("bench", "local", model, "--figures", weights), ("--figures", "MODEL")),
            (("bench", "engine", "--model", model, "--figures", weights), ("--figures", "--model"))]:
        done = run(*args)
        check(done.returncode == 2 and done.stdout == "", f"{args}: exit {done.returncode}", done.stderr)
        for name in (f"{names[0]} is ", names[1], f"name another file for {names[0]}"):
            check(name in done.stderr and done.stderr.count("\n") == 1, f"{args}: {name!r} is not named", done.stderr)
        check(before == [file.read_bytes() for file in files], f"{args} wrote over what it reads")


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "config.json").write_text(json.dumps({**json.loads((TINY / "config.json").read_text()), **SMALL}))
    model = folder / "model"
    succeed("synth", folder / "config.json", model)
    for file in TEXT_FILES:
        shutil.copy(TINY / file, model / file)
    inputs_stay(model, folder)
    all_warn(model, folder)
    all_refuse(model, folder)
print("every command refuses what is wrong")
