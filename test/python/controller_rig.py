# SPDX-License-Identifier: Apache-2.0
"""A controller with made-up daemons and workers, in virtual time; `fanin plan` is the real one.

     W1 W2 - A --- M1 --- B - W3 W4
              \\           / \\
               `-- M2 ---'   PS, PT

Daemons answer what they are told as it suits the test: Rig.answer.
"""

import asyncio
import json
import os

from fanin.operate.controller import drafts, plans, routes, saved
from fanin.operate.controller.core import Controller
from fanin.operate.controller.dispatch import Dispatch
from fanin.operate.controller.model import Conn, Settings, Wrong
from fanin.operate.controller.orders import answer
from fanin.operate.controller.planner import Planners
from fanin.research import formats

LINKS = "W1-A:10 W2-A:10 W3-B:10 W4-B:10 A-M1:20 A-M2:4 M1-B:20 M2-B:4 PS-B:15 PT-B:1"
DAEMONS = ["A", "M1", "M2", "B", "PS", "PT"]
RANKS = 4


def node(name, gbps=None, parent=None):
    kind = {"W": "worker"}.get(name[0], "server" if name[0] in "PQRTUV" else "switch")
    more = {**({"gbps": gbps} if gbps else {}), **({"parent": parent} if parent else {})}
    return {"name": name, "kind": kind, **more}


def links(text):
    found = []
    for one in text.split():
        ends, _, gbps = one.partition(":")
        a, b = ends.split("-")
        found.append({"a": a, "b": b, "gbps": float(gbps)})
    return found


def topology(servers=("PS",), **gbps):
    workers = [f"W{rank + 1}" for rank in range(RANKS)]
    return {
        "nodes": [node(n, {"A": 10, **gbps}.get(n)) for n in [*DAEMONS, *workers]],
        "links": links(LINKS),
        "jobs": [{"name": "j", "workers": workers, "servers": list(servers)}],
    }


class Rig:
    """One controller; `conn` of a daemon is its name, of a rank its number."""

    def __init__(self, build):
        os.environ["FANIN"] = str(build / "fanin")
        self.loop = asyncio.new_event_loop()
        self.c = self.dispatch = None
        self.conns, self.closed, self.events = {}, set(), []

    def run(self, task):
        return self.loop.run_until_complete(asyncio.wait_for(task, 600))

    def new(self, network=None, plan=None, state=None, **settings):
        """Another controller; Wrong: it refuses topology, plan or state."""
        self.end()
        self.conns, self.closed, self.events = {}, set(), []
        given = {"algorithm": "best", "trees": 1, **settings}
        settings = Settings("t.json", wait_s=5, **given)
        planners = Planners(settings)
        self.c = c = Controller(settings, planners, 1000.0, self.events.append, start_s=1000.0)
        c.awake_s, c.closes = 1000.25, self.closed.add
        self.dispatch = Dispatch(c)
        self.run(self._load(network or topology(), plan, state))
        return self

    async def _load(self, network, plan, state):
        async with drafts.Planner(self.c.planners) as planner:
            topology = formats.read(network).to_json()
            await planner.ask(topology)
            self.c.load(topology)
        if plan is not None:
            await plans.install(self.c, plan)
        if state is not None:
            saved.restore(self.c, state)

    def restart(self, network=None):
        """The next controller, with what this one has written."""
        return self.new(network, state=json.loads(saved.text(self.c)))

    def end(self):
        if self.c is not None:
            self.dispatch.drafting.stop()
            self.run(self.c.planners.end())
            self.run(asyncio.sleep(0))

    def close(self):
        self.end()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    # ---- time ----

    def wait(self, seconds, *silent, drafts_end=True):
        """Time passes, with a tick each 10 ms; daemons that are connected say that they live."""

        async def pass_it():
            for _ in range(round(seconds * 100) + 1):
                for name, conn in list(self.conns.items()):
                    if conn.node and conn.is_open and name not in silent:
                        self.say(name, {"health": {"packets": 1}})
                self.dispatch.tick()
                while drafts_end and (self.c.phase == "drafting" or self.dispatch.drafting.sending):
                    await asyncio.sleep(0.001)
                self.c.now_s += 0.01

        self.run(pass_it())

    # ---- lines ----

    def open(self, name, host=None):
        conn = Conn(host or f"host-{name}", self.c.now_s)
        self.conns[name] = conn
        self.dispatch.opened(conn)
        return conn

    def say(self, name, said):
        text = said if isinstance(said, bytes) else json.dumps(said).encode()
        self.dispatch.line(self.conns[name], text)

    def take(self, name, key):
        """The next line there that has the key; None.  Others to it are lost."""
        out = self.conns[name].out
        while out:
            line = json.loads(out.pop(0))
            if key in line:
                return line
        return None

    def hang_up(self, name):
        """The connection ends by itself."""
        self.dispatch.closed(self.conns[name])

    @staticmethod
    def listen(name):
        return f"10.0.0.{sum(name.encode()) % 250 + 1}:7"

    def hello(self, name, started=1, numbers=(), conn=None, kind=None, **more):
        kind = kind or node(name)["kind"]
        conn = conn or name
        self.open(conn)
        hello = {"hello": kind, "name": name, "listen": self.listen(name), "shards": 1,
                 "slots": 64, "started": started, "routes": list(numbers), **more}  # fmt: skip
        self.say(conn, hello)

    def all_daemons(self):
        """Those of the topology say hello."""
        for name, one in self.c.nodes.items():
            if one.is_daemon:
                self.hello(name, kind=one.kind)

    def daemons(self):
        for name in DAEMONS:
            self.hello(name)
        self.wait(0.2)

    def answer(self, *names):
        """Daemons say yes to all that they have been told; how much that was."""
        count = 0
        for name in names or [name for name in self.conns if isinstance(name, str)]:
            while asked := self.take(name, "id"):
                self.say(name, {"ok": asked["id"]})
                count += 1
        return count

    def join(self, rank, job="j", ranks=RANKS, **more):
        self.open(rank)
        self.say(rank, {"join": {"job": job, "rank": rank, "ranks": ranks, **more}})

    def work(self):
        """All daemons and workers are there, and workers have their parts."""
        self.daemons()
        self.answer()
        for rank in range(RANKS):
            self.join(rank)
            assert self.take(rank, "job")

    # ---- what is so ----

    def refused(self, name, part=""):
        said = self.take(name, "refused")
        return said and self.conns[name] in self.closed and part in said["refused"]

    def ask(self, line):
        return self.run(answer(self.c, line, self.dispatch.refuse))

    def noted(self, part):
        return any(part in event for event in self.events)

    def link(self, a, b):
        return self.c.link_between(a, b)

    @property
    def job(self):
        return next(iter(self.c.jobs.values()))

    @property
    def route(self):
        """Of the first job's first part."""
        return self.job.parts[0].route

    def stops_at(self, name):
        return name in self.route.path.stops

    def moves(self, *ranks):
        """These are told to move, and say that they have."""
        for rank in ranks:
            move = self.take(rank, "move")["move"]
            assert move["route"] == self.route.number
            assert move["at"] == self.listen("A" if rank < 2 else "B")
            self.say(rank, {"moved": {"part": 0, "route": move["route"]}})

    def counts(self):
        return routes.count_at(self.c, leaving=True)


__all__ = ["DAEMONS", "RANKS", "Rig", "Wrong", "links", "node", "topology"]
