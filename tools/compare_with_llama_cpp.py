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

On a GPU both engines need their CUDA builds, and other programs' use of the CPUs matters little. There a run takes more
samples, and llama.cpp may compute more tokens at once (try --ubatch):

    tools/compare_with_llama_cpp.py --backend cuda --glint build/cuda/glint --llama LLAMA_BUILD/bin --pair ... \\
        --prompt 512,2048 --tokens 128 --batch 1,16 --repeat 3 --flash-attention on,off --ubatch 2048 --patience 0 --quiet 99
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


# A test is (what, depth), as in ("prefill of 512", 0). A sample maps tests to tokens a second.

def prefill_of(tokens: int) -> str:
    return f"prefill of {tokens:,}"


def decode_of(batch: int) -> str:
    return f"decode, batch {batch}"


def what_of(result: dict) -> str:
    return prefill_of(result["tokens"]) if result["test"] == "prefill" else decode_of(result["batch"])


def listed(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))


def sample_glint(runner: Runner, args, model: str) -> tuple[dict, dict]:
    """(sample, the report of `glint bench local`)."""
    report = json.loads(runner.run([
        args.glint, "bench", "local", model, "--backend", args.backend, "-t", str(args.threads), "-p", listed(args.prompt),
        "-n", str(args.tokens), "-d", listed(args.depth), "-b", listed(args.batch), "--repeat", str(args.repeat), "--json"]))
    return {(what_of(r), r["depth"]): r["tokens_per_s"] for r in report["results"]}, report


def sample_llama(runner: Runner, args, model: str, flash_attention: str) -> dict:
    folder, out = Path(args.llama), {}
    common = ["-m", model, "-t", str(args.threads), "-fa", flash_attention, "-ub", str(args.ubatch),
              "-ngl", "99" if args.backend == "cuda" else "0"]
    # -r: the first repetition warms up, as glint's does.
    for r in json.loads(runner.run([
            str(folder / "llama-bench"), *common, "-p", listed(args.prompt), "-n", str(args.tokens),
            "-d", listed(args.depth), "-r", str(args.repeat + 1), "-o", "json"])):
        if args.backend == "cuda" and "CUDA" not in r["backends"]:
            sys.exit(f"{folder}/llama-bench did not find a GPU or its CUDA libraries; it has: {r['backends']}")
        what = decode_of(1) if r["n_gen"] else prefill_of(r["n_prompt"])
        out[what, r["n_depth"]] = statistics.median(r["samples_ts"][1:])
    batches, prompts = [b for b in args.batch if b > 1], {max(d, 1): d for d in args.depth}  # it needs a prompt
    if batches:
        times = args.repeat if args.repeat == 1 else args.repeat + 1  # -npl: each batch so often; of several, one to warm up
        output = runner.run([
            str(folder / "llama-batched-bench"), *common, "-tb", str(args.threads), "-b", str(args.ubatch),
            "-c", str(max(batches) * (max(prompts) + args.tokens)), "-npp", listed(prompts), "-ntg", str(args.tokens),
            "-npl", listed([b for b in batches for _ in range(times)]), "-pps", "--output-format", "jsonl"])
        samples = {}
        for r in (json.loads(line) for line in output.splitlines() if line.startswith("{")):
            samples.setdefault((decode_of(r["pl"]), prompts[r["pp"]]), []).append(r["speed_tg"])
        out |= {test: statistics.median(each[times - args.repeat:]) for test, each in samples.items()}
    return out


def cell(samples: list[float], work: float, limit: float) -> str:
    middle = statistics.median(samples)
    share = f"{middle * work / limit:.0%}" if limit else "-"  # a GPU's matrix peak is not measured
    return f"{middle:.1f} ({min(samples):.1f}-{max(samples):.1f}) | {share}"


def table_head(ways: list[str]):
    names = ["llama.cpp"] if len(ways) == 1 else [f"llama.cpp, flash attention {way}" for way in ways]
    columns = ["format", "test", "depth", "glint, tok/s", "of the limit"]
    for name in names:
        columns += [f"{name}, tok/s", "of the limit", "ratio"]
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"


def table_rows(name: str, ours: list[dict], theirs: dict[str, list[dict]], reports: list[dict]):
    """theirs: for each way of flash attention, a sample of each round."""
    for i, result in enumerate(reports[0]["results"]):
        test = what, depth = what_of(result), result["depth"]
        work, limit = {"prefill": ("flops_per_token", "matrix_gflops"),
                       "decode": ("bytes_per_token", "read_gb_per_s")}[result["test"]]
        giga = statistics.median(report["results"][i][work] for report in reports) * 1e-9
        limit = statistics.median(report["results"][i][limit] for report in reports)
        a = [s[test] for s in ours]
        row = f"| {name} | {what} | {depth:,} | {cell(a, giga, limit)} |"
        for rounds in theirs.values():
            b = [s[test] for s in rounds]
            row += f" {cell(b, giga, limit)} | {statistics.median(a) / statistics.median(b):.1f} |"
        yield row


def main():
    numbers = lambda text: [int(n) for n in text.split(",")]
    words = lambda text: text.split(",")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--glint", required=True, help="the program")
    parser.add_argument("--llama", required=True, help="the folder that holds llama-bench and llama-batched-bench")
    parser.add_argument("--pair", required=True, action="append", nargs=3, metavar=("NAME", "CHECKPOINT", "GGUF"))
    parser.add_argument("--backend", choices=["cpu", "cuda"], default="cpu", help="where both compute")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=numbers, default=[512])
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--depth", type=numbers, default=[0, 4096])
    parser.add_argument("--batch", type=numbers, default=[1, 16])
    parser.add_argument("--repeat", type=int, default=1, help="samples in each run, after a warm-up; their median counts")
    parser.add_argument("--flash-attention", type=words, default=["on"], help="of llama.cpp: on, off, or on,off: both")
    parser.add_argument("--ubatch", type=int, default=512, help="tokens of a prompt that llama.cpp computes at once")
    parser.add_argument("--quiet", type=float, default=0.25, help="CPUs that other programs may use")
    parser.add_argument("--patience", type=float, default=120, help="seconds to wait for that before each sample")
    parser.add_argument("--out", help="a JSON file for everything that was measured")
    args = parser.parse_args()

    runner, record = Runner(args.quiet, args.patience), []
    print("\n".join(table_head(args.flash_attention)), flush=True)
    for name, checkpoint, gguf in args.pair:
        ours, theirs, reports = [], {way: [] for way in args.flash_attention}, []
        for turn in range(args.rounds):
            print(f"{name}: round {turn + 1} of {args.rounds}", file=sys.stderr)
            sample, report = sample_glint(runner, args, checkpoint)
            ours.append(sample)
            reports.append(report)
            for way, rounds in theirs.items():
                rounds.append(sample_llama(runner, args, gguf, way))
        print("\n".join(table_rows(name, ours, theirs, reports)), flush=True)
        record.append({"name": name, "glint": reports, "llama_cpp": {
            way: [[[*t, s] for t, s in x.items()] for x in rounds] for way, rounds in theirs.items()}})
        if args.out:
            Path(args.out).write_text(json.dumps({"pairs": record, "runs": runner.runs}, indent=2))
    print(f"\n{record[0]['glint'][0]['machine']}")
    print(f"Other programs used at most {max(r['cpus_of_others'] for r in runner.runs)} CPUs during a sample.")


if __name__ == "__main__":
    main()
