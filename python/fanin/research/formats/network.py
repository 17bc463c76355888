# SPDX-License-Identifier: Apache-2.0
"""A network and its jobs: what readers and generators fill in, and the one JSON form of it.

    {"nodes": [{"name", "kind": "worker" | "switch" | "server", "gbps", "background_gbps",
                "address", "parent"}],
     "links": [{"a", "b", "gbps", "delay_us", "background_gbps"}],
     "jobs":  [{"name", "workers": [NAME], "servers": [NAME], "weight", "demand_gbps",
                "group": [NUMBER, OF HOW MANY], "spares": [NAME]}]}

"gbps" of a node is what a switch can sum (without it, the switch only forwards), what a server
takes in, and what a worker sends (without it, as much as their links carry).  Rates of a link are
those of each direction, and there is at most one link between two nodes.  The planner reads this
form (planner/plan/topo.h).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

from ..fields import NAME_MAX
from ..files import FileError

NODES_MAX, LINKS_MAX, JOBS_MAX = 16384, 65536, 256
CABLES_MAX = 4 * LINKS_MAX  # several between two nodes are one link
GROUP_NAME_BYTES = 4  # "@255" behind a job's name
GROUP_RANKS_MAX = 256  # workers of a job that is installed
GBPS_MIN, GBPS_MAX = 1e-4, 1e9

WORKER, SWITCH, SERVER = KINDS = ("worker", "switch", "server")


# A network that makes no sense; the text has the path in it, or the line, and the cause.
FormatError = FileError


@dataclass
class Node:
    """A node; rates of 0 are not given."""

    name: str
    kind: str
    gbps: float = 0.0
    background_gbps: float = 0.0
    address: str = ""  # of the host that it dials a controller from; "": any
    parent: Optional[int] = None  # the number of the server that adds up this server's sums


@dataclass
class Link:
    """A link between nodes `a` and `b`, by number; rates in each direction."""

    a: int
    b: int
    gbps: float
    delay_us: float = 0.0
    background_gbps: float = 0.0


@dataclass
class Job:
    """Workers that sum together, and their servers, by number.

    A group of a job whose servers have parents has one server, and spare ones below others."""

    name: str
    workers: list[int]
    servers: list[int]
    weight: float = 1.0
    demand_gbps: float = 0.0
    group: Optional[tuple[int, int]] = None
    spares: list[int] = field(default_factory=list)


class Network:
    """Nodes, links and jobs, each by number."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.links: list[Link] = []
        self.jobs: list[Job] = []
        self.summary = ""  # a line on the file that was read, if it was no JSON of this form

    def add_node(self, node: Node) -> int:
        """Its number."""
        if len(self.nodes) == NODES_MAX:
            raise FormatError(f"more than {NODES_MAX} nodes or {LINKS_MAX} links")
        self.nodes.append(node)
        return len(self.nodes) - 1

    def add_link(self, a: int, b: int, gbps: float) -> Link:
        """A link at the end."""
        if len(self.links) == LINKS_MAX:
            raise FormatError(f"more than {NODES_MAX} nodes or {LINKS_MAX} links")
        self.links.append(Link(a, b, gbps))
        return self.links[-1]

    def children(self) -> dict[int, int]:
        """How many servers have each one as parent."""
        found: dict[int, int] = {}
        for node in self.nodes:
            if node.parent is not None:
                found[node.parent] = found.get(node.parent, 0) + 1
        return found

    def members(self, kind: str) -> list[int]:
        """All nodes of a kind that are no parents."""
        parents = self.children()
        return [i for i, node in enumerate(self.nodes) if node.kind == kind and i not in parents]

    def add_all(self) -> None:
        """Add one job of all workers and servers."""
        self.jobs.append(Job("job", self.members(WORKER), self.members(SERVER)))

    def lift_limits(self) -> None:
        """Give links between switches more than what all hosts and their sums can ever fill.

        Others' load on them is removed.  GRID's published program assumes this."""
        kinds = [node.kind for node in self.nodes]
        inside = [kinds[link.a] == kinds[link.b] == SWITCH for link in self.links]
        hosts = sum(link.gbps for link, skip in zip(self.links, inside) if not skip)
        for link, lift in zip(self.links, inside):
            if lift:
                link.gbps, link.background_gbps = 2 * hosts, 0.0

    def to_json(self) -> dict[str, Any]:
        """The form above."""
        names = [node.name for node in self.nodes]
        nodes = [
            {**vars(n), "parent": None if n.parent is None else names[n.parent]} for n in self.nodes
        ]
        links = [{**vars(n), "a": names[n.a], "b": names[n.b]} for n in self.links]
        jobs = [
            {
                **vars(job),
                **{key: [names[i] for i in getattr(job, key)] for key in ("workers", "servers")},
                "group": list(job.group or ()),
                "spares": [names[i] for i in job.spares],
            }
            for job in self.jobs
        ]

        def shown(found: list[dict[str, Any]], *kept: str) -> list[dict[str, Any]]:
            return [{k: v for k, v in one.items() if v or k in kept} for one in found]

        return {
            "nodes": shown(nodes),
            "links": shown(links, "delay_us"),
            "jobs": shown(jobs, "workers", "servers", "demand_gbps"),
        }


# ---- groups ----


def _parents(network: Network, number: int, groups: int) -> dict[int, list[int]]:
    """The job's servers by parent: each parent has `groups`, all of this job."""
    place, all_of = f"jobs[{number}].servers", network.children()
    below: dict[int, list[int]] = {}
    for i, server in enumerate(network.jobs[number].servers):
        node = network.nodes[server]
        if node.parent is None:
            raise FormatError(f'{place}[{i}]: "{node.name}" has no parent, as others have')
        below.setdefault(node.parent, []).append(server)
    for parent, servers in below.items():
        name = network.nodes[parent].name
        if len(servers) != all_of[parent]:
            raise FormatError(
                f'{place}: {len(servers)} of the {all_of[parent]} whose parent is "{name}": '
                "expected all, which it adds up"
            )
        if len(servers) != groups:
            raise FormatError(
                f'{place}: {len(servers)} have the parent "{name}", others {groups}: '
                "expected as many"
            )
    return below


def _groups(network: Network, number: int, parent: int) -> list[Job]:
    """The job's groups: equal runs of its workers, each with a server below each parent."""
    job = network.jobs[number]
    groups = network.children()[parent]
    below = list(_parents(network, number, groups).values())
    workers = len(job.workers)
    each = workers // groups
    if groups < 2 or workers % groups or not 2 <= each <= GROUP_RANKS_MAX:
        raise FormatError(
            f"jobs[{number}].workers: {workers} for {groups} servers below "
            f'"{network.nodes[parent].name}": expected 2 servers or more, and as many workers for '
            f"each, 2 to {GROUP_RANKS_MAX}"
        )
    if len(job.name.encode()) > NAME_MAX - GROUP_NAME_BYTES:
        raise FormatError(
            f"jobs[{number}].name: expected at most {NAME_MAX - GROUP_NAME_BYTES} bytes for a job "
            "of groups"
        )
    found = []
    for g in range(groups):
        members, servers = job.workers[g * each : (g + 1) * each], [row[g] for row in below]
        group = Job(f"{job.name}@{g}", members, servers[:1], job.weight, job.demand_gbps)
        group.group, group.spares = (g, groups), servers[1:]
        found.append(group)
    return found


def split(network: Network) -> None:
    """Replace each job whose servers have a parent by its groups, NAME@0, NAME@1, ...

    Server i below each parent sums the i-th of equal runs of its workers."""
    for number, job in enumerate(list(network.jobs)):
        parents = (network.nodes[server].parent for server in job.servers)
        parent = next((one for one in parents if one is not None), None)
        if parent is None or job.group:
            continue
        groups = _groups(network, number, parent)
        for i, other in enumerate(network.jobs):
            if other.name in (group.name for group in groups):
                raise FormatError(
                    f'jobs[{i}].name: "{other.name}" is the name of a group of "{job.name}"'
                )
        if len(network.jobs) - 1 + len(groups) > JOBS_MAX:
            raise FormatError(f"jobs: more than {JOBS_MAX}, groups counted")
        network.jobs[number] = groups[0]
        network.jobs += groups[1:]
