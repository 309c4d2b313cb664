#!/usr/bin/env python3
"""tests/gpu_check/compare_gradients.py A B LIMIT: two files of `glint train gradients`; fails where the difference is more
than LIMIT of the norm of all of A. Standard library only."""
import array
import json
import math
import struct
import sys


def tensors(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    for name, tensor in sorted(header.items()):
        if name != "__metadata__":
            begin, end = tensor["data_offsets"]
            yield name, array.array("f", data[8 + size + begin:8 + size + end])


def main():
    first, second, limit = sys.argv[1], sys.argv[2], float(sys.argv[3])
    total = difference = 0.0
    worst = (0.0, "")
    count = 0
    for (name, a), (other, b) in zip(tensors(first), tensors(second), strict=True):
        assert name == other and len(a) == len(b), (name, other)
        norm = sum(x * x for x in a)
        off = sum((x - y) ** 2 for x, y in zip(a, b))
        worst = max(worst, (math.sqrt(off / norm) if norm else math.sqrt(off), name))
        total, difference, count = total + norm, difference + off, count + len(a)
    error = math.sqrt(difference / total)
    print(f"{count} numbers: relative difference {error:.3g}; of one tensor at most {worst[0]:.3g} ({worst[1]})")
    sys.exit(not error <= limit)


main()
