# SPDX-License-Identifier: Apache-2.0
"""A topology that is generated from numbers or read from a planner's file.

"topology" is "fat-tree:k=4,workers=16", or the name of a file, or an object with one of these as
"from", and "attach" and "rate" as `fanin plan` has them.  The result has what topology.py reads: nodes and links.
"""

from __future__ import annotations

import json
import os
from typing import Any

from . import files, formats
from .fields import NAME_MAX, NAME_SET, Field, Place, read

TEXT_MAX = 64 << 20

_KINDS = {"worker": "workers", "switch": "switches", "server": "servers"}
_FIELDS = {
    key: Field("other")
    for key in ("from", "attach", "rate", "workers", "switches", "servers", "links")
}


def data_of(
    place: Place, key: str, name: str, is_text: bool = True, bytes_max: int = TEXT_MAX
) -> bytes:
    """What is in a file that the scenario names, relative to its own folder."""
    path = os.path.join(os.path.dirname(place.file), name)
    with place.of(key):
        data = files.read(path, bytes_max)
    if is_text and b"\0" in data:
        place.fail(key, f"{path}: is no text: it has zeros")
    return data


def text_of(place: Place, key: str, name: str) -> str:
    """The same as text."""
    return data_of(place, key, name).decode("utf-8", "surrogateescape")


def _plain_name(name: str) -> str:
    """Names of cities may have blanks and accents; those of nodes here must not."""
    return "".join(c if c in NAME_SET else "_" for c in name.encode()[:NAME_MAX].decode("latin-1"))


def _node(given: dict[str, Any], planned: bool) -> dict[str, Any]:
    """A switch that cannot sum becomes a router.

    Under a plan, a switch sums at the rate that the plan has for it; without one, at any rate."""
    kind, gbps = given["kind"], given.get("gbps")
    is_switch = kind == "switch"
    node = {"name": _plain_name(given["name"])}
    node["kind"] = "router" if is_switch and gbps is None else kind
    if "parent" in given:
        node["parent"] = _plain_name(given["parent"])
    if gbps is not None and (not is_switch or planned):
        node["sums_gbps" if is_switch else "gbps"] = gbps
    return node


def _link(given: dict[str, Any]) -> dict[str, Any]:
    gbps = float(given.get("gbps", 0)) - float(given.get("background_gbps", 0))
    link = {"a": _plain_name(given["a"]), "b": _plain_name(given["b"]), "gbps": gbps}
    if float(given.get("delay_us", 0)) > 0:
        link["delay_us"] = float(given["delay_us"])
    return link


def _topology(network: Any, given: dict[str, Any], planned: bool) -> dict[str, Any]:
    """The network's nodes and links, with what all of a kind have besides."""
    nodes = [_node(node, planned) for node in network["nodes"]]
    for node in nodes:
        node.update(given.get(_KINDS.get(node["kind"], ""), {}))
    return {
        "nodes": nodes,
        "links": [{**_link(l), **given.get("links", {})} for l in network["links"]],
    }


def _check(place: Place, given: dict[str, Any]) -> None:
    read(place, given, _FIELDS)
    if not isinstance(given["from"], str):
        place.fail("from", "expected fat-tree:k=4,workers=16 or the like, or the name of a file")
    if not isinstance(given.get("attach", ""), str):
        place.fail("attach", "expected a text like workers=8,servers=1")
    if not isinstance(given.get("rate", ""), (str, int, float)):
        place.fail("rate", "expected Gb/s, or a text like capacity=Mb/s")
    for key in ("workers", "switches", "servers", "links"):
        if not isinstance(given.get(key, {}), dict):
            place.fail(key, "expected an object: what each of them has")


_networks: dict[tuple[str, bytes, str, str], Any] = {}  # a sweep asks for one again and again
summaries: list[str] = []  # lines for people about the files that were read


def _network(place: Place, given: dict[str, Any]) -> Any:
    """The network that is made or read, with numbers of 15 digits as the engine prints them."""
    source, attach, rate = given["from"], given.get("attach", ""), str(given.get("rate", ""))
    data = b"" if formats.is_made(source) else data_of(place, "from", source, False)
    key = source, data, attach, rate
    if key not in _networks:
        with place.of("", source):
            hosts = formats.Attach(attach) if "attach" in given else None
            network = formats.load_network(
                source, data, hosts, formats.Rate(rate) if rate else None
            )
        if network.summary:
            summaries.append(f"{source}: {network.summary}")
        _networks[key] = json.loads(files.dump(network.to_json()))
    return _networks[key]


def given(place: Place, root: Any) -> Any:
    """The scenario with its topology as nodes and links, if a text or a file gives that."""
    topology = root.get("topology") if isinstance(root, dict) else None
    if isinstance(topology, str):
        topology = {"from": topology}
    elif not isinstance(topology, dict) or "from" not in topology:
        return root
    _check(place.inside("topology"), topology)
    network = _network(place.inside("topology"), topology)
    return {**root, "topology": _topology(network, topology, "routes" in root)}
