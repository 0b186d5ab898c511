# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# report_check.py xml FILE…: are these well-formed XML, without references to other files?
# report_check.py rows JSON CSV EXPECTED: do both hold these figures, and no others? EXPECTED is a JSON
# list of rows.
import csv
import json
import sys
import xml.etree.ElementTree


def not_json(text):
    raise ValueError(f"{text} is not JSON")


def equal(expected, found):
    if isinstance(expected, str):
        return found == expected
    if isinstance(expected, bool):
        return found in (expected, "1" if expected else "0")
    if expected is None:
        return found is None or found == ""
    return found not in (None, "") and abs(float(found) - expected) <= 1e-8 * abs(expected)


if sys.argv[1] == "xml":
    for path in sys.argv[2:]:
        root = xml.etree.ElementTree.parse(path).getroot()
        for element in root.iter():
            tag = element.tag.split("}")[-1]
            assert tag not in ("script", "link", "img", "iframe", "object", "use", "image", "a"), tag
            for name, value in element.attrib.items():
                assert name not in ("href", "src") and not name.startswith("on"), name
                assert "nan" not in value and "inf" not in value.replace("info", ""), (path, value)
else:
    with open(sys.argv[2], encoding="utf-8") as file:
        whole = json.load(file, parse_constant=not_json)
    with open(sys.argv[3], encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    with open(sys.argv[4], encoding="utf-8") as file:
        expected = json.load(file)
    chosen = [line.pop("chosen") for line in lines]
    assert all(line.pop("source") == whole["source"] for line in lines), whole["source"]
    assert all(isinstance(text, str) for text in whole["warnings"]), whole["warnings"]
    sizes = [row["batch"] for row, mark in zip(expected, chosen) if mark == "1"]
    assert sizes == ([whole["chosen_batch"]] if whole["chosen_batch"] is not None else []), sizes
    for rows in (whole["rows"], lines):
        assert len(rows) == len(expected), len(rows)
        for row, wanted in zip(rows, expected):
            assert set(row) == set(wanted), set(row) ^ set(wanted)
            for name, value in wanted.items():
                assert equal(value, row[name]), (name, value, row[name])
print("good")
