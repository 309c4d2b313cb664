#!/usr/bin/env python3
"""Writes src/text/unicode_tables.cc: what normal forms and lower case need to know about characters.

The `tokenizers` package is the judge of what is in the tables: its normal forms are those of Unicode 9.0 and its lower
case is that of a later version. So each property is taken from Python's newer database if `tokenizers` shows it:

    python3 -m venv build/venv && build/venv/bin/pip install tokenizers
    build/venv/bin/python tools/make_unicode_tables.py > src/text/unicode_tables.cc
"""
import sys
import unicodedata

from tokenizers import normalizers

nfc, nfd = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str
lower = normalizers.Lowercase().normalize_str
HANGUL = range(0xAC00, 0xAC00 + 11172)  # composed by arithmetic
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and c not in HANGUL]


def combining_classes():
    """Runs of characters (first, last, class) of a combining class that is not 0."""
    runs = []
    for c in ALL:
        value = unicodedata.combining(chr(c))
        if value == 0:
            continue
        mark = nfd(chr(c))
        # Known to `tokenizers` if it is put in order with a mark of class 240 or, being of that class, of class 1.
        if (nfd(chr(c) + "\u0334") != "\u0334" + mark) if value == 240 else (nfd("\u0345" + mark) != mark + "\u0345"):
            continue
        if runs and runs[-1][1] == c - 1 and runs[-1][2] == value:
            runs[-1][1] = c
        else:
            runs.append([c, c, value])
    return runs


def decompositions():
    """(character, first, second or 0, whether the pair composes) of the canonical mappings, one step each."""
    rows = []
    for c in ALL:
        mapping = unicodedata.decomposition(chr(c))
        if not mapping or mapping.startswith("<") or nfd(chr(c)) == chr(c):
            continue
        parts = [int(part, 16) for part in mapping.split()]
        first, second = parts if len(parts) == 2 else (parts[0], 0)
        assert nfd(chr(c)) == nfd("".join(map(chr, parts)))
        rows.append((c, first, second, second != 0 and nfc("".join(map(chr, parts))) == chr(c)))
    return rows


def lower_cases():
    """Runs (first, last, step, distance) of characters whose lower case is one other character."""
    runs = []
    for c in ALL:
        text = lower(chr(c))
        if text == chr(c):
            continue
        if len(text) != 1:
            assert (c, text) == (0x130, "i\u0307")  # spelled out in unicode.cc
            continue
        distance = ord(text) - c
        if runs and runs[-1][3] == distance and c - runs[-1][1] in (1, 2):
            step = c - runs[-1][1]
            if runs[-1][0] == runs[-1][1] or runs[-1][2] == step:
                runs[-1][1:3] = [c, step]
                continue
        runs.append([c, c, 1, distance])
    return runs


def rows(items):
    line = "   "
    for item in items:
        if len(line) + 1 + len(item) > 116:
            yield line
            line = "   "
        line += " " + item
    yield line


def table(declaration, items):
    print(f"{declaration} = {{")
    print("\n".join(rows(items)))
    print("};\n")


def main():
    print("// Written by tools/make_unicode_tables.py: do not edit.\n#include \"text/unicode_tables.h\"\n\nnamespace glint {\n")
    print("// clang-format off")
    table("const CombiningRun kCombiningRuns[]",
          [f"{{0x{a:X},0x{b:X},{v}}}," for a, b, v in combining_classes()])
    decomposed = decompositions()
    table("const Decomposition kDecompositions[]",
          [f"{{0x{c:X},0x{a:X},{'0x%X' % b if b else 0}}}," for c, a, b, _ in decomposed])
    pairs = sorted((a, b, i) for i, (_, a, b, composes) in enumerate(decomposed) if composes)
    table("const std::uint16_t kCompositions[]", [f"{i}," for _, _, i in pairs])
    joining = sorted({b for _, _, b, composes in decomposed if composes and unicodedata.combining(chr(b)) == 0})
    table("const char32_t kJoining[]", [f"0x{c:X}," for c in joining])
    table("const LowerRun kLowerRuns[]",
          [f"{{0x{a:X},0x{b:X},{s},{d}}}," for a, b, s, d in lower_cases()])
    print("// clang-format on")
    for name in ("CombiningRuns", "Decompositions", "Compositions", "Joining", "LowerRuns"):
        print(f"const std::size_t kNum{name} = std::size(k{name});")
    print("\n}  // namespace glint")


if __name__ == "__main__":
    sys.exit(main())
