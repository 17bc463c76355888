# SPDX-License-Identifier: Apache-2.0
"""A line, the end of a connection, or a tick: to whom it belongs."""

from __future__ import annotations

from typing import Set

from . import jobs, limits, lines, links, load, nodes, routes
from .core import Controller, plain
from .drains import tick as drains_tick
from .model import Conn, Refused
from .plans import Drafting


class Dispatch:
    """What sockets call.  It keeps the connections that have not said who they are."""

    def __init__(self, c: Controller) -> None:
        self.c = c
        self.drafting = Drafting(c)
        self.nameless: Set[Conn] = set()

    def opened(self, conn: Conn) -> None:
        """A connection was accepted."""
        self.nameless.add(conn)

    def line(self, conn: Conn, said: bytes) -> None:
        """Take a line, without its LF.  Nothing of it raises."""
        if not conn.is_open:  # it was refused while lines were in flight
            return
        try:
            if conn.node is not None:
                unknown = f'"{conn.node.name}": expected health, ok, error or stopping'
                nodes.line(self.c, conn, *lines.decode(said, lines.NODE, unknown))
                return
            if conn.job is not None:
                name, fields = lines.decode(said, lines.WORKER, "expected moved")
                if name == "join":
                    raise Refused("a second join: expected one for each connection")
                jobs.moved(self.c, conn, fields["moved"])
                return
            unknown = 'expected "hello" of a daemon or "join" of a worker'
            name, fields = lines.decode(said, lines.NEW, unknown)
            if name == "hello":
                nodes.hello(self.c, conn, fields)
            else:
                jobs.join(self.c, conn, fields["join"])
            self.nameless.discard(conn)
        except Refused as refused:
            self.refuse(conn, str(refused))

    def refuse(self, conn: Conn, why: str) -> None:
        """Send the reason, and end the connection."""
        c, why = self.c, plain(why)
        c.note(f"refused: {why}")
        c.send(conn, {"refused": why})
        conn.is_open = False
        c.closes(conn)
        self._forget(conn)

    def closed(self, conn: Conn) -> None:
        """The connection has ended by itself."""
        conn.is_open = False
        self._forget(conn)

    def _forget(self, conn: Conn) -> None:
        """Its node or job goes on without it."""
        c, node, job = self.c, conn.node, conn.job
        self.nameless.discard(conn)
        c.forget(conn)
        if node is not None and node.conn is conn:
            nodes.closed(c, node)
        if job is not None and job.ranks[conn.rank].conn is conn:
            jobs.closed(c, job, conn.rank)

    def _wake_up(self) -> None:
        """Do not count time in which the controller did not run as silence: its machine was
        suspended, or it got no processor."""
        c = self.c
        late_s = c.now_s - c.awake_s
        if late_s > 0:
            nodes.slept(c, late_s)
            jobs.slept(c, late_s)

    def _end_gathering(self) -> None:
        c = self.c
        all_up = c.is_all_up()
        if c.phase != "gathering" or not (all_up or c.now_s >= c.start_s + c.settings.wait_s):
            return
        c.phase = "watching"
        jobs.lost_absent(c)
        c.plan_in(0, "all daemons are there" if all_up else "enough was waited for daemons")

    def _end_nameless(self) -> float:
        c, due_s = self.c, float("inf")
        for conn in list(self.nameless):
            if c.now_s - conn.since_s >= limits.NAMELESS_S:
                self.refuse(conn, 'neither "hello" nor "join" came')
            else:
                due_s = min(due_s, conn.since_s + limits.NAMELESS_S)
        return due_s

    def tick(self) -> float:
        """Run timers, after all received lines; when to look again, at the latest."""
        c = self.c
        self._wake_up()
        due = [self._end_nameless(), nodes.tick(c), links.tick(c), load.tick(c), jobs.tick(c)]
        due.append(drains_tick(c))
        self._end_gathering()
        due.append(self.drafting.tick())
        due.append(routes.tick(c))
        if c.phase == "gathering":
            due.append(c.start_s + c.settings.wait_s)
        c.awake_s = c.now_s + limits.AWAKE_S
        return min(c.awake_s, *due)
