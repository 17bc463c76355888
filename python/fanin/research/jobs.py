# SPDX-License-Identifier: Apache-2.0
"""Jobs of a scenario, their models, and job traces."""

from __future__ import annotations

import os
from typing import Any, Optional

from . import files, models, recorded
from .fields import U16_MAX, Field, Place, entries, read, stored
from .formats.arrivals import Arrival, Arrivals
from .formats.collectives import RANKS_MAX as GROUP_MAX
from .formats.traces import parse
from .network import data_of, summaries, text_of
from .topology import (
    AHEAD_MAX,
    PAYLOAD_1500,
    PAYLOAD_MAX,
    PAYLOAD_MIN,
    RANKS_MAX,
    WINDOW_MAX,
    WINDOW_QUOTA,
    Topology,
    words,
)

JOBS_MAX = 1024
WORKERS_MAX = 65536
SLOWS_MAX = 64
CACHE_MAX = 65536
PARTS_MAX = 1024  # layers of a synthetic model
ITERATIONS_MAX = 1_000_000
MILLION = 1_000_000
CUT_BITS = 32  # cuts are in units of 2^-32 of a tensor
COPY_NAME_BYTES = 40
MS_NS = 1_000_000
ALIVE_NS, STALL_NS = 10_000 * MS_NS, 3_600_000 * MS_NS
VERIFY_NUMEL = (
    4 << 20
)  # sums of models up to this size are checked, unless the scenario says otherwise
CONGESTIONS = ("fanin", "a2tp")

_JOB = {
    "name": Field("name"),
    "model": Field("other"),
    "workers": Field("u32", 2, WORKERS_MAX),
    "hosts": Field("other"),
    "at": Field("name"),
    "tensor": Field("name"),
    "reduce": Field("word", words=("fanin", "ring", "tree", "two-level-ring")),
    "copies": Field("u32", 1, JOBS_MAX),
    "arrival_s": Field("s", 0, 1e6),
    "interval_s": Field("s", 0, 1e6),
    "iterations": Field("u32", 1, ITERATIONS_MAX),
    "payload_bytes": Field("u16", PAYLOAD_MIN, PAYLOAD_MAX),
    "pace_gbps": Field("gbps", 1e-6, 1e5),
    "window": Field("u16", 2, WINDOW_MAX),
    "ahead": Field("u16", 0, AHEAD_MAX),
    "cache_frags": Field("u32", 0, CACHE_MAX),
    "bucket_bytes": Field("u64"),
    "mode": Field("word", words=("native", "fixed")),
    "wire": Field("word", words=("float32", "float16", "bfloat16", "int8")),
    "priority": Field("word", words=("remaining", "attained", "started", "none")),
    "congestion": Field("word", words=CONGESTIONS),
    "overlap": Field("bool"),
    "verify": Field("bool"),
    "jitter": Field("share", 0, 1),
    "pareto": Field("times", 0, 1000),
    "slow": Field("other"),
    "route": Field("u16", 1, U16_MAX),
    "cut": Field("other"),
    "joins": Field("other"),
    "groups": Field("other"),
    "retries": Field("u32", 0, 1000),
    "alive_s": Field("s", 0.1, 600),
    "stall_s": Field("s", 0.1, 1e5),
}

_FIRST = {"first": Field("u32", 1, JOBS_MAX)}

_SLOW = {
    "rank": Field("u32", 0, WORKERS_MAX - 1),
    "ranks": Field("u32", 0, WORKERS_MAX),
    "what": Field("word", words=("compute", "sending", "both")),
    "speed": Field("share", 1e-6, 1),
    "from_s": Field("s", 0, 1e6),
    "to_s": Field("s", 0, 1e6),
    "interval_ms": Field("ms", 0.001, 1e9),
    "chance": Field("share", 0, 1),
}

_SYNTHETIC = {
    "numel": Field("u64", 0, models.NUMEL_MAX),
    "layers": Field("u32", 1, PARTS_MAX),
    "forward_ms": Field("ms", 0, 3.6e6),
    "backward_ms": Field("ms", 0, 3.6e6),
}

_TRACED = {
    "trace": Field("other"),
    "steps": Field("u32", 1, ITERATIONS_MAX),
    "compute_ms": Field("ms", 0, 3.6e6),
    "ranks": Field("u32", 1, GROUP_MAX),
    "group": Field("other"),
    "partial": Field("bool"),
}

_SCALED = {"of": Field("other"), "scale": Field("share", 1e-6, 1), "compute": Field("share", 0, 1)}


class Model:
    """A job's layers: in forward order, parameters and times."""

    def __init__(self, name: str, layers: list[tuple[int, int, int]]) -> None:
        self.name, self.layers = name, layers

    @property
    def numel(self) -> int:
        """Parameters."""
        return sum(layer[0] for layer in self.layers)


class Seat:
    """Where a worker joins, and as which rank."""

    def __init__(self, node: int, rank: int, ranks: int, place: int, route: int = 0) -> None:
        self.node, self.rank, self.ranks = node, rank, ranks
        self.place = place  # of its inputs: the ranks below any one aggregator are neighbours
        self.route = route  # its number in a plan; 0: none


class Job:
    """A job; `values` has its keys as stored, with defaults."""

    def __init__(self, name: str, values: dict[str, Any], model: Model) -> None:
        self.name, self.values, self.model = name, values, model
        self.ranks: int = values["workers"]
        self.reduce: str = values.get("reduce", "fanin")
        self.at: Optional[int] = None  # the node that sums or, if `shared`, that completes sums
        self.shared = False  # its workers join switches with shared slots
        self.hosts: Optional[list[int]] = None
        self.seats: Optional[list[Seat]] = None
        self.slow: list[dict[str, Any]] = []


# ---- models ----


def _synthetic(place: Place, given: Any) -> Model:
    """Equal layers with the given totals."""
    values = read(place, given, _SYNTHETIC)
    count, numel = values.get("layers", 1), values.get("numel", 0)
    times = values.get("forward_ms", 0) // count, values.get("backward_ms", 0) // count
    layers = [(numel // count + (i < numel % count), *times) for i in range(count)]
    return Model("synthetic", layers)


_models: dict[tuple[str, str], list[tuple[int, int, int]]] = {}  # tables of files and by name


def _named(place: Place, key: str, name: str) -> Model:
    table = len(name) > 4 and name.endswith(".csv")
    known = place.file if table else "", name
    if known not in _models:
        if table:
            text = text_of(place, key, name)
            with place.of(key, name):
                layers = models.parse(text)
        elif name in models.NAMES:
            layers = models.made(name)
        else:
            every = " ".join(models.NAMES)
            place.fail(key, f'"{name[:64]}": expected a file NAME.csv or one of {every}')
        _models[known] = [layer[1:] for layer in layers]
    return Model(name[: models.NAME_MAX], list(_models[known]))


def _scaled(place: Place, given: Any) -> Model:
    """A smaller version: parameters and times by `scale`, times by `compute` as well.

    A layer with parameters keeps at least one."""
    values = read(place, given, _SCALED)
    scale, compute = values.get("scale", MILLION), values.get("compute", MILLION)
    if not isinstance(given["of"], str):
        place.fail("of", "expected the name of a model or a CSV file")
    model = _named(place, "of", given["of"])
    model.layers = [
        (
            numel * scale // MILLION or (1 if numel else 0),
            forward * scale // MILLION * compute // MILLION,
            backward * scale // MILLION * compute // MILLION,
        )
        for numel, forward, backward in model.layers
    ]
    return model


def _data(place: Place, key: str, name: Any) -> bytes:
    """What is in a file that the scenario names, relative to its own folder."""
    if not isinstance(name, str):
        place.fail(key, "expected the name of a file")
    return data_of(place, key, name, False, files.BYTES_MAX)


_traces: dict[tuple[str, recorded.Choice], list[tuple[int, int]]] = {}  # a sweep asks again


def _traced(place: Place, given: Any) -> Model:
    """The collectives of a recorded iteration, the first one as the last layer."""
    values = read(place, given, _TRACED)
    name, group = given["trace"], given.get("group", "")
    if not isinstance(group, str):
        place.fail("group", "expected the name of a group of ranks")
    choice = recorded.Choice(
        values.get("steps", 1),
        values.get("compute_ms", 0) / MS_NS,
        values.get("ranks"),
        group,
        values.get("partial", False),
    )
    known = f"{place.file}:{name}", choice
    if known not in _traces:
        data = _data(place, "trace", name)
        with place.of("trace", name):
            trace, form = recorded.read(data)
            _traces[known] = recorded.model(trace, choice)
            summaries.append(f"{name}: {recorded.said(trace, form, choice)}")
    layers = [(numel, 0, backward_ns) for numel, backward_ns in reversed(_traces[known])]
    return Model(os.path.basename(name)[: models.NAME_MAX], layers)


def _model(place: Place, given: Any) -> Model:
    if isinstance(given, str):
        return _named(place, "model", given)
    if not isinstance(given, dict):
        place.fail("model", "expected the name of a model, a CSV file or an object")
    place = place.inside("model")
    if "trace" in given:
        return _traced(place, given)
    return _scaled(place, given) if "of" in given else _synthetic(place, given)


def whole(value: Any) -> int:
    """The value if it is a whole number, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _cut(place: Place, model: Model, given: Any) -> None:
    """Keep the part of each layer that the job reduces."""
    cut = given if isinstance(given, list) else []
    ends = [whole(value) for value in cut]
    if len(ends) != 2 or not 0 <= ends[0] < ends[1] <= 1 << CUT_BITS:
        place.fail("cut", f"expected two whole numbers, from 0 to 2^{CUT_BITS}, rising")
    low, high = ends
    model.layers = [
        ((numel * high >> CUT_BITS) - (numel * low >> CUT_BITS), forward, backward)
        for numel, forward, backward in model.layers
    ]


# ---- jobs ----


def _joins(place: Place, top: Topology, job: Job, given: dict[str, Any]) -> None:
    """Read where each worker joins.  "groups" has a route for each of equal runs of workers."""
    names, groups = given["joins"], given.get("groups")
    count = 1 if groups is None else len(groups) if isinstance(groups, list) else 0
    if not isinstance(names, list) or len(names) != job.ranks:
        place.fail("joins", f"expected an array of {job.ranks} names, one a worker")
    each = job.ranks // count if count else 0
    if not 2 <= each <= RANKS_MAX or job.ranks % count:
        place.fail(
            "groups",
            f"{job.ranks} workers in {count} groups: expected 2 to {RANKS_MAX} each",
        )
    job.seats = []
    for i, name in enumerate(names):
        node = top.find(name)
        if node is None:
            place.fail("joins", f'"{str(name)[:63] if name else ""}": no node of that name')
        route = whole(groups[i // each]) if groups is not None else job.values.get("route", 0)
        if not 0 <= route <= U16_MAX:
            place.fail("groups", "expected numbers of routes")
        job.seats.append(Seat(node, i % each, each, i, route))


def _slow(place: Place, ranks: int, given: dict[str, Any]) -> list[dict[str, Any]]:
    """Who is slow, and when."""
    found = []
    for at, item in entries(place, given, "slow", SLOWS_MAX):
        values = read(at, item, _SLOW)
        rank = values.setdefault("rank", 0)
        many = values.setdefault("ranks", 1 if "rank" in item else ranks)
        if rank >= ranks:
            at.fail("rank", f"{rank}: the job has {ranks} workers")
        if many > ranks - rank:
            at.fail("ranks", f"{many} from {rank} on: the job has {ranks} workers")
        if "to_s" in values and values["to_s"] <= values.get("from_s", 0):
            at.fail("to_s", "expected more than from_s")
        if values.get("chance", MILLION) < MILLION and not values.get("interval_ms"):
            at.fail("chance", "needs interval_ms")
        what = values.pop("what", "compute")
        found.append({**stored(values), "computes": what != "sending", "sends": what != "compute"})
    return found


def _hosts(place: Place, top: Topology, ranks: int, given: Any) -> list[int]:
    if not isinstance(given, list) or len(given) != ranks:
        place.fail("hosts", f"expected an array of {ranks} names, one a worker")
    found: dict[int, None] = {}
    for i, name in enumerate(given):
        node = top.find(name)
        if node is None or top.nodes[node].kind != "worker":
            text = name[:63] if isinstance(name, str) else ""
            place.fail(f"hosts[{i}]", f'"{text}": no worker node of that name')
        if node in found:
            place.fail(f"hosts[{i}]", f'"{name}" is there twice')
        found[node] = None
    return list(found)


class Jobs:
    """Reads the jobs of a scenario."""

    def __init__(self, top: Topology) -> None:
        self.top = top
        self.found: list[Job] = []
        self.names: set[str] = set()
        self.workers = sum(node.kind == "worker" for node in top.nodes)

    def _check(self, place: Place, values: dict[str, Any], given: dict[str, Any]) -> None:
        """Check numbers that depend on each other."""
        values.setdefault("name", f"job{len(self.found)}")
        if not values.get("workers"):
            values["workers"] = min(self.workers, WORKERS_MAX) if self.workers >= 2 else 0
        workers, ahead, window = values["workers"], values.get("ahead", 0), values["window"]
        if workers > self.workers or not workers:
            place.fail("workers", f"{workers}: the topology has {self.workers} worker nodes")
        if 0 < ahead < window:
            place.fail("ahead", f"{ahead}: expected 0, or the window of {window} or more")
        if values.get("cache_frags") and not ahead:
            place.fail("cache_frags", "goes with ahead: else none is slow alone")
        if values.get("mode", "native") != "native" and values.get("wire", "float32") != "float32":
            place.fail("mode", "fixed goes with wire float32 only")
        if "model" not in given:
            place.fail("", 'lacks the key "model"')

    def _add(self, place: Place, values: dict[str, Any], given: dict[str, Any], copy: int) -> None:
        if len(self.found) == JOBS_MAX:
            place.fail("", f"more than {JOBS_MAX} jobs")
        values = dict(values)
        name = values.pop("name")
        if values.pop("copies", 1) > 1:
            name = f"{name[:COPY_NAME_BYTES]}{copy}"
        arrival = values.pop("arrival_s", 0) + copy * values.pop("interval_s", 0)
        if name in self.names:
            place.fail("name", f'there are two jobs "{name}"')
        job = Job(name, values, _model(place, given["model"]))
        values["arrival_ns"] = arrival
        if "verify" not in given:
            values["verify"] = job.reduce == "fanin" and job.model.numel <= VERIFY_NUMEL
        if "cut" in given:
            _cut(place, job.model, given["cut"])
        if "joins" in given:
            _joins(place, self.top, job, given)
        job.slow = _slow(place, job.ranks, given)
        if "hosts" in given:
            job.hosts = _hosts(place, self.top, job.ranks, given["hosts"])
        self.names.add(name)
        self.found.append(job)

    def _values(self, place: Place, given: Any) -> dict[str, Any]:
        usual = {"payload_bytes": PAYLOAD_1500, "window": WINDOW_QUOTA, "iterations": 1}
        usual.update(alive_s=ALIVE_NS, stall_s=STALL_NS)
        usual.update(read(place, given, words(_JOB, "congestion", given)))
        usual["payload_bytes"] = usual["payload_bytes"] // 8 * 8
        return usual

    def read(self, place: Place, given: Any) -> None:
        """Read an entry of "jobs", which may stand for several."""
        values = self._values(place, given)
        self._check(place, values, given)
        for copy in range(values.get("copies", 1)):
            self._add(place, values, given, copy)

    def _read_arrival(self, place: Place, one: Arrival, common: dict[str, Any]) -> None:
        values, given = self._values(place, common), dict(common)
        if "model" not in given and one.model is not None:
            given["model"] = one.model
        if "iterations" not in given:
            if one.iterations is None:
                place.fail("", 'lacks the key "iterations": the file has none')
            if one.iterations > ITERATIONS_MAX:
                place.fail("file", f"{one.place}: more than {ITERATIONS_MAX} iterations")
            values["iterations"] = one.iterations or 1
        values.update(workers=one.workers, arrival_s=one.arrival_ns, name=one.place)
        values.pop("copies", None)
        self._check(place, values, given)
        self._add(place, values, given, 0)

    def read_trace(self, place: Place, given: Any) -> None:
        """Read a file with a list of jobs; other keys hold for all of them, the file's aside."""
        name = given.get("file") if isinstance(given, dict) else None
        data = _data(place, "file", name)
        common = {key: value for key, value in given.items() if key not in ("file", "first")}
        first = read(place, {"first": given.get("first", JOBS_MAX)}, _FIRST)["first"]
        with place.of("file", str(name)):
            found, form = parse(data)
        if not isinstance(found, Arrivals):
            place.fail("file", f"{name}: {form}: expected a list of jobs")
        taken = found.jobs[:first] if "first" in given else found.jobs
        if len(taken) > JOBS_MAX:
            place.fail("", f"{len(taken)} jobs: at most {JOBS_MAX}: first=N takes the first ones")
        for one in taken:
            self._read_arrival(place, one, common)
        rest = len(found.jobs) - len(taken)
        left = [f"{found.alone} of one worker, which reduce nothing, left out"] * (found.alone > 0)
        left += [f"{rest} later ones left out"] * (rest > 0) + found.notes
        summaries.append("; ".join([f"{name}: {form}: {len(taken)} jobs", *left]))
