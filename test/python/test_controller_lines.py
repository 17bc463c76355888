# SPDX-License-Identifier: Apache-2.0
"""Hostile lines, connections that come and go, orders and time: no exception leaves a line.

FUZZ_LINES: how many lines (2,000); FUZZ_SEED: another seed.
"""

import json
import os
import random

import pytest
from conftest import BUILD
from controller_rig import DAEMONS, RANKS, Rig

from fanin.operate.controller import lines
from fanin.operate.controller.model import Refused

LINES = min(int(os.environ.get("FUZZ_LINES", 2000)), 128_000)
SEED = int(os.environ.get("FUZZ_SEED", 1))
ORDERS = ["status", "status json", "plan json", "why j", "replan", "drain M1", "undrain M1",
          'load {"link":["A","M1"],"gbps":3}', "load {", "drain", "end x"]  # fmt: skip
ODD = [None, True, False, 0, -1, 1, 7, 2**31, 2**63, -(2**63) - 1, 10**400, 1.5, -0.0, 1e308, "",
       "A", "x" * 300, "\x00", "\ud800", "é" * 200, "10.0.0.1:7", "[::1]:7", [], {}, [[]],
       {"a": []}, [1] * 300, {"M1": 1e300}, "0-3,7", "\u001b[2J"]  # fmt: skip


def messages(rig):
    """Good lines, which are bent."""
    numbers = [rig.c.nodes["A"].list_number, *(r for r in list(rig.c.routes)[:3])]
    asked = [json.loads(line).get("id", 0) for c in rig.conns.values() for line in c.out[:2]]
    return [
        {"hello": "switch", "name": "A", "listen": "10.0.0.1:7", "shards": 1, "slots": 64,
         "started": 1, "routes": numbers},
        {"hello": "server", "name": "PS", "listen": "10.0.0.9:7", "shards": 1, "slots": 64,
         "started": 2, "above": {"at": "10.0.0.1:7", "index": 0, "siblings": 2}, "routes": []},
        {"join": {"job": "j", "rank": 0, "ranks": RANKS, "routes": numbers, "launch": "2a"}},
        {"moved": {"part": 0, "route": numbers[-1]}},
        {"health": {"packets": 1, "hits": 1, "passed": 0, "collisions": 0, "results": 0, "drops": 0,
                    "neighbours": numbers[0], "silent": ["M1"], "others": {"M1": 3.5}}},
        {"ok": asked[0] if asked else 7}, {"error": asked[-1] if asked else 7, "why": "no"},
        {"stopping": True},
    ]  # fmt: skip


def bend(r, value):
    """Another value in some place of it."""
    if isinstance(value, dict) and value and r.random() < 0.7:
        key = r.choice(list(value))
        bent = dict(value)
        if r.random() < 0.1:
            del bent[key]
        else:
            bent[key] = bend(r, bent[key])
        return bent
    if isinstance(value, list) and value and r.random() < 0.5:
        return [bend(r, one) if r.random() < 0.3 else one for one in value]
    return r.choice(ODD)


def hostile(r, rig):
    """A line: a good one, a bent one, or one that is no JSON."""
    value = r.choice(messages(rig))
    if r.random() < 0.75:
        value = bend(r, value)
    text = json.dumps(value).encode()
    if r.random() < 0.15:
        at = r.randrange(len(text) + 1)
        junk = bytes(r.randrange(256) for _ in range(r.randrange(4)))
        text = text[:at] + junk + text[at + r.randrange(3) :]
    return text.replace(b"\n", b" ")


def check(rig):
    """What goes out is JSON in a line, events are lines, and the status has all nodes."""
    for conn in rig.conns.values():
        for line in conn.out:
            assert isinstance(json.loads(line), dict) and "\n" not in line
        del conn.out[:-2]
    assert all(event.isprintable() for event in rig.events)
    rig.events.clear()
    assert len(rig.c.routes) <= 4096 and sum(rig.c.hosts.values()) <= len(rig.conns)


@pytest.mark.skipif(not (BUILD / "fanin-planner").exists(), reason="no fanin-planner")
def test_no_exception_leaves_a_line():
    r = random.Random(SEED)
    rig = Rig(BUILD).new()
    rig.work()
    places = [*DAEMONS, *range(RANKS), "x", "y"]
    try:
        for number in range(LINES):
            place = r.choice(places)
            if place not in rig.conns or not rig.conns[place].is_open or r.random() < 0.02:
                if place in rig.conns and rig.conns[place].is_open:
                    rig.hang_up(place)
                rig.open(place)
            rig.say(place, hostile(r, rig))
            if r.random() < 0.1:
                rig.answer()
            if r.random() < 0.02:
                rig.wait(r.choice([0, 0.1, 0.5]))
            if r.random() < 0.02:
                rig.ask(r.choice(ORDERS))
            if number % 50 == 0:
                check(rig)
        assert len(json.loads(rig.ask("status json"))["nodes"]) == 10
    except BaseException:
        print(f"FUZZ_SEED={SEED}, line {number}")
        raise
    finally:
        rig.close()


def test_every_field_of_a_message_has_a_bound():
    """Whatever stands in its place, it is refused or of the type that it has."""
    fields = {"packets": int, "neighbours": int, "silent": list, "others": dict}
    for key, kind in fields.items():
        for odd in ODD:
            said = json.dumps({"health": {key: odd}}).encode()
            try:
                _, found = lines.decode(said, lines.NODE, "unknown")
            except Refused:
                continue
            assert isinstance(found["health"][key], kind)
