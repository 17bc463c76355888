# SPDX-License-Identifier: Apache-2.0
"""The controller's state, and what every part of it does: send, log, ask for a plan."""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Callable, Deque, Dict, List, Optional, Set, Tuple

from . import limits
from .lines import is_address, plain_host, resolve
from .model import Conn, Job, Json, Link, Node, Rank, Route, Settings, Wrong
from .planner import Planners

NEVER_S = float("inf")
MEND, LOOK, SEARCH = 0, 1, 2  # goals of a plan; each includes those before it
_controls = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def plain(text: str, most: int = limits.EVENT_BYTES) -> str:
    """One line for people, of at most `most` bytes: others' bytes cannot speak to a terminal."""
    text = _controls.sub("?", text)
    if len(text) * 4 <= most:
        return text
    return text.encode()[:most].decode(errors="replace").replace("\ufffd", "?")


@dataclass(eq=False)
class Controller:
    """All that a controller knows.  `log` gets each event; `wake`: a tick is due at that time at the
    latest, where it is earlier than AWAKE_S from now; `flush`: something is to be sent or written.
    """

    settings: Settings
    planners: Planners
    now_s: float
    log: Callable[[str], None] = lambda event: None
    wake: Callable[[float], None] = lambda at_s: None
    flush: Callable[[], None] = lambda: None
    start_s: float = 0
    awake_s: float = 0  # latest time of the next tick; if later, it was suspended
    nodes: Dict[str, Node] = field(default_factory=dict)
    links: List[Link] = field(default_factory=list)
    between: Dict[Tuple[str, str], Link] = field(default_factory=dict)
    lively: Set[Link] = field(default_factory=set)  # links with something to judge at a tick
    jobs: Dict[str, Job] = field(default_factory=dict)
    routes: Dict[int, Route] = field(default_factory=dict)  # by number
    ours: Set[int] = field(default_factory=set)  # numbers that this controller has given out
    last_number: int = 0
    last_list: int = 0  # number of the last list of neighbours
    old_lists: Set[Node] = field(default_factory=set)  # daemons that need a new list
    hosts: Counter[str] = field(default_factory=Counter)  # named connections of each host
    closes: Callable[[Conn], None] = lambda conn: None  # close it once all is sent
    sends: Callable[[Conn], None] = lambda conn: None  # it has lines to be sent
    told: bool = False  # lines wait to be sent

    # Plans.
    phase: str = "gathering"  # it waits for daemons; "watching"; "drafting"
    plan_s: float = NEVER_S  # when to plan
    cause: str = ""  # why to plan
    changes: int = 0  # how many changes have asked for a plan
    planned_changes: int = 0  # `changes` when the plan in progress began
    look_s: float = 0  # no LOOK before this time
    plans: int = 0  # how many have been made
    overtaken: int = 0  # plans in a row that were outdated when finished
    wanted: int = MEND  # goal of the next plan
    goal: int = MEND  # of the plan being made
    loaded: bool = False  # loads have changed since the plan in progress began
    given: bool = False  # a plan was given: jobs without workers keep it as well

    events: int = 0
    last_events: Deque[Tuple[float, str]] = field(
        default_factory=lambda: deque(maxlen=limits.EVENTS_MAX)
    )

    def note(self, text: str) -> None:
        """Log an event, and keep it for `status`."""
        text = plain(text)
        self.events += 1
        self.last_events.append((self.now_s, text))
        self.log(text)
        self.flush()

    def send(self, conn: Optional[Conn], value: Json) -> None:
        """Queue a line for a connection, if there is one."""
        if conn is not None and conn.is_open:
            conn.out.append(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
            self.told = True
            self.sends(conn)
            self.flush()

    def hang_up(self, conn: Conn) -> None:
        """Close a connection that counts no more; its node or job is not told."""
        self.forget(conn)
        conn.is_open = False
        self.closes(conn)

    def name(self, conn: Conn) -> None:
        """Count a connection that has said who it is."""
        self.hosts[conn.host] += 1

    def forget(self, conn: Conn) -> None:
        """Undo that: the connection is nobody's."""
        if conn.is_named:
            self.hosts[conn.host] -= 1
            if not self.hosts[conn.host]:
                del self.hosts[conn.host]
        conn.node = conn.job = None

    def plan_in(self, seconds: float, cause: str) -> None:
        """Plan in so many seconds, for the reason given."""
        self.cause = plain(cause)
        self.changes += 1
        self.settle_plan(self.now_s + seconds)

    def settle_plan(self, at_s: float) -> None:
        """Plan at that time at the latest."""
        self.plan_s = min(self.plan_s, at_s)
        self.wake(self.plan_s)

    def link_between(self, a: Any, b: Any) -> Optional[Link]:
        """The link between the nodes of these names."""
        return self.between.get((a, b)) if isinstance(a, str) and isinstance(b, str) else None

    def is_all_up(self) -> bool:
        """Are all daemons of the topology there?"""
        return all(node.state == "up" for node in self.nodes.values())

    # ---- from a topology with all defaults filled in ----

    def load(self, topology: Json) -> None:
        """Take nodes, links and jobs; Wrong: an address, or a job that cannot be installed."""
        for number, said in enumerate(topology["nodes"]):
            self._load_node(number, said)
        for node in self.nodes.values():
            node.parent = self.nodes.get(node.said.get("parent", ""))
        for said in topology["links"]:
            self._load_link(said)
        for said in topology["jobs"]:
            self.admit(said)

    def _load_node(self, number: int, said: Json) -> None:
        address = said.get("address", "")
        if address:
            whole = f"[{address}]:1" if ":" in address else f"{address}:1"
            if len(address) > limits.ADDRESS_BYTES or not is_address(whole):
                raise Wrong(
                    f"nodes[{number}].address: expected the address of a host, without a port"
                )
            address = plain_host(resolve(whole)[0])
        left = said.get("gbps", 0) - said.get("background_gbps", 0)
        node = Node(said["name"], said["kind"], left, said, self.now_s, address)
        if not node.is_daemon:  # a worker need not be up
            node.state = "up"
        self.nodes[node.name] = node

    def _load_link(self, said: Json) -> None:
        a, b = self.nodes[said["a"]], self.nodes[said["b"]]
        left = said["gbps"] - said.get("background_gbps", 0)
        watched = a.is_daemon and b.is_daemon
        link = Link((a, b), said, left, said["gbps"], self.now_s, watched)
        self.links.append(link)
        for end, node in enumerate(link.ends):
            node.ends.append((link, end))
        self.between[a.name, b.name] = self.between[b.name, a.name] = link

    def admit(self, said: Json) -> Job:
        """Take a job of a topology; Wrong: it cannot be installed, or there are too many."""
        name, workers = said["name"], said["workers"]
        if len(name.encode()) > limits.JOB_NAME_MAX:
            raise Wrong(f'job "{name}": expected a name of at most {limits.JOB_NAME_MAX} bytes')
        if not 2 <= len(workers) <= limits.RANKS_MAX:
            raise Wrong(
                f'job "{name}" has {len(workers)} workers: expected 2 to {limits.RANKS_MAX}, which one '
                "aggregator takes; more need servers with a parent"
            )
        if len(self.jobs) >= limits.JOBS_MAX:
            raise Wrong(f"jobs: more than {limits.JOBS_MAX}")
        group, groups = said.get("group", (0, 0))
        servers = (*said["servers"], *said.get("spares", ()))
        job = Job(name, said, tuple(workers), servers, group, groups)
        job.ranks = [Rank() for _ in workers]
        self.jobs[name] = job
        return job
