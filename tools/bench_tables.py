#!/usr/bin/env python3
"""Writes the tables of measured numbers into the documents, from bench/results; tools/lint.sh checks that they are there.

    bench_tables.py           write them
    bench_tables.py --check   only say which document does not hold what the results say

Between the lines `<!-- table: NAME -->` and `<!-- end -->` of a document stands what bench/results/tables.json says of NAME:

    "NAME": {"results": "epyc.json", "corner": "weights",
             "columns": [{"head": "decode, tok/s", "figures": ["decode"], "digits": 1}],
             "rows": [{"label": "BF16", "of": "BF16"}]}

A cell is the figure "FIGURE, OF" of the file (of the row's own "results", if it names some; without "of" the figure's name is
whole), or several with commas between, for which "digits" may be a list. A figure of one round is a number, of two or three all of them, of more
"median (low-high)". Results are in the form that bench/results/README.md describes, and are checked against it.
"""
import json
import math
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- table: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.S)
FIELDS = {"format", "source", "benchmark", "options", "machine", "build", "date", "note", "figures"}
NEEDED = {"format", "source", "benchmark", "machine", "figures"}
FIGURE = {"name", "unit", "better", "median", "low", "high", "rounds", "samples"}


class Wrong(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Wrong(what)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def check_figure(figure, where):
    need(isinstance(figure, dict) and set(figure) - {"samples"} == FIGURE - {"samples"}, f"{where}: a figure has {sorted(FIGURE)}: {figure}")
    where += f": {figure['name']!r}"
    need(figure["better"] in ("more", "less"), f"{where}: better is {figure['better']!r}")
    need(isinstance(figure["rounds"], int) and figure["rounds"] >= 1, f"{where}: rounds is {figure['rounds']!r}")
    need(all(is_number(figure[key]) for key in ("median", "low", "high")), f"{where}: median, low and high are numbers")
    need(figure["low"] <= figure["median"] <= figure["high"], f"{where}: low, median and high are not in order")
    samples = figure.get("samples")
    if samples is None:
        return
    need(len(samples) == figure["rounds"] and all(map(is_number, samples)), f"{where}: samples are one number a round")
    need(min(samples) == figure["low"] and max(samples) == figure["high"], f"{where}: low and high are not those of the samples")
    need(math.isclose(statistics.median(samples), figure["median"], rel_tol=1e-9), f"{where}: the median is not that of the samples")


def read_result(path):
    """{name: figure} of a file, which must have the form."""
    result = json.loads(path.read_text())
    where = path.name
    need(NEEDED <= set(result) <= FIELDS, f"{where}: fields are {sorted(FIELDS)}, of which {sorted(NEEDED)} must be there")
    need(result["format"] == "glint-figures-1", f"{where}: format is {result['format']!r}")
    need(result["source"] in ("measured", "document"), f"{where}: source is {result['source']!r}")
    need(result["source"] == "document" or {"options", "build"} <= set(result), f"{where}: what was measured names options and build")
    figures = {}
    for figure in result["figures"]:
        check_figure(figure, where)
        need(figure["name"] not in figures, f"{where}: {figure['name']!r} is there twice")
        figures[figure["name"]] = figure
    return figures


def number(value, digits):
    return f"{value:,.{digits}f}"


def values_of(figure, digits):
    samples = figure.get("samples")
    if figure["rounds"] == 1:
        return number(figure["median"], digits)
    if samples and len(samples) <= 3:
        return ", ".join(number(value, digits) for value in samples)
    return f"{number(figure['median'], digits)} ({number(figure['low'], digits)}-{number(figure['high'], digits)})"


def cell(names, figures, digits):
    for name in names:
        need(name in figures, f"no figure {name!r}")
    places = digits if isinstance(digits, list) else [digits] * len(names)
    need(len(places) == len(names), f"{len(places)} digits for the figures {names}")
    percent = " %" if all(figures[name]["unit"] == "%" for name in names) else ""
    return ", ".join(values_of(figures[name], n) for name, n in zip(names, places)) + percent


def table(layout, results):
    columns = layout["columns"]
    lines = ["| " + " | ".join([layout["corner"], *(column["head"] for column in columns)]) + " |", "|" + "---|" * (len(columns) + 1)]
    for row in layout["rows"]:
        file = row.get("results", layout.get("results"))
        need(file in results, f"no file {file!r} in bench/results")
        of = f", {row['of']}" if row.get("of") else ""
        cells = [cell([name + of for name in column["figures"]], results[file], column.get("digits", 0)) for column in columns]
        lines.append("| " + " | ".join([row["label"], *cells]) + " |")
    return "".join(line + "\n" for line in lines)


def fill(text, tables, used):
    """The document `text` with every table as it should be."""
    def replace(match):
        name = match.group(2)
        need(name in tables, f"table {name!r} is not in bench/results/tables.json")
        used.add(name)
        return match.group(1) + tables[name] + match.group(4)

    need(len(re.findall(r"<!-- table:", text)) == len(BLOCK.findall(text)), "a table has no <!-- end -->")
    return BLOCK.sub(replace, text)


def main():
    arguments = sys.argv[1:]
    check = "--check" in arguments
    root = pathlib.Path(next((a for a in arguments if a != "--check"), ROOT))  # another tree: for the test
    folder = root / "bench/results"
    wrong = []
    try:
        results = {path.name: read_result(path) for path in sorted(folder.glob("*.json")) if path.name != "tables.json"}
        tables, used = {}, set()
        for name, layout in json.loads((folder / "tables.json").read_text()).items():
            try:
                tables[name] = table(layout, results)
            except Wrong as error:
                raise Wrong(f"table {name!r}: {error}") from error
        for path in sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")]):
            text = path.read_text()
            filled = fill(text, tables, used)
            if filled != text and check:
                wrong.append(f"{path.relative_to(root)}: a table is not what bench/results says; run tools/bench_tables.py")
            elif filled != text:
                path.write_text(filled)
        need(used == set(tables), f"no document shows {sorted(set(tables) - used)} of tables.json")
    except (Wrong, ValueError, KeyError, TypeError) as error:
        wrong.append(f"bench/results: {error!r}" if not isinstance(error, Wrong) else f"bench/results: {error}")
    print("".join(line + "\n" for line in wrong), end="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
