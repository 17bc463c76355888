# SPDX-License-Identifier: Apache-2.0
"""fanin.research.formats: files of simulators, clusters and hosts, archives, and what is refused."""

import gzip
import io
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from test_formats_graphs import PAIR, graphml, links, names, network, why

from fanin.research import fields, network as research_network
from fanin.research.formats import Attach, door, gml, load_network, slurm, xmltree, yaml

PYTHON = Path(__file__).resolve().parents[2] / "python"


def kinds(found):
    return "".join(node.kind[0] for node in found.nodes)


# ---- SNDlib ----

NATIVE = """?SNDlib native format; type: network; version: 1.0
# network sample
META (
  unit = MBITPERSEC
)
NODES (
  Wien ( 16.37 48.2 )
  Graz ( 15.4 47.1 )  # and Linz
  Linz ( 14.3 48.3 )
)
LINKS (
  L1 ( Wien Graz ) 9920.00 0.00 0.00 0.00 ( 40000.00 133.00 )
  L2 (Graz Linz) 2480.00 0.00 0.00 0.00 ( )
)
DEMANDS (
  D1 ( Wien Linz ) 1 195.00 UNLIMITED
)
"""
MODULES = (
    NATIVE.replace("  unit = MBITPERSEC\n", "")
    .replace("9920.00", "0.00")
    .replace("2480.00", "0.00")
)
XML = """<?xml version="1.0" encoding="ISO-8859-1"?><network xmlns="http://sndlib.zib.de/network" version="1.0"><networkStructure>
<nodes coordinatesType="geographical"><node id="Wien"><coordinates><x>16.37</x><y>48.2</y></coordinates></node><node id="Graz"/></nodes>
<links><link id="L1"><source>Wien</source><target>Graz</target>%s<additionalModules><addModule><capacity>40.0</capacity><cost>1.0</cost>
</addModule><addModule><capacity>80.0</capacity></addModule></additionalModules></link></links></networkStructure>
<demands><demand id="D"><source>Wien</source><target>Graz</target><demandValue>7.0</demandValue></demand></demands></network>"""


def test_sndlib_native_has_its_unit_in_its_meta_section():
    found = network(NATIVE)
    assert links(found) == {("Graz", "Wien", 9.92), ("Graz", "Linz", 2.48)} and names(found) == [
        "Wien",
        "Graz",
        "Linz",
    ]
    assert "capacity 9920: in which unit?" in why(NATIVE.replace("unit", "time"))


def test_modules_of_sndlib_are_no_capacity_unless_asked_for():
    assert "links[0].gbps: expected a number above 0, got nothing" in why(MODULES)
    text = MODULES.replace("( )", "( 155.00 2.00 622.00 3.00 )")
    assert links(network(text, "module=Mb/s")) == {("Graz", "Wien", 40), ("Graz", "Linz", 0.155)}


def test_sndlib_xml():
    installed = "<preInstalledModule><capacity>10.0</capacity><cost>0</cost></preInstalledModule>"
    assert links(network(XML % installed, "capacity=Gb/s")) == {("Graz", "Wien", 10)}
    assert links(network(XML % "", "module=Gb/s")) == {("Graz", "Wien", 40)}


@pytest.mark.parametrize(
    "text, cause",
    [
        (NATIVE.replace("network;", "model;"), "an SNDlib model: expected a network"),
        (NATIVE.replace("L2 (", "L2 "), 'LINKS: "L2 Graz Linz)'),
        (NATIVE.replace("Linz)", "Rom)"), 'no node "Rom"'),
    ],
)
def test_broken_sndlib(text, cause):
    assert cause in why(text)


# ---- Slurm ----

CONF = """# topology.conf
SwitchName=s0 Nodes=tux[0-2,05] LinkSpeed=900
SwitchName=s1 Nodes=tux[10-11]n[1-2] \\
  LinkSpeed=900
switchname=top switches=s[0-1]
"""
YAML = """---
- topology: flat
  flat: true
- topology: main
  cluster_default: true
  tree:
    switches:
      - switch: top  # the root
        children: s[0-1]
      - switch: s0
        nodes: tux[0-2,05]
      - switch: s1
        nodes: tux[10-11]n[1-2]
"""


def test_a_tree_of_slurm():
    for text in (CONF, YAML):
        found = network(text, "200")
        hosts = ["tux0", "tux1", "tux2", "tux05", "tux10n1", "tux10n2", "tux11n1", "tux11n2"]
        assert [name for name in names(found) if name[0] == "t" and name != "top"] == hosts
        assert (
            kinds(found).count("w") == 8 and len(found.links) == 10 and found.links[0].gbps == 200
        )
        assert "10 of 10 without a rate: 200 Gb/s" in found.summary
    assert 'topology "main" of 2' in found.summary
    assert "links[0].gbps: expected a number above 0, got nothing" in why(CONF)


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("a", ["a"]),
        ("", []),
        ("a,b[1-3,7]c,d", ["a", "b1c", "b2c", "b3c", "b7c", "d"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("r[1-2]n[0-1]", ["r1n0", "r1n1", "r2n0", "r2n1"]),
    ],
)
def test_hostlists(text, wanted):
    assert slurm.expand(text) == wanted


@pytest.mark.parametrize(
    "text, cause",
    [
        ("SwitchName=s Nodes=n[0-999999999999]", "more than 16384 names"),
        ("SwitchName=s Nodes=n[0-9999]m[0-9999]", "more than 16384 names"),
        ("SwitchName=s Nodes=n[a-b]", "expected numbers and ranges"),
        ("SwitchName=s Nodes=n[1-2", "a bracket that is not closed"),
        ("SwitchName=s Nodes=" + "n[1]" * 200, "more than 64 brackets"),
        ("SwitchName=s Switches=t", 'switch "s": no switch "t"'),
        ("SwitchName=s Nodes=s2\nSwitchName=s2 Nodes=a", '"s2" is a switch and a node'),
        ("SwitchName=s[1-2] Nodes=a", "line 1: SwitchName: expected one name"),
        ("BlockName=b Nodes=n[1-4]\nBlockSizes=4", "a topology of the kind block"),
        ("- topology: t\n  ring:\n    rings: []", "a topology of the kind ring"),
        ("- topology: t\n  tree: {switches: 7}", "tree.switches: expected a list"),
    ],
)
def test_hosts_that_cannot_be(text, cause):
    assert cause in why(text, "1")


# ---- ibnetdiscover ----

IBNET = """#
# Topology file: generated on Sun Nov 29 12:00:00 2026
#
vendid=0x2c9
switchguid=0xa1(a1)
Switch	36 "S-00000000000000a1"		# "MF0;leaf1:MQM9700/U1" enhanced port 0 lid 1 lmc 0
[1]	"H-00000000000000b1"[1](b1) 		# "node7 mlx5_0" lid 2 4xEDR
[2]	"H-00000000000000b2"[1](b2) 		# "node7 mlx5_1" lid 3 2xNDR
[3]	"H-00000000000000b3"[1](b3) 		# "old HCA-1" lid 4 4xQDR
[30]	"S-00000000000000a2"[30]		# "spine1" lid 5 4xHDR
[31]	"S-00000000000000a2"[31]		# "spine1" lid 5 4xHDR
[37]	"H-00000000000000a9"[1](a9) 		# "Mellanox Technologies Aggregation Node" lid 9 4xHDR

switchguid=0xa2(a2)
Switch	36 "S-00000000000000a2"		# "spine1" base port 0 lid 5 lmc 0
[30]	"S-00000000000000a1"[30]		# "MF0;leaf1:MQM9700/U1" lid 1 4xHDR
[31]	"S-00000000000000a1"[31]		# "MF0;leaf1:MQM9700/U1" lid 1 4xHDR

caguid=0xb1
Ca	1 "H-00000000000000b1"		# "node7 mlx5_0"
[1](b1) 	"S-00000000000000a1"[1]		# lid 2 lmc 0 "MF0;leaf1:MQM9700/U1" lid 1 4xEDR

Ca	1 "H-00000000000000b2"		# "node7 mlx5_1"
[1](b2) 	"S-00000000000000a1"[2]		# lid 3 lmc 0 "MF0;leaf1:MQM9700/U1" lid 1 2xNDR

Ca	1 "H-00000000000000b3"		# "old HCA-1"
[1](b3) 	"S-00000000000000a1"[3]		# lid 4 lmc 0 "MF0;leaf1:MQM9700/U1" lid 1 4xQDR

Ca	1 "H-00000000000000a9"		# "Mellanox Technologies Aggregation Node"
[1](a9) 	"S-00000000000000a1"[37]		# lid 9 lmc 0 "MF0;leaf1:MQM9700/U1" lid 1 4xHDR
"""


def test_cables_of_ibnetdiscover_count_once_with_the_rate_of_their_data():
    found = network(IBNET)
    assert links(found) == {("leaf1", "node7", 300), ("leaf1", "old", 32), ("leaf1", "spine1", 400)}
    assert kinds(found) == "sswww"[: len(found.nodes)] and "1 aggregation nodes" in found.summary
    twins = IBNET.replace("node7 mlx5_0", "MT4129 ConnectX7").replace(
        "node7 mlx5_1", "MT4129 ConnectX7"
    )
    assert "H-00000000000000b2" in names(network(twins))
    assert "which is not described" in why(IBNET.replace('Ca	1 "H-00000000000000b3"', "Xx"))


# ---- HPCC, SimAI, ASTRA-sim ----

HPCC = "4 1 3\n3\n0 3 100Gbps 0.001ms 0\n1 3 25Gbps 1000ns 0.000000\n2 3 100Gbps 1us 0\n"
SIMAI = (
    "7 2 2 1 6 H100\n4 5 6\n0 4 2880Gbps 0.000025ms 0\n1 4 2880Gbps 0.000025ms 0\n2 5 2880Gbps 0.000025ms 0\n"
    + ("3 5 2880Gbps 0.000025ms 0\n0 6 400Gbps 0.0005ms 0\n2 6 400Gbps 0.0005ms 0\n")
)


def test_topologies_of_hpcc_and_simai():
    found = network(HPCC)
    assert (
        links(found) == {("S3", "W0", 100), ("S3", "W1", 25), ("S3", "W2", 100)}
        and kinds(found) == "wwws"
    )
    assert [one.delay_us for one in found.links] == [1, 1, 1]
    found = network(SIMAI)
    assert kinds(found) == "wwwwsss" and ("S6", "W2", 400) in links(found) and len(found.links) == 6
    assert "1 lines behind the last link left out" in network(HPCC + "0 1 9Gbps 1us 0\n").summary


@pytest.mark.parametrize(
    "text, cause",
    [
        (
            HPCC.replace("4 1 3", "4 1 5"),
            "1 switches and 3 links in it, where its first line has 1 and 5",
        ),
        (HPCC.replace("4 1 3", "999999999 1 3"), "more than 16384 nodes"),
        (
            HPCC.replace("1 3 25Gbps", "1 3 25"),
            '"1 3 25 1000ns 0.000000": expected two nodes, a rate',
        ),
        (HPCC.replace("1 3 25Gbps", "9 3 25Gbps"), "expected two nodes"),
    ],
)
def test_broken_topologies(text, cause):
    assert cause in why(text)


def astra(shapes, counts, gigabytes, ns):
    return f"# dimensions\ntopology: [ {shapes} ]  # Ring, Switch\nnpus_count: {counts}\nbandwidth: {gigabytes}  # GB/s\nlatency: {ns}\n"


def test_dimensions_of_astra_sim():
    found = network(astra("Switch", [4], [50.0], [500.0]))
    assert kinds(found) == "wwwws" and {(one.gbps, one.delay_us) for one in found.links} == {
        (400, 0.5)
    }
    found = network(astra("Ring, Switch", [4, 2], [200.0, 50.0], [50, 500]))
    assert (kinds(found).count("w"), kinds(found).count("s")) == (8, 8 + 4)
    assert len(found.links) == 2 * 4 + 4 * 2 + 8 and links(found) >= {
        ("npu0.port", "npu1.port", 1600),
        ("npu0", "npu0.port", 3600),
    }
    assert ("dim1.switch3", "npu7.port", 400) in links(found)
    assert len(network(astra("FullyConnected", [5], [1.0], [1])).links) == 10 + 5


@pytest.mark.parametrize(
    "text, cause",
    [
        (astra("Torus", [4], [1], [1]), '"Torus": expected Ring, FullyConnected or Switch'),
        (astra("Ring", [4, 2], [1], [1]), "npus_count: expected a list, as long as topology's"),
        (astra("Ring", [10**9], [1], [1]), "npus_count: expected 2 to 8192"),
        (astra("Ring", ["x"], [1], [1]), "npus_count: expected a list of numbers"),
        (astra("FullyConnected", [8192], [1], [1]), "FullyConnected: more than 65536 links"),
    ],
)
def test_dimensions_that_cannot_be(text, cause):
    assert cause in why(text)


# ---- containerlab ----

CLAB = """name: clos  # a comment
topology:
  kinds:
    linux: {image: "alpine:3"}
  nodes:
    leaf1:
      kind: nokia_srlinux
      startup-config: |
        set / # no comment here
          interface: e1-1
    leaf2: {kind: nokia_srlinux, type: ixr-d2l}
    client1: {kind: linux}
    client2:
      kind: linux
  links:
    - endpoints: ["leaf1:e1-1", "leaf2:e1-1"]
    - endpoints:
        - client1:eth1
        - 'leaf1:e1-2'
    - type: veth
      endpoints:
      - node: client2
        interface: eth1
      - {node: leaf2, interface: e1-2}
    - endpoints: [leaf1:e1-9, host:veth0]
    - {type: mgmt-net, endpoint: {node: leaf2, interface: e1-9}}
"""


def test_links_of_containerlab():
    found = network(CLAB, "25")
    assert names(found) == ["leaf1", "leaf2", "client1", "client2"] and kinds(found) == "ssww"
    assert links(found) == {
        ("leaf1", "leaf2", 25),
        ("client1", "leaf1", 25),
        ("client2", "leaf2", 25),
    }
    assert "2 links to what is outside of the lab left out" in found.summary
    assert "links: expected endpoints" in why(CLAB.replace(", host:veth0", ""), "1")


@pytest.mark.parametrize(
    "text, cause",
    [
        ("a: &x 1\ntopology: {nodes: {}}", "line 1: an anchor, alias or tag"),
        ("a:\n  b: [*x, *x]", "line 2: expected a value at '*x, *x]'"),
        ("a:\n  <<: {b: 1}", "line 2: a merge"),
        ("a: 1\na: 2", 'line 2: "a" twice'),
        ("a:\n\tb: 1", "line 2: a tab in the indent"),
        ("a: [1, 2", "line 1: expected a comma"),
        ("a: " + "[" * 100, "line 1: more than 32 collections"),
        ("".join(" " * i + "a:\n" for i in range(100)), "more than 32 collections"),
        ("- " * 100 + "a", "more than 32 collections"),
        ("a: 1\n  b: 2\nc", "not YAML as it is read here: 'c'"),
        (
            "version: 3\nservices: {}",
            "it looks like YAML of another kind; networks are read as JSON",
        ),
    ],
)
def test_yaml_that_is_refused(text, cause):
    assert cause in why(text)


def test_yaml_says_the_same_as_by_pyyaml():
    module = pytest.importorskip("yaml")
    for text in (YAML, CLAB, astra("Ring, Switch", [4, 2], [200.0, .5], [50, 500]),
                 "a: 'it''s'\nb: \"x\\ty # z\"\nc: [1, -2.5, true, null, ~, [x: 1, y], {k: v, e: }]\nd:\n- - 1\n  - 2\n- {}\ne: one\n  two\nf: http://x:80\n"):  # fmt: skip
        wanted = module.safe_load(text)
        found = yaml.parse(text)
        if isinstance(found, dict) and "topology" in found and "nodes" in found["topology"]:
            for root in (wanted, found):  # texts in lines keep no indent here
                root["topology"]["nodes"]["leaf1"].pop("startup-config")
        assert found == wanted


# ---- NCCL ----

HOST = """<system version="1">
<cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel">
 <pci busid="0000:10:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
  <pci busid="0000:11:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="0000:21:00.0" count="12"/></gpu></pci>
  <pci busid="0000:12:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16"><nic>
   <net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x1"/><net name="mlx5_0" dev="1" speed="100000" port="2"/></nic></pci>
 </pci>
</cpu>
<cpu numaid="1"><pci busid="0000:21:00.0" class="0x030200" link_speed="8 GT/s" link_width="8"><gpu dev="1"/></pci></cpu>
</system>"""


def test_the_inside_of_a_host():
    found = network(HOST, "300")
    lane = 16 * 128 / 130 * 16
    wanted = {("cpu0", "cpu1", 300), ("cpu0", "pci0000:10:00.0", lane), ("gpu0", "pci0000:10:00.0", lane), ("cpu1", "gpu1", lane / 4),
              ("pci0000:10:00.0", "pci0000:12:00.0", lane), ("mlx5_0", "pci0000:12:00.0", 200), ("mlx5_0.2", "pci0000:12:00.0", 100)}  # fmt: skip
    assert links(found) == {(*row[:2], round(row[2], 9)) for row in wanted}
    assert "cards in Gb/s: mlx5_0 200, mlx5_0.2 100; 1 ends of NVLink or XGMI" in found.summary
    assert kinds(found).count("w") == 2
    assert "no GPU and no card" in why('<system version="1"><cpu numaid="0"/></system>')


# ---- the door ----


@pytest.mark.parametrize(
    "text, near",
    [
        (b"", "it is empty"),
        (b"\x80\x04\x95\0\0", "it looks like no text"),
        (b"digraph G { a -> b }", "it looks like graphviz's DOT"),
        (b'<?xml version="1.0"?><gexf version="1.3"/>', "it looks like XML of another kind"),
        (b"<html/>", "it looks like a page of the web"),
        (b"hosts: 4\n", "it looks like YAML of another kind"),
        (b"a b 10\nb c 20\n", "it looks like a list of edges"),
        (b"import networkx\nx = 1\n", "it looks like none of these"),
        (b'{"a": 1, "b": [2]}', 'JSON of another kind, with "a", "b"'),
    ],
)
def test_a_file_of_no_form_is_refused_with_what_is_near(text, near):
    said = why(text)
    assert (
        said.startswith(near) and "; networks are read as JSON, node-link JSON, GraphML, " in said
    )


def tar_of(*texts):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for i, text in enumerate(texts):
            row = tarfile.TarInfo(f"f{i}")
            row.size = len(text)
            archive.addfile(row, io.BytesIO(text))
    return made.getvalue()


def zip_of(*texts, how=zipfile.ZIP_DEFLATED):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", how) as archive:
        for i, text in enumerate(texts):
            archive.writestr(f"f{i}", text)
    return made.getvalue()


def test_archives_of_one_file_are_opened():
    text = CONF.encode()
    for data in (gzip.compress(text), zip_of(text), tar_of(text), gzip.compress(tar_of(text))):
        assert len(network(data, "1").links) == 10


@pytest.mark.parametrize(
    "data, cause",
    [
        (zip_of(b"a", b"b"), "an archive of 2 files: expected one"),
        (zip_of(b"a" * 99, how=zipfile.ZIP_LZMA), "expected a file that is stored or deflated"),
        (gzip.compress(b"a" * 9999)[:-9], "gzip that ends too early"),
        (b"\x1f\x8b" + b"x" * 99, "an archive that is broken"),
        (b"PK\x03\x04" + b"x" * 99, "an archive that is broken"),
        (tar_of(b"a" * 9999)[:600], "an archive that is broken"),
        (gzip.compress(gzip.compress(gzip.compress(b"a"))), "it looks like no text"),
    ],
)
def test_archives_that_are_not(data, cause):
    assert cause in why(data)


def test_what_an_archive_grows_to_is_bounded(monkeypatch):
    monkeypatch.setattr(door, "BYTES_MAX", 1 << 20)
    zeros = bytes(5 << 20)
    for data in (gzip.compress(zeros), zip_of(zeros), gzip.compress(tar_of(zeros))):
        assert "more than 1 MiB" in why(data)


def test_guards_of_xml(monkeypatch):
    assert "line 1: more than 256 elements inside each other" in why("<graphml>" * 300)
    assert "line 1: an entity" in why('<!DOCTYPE g [<!ENTITY a "aa">]><graphml>&a;</graphml>')
    long = graphml(PAIR) + " " * 999
    for text in (f'<graphml x="{"y" * 9999}">', f"<graphml><!--{'y' * 9999}", long):
        monkeypatch.setattr(xmltree, "CHUNK_BYTES", 100)
        monkeypatch.setattr(xmltree, "CHUNKS_MAX", 4)
        if text is not long:
            assert "a tag or comment of more than" in why(text)
    monkeypatch.undo()
    monkeypatch.setattr(xmltree, "ELEMENTS_MAX", 3)
    assert "more than 3 elements" in why(graphml(PAIR))


def test_guards_of_other_forms(monkeypatch):
    monkeypatch.setattr(door, "LINES_MAX", 5)
    assert "more than 5 lines" in why(CONF * 3)
    monkeypatch.setattr(door, "LINE_BYTES_MAX", 20)
    assert "a line of more than 0 KiB" in why("SwitchName=s0 Nodes=tux[0-2,05]\n")
    monkeypatch.setattr(door, "YAML_BYTES_MAX", 20)
    assert "YAML of more than" in why(CLAB)
    monkeypatch.setattr(door, "LISTS_MAX", 2)
    assert "more values than a network has" in why('{"nodes": [1, 2, 3, 4]}')
    monkeypatch.setattr(gml, "VALUES_MAX", 3)
    assert "more than 3 keys" in why("graph [ node [ id 0 ] node [ id 1 ] ]")


def test_a_gibibyte_of_nothing_is_refused_in_little_memory(tmp_path):
    big = tmp_path / "big"
    with open(big, "wb") as file:
        file.truncate(1 << 30)
    program = (
        "import re, sys; from fanin.research import formats; status = formats.main([]); "
        "print(re.search('VmHWM:\\s*([0-9]+)', open('/proc/self/status').read())[1]); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=f"{big}\n",
        env={"PYTHONPATH": str(PYTHON)},
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2 and "more than 64 MiB" in done.stderr
    assert int(done.stdout) < 500 << 10


def test_servers_join_the_workers_that_a_file_has():
    found = load_network("f", CONF.encode(), Attach("servers=1,switch=10,link=40"))
    assert kinds(found).count("w") == 8 and names(found)[-1] == "PS1"


def test_a_scenario_gives_the_rate_of_links_without_one(tmp_path):
    (tmp_path / "topology.conf").write_text(CONF)
    scenario = {"topology": {"from": "topology.conf", "rate": 25, "attach": "servers=1"}}
    place = fields.Place(str(tmp_path / "scenario.json"))
    found = research_network.given(place, scenario)["topology"]
    assert {link["gbps"] for link in found["links"]} == {25} and len(found["links"]) == 11
    assert research_network.summaries[-1].startswith("topology.conf: topology.conf of Slurm: ")


def test_what_few_files_need_is_loaded_for_them():
    """`fanin sim` and `fanin plan` start sooner."""
    program = (
        "import sys; fanin = sys.modules['fanin'] = type(sys)('fanin'); "
        f"fanin.__path__ = [{str(PYTHON / 'fanin')!r}]; import fanin.research.sim; print(*sys.modules)"
    )
    command = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not {"html", "pickletools", "tarfile", "zipfile"} & set(done.stdout.split())
