#!/usr/bin/env python3
"""glint bench local as a user meets it: a row for each combination, shares of what was measured, JSON, refusals.

    bench_local_test.py GLINT MODEL
"""
import json
import re
import resource
import statistics
import sys
import tempfile

from program import check, output, refused

MODEL = sys.argv[2]
WHAT = ("-p", "16,32", "-n", 2, "-d", "0,64", "-b", "1,4", "--repeat", 3, "--threads", 2)


def near(a, b):
    return abs(a - b) <= 1e-9 * abs(b)


def json_has_every_combination():
    report = json.loads(output("bench", "local", MODEL, *WHAT, "--json"))
    check(report["model"] == MODEL and report["load"]["seconds"] > 0 and report["read_gb_per_s"] > 0, "report", report)
    results = {(r["test"], r["tokens"], r["depth"], r["batch"]): r for r in report["results"]}
    expected = {("prefill", tokens, depth, 1) for tokens in (16, 32) for depth in (0, 64)}
    expected |= {("decode", 2, depth, batch) for depth in (0, 64) for batch in (1, 4)}
    check(set(results) == expected and len(report["results"]) == len(expected), "combinations", sorted(results))
    for r in results.values():
        check(len(r["samples"]) == 3 and min(r["samples"]) > 0, "samples", r)
        check(r["tokens_per_s"] == statistics.median(r["samples"]), "the median", r)
        check(near(r["gb_per_s"], r["tokens_per_s"] * r["bytes_per_token"] * 1e-9), "GB/s", r)
        check(near(r["gflops"], r["tokens_per_s"] * r["flops_per_token"] * 1e-9), "GFLOP/s", r)
        check(r["matrix_gflops"] > 0 and r["share_of_matrix_peak"] > 0, "share of the peak", r)
        check(r["read_gb_per_s"] > 0 and r["share_of_read_bandwidth"] > 0, "share of reads", r)
    # Weights are read once for all sequences of a step, and keys by each of its own.
    alone, together = results["decode", 2, 0, 1], results["decode", 2, 0, 4]
    check(together["bytes_per_token"] < alone["bytes_per_token"], "bytes a token", (alone, together))
    check(results["decode", 2, 64, 1]["flops_per_token"] > alone["flops_per_token"], "arithmetic at depth", alone)
    check(results["prefill", 32, 0, 1]["bytes_per_token"] < results["prefill", 16, 0, 1]["bytes_per_token"], "prefill", results)
    # A prompt's rows read the keys before them once together.
    prompt, step = (results[test, n, 64, 1]["bytes_per_token"] - results[test, n, 0, 1]["bytes_per_token"] for test, n in (("prefill", 32), ("decode", 2)))
    check(abs(32 * prompt / step - 1) < 1e-6, "bytes of 64 keys", (prompt, step))


def table_has_every_combination():
    lines = output("bench", "local", MODEL, *WHAT).splitlines()
    check(lines[0].startswith("machine: 2 threads of cpu: reads "), "the machine", lines[0])
    rows = [line for line in lines if re.match(r"(prefill|decode) \d+ at depth \d+", line)]
    check(len(rows) == 8, "rows", rows)
    for row in rows:
        median, low, high = map(float, re.split(r"\s{2,}", row)[1:4])
        check(low <= median <= high, "the spread", row)


def figures_are_in_the_common_form():
    with tempfile.TemporaryDirectory() as folder:
        for command, names in ((("bench", "local", MODEL, *WHAT), ["prefill 16 at depth 0", "decode 2 at depth 64, batch 4"]),
                               (("bench", "engine", "--running", "1,4", "--steps", 5, "--step-ms", 0, "--repeat", 3), ["commit, 4 running"])):
            path = f"{folder}/figures.json"
            report = json.loads(output(*command, "--json", "--figures", path))
            with open(path) as file:
                result = json.load(file)
            check(result["format"] == "glint-figures-1" and result["benchmark"] == " ".join(command[:2]), "the form", result)
            check(result["source"] == "measured" and result["machine"]["cpu"] and result["build"]["version"], "whose", result)
            check(result["figures"] == report["figures"], "the figures of --json", result)
            figures = {figure["name"]: figure for figure in result["figures"]}
            check(set(names) <= set(figures), "names", sorted(figures))
            for figure in figures.values():
                check(len(figure["samples"]) == figure["rounds"] == 3, "rounds", figure)
                check(figure["median"] == statistics.median(figure["samples"]), "the median", figure)
                check((figure["low"], figure["high"]) == (min(figure["samples"]), max(figure["samples"])), "range", figure)


def a_cpu_has_no_gaps():
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/figures.json"
        text = output("bench", "engine", "--model", MODEL, "--backend", "cpu", "--running", 1, "--steps", 3, "--repeat", 1, "--figures", path)
        with open(path) as file:
            names = [figure["name"] for figure in json.load(file)["figures"]]
    check(text.split()[-3:] == ["-", "-", "0"] and names == ["step, 1 running"], "what nothing measured", (text, names))


def caches_follow_each_other():
    limit = 1_500_000 << 10  # bytes: one of these caches fits, two do not
    text = output("bench", "local", MODEL, "-p", 0, "-n", 2, "-d", "3000,3500", "-b", 40, "-r", 1, "--threads", 1,
                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    check("at depth 3000, batch 40" in text and "at depth 3500, batch 40" in text, "both depths", text)


def ranks_share_the_work():
    one, two, cut, staged = (json.loads(output("bench", "local", MODEL, *WHAT, "--json", *more))
                             for more in ((), ("--tp", 2), ("--reduce-slices", 2), ("--pp", 2)))
    check(len(one["ranks"]) == 1 and len(two["ranks"]) == 2, "ranks", two["ranks"])
    for rank in two["ranks"]:
        check(rank["collectives"]["tp"]["all_reduce"]["calls"] > 0, "collectives", rank)
    for alone, shared in zip(one["results"], two["results"]):
        # Each reads and computes its part; both have what is small.
        check(1 <= shared["flops_per_token"] / alone["flops_per_token"] < 2, "arithmetic of both ranks", (alone, shared))
    for alone, sliced in zip(one["results"], cut["results"]):
        # Sums of slices are little beside the products.
        check(1 <= sliced["flops_per_token"] / alone["flops_per_token"] < 1.01, "products in slices are the same work", (alone, sliced))
    for alone, both in zip(one["results"], staged["results"]):
        for field in ("flops_per_token", "bytes_per_token"):
            check(near(alone[field], both[field]), "work of both stages", (alone, both))


def replicas_share_the_sequences():
    what = ("-p", 1, "-n", 3, "-b", 4, "-r", 1, "-t", 2, "--json")
    one, two, parts = (json.loads(output("bench", "local", MODEL, *what, *more)) for more in ((), ("--dp", 2), ("--dp", 2, "--cp", 2)))
    alone, shared = one["results"][1], two["results"][1]
    check(len(two["ranks"]) == 2 and near(alone["flops_per_token"], shared["flops_per_token"]), "arithmetic of a token", (alone, shared))
    # Both replicas read the dense weights, and so they do for two sequences each.
    check(1.2 < shared["bytes_per_token"] / alone["bytes_per_token"] < 2.1, "traffic of both replicas", (alone, shared))
    # Where two share a sequence of one token, one of them has nothing to do.
    token, part = one["results"][0], parts["results"][0]
    check(near(token["flops_per_token"], part["flops_per_token"]), "a part without rows", (token, part))
    check(abs(part["bytes_per_token"] / token["bytes_per_token"] - 1) < 1e-3, "its traffic", (token, part))
    # Experts that all share are read once a step for all tokens, also on ranks that have none.
    spread = json.loads(output("bench", "local", MODEL, *what, "--dp", 2, "--ep", 2, "-d", "0,9"))["results"]
    check(near(spread[0]["bytes_per_token"], token["bytes_per_token"]), "experts of both ranks", (spread[0], token))
    check(alone["bytes_per_token"] < spread[1]["bytes_per_token"] < shared["bytes_per_token"], "traffic of experts for all", (spread[1], shared))


caches_follow_each_other()
ranks_share_the_work()
replicas_share_the_sequences()
json_has_every_combination()
figures_are_in_the_common_form()
a_cpu_has_no_gaps()
table_has_every_combination()
refused("bench", "local", MODEL, "--batch", 0, words=("--batch is 0",))
for option in ("--tp", "--pp", "--ep", "--dp", "--cp", "--reduce-slices"):
    refused("bench", "local", MODEL, "--load-format", "dummy_fp8", option, 2, "--emulate-rank", "tp=2", words=("--emulate-rank", option))
refused("bench", "local", f"{MODEL}/config.json", "--emulate-rank", "tp=2", "--json", words=("prints no JSON",))  # it has weights made up
refused("bench", "local", MODEL, "--repeat", 0, words=("--repeat is 0",))
refused("bench", "engine", "--dtype", "f32", words=("--dtype", "--model"))
refused("bench", "engine", "--model", MODEL, "--step-ms", 5, words=("--step-ms", "--model"))
refused("bench", "local", MODEL, "--depth", -1, words=("--depth is -1",))
refused("bench", "local", MODEL, "--prompt", 2147483647, words=("--prompt is 2147483647",))
refused("bench", "local", MODEL, "--depth", 4000, "-p", 97, "--json", words=("4,097 tokens", "4,096 positions"))
refused("bench", "local", MODEL, "-p", 0, "-n", 1, "--batch", 1 << 24, "--json", words=("needed for 16777216 sequences of length 1", "are free"))
