#!/usr/bin/env python3
"""Writes the table of layouts into docs/parallelism.md: the floors that `glint plan` gives GLM-5-FP8 on hosts of eight H200.

    layout_tables.py GLINT            write it
    layout_tables.py --check GLINT    only say whether the document holds what the program says
"""
import json
import pathlib
import re
import subprocess
import sys

DOCUMENT = pathlib.Path(__file__).resolve().parent.parent / "docs" / "parallelism.md"
BLOCK = re.compile(r"(<!-- layouts -->\n)(.*?)(<!-- end -->)", re.S)
ROWS = ((1, (1, 8, 32, 64, 128, 512)), (2, (2, 16, 64, 256, 1024)), (4, (4, 32, 128, 512, 2048)), (8, (8, 64, 256, 1024, 4096)))


def floor(glint, hosts, batch, layout):
    """Milliseconds of a step of `batch` sequences over all hosts; 0 where they do not fit."""
    line = [glint, "plan", "zai-org/GLM-5-FP8", "--device", "h200", "--count", 8 * hosts, *layout, "--concurrency", batch, "--kv-dtype", "fp8",
            "--input-len", 4096, "--output-len", 1, "--max-model-len", 4097, "--max-num-batched-tokens", 1024, "--json"]
    said = subprocess.run(list(map(str, line)), capture_output=True, text=True, check=True)
    return next((1e3 * point["floor"]["seconds"] for point in json.loads(said.stdout)["decode"] if point["batch"] == batch), 0)


def cell(milliseconds, batch, hosts, best):
    if not milliseconds:
        return "no room" if milliseconds == 0 else "-"
    text = f"{milliseconds:.1f}, {1e3 * batch / milliseconds / 8 / hosts:,.0f}"
    return f"**{text}**" if milliseconds == best else text


def table(glint):
    lines = ["| hosts | sequences | `--tp 8` a host | `--dp` and `--ep` over all |", "|---:|---:|---:|---:|"]
    for hosts, batches in ROWS:
        for batch in batches:
            replicas = 8 * hosts
            times = [floor(glint, 1, batch // hosts, ("--tp", 8)),
                     floor(glint, hosts, batch, ("--tp", 1, "--dp", replicas, "--ep", replicas)) if batch >= replicas else None]
            best = min(filter(None, times), default=None)
            lines.append(f"| {hosts} | {batch:,} | {' | '.join(cell(time, batch, hosts, best) for time in times)} |")
    return "\n".join(lines) + "\n"


def main():
    check = sys.argv[1:2] == ["--check"]
    text = DOCUMENT.read_text()
    wanted = BLOCK.sub(lambda found: found[1] + table(sys.argv[-1]) + found[3], text)
    if check and wanted != text:
        sys.exit(f"{DOCUMENT.name} does not hold what glint plan says; run tools/layout_tables.py GLINT")
    if not check:
        DOCUMENT.write_text(wanted)


main()
