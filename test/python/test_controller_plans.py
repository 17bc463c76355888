# SPDX-License-Identifier: Apache-2.0
"""`fanin controller` in virtual time: load, drains, plans that are overtaken, groups."""

import json
import os
import signal

import pytest
from conftest import BUILD, NO_PLANNER, ROOT
from controller_rig import RANKS, Rig, links, node, topology

from fanin.operate.controller import limits, load
from fanin.operate.controller.core import LOOK, MEND, SEARCH

pytestmark = pytest.mark.skipif(bool(NO_PLANNER), reason=NO_PLANNER)


@pytest.fixture(name="rig")
def make_rig():
    rig = Rig(BUILD).new()
    yield rig
    rig.close()


def say_load(rig, gbps, *ends):
    what = {"link": ends} if len(ends) == 2 else {"node": ends[0]}
    assert rig.ask("load " + json.dumps({**what, "gbps": gbps})) == "ok"


# ---- load ----


def test_paths_move_where_it_is_worth_it(rig):
    rig.work()
    first, gbps = rig.route, rig.job.gbps
    assert rig.stops_at("M1")
    say_load(rig, 1, "M1", "A")
    rig.wait(0.1)
    assert rig.route is first  # nothing is gained by moving
    say_load(rig, 19, "M1", "A")
    rig.wait(limits.LOOK_S + 0.1)
    assert rig.stops_at("M2") and not rig.stops_at("M1")
    assert 1 < rig.job.gbps < gbps and "load on link M1-A is 19 Gb/s" in rig.ask("why j")
    assert "link A-M1: others use 19 Gb/s" in rig.ask("status")
    assert first.state == "ready"  # until all ranks have moved
    say_load(rig, 0, "A", "M1")
    rig.wait(limits.LOOK_S + 0.1)
    assert rig.stops_at("M1") and not load.saved(rig.c)


def test_ranks_are_told_their_new_rate(rig):
    """They stay where they are, and are to send less, so that queues do not grow."""
    rig.work()
    first, gbps = rig.route, rig.job.parts[0].gbps
    say_load(rig, 2.5, "A")
    rig.wait(0.1)
    assert rig.route is first
    for rank in range(RANKS):
        move = rig.take(rank, "move")["move"]
        assert move["route"] == first.number and 0 < move["gbps"] < 0.99 * gbps
        rig.say(rank, {"moved": {"part": 0, "route": first.number}})
    rig.wait(0.1)
    assert rig.ask("replan") == "ok"
    rig.wait(0.1)
    assert rig.route is first and rig.take(0, "move") is None  # nothing is new


def test_a_given_plan_stays(rig):
    rig.work()
    rig.new(plan=json.loads(rig.ask("plan json")))
    rig.work()
    say_load(rig, 19, "A", "M1")
    rig.wait(limits.LOOK_S + 0.1)
    assert rig.stops_at("M1")
    assert rig.ask("replan") == "ok"
    rig.wait(0.1)
    assert rig.stops_at("M2")


def test_paths_are_not_looked_at_all_the_time(rig):
    rig.work()
    say_load(rig, 1, "A")
    rig.wait(0.05)
    plans = rig.c.plans
    for i in range(20):
        say_load(rig, 2 + i % 5, "A")
        rig.wait(0.1)
    assert rig.c.plans == plans
    rig.wait(limits.LOOK_S)
    assert rig.c.plans == plans + 1
    say_load(rig, 6, "A")  # as it is: no news
    rig.wait(2 * limits.LOOK_S)
    assert rig.c.plans == plans + 1


def test_failures_do_not_wait_for_it(rig):
    """Something goes while looking is not due: it is mended at once, and looked at later."""
    rig.work()
    say_load(rig, 1, "A")
    rig.wait(0.05)
    say_load(rig, 2, "A")
    plans = rig.c.plans
    rig.hang_up("M1")
    rig.wait(0.1)
    assert rig.c.plans == plans + 1 and rig.stops_at("M2") and rig.c.wanted == LOOK
    rig.wait(limits.LOOK_S)
    assert rig.c.plans == plans + 2 and rig.c.wanted == MEND


def test_a_search_is_not_put_off(rig):
    """People need not wait until looking is due, and a further load does not take it back."""
    rig.work()
    say_load(rig, 1, "A")
    rig.wait(0.05)
    plans = rig.c.plans
    assert rig.ask("replan") == "ok"
    say_load(rig, 2, "A")
    assert rig.c.wanted == SEARCH
    rig.wait(2 * limits.LOOK_S)
    assert rig.c.wanted == MEND and rig.c.plans == plans + 1


def test_loads_that_make_no_sense(rig):
    rig.work()
    plans = rig.c.plans
    form = 'expected {"link"'
    for said, why in [
        ("", form), ("x", form), ("7", form), ("{}", form), ('{"gbps":1}', form),
        ('{"link":["A","M1"]}', form), ('{"link":["A"],"gbps":1}', form),
        ('{"link":7,"gbps":1}', form), ('{"link":["A","M1","B"],"gbps":1}', form),
        ('{"link":["A","M1"],"node":"A","gbps":1}', form), ('{"node":["A"],"gbps":1}', form),
        ('{"node":"A","gbps":true}', form), ('{"node":"A","gbps":1e999}', form),
        ('{"link":["A","B"],"gbps":1}', 'no link "A" to "B" in t.json'),
        ('{"link":["A","A"],"gbps":1}', 'no link "A" to "A"'),
        ('{"link":["A","M1"],"gbps":20}', "less than the 20"),
        ('{"link":["A","M1"],"gbps":-1}', "0 or more"),
        ('{"node":"X","gbps":1}', 'no node "X"'),
        ('{"node":"M1","gbps":1}', "has no rate of its own"),
        ('{"node":"A","gbps":10}', "less than the 10"),
    ]:  # fmt: skip
        answer = rig.ask("load " + said)
        assert answer.startswith("error: ") and why in answer, said
    rig.wait(0.1)
    assert rig.c.plans == plans


def test_the_next_controller_knows_loads_and_drains(rig):
    rig.work()
    say_load(rig, 19, "A", "M1")
    say_load(rig, 3.5, "A")
    assert rig.ask("drain M2") == "ok"
    rig.wait(0.1)
    rig.restart()
    status = rig.ask("status")
    assert "link A-M1: others use 19 Gb/s" in status and "switch A: others use 3.5" in status
    assert rig.c.wanted == MEND and rig.c.nodes["M2"].drained
    left = {"last": 0, "jobs": [], "loads": [{"link": ["A", "gone"], "gbps": 1}, 7], "drained": [7]}
    rig.new(state=left)
    assert rig.noted('loads[0] of an earlier controller: no link "A" to "gone"')


def test_something_is_always_left():
    """As much as leaves next to nothing beside what the topology says: what is busy is not gone."""
    said = {"gbps": 10, "background_gbps": 4}
    assert load.added(said, 5.99)["background_gbps"] <= 9.9 and said["background_gbps"] == 4
    assert load.added(said, 0) is said


# ---- as daemons measure it ----


def measures(rig, others, seconds):
    """Reports of A, each 100 ms."""
    for _ in range(round(seconds * 10)):
        number = rig.c.nodes["A"].list_number
        rig.say("A", {"health": {"neighbours": number, "silent": [], "others": others}})
        rig.wait(0.09)


def test_the_next_path_leaves_out_what_is_measured(rig):
    rig.work()
    link = rig.link("A", "M1")
    measures(rig, {"M1": 18, "M2": 0.1}, limits.OTHERS_RISE_S - 0.1)
    assert link.used_gbps == 0  # it may be a burst
    measures(rig, {"M1": 18, "M2": 0.1}, limits.LOOK_S + 0.2)
    assert rig.stops_at("M2") and not rig.stops_at("M1")
    assert link.used_gbps >= 17.99 and rig.link("A", "M2").used_gbps == 0  # a fortieth is none
    shown = "link A-M1: others use 18 Gb/s, of which its ends measure 18"
    assert shown in rig.ask("status") and rig.noted("load on link A-M1, as measured: 18 Gb/s")
    say_load(rig, 19, "A", "M1")
    assert link.used_gbps >= 18.99  # the larger counts


def test_measured_load_falls_slowly(rig):
    """Later each time that it rose, however often others come and go."""
    rig.work()
    link = rig.link("A", "M1")
    for i in range(2):
        measures(rig, {"M1": 18}, limits.OTHERS_RISE_S + 0.2)
        assert link.others.rises == i + 1
        measures(rig, {"M1": 0}, limits.OTHERS_FALL_S * 2**i - 0.2)
        assert link.used_gbps >= 17.99
        measures(rig, {"M1": 0}, 0.4)
        assert link.used_gbps == 0
    plans = rig.c.plans
    for i in range(10):
        measures(rig, {"M1": 18 * (i % 2)}, 2.2)
    assert rig.c.plans <= plans + 2
    measures(rig, {"M1": 0}, limits.CALM_S)
    assert link.others.rises == 0 and link.used_gbps == 0 and link not in rig.c.lively


def test_a_ramp_rises_once(rig):
    """A mean that grows from report to report is one rise."""
    rig.work()
    link = rig.link("A", "M1")
    measures(rig, {"M1": 6}, limits.OTHERS_RISE_S + 0.2)
    measures(rig, {"M1": 18}, limits.OTHERS_RISE_S + 0.2)
    assert link.others.rises == 1
    link.others.rises = limits.OTHERS_DOUBLINGS + 9
    measures(rig, {"M1": 0}, 1)
    assert link.used_gbps >= 17.99
    rig.c.now_s += 640
    rig.c.awake_s = rig.c.now_s + 1
    measures(rig, {"M1": 0}, 1)
    assert link.used_gbps == 0  # after 640 s at most


def test_measured_load_grows_old(rig):
    rig.work()
    measures(rig, {"M1": 10}, limits.OTHERS_RISE_S + 0.2)
    assert rig.link("A", "M1").used_gbps >= 9.99
    rig.wait(limits.OTHERS_OLD_S + limits.OTHERS_FALL_S + 0.2)  # A reports without it
    assert rig.link("A", "M1").used_gbps == 0 and not load.saved(rig.c)


def test_lies_about_load_are_bounded(rig):
    """A tenth of its own links is left, and other links are none of its business."""
    rig.work()
    link = rig.link("A", "M1")
    for nonsense in (7, [20], "M1", {"M1": [18]}, {"M1": True}, None):
        measures(rig, nonsense, limits.OTHERS_RISE_S + 0.2)
    assert link.used_gbps == 0
    for lie in ({"M1": 1e300, "M2": -1e300}, {"M1": 21, "B": 5, "A": 7, "W1": 10},
                {"M1": 20.0, "M2": "4", "X": {}}):  # fmt: skip
        measures(rig, lie, limits.LOOK_S)
        assert abs(link.used_gbps - 18) < 1e-9
        assert not any(one.used_gbps for one in rig.c.links if one is not link)
    assert link.others.rises == 1


def test_measured_beside_what_the_topology_says(rig):
    """What the topology says is in use is measured as well, and counts once."""
    network = topology()
    next(o for o in network["links"] if (o["a"], o["b"]) == ("A", "M1"))["background_gbps"] = 5
    rig.new(network)
    rig.work()
    measures(rig, {"M1": 5}, 3)
    assert rig.link("A", "M1").used_gbps == 0
    measures(rig, {"M1": 12}, 3)
    assert abs(rig.link("A", "M1").used_gbps - 7) < 1e-9


def test_measured_only_where_a_daemon_is_alone(rig):
    """Of what comes to a host of several daemons, or of ranks, none can tell what is others'."""
    rig.work()
    rig.c.hosts["host-A"] += 1
    measures(rig, {"M1": 18}, 3)
    assert rig.link("A", "M1").used_gbps == 0
    rig.c.hosts["host-A"] -= 1
    measures(rig, {"M1": 18}, 3)
    assert rig.link("A", "M1").used_gbps > 0


# ---- drained, and come ----


def all_move(rig):
    """All ranks say that they go by the first part's route, and switches do what they are asked."""
    rig.answer()
    rig.wait(0.05)
    for rank in range(RANKS):
        rig.say(rank, {"moved": {"part": 0, "route": rig.route.number}})
    rig.wait(4)
    rig.answer()
    rig.wait(0.05)


def test_jobs_leave_a_switch_that_lives(rig):
    rig.work()
    first = rig.route
    assert rig.ask("drain M1") == "ok"
    rig.wait(0.1)
    assert rig.stops_at("M2") and not rig.stops_at("M1")
    assert first.state == "ready" and not rig.c.nodes["M1"].empty  # until all ranks have moved
    all_move(rig)
    assert rig.noted("M1 is drained: it may be stopped")
    assert "M1: up, drained, for" in rig.ask("status") and rig.ask("drain M1") == "ok"
    rig.hang_up("M1")
    rig.wait(0.1)
    rig.hello("M1", started=2)
    rig.wait(limits.OFFER_S + 0.2)
    assert rig.stops_at("M2")  # whoever restarts
    assert rig.ask("undrain M1") == "ok"
    rig.wait(limits.LOOK_S + 0.2)
    assert rig.stops_at("M1")


def test_drains_that_cannot_be(rig):
    rig.work()
    for name, why in [("X", 'no switch or server "X" in t.json'), ("W1", 'server "W1"'),
                      ("", 'server ""'), ("PS", 'job "j" has no other server')]:  # fmt: skip
        assert why in rig.ask("drain " + name)
    first = rig.route
    assert not rig.c.nodes["PS"].drained and rig.ask("drain A") == "ok"  # no way leads around it
    rig.wait(0.1)
    assert rig.route is first and "not planned, since A is to be drained" in rig.ask("why j")
    assert rig.ask("undrain A") == "ok"
    rig.wait(0.3)
    assert rig.route is first


def test_jobs_of_a_drained_server_begin_again(rig):
    rig.new(topology(servers=("PS", "PT")))
    rig.work()
    assert rig.job.parts[0].server == "PS" and rig.ask("drain PS") == "ok"
    rig.wait(0.2)
    rig.answer()
    rig.wait(0.05)
    assert all(part.server == "PT" for part in rig.job.parts)
    for rank in range(RANKS):
        assert "PS is to be drained" in rig.take(rank, "again")["again"]["why"]
    rig.wait(limits.LINGER_S + 0.1)  # for LEAVEs
    rig.answer()
    rig.wait(0.05)
    assert rig.noted("PS is drained: it may be stopped")
    assert 'job "j" has no other server' in rig.ask("drain PT")


def test_who_comes_is_offered_to_running_jobs(rig):
    """It has gone and come, and jobs move back for the wider path, later each time."""
    rig.work()
    for i in (1, 2):
        assert rig.stops_at("M1")
        rig.hang_up("M1")
        rig.wait(0.1)
        assert rig.stops_at("M2")
        all_move(rig)
        rig.hello("M1", started=1 + i)
        rig.wait(limits.OFFER_S * 2**i - 0.2)
        assert rig.stops_at("M2")
        rig.wait(limits.LOOK_S + 0.4)
        assert rig.stops_at("M1")
        all_move(rig)
    rig.c.nodes["M1"].since_s -= limits.CALM_S
    rig.hang_up("M1")
    rig.wait(0.1)
    assert rig.c.nodes["M1"].goes == 1  # what was long ago is forgotten


# ---- plans under way ----


def test_lines_do_not_wait_for_a_plan(rig):
    for name in ("A", "M1", "M2", "B", "PS", "PT"):
        rig.hello(name)
    rig.wait(0.2, drafts_end=False)
    assert rig.c.phase == "drafting" and not rig.job.parts
    rig.join(0)
    assert "job j: 1 of 4 ranks" in rig.ask("status")
    rig.wait(0)
    assert rig.c.phase == "watching" and rig.c.plans == 1 and rig.job.parts


def test_a_plan_that_was_overtaken_is_given_up(rig):
    for name in ("A", "M1", "M2", "B", "PS", "PT"):
        rig.hello(name)
    rig.wait(0.2, drafts_end=False)
    rig.hang_up("M1")
    rig.wait(0)
    assert not rig.job.parts  # it was by M1, which is gone
    rig.wait(0.1)
    assert rig.stops_at("M2") and rig.c.overtaken == 0


def test_one_is_completed_in_the_end(rig):
    """Things change faster than plans are made: one is taken all the same."""
    for name in ("A", "M1", "M2", "B", "PS", "PT"):
        rig.hello(name)
    rig.wait(0.2, drafts_end=False)
    for _ in range(limits.OVERTAKEN_MAX):
        assert rig.c.phase == "drafting" and not rig.job.parts
        assert rig.ask("replan") == "ok"
        rig.wait(0, drafts_end=False)
    assert rig.ask("replan") == "ok"
    rig.wait(0)
    assert rig.job.parts and rig.c.plans == 1
    rig.wait(0)
    assert rig.c.overtaken == 0 and rig.c.plans == 2


def test_a_planner_that_is_killed_is_replaced(rig):
    rig.work()
    idle = rig.c.planners._idle  # pylint: disable=protected-access
    os.kill(idle.pid, signal.SIGKILL)
    rig.hang_up("M1")
    rig.wait(0.2)
    assert rig.stops_at("M2")


def test_without_a_planner_jobs_keep_what_they_have(rig):
    rig.work()
    route = rig.route
    rig.end()
    rig.c.planners._command = ["/nonexistent"]  # pylint: disable=protected-access
    rig.hang_up("M1")
    rig.wait(0.5)
    assert rig.route is route and "not planned, since switch M1 is gone" in rig.ask("why j")


@pytest.mark.parametrize("algorithm, low, high", [("best", 2.66, 2.67), ("inart", 2.39, 2.41)])
def test_best_counts_results(rig, algorithm, low, high):
    """Rates of the parts of InArt's example, all together."""
    with open(ROOT / "experiments/lab/inart-example.json", encoding="utf-8") as file:
        rig.new(json.load(file), algorithm=algorithm)
    rig.all_daemons()
    rig.wait(0.2)
    assert low < sum(part.gbps for part in rig.job.parts) < high


@pytest.mark.parametrize("reading, to", [("nearest", "PS"), ("two-level", "B")])
def test_sums_again_where_that_is_asked_for(rig, reading, to):
    rig.new(topology(B=40), algorithm="atp", sums_at=reading)
    rig.daemons()
    sums = rig.job.trees[0]["sums"]
    assert [one["route"][-1] for one in sums if one["switch"] == "A"] == [to]


# ---- groups: W1 .. W4 on A; P sums for W1 and W2, Q for W3 and W4, and R adds up ----

GROUPS = {"P": "R", "Q": "R", "R": None}
SPARES = {"T": "V", "U": "V", "V": None}  # for P, Q and R
PLACE = {"P": 0, "Q": 1, "T": 0, "U": 1}


def in_groups(**more):
    servers = {**GROUPS, **more}
    workers = [f"W{i}" for i in range(1, 5)]
    nodes = [node("A", 10), *(node(n, parent=p) for n, p in servers.items()), *map(node, workers)]
    ends = " ".join(f"{name}-A:10" for name in [*workers, *servers])
    return {"nodes": nodes, "links": links(ends), "jobs": [{"name": "j"}]}


def hello_below(rig, name, started=1, **above):
    parent = {**GROUPS, **SPARES}[name]
    place = {"at": rig.listen(parent), "index": PLACE[name], "siblings": 2, **above}
    rig.hello(name, started=started, above=place)


def join_groups(rig):
    for i in range(4):
        rig.open(i)
        rig.say(i, {"join": {"job": f"j@{i // 2}", "rank": i % 2, "ranks": 2}})


def all_go_to(rig, key, name, *servers):
    """All ranks are told of one part of that name, summed by their group's server."""
    rig.wait(0.2)
    rig.answer()
    for i in range(4):
        parts = rig.take(i, key)[key]["parts"]
        said = [(part["name"], part["aggregator"]) for part in parts]
        assert said == [(name, rig.listen(servers[i // 2]))]


def all_come(rig, *but):
    for name in ("A", "R", "V"):
        if name in rig.c.nodes and name not in but:
            rig.hello(name)
    for name in PLACE:
        if name in rig.c.nodes and name not in but:
            hello_below(rig, name)
    rig.wait(0.2)
    rig.answer()


@pytest.mark.parametrize("lost", ["R", "Q"])
def test_groups_begin_again_together(rig, lost):
    rig.new(in_groups())
    all_come(rig)
    join_groups(rig)
    all_go_to(rig, "job", "j/0", "P", "Q")
    assert 'job "j@0" has no other server' in rig.ask("drain R")
    rig.hang_up(lost)
    rig.wait(limits.BACK_S + 0.2)
    assert [job.life for job in rig.c.jobs.values()] == [1, 1]
    if lost == "R":  # nobody sums without it
        rig.answer()
        assert not any(rig.take(i, "again") for i in range(4))
        rig.hello("R", started=2)
    else:
        hello_below(rig, lost, started=2)
    all_go_to(rig, "again", "j/0~1", "P", "Q")


def test_groups_begin_again_below_another_parent(rig):
    """A server of one group, then a parent is taken out, and a server is lost: all go together."""
    rig.new(in_groups(**SPARES))
    all_come(rig)
    join_groups(rig)
    all_go_to(rig, "job", "j/0", "P", "Q")
    assert rig.ask("drain Q") == "ok"
    all_go_to(rig, "again", "j/0~1", "T", "U")
    assert 'job "j@0" has no other server' in rig.ask("drain T")
    assert rig.ask("undrain Q") == "ok"
    rig.wait(0.3)
    assert rig.take(0, "again") is None  # who has begun below V stays there
    assert rig.ask("drain V") == "ok"
    all_go_to(rig, "again", "j/0~2", "P", "Q")
    assert rig.ask("undrain V") == "ok"
    rig.say("P", {"stopping": True})
    all_go_to(rig, "again", "j/0~3", "T", "U")
    rig.hang_up("V")
    rig.wait(0.6, "T", "U")
    assert "no parent of its 2 servers is there with all who sum" in rig.ask("why j")


def test_groups_stay_below_their_parent_under_the_next_controller(rig):
    rig.new(in_groups(**SPARES))
    all_come(rig)
    assert rig.ask("drain R") == "ok"
    join_groups(rig)
    all_go_to(rig, "job", "j/0~1", "T", "U")
    assert rig.ask("undrain R") == "ok"
    rig.restart(in_groups(**SPARES))
    all_come(rig)
    assert [job.parts[0].server for job in rig.c.jobs.values()] == ["T", "U"]


@pytest.mark.parametrize("gone", ["R", "Q"])
def test_groups_go_to_the_spare_where_the_next_controller_misses_one(rig, gone):
    rig.new(in_groups(**SPARES))
    all_come(rig)
    join_groups(rig)
    all_go_to(rig, "job", "j/0", "P", "Q")
    rig.restart(in_groups(**SPARES))
    all_come(rig, gone)
    assert not any(job.parts for job in rig.c.jobs.values())
    rig.wait(5)  # enough was waited
    join_groups(rig)
    all_go_to(rig, "job", "j/0~1", "T", "U")


def test_groups_need_servers_with_their_parent(rig):
    """What is added up twice, or elsewhere, would be wrong, or never whole."""
    rig.new(in_groups())
    all_come(rig, "P")
    for i, above in enumerate(({"index": 1}, {"at": "10.9.9.9:7"}, {"siblings": 3})):
        hello_below(rig, "P", started=1 + i, **above)
        rig.wait(0.2)
        wanted = f"start it with --parent {rig.listen('R')} --child 0/2"
        assert not rig.job.parts and wanted in rig.ask("why j")
        rig.hang_up("P")
        rig.wait(0.6)
    hello_below(rig, "P", started=9)
    rig.wait(0.2)
    assert len(rig.job.parts) == 1
    rig.hello("P", started=10, conn="x", above={"at": "10.0.0.1:7", "index": 2, "siblings": 2})
    assert rig.refused("x", "expected above with at, index, siblings")


def test_groups_are_admitted_and_ended_together(rig):
    rig.new(in_groups())
    all_come(rig)
    assert rig.ask('admit {"name":"k"}') == "ok"
    assert rig.ask('admit {"name":"k"}') == 'error: job "k" is there already'
    assert rig.ask('admit {"name":"k@1"}') == 'error: job "k@1" is there already'
    assert {"k@0", "k@1"} <= set(rig.c.jobs)
    assert rig.ask("end k") == "ok" and set(rig.c.jobs) == {"j@0", "j@1"}
    assert "part 0: 100.00 % to Q" in rig.ask("why j")
