#!/usr/bin/env python3
"""The training pass of glint beside that of transformers: loss and gradients of the same tokens by the same weights on the
same CPUs, in turns (docs/training.md).

    tools/compare_training_with_hf.py --glint build/release/glint --model models/glm5-tiny --figures pass.json

Both compute each layer again for its gradient. glint runs `glint train gradients`, one sequence a batch; transformers its
own classes, as they are, after one sequence that is not timed, with the fastest of the --experts and --attention that are
given. A round runs glint and then transformers, in a process of its own each; memory is the most that the process held.
Needs torch, transformers >= 5.13 and safetensors. Other programs should rest meanwhile.
"""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MIB = 1 << 20


def peak_of(command):
    """(stdout, MiB that the process held at most)."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, env=os.environ | {"PYTHONWARNINGS": "ignore"})
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            sys.exit(f"{' '.join(command)} failed")
        output.seek(0)
        return output.read(), usage.ru_maxrss * 1024 / MIB


def glint_round(args, ids, dtype):
    with tempfile.TemporaryDirectory() as folder:
        text, peak = peak_of([args.glint, "train", "gradients", args.model, "--backend", "cpu", "--ids", ids, "--dtype", dtype,
                              "-t", str(args.threads), "--batch-tokens", str(args.tokens), "--out", f"{folder}/g.safetensors"])
    return float(re.search(r"([\d.]+) tokens/s", text)[1]), peak


def hf_round(args, ids, dtype, experts, attention):
    text, peak = peak_of([sys.executable, __file__, "--hf", ids, "--glint", args.glint, "--model", args.model, "--threads", str(args.threads),
                          "--dtypes", dtype, "--experts", experts, "--attention", attention])
    return float(text.split()[-1]), peak


def run_hf(args):
    """Prints tokens a second."""
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"  # it lists the draft layer, which it leaves out
    import torch
    import transformers
    torch.set_num_threads(args.threads)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[args.dtypes[0]]
    model = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=dtype, attn_implementation=args.attention[0],
                                                              experts_implementation=args.experts[0])
    model.train()
    model.gradient_checkpointing_enable()
    rows = [torch.tensor([list(map(int, line.split()))]) for line in Path(args.hf).read_text().splitlines()]

    def step(ids):
        logits = model(ids, use_cache=False).logits[0, :-1].float()
        torch.nn.functional.cross_entropy(logits, ids[0, 1:]).backward()

    step(rows[0])
    start = time.monotonic()
    for ids in rows:
        step(ids)
    print(sum(ids.numel() for ids in rows) / (time.monotonic() - start))


def figure(name, unit, better, samples):
    return {"name": name, "unit": unit, "better": better, "median": statistics.median(samples), "low": min(samples),
            "high": max(samples), "rounds": len(samples), "samples": samples}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--glint", required=True)
    parser.add_argument("--model", default="models/glm5-tiny")
    parser.add_argument("--tokens", type=int, default=1024, help="of a sequence")
    parser.add_argument("--sequences", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtypes", nargs="+", default=["f32", "bf16"])
    parser.add_argument("--experts", nargs="+", default=["eager", "grouped_mm", "batched_mm"])
    parser.add_argument("--attention", nargs="+", default=["eager", "sdpa"])
    parser.add_argument("--figures", help="write them as JSON (bench/results/README.md)")
    parser.add_argument("--hf", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.hf:
        return run_hf(args)
    vocabulary = json.loads((Path(args.model) / "config.json").read_text())["vocab_size"]
    draw, figures = random.Random(1), []
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as ids:
        for _ in range(args.sequences):
            print(*(draw.randrange(vocabulary) for _ in range(args.tokens)), file=ids, flush=True)
        for dtype in args.dtypes:
            ways = [(experts, attention) for experts in args.experts for attention in args.attention]
            speeds = {way: hf_round(args, ids.name, dtype, *way)[0] for way in ways}
            best = max(speeds, key=speeds.get)
            rounds = [(glint_round(args, ids.name, dtype), hf_round(args, ids.name, dtype, *best)) for _ in range(args.rounds)]
            print(f"{dtype}: transformers with experts {best[0]} and attention {best[1]}")
            for name, unit, better, of in (("tokens a second", "tok/s", "more", 0), ("memory", "MiB", "less", 1)):
                ours, theirs = [ours[of] for ours, _ in rounds], [theirs[of] for _, theirs in rounds]
                ratios = [a / b if better == "more" else b / a for a, b in zip(ours, theirs)]
                figures += [figure(f"glint, {name}, {dtype}", unit, better, ours), figure(f"transformers, {name}, {dtype}", unit, better, theirs),
                            figure(f"ratio, {name}, {dtype}", "1", "more", ratios)]
                for one in figures[-3:]:
                    print(f"  {one['name']}: {one['median']:.4g} ({one['low']:.4g}-{one['high']:.4g}) {one['unit']}")
    if args.figures:
        version = subprocess.run([args.glint, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
        cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        result = {"format": "glint-figures-1", "source": "measured", "benchmark": "tools/compare_training_with_hf.py",
                  "options": {"model": args.model, "tokens": args.tokens, "sequences": args.sequences, "threads": args.threads},
                  "machine": {"cpu": cpu[1] if cpu else "", "cpus": os.cpu_count()}, "build": {"version": version}, "figures": figures}
        Path(args.figures).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
