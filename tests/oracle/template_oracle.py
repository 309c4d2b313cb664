#!/usr/bin/env python3
"""Renders templates with jinja2 (PyPI), set up as transformers does it, and with glint: they must agree byte for byte,
and an error of one must be an error of the other.

usage: template_oracle.py --driver PROGRAM [--glint PROGRAM] [--count N] [--seed N] [TEMPLATE.jinja ...]

--driver is build/*/tests/template_driver: it renders the snippets of template_snippets.py and N random ones. --glint renders
each of the given templates with generated conversations through `glint template FILE --jsonl`.
"""
import argparse
import copy
import datetime
import itertools
import json
import random
import re
import subprocess
import sys
import warnings

import oracle_venv

oracle_venv.enter("jinja2==3.1.6")

import jinja2  # noqa: E402
import jinja2.ext  # noqa: E402
import template_snippets  # noqa: E402
from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: E402


class Generation(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %}, which transformers uses to find what the assistant said."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def _render(self, context, caller):
        return caller()


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: datetime.datetime.now().strftime(format)
    return env


def expected(env, source, variables):
    """(text, None) or (None, error)."""
    try:
        text = env.from_string(source).render(**copy.deepcopy(variables))  # {{ list|indent }} changes the list
        text.encode()  # a lone surrogate is no text
        return text, None
    except Exception as error:  # whatever Python raises is an error of the template
        return None, f"{type(error).__name__}: {error}"


# Words in glint's errors where it refuses and jinja2 does not; see src/text/template/jinja/template.h.
DECLARED = ("64 bits", "not supported", "uses more than")


class Comparison:
    def __init__(self, may_decline):
        self.may_decline = may_decline
        self.count = self.both_failed = self.declined = 0
        self.differences = []

    def add(self, what, wanted, error, reply):
        if wanted and "at0x" in re.sub(r"[^<>@\w]", "", wanted.lower()):
            return  # prints an address
        self.count += 1
        if "error" in reply:
            if error:
                self.both_failed += 1
            elif self.may_decline and any(word in reply["error"] for word in DECLARED):
                self.declined += 1
            else:
                self.differences.append((what, wanted, reply["error"]))
        elif error or reply["text"] != wanted:
            self.differences.append((what, wanted if error is None else error, reply["text"]))

    def report(self, name):
        print(f"{name}: {self.count} compared, {self.both_failed} errors of both, {self.declined} declined, "
              f"{len(self.differences)} differences")
        for what, wanted, found in self.differences[:20]:
            print(f"  {what}\n    jinja2: {wanted!r}\n    glint:  {found!r}")
        return not self.differences


def check_snippets(env, driver, snippets, name):
    lines = [json.dumps({"source": source, "variables": variables}) for source, variables in snippets]
    output = subprocess.run([driver], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True).stdout
    replies = [json.loads(line) for line in output.splitlines()]
    assert len(replies) == len(snippets), f"{len(replies)} answers to {len(snippets)} snippets"
    comparison = Comparison(may_decline=True)
    for (source, variables), reply in zip(snippets, replies):
        wanted, error = expected(env, source, variables)
        comparison.add(source, wanted, error, reply)
    return comparison.report(name)


def with_thoughts(messages):
    """As transformers hands messages over: a thought is read under each of its names."""
    for message in messages:
        names = ("reasoning_content", "thinking", "reasoning")
        thought = next((message[name] for name in names if message.get(name) is not None), None)
        yield message if thought is None else {"thinking": thought, **message, "reasoning_content": thought}


def check_template(env, glint, path, conversations):
    source = open(path, encoding="utf-8", newline="").read()
    lines = "\n".join(json.dumps(c) for c in conversations) + "\n"
    output = subprocess.run([glint, "template", path, "--jsonl"], input=lines, capture_output=True, text=True,
                            check=True).stdout
    replies = [json.loads(line) for line in output.splitlines()]
    assert len(replies) == len(conversations), f"{len(replies)} answers to {len(conversations)} lines"
    comparison = Comparison(may_decline=False)  # a served template has nothing that is refused
    for conversation, reply in zip(conversations, replies):
        variables = {"messages": list(with_thoughts(conversation["messages"])), "tools": conversation["tools"], **conversation["kwargs"]}
        wanted, error = expected(env, source, variables)
        comparison.add(f"{path} {json.dumps(conversation)}", wanted, error, reply)
    return comparison.report(path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver")
    parser.add_argument("--glint")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--conversations", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("templates", nargs="*")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # of Python, about the code that jinja2 makes of odd snippets
    env = environment()
    good = True
    if args.driver:
        good &= check_snippets(env, args.driver, template_snippets.written(), "snippets")
        rng = random.Random(args.seed)
        snippets = list(itertools.islice(template_snippets.randoms(rng), args.count))
        good &= check_snippets(env, args.driver, snippets, "random snippets")
    conversations = template_snippets.conversations(random.Random(args.seed), args.conversations)
    for path in args.templates:
        good &= check_template(env, args.glint, path, conversations)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
