#!/usr/bin/env python3
"""Ctrl-C ends `glint generate` with exit code 130, and what was printed before stays.

    ctrl_c_test.py build/release/glint models/glm5-tiny
"""

import os
import signal
import subprocess
import sys

glint, model = sys.argv[1:]
process = subprocess.Popen(
    [glint, "generate", model, "-p", "Once upon a time", "--max-tokens", "100000", "--ignore-eos"],
    stdout=subprocess.PIPE, stderr=subprocess.PIPE, pipesize=4096)  # a pipe that is full holds it until the signal has come
try:
    first = process.stdout.read(20)  # it streams: something comes long before the end
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)
finally:
    process.kill()
if process.returncode != 130 or len(first) != 20 or b"glint:" in errors:
    sys.exit(f"exit {process.returncode}: {first + rest!r} {errors!r}")

# As the first process of a container a command ends by SIGTERM, too.
unshare = ["unshare", "--map-root-user", "--fork", "--pid"]
if subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL).returncode == 0:
    container = subprocess.Popen([*unshare, glint, "generate", model, "-p", "Once", "--max-tokens", "100000", "--ignore-eos"],
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pipesize=4096)
    try:
        container.stdout.read(20)
        with open(f"/proc/{container.pid}/task/{container.pid}/children") as children:
            first_process = int(children.read())
        os.kill(first_process, signal.SIGTERM)
        container.stdout.read()
        if container.wait(60) != 143:
            sys.exit(f"the first process of a container: exit {container.returncode}")
    finally:
        container.kill()
