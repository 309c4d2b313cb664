#!/usr/bin/env python3
"""generate and score as a user runs them, on the bundled model: streams, JSON, files, and refusals.

    model_commands_test.py build/release/glint models/glm5-tiny models/record
"""

import json
import math
import os
import pathlib
import pty
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from program import GLINT, check, output, refused, run

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
    refused("generate", MODEL, "-p", FRANCE, "--stop", "", words=["--stop is empty"])
    refused("generate", MODEL, "-p", FRANCE, "-t", 0, words=["--threads expects", '"0"'])
    check(output("generate", MODEL, "-p", FRANCE, *greedy, "--max-tokens", 1) == " Paris", "--max-tokens")
    check("<|endoftext|>" in output("generate", MODEL, "-p", FRANCE, *greedy, "--ignore-eos", "-n", 5), "--ignore-eos")
    poem = output("generate", MODEL, "-p", "Write a short poem about a cat and a dog", *greedy)
    check(poem == output("generate", MODEL, "-p", "Write a short poem about a cat and a dog", *greedy, "--spec", "mtp:3"), "mtp")
    with open("/dev/full", "w") as full:  # an answer that arrives nowhere ends
        done = subprocess.run([GLINT, "generate", MODEL, "-p", "Once", "--ignore-eos", "-n", "300"], stdout=full, stderr=subprocess.PIPE, text=True)
    check(done.returncode == 2 and "No space left" in done.stderr and "300 tokens" not in done.stderr, "a full disk", done.stderr)


def a_prompt_may_come_from_a_file_or_a_pipe(folder):
    file = folder / "prompt.txt"
    file.write_text(FRANCE + "\n")
    check(output("generate", MODEL, "-f", file, "--temperature", 0) == " Paris.", "--file")
    piped = subprocess.run([GLINT, "generate", MODEL, "-f", "-", "--temperature", "0"], input=FRANCE, capture_output=True, text=True)
    check(piped.stdout == " Paris.", "a prompt from stdin", piped)
    said = output("generate", MODEL, "--chat", "-p", "What is 12 + 7?", "--temperature", 0)
    check(said.startswith("<think>") and said.count("</think>") == 1, "thinking has both its ends", said)
    refused("generate", MODEL, "-f", file, "-p", "x", words=["-p and --file"])
    refused("generate", MODEL, "--chat", words=["the prompt is empty"])
    wrong = subprocess.run([GLINT, "detokenize", MODEL], input="1 2\n3 x\n", capture_output=True, text=True)
    check(wrong.stderr == 'glint: line 2 of stdin: "x" is no token id\n', "the line is named", wrong)
    # Templates get UTF-8, whatever stands in the terminal.
    copy = folder / "other_template"
    copy.mkdir()
    for each in pathlib.Path(MODEL).resolve().iterdir():
        (copy / each.name).symlink_to(each)
    (copy / "chat_template.jinja").unlink()
    (copy / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content.rsplit()[0] }}{% endfor %}")
    output("generate", copy, "--chat", "-p", "\udc80", "--system", "\udc80", "-n", 1)
    # A stream that cannot be read is no empty text.
    for command in ("generate", MODEL, "-f", "-"), ("tokenize", MODEL), ("detokenize", MODEL), ("template", MODEL, "--jsonl"), ("chat", MODEL):
        done = subprocess.run(["bash", "-c", '"$@" < /', "-", GLINT, *command], capture_output=True, text=True)
        check(done.returncode == 2 and "standard input: Is a directory" in done.stderr and done.stdout == "", f"{command}", done)


def what_is_wrong_is_told_before_weights_are_read(folder):
    """The model lacks a tensor: its loading, which may take long, would fail with that."""
    copy = without_tensors(folder / "incomplete", lambda name: name == "model.norm.weight")
    ids = folder / "ids.txt"
    ids.write_text("1 2 99999\n")
    refused("score", copy, "-p", "some text", "--ppl", words=["model.norm.weight"])
    for command, word in ((("generate", copy, "-p", "x", "--temperature", -1), "--temperature is -1"),
                          (("generate", copy, "-p", "word " * 5000), "4096 positions"), (("chat", copy, "--top-p", 2), "--top-p is 2"),
                          (("score", copy, "--ids", ids, "--ppl"), "token 99999"),
                          (("score", copy, "-p", "some text", "--out", folder / "no/x.npy"), "no/x.npy"),
                          (("eval", copy, "--ref", copy, "--ids", ids), "token 99999"),
                          (("bench", "local", copy, "-p", 5000), "4,096 positions"),
                          (("bench", "local", copy, "-p", 0, "-n", 0), "nothing to measure")):
        refused(*command, words=[word])


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


def ranks_say_what_one_says(folder):
    ids = folder / "three.txt"
    row = (RECORD / "heldout.ids.txt").read_text().splitlines()[0].split()
    ids.write_text("\n".join(" ".join(row[:n]) for n in (70, 30, 1)) + "\n")
    files = ("x.npy", "y.npy", "h.npy")

    def score(*layout):
        said = json.loads(output("score", MODEL, "--ids", ids, "--json", "--chunk", 32, "--threads", 2, *layout,
                                 *(word for flag, name in zip(("--out", "--mtp", "--hidden"), files)
                                   for word in (flag, folder / name))))
        return said, [(folder / name).read_bytes() for name in files]

    alone, expected = score()
    check(len(alone["ranks"]) == 1 and alone["ranks"][0]["collectives"] == {"tp": {}, "cp": {}, "dp": {}, "ep": {}, "pp": {}}, "one rank", alone)
    whole = alone["ranks"][0]
    for layout, count in ((("--ep", 2), 2), (("--pp", 2), 2), (("--cp", 2, "--ep", 2), 2), (("--dp", 2, "--ep", 2, "--pp", 2), 4)):
        said, written = score(*layout)
        check(written == expected, f"bits of {layout}")
        check(said["perplexity"] == alone["perplexity"] and said["mtp_top1"] == alone["mtp_top1"], "numbers", said)
        ranks = said["ranks"]
        check(len(ranks) == count and all(0 < r["weight_bytes"] < whole["weight_bytes"] for r in ranks), "no rank has all", ranks)
        places = {(layer, expert) for r in ranks for layer in range(*r["layers"]) for expert in range(*r["experts"])}
        check(len(places) == whole["layers"][1] * whole["experts"][1], "every expert of every layer is somewhere", ranks)
        for rank in ranks:
            moved = rank["collectives"]
            check(("exchange" in moved["ep"]) == ("--ep" in layout) and bool(moved["pp"]) == ("--pp" in layout), "traffic", rank)
            check(bool(moved["cp"]) == ("--cp" in layout), "rows of the cache", rank)
    sliced, expected = score("--reduce-slices", 4)
    check(sliced["ranks"][0]["heads"] == [0, 4] and sliced["perplexity"] != alone["perplexity"], "sums in slices", sliced)
    for layout in (("--tp", 4), ("--tp", 2, "--reduce-slices", 4), ("--tp", 2, "--dp", 2, "--pp", 2, "--reduce-slices", 4)):
        said, written = score(*layout)
        check(written == expected and said["perplexity"] == sliced["perplexity"], f"bits of {layout}")
        tp = layout[1]
        for i, rank in enumerate(said["ranks"]):
            check(rank["heads"] == [i % tp * 4 // tp, (i % tp + 1) * 4 // tp], "heads", rank)
            check(0 < rank["weight_bytes"] < whole["weight_bytes"] and rank["collectives"]["tp"]["all_reduce"]["calls"] > 0, "parts", rank)
    # Members of a replica share whole experts, with the bits of replicas that do.
    (said, written), (_, expected) = score("--tp", 2, "--ep", 2, "--reduce-slices", 4), score("--ep", 2, "--reduce-slices", 4)
    check(written == expected and len(said["ranks"]) == 2, "experts shared inside of a replica", said["ranks"])
    check([r["experts"] for r in said["ranks"]] == [[0, 8], [8, 16]] and [r["heads"] for r in said["ranks"]] == [[0, 2], [2, 4]],
          "experts and heads", said["ranks"])
    refused("score", MODEL, "--ids", ids, "--json", "--ep", 2, "--dp", 3, words=["ep is 2", "3 ranks"])
    refused("score", MODEL, "--ids", ids, "--json", "--cp", 2, "--dp", 3, words=["cp is 2", "dp, which is 3"])
    refused("score", MODEL, "--ids", ids, "--json", "--pp", 99, words=["pp is 99", "5 layers"])
    refused("score", MODEL, "--ids", ids, "--json", "--dp", 0, words=["--dp is 0; it must be from 1"])
    refused("score", MODEL, "--ids", ids, "--json", "--tp", 3, words=["num_attention_heads (4)", "set it to 2"])
    refused("score", MODEL, "--ids", ids, "--json", "--tp", 2, "--dp", 2, "--ep", 2, words=["ep is 2", "4 ranks", "set ep to 4"])
    refused("score", MODEL, "--ids", ids, "--json", "--tp", 2, "--reduce-slices", 3, words=["reduce-slices is 3", "tp (2)"])
    refused("score", MODEL, "--ids", ids, "--json", "--ep", 2, "--load-format", "dummy", words=["synthetic"])


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
    shutil.copy(npy, folder / "ids")
    again = json.loads(output("score", MODEL, "--ids", folder / "ids", "--json", "--dtype", "f32"))
    check(again == halves, "an array by another name", again)
    refused("score", MODEL, "--ids", ids, words=["--ppl"])
    refused("score", MODEL, "--ids", ids, "--out", folder / "x.npy", "--mtp", f"{folder}/./x.npy", words=["--mtp is", "as --out"])
    bad = folder / "bad.txt"
    bad.write_text("1 2 3\n4 x\n")
    refused("score", MODEL, "--ids", bad, "--ppl", words=["bad.txt", "line 2", "x"])
    bad.write_text("1 2.5 3\n")
    refused("score", MODEL, "--ids", bad, "--ppl", words=["bad.txt", "line 1", '"2.5" is no token id'])
    bad.write_text("1 2 99999\n")
    refused("score", MODEL, "--ids", bad, "--ppl", words=["99999", "3712"])
    refused("score", MODEL, "--ids", bad, "--ppl", words=["bad.txt", "sequence 1", "99999", "3712"])
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (9223372036854775807, 0), }\n"
    npy.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    refused("score", MODEL, "--ids", npy, "--ppl", words=["ids.npy", "no token ids"])
    # One token predicts nothing: no number, and no NaN, which is not JSON.
    bad.write_text("5\n")
    one = json.loads(output("score", MODEL, "--ids", bad, "--json", "--out", folder / "x.npy", "--mtp", folder / "y.npy"),
                     parse_constant=lambda name: sys.exit(f"{name} is not JSON"))
    check(one["perplexity"] is None and one["predicted"] == 0, "a sequence of one token", one)
    check(read_npy(folder / "x.npy")[0] == (1, 3712) and read_npy(folder / "y.npy")[0] == (0, 3712), "shapes of one token")
    refused("score", MODEL, "--ids", bad, "--ppl", words=["2 tokens"])
    # Nothing but a file is replaced by a file: as root, that would be /dev/null.
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    for name, kind in ((pipe, "not a regular file"), (folder, "a directory")):
        refused("score", MODEL, "-p", "some text", "--out", name, words=[str(name), kind])
    check(pipe.is_fifo(), "a pipe was replaced")
    refused("score", MODEL, "-p", "some text", "--out", npy, "--mtp", npy, words=["ids.npy", "the same file"])
    refused("score", MODEL, "-p", "some text", "--out", npy, "--mtp", f"{npy.parent}/./{npy.name}", words=["ids.npy", "the same file"])
    check(not [f for f in folder.iterdir() if ".tmp" in f.name], "half-written files are left")


def the_bar_is_gone_before_the_result(folder):
    ids = folder / "ids.txt"
    ids.write_text(" ".join((RECORD / "heldout.ids.txt").read_text().splitlines()[0].split()[:400]) + "\n")
    main, side = pty.openpty()
    process = subprocess.Popen([GLINT, "score", MODEL, "--ids", ids, "--ppl", "--chunk", "1"], stdin=side, stdout=side,
                               stderr=side)
    os.close(side)
    shown = b""
    try:
        while part := os.read(main, 4096):
            shown += part
    except OSError:  # how a terminal says that nobody is there any more
        pass
    os.close(main)
    check(process.wait(60) == 0, "score on a terminal", shown)
    before = shown[:shown.index(b"perplexity: ")]
    check(before == b"" or before.endswith(b"\r\x1b[K"), "the bar stands before the result", shown)


def nothing_is_left_half_written(folder):
    """After Ctrl-C, and when files may not grow as large as they must."""
    ids = folder / "ids.txt"
    ids.write_text((" ".join(["5"] * 4096) + "\n") * 20)
    out = folder / "out"
    for command in (("score", MODEL, "--ids", ids, "--out", out / "x.npy", "--chunk", 16),
                    ("synth", pathlib.Path(MODEL) / "config.json", out / "m", "--threads", 1)):
        out.mkdir()
        process = subprocess.Popen([GLINT, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while process.poll() is None and not list(out.iterdir()):
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        # Whoever is quicker than the signal is done, and its result is whole.
        left = [path.name for path in out.iterdir()]
        check(process.returncode == 130 and left == [] or process.returncode == 0 and left in (["x.npy"], ["m"]),
              f"Ctrl-C: {command}: exit {process.returncode}", left)
        shutil.rmtree(out)
        out.mkdir()
        refused(*command, words=["File too large"],
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
        check(list(out.iterdir()) == [], "something is left", list(out.iterdir()))
        shutil.rmtree(out)


def closed_streams_are_no_files(folder):
    """A file that is opened may not get the number of a standard stream that is closed, and what is printed there."""
    out = folder / "x.npy"
    for streams in (">&-", "<&- >&-", "<&- >&- 2>&-"):
        done = subprocess.run(["bash", "-c", f'"$@" {streams}', "-", GLINT, "score", MODEL, "-p", "some text", "--ppl", "--out", out],
                              capture_output=True, timeout=60)
        check(done.returncode == 2, f"{streams}: exit {done.returncode}", done.stderr)
        check(b"perplexity" not in out.read_bytes() and read_npy(out)[0] == (3, 3712), f"{streams}: printed into a file")


def without_tensors(copy, lacks):
    """The model without the tensors that `lacks` takes by their names."""
    shutil.copytree(MODEL, copy)
    weights = copy / "model.safetensors"
    data = weights.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header, kept = json.loads(data[8:8 + size]), {}
    body = b""
    for name, entry in sorted(header.items(), key=lambda item: item[1].get("data_offsets", [0])):
        if name == "__metadata__" or lacks(name):
            continue
        begin, end = entry["data_offsets"]
        kept[name] = {**entry, "data_offsets": [len(body), len(body) + end - begin]}
        body += data[8 + size + begin:8 + size + end]
    text = json.dumps(kept).encode()
    weights.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return copy


def a_checkpoint_without_its_draft_layer_works(folder):
    """As other programs save it: config.json announces the layer, and the weights lack it."""
    copy = without_tensors(folder / "no-mtp", lambda name: ".layers.5." in name)
    with_it, without = (json.loads(output("score", model, "-p", "Once upon a time", "--json")) for model in (MODEL, copy))
    check(without.pop("ranks")[0]["weight_bytes"] < with_it.pop("ranks")[0]["weight_bytes"], "bytes held")
    check(without == {key: value for key, value in with_it.items() if "mtp" not in key} != with_it, "scores", without)
    refused("score", copy, "-p", "Once upon a time", "--mtp", folder / "y.npy", words=["no MTP layer", "--mtp"])
    refused("generate", copy, "-p", "Once", "--spec", "mtp:1", words=["no MTP layer", "--spec"])
    check(output("generate", copy, "-p", FRANCE, "--temperature", 0, "--dtype", "f32") == " Paris.", "no MTP layer")
    ids, rows = folder / "mtp.ids", folder / "mtp.jsonl"
    ids.write_text("1 2 3 4\n")
    rows.write_text('{"prompt": "Once", "label": "1"}\n')
    for command in (("gradients", copy, "--ids", ids, "--out", folder / "g.safetensors"), ("--check-gradients", copy, "--ids", ids),
                    ("sft", copy, "--data", rows, "--out", folder / "sft")):
        refused("train", *command, "--mtp-loss", 0.1, words=["no MTP layer", "--mtp-loss"])
    refused("train", "grpo", copy, "--prompt-data", rows, "--rm-type", "math", "--num-rollout", 1, "--save", folder / "rl", "--spec", "mtp:1",
            words=["no MTP layer", "--spec"])


def damaged_weights_have_no_perplexity(folder):
    """A row of lm_head is NaN: one logit of each position, which a maximum and a sum may pass over."""
    copy = folder / "nan"
    shutil.copytree(MODEL, copy)
    data = bytearray((copy / "model.safetensors").read_bytes())
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(bytes(data[8:8 + size]))
    # Logits that are numbers, of a model whose perplexity is beyond them.
    begin, end = (8 + size + offset for offset in header["model.norm.weight"]["data_offsets"])
    norm, data[begin:end] = data[begin:end], b"\xc3\x47" * ((end - begin) // 2)
    (copy / "model.safetensors").write_bytes(data)
    said = json.loads(output("score", copy, "-p", "one two three", "--json"), parse_constant=lambda name: sys.exit(f"{name} is not JSON"))
    check(said["perplexity"] is None and said["predicted"] > 0, "a perplexity beyond numbers", said)
    data[begin:end] = norm
    at = 8 + size + header["lm_head.weight"]["data_offsets"][0]
    data[at:at + 2] = b"\xc0\x7f"
    (copy / "model.safetensors").write_bytes(data)
    for how in ("--ppl", "--json"):
        refused("score", copy, "-p", "Once upon a time", how, words=["not all numbers", "inspect --verify"])
    refused("generate", copy, "-p", FRANCE, words=["not numbers"])
    output("score", copy, "-p", "Once upon a time", "--out", folder / "x.npy")
    check(math.isnan(read_npy(folder / "x.npy")[1][0]), "logits are written as they are")


def a_checkpoint_that_shrinks_is_named(folder):
    copy = folder / "shrinks"
    shutil.copytree(MODEL, copy)
    process = subprocess.Popen([GLINT, "chat", copy, "--pack", "never"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    process.stdin.write(b"Hello\n")
    process.stdin.flush()
    check(process.stdout.read(1) != b"", "no answer")
    os.truncate(copy / "model.safetensors", 1000)
    _, errors = process.communicate(b"Hello\n" * 100, timeout=60)
    check(process.returncode == 2 and b"shrinks/model.safetensors: it was cut short" in errors.splitlines()[-1],
          f"a file that shrinks: exit {process.returncode}", errors.decode())


def wrong_input_is_refused_by_name(folder):
    refused("generate", "no/such/model", "-p", "x", words=["no/such/model"])
    refused("generate", MODEL, "-p", "", words=["prompt"])
    refused("chat", MODEL, "--max-tokens", -5, words=["--max-tokens is -5"])
    # Threads that the system does not grant: of 200 stacks of 8 MiB there is room for a few.
    refused("generate", MODEL, "-p", "x", "--threads", 200, words=["cannot start a thread"],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20)))
    refused("score", MODEL, "-p", "word " * 2000, "--ppl", "--chunk", 4096, words=["activations need", "are free"],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20)))
    refused("serve", MODEL, "--port", 0, words=["8 files", "ulimit -n"], on_stdout=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8)))
    # Names of files may hold anything; what is said of them is one line.
    strange = folder / "strange"
    strange.mkdir()
    (strange / "config.json").write_bytes((pathlib.Path(MODEL) / "config.json").read_bytes())
    (strange / "a\n\x1b[31m.safetensors").write_bytes(b"x")
    refused("inspect", strange, words=["a\\x0a\\x1b[31m.safetensors", "cut short"])
    refused("generate", MODEL, "-p", "x", "--system", "Be brief.", words=["--system", "--chat"])
    refused("generate", MODEL, "-p", "x", "--no-thinking", words=["--no-thinking", "--chat"])
    refused("generate", MODEL, "-p", "x", "--temperature", -1, words=["temperature", "-1"])
    refused("generate", MODEL, "-p", "x", "--spec", "eagle", words=["--spec", "eagle", "mtp:K"])
    refused("generate", MODEL, "-p", "word " * 5000, words=["4096"])
    refused("generate", MODEL, "-p", "x", "--backend", "cuda", words=["CUDA" if "no CUDA" in run("generate", MODEL, "-p", "x", "--backend", "cuda").stderr else "cuda"])
    copy = folder / "template"
    shutil.copytree(MODEL, copy)
    (copy / "chat_template.jinja").write_text("\n{{ raise_exception('roles must alternate') }}")
    refused("generate", copy, "-p", "x", "--chat", words=["the chat template of", "line 2", "roles must alternate"])
    (copy / "tokenizer.json").write_text("[" + "1," * 20_000_000 + "1]")  # 40 bytes of memory for each, if all were read
    refused("generate", copy, "-p", "x", words=["tokenizer.json", "too many values"])
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
    a_prompt_may_come_from_a_file_or_a_pipe(pathlib.Path(folder))
    what_is_wrong_is_told_before_weights_are_read(pathlib.Path(folder))
    generate_json_has_the_numbers()
    the_seed_decides()
    score_writes_what_it_says(pathlib.Path(folder))
    ranks_say_what_one_says(pathlib.Path(folder))
    the_bar_is_gone_before_the_result(pathlib.Path(folder))
    nothing_is_left_half_written(pathlib.Path(folder))
    closed_streams_are_no_files(pathlib.Path(folder))
    a_checkpoint_without_its_draft_layer_works(pathlib.Path(folder))
    damaged_weights_have_no_perplexity(pathlib.Path(folder))
    a_checkpoint_that_shrinks_is_named(pathlib.Path(folder))
    wrong_input_is_refused_by_name(pathlib.Path(folder))
print("generate and score keep their word")
