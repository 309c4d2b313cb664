#!/usr/bin/env python3
"""Every command of the program keeps the common rules: its help teaches, and its errors are one sentence.

    commands_test.py build/release/glint
"""

import pathlib
import re
import resource

from program import check, refused, run

overview = run("--help")
check(overview.returncode == 0 and overview.stderr == "", "--help", overview.stderr)
commands = re.findall(r"^  ([a-z-]+(?: [a-z-]+)?)  +\S", overview.stdout, re.M)
sources = [path for path in (pathlib.Path(__file__).resolve().parents[2] / "src/cli").glob("cmd_*.cc") if "_test" not in path.name]
check(len(commands) >= len(sources), "a src/cli/cmd_*.cc is not among the commands", overview.stdout)

for command in commands:
    words = command.split()
    page = run("help", *words)
    check(page.returncode == 0 and page.stderr == "", f"help {command}", page.stderr)
    check(page.stdout == run(*words, "--help").stdout, f"help {command} is not {command} --help")
    for part in (f"glint {command}: ", f"\nUsage: glint {command}", "\nExamples:\n  "):
        check(part in page.stdout, f"help {command} lacks {part!r}", page.stdout)
    long = [line for line in page.stdout.splitlines() if len(line) > 100]
    check(not long, f"help {command} has lines over 100 columns", "\n".join(long))
    refused(*words, "--no-such-option")

for words, defaults in ((("serve",), ("127.0.0.1", 8000, 64, 1000)), (("vllm", "serve"), ("0.0.0.0", 8000, 256, 3000)),
                        (("sglang",), ("127.0.0.1", 30000, 64, 1000)), (("trtllm-serve",), ("localhost", 8000, 64, 1000))):
    page = " ".join(run("help", *words).stdout.split())
    check(words == ("serve",) or f"glint {' '.join(words)}: `glint serve` with " in page, f"help {words} does not say what it is like", page)
    for option, value in zip(("host", "port", "max-num-seqs", "eplb-rebalance-num-iterations"), defaults):
        shown = re.search(rf" --{option}(?:, --[a-z-]+)* (?:TEXT|N) .*?\(default: ([\w.]+)\)", page)
        check(shown and shown[1] == str(value), f"help {words} shows another --{option}", shown)

check(re.fullmatch(r"glint \d+\.\d+\.\d+\n", run("--version").stdout), "--version")
refused("no-such-command")
refused("help", "no-such-command")
refused("bench", "quant", "--repeat", 0, words=["--repeat is 0"])
refused("bench", "ops", "--formats", "bf16,x", "--batch", 4096, words=["--formats names \"x\""])
refused("bench", "ops", "--matrix-tflops", -1, words=["--matrix-tflops is -1"])
refused("quantize", "in", "out", "--format", "fp8", "--max-shard-mb", 0, words=["--max-shard-mb is 0"])
refused("serve", "no/such-model", "--max-num-seqs", 0, words=["--max-num-seqs is 0"])
refused("bench", "serve", "http://127.0.0.1:1", "--long-prompt", 9, "--html", "x", words=["--html has no meaning with --long-prompt"])
stack = 32 << 10
refused("doctor", words=["limited to 32 KiB", "`ulimit -s 8192`"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (stack, resource.getrlimit(resource.RLIMIT_STACK)[1])))
print(f"{len(commands)} commands: " + ", ".join(commands))
