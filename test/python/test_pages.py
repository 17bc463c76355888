# SPDX-License-Identifier: Apache-2.0
"""Pictures of networks (page/picture.py): rows, names and loads of a plan, as a page and for graphviz."""

import json
import subprocess
import sys

import pytest
from conftest import BUILD, NO_PLANNER, ROOT

sys.path.insert(0, str(ROOT / "page"))

import picture  # noqa: E402  pylint: disable=wrong-import-position

EXAMPLE = str(ROOT / "experiments" / "lab" / "grid-example.json")


def planned(folder, topology):
    """What `fanin plan` gives the generator for its grid plan."""
    if NO_PLANNER:
        pytest.skip(NO_PLANNER)
    plan, made = folder / "plan.json", folder / "topology.json"
    command = [str(BUILD / "fanin"), "plan", topology, "-a", "grid", "--no-bound"]
    subprocess.run([*command, "--json", plan, "--topology", made], check=True, timeout=300)
    texts = [path.read_text(encoding="utf-8") for path in (made, plan)]
    return dict(zip(("topology", "plan"), map(json.loads, texts)), sub="of a test")


def network(given):
    (block,) = picture.page(given)["blocks"]
    return block, {node["name"]: node for node in block["nodes"]}


def test_every_node_and_link_is_there_once(tmp_path):
    given = planned(tmp_path, EXAMPLE)
    block, nodes = network(given)
    assert list(nodes) == [n["name"] for n in given["topology"]["nodes"]]
    assert len(block["links"]) == len(given["topology"]["links"])
    names = list(nodes)
    full = {(names[a], names[b]): loads for a, b, _, *loads in block["links"]}
    assert full["S1", "S3"][:2] == pytest.approx([1, 3])
    assert nodes["S1"]["sums"] and nodes["W1"]["gbps"] == pytest.approx(3)


def test_a_rack_without_hosts_is_among_the_racks_and_cores_are_above_all(tmp_path):
    _, nodes = network(planned(tmp_path, "fat-tree:k=4,workers=3,seed=2"))
    rows = {kind: {n["y"] for name, n in nodes.items() if name[0] == kind} for kind in "CARW"}
    assert all(len(row) == 1 for row in rows.values())
    assert max(rows["C"]) < max(rows["A"]) < max(rows["R"]) < max(rows["W"])


def test_background_load_counts_and_what_has_no_rate_is_never_full():
    node = {"name": "s", "kind": "switch"}
    given = {"topology": {"nodes": [node, {"name": "w", "kind": "worker"}],
                          "links": [{"a": "w", "b": "s", "gbps": 10, "background_gbps": 4}]},
             "plan": {"loads": {"links": [{"from": "w", "to": "s", "gbps": 3}], "switches": [], "servers": []},
                      "jobs": [], "assignments": [], "trees": []}}  # fmt: skip
    nodes, links = picture.loads_of(given)
    assert links["w", "s"] == pytest.approx([0.7, 3, 0.4, 0])
    assert nodes["s"]["full"] == 0 and nodes["s"]["passes"] and not nodes["w"]["passes"]
