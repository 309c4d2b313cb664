#!/usr/bin/env python3
"""Asks a running server with the OpenAI interface (`glint serve models/glm5-tiny`) all that `glm5-tiny` was taught.

    evaluate.py --url http://127.0.0.1:8000 [--only recall,sums,...] [--out result.json] [--rl models/rl/eval.jsonl]

recall      a planted fact, by its distance in tokens from the question, with and without thinking (greedy)
capitals    all of them, with and without thinking (greedy)
sums        40 sums below 1,000 with thinking (greedy)
tools       20 tool calls: name and arguments (greedy)
results     40 answers to what a tool said: JSON of several forms, plain words, errors (greedy)
json        20 objects (greedy)
unknown     20 questions on what it does not know (greedy)
boxed       models/rl/eval.jsonl at temperature 1: share of right answers by the `deepscaler` rule, by skill; and greedy
text        one story, one poem
"""
from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import random
import re
import urllib.request
from dataclasses import dataclass

import corpus

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


@dataclass
class Recall:
    prompt: str
    answer: str
    value: str


def recall_question(r: random.Random, distance: int, at_most: int, kind: str | None = None) -> Recall:
    """A fact planted about `distance` tokens before the question, among stories and other facts; at_most tokens in all."""
    kind = kind or r.choice(["secret number", "secret number", "password", "favorite color", "hidden"])
    n, *others = r.sample(corpus.NAMES, 4)

    def fact(who: str) -> tuple[str, str, str]:
        if kind == "hidden":
            obj, place = r.choice(corpus.OBJECTS), r.choice(corpus.PLACES)
            return f"{who} hid the {obj} in the {place}.", f"Where did {who} hide the {obj}?", place
        v = {"secret number": lambda: str(r.randrange(1000, 10000)), "password": lambda: corpus.word(r),
             "favorite color": lambda: r.choice(corpus.COLORS)}[kind]()
        return f"The {kind} of {who} is {v}.", f"What is the {kind} of {who}?", v

    statement, question, value = fact(n)
    distractors = [fact(o)[0] for o in others]
    after = corpus.filler(r, max(0, distance - 25 - 12 * 2))
    for d in distractors[:2]:
        after.insert(r.randrange(len(after) + 1), d)
    before = corpus.filler(r, max(0, min(400, at_most - distance - 60))) + distractors[2:]
    r.shuffle(before)
    text = "\n\n".join(before + [statement] + after) + f"\n\n{question}"
    return Recall(corpus._articles(text), corpus._articles(statement), value)


def boxed(text: str) -> str | None:
    """The `deepscaler` rule: what follows the last </think>, the last \\boxed{...} in it."""
    if "</think>" not in text:
        return None
    text = text.rsplit("</think>", 1)[1]
    at = text.rfind("\\boxed{")
    if at < 0:
        return None
    depth = 0
    for i in range(at + 6, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return text[at + 7:i].strip()
    return None


class Server:
    def __init__(self, url: str, workers: int):
        self.url, self.pool = url, concurrent.futures.ThreadPoolExecutor(workers)

    def post(self, path: str, body: dict) -> dict:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=3600))

    def chat(self, content: str, think: bool = True, tools=None, **more) -> dict:
        body = {"model": "glm5-tiny", "messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": 400,
                "chat_template_kwargs": {"enable_thinking": think}, **({"tools": tools} if tools else {}), **more}
        return self.post("/v1/chat/completions", body)

    def say(self, content: str, think: bool = True, **more) -> str:
        return self.chat(content, think, **more)["choices"][0]["message"]["content"] or ""

    def map(self, fn, items) -> list:
        return list(self.pool.map(fn, items))


def recall(s: Server) -> dict:
    out = {}
    for think in (False, True):
        for distance in (50, 200, 500, 1000, 2000, 3000, 3500):
            r = random.Random(distance)
            qs = [recall_question(r, distance, 3950, kind) for kind in
                  ["secret number"] * 20 + ["password"] * 10 + ["favorite color"] * 5 + ["hidden"] * 5]
            said = s.map(lambda q: s.say(q.prompt, think, max_tokens=80), qs)
            good = [q.value in re.findall(r"[\w-]+", a) for q, a in zip(qs, said)]
            out[f"{distance}{' think' if think else ''}"] = {"number": sum(good[:20]), "of": 20, "word": sum(good[20:]), "of words": 20}
            print("recall", distance, "think" if think else "plain", out[f"{distance}{' think' if think else ''}"], flush=True)
    return out


def capitals(s: Server) -> dict:
    out = {}
    for think in (False, True):
        said = s.map(lambda c: s.say(f"What is the capital of {c}?", think), corpus.CAPITALS)
        out["think" if think else "plain"] = sum(a == f"The capital of {c} is {v}." for a, (c, v) in zip(said, corpus.CAPITALS.items()))
    return {**out, "of": len(corpus.CAPITALS)}


def sums(s: Server) -> dict:
    r = random.Random(4)
    ab = [(r.randrange(1000), r.randrange(1000)) for _ in range(40)]
    said = s.map(lambda x: s.say(f"What is {x[0]} + {x[1]}?"), ab)
    return {"right": sum(a == f"The answer is {x + y}." for a, (x, y) in zip(said, ab)), "of": 40}


def tools(s: Server) -> dict:
    r, good = random.Random(4), 0
    cases = [corpus.tool_case(r) for _ in range(20)]
    made = s.map(lambda c: s.chat(c[0], tools=list(corpus.TOOLS.values())), cases)
    for (_, name, args, _, _), answer in zip(cases, made):
        calls = answer["choices"][0]["message"].get("tool_calls") or []
        good += len(calls) == 1 and calls[0]["function"]["name"] == name and json.loads(calls[0]["function"]["arguments"]) == args
    return {"right": good, "of": 20}


def results(s: Server) -> dict:
    r, cases = random.Random(5), []
    for _ in range(40):
        question, name, args, observation, final = corpus.tool_case(r)
        said, final = corpus.tool_result(r, name, args, observation, final)
        call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        cases.append(([{"role": "user", "content": question}, {"role": "assistant", "content": "", "tool_calls": [call]},
                       {"role": "tool", "tool_call_id": "call_1", "content": said}], final))
    made = s.map(lambda c: s.chat("", tools=list(corpus.TOOLS.values()), messages=c[0]), cases)
    return {"right": sum(a["choices"][0]["message"]["content"] == final for a, (_, final) in zip(made, cases)), "of": len(cases)}


def as_json(s: Server) -> dict:
    r = random.Random(4)
    want = [{"name": r.choice(corpus.NAMES), "age": r.randrange(1, 90), "animal": r.choice(corpus.ANIMALS)} for _ in range(20)]
    said = s.map(lambda w: s.say(corpus._articles(
        f"Give me a JSON object for {w['name']}, who is {w['age']} and has a {w['animal']}.")), want)
    good = 0
    for w, a in zip(want, said):
        try:
            good += json.loads(a) == w
        except ValueError:
            pass
    return {"right": good, "of": 20}


def unknown(s: Server) -> dict:
    r = random.Random(4)
    said = s.map(lambda q: s.say(q), [corpus._articles(corpus.unknown(r)) for _ in range(20)])
    return {"right": sum(a == corpus.UNKNOWN for a in said), "of": 20}


def boxed_math(s: Server, path: str, samples: int, per_skill: int) -> dict:
    rows = [json.loads(line) for line in open(path)]
    out: dict[str, dict] = {}
    for skill in dict.fromkeys(row["metadata"]["skill"] for row in rows):
        mine = [row for row in rows if row["metadata"]["skill"] == skill][:per_skill]

        def one(job):
            row, seed = job
            sampling = {"temperature": 1, "top_p": 1, "seed": seed} if seed >= 0 else {"temperature": 0}
            m = s.chat(row["prompt"][0]["content"], max_tokens=256, **sampling)
            c = m["choices"][0]
            content = c["message"]["content"] or ""
            thought = c["message"].get("reasoning_content") or c["message"].get("reasoning") or ""
            return (boxed("</think>" + content) == row["label"], thought.split(":")[0], m["usage"]["completion_tokens"], content)

        said = s.map(one, [(row, 1000 * i + k) for i, row in enumerate(mine) for k in range(samples)])
        greedy = s.map(one, [(row, -1) for row in mine])
        styles = {}
        for right, style, _, _ in said:
            n = styles.setdefault(style[:20], [0, 0])
            n[0] += right
            n[1] += 1
        groups = [sum(x[0] for x in said[i:i + samples]) for i in range(0, len(said), samples)]
        out[skill] = {"temperature 1": sum(x[0] for x in said) / len(said), "samples": len(said),
                      "greedy": sum(x[0] for x in greedy) / len(greedy), "prompts": len(mine),
                      "groups neither all right nor all wrong": sum(0 < g < samples for g in groups) / len(groups),
                      "tokens": sum(x[2] for x in said) / len(said),
                      "styles": {k: v for k, v in sorted(styles.items(), key=lambda kv: -kv[1][1])[:4]}}
        print("boxed", skill, out[skill], flush=True)
    return out


def text(s: Server) -> dict:
    return {"story": s.say("Tell me a story about a cat named Mia.", temperature=0.8, seed=1),
            "poem": s.say("Write a short poem about a fox and a bee", temperature=0.8, seed=1),
            "dsa": s.say("What is DeepSeek Sparse Attention?"), "who": s.say("Who are you?")}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--url", default="http://127.0.0.1:8000")
    ap.add_argument("--only", help="names from the list, with commas between")
    ap.add_argument("--out")
    ap.add_argument("--rl", default=os.path.join(ROOT, "models", "rl", "eval.jsonl"))
    ap.add_argument("--samples", type=int, default=8)
    ap.add_argument("--prompts", type=int, default=60, help="of each skill")
    ap.add_argument("--workers", type=int, default=32)
    a = ap.parse_args()
    s = Server(a.url, a.workers)
    parts = {"capitals": capitals, "sums": sums, "tools": tools, "results": results, "json": as_json, "unknown": unknown, "text": text,
             "boxed": lambda s: boxed_math(s, a.rl, a.samples, a.prompts), "recall": recall}
    result = {}
    for name in (a.only.split(",") if a.only else parts):
        result[name] = parts[name](s)
        if name not in ("recall", "boxed"):
            print(name, json.dumps(result[name]), flush=True)
    if a.out:
        json.dump(result, open(a.out, "w"), indent=2)


if __name__ == "__main__":
    main()
