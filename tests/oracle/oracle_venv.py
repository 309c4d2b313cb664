"""Runs the calling script again inside a virtual environment of the build folder that has the packages it compares with.

Used by the oracle tests: `oracle_venv.enter("tokenizers==0.23.3")` before the first import of such a package.
"""
import fcntl
import os
import pathlib
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOME = ROOT / "build" / "oracle"


def enter(*packages):
    python = HOME / "bin" / "python"
    if pathlib.Path(sys.prefix) != HOME:
        HOME.parent.mkdir(exist_ok=True)
        with open(HOME.parent / "oracle.lock", "w") as lock:  # tests run side by side
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not python.exists():
                venv.create(HOME, with_pip=True)
            done = HOME / "installed.txt"
            installed = set(done.read_text().split()) if done.exists() else set()
            if not set(packages) <= installed:
                subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
                done.write_text("\n".join(sorted(installed | set(packages))) + "\n")
        os.execv(python, [str(python), *sys.argv])
