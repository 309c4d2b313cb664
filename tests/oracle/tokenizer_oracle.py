#!/usr/bin/env python3
"""Compares `glint tokenize` and `glint detokenize` with the `tokenizers` package, token for token and byte for byte.

    tokenizer_oracle.py build/release/glint [--strings 20000] [--every-point] [--only NAME]
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unicodedata

import oracle_venv

oracle_venv.enter("tokenizers==0.23.3")

import tokenizers  # noqa: E402
import tokenizer_files  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
RANGES = [(0x20, 0x7F), (0xA0, 0x180), (0x300, 0x370), (0x370, 0x500), (0x5D0, 0x700), (0x900, 0xE80), (0x1100, 0x1200),
          (0x1E00, 0x2070), (0x2070, 0x2C00), (0x3040, 0x3100), (0x4E00, 0x5200), (0xAC00, 0xAF00), (0xF900, 0xFB50),
          (0xFE00, 0x10000), (0x10300, 0x10A00), (0x11000, 0x11A00), (0x1D150, 0x1D800), (0x1F300, 0x1FA00),
          (0x20000, 0x20400), (0, 0x20), (0xE0000, 0xE0200), (0, 0x110000)]
ALONE = ("glm5-tiny",)             # compared on code points alone, on each with --every-point
IN_CONTEXT = ("qwen", "deepseek")  # on each in context, normalized and not
BLANKS = [" ", " ", "  ", "    ", "\n", "\r\n", "\n\n", "\t", "\u00a0", "\u3000", "\u2009", "\u0085", "\u180e", "\u200b", "\v"]
WORDS = (
    "the of and Hello WORLD don't I'LL we've it's they'RE 12 2024 3.14159 1,000,000 x = y + z; // == != "
    "<= -> def f(x): https://example.org/a?b=c na\u00efve caf\u00e9 Stra\u00dfe "
    "\u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3 \u041f\u0440\u0438\u0432\u0435\u0442 "
    "\u4f60\u597d\u4e16\u754c \u3053\u3093\u306b\u3061\u306f \uc548\ub155\ud558\uc138\uc694 "
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947 "
    "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea e\u0301 "
    "\u1e9b\u0323 '\u017f \u2019s K TokA toka tokB TokC TokF TokH TOKA2 <|im_start|> <think> <|user|> "
    "</s> <0x41> <extra_7> <|reserved_12|> \u2581 #x ab12 a\nb").split(" ")


class Texts:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def characters(self, count):
        low, high = self.random.choice(RANGES)
        points = (self.random.randrange(low, high) for _ in range(count))
        return "".join(chr(c) for c in points if not 0xD800 <= c < 0xE000)

    def one(self, added):
        parts = []
        for _ in range(self.random.choice([1, 2, 3, 5, 9, 20])):
            kind = self.random.random()
            if kind < 0.4:
                parts.append(self.random.choice(WORDS))
            elif kind < 0.65:
                parts.append(self.random.choice(BLANKS))
            elif kind < 0.9:
                parts.append(self.characters(self.random.choice([1, 2, 4, 8])))
            elif kind < 0.97 and added:
                parts.append(self.random.choice(added))
            else:
                parts.append(self.random.choice("a -\n\u0301'9") * self.random.choice([2, 3, 30, 80]))
        return "".join(parts)


POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# Without most of what behaves alike: unassigned and private ones, ideographs, syllables.
FEW_POINTS = [c for c in POINTS if c % 61 == 0 or unicodedata.category(chr(c)) not in ("Cn", "Co", "Lo")]


def in_context(points):
    """The code points between blanks and within letters, digits and marks: a hundred a text."""
    for at in range(0, len(points), 100):
        yield "".join(f"a{c}b {c} 1{c}\u0301{c}.{c}{c}\n" for c in map(chr, points[at:at + 100]))


def glint(program, command, file, lines, *options):
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    result = subprocess.run([program, command, file, "--jsonl", *options], input=text.encode(), stdout=subprocess.PIPE,
                            check=True)
    answers = [json.loads(line) for line in result.stdout.split(b"\n")[:-1]]
    assert len(answers) == len(lines), f"{len(lines)} lines were answered by {len(answers)}"
    return answers


def compare(what, inputs, ours, theirs):
    for given, got, expected in zip(inputs, ours, theirs, strict=True):
        if got != expected:
            sys.exit(f"FAILED {what}: {given!r}\n  glint      {got}\n  tokenizers {expected}")


def check(program, name, file, tokenizer, texts, strings, points):
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    inputs = [texts.one(added) for _ in range(strings)] + list(in_context(points if name in IN_CONTEXT else FEW_POINTS)) + [""]
    inputs += [before + token + after for token in added for before, after in (("", ""), ("a ", " b"), ("x", "1"))]
    if name in ALONE:
        inputs += map(chr, points)
    for special in (False, True):
        some = inputs if not special else inputs[:300]
        ours = glint(program, "tokenize", file, [{"text": t} for t in some], *["--add-special-tokens"] * special)
        theirs = [{"ids": e.ids} for e in tokenizer.encode_batch_fast(some, add_special_tokens=special)]
        compare(f"{name}: encode", some, ours, theirs)

    size = tokenizer.get_vocab_size()
    numbers = texts.random
    ids = [[numbers.randrange(size + 20) for _ in range(numbers.choice([0, 1, 2, 3, 10, 40]))] for _ in range(strings // 2)]
    ids += [answer["ids"] for answer in ours] + [[i] for i in range(0, size, 1 + size // 5000)]
    ids += [[2**31 - 1], [2**32 - 1, 0], [tokenizer.token_to_id(token) for token in added]]
    for skip in (False, True):
        ours = glint(program, "detokenize", file, [{"ids": i} for i in ids], *["--skip-special-tokens"] * skip)
        compare(f"{name}: decode", ids, ours, [{"text": t} for t in tokenizer.decode_batch(ids, skip_special_tokens=skip)])


def check_invalid_utf8(program, file, tokenizer, texts):
    numbers = texts.random
    pieces = [b"\xff", b"\xc3", b"\xe4\xbd", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"a", b" ",
              "\u00e9\U0001f600".encode(), b"\xbf\xbf"]
    inputs = [b"".join(numbers.choices(pieces, k=numbers.randrange(1, 7))) for _ in range(2000)]
    result = subprocess.run([program, "tokenize", file, "--", *inputs], stdout=subprocess.PIPE, check=True)
    ours = [[int(i) for i in line.split()] for line in result.stdout.split(b"\n")[:-1]]
    compare("invalid UTF-8", inputs, ours, [tokenizer.encode(i.decode(errors="replace")).ids for i in inputs])


def check_impossible_lines(program, file):
    for command, key, lines in (
            ("tokenize", "ids", ["", "{", "[]", "{}", '{"text": 1}', '{"text": null}', '{"text": "\\ud800"}', '{"text": "a"']),
            ("detokenize", "text", ["nul", "1", '{"ids": 1}', '{"ids": [1.5]}', '{"ids": [-1]}', '{"ids": ["1"]}'])):
        good = '{"ids": [65]}' if command == "detokenize" else '{"text": "A"}'
        given = "\n".join(f"{line}\n{good}" for line in lines)
        result = subprocess.run([program, command, file, "--jsonl"], input=given.encode(), stdout=subprocess.PIPE, check=True)
        answers = [json.loads(line) for line in result.stdout.splitlines()]
        assert len(answers) == 2 * len(lines), answers
        assert all(list(a) == ["error"] for a in answers[::2]) and all(key in a for a in answers[1::2]), answers


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("glint")
    parser.add_argument("--strings", type=int, default=10000, help="random strings for each tokenizer")
    parser.add_argument("--every-point", action="store_true", help="all code points, not just those that differ in kind: two minutes more")
    parser.add_argument("--only", help="name of one tokenizer")
    parser.add_argument("--keep", help="folder for the tokenizers")
    arguments = parser.parse_args()
    texts = Texts(1)
    tiny = ROOT / "models" / "glm5-tiny" / "tokenizer.json"
    corpus = [texts.one([]) for _ in range(4000)] + [(ROOT / "LICENSE").read_text()]
    made = {"glm5-tiny": tokenizers.Tokenizer.from_file(str(tiny)), **tokenizer_files.make(corpus)}
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, tokenizer in made.items():
            if arguments.only not in (None, name):
                continue
            file = str(pathlib.Path(arguments.keep or folder) / f"{name}.json")
            tokenizer.save(file)
            start = time.monotonic()
            check(arguments.glint, name, file, tokenizer, texts, arguments.strings, POINTS if arguments.every_point else FEW_POINTS)
            count += 1
            print(f"{name}: equal ({time.monotonic() - start:.1f} s)", flush=True)
    check_invalid_utf8(arguments.glint, str(tiny), made["glm5-tiny"], texts)
    check_impossible_lines(arguments.glint, str(tiny))
    print(f"{count * arguments.strings} random strings, {count} tokenizers: equal")


if __name__ == "__main__":
    main()
