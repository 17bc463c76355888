# SPDX-License-Identifier: Apache-2.0
"""Where jobs' workers run, which node sums for each job, and where its workers join."""

from __future__ import annotations

from collections import Counter
from typing import Any, NoReturn, Optional

from .fields import Place
from .jobs import Job, Seat
from .topology import RANKS_MAX, Node, Topology


class Placer:
    """Places the jobs of a scenario, one after the other."""

    def __init__(self, top: Topology, routes: set[tuple[int, int]]) -> None:
        self.top, self.routes = top, routes
        self.least_payload = min(node.values["payload_bytes"] for node in top.nodes)
        self.workers = [i for i, node in enumerate(top.nodes) if node.kind == "worker"]

    def place(self, place: Place, job: Job) -> None:
        """Choose what the scenario does not say."""
        nodes = self.top.nodes
        if job.hosts is None:  # the emptiest, the first of several
            by_load = sorted(self.workers, key=lambda i: nodes[i].placed)
            job.hosts = by_load[: job.ranks]
        for host in job.hosts:
            nodes[host].placed += 1
        if job.reduce != "fanin":
            self._check_ring(place, job.hosts)
        elif job.values.get("route"):
            self._seat_routed(place, job)
        else:
            self._choose_node(place, job, job.hosts)

    def _check_ring(self, place: Place, hosts: list[int]) -> None:
        """All workers reach each other if each reaches the next one."""
        for i, host in enumerate(hosts):
            after = (i + 1) % len(hosts)
            if not self.top.reaches(host, hosts[after]):
                place.fail("", f"no path between workers {i} and {after}")

    # ---- the node that sums ----

    def _sums(self, node: int) -> bool:
        """Does the node sum, or does the server to which it leads?"""
        return self.top.nodes[self.top.aggregator(node)].sums

    def _nearest(self, hosts: list[int]) -> Optional[int]:
        """The switch nearest to all workers or, if none sums, the nearest server."""
        for kind in ("switch", "server"):
            found = []
            for i, node in enumerate(self.top.nodes):
                if node.kind == kind and self._sums(i):
                    depths = self.top.depths(i)
                    steps = [depths[host] for host in hosts]
                    found += [(sum(steps), i)] if min(steps) >= 0 else []
            if found:
                return min(found)[1]  # the first of several
        return None

    def _find_node(self, place: Place, job: Job, hosts: list[int]) -> int:
        """The node that the scenario names, or the nearest."""
        nodes, name = self.top.nodes, job.values.get("at", "")
        at = self.top.find(name) if name else self._nearest(hosts)
        if at is None and not name:
            place.fail("", "no switch or server that all its workers reach")
        if at is not None and name and nodes[at].kind == "switch" and not self._sums(at):
            place.fail("at", f'"{name}" has the policy none and names no server')
        if at is None or not self._sums(at):
            place.fail("at", f'"{name}": no switch or server of that name')
        job.shared = nodes[at].shares
        at = self.top.aggregator(at)
        if not all(self.top.reaches(host, at) for host in hosts):
            place.fail(
                "at",
                f'"{nodes[at].name}": some of the job\'s workers have no path there (worker nodes '
                "forward nothing)",
            )
        at = self.top.root(at)
        if nodes[at].children:  # workers join the leaves, whatever is in front of those
            job.shared = False
        return at

    def _choose_node(self, place: Place, job: Job, hosts: list[int]) -> None:
        job.at = at = self._find_node(place, job, hosts)
        below = self.top.below(at)
        payload = job.values["payload_bytes"]
        if payload > self.least_payload:
            for i, node in enumerate(self.top.nodes):
                holds = i in below or (job.shared and self.top.aggregator(i) == at)
                if holds and payload > node.values["payload_bytes"]:
                    size = node.values["payload_bytes"]
                    place.fail("payload_bytes", f'{payload}: "{node.name}" has slots of {size}')
        if job.shared:
            self._seat_shared(place, job, at, hosts)
        else:
            self._seat(place, job, at, hosts, below)

    # ---- seats ----

    def _seat(self, place: Place, job: Job, at: int, hosts: list[int], below: list[int]) -> None:
        """Choose where the workers join, which are summed in the tree of `at`."""
        nodes, counts = self.top.nodes, Counter()  # type: list[Node], Counter[int]
        if not nodes[at].children:
            counts[at] = len(hosts)
            self._check_tree(place, counts, below)
            return
        leaves = [i for i in below if not nodes[i].children]
        job.seats = []
        for host in hosts:
            leaf = self.top.nearest(host, leaves)
            leaf = at if leaf is None else leaf
            job.seats.append(Seat(leaf, counts[leaf], 0, 0))
            counts[leaf] += 1
        self._check_tree(place, counts, below)
        first = self._first_places(at, counts)
        for seat in job.seats:
            seat.ranks, seat.place = counts[seat.node], first[seat.node] + seat.rank

    def _check_tree(self, place: Place, counts: Any, below: list[int]) -> None:
        """Check that every leaf has workers, but not too many, and reaches its parent."""
        for i in below:
            node = self.top.nodes[i]
            if node.parent is not None and not self.top.reaches(i, node.parent):
                place.fail("", f'no path from "{node.name}" to its parent "{node.parent_name}"')
            if not node.children and not 2 <= counts[i] <= RANKS_MAX:
                place.fail(
                    "workers",
                    f'{counts[i]} of them would join "{node.name}": expected 2 to {RANKS_MAX}',
                )

    def _first_places(self, root: int, counts: Any) -> dict[int, int]:
        """The first place of each node's workers: those of a tree are neighbours."""
        first, found, pending = 0, {}, [root]
        while pending:
            node = pending.pop()
            found[node] = first
            first += counts[node]
            pending += reversed(self.top.nodes[node].children)
        return found

    def _seat_shared(self, place: Place, job: Job, at: int, hosts: list[int]) -> None:
        """Choose the switches that the workers join; `at` completes their sums."""
        top, nodes = self.top, self.top.nodes
        if job.ranks > RANKS_MAX:
            place.fail("workers", f"{job.ranks} behind switches: expected 2 to {RANKS_MAX}")
        leading = [i for i, n in enumerate(nodes) if n.shares and top.aggregator(i) == at]
        job.seats = []
        for rank, host in enumerate(hosts):
            found = top.nearest(host, leading)
            if found is None:
                place.fail("", f'worker {rank} reaches no switch of "{nodes[at].name}"')
            step, up = found, nodes[found].server
            while up is not None:
                if not top.reaches(step, up):
                    name = nodes[step].server_name
                    place.fail("", f'no path from "{nodes[step].name}" to its server "{name}"')
                step, up = up, nodes[up].server
            job.seats.append(Seat(found, rank, job.ranks, rank))

    def _seat_routed(self, place: Place, job: Job) -> None:
        """Make sure that the workers of a job with a route, and its server, know the route."""
        nodes, name = self.top.nodes, job.values.get("at", "")
        at = self.top.find(name)
        if at is None or nodes[at].kind != "server":
            place.fail("at", f'"{name}": no server of that name')
        if job.seats is None:
            place.fail("", 'lacks the key "joins", which goes with "route"')
        parent = nodes[at].parent
        for seat in job.seats:
            sibling = parent is not None and nodes[seat.node].parent == parent
            if seat.node != at and not sibling and (seat.node, seat.route) not in self.routes:
                place.fail("joins", f'"{nodes[seat.node].name}" knows no route {seat.route}')
        job.shared = job.seats[0].ranks == job.ranks
        if not job.shared and parent is None:
            place.fail("at", f'"{name}" has no parent, which adds up groups')
        job.at = at if job.shared else parent


def _refuse(place: Place, job: Job, text: str) -> NoReturn:
    place.inside(f"jobs.{job.name}").fail("tensor", f'"{job.values["tensor"]}": {text}')


def check_tensors(place: Place, jobs: list[Job], most: int) -> None:
    """Check that the jobs that are parts of one tensor fit each other, once they are placed."""
    first: dict[str, Job] = {}
    parts: Counter[str] = Counter()
    for job in jobs:
        name, values = job.values.get("tensor"), job.values
        if not name:
            continue
        inside, one = place.inside(f"jobs.{job.name}"), first.setdefault(name, job)
        parts[name] += 1
        if parts[name] > most:
            inside.fail("tensor", f"more than {most} parts")
        alone = {"reduce": job.reduce != "fanin", "ahead": values.get("ahead"),
                 "retries": values.get("retries"), "overlap": values.get("overlap")}  # fmt: skip
        for key, given in alone.items():
            if given:
                inside.fail(key, "does not go with tensor: its parts proceed in step")
        for key in ("workers", "iterations", "arrival_ns"):
            if values[key] != one.values[key]:
                text = f'expected the workers, iterations and arrival_s of "{one.name}"'
                _refuse(place, job, text)
        if job.hosts != one.hosts:
            _refuse(place, job, f'expected the hosts of "{one.name}"')
