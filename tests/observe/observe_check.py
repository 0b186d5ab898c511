# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""Strict readers: observe_check.py events FILE and csv FILE write "tag|step|value as hex" a line;
observe_check.py page FILE fails for what is not Prometheus's text format."""
import csv
import re
import struct
import sys


def crc(data):
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    value ^= 0xFFFFFFFF
    return (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def fields(data):
    """The fields of a protobuf message, by number."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    found = {}
    while at < len(data):
        key = varint()
        wire = key & 7
        if wire == 0:
            found[key >> 3] = varint()
        else:
            size = {1: 8, 5: 4}[wire] if wire != 2 else varint()
            found[key >> 3] = data[at:at + size]
            at += size
    assert at == len(data)
    return found


def events(data):
    at = number = 0
    while at < len(data):
        size, head_crc = struct.unpack_from("<QI", data, at)
        assert head_crc == crc(data[at:at + 8])
        record = data[at + 12:at + 12 + size]
        assert struct.unpack_from("<I", data, at + 12 + size)[0] == crc(record)
        at += size + 16
        event = fields(record)
        assert 1.6e9 < struct.unpack("<d", event[1])[0] < 1e10
        if number == 0:
            assert event[3] == b"brain.Event:2"
        else:
            value = fields(fields(event[5])[1])
            step = event.get(2, 0)
            print(f"{value[1].decode()}|{step - (step >> 63 << 64)}|{value[2].hex()}")
        number += 1


def page(data):
    name = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
    label = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
    number = r"(?:NaN|[+-]Inf|-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)"
    sample = re.compile(rf"({name})(?:\{{({label}(?:,{label})*)\}})? ({number})")
    family, closed, seen = None, set(), set()
    for line in data.decode("utf-8").split("\n")[:-1]:
        if line.startswith("# "):
            _, word, of = line.split(" ", 3)[:3]
            assert word in ("HELP", "TYPE") and re.fullmatch(name, of), line
            assert not re.search(r"(?<!\\)(?:\\\\)*\\(?![\\n])", line), line
            if of != family:
                assert of not in closed, line
                closed.add(family)
                family = of
        else:
            found = sample.fullmatch(line)
            assert found and re.sub("_(bucket|sum|count)$", "", found[1]) in (
                family, re.sub("_(bucket|sum|count)$", "", family)), line
            assert (found[1], found[2]) not in seen, line
            seen.add((found[1], found[2]))
    print(len(seen))


with open(sys.argv[2], "rb") as file:
    content = file.read()
if sys.argv[1] == "csv":
    for row in csv.DictReader(content.decode("utf-8").splitlines()):
        assert 1.6e9 < float(row["wall_time"]) < 1e10
        print(f"{row['tag']}|{row['step']}|{struct.pack('<d', float(row['value'])).hex()}")
else:
    {"events": events, "page": page}[sys.argv[1]](content)
