#!/usr/bin/env python3
"""glint chat through a pipe: it answers, remembers, obeys its commands, and ends.

    chat_test.py build/release/glint models/glm5-tiny
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from program import GLINT, check, refused

MODEL = sys.argv[2]


def chat(lines, *args, code=0):
    done = subprocess.run([GLINT, "chat", MODEL, "--temperature", "0", *map(str, args)], input="\n".join(lines) + "\n",
                          capture_output=True, text=True, timeout=120)
    if done.returncode != code:
        sys.exit(f"exit {done.returncode}: {done.stderr}")
    return done.stdout, done.stderr


out, err = chat(["What is 12 + 7?", "/nonsense", "What is the capital of Italy?", "/quit", "never read"], code=1)
check("19" in out and "Rome" in out and "never" not in out, "answers", out)
check("/nonsense" in err and "/help" in err, "an unknown command is named", err)

# Thinking can be told from the answer without colours; a line may go on.
out, _ = chat(["What is 12 + \\", "7?"])
check("<think>2 + 7" in out and "</think>\nThe answer is 19.\n" in out, "thinking in a pipe", out)
# A message without an answer shows in the exit code, and ends nothing.
out, err = chat(["word " * 5000, "What is 12 + 7?"], code=1)
check("leaves no room" in err and "19" in out, "a message that is too long", out + err)
refused("chat", "127.0.0.1:8000", words=["127.0.0.1:8000", "begins with http://"])

# Lines of other systems end in \r\n.
out, err = chat(["What is 12 + 7?\r", "/quit\r", "never read"])
check("19" in out and "never" not in out and err == "", "\\r at the end of lines", out + err)

# The second answer is the same whether the cache of the first was used or not.
two, _ = chat(["Hello", "What is 3 + 4?"])
fresh, _ = chat(["Hello", "/reset", "What is 3 + 4?"])
check("7" in two and "7" in fresh, "after /reset", two + fresh)
drafted, _ = chat(["Hello", "What is 3 + 4?"], "--spec", "mtp:2")
check(drafted == two, "speculation changes a conversation", two + "\n---\n" + drafted)
# Ranks as threads: the bits of one rank that cuts its sums in as many slices.
sliced, two_ranks = (chat(["Hello", "What is 3 + 4?"], "--threads", 2, *more)[0] for more in (("--reduce-slices", 2), ("--tp", 2)))
check("7" in sliced and sliced == two_ranks, "ranks change a conversation", sliced + "\n---\n" + two_ranks)

with tempfile.TemporaryDirectory() as folder:
    tools = pathlib.Path(folder) / "tools.json"
    for text, why in ("{}", "list of tools"), ('[{"function": {}}]', "tool 1 is no function"):
        tools.write_text(text)
        refused = subprocess.run([GLINT, "chat", MODEL, "--tools", tools], input="", capture_output=True, text=True)
        check(refused.returncode == 2 and why in refused.stderr, f"tools of {text}", refused.stderr)
    tools.write_text(json.dumps([{"type": "function", "function": {
        "name": "get_weather", "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]))
    out, _ = chat(["What is the weather in Paris?", "sunny, 20 degrees"], "--tools", tools)
    check("tool call: get_weather" in out and "Paris" in out, "a tool call is shown", out)
print("chat converses")
