# SPDX-License-Identifier: Apache-2.0
"""A scenario as people write it (doc/sim.md), made flat for the engine.

Everything is checked before anything is simulated, and errors name file, path and cause.  The flat
scenario has every node, link and job by itself; nodes are numbers; times are nanoseconds, rates bits
a second, shares millionths (simulator/sim/fields.c has its keys and bounds).
"""

from __future__ import annotations

from typing import Any, Optional

from .fields import Field, Place, entries, read, stored
from .jobs import JOBS_MAX, MS_NS, Job, Jobs
from .network import given
from .place import Placer, check_tensors
from .planned import planned, routes
from .topology import Topology, topology

FLOWS_MAX, TCPS_MAX, CHANGES_MAX = 1024, 256, 4096
PARTS_MAX = 128  # of a tensor
FAULTS = ("loss", "duplicate", "reorder", "corrupt", "jitter_ns")
ALONE = "goes with the level packets only"

_SCENARIO = {
    "name": Field("name"),
    "seed": Field("u64"),
    "limit_s": Field("s", 1e-6, 1e6),
    "sample_us": Field("us", 1, 1e9),
    "ecmp": Field("bool"),
    "level": Field("word", words=("packets", "flows")),
    **{key: Field("other") for key in ("comment", "topology", "jobs", "job_trace", "background",
                                     "flows", "changes", "plan", "routes")},
}  # fmt: skip

KEYS = tuple(_SCENARIO)

_BACKGROUND = {
    "from": Field("name"),
    "to": Field("name"),
    "gbps": Field("gbps", 1e-6, 1e5),
    "packet_bytes": Field("u16", 64, 9000),
    "start_s": Field("s", 0, 1e6),
    "stop_s": Field("s", 0, 1e6),
    "jitter": Field("share", 0, 1),
}

_TCP = {
    "from": Field("name"),
    "to": Field("name"),
    "kind": Field("word", words=("cubic", "dctcp")),
    "start_s": Field("s", 0, 1e6),
    "stop_s": Field("s", 0, 1e6),
    "bytes": Field("u64", 1, 1e15),
    "ack_segments": Field("u32", 1, 64),
}

_CHANGE = {
    "at_s": Field("s", 0, 1e6),
    "a": Field("name"),
    "b": Field("name"),
    "gbps": Field("gbps", 1e-6, 1e5),
    "down": Field("bool"),
    "up": Field("bool"),
    "node": Field("name"),
    "restart_s": Field("s", 0, 1e6),
}


def _node(place: Place, top: Topology, values: dict[str, Any], key: str) -> int:
    """The node that a key names."""
    node = top.find(values.get(key))
    if node is None:
        place.fail(key, f'no node "{values[key]}"')
    return node


def _flow(place: Place, top: Topology, item: Any, table: dict[str, Field]) -> dict[str, Any]:
    """A flow from one node to another."""
    values = read(place, item, table, "from", "to", "kind" if "kind" in table else "gbps")
    found = {key: _node(place, top, values, key) for key in ("from", "to")}
    if found["from"] == found["to"]:
        place.fail("to", "is where it comes from")
    if "kind" in table and "stop_s" in values and values["stop_s"] <= values.get("start_s", 0):
        place.fail("stop_s", "expected more than start_s")
    return stored({**values, **found})


def _restart(place: Place, top: Topology, values: dict[str, Any]) -> dict[str, Any]:
    node = _node(place, top, values, "node")
    if top.nodes[node].kind in ("worker", "router"):
        place.fail("node", f'"{values["node"]}": only switches and servers restart')
    if any(values.get(key) for key in ("a", "b", "gbps", "down", "up")):
        place.fail("node", "goes with at_s and restart_s only")
    kept = {key: values[key] for key in ("at_s", "restart_s") if key in values}
    return {**stored(kept), "node": node}


def _change(
    place: Place, top: Topology, link: dict[tuple[int, int], int], item: Any
) -> dict[str, Any]:
    restarts = isinstance(item, dict) and "node" in item
    values = read(place, item, _CHANGE, *(["restart_s"] if restarts else ["a", "b"]))
    if restarts:
        return _restart(place, top, values)
    a, b = (_node(place, top, values, key) for key in ("a", "b"))
    if (a, b) not in link:
        place.fail("", f'no link between "{values["a"]}" and "{values["b"]}"')
    if not any(values.get(key) for key in ("gbps", "down", "up")):
        place.fail("", "changes nothing: needs gbps, down or up")
    kept = {key: values[key] for key in ("at_s", "gbps", "down", "up") if key in values}
    return {**stored(kept), "link": link[a, b]}


def _check_flows(place: Place, root: dict[str, Any], top: Topology, jobs: list[Job]) -> None:
    """Check that flows in place of packets can model the scenario."""
    for key in ("background", "flows", "changes", "ecmp"):
        if root.get(key):
            place.fail(key, ALONE)
    for link in top.links:
        if any(link.get(key) for key in FAULTS):
            a, b = top.nodes[link["a"]].name, top.nodes[link["b"]].name
            text = "flows have no faults: those go with the level packets only"
            place.fail("topology.links", f'"{a}" to "{b}": {text}')
    for node in top.nodes:
        if node.values.get("gbps"):
            place.fail("topology.nodes", f'"{node.name}": gbps of a node {ALONE}')
    for job in jobs:
        lacking = {
            "plan": job.values.get("route"),
            "reduce": job.reduce == "two-level-ring",
            "tensor": job.values.get("tensor"),
            "ahead": job.values.get("ahead"),
            "overlap": job.values.get("overlap"),
            "slow": any(slow["sends"] for slow in job.slow),
        }
        for key, wanted in lacking.items():
            if wanted:
                place.inside(f"jobs.{job.name}").fail(key, ALONE)


# ---- flat ----


def _flat_job(job: Job, model: int) -> dict[str, Any]:
    values = stored(job.values)
    flat = {key: value for key, value in values.items() if key not in ("workers", "at")}
    flat["alive_ms"], flat["stall_ms"] = (
        flat.pop(key) // MS_NS for key in ("alive_ns", "stall_ns")
    )
    flat.update(name=job.name, model=model, hosts=job.hosts, shared=job.shared)
    if job.slow:
        flat["slow"] = job.slow
    if job.at is not None:
        flat["at"] = job.at
    if job.seats is not None:
        flat["seats"] = [n for s in job.seats for n in (s.node, s.rank, s.ranks, s.place, s.route)]
    return flat


class Scenario:
    """A scenario that has been read and placed."""

    def __init__(self, file: str, root: Any) -> None:
        place = Place(file)
        root = given(place, planned(place, root))
        self.values = read(place, root, _SCENARIO, "topology")
        self.top = topology(place.inside("topology"), root["topology"])
        self.routes = routes(place, self.top, root)
        self.jobs = self._read_jobs(place, root)
        self._read_traffic(place, root)
        self._place(place)
        if self.values.get("level") == "flows":
            _check_flows(place, {**root, "ecmp": self.values.get("ecmp")}, self.top, self.jobs)

    def _read_jobs(self, place: Place, root: dict[str, Any]) -> list[Job]:
        jobs = Jobs(self.top)
        for at, item in entries(place, root, "jobs", JOBS_MAX):
            jobs.read(at, item)
        if "job_trace" in root:
            jobs.read_trace(place.inside("job_trace"), root["job_trace"])
        if not jobs.found:
            place.fail("jobs", "expected at least one job")
        return jobs.found

    def _read_traffic(self, place: Place, root: dict[str, Any]) -> None:
        """Read what else is on the network, and what changes."""
        top = self.top
        self.background, self.flows = (
            [_flow(at, top, item, table) for at, item in entries(place, root, key, most)]
            for key, most, table in (
                ("background", FLOWS_MAX, _BACKGROUND),
                ("flows", TCPS_MAX, _TCP),
            )
        )
        link: dict[tuple[int, int], int] = {}
        for i, one in enumerate(top.links if root.get("changes") else []):
            link[one["a"], one["b"]] = link[one["b"], one["a"]] = i
        self.changes = [
            _change(at, top, link, item)
            for at, item in entries(place, root, "changes", CHANGES_MAX)
        ]

    def _place(self, place: Place) -> None:
        known = {(route["node"], route["number"]) for route in self.routes}
        placer = Placer(self.top, known)
        for job in self.jobs:  # named by the job, since an entry with copies has several
            placer.place(place.inside(f"jobs.{job.name}"), job)
        for key, flows in (("background", self.background), ("flows", self.flows)):
            for flow in flows:
                if not self.top.reaches(flow["from"], flow["to"]):
                    names = [self.top.nodes[flow[end]].name for end in ("from", "to")]
                    place.fail(key, 'no path from "{}" to "{}"'.format(*names))
        check_tensors(place, self.jobs, PARTS_MAX)

    def find(self, name: str) -> Optional[int]:
        """The number of the node with this name."""
        return self.top.find(name)

    def flat(self) -> dict[str, Any]:
        """As the engine reads it."""
        models = {(job.model.name, *job.model.layers): job.model for job in self.jobs}
        number = {model: i for i, model in enumerate(models)}
        jobs = [_flat_job(job, number[(job.model.name, *job.model.layers)]) for job in self.jobs]
        values = stored(self.values)
        if values.get("level") == "packets":  # all that the engine knows
            del values["level"]
        return {
            **values,
            "nodes": [node.flat() for node in self.top.nodes],
            "links": self.top.links,
            "models": [
                {"name": model.name, "layers": [value for layer in model.layers for value in layer]}
                for model in models.values()
            ],
            "jobs": jobs,
            "background": self.background,
            "flows": self.flows,
            "changes": self.changes,
            "routes": self.routes,
        }
