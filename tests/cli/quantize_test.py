#!/usr/bin/env python3
"""quantize and verify as a user runs them, on the bundled model: kills, full disks, refusals.

    quantize_test.py build/release/glint models/glm5-tiny models/record
"""

import hashlib
import json
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from program import GLINT, check, in_time, output, refused, run

MODEL, RECORD = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
SEARCH = ["--format", "nvfp4", "--max-shard-mb", "2"]
MANIFEST = "glint_quantize.json"


def hashes(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(pathlib.Path(folder).iterdir())}


def finished(partial):
    """Shards of the manifest, and which file (inode, time) each is."""
    try:
        names = [shard["file"] for shard in json.loads((partial / MANIFEST).read_text())["shards"]]
        return {name: ((partial / name).stat().st_ino, (partial / name).stat().st_mtime_ns) for name in names}
    except FileNotFoundError:  # before it begins, or when it has become OUT
        return {}


def killed_and_resumed(out, seconds, rng):
    """A run that is killed again and again until OUT is there: how often it was killed, and went on."""
    partial = out.with_name(out.name + ".partial")
    kills = resumed = 0
    while not out.exists():
        before = finished(partial)
        process = subprocess.Popen([GLINT, "quantize", str(MODEL), str(out), *SEARCH], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE)
        # At first as soon as one more shard is finished, whatever the speed of the machine, then at random points. After a
        # while it is left alone, so that the test ends on a slow machine too.
        if kills < 3:
            while process.poll() is None and finished(partial).keys() == before.keys():
                time.sleep(0.001)
        try:
            process.wait(None if kills == 40 else 0 if kills < 3 else rng.uniform(0, 0.3) * seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            kills += 1
        error = process.communicate()[1].decode()
        check(process.returncode in (0, -signal.SIGKILL), f"exit {process.returncode}", error)
        resumed += "going on after" in error
        check(not (out.exists() and partial.exists()), "both OUT and OUT.partial")
        folder = partial if partial.exists() else out
        for name, file in before.items():
            stat = (folder / name).stat()
            check((stat.st_ino, stat.st_mtime_ns) == file, f"{name} was finished, and was made again")
    return kills, resumed


def test_kills(work):
    """Killed with SIGKILL again and again, it goes on and ends with the same bytes."""
    whole, out = work / "whole", work / "killed"
    began = time.monotonic()
    output("quantize", MODEL, whole, *SEARCH)
    seconds = time.monotonic() - began
    rng = random.Random(7)
    expected = hashes(whole)

    def attempt():
        shutil.rmtree(out, ignore_errors=True)
        kills, resumed = killed_and_resumed(out, seconds, rng)
        check(hashes(out) == expected, "a killed run ended with other bytes")
        return (kills, resumed) if kills >= 3 and resumed >= 2 else None

    counts = in_time(attempt)
    check("nothing is wrong" in output("verify", out, "--source", MODEL), "verify")
    return counts


def test_half_shards(work):
    """The leavings of a crash are not trusted: half a shard, a shard not in the manifest, one that was damaged since."""
    out, partial = work / "half", work / "half.partial"
    output("quantize", MODEL, out, *SEARCH)
    expected = hashes(out)
    out.rename(partial)
    manifest = json.loads((partial / MANIFEST).read_text())
    lost, torn = manifest["shards"][2]["file"], manifest["shards"][5]["file"]
    manifest["shards"] = [shard for shard in manifest["shards"] if shard["file"] != lost]
    (partial / MANIFEST).write_text(json.dumps(manifest))
    (partial / lost).write_bytes((partial / lost).read_bytes()[:1000])
    (partial / (lost + ".tmp")).write_bytes(b"half")
    data = bytearray((partial / torn).read_bytes())
    data[-1] ^= 1
    (partial / torn).write_bytes(data)
    output("quantize", MODEL, out, *SEARCH)
    check(hashes(out) == expected, "damage was taken over")


def test_full_disk(work):
    """A file that cannot be written ends in one sentence; source and finished shards stay, and it can go on."""
    out, partial = work / "full", work / "full.partial"
    source = hashes(MODEL)

    def limit(size=1 << 20):
        # Below the size of the embedding's shard; SIGXFSZ stays ignored, as it is in Python.
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    small = ["--format", "nvfp4", "--max-shard-mb", "1"]
    refused("quantize", MODEL, out, *small, words=["cannot write", "glint_quantize.json"], preexec_fn=lambda: limit(0), restore_signals=False)
    check(not partial.exists(), "an empty OUT.partial is left")
    refused("quantize", MODEL, out, *small, words=["cannot reserve", ".safetensors"], preexec_fn=limit,
            restore_signals=False)
    check(hashes(MODEL) == source, "the source changed")
    check(not out.exists(), "OUT exists")
    before = finished(partial)
    refused("quantize", MODEL, out, *small, words=["cannot reserve"], preexec_fn=limit, restore_signals=False)
    check(finished(partial) == before, "finished shards were made again")
    output("quantize", MODEL, out, *small)
    output("quantize", MODEL, work / "full2", *small)
    check(hashes(out) == hashes(work / "full2"), "other bytes after a full disk")
    fits_all_but_the_last_file(work / "small_disk")


def fits_all_but_the_last_file(disk):
    """Where weights have room, and not the tokenizer beside them, it is said before the work."""
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=23400k", "none", disk], capture_output=True).returncode != 0:
        return  # not allowed here
    try:
        refused("quantize", MODEL, disk / "out", "--format", "fp8", words=["small_disk/out needs 22.89", "are free there"])
        check(not list(disk.iterdir()), "something is left", list(disk.iterdir()))
    finally:
        subprocess.run(["umount", disk], check=True)


def test_flags_and_refusals(work):
    source, out = MODEL, work / "out"
    refused("quantize", source, out, words=["--format is missing"])
    refused("quantize", source, "--format", "fp8", words=["OUT is missing"])
    refused("quantize", source, out, "--format", "nvfp4", "--scope", "mlp", "--rules", "*", words=["--scope and --rules"])
    refused("quantize", source, out, "--format", "nvfp4", "--rules", "*.q_proj", words=["*.q_proj", "matches no"])
    refused("quantize", source, out, "--strategy", "channel", words=["--strategy is channel", "block"])
    refused("quantize", source, out, "--strategy", "block", "--block-size", "64", "64", words=["128 128"])
    refused("quantize", source, out, "--format", "nvfp4", "--input-scale", "-1", words=["--input-scale is -1"])
    refused("quantize", source, out, "--format", "nvfp4", "--layout", "compressed-tensors", "--input-scale", "1e-45", words=["--input-scale is 1"])
    refused("quantize", source, out, "--format", "nvfp4", "--headroom", "2", words=["--headroom", "--calibration"])
    refused("quantize", source, out, "--format", "fp8", "--scale", "search", words=["--scale means nothing for --format fp8"])
    refused("quantize", source, out, "--format", "nvfp4", "--scale-fmt", "ue8m0", words=["--scale-fmt means nothing"])
    refused("quantize", source, out, "--format", "bf16", "--scope", "mlp", words=["--scope means nothing"])
    refused("quantize", source, out, "--format", "nvfp4", "--calibration", work / "none.json", words=["none.json"])
    refused("quantize", source, source, "--format", "nvfp4", words=["exists"])
    # A tokenizer that cannot be copied is not left out.
    odd = work / "odd"
    shutil.copytree(source, odd)
    (odd / "tokenizer.json").unlink()
    (odd / "tokenizer.json").mkdir()
    refused("quantize", odd, out, "--format", "fp8", words=["tokenizer.json"])
    shutil.rmtree(out.with_name("out.partial"), ignore_errors=True)
    check(not out.exists() and not (work / "out.partial").exists(), "a refusal left something")

    # As miles' converter is called.
    output("quantize", "--model-dir", source, "--save-dir", out, "--strategy", "block", "--block-size", "128", "128",
           "--max-workers", "2")
    again = work / "again"
    again.mkdir()
    table = output("quantize", source.resolve(), ".", "--format", "fp8", cwd=again)
    check("routed experts" in table and "dB" in table, "no table", table)
    check(hashes(out) == hashes(again), "--strategy block is not --format fp8")
    refused("quantize", out, work / "x", "--format", "nvfp4", words=["already quantised", "fp8"])
    bf16 = work / "bf16"
    report = json.loads(output("quantize", out, bf16, "--format", "bf16", "--json"))
    check(report["job"]["recipe"] == {"format": "bf16"} and report["shards"], "no manifest", report)
    check("quantization_config" not in json.loads((bf16 / "config.json").read_text()), "bf16 is said to be quantised")

    # A fault is exit code 1, with a sentence on stdout.
    config = json.loads((again / "config.json").read_text())
    del config["quantization_config"]
    (again / "config.json").write_text(json.dumps(config))
    done = run("verify", again)
    check(done.returncode == 1 and "fault: config.json has no quantization_config" in done.stdout, "no fault", done.stdout)
    faults = json.loads(run("verify", again, "--json").stdout)["faults"]
    check(len(faults) == 1, "faults", faults)
    rows = json.loads(output("verify", out, "--source", source, "--json"))["tensors"]
    errors = [row["relative_error"] for row in rows if row["format"] == "fp8"]
    check(len(errors) > 100 and all(1e-4 < error < 1e-3 for error in errors), "errors of fp8", errors[:5])

    # Weights for which config.json has no place are copied, with a warning.
    shutil.copytree(MODEL, work / "draftless")
    config = json.loads((MODEL / "config.json").read_text())
    del config["num_nextn_predict_layers"]
    (work / "draftless/config.json").write_text(json.dumps(config))
    done = run("quantize", work / "draftless", work / "copied", "--format", "fp8")
    check(done.returncode == 0 and "warning: " in done.stderr and "for which its config.json has no place" in done.stderr
          and ": copied as they are; " in done.stderr, "no warning", done.stderr)

    # Some of many faults of a kind are shown; names may hold anything.
    shutil.copytree(MODEL, work / "other")
    weights = work / "other/model.safetensors"
    data = weights.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = data[8:8 + size].replace(b'"lm_head.weight"', b'"a\\u001b[31m\\nb"')
    weights.write_bytes(struct.pack("<Q", len(header)) + header + data[8 + size:])
    done = run("verify", work / "other", "--source", bf16)
    check("\nfault: a\\x1b[31m\\x0ab belongs to no part of the model\n" in done.stdout, "a name of control characters", done.stdout)
    check(" more like it: more than rounding explains\n" in done.stdout and done.stdout.count("fault: ") < 20,
          "many faults", done.stdout)


def read_scalars(folder, suffix):
    """name -> value of every F32 scalar whose name ends so, of a model in one file."""
    data = (folder / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    return {name: struct.unpack_from("<f", data, 8 + size + entry["data_offsets"][0])[0]
            for name, entry in header.items() if name.endswith(suffix)}


def test_calibration(work):
    """calibrate, then quantize: input scales are twice the largest input over 2688, and unseen experts are told."""
    prompts, ranges = work / "prompts.txt", work / "ranges.json"
    prompts.write_text("The capital of France is Paris.\n")
    run("calibrate", MODEL, "--prompts", prompts, "--out", ranges)
    seen = json.loads(ranges.read_text())["ranges"]
    done = run("quantize", MODEL, work / "out", "--format", "nvfp4", "--calibration", ranges)
    check(done.returncode == 0, "quantize with a calibration", done.stderr)
    unseen = [name for name, entry in seen.items() if ".experts." in name and entry["tokens"] == 0
              and not name.startswith("model.layers.5.")]
    check(not unseen or f"{len(unseen)} matrices of experts saw no token of the calibration" in done.stderr, "unseen experts are not told", done.stderr)
    scales = read_scalars(work / "out", ".input_scale")
    check(len(scales) == 4 * 16 * 3, f"{len(scales)} input scales")
    for name, scale in scales.items():
        layer = name.removesuffix(".input_scale")
        if layer in unseen or not layer.endswith("down_proj"):
            continue
        check(abs(scale / (2 * seen[layer]["amax"] / 2688) - 1) < 1e-6, f"{name} is {scale}, seen was {seen[layer]}")
    # A range of which no number can be made.
    tiny = {name: {"amax": 1e-40, "tokens": 1} for name in seen}
    ranges.write_text(json.dumps({"format": "glint activation ranges", "version": 1, "ranges": tiny}))
    refused("quantize", MODEL, work / "tiny", "--format", "nvfp4", "--calibration", ranges, words=["has an amax of", "input_scale"])


def test_quantised_models_run(work):
    """Greedy answers and perplexity on held-out text, of every format; NVFP4 within a percent of BF16."""
    ids = work / "ids.txt"  # a few sequences: with all 40 the differences are smaller still
    ids.write_text("".join((RECORD / "heldout.ids.txt").read_text().splitlines(keepends=True)[:3]))
    reference = json.loads(output("score", MODEL, "--ids", ids, "--ppl", "--json"))["perplexity"]
    recipes = {"fp8": ["--format", "fp8"], "search": ["--format", "nvfp4"],
               "absmax": ["--format", "nvfp4", "--scale", "absmax", "--no-power-of-two"],
               "all": ["--format", "nvfp4", "--scope", "all-linear", "--mtp", "convert"]}
    results = {"bf16": reference}
    for name, flags in recipes.items():
        output("quantize", MODEL, work / name, *flags)
        results[name] = json.loads(output("score", work / name, "--ids", ids, "--ppl", "--json"))["perplexity"]
        check(abs(results[name] / reference - 1) < 0.01, f"{name}: perplexity {results[name]}, of bf16 {reference}")
        answer = output("generate", work / name, "-p", "The capital of France is", "-n", "8", "--temperature", "0")
        check(answer.strip(), f"{name}: no answer")
    return results


def main():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        for test in (test_kills, test_half_shards, test_full_disk, test_flags_and_refusals, test_calibration,
                     test_quantised_models_run):
            place = work / test.__name__
            place.mkdir()
            print(test.__name__, test(place) or "", flush=True)
            shutil.rmtree(place)


main()
