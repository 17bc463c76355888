# SPDX-License-Identifier: Apache-2.0
"""What a controller knows: nodes, links, routes with their rules, and jobs.

A rule has one shape from the planner's output to the switch: `Rule`, whose nodes are names; a line
has their addresses in place of names.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

Json = Dict[str, Any]


class Refused(Exception):
    """A line is not taken: its text is sent, and the connection ends."""


class Wrong(Exception):
    """An order, a plan or a file makes no sense; the text says why."""


@dataclass(frozen=True)
class Settings:
    """What a controller is started with."""

    file: str  # name of the topology, for messages
    algorithm: str = "best"
    trees: int = 4
    sums_at: str = "nearest"
    wait_s: float = 5


class Conn:
    """A connection of a daemon or worker.  The controller queues lines; sockets sends them."""

    def __init__(self, host: str, now_s: float) -> None:
        self.host = host
        self.since_s = now_s
        self.node: Optional[Node] = None
        self.job: Optional[Job] = None
        self.rank = 0
        self.is_open = True
        self.is_closing = False
        self.out: List[str] = []  # JSON objects, to be sent once the state is written

    @property
    def is_named(self) -> bool:
        """Has it said which daemon or worker it is?"""
        return self.node is not None or self.job is not None


HEALTH = ("packets", "hits", "passed", "collisions", "results", "drops")


@dataclass(eq=False)
class Node:
    """A switch, server or worker of the topology."""

    name: str
    kind: str
    gbps: float  # that it can sum, take in or send, less background load; 0: no limit
    said: Json  # as in the topology
    since_s: float  # in this state
    address: str = ""  # host that it dials from; empty: any
    parent: Optional[Node] = None  # of a server: the one that adds up its sums
    state: str = "never"  # or "up", "gone"
    conn: Optional[Conn] = None
    listen: str = ""
    shards: int = 0
    slots: int = 0
    started: int = 0  # start of its process, as reported: another process has no routes
    heard_s: float = 0
    cut_s: Optional[float] = None  # of a server: when its connection was lost
    health: Dict[str, int] = field(default_factory=lambda: dict.fromkeys(HEALTH, 0))
    load_gbps: float = 0  # used by others, as `load` says
    drained: bool = False  # plans do not use it, as `drain` says
    empty: bool = False  # drained, and noted that no route needs it any more
    goes: int = 0  # times that it was lost; 0 again after CALM_S of being up
    offer_s: Optional[float] = None  # when to offer it to running jobs
    above: str = ""  # address of its parent as reported, and its place among its siblings
    index: int = 0
    siblings: int = 0
    list_number: int = 0  # of the last list of neighbours sent to it; 0: none
    strays: List[int] = field(default_factory=list)  # routes there of an earlier controller
    stray_s: float = 0  # when to remove them
    ends: List[Tuple[Link, int]] = field(default_factory=list)  # its links, and which end it is

    @property
    def is_daemon(self) -> bool:
        return self.kind != "worker"

    @property
    def is_used(self) -> bool:
        """May plans use it?"""
        return self.state == "up" and not self.drained


@dataclass
class Others:
    """Traffic of others on a link, as its ends measure it; shares of the whole rate."""

    said: List[float] = field(default_factory=lambda: [0.0, 0.0])  # by end
    heard_s: List[Optional[float]] = field(default_factory=lambda: [None, None])
    share: float = 0  # that counts
    more_s: Optional[float] = None  # since when more, or less, is reported
    less_s: Optional[float] = None
    rose_s: float = 0
    rises: int = 0  # after a fall; 0 again after CALM_S
    rose: bool = False  # `share` rose when it last changed


@dataclass(eq=False)
class Link:
    """A link of the topology; it is watched if both ends are daemons."""

    ends: Tuple[Node, Node]
    said: Json
    gbps: float  # less background load
    whole_gbps: float
    since_s: float
    watched: bool
    is_down: bool = False
    silent: List[bool] = field(default_factory=lambda: [False, False])  # by end: it does not hear
    heard_s: Optional[float] = None  # down: since when both ends hear each other
    flaps: int = 0  # times that it went down; 0 again after CALM_S of being up
    load_gbps: float = 0  # used by others in each direction, as `load` says
    others: Others = field(default_factory=Others)

    @property
    def name(self) -> str:
        return f"{self.ends[0].name}-{self.ends[1].name}"

    @property
    def measured_gbps(self) -> float:
        """The measured load that counts, without the topology's background load."""
        return max(self.others.share * self.whole_gbps - (self.whole_gbps - self.gbps), 0)

    @property
    def used_gbps(self) -> float:
        """The load by others: the larger of what `load` says and what its ends measure."""
        return max(self.load_gbps, self.measured_gbps)


class Rule(NamedTuple):
    """What a switch does with fragments of some ranks: the previous hop (None: workers), the ranks
    as text such as "0-3,7", the next hop, hops to the server, and whether it sums them."""

    source: Optional[str]
    ranks: str
    next: str
    depth: int
    sums: bool

    @staticmethod
    def planned(entry: Json) -> Rule:
        """The planner's form, in which "sums" counts ranks."""
        way = {key: entry[key] for key in ("ranks", "next", "depth")}
        return Rule(entry["from"], sums=bool(entry["sums"]), **way)

    def shown(self, name_of: Callable[[str], str]) -> Json:
        """As JSON, with other names of nodes."""
        source = None if self.source is None else name_of(self.source)
        found = {**self._asdict(), "from": source, "next": name_of(self.next)}
        del found["source"]
        return found

    def rank_count(self) -> int:
        """How many ranks."""
        ends = [piece.partition("-") for piece in self.ranks.split(",") if piece]
        return sum(int(last or first) - int(first) + 1 for first, _, last in ends)


@dataclass(frozen=True)
class Path:
    """How a part travels: where each rank joins, and the rules of each switch, by node."""

    server: str
    joins: Tuple[str, ...]  # by rank
    stops: Dict[str, Tuple[int, Tuple[Rule, ...]]]  # by switch: quota of slots, rules

    def is_like(self, other: Path) -> bool:
        """Are paths and rules the same?  Quotas may differ."""
        return (
            self.server == other.server
            and self.joins == other.joins
            and {name: set(rules) for name, (_, rules) in self.stops.items()}
            == {name: set(rules) for name, (_, rules) in other.stops.items()}
        )


class Stop(enum.Enum):
    """State of a route in one switch."""

    WANTED = 1  # to be sent, or to be sent again; of a leaving route: nothing is left to be done
    ASKED = 2
    THERE = 3


@dataclass(eq=False)
class Route:
    """A route number, and what is installed under it, which never changes."""

    number: int
    job: Job
    part: int
    path: Path
    stops: Dict[str, Stop]  # by switch
    state: str = "installing"  # or "ready": workers use it; "leaving"
    moved: Set[int] = field(default_factory=set)  # ranks that use it
    leave_s: float = 0  # leaving: when to remove it from switches
    broken: bool = False  # a switch has refused it

    @property
    def is_there(self) -> bool:
        """Do all switches have it?"""
        return all(state is Stop.THERE for state in self.stops.values())


@dataclass(eq=False)
class Part:
    """A share of a job's tensors, which goes to one server."""

    cut: Tuple[int, int]
    gbps: float
    server: str
    route: Route  # its present or next one

    @property
    def share(self) -> float:
        return (self.cut[1] - self.cut[0]) / (1 << 32)


class Has(enum.Enum):
    """What a rank has of its job's parts."""

    NONE = 1
    SENT = 2  # the present ones
    ENDED = 3  # parts of an earlier life: it is sent `again`
    FOREIGN = 4  # routes of an earlier controller, and is left alone


@dataclass
class Rank:
    """A worker of a job."""

    conn: Optional[Conn] = None
    has: Has = Has.NONE
    absent_s: Optional[float] = None  # when its connection was lost, while it keeps its routes
    launch: int = 0  # of the program, as its join says; 0: it does not


@dataclass(eq=False)
class Job:
    """A job, or one group of it."""

    name: str
    said: Json  # as in the topology
    workers: Tuple[str, ...]  # by rank
    servers: Tuple[str, ...]  # of a group: one below each parent; it uses one at a time
    group: int = 0
    groups: int = 0  # 0: not split
    ranks: List[Rank] = field(default_factory=list)
    life: int = 0  # how many times it has begun again
    state: str = (
        "free"  # the next plan may change its parts; "bound": workers have them; "restored"
    )
    announced: bool = False  # noted that all switches have its routes
    restore: List[int] = field(default_factory=list)  # route numbers of an earlier controller
    rejoined: Set[int] = field(default_factory=set)  # ranks that use these
    refusals: int = 0  # of its routes since all switches last had them
    parts: List[Part] = field(default_factory=list)
    routes: List[Route] = field(default_factory=list)  # all, those that leave included
    gbps: float = 0  # planned rate of each worker
    trees: Optional[List[Json]] = None  # its plan as planner/plan/plan_json.h has it; None: none
    assignments: List[Json] = field(default_factory=list)
    plan_text: str = ""  # these as JSON
    why: str = "it has not been planned yet"

    @property
    def whole_name(self) -> str:
        """The name without its group."""
        return self.name.rsplit("@", 1)[0] if self.groups else self.name

    def is_of(self, name: str) -> bool:
        """Is it the job of this name, or a group of it?"""
        return name in (self.name, self.whole_name)

    def is_beside(self, other: Job) -> bool:
        """Are they groups of one job?  All of these are in the same life."""
        return bool(self.groups and other.groups) and self.whole_name == other.whole_name

    def keep(self, trees: Optional[List[Json]], assignments: List[Json], text: str) -> None:
        """Take a plan, whose trees are numbered from 0, and its text."""
        self.trees, self.assignments, self.plan_text = trees, assignments, text
