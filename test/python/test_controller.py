# SPDX-License-Identifier: Apache-2.0
"""`fanin controller` in virtual time: daemons, links and workers."""

import pytest
from conftest import BUILD, NO_PLANNER
from controller_rig import DAEMONS, RANKS, Rig, Wrong

from fanin.operate.controller import limits

pytestmark = pytest.mark.skipif(bool(NO_PLANNER), reason=NO_PLANNER)


@pytest.fixture(name="rig")
def make_rig():
    rig = Rig(BUILD).new()
    yield rig
    rig.close()


# ---- nodes ----


def test_who_is_not_in_the_topology_is_refused(rig):
    rig.hello("X")
    assert rig.refused("X", 'no node "X" in t.json')
    rig.hello("A", kind="server", conn="b")
    assert rig.refused("b", '"A" is a switch in t.json, and the daemon a server')
    rig.hello("W1")
    assert rig.refused("W1", "is a worker")
    rig.hello("A")
    rig.hello("A", started=2, conn="d")
    assert rig.refused("d", "is connected already")
    assert rig.c.nodes["A"].conn is rig.conns["A"]


@pytest.mark.parametrize(
    "line",
    [
        b"", b"x", b"[]", b"7", b"{}", b'{"hello":7}', b'{"hello":"switch","name":"A"}',
        b'{"hello":"switch","name":"A","listen":"nowhere","shards":1}',
        b'{"hello":"switch","name":"A","listen":"0.0.0.0:7","shards":1}',
        b'{"hello":"switch","name":"A","listen":"1.2.3.4:7","shards":0}',
        b'{"hello":"switch","name":"A","listen":"1.2.3.4:7","shards":1,"slots":-1}',
        b'{"hello":"switch","hello":"switch"}', b'{"join":7}', b'{"moved":{"part":0,"route":1}}',
        b"\xff", b'{"hello":NaN}', b"[" * 5000, b'{"join":{"job":"j","rank":1e400,"ranks":4}}',
    ],
)  # fmt: skip
def test_nonsense_is_refused(rig, line):
    rig.open("x")
    rig.say("x", line)
    assert rig.refused("x")
    assert all(node.state == "never" for node in rig.c.nodes.values() if node.is_daemon)


def test_who_says_nothing_is_sent_away(rig):
    rig.open("x")
    rig.wait(9.9)
    assert rig.conns["x"] not in rig.closed
    rig.wait(0.2)
    assert rig.refused("x", "neither")


def test_silent_is_gone(rig):
    rig.daemons()
    rig.wait(1.2, "M1")
    assert rig.c.nodes["M1"].state == "gone" and rig.conns["M1"] in rig.closed
    assert rig.c.nodes["A"].state == "up"
    assert rig.noted("switch M1 is gone: it is silent")


def test_silence_counts_while_the_controller_is_awake(rig):
    """Nobody is lost when a suspended machine goes on; who is silent after it is lost as ever."""
    rig.work()
    rig.hang_up("PS")  # which is waited for
    rig.hang_up(3)  # likewise
    rig.c.now_s += 12
    rig.dispatch.tick()  # before any line that daemons send as they wake
    assert all(rig.c.nodes[name].state == "up" for name in DAEMONS)
    assert not rig.closed
    assert rig.job.ranks[3].absent_s is not None and rig.job.life == 0
    rig.wait(limits.BACK_S)
    assert rig.c.nodes["PS"].state == "gone"
    rig.wait(limits.SILENT_S, "B")
    assert rig.c.nodes["B"].state == "gone" and rig.c.nodes["A"].state == "up"


def test_a_pause_is_not_silence(rig):
    rig.daemons()
    for _ in range(20):
        rig.wait(0.2, *DAEMONS)
        rig.c.now_s += 0.9
        rig.dispatch.tick()
        rig.wait(0)
    assert all(rig.c.nodes[name].state == "up" for name in DAEMONS)


def test_a_server_may_come_back(rig):
    """One whose line is cut and that comes back in time has lost nothing."""
    rig.work()
    rig.hang_up("PS")
    rig.wait(0.3)
    rig.hello("PS")
    rig.wait(2)
    assert rig.c.nodes["PS"].state == "up" and rig.job.life == 0


def test_a_server_that_is_stopped_has_gone(rig):
    rig.work()
    rig.say("PS", {"stopping": True})
    assert rig.c.nodes["PS"].state == "gone" and rig.conns["PS"] in rig.closed
    assert rig.job.life == 1 and rig.noted("server PS is gone: it is being stopped")
    rig.hello("PS", started=2)
    assert rig.c.nodes["PS"].state == "up"


def test_a_server_that_began_anew_has_lost_all(rig):
    rig.work()
    rig.hang_up("PS")
    rig.hello("PS", started=2)
    assert rig.c.nodes["PS"].state == "up" and rig.job.life == 1


def test_health_is_kept(rig):
    rig.daemons()
    rig.say("A", {"health": {"packets": 7, "hits": 5, "drops": -3, "passed": "x"}})
    health = rig.c.nodes["A"].health
    assert [health[key] for key in ("packets", "hits", "drops", "passed")] == [7, 5, 0, 0]
    rig.say("A", {"what": 1})
    assert rig.refused("A", "expected health, ok, error or stopping")
    assert rig.c.nodes["A"].state == "gone"


# ---- links ----


def hears_not(rig, name, *silent):
    number = rig.c.nodes[name].list_number
    rig.say(name, {"health": {"neighbours": number, "silent": list(silent)}})


def told(rig, name):
    """The names in the last list that it was told."""
    last = None
    while line := rig.take(name, "neighbours"):
        last = line["neighbours"]
    if last is None:
        return ""
    assert last["number"] == rig.c.nodes[name].list_number
    assert all(one["at"] == rig.listen(one["name"]) for one in last["of"])
    return ",".join(one["name"] for one in last["of"])


def test_daemons_are_told_whom_to_ask(rig):
    rig.daemons()
    assert [told(rig, name) for name in ("A", "B", "PS")] == ["M1,M2", "M1,M2,PS,PT", "B"]
    rig.wait(0)
    assert told(rig, "A") == ""  # nothing new
    rig.hang_up("M1")
    rig.wait(0)
    assert told(rig, "A") == "M2"
    rig.hello("M1", started=2)
    rig.wait(0)
    assert told(rig, "A") == "M1,M2" and told(rig, "M1") == "A,B"


def test_running_jobs_move_off_a_dead_link(rig):
    rig.work()
    old = rig.route
    assert rig.stops_at("M1")
    hears_not(rig, "A", "M1")
    rig.wait(0.1)
    assert rig.link("A", "M1").is_down and rig.c.nodes["M1"].state == "up"
    assert rig.noted("link A-M1 is down: A does not hear M1")
    assert rig.stops_at("M2") and not rig.stops_at("M1")
    assert "link A-M1: down for 0." in rig.ask("status") and "down for 0." in rig.ask("why j")
    assert old.state == "ready"  # its number means what it meant
    rig.answer()
    assert all(rig.take(rank, "move") for rank in range(RANKS))


def test_either_end_of_a_link_counts(rig):
    rig.work()
    hears_not(rig, "M1", "A")
    rig.wait(0)
    assert rig.link("A", "M1").is_down and not rig.link("M1", "B").is_down
    hears_not(rig, "A")
    rig.wait(0)
    assert rig.link("A", "M1").heard_s is None


def test_a_link_comes_back_after_a_hold_and_jobs_stay(rig):
    rig.work()
    hears_not(rig, "A", "M1")
    rig.wait(0.1)
    there = rig.route
    hears_not(rig, "A")
    rig.wait(limits.HOLD_S - 0.1)
    assert rig.link("A", "M1").is_down
    rig.wait(0.2)
    assert not rig.link("A", "M1").is_down and rig.noted("link A-M1 is back after 2.")
    rig.wait(0.5)
    assert rig.route is there
    assert rig.ask("replan") == "ok"
    rig.wait(0.1)
    assert rig.stops_at("M1")


def test_the_hold_is_of_hearing_without_a_break(rig):
    rig.work()
    hears_not(rig, "A", "M1")
    rig.wait(0)
    for _ in range(5):
        hears_not(rig, "A")
        rig.wait(limits.HOLD_S - 0.2)
        hears_not(rig, "M1", "A")
        rig.wait(0)
        hears_not(rig, "M1")
    assert rig.link("A", "M1").is_down and rig.link("A", "M1").flaps == 1


def test_the_hold_doubles_up_to_a_bound_and_is_forgotten(rig):
    rig.work()
    link = rig.link("A", "M1")

    def until_back_s():
        hears_not(rig, "A", "M1")
        rig.wait(0)
        assert link.is_down
        hears_not(rig, "A")
        since_s = rig.c.now_s
        while link.is_down:
            rig.wait(0)
        return rig.c.now_s - since_s

    for i in range(7):
        want = min(limits.HOLD_S * 2**i, limits.HOLD_MAX_S)
        assert want <= until_back_s() <= want + 0.05
    rig.wait(limits.CALM_S + 0.1)
    assert until_back_s() <= limits.HOLD_S + 0.05


def test_a_flapping_link_moves_a_job_once(rig):
    rig.work()
    hears_not(rig, "A", "M1")
    rig.wait(0.1)
    number = rig.route.number
    for _ in range(10):
        hears_not(rig, "A")
        rig.wait(1)
        hears_not(rig, "A", "M1")
        rig.wait(1)
    assert rig.route.number == number


def test_a_node_that_goes_takes_the_blame(rig):
    """Its neighbours saw it first: when it is back, its links are, too."""
    rig.work()
    ends = [rig.link("A", "M1"), rig.link("M1", "B")]
    hears_not(rig, "A", "M1")
    hears_not(rig, "B", "M1")
    rig.wait(0)
    assert all(link.is_down for link in ends)
    rig.hang_up("M1")
    rig.wait(0)
    assert not any(link.is_down or link.flaps for link in ends)
    hears_not(rig, "A", "M1")  # of a list in which it is not
    rig.wait(0)
    rig.hello("M1", started=2)
    rig.wait(0)
    assert not any(link.is_down for link in ends)


def test_reports_of_earlier_lists_do_not_count(rig):
    rig.work()
    old = rig.c.nodes["A"].list_number
    rig.hang_up("M2")
    rig.wait(0)
    assert rig.c.nodes["A"].list_number != old
    rig.say("A", {"health": {"neighbours": old, "silent": ["M1"]}})
    rig.say("A", {"health": {"silent": ["M1"]}})
    rig.wait(0)
    assert not rig.link("A", "M1").is_down


@pytest.mark.parametrize("silent", [7, None, "A", {"M1": 1}, [["M1"]], ["A", "W1", "nobody", ""]])
def test_nonsense_in_reports_harms_nobody(rig, silent):
    rig.work()
    rig.say("A", {"health": {"neighbours": rig.c.nodes["A"].list_number, "silent": silent}})
    rig.say("A", {"health": {"neighbours": "x", "silent": silent}})
    rig.wait(0)
    assert not any(link.is_down for link in rig.c.links) and rig.c.nodes["A"].state == "up"


def test_without_another_path_jobs_wait(rig):
    """PS is on B alone: what the job has stays, and works once the link does."""
    rig.work()
    route = rig.route
    hears_not(rig, "PS", "B")
    rig.wait(0.1)
    assert rig.link("PS", "B").is_down
    assert "not planned, since link PS-B is down" in rig.ask("why j")
    assert rig.route is route and route.state == "ready"
    hears_not(rig, "PS")
    rig.wait(limits.HOLD_S + 0.3)
    assert "came back" in rig.ask("why j") and rig.route is route


# ---- jobs ----


def test_workers_are_told_when_all_switches_have_the_route(rig):
    rig.daemons()
    rig.join(0)
    assert rig.take(0, "job") is None
    assert rig.answer("A") == 1 and rig.answer("M1") == 1
    assert rig.take(0, "job") is None
    assert rig.answer("B") == 1
    part = rig.take(0, "job")["job"]["parts"][0]
    assert (part["name"], part["at"], part["aggregator"], part["route"], part["cut"]) == (
        "j/0", rig.listen("A"), rig.listen("PS"), rig.route.number, [0, 1 << 32])  # fmt: skip


def test_bad_joins_are_refused_and_harm_nobody(rig):
    rig.work()
    for join, why in [
        ({"job": "k", "rank": 0, "ranks": 4}, 'no job "k"'),
        ({"job": "j", "rank": 4, "ranks": 4}, "expected a rank from 0 to 3"),
        ({"job": "j", "rank": -1, "ranks": 4}, "expected a rank"),
        ({"job": "j", "rank": 0, "ranks": 5}, "has 4 workers in t.json, not 5"),
        ({"job": "j", "rank": "0", "ranks": 4}, "expected job, rank and ranks"),
        ({"job": "j", "rank": 0, "ranks": 4}, "is connected from another host"),
    ]:
        rig.open("x")
        rig.say("x", {"join": join})
        assert rig.refused("x", why)
    rig.say(0, {"join": {"job": "j", "rank": 0, "ranks": 4}})
    assert rig.refused(0, "a second join")
    rig.say(1, {"moved": {"part": 99, "route": 1}})
    rig.say(1, {"moved": {"part": 0, "route": 777}})
    assert rig.job.ranks[1].conn is rig.conns[1] and rig.job.ranks[0].conn is None
    assert rig.route.state == "ready" and len(rig.c.routes) == 1


def test_a_job_moves_off_a_switch_that_is_gone(rig):
    rig.work()
    old = rig.route
    assert rig.stops_at("M1")
    rig.hang_up("M1")
    rig.wait(0.05)
    now = rig.route
    assert now.number != old.number and rig.stops_at("M2") and not rig.stops_at("M1")
    assert rig.take(0, "move") is None  # switches first
    rig.answer()
    rig.moves(0, 1, 2)
    rig.wait(0.01)
    assert old.state == "ready"  # rank 3 goes by it
    rig.moves(3)
    assert old.state == "leaving"
    rig.wait(0.01)
    rig.answer()
    assert list(rig.c.routes.values()) == [now] and rig.job.life == 0


def test_a_third_plan_meanwhile(rig):
    """One more switch goes before all have moved: what nobody was told of is dropped at once."""
    rig.work()
    rig.hang_up("M1")
    rig.wait(0.05)
    rig.hello("M1", started=2)
    rig.hang_up("M2")  # before anybody answered
    rig.wait(0.05)
    assert rig.stops_at("M1")
    rig.answer()
    rig.moves(*range(RANKS))
    rig.wait(0.02)
    rig.answer()
    assert len(rig.c.routes) == 1


def test_a_rack_that_comes_back_has_its_entries_again(rig):
    """What nobody can go round is waited for, and has its entries at once, by the same number."""
    rig.work()
    route = rig.route
    rig.hang_up("A")
    rig.wait(0.3)
    assert rig.route is route and "not planned" in rig.ask("why j")
    rig.hello("A", started=2)
    asked = rig.take("A", "install")
    assert asked["install"]["route"] == route.number
    rig.say("A", {"ok": asked["id"]})
    rig.wait(0.3)
    rig.answer()
    assert rig.route is route and route.is_there and rig.take(0, "move") is None


def test_a_job_begins_again_when_its_aggregator_is_lost(rig):
    rig.work()
    rig.hang_up("PS")
    rig.wait(1.1)
    assert rig.c.nodes["PS"].state == "gone" and rig.job.life == 1
    assert rig.take(0, "again") is None  # no other server may be its aggregator
    rig.hello("PS", started=2)
    rig.wait(0.2)
    rig.answer()
    assert rig.take(0, "again")["again"]["parts"][0]["name"] == "j/0~1"
    rig.hang_up(0)  # the rank's next communicator
    rig.join(0)
    assert rig.take(0, "job")


def test_a_worker_that_was_away_is_told_what_it_missed(rig):
    rig.work()
    number = rig.route.number
    rig.hang_up(2)
    rig.hang_up("M1")
    rig.wait(0.05)
    rig.answer()
    rig.moves(0, 1, 3)
    rig.wait(0.5)
    rig.answer()
    assert len(rig.c.routes) == 2  # it may still go by the old one
    rig.join(2, routes=[number])
    rig.moves(2)
    rig.wait(0.05)
    rig.answer()
    assert len(rig.c.routes) == 1


def test_a_worker_that_stays_away_is_not_waited_for(rig):
    rig.work()
    rig.hang_up(2)
    rig.hang_up("M1")
    rig.wait(0.05)
    rig.answer()
    rig.moves(0, 1, 3)
    rig.wait(limits.ABSENT_S + 0.1)
    rig.answer()
    assert len(rig.c.routes) == 1


def test_routes_of_an_earlier_controller(rig):
    """Those that a worker goes by are left alone, others are not."""
    rig.hello("A", numbers=[1, 2, 9])
    rig.join(0, routes=[9])
    rig.wait(31)
    assert len(rig.c.nodes["A"].strays) == 3 and rig.take("A", "remove") is None
    assert rig.conns[0] not in rig.closed
    rig.hang_up("A")
    rig.hang_up(0)
    rig.hello("A", numbers=[1, 2, 9])
    rig.wait(1)
    rig.c.now_s += 40  # nobody is awake: workers can still come for them
    rig.wait(20)
    assert len(rig.c.nodes["A"].strays) == 3
    rig.wait(11)
    assert not rig.c.nodes["A"].strays and rig.take("A", "remove")


def test_a_job_goes_on_under_the_next_controller(rig):
    rig.work()
    rig.hang_up("M1")  # so that its paths are not what would be planned first
    rig.wait(0.05)
    rig.answer()
    rig.moves(*range(RANKS))
    number = rig.route.number
    rig.restart()
    rig.join(0, routes=[number])  # before any daemon
    for name in DAEMONS:
        rig.hello(name, numbers=[number] if name in ("A", "M2", "B") else [])
    rig.wait(0.2)
    rig.answer()
    for rank in range(1, RANKS):
        rig.join(rank, routes=[number])
    rig.wait(0.05)
    assert rig.route.number == number and rig.stops_at("M2")
    assert not any(rig.take(rank, "job") or rig.conns[rank] in rig.closed for rank in range(RANKS))
    rig.hang_up("M2")
    rig.wait(0.05)
    rig.answer()
    assert rig.route.number != number and rig.job.life == 0
    rig.moves(*range(RANKS))


def test_a_restored_job_is_not_for_ever(rig):
    """Once all ranks have stayed away, parts may be cut anew: a rank that comes back later with
    routes of the earlier controller is not taken for one of these parts."""
    rig.work()
    number = rig.route.number
    rig.restart()
    assert rig.job.state == "restored"
    rig.daemons()
    rig.answer()
    rig.wait(limits.ABSENT_S)
    assert rig.job.state == "free"
    rig.answer()
    rig.join(0)
    assert rig.job.state == "bound"
    rig.join(1, routes=[number + 7])
    assert rig.noted("rank 1 goes by routes of an earlier controller")
    assert rig.take(1, "move") is None


@pytest.mark.parametrize(
    "state",
    [
        {}, {"last": -1, "jobs": []}, {"last": 1, "jobs": [{"name": "j", "bound": True}]}, [], 7,
        {"last": 1, "jobs": [{"name": "j", "bound": True, "trees": [], "assignments": [],
                              "routes": [70000]}]},
        {"last": 1, "jobs": [{"name": "j", "bound": True, "trees": [{}], "assignments": [],
                              "routes": [7]}]},
    ],
)  # fmt: skip
def test_a_state_that_makes_no_sense_is_refused(rig, state):
    with pytest.raises(Wrong):
        rig.new(state=state)


def test_a_switch_that_refuses(rig):
    """Another number is tried, a few times, and then it is told why."""
    rig.daemons()
    rig.join(0)
    for _ in range(20):
        while asked := rig.take("A", "id"):
            no = {"error": asked["id"], "why": "no room"}
            rig.say("A", no if "install" in asked else {"ok": asked["id"]})
        rig.answer("M1", "B")
        rig.wait(0.15)
    assert rig.take(0, "job") is None and "A refuses route" in rig.ask("why j")
    assert 2 <= rig.job.refusals <= limits.REFUSALS_MAX + 1 and len(rig.c.routes) < 3
