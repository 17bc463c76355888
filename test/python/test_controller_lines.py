# SPDX-License-Identifier: Apache-2.0
"""`fanin controller`: orders from people; hostile lines, connections that come and go, orders and
time, of which no exception leaves a line.

FUZZ_LINES: how many lines (2,000); FUZZ_SEED: another seed.
"""

import asyncio
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import time

import pytest
from conftest import BUILD, NO_PLANNER
from controller_rig import DAEMONS, RANKS, Rig, Wrong, topology

from fanin.operate.controller import limits, lines, sockets
from fanin.operate.controller.model import Refused
from fanin.research import formats

LINES = min(int(os.environ.get("FUZZ_LINES", 2000)), 128_000)
SEED = int(os.environ.get("FUZZ_SEED", 1))
ORDERS = ["status", "status json", "plan json", "why j", "replan", "drain M1", "undrain M1",
          'load {"link":["A","M1"],"gbps":3}', "load {", "drain", "end x"]  # fmt: skip
ODD = [None, True, False, 0, -1, 1, 7, 2**31, 2**63, -(2**63) - 1, 10**400, 1.5, -0.0, 1e308, "",
       "A", "x" * 300, "\x00", "\ud800", "é" * 200, "10.0.0.1:7", "[::1]:7", [], {}, [[]],
       {"a": []}, [1] * 300, {"M1": 1e300}, "0-3,7", "\u001b[2J"]  # fmt: skip


@pytest.fixture(name="rig")
def make_rig():
    if NO_PLANNER:
        pytest.skip(NO_PLANNER)
    rig = Rig(BUILD).new()
    yield rig
    rig.close()


# ---- the way of a line ----

STEPS_MAX = 15


def functions(frame):
    """How many of the controller are under way there."""
    if frame is None:
        return 0
    file = pathlib.Path(frame.f_code.co_filename)
    is_ours = file.parent.name == "controller" and not frame.f_code.co_name.startswith("<")
    return is_ours + functions(frame.f_back)


async def way(peer, said):
    """How many functions are under way when the answer to a line is queued, and then when it is sent."""
    most = {"send": 0, "push": 0}

    def look(frame, event, _):
        if event == "call" and frame.f_code.co_name in most:
            name = frame.f_code.co_name
            most[name] = max(most[name], functions(frame))

    peer.far.sendall(json.dumps(said).encode() + b"\n")
    sys.setprofile(look)
    try:
        assert await asyncio.get_running_loop().sock_recv(peer.far, 1 << 20)
    finally:
        sys.setprofile(None)
    return most["send"] + most["push"]


def test_a_line_passes_few_functions_until_it_is_answered(rig, monkeypatch):
    """Those of its checks return before it is acted on, and do not count."""
    rig.daemons()
    rig.answer()
    monkeypatch.setattr(time, "monotonic", lambda: rig.c.now_s)

    async def new(receiver):
        near, far = socket.socketpair()
        far.setblocking(False)
        loop = asyncio.get_running_loop()
        _, peer = await loop.connect_accepted_socket(receiver.new_peer, near)
        peer.far = far
        return peer

    async def run():
        receiver = sockets.Sockets(rig.dispatch, [], lambda: None)
        hello = {
            "hello": "switch",
            "name": "A",
            "listen": rig.listen("A"),
            "shards": 1,
            "slots": 64,
        }
        join = {"join": {"job": "j", "rank": 0, "ranks": RANKS}}
        found = {
            "join": await way(await new(receiver), join),
            "nonsense": await way(await new(receiver), {"x": 1}),
        }
        rig.hang_up("A")
        found["hello"] = await way(await new(receiver), hello)
        receiver.shut()
        return found

    found = rig.run(run())
    print(found)
    assert all(0 < steps <= STEPS_MAX for steps in found.values()), found


# ---- orders ----


def test_status_says_what_is_there(rig):
    rig.work()
    status = rig.ask("status")
    assert "switch A: up" in status and "job j: 4 of 4 ranks, routes are there" in status
    why = rig.ask("why j")
    assert "all daemons are there" in why and "A, sums 2, 2 workers here" in why
    assert rig.ask("why k") == 'error: no job "k"'
    assert rig.ask("hello").startswith('error: "hello": expected status')
    shown = json.loads(rig.ask("status json"))
    assert len(shown["nodes"]) == 10 and shown["jobs"][0]["joined"] == 4
    assert shown["jobs"][0]["parts"][0]["server"] == "PS"
    assert shown["jobs"][0]["parts"][0]["moved"] == 4


def test_what_strangers_write_stays_one_line(rig):
    rig.daemons()
    rig.hello("S1\n2026-11-28T00:00:00.000Z S1 is gone\x1b[2J\x9b", conn="x")
    assert rig.refused("x", 'no node "S1?2026-11-28T00:00:00.000Z S1 is gone?[2J?"')
    asked = rig.take("A", "id")
    rig.say("A", {"error": asked["id"], "why": "\x1b]0;x\x07" + 150 * "é"})
    why = json.loads(rig.ask("status json"))["jobs"][0]["why"]
    assert "refuses route 1: ?]0;x?é" in why and len(why.encode()) <= limits.WHY_BYTES


def test_a_plan_can_be_taken_out_and_given_back(rig):
    rig.work()
    plan = json.loads(rig.ask("plan json"))
    rig.new(plan=plan)
    rig.work()
    assert "the plan that was given" in rig.ask("why j")
    plan["trees"][0]["server"] = "XX"
    with pytest.raises(Wrong, match=r'trees\[0\].server: no node "XX"'):
        rig.new(plan=plan)


def test_plans_that_do_not_fit_harm_nobody(rig):
    rig.work()
    route = rig.route
    tree = {"tree": 0, "job": "j", "server": "PT", "share": 1, "sums": []}
    for plan in ("", "7", "{}", '{"trees":[],"assignments":[]}',
                 json.dumps({"trees": [tree], "assignments": []}),
                 json.dumps({"trees": [{**tree, "job": "x"}], "assignments": []})):  # fmt: skip
        assert rig.ask("install " + plan).startswith("error: ")
    circle = json.loads(rig.ask("plan json"))
    walk = next(a for a in circle["assignments"] if a["worker"] == "W1")
    walk.update(at="PS", route=["W1", "A", "M1", "B", "M2", "A", "M1", "B", "PS"])
    assert "twice" in rig.ask("install " + json.dumps(circle))
    rig.wait(0.1)
    assert rig.route is route and rig.take(0, "move") is None


def test_jobs_come_and_go(rig):
    rig.work()
    number = rig.route.number
    job = {"name": "k", "workers": ["W1", "W3"], "servers": ["PS"]}
    assert rig.ask("admit " + json.dumps(job)) == "ok"
    rig.wait(0.02)
    rig.answer()
    assert "job k: 0 of 2 ranks, routes are there" in rig.ask("status")
    assert rig.route.number == number  # bound: it stays
    rig.open("k1")
    rig.say("k1", {"join": {"job": "k", "rank": 1, "ranks": 2}})
    assert rig.take("k1", "job")
    assert rig.ask("admit " + json.dumps(job)) == 'error: job "k" is there already'
    assert 'no node "X"' in rig.ask("admit " + json.dumps({**job, "name": "l", "servers": ["X"]}))
    assert rig.ask("admit nonsense").startswith("error: ")
    assert rig.ask("end k") == "ok" and rig.refused("k1", 'job "k" has ended')
    assert rig.ask("end k") == 'error: no job "k"'
    rig.wait(limits.LINGER_S + 0.1)
    rig.answer()
    assert len(rig.c.routes) == 1


def test_too_many_workers_are_refused(rig):
    network = topology()
    del network["jobs"]
    for number in range(300):
        network["nodes"].append({"name": f"V{number}", "kind": "worker"})
        network["links"].append({"a": f"V{number}", "b": "B", "gbps": 1})
    with pytest.raises(Wrong, match="has 304 workers: expected 2 to 256"):
        rig.new(network)


def test_replan_keeps_parts(rig):
    rig.work()
    cut = rig.job.parts[0].cut
    assert rig.ask("replan") == "ok"
    rig.wait(0.05)
    assert [part.cut for part in rig.job.parts] == [cut] and rig.job.life == 0
    assert "it was asked for" in rig.ask("why j")


def test_threads_must_be_the_same(rig):
    """Threads that do not fit each other are told of, and nobody is sent there."""
    for name in DAEMONS:
        rig.hello(name, shards=2 if name == "PS" else 1)
    rig.join(0)
    rig.wait(0.2)
    assert rig.answer("A") == 0 and "start all with the same --threads" in rig.ask("why j")
    assert rig.take(0, "job") is None


# ---- hostile lines ----


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


def test_no_exception_leaves_a_line(rig):
    r = random.Random(SEED)
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


@pytest.mark.parametrize("text, why", [(None, "No such file"), ("{", "line 1"), ("{}", "nodes")])
def test_a_topology_that_makes_no_sense_is_named(tmp_path, text, why):
    if NO_PLANNER:
        pytest.skip(NO_PLANNER)
    file = tmp_path / "t.json"
    if text is not None:
        file.write_text(text)
    command = [str(BUILD / "fanin"), "controller", "--listen", "127.0.0.1:0", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 2 and why in done.stderr
    assert done.stderr.startswith(f"fanin controller: {file}: ")


@pytest.mark.parametrize(
    "end, text",
    [
        ("exit 3", "the planner has ended with exit status 3"),
        ("kill -9 $$", "the planner was ended by SIGKILL"),
    ],
)
def test_how_a_planner_has_ended_is_said(rig, end, text):
    rig.work()
    rig.end()
    rig.c.planners._command = [
        "sh",
        "-c",
        f"read request; {end}",
    ]  # pylint: disable=protected-access
    rig.hang_up("M1")
    rig.wait(0.5)
    assert text in rig.ask("why j")


def test_the_planner_answers_requests_that_make_no_sense():
    if NO_PLANNER:
        pytest.skip(NO_PLANNER)
    good = {"topology": formats.read(topology()).to_json(), "options": {"slots": 64}}
    made = {**good, "algorithms": ["best"], "results": True}
    requests = [b"", b"x", b"[]", b"7", b"{}", b"\xff",
                *(json.dumps(r).encode() for r in (
                    {"topology": 7}, {"topology": []}, {**good, "plan": []}, {**good, "keep": 7},
                    {**good, "keep": {"trees": [{"tree": 0, "job": "j"}], "assignments": 7}},
                    {**good, "plan": {"trees": [], "assignments": []}, "options": {"slots": -5}},
                    {**good, "options": {"slots": True}}, {**good, "options": {"roundings": -1}},
                    {**good, "options": {"vertex": "sharp"}}, {**good, "options": {"seed": "x"}},
                    {**good, "options": {"algorithm": "magic"}}, {**made, "algorithms": []},
                    {**made, "algorithms": ["magic"]}, {**made, "algorithms": 7},
                    {**made, "algorithms": ["given"]}, {**made, "algorithms": ["atp"] * 17},
                    {**made, "from": 7}, {**made, "plan": {"trees": 7}},
                ))]  # fmt: skip
    command = [str(BUILD / "fanin"), "plan", "--serve"]
    lines_in = b"\n".join([*requests, json.dumps(made).encode()]) + b"\n"
    done = subprocess.run(command, input=lines_in, capture_output=True, timeout=600, check=True)
    *answers, last = map(json.loads, done.stdout.splitlines())
    assert len(answers) == len(requests) and all(
        set(a) == {"error", "of_plan"} for a in answers
    ), answers
    assert last["plans"][0]["jobs"][0]["name"] == "j"
