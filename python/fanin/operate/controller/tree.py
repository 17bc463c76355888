# SPDX-License-Identifier: Apache-2.0
"""What `status json` has, in words: nodes, links, jobs, and the trees that sum them."""

from __future__ import annotations

from itertools import islice
from typing import Any, Dict, Iterable, Iterator, List, Tuple

from .model import Json

HOPS_MAX = 16  # of a route, many more than there are
_HEALTH = "packets hits passed drops".split()


def _node(node: Json) -> str:
    drained = ", drained," if node["drained"] else ""
    counts = ", ".join(f"{node['health'][key]} {key}" for key in _HEALTH)
    return (
        f"{node['kind']} {node['name']}: {node['state']}{drained} for {node['since_s']:.1f} s, "
        f"{node['listen']}, {node['routes']} routes; {counts}"
    )


def lacks(links: Iterable[Json], nodes: Iterable[Json]) -> Iterator[str]:
    """What plans do not use, or only in part."""
    for link in links:
        name = f"link {link['a']}-{link['b']}"
        if link["state"] == "down":
            back = f"; used again in {link['back_in_s']:.1f} s" if "back_in_s" in link else ""
            yield f"{name}: down for {link['since_s']:.1f} s, {link['flaps']} times of late{back}"
        if link["load_gbps"] > 0:
            measured = link["measured_gbps"]
            of_it = f", of which its ends measure {measured:.4g}" if measured > 0 else ""
            yield f"{name}: others use {link['load_gbps']:.4g} Gb/s{of_it}"
    for node in nodes:
        if node["load_gbps"] > 0:
            yield f"{node['kind']} {node['name']}: others use {node['load_gbps']:.4g} Gb/s"


def _branch(entries: List[Json], at: str) -> str:
    """What becomes of the ranks whose parts pass `at`: these entries."""
    ranks = sum(e["ranks"] for e in entries)
    workers = sum(e["ranks"] for e in entries if not e["from"])
    summed = sum(e["ranks"] for e in entries if e["sums"])
    return (
        at
        + (f", sums {summed}" if summed else "")
        + (f", passes {ranks - summed} on" if ranks > summed else "")
        + (f", {workers} workers here" if workers else "")
    )


def _tree(part: Json) -> Iterator[str]:
    """The switches that send to the part's server, and below each those whose ranks it sends on."""
    below: Dict[Tuple[str, int], Dict[str, List[Json]]] = {}  # senders by next hop and depth
    for entry in part["entries"]:
        senders = below.setdefault((entry["next"], entry["depth"]), {})
        senders.setdefault(entry["at"], []).append(entry)

    def walk(to: str, depth: int, senders: Iterable[Any]) -> Iterator[str]:
        found = below.get((to, depth), {})
        for at in senders:
            if at in found:
                yield "  " * (depth + 1) + _branch(found[at], at)
                if depth < HOPS_MAX:
                    yield from walk(at, depth + 1, dict.fromkeys(e["from"] for e in found[at]))

    every = list(below.get((part["server"], 1), {}))
    return islice(walk(part["server"], 1, every), HOPS_MAX * len(part["entries"]))


def job_lines(job: Json) -> Iterator[str]:
    """A job, why it is planned so or is not, and the tree of each of its parts."""
    there = "routes are there" if job["ready"] else "waits for routes"
    yield (
        f"job {job['name']}: {job['joined']} of {job['ranks']} ranks, {there}, "
        f"{job['planned_gbps']:.4g} Gb/s planned"
    )
    yield f"  {job['why']}"
    for part in job["parts"]:
        sums = ", ".join(part["summed_at"]) or "the server only"
        yield (
            f"  part {part['number']}: {100 * part['share']:.2f} % to {part['server']} by route "
            f"{part['route']}, {part['moved']} of {part['ranks']} ranks on it, summed at {sums}"
        )
        yield from _tree(part)


def lines(status: Json) -> List[str]:
    """All of it."""
    return [
        f"{status['topology']}: algorithm {status['algorithm']}, {status['epoch']} plans made, up for "
        f"{status['up_s']:.1f} s",
        *(_node(node) for node in status["nodes"] if node["kind"] != "worker"),
        *lacks(status["links"], status["nodes"]),
        *(line for job in status["jobs"] for line in job_lines(job)),
    ]
