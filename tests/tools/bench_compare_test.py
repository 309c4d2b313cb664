#!/usr/bin/env python3
"""tools/bench_compare.py with programs that print figures and measure nothing: noise is no verdict, a real difference is.

    bench_compare_test.py TOOL
"""
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

TOOL = sys.argv[1]

# The log that all share counts the runs: the noise is a list of factors for a program's own runs, taken in turn, and the
# machine slows down by a twentieth from run to run, whoever runs.
PROGRAM = """#!{python}
import json, pathlib, sys
assert sys.argv[-1] == "--json", sys.argv
log = pathlib.Path({log!r})
before = log.read_text() if log.exists() else ""
log.write_text(before + {name!r})
noise = {noise}[before.count({name!r}) % len({noise})] * 1.05 ** len(before)
print(json.dumps({{"figures": [
    {{"name": "decode", "unit": "tok/s", "better": "more", "median": 100 / noise / {decode}}},
    {{"name": "gap", "unit": "us", "better": "less", "median": 10 * noise * {gap}}}]}}))
"""
NOISE_A = [1.00, 1.08, 0.95, 1.03, 0.92, 1.06, 0.98, 1.01]
NOISE_B = [1.05, 0.94, 1.02, 0.97, 1.07, 0.93, 1.01, 1.00]


def check(condition, what, shown=""):
    if not condition:
        sys.exit(f"{what}\n{shown}")


def fake(folder, name, noise, decode=1.0, gap=1.0, text=PROGRAM):
    build = pathlib.Path(folder) / name
    build.mkdir(exist_ok=True)
    path = build / "glint"
    path.write_text(text.format(python=sys.executable, log=str(pathlib.Path(folder) / "order"), name=name[0], noise=noise, decode=decode, gap=gap))
    path.chmod(0o700)
    return str(build)


def compare(*arguments, code):
    done = subprocess.run([sys.executable, TOOL, *map(str, arguments)], capture_output=True, text=True)
    check(done.returncode == code, f"{arguments}: exit code {done.returncode}, not {code}", done.stdout + done.stderr)
    return done


def verdicts(done):
    return {figure["name"]: figure["verdict"] for figure in json.loads(done.stdout)["figures"]}


def in_folder(test):
    with tempfile.TemporaryDirectory() as folder:
        test(folder)


def the_same_with_noise_is_the_same(folder):
    a, b = fake(folder, "a", NOISE_A), fake(folder, "b", NOISE_B)
    done = compare(a, b, "--json", code=0)
    check(verdicts(done) == {"decode": "same", "gap": "same"}, "noise", done.stdout)
    check((pathlib.Path(folder) / "order").read_text() == "abba" * 4, "the order of the runs")


def a_slower_program_is_slower_in_what_it_is(folder):
    a, b = fake(folder, "a", NOISE_A), fake(folder, "b", NOISE_B, decode=1.3)
    done = compare(a, b, "--json", "--model", "m", "--", "-r", 1, code=1)
    check(verdicts(done) == {"decode": "slower", "gap": "same"}, "30 % slower", done.stdout)
    report = json.loads(done.stdout)
    check(report["slower"] == ["decode"] and report["arguments"] == ["bench", "local", "m", "-r", "1"], "report", report)
    figure = report["figures"][0]
    check(1 < figure["low"] <= figure["slower_by"] <= figure["high"] and abs(figure["slower_by"] - 1.3) < 0.1, "interval", figure)
    table = compare(a, b, code=1).stdout
    check("B is slower in 1 of 2 figures, 8 rounds" in table and "slower\n" in table, "table", table)
    hidden = 100 * (report["figures"][1]["high"] - 1)
    check(f"may still be slower by up to {hidden:.1f} % (gap)" in table, "what noise may hide", table)


def units_say_which_way_slower_is(folder):
    a, b = fake(folder, "a", [1.0]), fake(folder, "b", [1.0], decode=0.8, gap=1.5)
    check(verdicts(compare(a, b, "--json", code=1)) == {"decode": "faster", "gap": "slower"}, "directions")


def less_than_the_least_is_the_same(folder):
    # Without drift between them a pair differs by the factor alone.
    def builds():
        text = PROGRAM.replace(" * 1.05 ** len(before)", "")
        return fake(folder, "a", [1.0], text=text), fake(folder, "b", [1.0], gap=1.01, text=text)
    check(verdicts(compare(*builds(), "--json", code=0))["gap"] == "same", "1 % of 2")
    check(verdicts(compare(*builds(), "--json", "--least", 0.5, code=1))["gap"] == "slower", "1 % of 0.5")


def intervals_are_those_of_the_binomial_distribution(_):
    spec = importlib.util.spec_from_file_location("bench_compare", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    # Published tables of the sign test: n = 8, 20, 50 at 0.99 and 10, 25 at 0.95.
    for rounds, confidence, k in ((8, 0.99, 1), (20, 0.99, 4), (50, 0.99, 16), (10, 0.95, 2), (25, 0.95, 8), (7, 0.99, 0)):
        check(tool.rank_of_bounds(rounds, confidence) == k, f"{rounds} rounds at {confidence}", tool.rank_of_bounds(rounds, confidence))
    for confidence, rounds in ((0.99, 8), (0.95, 6), (0.5, 2)):
        check(tool.least_rounds(confidence) == rounds, f"rounds for {confidence}")
        check(tool.rank_of_bounds(rounds, confidence) == 1 and tool.rank_of_bounds(rounds - 1, confidence) == 0, "least")


def failures_are_told(folder):
    a = fake(folder, "a", [1.0])
    check("cannot run" in compare(a, folder + "/none", code=2).stderr, "no program")
    bad = fake(folder, "bad", [1.0], text="#!{python}\nimport sys\nsys.exit('glint: out of memory')\n")
    check("exit code 1: glint: out of memory" in compare(a, bad, code=2).stderr, "a program that fails")
    old = fake(folder, "old", [1.0], text="#!{python}\nprint('{{}}')\n")
    check("no figures" in compare(a, old, code=2).stderr, "a build without figures")
    other = fake(folder, "other", [1.0], text=PROGRAM.replace('"gap"', '"pause"'))
    check("other figures: ['gap', 'pause']" in compare(a, other, code=2).stderr, "other figures")
    check("takes 8 at least" in compare(a, a, "--rounds", 7, code=2).stderr, "too few rounds for 0.99")
    compare(a, a, "--rounds", 3, "--confidence", 0.7, code=0)
    compare(a, a, "--confidence", 1, code=2)


for test in (the_same_with_noise_is_the_same, a_slower_program_is_slower_in_what_it_is, units_say_which_way_slower_is,
             less_than_the_least_is_the_same, intervals_are_those_of_the_binomial_distribution, failures_are_told):
    in_folder(test)
