"""Runs the calling script again inside a virtual environment of the build folder that has the packages it compares with.

Used by the oracle tests: `oracle_venv.enter("tokenizers==0.23.3")` before the first import of such a package.
"""
import fcntl
import os
import pathlib
import subprocess
import sys
import venv

BUILD = pathlib.Path(__file__).resolve().parents[2] / "build"


def enter(*packages, home="oracle"):
    home = BUILD / home
    python = home / "bin" / "python"
    if pathlib.Path(sys.prefix) != home:
        BUILD.mkdir(exist_ok=True)
        with open(home.with_suffix(".lock"), "w") as lock:  # tests run side by side
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not python.exists():
                venv.create(home, with_pip=True)
            done = home / "installed.txt"
            installed = set(done.read_text().split()) if done.exists() else set()
            if not set(packages) <= installed:
                subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
                done.write_text("\n".join(sorted(installed | set(packages))) + "\n")
        os.execv(python, [str(python), *sys.argv])
