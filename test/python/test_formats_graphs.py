# SPDX-License-Identifier: Apache-2.0
"""fanin.research.formats: general graph formats, as the tools write them, and rates with units."""

import json
import time

import pytest

from fanin.research.formats import FormatError, Rate, graph, load_network


def network(text, rate="", hosts=None):
    data = text if isinstance(text, bytes) else text.encode()
    return load_network("f", data, hosts, Rate(rate) if rate else None)


def why(text, rate=""):
    with pytest.raises(FormatError) as caught:
        network(text, rate)
    return str(caught.value)


def links(found):
    names = [node.name for node in found.nodes]
    return {(*sorted((names[one.a], names[one.b])), round(one.gbps, 9)) for one in found.links}


def names(found):
    return [node.name for node in found.nodes]


# ---- rates ----


@pytest.mark.parametrize(
    "text, gbps",
    [
        ("10 Gbit/s", 10), ("10Gbps", 10), ("10 gbps", 10), ("622 Mbit/s", 0.622), ("1.5 Tb/s", 1500), ("64 kb/s", 6.4e-5),
        ("12.5 GB/s", 100), ("5e9 b/s", None), ("100G", 100), ("10GE", 10), ("10", None), ("10 km", None), ("10 G apples", None),
        ("100 MBps", 0.8), ("155 Mbits/s", 0.155), ("1" * 30 + "Gbps", None), ("< 10 Gbps", None),
    ],
)  # fmt: skip
def test_a_rate_has_its_unit(text, gbps):
    assert graph.rate_gbps(text) == (None if gbps is None else pytest.approx(gbps))


@pytest.mark.parametrize(
    "text, cause",
    [
        ("0", "expected Gb/s, a number"),
        ("nan", "expected Gb/s, a number"),
        ("fast", "expected Gb/s, a number"),
        ("9" * 400, "expected Gb/s, a number"),
        ("capacity=", "expected ATTRIBUTE=UNIT"),
        ("capacity=parsecs", "expected ATTRIBUTE=UNIT"),
        ("=Mb/s", "expected ATTRIBUTE=UNIT"),
    ],
)
def test_a_rate_that_is_none(text, cause):
    with pytest.raises(FormatError, match=cause):
        Rate(text)


# ---- node-link JSON ----


def node_link(*edges, key="edges", **more):
    nodes = [{"id": name} for name in ("a", "b", "c")]
    rows = [{"source": a, "target": b, **of} for a, b, of in edges]
    return json.dumps(
        {"directed": False, "multigraph": False, "graph": {}, "nodes": nodes, key: rows, **more}
    )


@pytest.mark.parametrize("key", ["edges", "links"])
def test_both_names_of_edges(key):
    found = network(node_link(("a", "b", {"gbps": 4}), ("b", "c", {"gbps": 1}), key=key))
    assert links(found) == {("a", "b", 4), ("b", "c", 1)}
    assert found.summary == "node-link JSON: 3 switches; 2 links, 1 to 4 Gb/s"


def test_a_capacity_without_unit_is_asked_for():
    text = node_link(("a", "b", {"capacity": 40}), ("b", "c", {"capacity": 10}))
    assert "capacity 40: in which unit? --rate capacity=Mb/s" in why(text)
    assert links(network(text, "capacity=Mb/s")) == {("a", "b", 0.04), ("b", "c", 0.01)}
    assert links(network(text, "capacity=MB/s")) == {("a", "b", 0.32), ("b", "c", 0.08)}
    found = network(text, "25")
    assert links(found) == {("a", "b", 25), ("b", "c", 25)}
    assert "2 of 2 without a rate: 25 Gb/s" in found.summary


@pytest.mark.parametrize(
    "of, more, gbps",
    [
        ({"capacity": "10 Gbit/s"}, {}, 10),
        ({"capacity_mbps": 200}, {}, 0.2),
        ({"bandwidth_gbps": "7"}, {}, 7),
        ({"capacity": 155}, {"graph": {"capacity_unit": "Mbps"}}, 0.155),
        ({"capacity": 155}, {"graph": [["capacity_unit", "Mbps"], 7]}, 0.155),
        ({"LinkSpeed": "2.5", "LinkSpeedUnits": "G"}, {}, 2.5),
        ({"LinkSpeed": "45", "LinkSpeedUnits": "M", "LinkSpeedRaw": 45000000.0}, {}, 0.045),
        ({"label": "10G", "used_mbps": 3}, {}, 10),
    ],
)
def test_units_that_the_file_says(of, more, gbps):
    found = network(node_link(("a", "b", of), **more))
    assert links(found) == {("a", "b", gbps)}


def test_a_link_without_a_rate_is_refused_and_one_of_no_number_as_well():
    assert "links[0].gbps: expected a number above 0, got nothing" in why(
        node_link(("a", "b", {"weight": 3}))
    )
    assert "links[0].gbps: expected a number, got a text" in why(
        node_link(("a", "b", {"gbps": "x"}))
    )
    assert "gbps: 0: expected" in why(node_link(("a", "b", {"capacity": 0})), "capacity=Gb/s")


def test_directed_parallel_edges_and_loops():
    rows = ("a", "b", {"gbps": 4}), ("b", "a", {"gbps": 3}), ("a", "b", {"gbps": 2}), ("c", "c", {})
    found = network(node_link(*rows, directed=True, multigraph=True))
    assert links(found) == {("a", "b", 3)}  # 6 one way, 3 the other
    assert "1 links from a node to itself left out" in found.summary
    assert links(network(node_link(*rows))) == {("a", "b", 9)}


def test_identifiers_of_any_kind():
    text = json.dumps({"nodes": [{"id": [0, 1]}, {"id": 7, "label": "Wien"}, {"id": "x", "label": "Wien"}],
                       "edges": [{"source": [0, 1], "target": 7, "gbps": 1}]})  # fmt: skip
    assert names(network(text)) == ["(0, 1)", "Wien.7", "Wien.x"]
    d3 = json.dumps(
        {"nodes": [{"name": "a"}, {"name": "b"}], "links": [{"source": 0, "target": 1, "gbps": 2}]}
    )
    assert links(network(d3)) == {("a", "b", 2)}
    assert "expected the identifier of a node" in why('{"nodes": [{"id": {}}], "edges": []}')
    assert "edges[0]: expected an object" in why('{"nodes": [{"id": 1}], "edges": [7]}')
    assert "was there before" in why('{"nodes": [{"id": 1}, {"id": 1}], "edges": []}')
    assert 'no node "9"' in why(
        '{"nodes": [{"id": 1}], "edges": [{"source": 1, "target": 9, "gbps": 1}]}'
    )


# ---- GraphML ----


def graphml(body, keys="", of="undirected"):
    return f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{keys}<graph edgedefault="{of}">{body}</graph></graphml>'


PAIR = '<node id="a"/><node id="b"/>'
GBPS = '<key id="k" for="edge" attr.name="gbps" attr.type="double"/>'


def test_defaults_of_graphml():
    keys = (
        '<key id="k" for="edge" attr.name="gbps"><default>10</default></key>'
        '<key id="u" attr.name="background_gbps" for="edge"><default> 9 </default></key>'
        '<key id="w" for="node" attr.name="kind"><default>worker</default></key>'
    )
    found = network(graphml(PAIR + '<edge source="a" target="b"/>', keys))
    assert (found.links[0].gbps, found.links[0].background_gbps) == (10, 9)
    assert {node.kind for node in found.nodes} == {"worker"}
    own = '<edge source="a" target="b"><data key="k">40</data><data key="u">0</data></edge>'
    found = network(graphml(PAIR + own, keys))
    assert (found.links[0].gbps, found.links[0].background_gbps) == (40, 0)


def test_prefixes_ports_and_nested_data():
    text = (
        '<g:graphml xmlns:g="http://graphml.graphdrawing.org/xmlns"><g:key id="k" for="all" attr.name="gbps"/><g:graph>'
        '<g:node id="a"><g:port name="p"><g:data key="k">77</g:data></g:port></g:node><g:node id="b"/>'
        '<g:edge source="a" target="b" sourceport="p"><g:data key="k">5</g:data></g:edge></g:graph></g:graphml>'
    )
    found = network(text)
    assert links(found) == {("a", "b", 5)} and found.nodes[0].gbps == 0


def test_a_hyperedge_is_refused_by_name():
    text = graphml(
        PAIR + '\n<hyperedge id="h1"><endpoint node="a"/><endpoint node="b"/></hyperedge>'
    )
    assert "line 2: a hyperedge h1: a link has two ends" in why(text)


def test_labels_of_the_topology_zoo_name_nodes():
    keys = '<key id="l" for="node" attr.name="label"/>' + GBPS
    body = "".join(
        f'<node id="{i}"><data key="l">{name}</data></node>'
        for i, name in enumerate(["Wien", "None", "None", "x" * 64])
    )
    found = network(
        graphml(body + '<edge source="0" target="1"><data key="k">1</data></edge>', keys)
    )
    assert names(found) == ["Wien", "None.1", "None.2", "3"]


YED = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:y="http://www.yworks.com/xml/graphml">
<key for="port" id="d1" yfiles.type="portgraphics"/><key for="node" id="d6" yfiles.type="nodegraphics"/>
<key attr.name="description" attr.type="string" for="edge" id="d9"/><key for="edge" id="d10" yfiles.type="edgegraphics"/>
<graph edgedefault="directed" id="G">
<node id="n0"><data key="d6"><y:ShapeNode><y:Geometry height="30.0"/><y:NodeLabel>spine1<y:LabelModel/></y:NodeLabel></y:ShapeNode></data></node>
<node id="n1" yfiles.foldertype="group"><data key="d6"><y:ProxyAutoBoundsNode><y:Realizers><y:GroupNode><y:NodeLabel>rack</y:NodeLabel>
</y:GroupNode></y:Realizers></y:ProxyAutoBoundsNode></data><graph edgedefault="directed" id="n1:">
<node id="n1::n0"><data key="d6"><y:ShapeNode><y:NodeLabel>leaf1</y:NodeLabel></y:ShapeNode></data></node></graph></node>
<edge id="e0" source="n0" target="n1::n0"><data key="d10"><y:PolyLineEdge><y:EdgeLabel>40 Gbit/s<y:LabelModel/></y:EdgeLabel></y:PolyLineEdge></data></edge>
</graph></graphml>"""


def test_yed_has_labels_in_its_drawings_and_groups():
    found = network(YED)
    assert links(found) == {("leaf1", "spine1", 40)} and names(found) == ["spine1", "leaf1"]
    assert found.summary == "GraphML: 2 switches; 1 links, 40 Gb/s; 1 groups of nodes left out"


def test_gephi_names_its_keys_by_attribute():
    text = (
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key attr.name="label" attr.type="string" for="node" id="label"/>'
        '<key attr.name="Edge Label" attr.type="string" for="edge" id="edgelabel"/><key attr.name="weight" attr.type="double" for="edge" id="weight"/>'
        '<key attr.name="r" attr.type="int" for="node" id="r"/><graph edgedefault="undirected"><node id="0"><data key="label">tor1</data><data key="r">153</data></node>'
        '<node id="1"><data key="label">tor2</data></node><edge id="0" source="0" target="1"><data key="weight">25.0</data></edge></graph></graphml>'
    )
    assert links(network(text, "weight=Gb/s")) == {("tor1", "tor2", 25)}


# ---- GML ----

GML = """Creator "igraph version 1.0.0 Sun Nov 29 2026"
Version 1
graph
[
  directed 0
  node
  [
    id 0
    name "a &#38; b"
    graphics [ x 1.5 y -2e3 fill "#FFCC00" ]
  ]
  node [ id 1 label "K\u00f6ln" ]
  node [ id 2 label "K\u00f6ln" ]  # twice
  edge [ source 0 target 1 LinkSpeed "155" LinkSpeedUnits "M" ]
  edge [ source 0 target 2 gbps 1E1 ]
]
"""


def test_gml_of_igraph_yed_and_the_zoo():
    found = network(GML)
    assert names(found) == ["a & b", "Köln.1", "Köln.2"]
    assert links(found) == {("Köln.1", "a & b", 0.155), ("Köln.2", "a & b", 10)}
    assert names(network(GML.encode("latin-1")))[1] == "Köln.1"


@pytest.mark.parametrize(
    "text, cause",
    [
        ("graph [ node [ id 0 ]", "line 1: not GML"),
        ("graph [\n node ] ]", "line 2: not GML: '] ]'"),
        ("graph [ ] graph [ ]", "2 graphs in it"),
        ("graph [ node [ label 0 ] ]", "node: one without id"),
        ("graph [ node 7 ]", "node: expected a list"),
        ("graph [ node [ id 0 ] edge [ source 0 ] ]", "edge: one without its ends"),
        ("graph [ " + "a [ " * 100 + "] " * 101, "not GML"),
        ("graph [ ]", "there is none: the file is blank"),
    ],
)
def test_broken_gml(text, cause):
    assert cause in why(text)


# ---- the tools themselves ----


def sample(module):
    """A directed multigraph of three nodes, with rates."""
    made = module.MultiDiGraph()
    for a, b, gbps in (
        ("a", "b", 4.0),
        ("b", "a", 3.0),
        ("a", "b", 2.0),
        ("b", "c", 8.0),
        ("c", "b", 8.0),
    ):
        made.add_edge(a, b, gbps=gbps)
    return made


def test_what_networkx_writes():
    module = pytest.importorskip("networkx")
    texts = [json.dumps(module.node_link_data(sample(module)))]
    texts += [
        "\n".join(write(sample(module))) for write in (module.generate_graphml, module.generate_gml)
    ]
    for text in texts:
        assert links(network(text)) == {("a", "b", 3), ("b", "c", 8)}, text[:200]


def test_what_igraph_writes(tmp_path):
    module = pytest.importorskip("igraph")
    made = module.Graph.TupleList([("a", "b", 4.0), ("b", "c", 8.0)], edge_attrs=["bandwidth"])
    made.es["n"] = [float("nan"), 1.0]
    for write in (made.write_graphml, made.write_gml):
        write(str(tmp_path / "f"))
        assert links(network((tmp_path / "f").read_bytes(), "bandwidth=Gb/s")) == {
            ("a", "b", 4),
            ("b", "c", 8),
        }


def large(nodes, edges):
    """Rows of a graph: a ring, and chords."""
    return [(i % nodes, (i + 1 + i // nodes) % nodes) for i in range(edges)]


def test_ten_thousand_nodes_and_fifty_thousand_links(capsys):
    nodes, rows = 10000, large(10000, 50000)
    texts = {
        "node-link JSON": json.dumps({"nodes": [{"id": i} for i in range(nodes)],
                                      "edges": [{"source": a, "target": b, "gbps": 10} for a, b in rows]}),
        "GraphML": graphml("".join(f'<node id="n{i}"/>' for i in range(nodes)) + "".join(
            f'<edge source="n{a}" target="n{b}"><data key="k">10</data></edge>' for a, b in rows), GBPS),
        "GML": "graph [ " + "".join(f'node [ id {i} label "n{i}" ]\n' for i in range(nodes)) + "".join(
            f"edge [ source {a} target {b} gbps 10 ]\n" for a, b in rows) + "]",
    }  # fmt: skip
    for form, text in texts.items():
        start = time.process_time()
        found = network(text)
        seconds = time.process_time() - start
        with capsys.disabled():
            print(
                f"\n{form}: {len(found.nodes)} nodes, {len(found.links)} links in {seconds:.2f} s of a core"
            )
        assert (len(found.nodes), len(found.links)) == (nodes, 50000)
