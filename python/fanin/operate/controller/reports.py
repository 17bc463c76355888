# SPDX-License-Identifier: Apache-2.0
"""What `status`, `status json` and `why JOB` show."""

from __future__ import annotations

import json
from typing import Dict, Iterator, List

from . import links, routes
from .core import Controller
from .model import Job, Json, Node, Part, Route


def _summed_at(route: Route) -> List[str]:
    return [
        switch
        for switch, (_, rules) in route.path.stops.items()
        if any(rule.sums for rule in rules)
    ]


def _entries(route: Route) -> List[Json]:
    """The rules that switches have of the route."""
    return [
        {
            "at": switch,
            "from": rule.source,
            "next": rule.next,
            "depth": rule.depth,
            "ranks": rule.count(),
            "sums": rule.sums,
        }
        for switch, (_, rules) in route.path.stops.items()
        for rule in rules
    ]


def _part(job: Job, number: int, part: Part) -> Json:
    return {
        "number": number,
        "route": part.route.number,
        "server": part.server,
        "share": part.share,
        "gbps": part.gbps,
        "ranks": len(job.ranks),
        "moved": len(part.route.moved),
        "state": part.route.state,
        "summed_at": _summed_at(part.route),
        "entries": _entries(part.route),
    }


def _joined(job: Job) -> int:
    return sum(rank.conn is not None for rank in job.ranks)


def _job(job: Job) -> Json:
    return {
        "name": job.name,
        "ranks": len(job.ranks),
        "joined": _joined(job),
        "life": job.life,
        "ready": job.announced,
        "parts": [_part(job, number, part) for number, part in enumerate(job.parts)],
        "planned_gbps": job.gbps,
        "why": job.why,
    }


def _node(c: Controller, node: Node, count: int) -> Json:
    return {
        "name": node.name,
        "kind": node.kind,
        "state": node.state,
        "listen": node.listen,
        "routes": count,
        "since_s": c.now_s - node.since_s,
        "shards": node.shards,
        "strays": len(node.strays),
        "load_gbps": node.load_gbps,
        "drained": node.drained,
        "health": node.health,
    }


def status(c: Controller) -> Json:
    """For `status json`."""
    counts = routes.count_at(c, leaving=False)
    return {
        "topology": c.settings.file,
        "algorithm": "given" if c.given else c.settings.algorithm,
        "epoch": c.plans,
        "up_s": c.now_s - c.start_s,
        "nodes": [_node(c, node, counts[node.name]) for node in c.nodes.values()],
        "links": [links.shown(c, link) for link in c.links],
        "jobs": [_job(job) for job in c.jobs.values()],
        "events": [{"t_s": at_s - c.start_s, "what": what} for at_s, what in c.last_events],
    }


def as_text(found: Json) -> str:
    """JSON with a line for each of its keys, and of each value in a list."""
    pieces = []
    for key, value in found.items():
        if isinstance(value, list) and value:
            inside = ",\n  ".join(json.dumps(one, ensure_ascii=False) for one in value)
            pieces.append(f'"{key}": [\n  {inside}\n ]')
        else:
            pieces.append(f'"{key}": {json.dumps(value, ensure_ascii=False)}')
    return "{\n " + ",\n ".join(pieces) + "\n}"


# ---- as text ----


def _job_lines(job: Job) -> Iterator[str]:
    there = "routes are there" if job.announced else "waits for routes"
    yield (
        f"job {job.name}: {_joined(job)} of {len(job.ranks)} ranks, {there}, "
        f"{job.gbps:.4g} Gb/s planned"
    )
    for number, part in enumerate(job.parts):
        sums = _summed_at(part.route)
        where = f"summed at {', '.join(sums)}" if sums else "summed at the server only"
        yield (
            f"  part {number}: {100 * part.share:.2f} % to {part.server} by route "
            f"{part.route.number}, {len(part.route.moved)} ranks on it, {where}"
        )


def _lacks(c: Controller) -> Iterator[str]:
    """What plans do not use, or only in part."""
    for link in c.links:
        if link.is_down:
            again = link.heard_s is not None
            back = f"; used again in {links.back_s(c, link):.1f} s" if again else ""
            yield (
                f"link {link.name}: down for {c.now_s - link.since_s:.1f} s, {link.flaps} times of "
                f"late{back}"
            )
        if link.used_gbps > 0:
            measured = link.measured_gbps
            of_it = f", of which its ends measure {measured:.4g}" if measured > 0 else ""
            yield f"link {link.name}: others use {link.used_gbps:.4g} Gb/s{of_it}"
    for node in c.nodes.values():
        if node.load_gbps > 0:
            yield f"{node.kind} {node.name}: others use {node.load_gbps:.4g} Gb/s"


def _node_line(c: Controller, node: Node, counts: Dict[str, int]) -> str:
    drained = ", drained," if node.drained else ""
    return (
        f"{node.kind} {node.name}: {node.state}{drained} for {c.now_s - node.since_s:.1f} s, "
        f"{node.listen}, {counts[node.name]} routes"
    )


def status_text(c: Controller) -> str:
    """For `status`."""
    how = "given" if c.given else c.settings.algorithm
    counts = routes.count_at(c, leaving=False)
    found = [f"{c.settings.file}: algorithm {how}, {c.plans} plans made"]
    found += [_node_line(c, node, counts) for node in c.nodes.values() if node.is_daemon]
    found += _lacks(c)
    for job in c.jobs.values():
        found += _job_lines(job)
    return "\n".join(found)


def why(c: Controller, job: Job) -> str:
    """Why the job is planned so, or is not, and its paths switch by switch."""
    found = [job.why, *_lacks(c), *_job_lines(job)]
    for part in job.parts:
        found.append(f"  route {part.route.number}:")
        for entry in _entries(part.route):
            source = "workers" if entry["from"] is None else entry["from"]
            done = "summed" if entry["sums"] else "passed on"
            found.append(
                f"    {entry['at']}: {entry['ranks']} ranks from {source}, {done}, to "
                f"{entry['next']}"
            )
    return "\n".join(found)
