#!/usr/bin/env python3
"""Makes a wheel of an installed tree: the program and its libraries, and no Python module.

    make_wheel.py TREE VERSION OUT_DIR

TREE is what `cmake --install` made with the components program and libraries. pip puts bin/ and lib/glint/ of it into the
environment, where the program finds its libraries from its own place.
"""

import base64
import hashlib
import pathlib
import sys
import zipfile

TAG = "py3-none-manylinux_2_36_x86_64"  # the glibc of Debian 12


def add(wheel, record, name, content, mode=0o644):
    entry = zipfile.ZipInfo(name, date_time=(2026, 1, 1, 0, 0, 0))  # the same bytes give the same wheel
    entry.external_attr = (0o100000 | mode) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    wheel.writestr(entry, content)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record.append(f"{name},sha256={digest},{len(content)}")


def needed_libraries(folder):
    """Libraries under the names that programs ask for: a wheel holds no links, so a link stands for the file it points to."""
    files = sorted(folder.iterdir())
    linked = {file.resolve() for file in files if file.is_symlink()}
    return [file for file in files if file.is_symlink() or file.resolve() not in linked]


def main(tree, version, out_dir):
    tree, out_dir = pathlib.Path(tree), pathlib.Path(out_dir)
    info, data = f"glint-{version}.dist-info", f"glint-{version}.data"
    libraries = needed_libraries(tree / "lib/glint")
    if not libraries:
        sys.exit(f"{tree}/lib/glint is empty: install the component `libraries` too")
    out_dir.mkdir(parents=True, exist_ok=True)
    path = out_dir / f"glint-{version}-{TAG}.whl"
    unfinished = path.with_suffix(".part")
    record = []
    with zipfile.ZipFile(unfinished, "w") as wheel:
        add(wheel, record, f"{data}/scripts/glint", (tree / "bin/glint").read_bytes(), 0o755)
        for library in libraries:
            add(wheel, record, f"{data}/data/lib/glint/{library.name}", library.read_bytes())
        documents = tree / "share/doc/glint"
        add(wheel, record, f"{info}/LICENSE", (documents / "LICENSE").read_bytes())
        for licence in sorted(documents.glob("licences/*/*")):
            add(wheel, record, f"{info}/licenses/{licence.relative_to(documents / 'licences')}", licence.read_bytes())
        add(wheel, record, f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: glint\nVersion: {version}\nSummary: serves, quantises and measures GLM-5\n"
            f"License: Apache-2.0\n".encode())
        add(wheel, record, f"{info}/WHEEL",
            f"Wheel-Version: 1.0\nGenerator: glint\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode())
        record.append(f"{info}/RECORD,,")
        wheel.writestr(zipfile.ZipInfo(f"{info}/RECORD", date_time=(2026, 1, 1, 0, 0, 0)), "\n".join(record) + "\n")
    unfinished.rename(path)
    print(path)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
