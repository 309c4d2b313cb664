#!/usr/bin/env python3
"""Checks that the #includes in src/ obey cmake/layers.txt.

A file of folder A may include headers of A and of the folders that A's line lists, and of those that they list, and
so on. A test (*_test.cc) of A may also include what the line "A tests: ..." lists. Every folder must be listed and
the relation must have no cycle.

    check_layers.py              check the tree this file stands in
    check_layers.py --self-test  check that violations are found
"""

import pathlib
import re
import sys
import tempfile

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
SOURCES = {".h", ".cc", ".cu", ".cuh", ".inc"}


def read_layers(path):
    """Returns ({folder: direct dependencies}, {folder: extra dependencies of its tests}, errors)."""
    layers, tests, errors = {}, {}, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        name, colon, deps = line.partition(":")
        name = name.strip()
        table = tests if name.endswith(" tests") else layers
        name = name.removesuffix(" tests")
        if not colon or name in table:
            errors.append(f"{path.name}:{number}: expected one line `folder: folders` for each folder")
        table[name] = deps.split()
    for name, deps in [*layers.items(), *tests.items()]:
        for dep in {name, *deps} - layers.keys():
            errors.append(f"{path.name}: {name} lists {dep}, which has no line of its own")
    return layers, tests, errors


def closure(layers, names, path=()):
    """All that `names` may use, themselves included. Raises ValueError on a cycle."""
    reached = set()
    for name in names:
        if name in path:
            raise ValueError(" -> ".join([*path[path.index(name):], name]))
        reached |= {name} | closure(layers, layers.get(name, []), (*path, name))
    return reached


def folder_of(path, layers):
    """The longest listed folder that `path` (relative to src/) lies in, or None."""
    parts = path.split("/")[:-1]
    for length in range(len(parts), 0, -1):
        if "/".join(parts[:length]) in layers:
            return "/".join(parts[:length])
    return None


def check(root):
    """Returns the violations in the tree at `root`, as sentences."""
    layers, tests, errors = read_layers(root / "cmake/layers.txt")
    if errors:
        return errors
    try:
        allowed = {name: closure(layers, [name]) for name in layers}
    except ValueError as cycle:
        return [f"layers.txt: cycle {cycle}"]
    src = root / "src"
    for path in sorted(p for p in src.rglob("*") if p.suffix in SOURCES):
        name = path.relative_to(src).as_posix()
        folder = folder_of(name, layers)
        if folder is None:
            errors.append(f"src/{name}: its folder is not in cmake/layers.txt")
            continue
        may_use = allowed[folder]
        if path.name.endswith("_test.cc"):
            may_use = may_use | closure(layers, tests.get(folder, []))
        for include in INCLUDE.findall(path.read_text(errors="replace")):
            used = folder_of(include, layers)
            if not (src / include).is_file():
                errors.append(f'src/{name}: includes "{include}", which is no file of src/')
            elif used not in may_use:
                errors.append(f'src/{name}: includes "{include}", but {folder} may not use {used} (cmake/layers.txt)')
    return errors


def self_test():
    def errors_of(layers, **files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "cmake").mkdir()
            (root / "cmake/layers.txt").write_text(layers)
            for name in ("base/b.h", "mid/m.h", "top/t.h", "top/sub/s.h"):
                files.setdefault(name, "")
            for name, text in files.items():
                path = root / "src" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check(root)

    layers = "base:\nmid: base\ntop: mid  # comment\ntop/sub: base\n"
    assert errors_of(layers) == []
    assert errors_of(layers, **{"top/x.cc": '#include "base/b.h"\n#include "mid/m.h"\n#include <vector>\n'}) == []
    cases = {
        "may not use mid": {"base/x.cc": '#include "mid/m.h"\n'},
        "may not use top": {"top/sub/x.h": '  #  include "top/t.h"\n'},
        "may not use top/sub": {"top/x.h": '#include "top/sub/s.h"\n'},
        "no file of src/": {"base/x.cc": '#include "b.h"\n'},
        "not in cmake/layers.txt": {"other/x.cc": ""},
    }
    for expected, files in cases.items():
        found = errors_of(layers, **files)
        assert len(found) == 1 and expected in found[0], (expected, found)
    test = {"base/x_test.cc": '#include "mid/m.h"\n'}
    assert "may not use mid" in errors_of(layers, **test)[0]
    assert errors_of(layers + "base tests: mid\n", **test) == []
    assert "may not use" in errors_of(layers + "base tests: mid\n", **{"base/x.cc": '#include "mid/m.h"\n'})[0]
    assert "cycle" in errors_of("base: top\nmid: base\ntop: mid\ntop/sub:\n")[0]
    assert "no line of its own" in errors_of("base: nothing\nmid:\ntop:\ntop/sub:\n")[0]
    assert "one line" in errors_of("base:\nbase:\nmid:\ntop:\ntop/sub:\n")[0]


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    errors = check(pathlib.Path(__file__).resolve().parent.parent)
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
