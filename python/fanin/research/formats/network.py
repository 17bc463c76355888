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

from typing import Any, Optional

NODES_MAX, LINKS_MAX, JOBS_MAX = 16384, 65536, 256
NAME_MAX = 63  # bytes of a name
GROUP_NAME_BYTES = 4  # "@255" behind a job's name
GROUP_RANKS_MAX = 256  # workers of a job that is installed
GBPS_MIN, GBPS_MAX = 1e-4, 1e9

WORKER, SWITCH, SERVER = KINDS = ("worker", "switch", "server")


class FormatError(ValueError):
    """A network that makes no sense; the text has the path in it, or the line, and the cause."""


def is_plain(name: str) -> bool:
    """Has it no control characters, nor halves of any?"""
    return not any(
        c < " " or "\x7f" <= c < "\xa0" or "\ud800" <= c <= "\udfff" for c in name
    )  # fmt: skip


class Node:
    """A node; `parent` is the number of the server that adds up this server's sums."""

    __slots__ = ("name", "kind", "gbps", "background_gbps", "address", "parent")

    def __init__(
        self, name: str, kind: str, gbps: float = 0.0, background: float = 0.0, address: str = ""
    ) -> None:
        self.name, self.kind = name, kind
        self.gbps, self.background_gbps = gbps, background  # 0: not given
        self.address = address  # of the host that it dials a controller from; "": any
        self.parent: Optional[int] = None


class Link:
    """A link between nodes `a` and `b`, by number; rates in each direction."""

    __slots__ = ("a", "b", "gbps", "background_gbps", "delay_us")

    def __init__(self, a: int, b: int, gbps: float) -> None:
        self.a, self.b, self.gbps = a, b, gbps
        self.background_gbps = self.delay_us = 0.0


class Job:
    """Workers that sum together, and their servers, by number.

    A group of a job whose servers have parents has one server, and spare ones below others."""

    def __init__(
        self, name: str, workers: list[int], servers: list[int], weight: float, demand: float
    ) -> None:
        self.name, self.workers, self.servers = name, workers, servers
        self.weight, self.demand_gbps = weight, demand
        self.group: Optional[tuple[int, int]] = None
        self.spares: list[int] = []


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
        self.jobs.append(Job("job", self.members(WORKER), self.members(SERVER), 1.0, 0.0))

    def lift_limits(self) -> None:
        """Give links between switches more than what all hosts and their sums can ever fill.

        Others' load on them is removed.  GRID's published program assumes this."""
        kinds = [node.kind for node in self.nodes]
        inside = [kinds[link.a] == kinds[link.b] == SWITCH for link in self.links]
        hosts = sum(link.gbps for link, skip in zip(self.links, inside) if not skip)
        for link, lift in zip(self.links, inside):
            if lift:
                link.gbps, link.background_gbps = 2 * hosts, 0.0

    # ---- JSON ----

    def _node(self, node: Node) -> dict[str, Any]:
        found: dict[str, Any] = {"name": node.name, "kind": node.kind}
        for key in ("gbps", "background_gbps", "address"):
            if getattr(node, key):
                found[key] = getattr(node, key)
        if node.parent is not None:
            found["parent"] = self.nodes[node.parent].name
        return found

    def _link(self, link: Link) -> dict[str, Any]:
        found: dict[str, Any] = {"a": self.nodes[link.a].name, "b": self.nodes[link.b].name}
        found.update(gbps=link.gbps, delay_us=link.delay_us)
        if link.background_gbps:
            found["background_gbps"] = link.background_gbps
        return found

    def _job(self, job: Job) -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": job.name,
            "workers": [self.nodes[i].name for i in job.workers],
            "servers": [self.nodes[i].name for i in job.servers],
            "weight": job.weight,
            "demand_gbps": job.demand_gbps,
        }
        if job.group:
            found["group"] = list(job.group)
        if job.spares:
            found["spares"] = [self.nodes[i].name for i in job.spares]
        return found

    def to_json(self) -> dict[str, Any]:
        """The form above."""
        return {
            "nodes": [self._node(node) for node in self.nodes],
            "links": [self._link(link) for link in self.links],
            "jobs": [self._job(job) for job in self.jobs],
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
