#!/usr/bin/env python3
"""tools/bench_tables.py on trees of its own: what it writes, and what it refuses.

    bench_tables_test.py TOOL
"""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

TOOL = sys.argv[1]


def check(condition, what, shown=""):
    if not condition:
        sys.exit(f"{what}\n{shown}")


def figure(name, samples, unit="tok/s", **changes):
    ordered = sorted(samples)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return {"name": name, "unit": unit, "better": "more", "median": middle, "low": ordered[0], "high": ordered[-1],
            "rounds": len(samples), "samples": samples, **changes}


RESULT = {"format": "glint-figures-1", "source": "document", "benchmark": "bench local", "machine": {"cpu": "a"},
          "figures": [figure("decode, BF16", [1234.56]), figure("share, BF16", [70, 95], "%"),
                      figure("decode, FP8", [1, 2, 3, 4, 10]), figure("share, FP8", [80.4], "%"),
                      figure("p50", [1.25]), figure("p99", [9])]}
TABLES = {"speeds": {"results": "a.json", "corner": "weights",
                     "columns": [{"head": "decode, tok/s", "figures": ["decode"], "digits": 1}, {"head": "of reads", "figures": ["share"]}],
                     "rows": [{"label": "BF16", "of": "BF16"}, {"label": "FP8 (half)", "of": "FP8"}]},
          "times": {"corner": "", "columns": [{"head": "p50, p99", "figures": ["p50", "p99"], "digits": [2, 0]}],
                    "rows": [{"label": "all", "results": "a.json"}]}}
DOCUMENT = "# Title\n\n<!-- table: speeds -->\nold\n<!-- end -->\nText.\n<!-- table: times -->\n<!-- end -->\n"
FILLED = """# Title

<!-- table: speeds -->
| weights | decode, tok/s | of reads |
|---|---|---|
| BF16 | 1,234.6 | 70, 95 % |
| FP8 (half) | 3.0 (1.0-10.0) | 80 % |
<!-- end -->
Text.
<!-- table: times -->
|  | p50, p99 |
|---|---|
| all | 1.25, 9 |
<!-- end -->
"""


def run(code, *arguments, result=RESULT, tables=TABLES, document=DOCUMENT):
    """The document afterwards, and what was said."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "bench/results").mkdir(parents=True)
        (root / "docs/notes").mkdir(parents=True)
        (root / "bench/results/a.json").write_text(json.dumps(result))
        (root / "bench/results/tables.json").write_text(json.dumps(tables))
        (root / "docs/notes/page.md").write_text(document)
        done = subprocess.run([sys.executable, TOOL, *arguments, folder], capture_output=True, text=True)
        check(done.returncode == code, f"exit code {done.returncode}, not {code}", done.stdout + done.stderr)
        return (root / "docs/notes/page.md").read_text(), done.stdout


check(run(0)[0] == FILLED, "the tables", run(0)[0])
check(run(0, "--check", document=FILLED) == (FILLED, ""), "a document that is right")
text, said = run(1, "--check")
check(text == DOCUMENT and said.startswith("docs/notes/page.md: a table is not what"), "--check writes nothing", said)


def refused(words, change):
    case = copy.deepcopy({"result": RESULT, "tables": TABLES, "document": DOCUMENT})
    case = {**case, **(change(case) or {})}
    said = run(1, **case)[1]
    check(words in said, f"{words!r} is not said", said)


def changed(key, value):
    def change(case):
        case["result"]["figures"][1][key] = value
    return change


refused("are not in order", changed("low", 96))
refused("low and high are not those of the samples", changed("low", 60))
refused("the median is not that of the samples", changed("median", 80))
refused("one number a round", changed("rounds", 3))
refused("better is 'higher'", changed("better", "higher"))
refused("are numbers", changed("median", "82"))
refused("a figure has", changed("mean", 1))
refused("is there twice", changed("name", "decode, BF16"))
refused("format is 'x'", lambda case: case["result"].update(format="x"))
refused("names options and build", lambda case: case["result"].update(source="measured"))
refused("must be there", lambda case: {"result": {k: v for k, v in RESULT.items() if k != "machine"}})
refused("no figure 'share, NVFP4'", lambda case: case["tables"]["speeds"]["rows"].append({"label": "x", "of": "NVFP4"}) or
        case["result"]["figures"].append(figure("decode, NVFP4", [1])))
refused("no file 'b.json'", lambda case: case["tables"]["speeds"].update(results="b.json"))
refused("'other' is not in", lambda case: {"document": DOCUMENT + "<!-- table: other -->\n<!-- end -->\n"})
refused("no document shows ['times']", lambda case: {"document": DOCUMENT.split("Text.")[0]})
refused("has no <!-- end -->", lambda case: {"document": DOCUMENT + "<!-- table: speeds -->\n"})
