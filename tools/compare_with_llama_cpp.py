#!/usr/bin/env python3
"""glint beside llama.cpp: the same weights on the same machine, in turns, as one table (docs/performance.md).

    tools/compare_with_llama_cpp.py --glint build/release/glint --llama LLAMA_BUILD/bin \\
        --pair BF16 model-bf16 model-bf16.gguf --pair 'FP8, Q8_0' model-fp8 model-q8_0.gguf

A pair is a name, a checkpoint of glint and the GGUF file of the same weights (tools/to_gguf_for_comparison.py, then
llama-quantize). `glint bench local` measures one, llama-bench (prefill, decode at batch 1) and llama-batched-bench
(larger batches; a prompt that is read once and copied, as glint does) the other. Each round runs glint, then llama.cpp.
Before a sample the script waits until other programs use less than --quiet CPUs, and takes it again, twice at most,
if they used more while it ran. Printed are the median and the range over the rounds, and the shares of what glint's own
benchmark measured in the same rounds: prefill of the matrix peak, decode of the read bandwidth, both for the work of
glint's line (a Q8_0 weight is 1.06 bytes, an FP8 weight 1.00). --out keeps every sample. Needs Python alone.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def busy_seconds() -> float:
    """CPU time that the machine has spent on anything so far, the hypervisor's share included."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def run_measured(command: list[str]) -> tuple[str, float, float]:
    """(stdout, CPUs that the program used, CPUs that others used) of one run."""
    busy, start, own = busy_seconds(), time.monotonic(), os.times()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    seconds = time.monotonic() - start
    used = (os.times().children_user - own.children_user) + (os.times().children_system - own.children_system)
    return done.stdout, used / seconds, max(0.0, busy_seconds() - busy - used) / seconds


def wait_until_quiet(limit: float, patience: float):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        busy = busy_seconds()
        time.sleep(2)
        if (busy_seconds() - busy) / 2 < limit:
            return


class Runner:
    """Runs programs when the machine is quiet, and remembers how quiet it was."""

    def __init__(self, quiet: float, patience: float):
        self.quiet, self.patience = quiet, patience
        self.runs = []

    def run(self, command: list[str]) -> str:
        tries = []
        while not tries or (tries[-1][2] > self.quiet and len(tries) < 3):
            wait_until_quiet(self.quiet, self.patience)
            tries.append(run_measured(command))
        output, used, others = min(tries, key=lambda t: t[2])
        self.runs.append({"command": command, "cpus": round(used, 2), "cpus_of_others": round(others, 2)})
        return output


# A test is (kind, depth, batch); kind is "prefill" or "decode". A sample maps tests to tokens a second.

def sample_glint(runner: Runner, args, model: str) -> tuple[dict, dict]:
    """(sample, the report of `glint bench local`)."""
    report = json.loads(runner.run([
        args.glint, "bench", "local", model, "-t", str(args.threads), "-p", str(args.prompt), "-n", str(args.tokens),
        "-d", ",".join(map(str, args.depth)), "-b", ",".join(map(str, args.batch)), "--repeat", "1", "--json"]))
    return {(r["test"], r["depth"], r["batch"]): r["tokens_per_s"] for r in report["results"]}, report


def sample_llama(runner: Runner, args, model: str) -> dict:
    folder = Path(args.llama)
    common = ["-m", model, "-t", str(args.threads), "-fa", args.flash_attention]
    out = {}
    # -r 2: the first repetition warms up, as glint's does.
    for r in json.loads(runner.run([
            str(folder / "llama-bench"), *common, "-p", str(args.prompt), "-n", str(args.tokens),
            "-d", ",".join(map(str, args.depth)), "-r", "2", "-o", "json"])):
        out["decode" if r["n_gen"] else "prefill", r["n_depth"], 1] = r["samples_ts"][-1]
    batches, prompts = [b for b in args.batch if b > 1], {max(d, 1): d for d in args.depth}  # it needs a prompt
    if batches:
        output = runner.run([
            str(folder / "llama-batched-bench"), *common, "-tb", str(args.threads), "-b", "512", "-ub", "512",
            "-c", str(max(batches) * (max(prompts) + args.tokens)), "-npp", ",".join(map(str, prompts)),
            "-ntg", str(args.tokens), "-npl", ",".join(map(str, batches)), "-pps", "--output-format", "jsonl"])
        for r in (json.loads(line) for line in output.splitlines() if line.startswith("{")):
            out["decode", prompts[r["pp"]], r["pl"]] = r["speed_tg"]
    return out


def cell(samples: list[float], work: float, limit: float) -> str:
    middle = statistics.median(samples)
    return f"{middle:.1f} ({min(samples):.1f}-{max(samples):.1f}) | {middle * work / limit:.0%}"


def table_rows(name: str, ours: list[dict], theirs: list[dict], reports: list[dict]):
    for i, result in enumerate(reports[0]["results"]):
        test = kind, depth, batch = result["test"], result["depth"], result["batch"]
        what, work, limit = {"prefill": (f"prefill of {result['tokens']}", "flops_per_token", "matrix_gflops"),
                             "decode": (f"decode, batch {batch}", "bytes_per_token", "read_gb_per_s")}[kind]
        giga = statistics.median(report["results"][i][work] for report in reports) * 1e-9
        limit = statistics.median(report["results"][i][limit] for report in reports)
        a, b = [s[test] for s in ours], [s[test] for s in theirs]
        ratio = statistics.median(a) / statistics.median(b)
        yield f"| {name} | {what} | {depth:,} | {cell(a, giga, limit)} | {cell(b, giga, limit)} | {ratio:.1f} |"


def main():
    numbers = lambda text: [int(n) for n in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--glint", required=True, help="the program")
    parser.add_argument("--llama", required=True, help="the folder that holds llama-bench and llama-batched-bench")
    parser.add_argument("--pair", required=True, action="append", nargs=3, metavar=("NAME", "CHECKPOINT", "GGUF"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--depth", type=numbers, default=[0, 4096])
    parser.add_argument("--batch", type=numbers, default=[1, 16])
    parser.add_argument("--flash-attention", choices=["on", "off"], default="on", help="of llama.cpp")
    parser.add_argument("--quiet", type=float, default=0.25, help="CPUs that other programs may use")
    parser.add_argument("--patience", type=float, default=120, help="seconds to wait for that before each sample")
    parser.add_argument("--out", help="a JSON file for everything that was measured")
    args = parser.parse_args()

    runner, record = Runner(args.quiet, args.patience), []
    print("| format | test | depth | glint, tok/s | of the limit | llama.cpp, tok/s | of the limit | ratio |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for name, checkpoint, gguf in args.pair:
        ours, theirs, reports = [], [], []
        for turn in range(args.rounds):
            print(f"{name}: round {turn + 1} of {args.rounds}", file=sys.stderr)
            sample, report = sample_glint(runner, args, checkpoint)
            ours.append(sample)
            reports.append(report)
            theirs.append(sample_llama(runner, args, gguf))
        print("\n".join(table_rows(name, ours, theirs, reports)), flush=True)
        record.append({"name": name, "glint": reports, "llama_cpp": [[[*t, s] for t, s in x.items()] for x in theirs]})
        if args.out:
            Path(args.out).write_text(json.dumps({"pairs": record, "runs": runner.runs}, indent=2))
    print(f"\n{record[0]['glint'][0]['machine']}")
    print(f"Other programs used at most {max(r['cpus_of_others'] for r in runner.runs)} CPUs during a sample.")


if __name__ == "__main__":
    main()
