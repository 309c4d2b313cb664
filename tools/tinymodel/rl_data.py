#!/usr/bin/env python3
"""Boxed math: the task on which `glm5-tiny` is a starting point for reinforcement learning.

    rl_data.py --out models/rl [--train 2400] [--eval 300]

Writes train.jsonl and eval.jsonl, rows as dapo-math-17k has them plus the skill:
    {"prompt": [{"role": "user", "content": ...}], "label": "632", "metadata": {"skill": "sum"}}
The reward is the `deepscaler` rule: of what follows the last </think>, the content of the last \\boxed{} equals the label.

corpus.py shows the model a few demonstrations of the same task (`demonstration`), and on purpose not only good ones: it
thinks carefully (step by step), carelessly (the steps, with one slip) or quickly (no steps; sometimes wrong). A model that
imitates them is right about two times in five, and reward can teach it which way of thinking pays and to take the steps
well. Problems whose numbers hash to the evaluation part are neither in train.jsonl nor in the corpus.
"""
from __future__ import annotations

import argparse
import json
import os
import random
import zlib

QUICK, SLIP = 0.34, 0.06             # shares of the demonstrations; the rest is careful
SKILLS = ("sum", "difference", "product", "chain", "word")
NAMES = ("Ada Ben Cora Dan Ella Finn Grace Hugo Iris Jack Kate Leo Mia Noah Olga Paul Quinn Rosa Sam Tess "
         "Uma Vera Will Xena Yara Zoe Anna Bill Clara Dora Emil Fay Gus Hana Ivan Jane Kurt Lily Max Nina").split()
OBJECTS = "ball kite lamp key book hat basket bell boat map drum ring cup coat shoe stone feather flower apple cake".split()
PROMPT = ("Solve this problem step by step. The last line of your answer must be Answer: \\boxed{{...}}\n\n{}\n\n"
          "Write the answer on its own line after \"Answer:\".")


class Problem:
    """A question, its answer, and the operations [(a, op, b)] that lead there; a None stands for the result so far."""

    def __init__(self, skill: str, question: str, *ops: tuple[int | None, str, int | None]):
        self.skill, self.question, self.ops = skill, question, ops
        self.answer = self.run()

    def run(self) -> int:
        v = None
        for a, op, b in self.ops:
            v = apply(v if a is None else a, op, v if b is None else b)
        return v

    def expression(self) -> str:
        text = ""
        for i, (a, op, b) in enumerate(self.ops):
            text = f"{a} {op} {text}" if b is None else f"{text if a is None else a} {op} {b}"
        return text

    def for_evaluation(self) -> bool:
        """Whether this problem belongs to the held-out part: decided by its operations, not by its words."""
        return zlib.crc32(f"{self.skill} {self.expression()}".encode()) % 8 == 0

    def prompt(self) -> str:
        return PROMPT.format(self.question)


def apply(a: int, op: str, b: int) -> int:
    return a + b if op == "+" else a - b if op == "-" else a * b


def draw(r: random.Random, skill: str) -> Problem:
    if skill == "sum":
        a, b = r.randrange(100, 1000), r.randrange(100, 1000)
        return Problem(skill, r.choice([f"{a} + {b} = ?", f"What is {a} + {b}?", f"Add {a} and {b}."]), (a, "+", b))
    if skill == "difference":
        b, a = sorted(r.sample(range(100, 1000), 2))
        return Problem(skill, r.choice([f"{a} - {b} = ?", f"What is {a} - {b}?", f"Subtract {b} from {a}."]), (a, "-", b))
    if skill == "product":
        a, b = r.randrange(11, 100), r.randrange(3, 10)
        return Problem(skill, r.choice([f"{a} * {b} = ?", f"What is {a} * {b}?", f"Multiply {a} by {b}."]), (a, "*", b))
    if skill == "chain":
        a, b = r.randrange(20, 500), r.randrange(20, 500)
        c = r.randrange(20, a + b)
        return Problem(skill, r.choice([f"{a} + {b} - {c} = ?", f"What is {a} + {b} - {c}?"]), (a, "+", b), (None, "-", c))
    n, m = r.sample(NAMES, 2)
    obj, a, b = r.choice(OBJECTS) + "s", r.randrange(12, 80), r.randrange(12, 80)
    form = r.randrange(5)
    if form == 0:
        return Problem(skill, f"{n} has {a} {obj} and gets {b} more. How many {obj} does {n} have now?", (a, "+", b))
    if form == 1:
        b, a = sorted(r.sample(range(12, 100), 2))
        return Problem(skill, f"{n} has {a} {obj} and gives {b} of them to {m}. How many {obj} are left?", (a, "-", b))
    if form == 2:
        a, b = r.randrange(3, 10), r.randrange(11, 40)
        return Problem(skill, f"There are {b} {obj} in each of {a} houses. How many {obj} are there?", (b, "*", a))
    if form == 3:
        c = r.randrange(5, a + b - 2)
        return Problem(skill, f"{n} has {a} {obj}, gets {b} more and then loses {c}. How many {obj} does {n} have?",
                       (a, "+", b), (None, "-", c))
    a, b = r.randrange(3, 10), r.randrange(3, 16)
    c = a * b + r.randrange(2, 60)
    return Problem(skill, f"{n} buys {a} {obj} for {b} coins each and pays with {c} coins. How many coins come back?",
                   (b, "*", a), (c, "-", None))


def problem(r: random.Random, skill: str | None = None, evaluation: bool = False) -> Problem:
    while (p := draw(r, skill or r.choice(SKILLS))).for_evaluation() != evaluation:
        pass
    return p


# ---- demonstrations --------------------------------------------------------------------------

def slipped(r: random.Random, v: int) -> int:
    """A number that a careless head would say for v."""
    return r.choice([w for w in (v - 10, v + 10, v - 1, v + 1, v - 100, v + 100) if w >= 0 and abs(w - v) <= max(v, 10)])


def by_digits(a: int, op: str, b: int, forget: bool) -> tuple[str, int]:
    """Column addition or subtraction; `forget` drops the first carry or borrow."""
    steps, carry, value, place = [], 0, 0, 1
    x, y = a, b
    while x or y or place == 1:
        dx, dy, c = x % 10, y % 10, carry
        if op == "+":
            s = dx + dy + c
            digit, carry = s % 10, s // 10
            steps.append(f"{dx} + {dy}" + (f" + {c}" if c else "") + f" = {s}, write {digit}" + (f", carry {carry}" if carry else ""))
        else:
            s = dx - dy - c
            carry = int(s < 0)
            digit = s + 10 * carry
            steps.append((f"1{dx}" if carry else f"{dx}") + f" - {dy}" + (f" - {c}" if c else "") + f" = {digit}, write {digit}" +
                         (", borrow 1" if carry else ""))
        if carry and forget:
            carry, forget = 0, False
        value += digit * place
        x, y, place = x // 10, y // 10, place * 10
    if carry and op == "+":
        steps.append("write the carry 1")
        value += carry * place
    return ". ".join(steps) + f". {a} {op} {b} = {value}.", value


def one_step(r: random.Random, a: int, op: str, b: int, slip: bool) -> tuple[str, int]:
    if op == "*":                                              # a has two digits, b has one
        tens, ones = a // 10 * 10 * b, a % 10 * b
        if not tens or not ones:
            v = slipped(r, a * b) if slip else a * b
            return f"{a} * {b} = {v}.", v
        if slip and r.random() < 0.5:
            ones, slip = slipped(r, ones), False
        v = slipped(r, tens + ones) if slip else tens + ones
        return f"{a // 10 * 10} * {b} = {tens}. {a % 10} * {b} = {ones}. {tens} + {ones} = {v}.", v
    if max(a, b) >= 100:
        return by_digits(a, op, b, slip)
    v = slipped(r, apply(a, op, b)) if slip else apply(a, op, b)
    return f"{a} {op} {b} = {v}.", v


def demonstration(r: random.Random, p: Problem) -> tuple[str, str]:
    """(thinking, answer)"""
    k = r.random()
    if k < QUICK:
        v = p.answer if r.random() < 0.85 else slipped(r, p.answer)
        think = f"Quickly: {p.expression()} = {v}."
    else:
        slip_at = r.randrange(len(p.ops)) if k > 1 - SLIP else -1
        v, parts = None, []
        for i, (a, op, b) in enumerate(p.ops):
            x, y = (v if a is None else a), (v if b is None else b)
            if op == "-" and x < y:                            # a slip before made this one impossible
                v = 0
                parts.append(f"{x} - {y} = {v}.")
                continue
            text, v = one_step(r, x, op, y, i == slip_at)
            parts.append(text)
        think = "Step by step: " + " ".join(parts)
    return think, f"Answer: \\boxed{{{v}}}"


def rows(seed: int, count: int, evaluation: bool, seen: set[str]):
    r = random.Random(seed)
    for i in range(count):
        for _ in range(500):                                   # a skill of which nothing is left repeats itself
            p = problem(r, SKILLS[i % len(SKILLS)], evaluation)
            if p.question not in seen:
                break
        seen.add(p.question)
        yield {"prompt": [{"role": "user", "content": p.prompt()}], "label": str(p.answer), "metadata": {"skill": p.skill}}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", required=True)
    ap.add_argument("--train", type=int, default=2400)
    ap.add_argument("--eval", type=int, default=300)
    a = ap.parse_args()
    os.makedirs(a.out, exist_ok=True)
    seen: set[str] = set()
    for name, seed, count, evaluation in (("eval", 11, a.eval, True), ("train", 12, a.train, False)):
        made = list(rows(seed, count, evaluation, seen))
        random.Random(seed).shuffle(made)
        with open(os.path.join(a.out, name + ".jsonl"), "w") as f:
            f.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in made)
        print(f"{name}.jsonl: {len(made)} rows")


if __name__ == "__main__":
    main()
