# SPDX-License-Identifier: Apache-2.0
"""fanin lab without root: what of a topology becomes addresses, links, routes and filters."""

import argparse
import json
import os
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "simulator", "lab"))

import lab  # noqa: E402  pylint: disable=wrong-import-position
import layout  # noqa: E402
from job import Kill, Tools, largest_window, window_of  # noqa: E402


def example(name="grid-example", scale=0.005):
    with open(os.path.join(ROOT, "experiments", "lab", name + ".json"), encoding="utf-8") as file:
        return layout.Layout(layout.scaled(json.load(file), scale))


def walk(made, start, goal):
    """Names on the way of a packet that every node sends on as its routes say."""
    at, way = made.by_name[start], [start]
    while at.name != goal:
        at = made.hops[at.name][goal].peer
        way.append(at.name)
        assert len(way) < 10, way
    return way


def test_addresses_are_unique_and_not_of_the_controller():
    nodes = [{"name": "s", "kind": "switch"}, {"name": "p", "kind": "server"}]
    nodes += [{"name": "w%d" % i, "kind": "worker"} for i in range(600)]
    links = [{"a": n["name"], "b": "s", "gbps": 1} for n in nodes[1:]]
    made = layout.Layout({"nodes": nodes, "links": links})
    every = [n.address for n in made.nodes] + [n.management for n in made.nodes]
    assert len(set(every)) == 2 * len(nodes)
    assert layout.CONTROLLER not in every
    assert len({end.mac for n in made.nodes for end in n.ends}) == 2 * len(links)


def test_routes_are_shortest_and_pass_switches_alone():
    made = example()
    assert walk(made, "W1", "PS") == ["W1", "S1", "S3", "PS"]
    assert walk(made, "PS", "W5") == ["PS", "S3", "S2", "W5"]
    assert walk(made, "W7", "W8") == ["W7", "S3", "W8"]
    for a in made.nodes:
        for b in made.nodes:
            assert a is b or all(
                made.by_name[n].kind == "switch" for n in walk(made, a.name, b.name)[1:-1]
            )


def test_a_neighbour_is_reached_over_its_link_and_others_by_one():
    made = example()
    lines = made.addresses(made.by_name["S1"]).splitlines()
    own, s3 = made.by_name["S1"].address, made.by_name["S3"]
    end = next(e for e in made.by_name["S1"].ends if e.peer is s3)
    assert "route add %s/32 dev %s src %s" % (s3.address, end.interface, own) in lines
    far = made.by_name["PS"].address
    assert (
        "route add %s/32 via %s onlink dev %s src %s" % (far, s3.address, end.interface, own)
        in lines
    )
    assert sum(line.startswith("route") for line in lines) == len(made.nodes) - 1


def test_rates_are_scaled_and_servers_and_workers_bound_their_links():
    topology = {
        "nodes": [
            {"name": "s", "kind": "switch"},
            {"name": "p", "kind": "server", "gbps": 4},
            {"name": "a", "kind": "worker", "gbps": 2},
            {"name": "b", "kind": "worker"},
        ],
        "links": [{"a": n, "b": "s", "gbps": 6} for n in "pab"],
    }
    made = layout.Layout(layout.scaled(topology, 0.5))
    rates = {(a.node.name, a.peer.name): a.gbps for link in made.links for a in link}
    assert rates["s", "p"] == 2 and rates["p", "s"] == 3
    assert rates["a", "s"] == 1 and rates["s", "a"] == 3
    assert rates["b", "s"] == 3
    assert "rate 2000000000bit" in made.shaping(made.by_name["s"])


def test_only_parts_that_are_summed_take_of_a_switch():
    made = example()
    install = {
        "switches": [
            {
                "name": "S2",
                "routes": [
                    {
                        "route": 258,
                        "entries": [
                            {"from": None, "ranks": "4-5", "sums": 3},
                            {"from": "S1", "ranks": "3", "sums": 3},
                            {"from": "S1", "ranks": "0-2", "sums": False},
                        ],
                    }
                ],
            }
        ]
    }
    lines = [l for l in made.sum_filters(made.by_name["S2"], install).splitlines() if " add " in l]
    assert len(lines) == 3
    sources = [made.by_name[n].address for n in ("W5", "W6", "S1")]
    for line, source, rank in zip(lines, sources, (4, 5, 3)):
        assert "src %s/32" % source in line
        assert "match u16 0x201 0xffff at 34" in line  # 258, its bytes swapped
        assert "match u16 %#x 0xffff at 40" % (rank << 8) in line
    assert made.sum_filters(made.by_name["S3"], install).count(" add ") == 0


def test_frames_of_a_plan_are_those_up_and_one_result_on_each_link():
    plan = {
        "with_results_gbps": 8 * 1486e-9,  # one frame a second
        "trees": [{"share": 1, "sums": [{"route": ["s", "p"]}]}],
        "assignments": [{"tree": 0, "route": ["a", "s"]}, {"tree": 0, "route": ["b", "s"]}],
    }
    assert layout.frames_per_s(plan) == pytest.approx(6)


def test_ranks_and_bytes():
    assert layout.ranks_of("0-3,7") == [0, 1, 2, 3, 7]
    assert layout.ranks_of("5") == [5]
    assert layout.swapped(1) == 256


def test_all_parts_together_have_the_window():
    for count in (1, 4, 12):
        install = {"parts": [{"gbps": 0.5} for _ in range(count)]}
        assert largest_window(32, install) * count == pytest.approx(32, abs=count / 2)
    uneven = {"parts": [{"gbps": 3.0}, {"gbps": 1.0}]}
    assert largest_window(32, uneven) == 24
    assert window_of(None, uneven) == 32 and window_of(4, uneven) == 4
    assert window_of(None, {"parts": [{"gbps": 1.0}] * 12}) == 96
    assert largest_window(4, {"parts": [{"gbps": 1.0}] * 16}) == 2


def test_a_window_is_simulated_at_the_rates_of_the_lab():
    class Simulator:
        def simulate(self, *what):
            self.what = what
            return 0.03

    made, simulator = lab.Lab.__new__(lab.Lab), Simulator()
    made.layout, made.full, made.scale, made.tools = "scaled", "whole", 0.01, simulator
    install = {"parts": [{"gbps": 0.02}]}
    made.args = argparse.Namespace(window=8)
    assert made.simulated_gbps(install) == pytest.approx(3)
    assert simulator.what == ("scaled", install, 8)
    made.args.window = None
    assert made.simulated_gbps(install) == 0.03
    assert simulator.what == ("whole", {"parts": [{"gbps": pytest.approx(2)}]})


def test_the_planner_hears_which_switch_sums(tmp_path):
    said = []
    tools = Tools("fanin", str(tmp_path), argparse.Namespace(seed=1, sums_at="two-level"))
    tools.run = lambda *command: said.extend(command)
    tools.load = lambda name: name
    tools.plan("t.json", "atp")
    assert said[said.index("--sums-at") + 1] == "two-level"


def test_the_planner_reads_what_lacks_rates_and_hosts(tmp_path):
    said = []
    args = lab.arguments(["slurm.conf", "--rate", "200", "--attach", "servers=1"])
    tools = Tools("fanin", str(tmp_path), args)
    tools.run = lambda *command: said.extend(command)
    tools.load = lambda name: name
    tools.topology(args.topology)
    assert said[1] == "slurm.conf" and said[-4:] == ["--rate", "200", "--attach", "servers=1"]


def test_kills():
    kill = Kill("S1@2.5+0.5")
    assert (kill.node, kill.at_s, kill.back_s) == ("S1", 2.5, 0.5)
    assert Kill("controller@1").back_s is None
    for text in ("S1", "S1@", "@1", "S1@x", "S1@1+x", "S1@-1"):
        with pytest.raises(layout.LabError):
            Kill(text)


def test_kills_of_links():
    topology = {
        "nodes": [
            {"name": "s-1", "kind": "switch"},
            {"name": "s", "kind": "switch"},
            {"name": "1", "kind": "switch"},
            {"name": "w", "kind": "worker"},
        ],
        "links": [{"a": "s", "b": "1"}, {"a": "w", "b": "s"}],
    }
    ends = {}
    for text in ("s-1@1", "1-s@1", "w-s@1+1", "s@1", "controller@1"):
        kill = Kill(text)
        kill.check(topology)
        ends[text] = kill.ends
    assert ends == {
        "s-1@1": None,  # a node of that name
        "1-s@1": ("s", "1"),
        "w-s@1+1": ("w", "s"),
        "s@1": None,
        "controller@1": None,
    }
    for text in ("w@1", "w-1@1", "x@1", "s-s@1", "-@1"):
        with pytest.raises(layout.LabError, match="no switch, server or link"):
            Kill(text).check(topology)


def test_walls():
    made = example()
    end = made.by_name["S1"].ends[0]
    assert end.interface in layout.Layout.wall(end) and "limit 0" in layout.Layout.wall(end)
    before = [x for x in made.shaping(end.node).splitlines() if "handle 2:" in x][0]
    assert before.split("dev")[1] == layout.Layout.no_wall(end).strip().split("dev")[1]


def test_several_jobs_and_one_worker_are_refused():
    nodes = [{"name": "s", "kind": "switch"}, {"name": "w", "kind": "worker"}]
    links = [{"a": "w", "b": "s", "gbps": 1}]
    with pytest.raises(layout.LabError, match="two workers"):
        layout.Layout({"nodes": nodes, "links": links})
    with pytest.raises(layout.LabError, match="one job"):
        layout.Layout({"nodes": nodes, "links": links, "jobs": [{}, {}]})
