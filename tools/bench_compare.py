#!/usr/bin/env python3
"""Is one build of glint slower than another? Runs both in turns on this machine, and says it for each figure.

    bench_compare.py BUILD_A BUILD_B                      what the scheduler costs (glint bench engine)
    bench_compare.py BUILD_A BUILD_B --model models/glm5-tiny -- -p 64 -n 32 -b 1,4 -r 3

A build is a folder with the program glint in it, or the program. With --model it measures `glint bench local`; what stands
behind -- goes to the benchmark. Exit code 0: no figure of B is slower; 1: one is; 2: a run failed, or the figures differ.

The method. A round is both programs, first A then B, in the next round first B then A (ABBA), so that a machine that slows
down or heats up does it to both. Each run gives the median of its own samples. Of a round only the ratio of B to A counts,
turned so that more than 1 is slower. The estimate is the median of the rounds' ratios, and its interval lies between two of
them: the k-th smallest and the k-th largest, with the largest k for which the true median lies between them with at least
--confidence, by the binomial distribution: whatever the noise looks like, if rounds do not depend on each other. B is slower if
the whole interval is above 1 and the estimate above 1 + --least percent; faster likewise. With F figures that are the same a
false alarm has a chance of at most F * (1 - confidence) / 2; try two copies of one program to see what a machine is good for.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys


class Failure(Exception):
    pass


def program(build):
    path = pathlib.Path(build)
    return str(path / "glint" if path.is_dir() else path)


def measure(build, arguments):
    """{name: (unit, better, median)} of one run."""
    command = [program(build), *arguments, "--json"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except OSError as error:
        raise Failure(f"cannot run {command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Failure(f"{' '.join(command)}: exit code {done.returncode}{': ' + said[-1] if said else ''}")
    try:
        figures = {f["name"]: (f["unit"], f["better"], float(f["median"])) for f in json.loads(done.stdout)["figures"]}
    except (ValueError, KeyError, TypeError) as error:
        raise Failure(f"{' '.join(command)}: no figures in what it printed ({error!r}); a build before --figures?") from error
    for name, (_, better, median) in figures.items():
        if better not in ("more", "less") or not (math.isfinite(median) and median > 0):
            raise Failure(f"{' '.join(command)}: the figure {name!r} is {median}, {better!r}")
    return figures


def rank_of_bounds(rounds, confidence):
    """The k of the interval from the k-th smallest to the k-th largest; 0: no interval of so few is that sure."""
    k, outside = 0, 0.0
    while k < rounds // 2:
        outside += 2 * math.comb(rounds, k) / 2**rounds
        if outside > 1 - confidence + 1e-12:
            break
        k += 1
    return k


def least_rounds(confidence):
    return math.ceil(math.log2(2 / (1 - confidence)) - 1e-9)


def judge(ratios, confidence, least):
    """(verdict, estimate, low, high) of B's ratios to A, more than 1 being slower."""
    ordered = sorted(ratios)
    k = rank_of_bounds(len(ratios), confidence)
    low, high = ordered[k - 1], ordered[-k]
    estimate = math.exp(statistics.median(math.log(r) for r in ratios))
    verdict = "same"
    if low > 1 and estimate > 1 + least / 100:
        verdict = "slower"
    elif high < 1 and estimate < 1 / (1 + least / 100):
        verdict = "faster"
    return verdict, estimate, low, high


def compare(rounds, confidence, least):
    """`rounds`: a list of (figures of A, figures of B). A row for each figure."""
    rows = []
    for name, (unit, better, _) in rounds[0][0].items():
        a = [first[name][2] for first, _ in rounds]
        b = [second[name][2] for _, second in rounds]
        ratios = [x / y if better == "more" else y / x for x, y in zip(a, b)]
        verdict, estimate, low, high = judge(ratios, confidence, least)
        rows.append({"name": name, "unit": unit, "better": better, "a": statistics.median(a), "b": statistics.median(b),
                     "slower_by": estimate, "low": low, "high": high, "verdict": verdict, "a_rounds": a, "b_rounds": b})
    return rows


def run_rounds(args, arguments, progress):
    rounds = []
    for i in range(args.rounds):
        order = ("a", "b") if i % 2 == 0 else ("b", "a")
        figures = {}
        for which in order:
            progress(f"round {i + 1} of {args.rounds}: {which.upper()}")
            figures[which] = measure(getattr(args, "build_" + which), arguments)
        expected = (rounds or [(figures["a"], None)])[0][0]
        for which in "ab":
            if {n: f[:2] for n, f in figures[which].items()} != {n: f[:2] for n, f in expected.items()}:
                raise Failure(f"{which.upper()} has other figures: {sorted(set(figures[which]) ^ set(expected)) or 'other units'}")
        rounds.append((figures["a"], figures["b"]))
    return rounds


def table(rows, confidence):
    width = max(len("figure"), *(len(row["name"]) for row in rows))
    lines = [f"{'figure':{width}} {'unit':>8} {'A':>12} {'B':>12} {'B slower by':>12}   {confidence:.0%} interval   verdict"]
    for row in rows:
        percent = [f"{100 * (row[key] - 1):+.1f} %" for key in ("slower_by", "low", "high")]
        lines.append(f"{row['name']:{width}} {row['unit']:>8} {row['a']:12.4g} {row['b']:12.4g} {percent[0]:>12} "
                     f"{percent[1]:>8} to {percent[2]:>8}   {row['verdict']}")
    return "\n".join(lines)


def main():
    own, _, more = (sys.argv[1:], None, []) if "--" not in sys.argv else (
        sys.argv[1:sys.argv.index("--")], "--", sys.argv[sys.argv.index("--") + 1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build_a", metavar="BUILD_A", help="the one to compare with")
    parser.add_argument("build_b", metavar="BUILD_B", help="the one in question")
    parser.add_argument("--model", help="measure `glint bench local` of this model (default: `glint bench engine`)")
    parser.add_argument("--rounds", type=int, default=8, metavar="N", help="default 8")
    parser.add_argument("--confidence", type=float, default=0.99, metavar="P", help="default 0.99")
    parser.add_argument("--least", type=float, default=2.0, metavar="PERCENT", help="smaller differences count as none (default 2)")
    parser.add_argument("--json", action="store_true", help="print one JSON object with every round")
    args = parser.parse_args(own)
    if not 0 < args.confidence < 1:
        parser.error(f"--confidence is {args.confidence}; it must be between 0 and 1")
    if args.rounds < least_rounds(args.confidence):
        parser.error(f"--rounds is {args.rounds}; to be {args.confidence:g} sure takes {least_rounds(args.confidence)} at least")
    if args.least < 0:
        parser.error(f"--least is {args.least}; it must be 0 or more")
    arguments = (["bench", "local", args.model] if args.model else ["bench", "engine"]) + more
    try:
        rounds = run_rounds(args, arguments, lambda text: sys.stderr.isatty() and print(text, file=sys.stderr))
        rows = compare(rounds, args.confidence, args.least)
    except Failure as failure:
        print(f"bench_compare: {failure}", file=sys.stderr)
        return 2
    slower = [row["name"] for row in rows if row["verdict"] == "slower"]
    if args.json:
        print(json.dumps({"arguments": arguments, "rounds": args.rounds, "confidence": args.confidence, "least_percent": args.least,
                          "slower": slower, "figures": rows}, indent=2))
    else:
        print(table(rows, args.confidence))
        print(f"\nB is slower in {len(slower)} of {len(rows)} figures, {args.rounds} rounds")
        rest = [row for row in rows if row["verdict"] == "same"]
        if rest:  # the machine's noise, and not proof that nothing changed
            widest = max(rest, key=lambda row: row["high"])
            print(f"where it says same B may still be slower by up to {100 * (widest['high'] - 1):.1f} % ({widest['name']}); more rounds tell")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
