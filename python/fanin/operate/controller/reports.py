# SPDX-License-Identifier: Apache-2.0
"""What `status`, `status json` and `why JOB` show."""

from __future__ import annotations

import json
from typing import List

from . import links, routes, tree
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
        {"at": switch, **rule.shown(str), "ranks": rule.rank_count()}
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


def status_text(c: Controller) -> str:
    """For `status`."""
    return "\n".join(tree.lines(status(c)))


def why(c: Controller, job: Job) -> str:
    """Why the job is planned so, or is not, and its paths switch by switch."""
    used = [
        links.shown(c, link)
        for link in c.links
        if (link in c.lively or link.load_gbps) and (link.is_down or link.used_gbps > 0)
    ]
    loaded = [_node(c, node, 0) for node in c.nodes.values() if node.load_gbps > 0]
    return "\n".join([*tree.lacks(used, loaded), *tree.job_lines(_job(job))])
