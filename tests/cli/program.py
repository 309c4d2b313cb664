"""The program under test, whose path is the first argument of every script here, and what its runs must give."""
import os
import subprocess
import sys

GLINT = sys.argv[1]


def check(condition, what, shown=""):
    if not condition:
        sys.exit(f"{what}\n{shown}")


def in_time(attempt, *args):
    """A signal or a fault that comes when what it is meant for has ended, or has not begun, is too late or too early: then `attempt` returns nothing, and is
    made anew. What it returns at last."""
    for _ in range(10):
        if done := attempt(*args):
            return done
    sys.exit(f"{attempt} never comes in time")


def at_a_terminal(home="/nonexistent"):
    """The environment of a program that shows colours, and keeps its files in `home`."""
    return {**os.environ, "TERM": "xterm", "NO_COLOR": "", "HOME": str(home)}


def run(*args, env=None, **kwargs):
    """`env` is added to the environment. Nothing stands on stdin."""
    return subprocess.run([GLINT, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600,
                          env={**os.environ, **(env or {})}, **kwargs)


def succeed(*args, **kwargs):
    """A run that must end well."""
    done = run(*args, **kwargs)
    check(done.returncode == 0, f"{args}: exit {done.returncode}", done.stdout + done.stderr)
    return done


def output(*args, **kwargs):
    return succeed(*args, **kwargs).stdout


def refused(*args, words=(), on_stdout=False, **kwargs):
    """A run that must end with one sentence, in which all `words` occur; before it began, or else `on_stdout`."""
    done = run(*args, **kwargs)
    check(done.returncode == 2 and (done.stdout == "" or on_stdout), f"{args}: exit {done.returncode}", done.stdout + done.stderr)
    check(done.stderr.startswith("glint: ") and done.stderr.count("\n") == 1, f"{args}: not one sentence", done.stderr)
    for word in words:
        check(word in done.stderr, f"{args}: {word!r} is not named", done.stderr)
