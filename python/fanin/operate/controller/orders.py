# SPDX-License-Identifier: Apache-2.0
"""Orders from people, which come by the Unix socket, and their answers."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Dict, Optional

from ...research import files, formats
from . import drains, jobs, load, plans, reports
from .core import SEARCH, Controller
from .model import Conn, Wrong
from .planner import Planner

Refuse = Callable[[Conn, str], None]
EXPECTED = (
    "expected status, status json, plan json, why JOB, replan, admit JSON, end JOB, load JSON, "
    "drain NODE, undrain NODE or install JSON"
)


def _json(rest: str) -> Any:
    """The value; None: it is none."""
    try:
        return files.decode(rest)
    except (ValueError, RecursionError):
        return None


def _why(c: Controller, name: str) -> str:
    found = [reports.why(c, job) for job in c.jobs.values() if job.is_of(name)]
    if not found:
        raise Wrong(f'no job "{name}"')
    return "\n".join(found)


def _replan(c: Controller) -> None:
    c.given, c.wanted = False, SEARCH
    c.plan_in(0, "it was asked for")


def _end(c: Controller, name: str, refuse: Refuse) -> None:
    ended = [job for job in c.jobs.values() if job.is_of(name)]
    if not ended:
        raise Wrong(f'no job "{name}"')
    for job in ended:
        for conn in jobs.end(c, job, "by order"):
            refuse(conn, f'job "{job.name}" has ended: by order')
    c.plan_in(0, f"job {name} has ended")


async def _value(rest: str) -> Any:
    """JSON that stands in the order, or in the file that it names."""
    return _json(rest) if "{" in rest or not rest else files.load(rest)


async def _admit(c: Controller, said: Any) -> None:
    if not isinstance(said, dict):
        raise Wrong("expected a JSON object, one job")
    nodes = [node.said for node in c.nodes.values()]
    network = {"nodes": nodes, "links": [link.said for link in c.links]}
    loop = asyncio.get_running_loop()
    read = await loop.run_in_executor(None, formats.read, {**network, "jobs": [said]})
    topology = read.to_json()
    async with Planner(c.planners) as planner:
        await planner.ask(topology)
    name, groups = said["name"], topology["jobs"]
    for group in groups:
        if any(job.is_of(name) or job.is_of(group["name"]) for job in c.jobs.values()):
            raise Wrong(f'job "{name}" is there already')
    _admit_all(c, groups)
    c.note(f"{name} is admitted")
    c.plan_in(0, f"job {name} was admitted")


def _admit_all(c: Controller, groups: Any) -> None:
    """All groups of a job, or none."""
    admitted = []
    try:
        for group in groups:
            admitted.append(c.admit(group))
    except Wrong:
        for job in admitted:
            del c.jobs[job.name]
        raise


def _at_once(c: Controller, word: str, rest: str, refuse: Refuse) -> Optional[str]:
    """The answer to an order that needs no planner; None: it is done."""
    whole: Dict[str, Callable[[], Optional[str]]] = {
        "status": lambda: reports.status_text(c),
        "status json": lambda: reports.as_text(reports.status(c)),
        "plan json": lambda: reports.as_text(plans.shown(c)),
        "replan": lambda: _replan(c),
    }
    line = f"{word} {rest}" if rest else word
    if line in whole:
        return whole[line]()
    orders: Dict[str, Callable[[], Optional[str]]] = {
        "why": lambda: _why(c, rest),
        "drain": lambda: drains.order(c, rest, True),
        "undrain": lambda: drains.order(c, rest, False),
        "end": lambda: _end(c, rest, refuse),
        "load": lambda: load.order(c, _json(rest)),
    }
    if word not in orders:
        raise Wrong(f'"{line[:60]}": {EXPECTED}')
    return orders[word]()


async def answer(c: Controller, line: str, refuse: Refuse) -> str:
    """The answer to a line, without its last LF.  `refuse` ends the line of a rank."""
    word, _, rest = line.partition(" ")
    rest = rest.lstrip(" ")
    try:
        if "\0" in line:
            raise Wrong("a zero in the line")
        if word in ("admit", "install"):
            await (_admit if word == "admit" else plans.install)(c, await _value(rest))
            return "ok"
        return _at_once(c, word, rest, refuse) or "ok"
    except (Wrong, files.FileError) as wrong:
        return f"error: {wrong}"
    except OSError as error:
        return f"error: {error.strerror or error}"
