# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# snapshot_check.py SNAPSHOT LIVE OPERATIONS SOURCE: is this the dictionary that the viewer at
# pytorch.org/memory_viz reads, and does it hold what the test did? LIVE lists "address bytes".
import pickle
import sys

with open(sys.argv[1], "rb") as file:
    snapshot = pickle.load(file)
with open(sys.argv[2]) as file:
    expected = {int(a): int(b) for a, b in (line.split() for line in file)}

assert set(snapshot) == {"segments", "device_traces"}, set(snapshot)
assert len(snapshot["device_traces"]) == 1
events = snapshot["device_traces"][0]

live, operations, requested, last_us = {}, 0, None, 0
for event in events:
    action, address, size = event["action"], event["addr"], event["size"]
    assert event["stream"] in (0, 1)
    assert event["time_us"] >= last_us - 1000000  # the wall clock may be set back a little
    last_us = event["time_us"]
    (frame,) = event["frames"]
    assert frame["filename"].endswith(sys.argv[4]) and frame["line"] > 0
    if action == "alloc":
        assert address not in live and frame["name"] == "allocate"
        live[address] = size
        operations += 1
    elif action == "free_requested":
        assert live[address] == size and frame["name"] == "deallocate"
        requested = address
    else:
        assert action == "free_completed" and requested == address
        assert live.pop(address) == size
        operations += 1
assert operations == int(sys.argv[3]), operations
assert live == expected

shown, end_before = {}, 0
for segment in snapshot["segments"]:
    at = segment["address"]
    assert segment["device"] == 0 and at >= end_before
    assert segment["segment_pool_id"] == (0, 0) and segment["is_expandable"] is False
    in_use = 0
    for block in segment["blocks"]:
        assert block["address"] == at
        at += block["size"]
        if block["state"] == "active_allocated":
            shown[block["address"]] = block["requested_size"]
            in_use += block["requested_size"]
        else:
            assert block["state"] == "inactive"
    assert at == segment["address"] + segment["total_size"]
    assert in_use == segment["allocated_size"] == segment["active_size"]
    end_before = at
assert shown == expected
print("good")
