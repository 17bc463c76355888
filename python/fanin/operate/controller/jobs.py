# SPDX-License-Identifier: Apache-2.0
"""Jobs and their workers: which parts and routes they have.

Once a worker has a job's parts, these do not change, since all ranks must cut alike; only their
paths do.  If a part's server is lost, all workers begin again with new parts.
"""

from __future__ import annotations

from typing import List, Optional

from . import limits, routes
from .core import NEVER_S, Controller, plain
from .model import Conn, Has, Job, Json, Node, Rank, Refused

# ---- lines out ----


def _way(c: Controller, job: Job, number: int, rank: int) -> Json:
    """How a rank sends a part."""
    part = job.parts[number]
    at = c.nodes[part.route.path.joins[rank]].listen
    return {"route": part.route.number, "at": at, "gbps": part.gbps}


def _part(c: Controller, job: Job, number: int, rank: int) -> Json:
    """A part as a rank is told of it.  Its name at the aggregator begins with the job's and '/',
    since it has the job's tenant, and differs in each life, since a later life must not meet members
    of an earlier one.  Parts of groups share one name, under which their parent adds them up."""
    part = job.parts[number]
    life = f"~{job.life % 1000}" if job.life else ""
    return {
        **{"number": number, "name": f"{job.whole_name}/{number}{life}", "cut": list(part.cut)},
        **{"aggregator": c.nodes[part.server].listen, **_way(c, job, number, rank)},
    }


def _send_parts(c: Controller, job: Job, number: int) -> None:
    rank = job.ranks[number]
    parts = [_part(c, job, part, number) for part in range(len(job.parts))]
    if rank.has is Has.ENDED:
        c.send(rank.conn, {"again": {"why": job.why, "parts": parts}})
    else:
        said = {"name": job.name, "ranks": len(job.ranks), "parts": parts}
        c.send(rank.conn, {"job": said})
    rank.has = Has.SENT
    if job.state == "free":
        job.state = "bound"
    for part in job.parts:
        part.route.moved.add(number)


def _send_move(c: Controller, job: Job, number: int, rank: int) -> None:
    c.send(job.ranks[rank].conn, {"move": {"part": number, **_way(c, job, number, rank)}})


# ---- settling ----


def _is_sent(rank: Rank) -> bool:
    return rank.conn is not None and rank.has is Has.SENT


def _holds(c: Controller, rank: Rank) -> bool:
    """May it still use old routes, as it is connected or was so a short while ago?"""
    if rank.conn is not None:
        return rank.has is Has.SENT
    return rank.absent_s is not None and c.now_s - rank.absent_s < limits.ABSENT_S


def _remove_old(c: Controller, job: Job, number: int) -> None:
    """Remove the part's earlier routes once no rank uses them."""
    now = job.parts[number].route
    old = [r for r in job.routes if r is not now and r.part == number and r.state == "ready"]
    if not old or now.state != "ready":
        return
    if any(_holds(c, rank) for r, rank in enumerate(job.ranks) if r not in now.moved):
        return
    for route in old:
        routes.leave(c, route, 0)


def _begin_route(c: Controller, job: Job, number: int) -> None:
    """Move workers to the part's new route, which all switches have."""
    route = job.parts[number].route
    route.state = "ready"
    moving = [r for r, k in enumerate(job.ranks) if _is_sent(k) and r not in route.moved]
    for rank in moving:
        _send_move(c, job, number, rank)
    if moving:
        c.note(f"{job.name}/{number}: {len(moving)} ranks move to route {route.number}")


def pace(c: Controller, job: Job, number: int) -> None:
    """Send the part's planned rate to ranks that stay on its route."""
    route = job.parts[number].route
    for rank, k in enumerate(job.ranks):
        if route.state == "ready" and _is_sent(k) and rank in route.moved:
            _send_move(c, job, number, rank)


def settle(c: Controller, job: Job) -> None:
    """After a change of the job's routes: move workers, and remove unused routes."""
    for number, part in enumerate(job.parts):
        if part.route.state == "installing" and part.route.is_there:
            _begin_route(c, job, number)
        _remove_old(c, job, number)
    if not job.parts or not all(part.route.is_there for part in job.parts):
        return
    job.refusals = 0
    if not job.announced:
        c.note(f"{job.name}: its {len(job.parts)} routes are there")
    job.announced = True
    for number, rank in enumerate(job.ranks):
        if rank.conn is not None and rank.has in (Has.NONE, Has.ENDED):
            _send_parts(c, job, number)


# ---- lines in ----


def _job_of(c: Controller, said: Json) -> Job:
    """The job that a join names, if the rank can be its; Refused otherwise."""
    job, rank, ranks = c.jobs.get(said["job"]), said["rank"], said["ranks"]
    file = c.settings.file
    if job is None:
        raise Refused(f'join: no job "{said["job"]:.63}"; `admit` adds one to those of {file}')
    if ranks != len(job.ranks):
        raise Refused(f'join: job "{job.name}" has {len(job.ranks)} workers in {file}, not {ranks}')
    if not 0 <= rank < ranks:
        raise Refused(f"join: expected a rank from 0 to {ranks - 1}, got {rank}")
    return job


def check_from(c: Controller, conn: Conn, node: Node) -> None:
    """Refuse a connection that is not from the node's address, if it has one."""
    if node.address and conn.host != node.address:
        raise Refused(
            f'"{node.name}" comes from {node.said["address"]} in {c.settings.file}, and this from '
            "elsewhere"
        )


def _check_launch(job: Job, said: Json) -> None:
    """Refuse a rank of another launch of the program than those that are there."""
    for number, rank in enumerate(job.ranks):
        if number == said["rank"] or rank.conn is None or not rank.launch or not said["launch"]:
            continue
        if rank.launch != said["launch"]:
            raise Refused(
                f'join: rank {number} of "{job.name}", at {job.workers[number]}, is of another '
                f"launch of the program than rank {said['rank']}, at {job.workers[said['rank']]}: "
                "give each launch a job of its own"
            )


def _knows_routes(c: Controller, job: Job, rank: int, numbers: List[int]) -> bool:
    """Note which routes a worker uses that was here before and lost its connection.  False: its
    parts are not, or no longer, those of this job.  In a restored job a rank may name a route that
    the earlier controller was removing; _rejoin moves it."""
    if len(numbers) != len(job.parts) or job.state == "free" or not job.parts:
        return False
    for part, number in enumerate(numbers):
        route = c.routes.get(number)
        if route and route.job is job and route.part == part and route.state != "leaving":
            route.moved.add(rank)
        elif job.state != "restored":
            return False
    return True


def _knows_restored(job: Job, rank: int, numbers: List[int]) -> bool:
    """Note if a rank uses the routes of a restored job not planned yet.  False: it has other
    parts."""
    if not job.restore or len(numbers) != len(job.restore):
        return False
    if numbers == job.restore:
        job.rejoined.add(rank)
    return True


def _keep_strays(c: Controller, job: Job, rank: int) -> None:
    """Keep all routes of an earlier controller, since the rank uses some."""
    for node in c.nodes.values():
        node.stray_s = NEVER_S
    c.note(f"{job.name}: rank {rank} goes by routes of an earlier controller, and is left alone")


def _rejoin(c: Controller, job: Job, rank: int) -> None:
    """Move a rank that has its parts to the routes that it does not use yet."""
    job.ranks[rank].has = Has.SENT
    for number, part in enumerate(job.parts):
        if part.route.state == "ready" and rank not in part.route.moved:
            _send_move(c, job, number, rank)


def join(c: Controller, conn: Conn, said: Json) -> None:
    """A worker has come."""
    job = _job_of(c, said)
    number: int = said["rank"]
    rank = job.ranks[number]
    check_from(c, conn, c.nodes[job.workers[number]])
    _check_launch(job, said)
    if rank.conn is not None and rank.conn.host != conn.host:
        raise Refused(f'join: rank {number} of "{job.name}" is connected from another host')
    if rank.conn is not None:  # the worker lost its connection: the new one counts
        c.hang_up(rank.conn)
    conn.job, conn.rank = job, number
    c.name(conn)
    rank.conn, rank.launch, rank.absent_s, rank.has = conn, said["launch"], None, Has.NONE
    numbers: Optional[List[int]] = said["routes"]
    if numbers is None:
        c.note(f"{job.name}: rank {number} is there")
    elif _knows_routes(c, job, number, numbers) or _knows_restored(job, number, numbers):
        _rejoin(c, job, number)
    elif job.life:
        rank.has = Has.ENDED
    else:
        rank.has = Has.FOREIGN
        _keep_strays(c, job, number)
        return
    settle(c, job)


def moved(c: Controller, conn: Conn, said: Json) -> None:
    """A worker's part is on its new route."""
    job, number = conn.job, said["part"]
    assert job is not None
    if not 0 <= number < len(job.parts) or said["route"] != job.parts[number].route.number:
        return  # it has been told to move again since
    job.parts[number].route.moved.add(conn.rank)
    settle(c, job)


def closed(c: Controller, job: Job, number: int) -> None:
    """A worker's connection has ended."""
    rank = job.ranks[number]
    c.note(f"{job.name}: rank {number} has gone, or its line was cut")
    rank.conn = None
    rank.absent_s = c.now_s if rank.has is Has.SENT else None
    rank.has = Has.NONE


def slept(c: Controller, late_s: float) -> None:
    """Leave out a time in which the controller did not run."""
    for job in c.jobs.values():
        for rank in job.ranks:
            if rank.absent_s is not None:
                rank.absent_s = min(rank.absent_s + late_s, c.now_s)


def tick(c: Controller) -> float:
    """Ranks that have been disconnected for too long count as gone: old routes do not wait for them,
    and once all are gone the next plan may change the job's parts.  When to look again."""
    due_s = NEVER_S
    for job in c.jobs.values():
        here = late = False
        for rank in job.ranks:
            if rank.absent_s is not None:
                if c.now_s - rank.absent_s >= limits.ABSENT_S:
                    rank.absent_s, late = None, True
                else:
                    due_s, here = min(due_s, rank.absent_s + limits.ABSENT_S), True
            elif rank.conn is not None:
                here = True
        if late:
            settle(c, job)
        if not here:
            job.state = "free"
    return due_s


# ---- lives ----


def unplan(c: Controller, job: Job, seconds: float) -> None:
    """Drop the job's plan and parts, and remove its routes in so many seconds."""
    for route in list(job.routes):
        routes.leave(c, route, seconds)
    job.parts, job.announced = [], False
    job.keep(None, [], "")


def _begin_again(c: Controller, job: Job, why: str) -> None:
    c.note(f"{job.name} begins again: {why}")
    unplan(c, job, limits.LINGER_S)
    job.why = plain(why, limits.WHY_BYTES)
    job.life += 1
    job.state, job.restore = "free", []
    for rank in job.ranks:
        if rank.has is Has.SENT:
            rank.has = Has.ENDED


def _is_at(c: Controller, job: Job, server: Optional[Node], node: Node) -> bool:
    """Does a part summed at `server` need `node`?  A group needs its parent and all servers below."""
    if not job.groups or server is None:
        return server is node
    return server.parent is node or (node.parent is not None and node.parent is server.parent)


def needs(c: Controller, job: Job, node: Node) -> bool:
    """Has the job an aggregator at the node, or is that the parent or a sibling of one?  A restored
    job that is not planned yet is judged by its trees."""
    servers = [part.server for part in job.parts]
    if job.state == "restored" and not job.parts:
        servers = [tree["server"] for tree in job.trees or []]
    return any(_is_at(c, job, c.nodes.get(server), node) for server in servers)


def lost_aggregator(c: Controller, node: Node, what: str) -> None:
    """A server is lost or drained: jobs that need it begin again, with all their groups."""
    lost = [job for job in c.jobs.values() if needs(c, job, node)]
    for job in c.jobs.values():
        if job in lost or any(job.is_beside(other) for other in lost):
            _begin_again(c, job, f"server {node.name} {what}")


def lost_absent(c: Controller) -> None:
    """After the wait for daemons: the same for servers that have not come."""
    for node in c.nodes.values():
        if node.kind == "server" and node.state == "never":
            lost_aggregator(c, node, "has not come")


def end(c: Controller, job: Job, why: str) -> List[Conn]:
    """End it; the connections of its ranks, which are to be refused."""
    c.note(f"{job.name} has ended: {why}")
    conns = [rank.conn for rank in job.ranks if rank.conn is not None]
    unplan(c, job, limits.LINGER_S)
    del c.jobs[job.name]
    return conns
