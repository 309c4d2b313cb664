"""TensorBoard's event files, read without TensorBoard: records of TensorFlow's framing, and as much of protocol buffers as scalars need."""

import pathlib
import struct


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        length, check = struct.unpack("<QI", data[:12])
        assert check == masked(data[:8]), "checksum of a length"
        body = data[12:12 + length]
        assert struct.unpack("<I", data[12 + length:16 + length])[0] == masked(body), "checksum of a record"
        yield body
        data = data[16 + length:]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        else:
            size, form = {1: (8, "<d"), 5: (4, "<f")}[kind]
            value, at = struct.unpack(form, data[at:at + size])[0], at + size
        yield key >> 3, value


def scalars(folder):
    """{name: {step: value}} of all files of `folder`, with what a restart makes void left out."""
    found = {}
    for path in sorted(pathlib.Path(folder).glob("*tfevents*")):
        events = [dict(fields(record)) for record in records(path.read_bytes())]
        assert events[0][3] == b"brain.Event:2", events[0]
        for event in events:
            step = event.get(2, 0)
            if 7 in event:  # a session log: START
                for steps in found.values():
                    for later in [s for s in steps if s >= step]:
                        del steps[later]
            for _, value in fields(event.get(5, b"")):
                value = dict(fields(value))
                found.setdefault(value[1].decode(), {})[step] = value[2]
    return found
