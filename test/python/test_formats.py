# SPDX-License-Identifier: Apache-2.0
"""fanin.research.formats: networks from JSON, GraphML and numbers, and hosts for those without."""

import hashlib
import json
import random
from pathlib import Path

import pytest

from fanin.research import files
from fanin.research.formats import FormatError, Rate, generate, graphml, load, load_network
from fanin.research.formats.network import LINKS_MAX, NODES_MAX
from fanin.research.formats.reader import read

DATA = Path(__file__).resolve().parents[1] / "data"
LAB = DATA.parents[1] / "experiments" / "lab"

NODES = [
    {"name": "W1", "kind": "worker"},
    {"name": "S1", "kind": "switch", "gbps": 5},
    {"name": "PS", "kind": "server", "gbps": 5},
]


def link(a, b, gbps=3.0, **more):
    return {"a": a, "b": b, "gbps": gbps, **more}


LINKS = [link("W1", "S1"), link("S1", "PS")]


def node(**keys):
    return {"nodes": [keys], "links": []}


def links(*rows):
    return {"nodes": NODES, "links": list(rows)}


def jobs(*rows):
    return {"nodes": NODES, "links": LINKS, "jobs": list(rows)}


def why(make, *args):
    with pytest.raises(FormatError) as caught:
        make(*args)
    return str(caught.value)


def attached(data, hosts):
    return load_network("f", data, generate.Attach(hosts))


# ---- JSON ----


@pytest.mark.parametrize(
    "text, cause",
    [
        (b"", "line 1, column 1: not JSON"),
        (b"[1,2", "line 1, column 5: not JSON"),
        (b'{"nodes":[],"nodes":[]}', 'not JSON: duplicate object key "nodes"'),
        (b"hosts: 4\n", "not JSON: '[' or '{' expected"),
        (b'{"a": "\xff"}', "not JSON: 'utf-8' codec"),
        (b"[" * 100000, "not JSON: "),
        (b'{"a": ' + b"9" * 5000 + b"}", "too big a number"),
        (b'{"a": NaN}', "NaN: no number of JSON"),
    ],
)
def test_what_is_no_json(text, cause):
    assert cause in why(files.parse, text)


WRONG = [
    ([], "expected an object, got an array"),
    ({}, 'lacks the key "nodes"'),
    ({"nodes": 7, "links": []}, "nodes: expected an array of 1 to 16384 entries"),
    ({"nodes": [7], "links": []}, "nodes[0]: expected an object, got a number"),
    (node(kind="worker"), 'nodes[0]: lacks the key "name"'),
    (node(name="", kind="worker"), "nodes[0].name: expected a name"),
    (node(name="é" * 32, kind="worker"), "nodes[0].name: expected a name of 1 to 63 bytes"),
    (node(name="a\x1b[31m\x9b", kind="worker"), "expected a name without control characters"),
    (node(name="\ud800", kind="worker"), "expected a name without control characters"),
    (node(name="x", kind="router"), 'kind: "router": expected one of worker, switch, server'),
    (node(name="x", kind=["worker"]), "got an array"),
    (node(name="x", kind="switch", gbps="ten"), "gbps: expected a number, got a text"),
    (node(name="x", kind="switch", gbps=True), "gbps: expected a number, got true or false"),
    (node(name="x", kind="switch", gbps=0), "gbps: 0: expected a number from 0.0001 to 1000000000"),
    (node(name="x", kind="switch", gbps=-1), "gbps: -1: expected"),
    (node(name="x", kind="switch", gbps=1e300), "gbps: 1e+300: expected a number from 0.0001 to 1000000000"),
    (node(name="x", kind="switch", gbps=float("inf")), "gbps: inf: expected"),
    (
        node(name="x", kind="switch", gbps=3, background_gbps=3),
        "nodes[0].background_gbps: 3 of 3 Gb/s are in use, which leaves less than 0.0001",
    ),
    (node(name="x", kind="switch", address=7), "nodes[0].address: expected the address"),
    (
        {"nodes": [{"name": "x", "kind": "worker"}, {"name": "x", "kind": "server"}], "links": []},
        'nodes[1].name: "x" is the name of nodes[0] already',
    ),
    ({"nodes": [{"name": "x", "kind": "worker"}], "links": []}, "nodes: no server among them"),
    ({"nodes": [{"name": "x", "kind": "server"}], "links": []}, "nodes: no worker among them; --attach"),
    (links(link("W1", "S9")), 'links[0].b: no node "S9"'),
    (links({"a": "W1", "b": "S1"}), "links[0].gbps: expected a number above 0, got nothing; link="),
    (links(link("W1", "S1", 0)), "links[0].gbps: 0: expected a number from 0.0001"),
    (links(link(4, "S1")), "links[0].a: expected the name of a node, got a number"),
    (links(link("S1", "S1")), 'links[0].b: a link from "S1" to itself'),
    (links(link("W1", "S1", directed=1)), "links[0].directed: expected true or false, got a number"),
    (links(link("W1", "S1", delay_us=-1)), "links[0].delay_us: -1: expected a number from 0 to"),
    (links(link("W1", "S1", loss=1)), "links[0].loss: no such key"),
    (links(link("W1", "S1", 2, background_gbps=2)), "2 of 2 Gb/s are in use"),
    (
        links(link("W1", "S1", 2, background_gbps=1, directed=True), link("S1", "W1", directed=True, gbps=1)),
        'links[1].background_gbps: 1 of the 1 Gb/s between "W1" and "S1" are in use',
    ),
    ({"nodes": [], "links": []}, "nodes: there is none: the file is blank"),
    ({**links(*LINKS), "job": []}, 'job: no such key; did you mean "jobs"?'),
    (node(name="x", kind="switch", gpbs=100), 'nodes[0].gpbs: no such key; did you mean "gbps"?'),
    (jobs({"name": "a", "wieght": 3}), 'jobs[0].wieght: no such key; did you mean "weight"?'),
    (jobs({}), 'jobs[0]: lacks the key "name"'),
    (jobs({"name": "a", "workers": "W1"}), "jobs[0].workers: expected an array"),
    (jobs({"name": "a", "workers": ["S1"]}), '"S1" is a switch, not a worker'),
    (jobs({"name": "a", "workers": ["W1"] * 2}), '[1]: "W1" is workers[0] already'),
    (jobs({"name": "a", "workers": [None]}), "jobs[0].workers[0]: expected the name"),
    (jobs({"name": "a", "weight": 0}), "jobs[0].weight: 0: expected a number from"),
    (jobs({"name": "a", "demand_gbps": True}), "jobs[0].demand_gbps: expected a number"),
    (jobs({"name": "a"}, {"name": "a"}), 'jobs[1].name: "a" is the name of jobs[0] already'),
    (jobs(*({"name": f"j{i}"} for i in range(257))), "jobs: expected an array of at most 256 entries"),
    ({"nodes": [{"name": f"n{i}", "kind": "switch"} for i in range(NODES_MAX + 1)], "links": []},
     "nodes: expected an array of 1 to 16384 entries"),
]  # fmt: skip


@pytest.mark.parametrize("root, cause", WRONG, ids=range(len(WRONG)))
def test_an_error_has_path_and_cause(root, cause):
    assert cause in why(read, root)


ODD = (None, True, 7, -1, 1e300, float("inf"), "", "W1", "S1", [], ["W1"], {}, {"name": "x"},
       [[0, 2]], "\ud800", 10**30, 10**999)  # fmt: skip


def put_odd(rng, value, depth=0):
    """Replace something in it, or take it away."""
    if not isinstance(value, (dict, list)) or not value or rng.random() < 0.2 * depth:
        return rng.choice(ODD)
    found = dict(value) if isinstance(value, dict) else list(value)
    key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
    if rng.random() < 0.1:
        del found[key]
    else:
        found[key] = put_odd(rng, value[key], depth + 1)
    return found


def test_whatever_stands_in_a_file_ends_in_a_network_or_an_error():
    rng, refused = random.Random(1), 0
    for _ in range(3000):
        root = groups("P<R Q<R R", {"name": "j", "weight": 1, "workers": ["W1", "W2", "W3", "W4"]})
        for _ in range(rng.randint(1, 3)):
            root = put_odd(rng, root)
        try:
            found = read(root).to_json()
            assert read(found).to_json() == found
        except FormatError as error:
            refused += 1
            assert len(str(error)) < 400
    assert refused > 1000


@pytest.mark.parametrize(
    "first, second, gbps",
    [
        (link("W1", "S1"), link("S1", "W1"), 6),
        (link("W1", "S1", directed=True), link("S1", "W1", directed=True), 3),
        (link("W1", "S1", directed=True), link("S1", "W1", 2, directed=True), 2),
        (link("W1", "S1", directed=True), link("W1", "S1", 1, directed=True), 4),
        (link("W1", "S1", directed=True), link("W1", "S1"), 3),
    ],
)
def test_cables_side_by_side_are_one_link(first, second, gbps):
    network = read(links(first, second, link("S1", "PS")))
    assert [one.gbps for one in network.links] == [gbps, 3]


def test_defaults_are_filled_in_once():
    found = read(jobs({"name": "a", "workers": ["W1"], "weight": 2}, {"name": "b"})).to_json()
    assert found["jobs"] == [
        {"name": "a", "workers": ["W1"], "servers": ["PS"], "weight": 2, "demand_gbps": 0},
        {"name": "b", "workers": ["W1"], "servers": ["PS"], "weight": 1, "demand_gbps": 0},
    ]
    assert found["links"][0] == {"a": "W1", "b": "S1", "gbps": 3, "delay_us": 0}
    assert read(found).to_json() == found
    one = read(json.loads((LAB / "inart-example.json").read_text())).jobs
    assert [(len(job.workers), len(job.servers)) for job in one] == [(6, 2)]


# ---- groups ----


def groups(servers, *rows):
    """W1 to W4 and servers, "P<R" with its parent, on a switch."""
    names = [text.partition("<") for text in servers.split()]
    found = [{"name": "S", "kind": "switch", "gbps": 5}]
    found += [{"name": f"W{i}", "kind": "worker"} for i in range(1, 5)]
    for name, _, parent in names:
        found.append({"name": name, "kind": "server", **({"parent": parent} if parent else {})})
    return {"nodes": found, "links": [link(n["name"], "S") for n in found[1:]], "jobs": list(rows)}


@pytest.mark.parametrize(
    "root, cause",
    [
        (groups("P<S"), "nodes[5].parent: expected another server's name, at a server"),
        (groups("P<P"), "nodes[5].parent: expected another server's name"),
        (groups("P<X"), 'nodes[5].parent: no node "X"'),
        (groups("P<Q Q<R R"), 'nodes[5].parent: "Q" has a parent itself: expected one level'),
        (
            groups("P<R Q<R R", {"name": "j", "servers": ["P"]}),
            'jobs[0].servers: 1 of the 2 whose parent is "R": expected all',
        ),
        (
            groups("P<R Q<R R", {"name": "j", "servers": ["P", "R"]}),
            'jobs[0].servers[1]: "R" has no parent, as others have',
        ),
        (
            groups("P<R Q<R R", {"name": "j", "workers": ["W1", "W2", "W3"]}),
            'jobs[0].workers: 3 for 2 servers below "R": expected 2 servers or more',
        ),
        (
            groups("P<R Q<R R", {"name": "j", "workers": ["W1", "W2"]}),
            'jobs[0].workers: 2 for 2 servers below "R"',
        ),
        (
            groups("P<R Q<R R", {"name": "j"}, {"name": "j@1", "servers": ["R"]}),
            'jobs[1].name: "j@1" is the name of a group of "j"',
        ),
        (
            groups("P<R Q<R R X<Y Y", {"name": "j"}),
            'jobs[0].servers: 1 have the parent "Y", others 2: expected as many',
        ),
        (groups("P<R Q<R R", {"name": "j" * 60}), "jobs[0].name: expected at most 59 bytes"),
        (
            groups("P<R Q<R R", {"name": "j", "servers": ["R"], "spares": ["Q"]}),
            "jobs[0].spares: not of a group",
        ),
        (
            groups("P<R Q<R R", {"name": "j@0", "servers": ["P"], "group": [2, 2]}),
            "jobs[0].group: expected as fanin plan --topology writes it",
        ),
        (
            groups("P<R Q<R R", {"name": "j@0", "servers": ["P"], "group": [True, 2]}),
            "jobs[0].group: expected as fanin plan --topology writes it",
        ),
    ],
)
def test_groups_that_cannot_be(root, cause):
    assert cause in why(read, root)


def test_a_job_whose_servers_have_a_parent_is_split():
    """Runs of the workers in the job's order, each with the server of that number."""
    wanted = {"name": "j", "weight": 2, "servers": ["Q", "U", "T", "P"]}  # T, U below V are spare
    root = groups("P<R Q<R R T<V U<V V", wanted, {"name": "k", "servers": ["R"]})
    found = read(root).to_json()
    assert [
        (job["name"], job["workers"], job["servers"], job.get("spares"), job.get("group"))
        for job in found["jobs"]
    ] == [
        ("j@0", ["W1", "W2"], ["Q"], ["U"], [0, 2]),
        ("k", ["W1", "W2", "W3", "W4"], ["R"], None, None),
        ("j@1", ["W3", "W4"], ["P"], ["T"], [1, 2]),
    ]
    assert [job["weight"] for job in found["jobs"]] == [2, 1, 2]
    assert read(found).to_json() == found


# ---- GraphML ----


def test_graphml_names_kinds_and_rates():
    network = load(str(DATA / "triangle.graphml"))
    by_name = {node.name: node for node in network.nodes}
    assert (len(network.nodes), len(network.links)) == (6, 6)
    assert by_name["Wien"].gbps > 0 and not by_name["Graz"].gbps
    assert by_name["PS"].kind == "server" and network.links[2].gbps == 2.5


def graph_of(text):
    return graphml.read(text).to_json(Rate())


def edge(a, b, more=""):
    return f'<edge source="{a}" target="{b}"{more}><data key="k">10</data></edge>'


@pytest.mark.parametrize(
    "edges, default, gbps",
    [
        (edge("a", "b") + edge("b", "a"), "undirected", 20),
        (edge("a", "b") + edge("b", "a"), "directed", 10),
        (edge("a", "b") * 2, "directed", 20),
        (edge("a", "b", ' directed="true"') + edge("b", "a", ' directed="true"'), "undirected", 10),
        (edge("a", "b", ' directed="false"') + edge("b", "a"), "directed", 10),
        (edge("a", "a") + edge("a", "b"), "undirected", 10),
    ],
)
def test_opposite_edges_are_one_link_where_they_are_directed(edges, default, gbps):
    text = (
        f'<graphml><key id="k" attr.name="gbps"/><graph edgedefault="{default}">'
        f'<node id="a"/><node id="b"/>{edges}</graph></graphml>'
    )
    network = attached(text.encode(), "workers=2,servers=1")
    assert (network.links[0].gbps, len(network.links)) == (gbps, 1 + 3)


def test_attributes_of_graphml():
    text = """<?xml version="1.0" encoding="iso-8859-1"?><graphml>
    <key id="n" attr.name="name"/><key id="s" attr.name="LinkSpeedRaw"/>
    <key id="g" attr.name="gbps"/><key id="d" attr.name="delay_us"/><graph>
    <node id="1"><data key="n">K\xf6ln</data></node><node id="2"/>
    <edge source="1" target="2"><data key="s">2.5e9</data><data key="d"> 30</data></edge>
    <edge source="2" target="1"><data key="g">4</data><data key="s">1e9</data></edge>
    <edge source="1" target="9"><data key="g">x</data><data key="other">1</data></edge>
    </graph></graphml>"""
    assert graph_of(text.encode("latin-1")) == {
        "nodes": [{"name": "Köln", "kind": "switch"}, {"name": "2", "kind": "switch"}],
        "links": [
            {"a": "Köln", "b": "2", "gbps": 2.5, "delay_us": 30},
            {"a": "2", "b": "Köln", "gbps": 4},
            {"a": "Köln", "b": "9", "gbps": "x"},
        ],
    }


@pytest.mark.parametrize(
    "text, cause",
    [
        ("<graphml>", "line 1: no element found"),
        ("<a>\n</b>", "line 2: mismatched tag"),
        ("<html/>", "no <graph> in it: is this GraphML?"),
        ("<graph><node/></graph>", "line 1: a node without an id"),
        ('<graph><node id="a"/>\n<node id="a"/></graph>', "line 2: a node whose id was there"),
        ('<graph><edge source="a"/></graph>', "an edge without source and target"),
        ('<?xml version="1.0" encoding="none-such"?><graph/>', "line 1: unknown encoding"),
        ('<!DOCTYPE g [<!ENTITY a "aa">\n<!ENTITY b "&a;&a;">]><graph>&b;</graph>', "line 1: an entity"),
        ('<!DOCTYPE g [<!ENTITY a SYSTEM "/etc/passwd">]><graph>&a;</graph>', "line 1: an entity"),
    ],
)  # fmt: skip
def test_broken_graphml_has_line_and_cause(text, cause):
    assert cause in why(graph_of, text.encode())


# ---- from numbers ----

# Nodes and links as JSON, hashed: recorded experiments name such networks.
MADE = {
    "star:workers=3,link=10": "5f7edfe99e86785b",
    "triangle:workers=8,seed=9": "c7f7fcf7c28b9fe1",
    "leaf-spine:leaves=8,spines=2,workers=100,servers=4,root=1,seed=3": "44aee4429ca48d60",
    "fat-tree:k=8,hosts=6,workers=100,programmable=0.2,switch=100,switch_max=3200,seed=5": "41b1d0d8c8313b48",
    "dragonfly:workers=35,programmable=0.5,switch_max=900,seed=9000000000000000": "df0f8d177b9c93ea",
    "rails:rails=4,groups=2,spines=3,workers=7,seed=0": "102b9e3c73158ca2",
}


def made_hash(source):
    found = load_network(source, b"").to_json()
    return hashlib.sha256(files.dump(found).encode()).hexdigest()[:16]


@pytest.mark.parametrize("source, wanted", MADE.items())
def test_a_seed_decides_all(source, wanted):
    assert made_hash(source) == wanted


def count(network, kind):
    return sum(node.kind == kind for node in network.nodes)


def degrees(network):
    found = [0] * len(network.nodes)
    for one in network.links:
        found[one.a] += 1
        found[one.b] += 1
    return found


def test_the_fat_tree_of_the_grid_paper():
    network = load(
        "fat-tree:k=8,hosts=6,workers=100,programmable=0.2,switch=100,switch_max=3200,seed=5"
    )
    assert [count(network, kind) for kind in ("switch", "worker", "server")] == [80, 100, 1]
    assert len(network.links) == 2 * 8 * 4 * 4 + 101
    sums = [node.gbps for node in network.nodes if node.kind == "switch" and node.gbps]
    assert len(sums) == 16 and 100 <= min(sums) and max(sums) <= 3200
    for one, degree in zip(network.nodes[:80], degrees(network)):
        assert 4 <= degree <= 10 if one.name[0] == "R" else degree == 8


def test_other_shapes():
    star, triangle = load("star:workers=3,link=10"), load("triangle:workers=8")
    assert (len(star.nodes), len(star.links), len(triangle.links)) == (5, 4, 3 + 9)
    leaf_spine = load("leaf-spine:leaves=3,spines=2,workers=7,servers=2")
    assert (count(leaf_spine, "switch"), len(leaf_spine.links)) == (5, 6 + 9)
    dragonfly = load("dragonfly:workers=35")
    assert (count(dragonfly, "switch"), len(dragonfly.links)) == (36, 9 * 6 + 9 * 8 // 2 + 36)
    assert set(degrees(dragonfly)[:36]) == {3 + 2 + 1}  # in the group, to others, a host
    rails = load("rails:rails=4,groups=2,spines=3,workers=7")
    assert (count(rails, "switch"), len(rails.links)) == (8 + 3, 8 * 3 + 8 * 4)
    of_host = {}
    for one in rails.links[8 * 3 :]:
        of_host.setdefault(one.a, []).append(one.b)
    assert all(
        b == [b[0], b[0] + 1, b[0] + 2, b[0] + 3] and b[0] % 4 == 0 for b in of_host.values()
    )


def test_groups_have_runs_of_workers_under_one_rack():
    network = load("leaf-spine:leaves=4,workers=16,servers=2,root=1,hosts=6")
    assert [job.group for job in network.jobs] == [(0, 2), (1, 2)]
    racks = [one.b for one in network.links if network.nodes[one.a].kind == "worker"]
    assert racks == sorted(racks)


@pytest.mark.parametrize(
    "source, cause",
    [
        ("fat-tree:", 'expected NAME=NUMBER at ""'),
        ("fat-tree:k", "expected NAME=NUMBER"),
        ("fat-tree:k=3", "k: expected an even number"),
        ("fat-tree:k=x", "k: expected a whole number from 2 to 64"),
        ("fat-tree:k=4.5", "k: expected a whole number"),
        ("fat-tree:link=0", "link: expected a number"),
        ("fat-tree:link=nan", "link: expected a number"),
        ("fat-tree:k=4 workers=3", "k: expected a whole number"),
        ("fat-tree:wheels=4", '"wheels": expected k, leaves'),
        ("fat-tree:k=64", "more than 16384 nodes or 65536 links"),
        ("fat-tree:k=4,workers=16", "too many: 17 hosts, places for 16; workers=15, or k=6"),
        (
            "fat-tree:k=4,workers=16,servers=2",
            "too many: 18 hosts, places for 16; workers=14, or k=6",
        ),
        (
            "leaf-spine:leaves=2,hosts=3,workers=6",
            "too many: 7 hosts, places for 6; workers=5, or hosts=4",
        ),
        ("star:hosts=1,servers=2,workers=2", "places for 1; hosts=4"),
        ("leaf-spine:leaves=1024,spines=1,hosts=4096", "hosts: 4096 under each of 1024"),
        ("star:largest=1", "largest: only where hosts are attached"),
        ("dragonfly:groups=12,routers=4,global=2", "join 9 groups; groups=9, or global=3"),
    ],
)
def test_numbers_that_cannot_be(source, cause):
    assert generate.is_made(source) and cause in why(load, source)


def test_what_is_made_and_what_is_a_file(tmp_path):
    assert generate.is_made("star") and not generate.is_made("fat-tree.json")
    with pytest.raises(files.FileError, match="none.json: No such file"):
        load(str(tmp_path / "none.json"))
    with pytest.raises(files.FileError, match="expected a regular file"):
        load(str(tmp_path))


# ---- attach ----

RING = (DATA / "ring.graphml").read_bytes()  # five switches


def test_hosts_are_attached_in_turn_at_the_rate_of_their_switch():
    network = attached(RING, "workers=9,servers=2,link=10,switch=30,seed=4")
    assert [count(network, kind) for kind in ("switch", "worker", "server")] == [5, 9, 2]
    assert network.links[3].gbps == 10  # the file does not say
    assert {degree - 2 for degree in degrees(network)[:5]} == {2, 3}  # eleven on five
    assert {node.gbps for node in network.nodes[:5]} == {30}


def test_names_that_are_taken_are_left_out():
    root = json.loads((LAB / "grid-example.json").read_text())
    text = json.dumps({key: root[key] for key in ("nodes", "links")}).encode()
    one, again, other = (attached(text, f"workers=3,seed={seed}").to_json() for seed in (1, 1, 9))
    assert one == again != other
    assert {node["name"] for node in one["nodes"]} >= {"W9", "W10", "W11"}


@pytest.mark.parametrize(
    "attach, cause",
    [
        ("workers=0", "workers: expected a whole number from 1"),
        ("k=4", '"k": expected workers, servers, link'),
        ("workers", 'expected NAME=NUMBER at "workers"'),
        ("workers=2,", "expected NAME=NUMBER"),
        ("workers=2;servers=1", "workers: expected a whole number"),
        (f"workers={NODES_MAX},link=1", f"more than {NODES_MAX} nodes or {LINKS_MAX} links"),
        ("workers=2", "links[3].gbps: expected a number above 0, got nothing"),
    ],
)
def test_hosts_that_cannot_be_attached(attach, cause):
    assert cause in why(attached, RING, attach)


def test_pieces_are_named_and_the_largest_kept():
    text = (
        b'<graph><node id="a"/><node id="b"/><node id="c"/><node id="d"/>'
        b'<edge source="b" target="c"/></graph>'
    )
    assert why(attached, text, "workers=2,link=10") == (
        'the network is in 3 pieces: 2 of its 4 nodes hang together with "b", but not "a"; add '
        "links, or attach hosts with largest=1 and leave out the rest"
    )
    network = attached(text, "workers=3,link=10,largest=1")
    first = network.links[0]
    assert (len(network.nodes), len(network.links)) == (2 + 4, 1 + 4)
    assert [network.nodes[end].name for end in (first.a, first.b)] == ["b", "c"]


def test_the_largest_piece_keeps_parents():
    """Also where nodes before them are left out; a parent that is left out is nobody's."""
    nodes = [{"name": name, "kind": "switch"} for name in "AB"]
    nodes[1:1] = [{"name": "GONE", "kind": "server"}]
    nodes += [{"name": "ROOT", "kind": "server"}]
    nodes += [{"name": "P", "kind": "server", "parent": "ROOT"}]
    nodes += [{"name": "Q", "kind": "server", "parent": "GONE"}]
    ends = (("A", "GONE"), ("ROOT", "B"), ("P", "B"), ("Q", "B"))
    root = {"nodes": nodes, "links": [link(a, b, 1) for a, b in ends]}
    network = attached(json.dumps(root).encode(), "workers=2,link=10,largest=1")
    found = {node["name"]: node.get("parent") for node in network.to_json()["nodes"][:4]}
    assert found == {"B": None, "ROOT": None, "P": "ROOT", "Q": None}
