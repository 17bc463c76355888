# SPDX-License-Identifier: Apache-2.0
"""A flat scenario by flows in place of packets, for networks of thousands of hosts.

A job reduces bucket after bucket, at one rate on all links that its gradients pass: sums are passed
on as they arrive.  Rates are max-min fair: those of all jobs grow together until a link is full or a
window limits them, and what is left goes to the others.  A bucket takes the time of its bytes at
that rate, and the latency of the longest path there and back.  Nothing is lost; slots suffice.

Times are in nanoseconds.  Bytes are those of gradients on the wire, without headers.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any, Iterator, Optional, Sequence

from . import files
from .topology import depths

NEVER = math.inf
HEAD_BYTES = 36
FLOAT_BYTES = 4
SPANS_MAX = 512  # iterations whose times are kept
MILLION = 1_000_000
PARETO_MOST = 100.0  # times as long as usual
PARETO_POWER_MAX = 16.0
PARETO_BITS = 24
MASK = (1 << 64) - 1

_ELEMENT_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}


def mix(z: int) -> int:
    """The core's mixer of random numbers, fan_rng_mix."""
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31


def _ratio(a: float, b: float) -> float:
    return a / b if b else NEVER


# ---- how long workers compute ----


def _pareto(draw: int, shape: int) -> float:
    """The factor by which it takes longer than at best: u^(-1 / shape), where `draw` gives u.

    Uses only squares and roots, which are exact to the last bit on every machine."""
    u, part, r = ((draw >> 11) + 1) / 2.0**53, min(MILLION / shape, PARETO_POWER_MAX), 1.0
    whole = int(part)
    for _ in range(whole):
        r *= u
    part -= whole
    for _ in range(PARETO_BITS):
        u = math.sqrt(u)
        part *= 2
        if part >= 1:
            r *= u
            part -= 1
    return 1 / r if r * PARETO_MOST > 1 else PARETO_MOST


class _Slow:
    """Some workers compute at a fraction of their speed for a while."""

    def __init__(self, seed: int, number: int, given: dict[str, Any]) -> None:
        self.seed, self.number = seed, number
        self.first, self.ranks = int(given["rank"]), int(given["ranks"])
        self.speed, self.chance = int(given.get("speed", MILLION)), given.get("chance", MILLION)
        self.from_ns, self.to_ns = int(given.get("from_ns", 0)), int(given.get("to_ns", MASK))
        self.interval_ns = int(given.get("interval_ns", 0))

    def at(self, rank: int, now_ns: int) -> tuple[int, int]:
        """The speed that it leaves, and until when it holds."""
        if not 0 <= rank - self.first < self.ranks or now_ns >= self.to_ns:
            return MILLION, MASK
        if now_ns < self.from_ns:
            return MILLION, self.from_ns
        if not self.interval_ns:
            return self.speed, self.to_ns
        interval = (now_ns - self.from_ns) // self.interval_ns
        until_ns = min(self.to_ns, self.from_ns + (interval + 1) * self.interval_ns)
        which = self.number << 16 | rank
        draw = mix((self.seed + mix(interval) + which * 0x9E3779B9) & MASK)
        return self.speed if draw % MILLION < self.chance else MILLION, until_ns


class _Computing:
    """How long the workers of a job take for each layer."""

    def __init__(
        self, seed: int, job: dict[str, Any], layers: Sequence[tuple[int, int, int]]
    ) -> None:
        self.seed, self.layers = seed, layers
        self.jitter, self.pareto = int(job.get("jitter", 0)), int(job.get("pareto", 0))
        self.slow = [
            _Slow(seed, i, slow) for i, slow in enumerate(job.get("slow", [])) if slow["computes"]
        ]
        self.alike = not (self.jitter or self.pareto or self.slow)

    def _jittered(self, draw: int, work_ns: int) -> int:
        if self.pareto:
            work_ns = int(float(work_ns) * _pareto(mix(draw), self.pareto))
        if not self.jitter or not work_ns:
            return work_ns
        return work_ns * (MILLION - self.jitter + draw % (2 * self.jitter + 1)) // MILLION

    def _until(self, rank: int, now_ns: int, work_ns: int) -> int:
        """When the rank ends work that takes `work_ns` at full speed."""
        while (
            work_ns
        ):  # ends: each turn finishes the work, or does some up to the end of an interval
            speed, until_ns = MILLION, MASK
            for slow in self.slow:
                mine, end_ns = slow.at(rank, now_ns)
                speed, until_ns = min(speed, mine), min(until_ns, end_ns)
            need_ns = (work_ns * MILLION + speed - 1) // speed
            if until_ns - now_ns >= need_ns:
                return now_ns + need_ns
            work_ns -= min(work_ns, (until_ns - now_ns) * speed // MILLION)
            now_ns = until_ns
        return now_ns

    def times(self, rank: int, iteration: int, now_ns: int) -> tuple[int, list[int]]:
        """When the rank has computed the layers forwards, and by layer when backwards."""
        draw = mix(self.seed ^ mix(rank << 32 | iteration))
        work: Sequence[tuple[int, int, int]] = self.layers
        if self.jitter or self.pareto:
            work = [
                (n, self._jittered(draw, forward), self._jittered(draw, backward))
                for n, forward, backward in work
            ]
        back = [0] * len(work)
        if not self.slow:
            now_ns += sum(layer[1] for layer in work)
            for i in range(len(work) - 1, -1, -1):
                now_ns += work[i][2]
                back[i] = now_ns
            return now_ns, back
        for layer in work:
            now_ns = self._until(rank, now_ns, layer[1])
        for i in range(len(work) - 1, -1, -1):
            now_ns = back[i] = self._until(rank, now_ns, work[i][2])
        return now_ns, back


def buckets_of(layers: Sequence[tuple[int, int, int]], size: int) -> list[tuple[int, int]]:
    """Lowest layers and elements of gradients that are reduced together, `size` bytes and more.

    Bucket 0, that of the last layers, is ready first.  Each has elements."""
    found, elements = [], 0
    for i in range(len(layers) - 1, -1, -1):
        elements += layers[i][0]
        if elements and (elements * FLOAT_BYTES >= size or i == 0):
            found.append((i, elements))
            elements = 0
    return found


# ---- the network ----


class _Network:
    """Directions of links, even ones from a to b and odd ones back, and shortest paths."""

    def __init__(self, flat: dict[str, Any]) -> None:
        self.nodes = flat["nodes"]
        self.ends: list[tuple[int, int]] = []
        self.bps: list[float] = []
        self.link = flat["links"]
        for link in self.link:
            self.ends += [(link["a"], link["b"]), (link["b"], link["a"])]
            self.bps += [float(link["bps"]), float(link.get("back_bps", link["bps"]))]
        self.out: list[list[tuple[int, int]]] = [[] for _ in self.nodes]
        for number, (a, b) in enumerate(self.ends):
            self.out[a].append((number, b))
        self.near = [[other for _, other in out] for out in self.out]
        self.forwards = [node["kind"] in ("switch", "router") for node in self.nodes]
        self._depths: dict[int, list[int]] = {}

    def overhead(self, link: int) -> int:
        """Bytes of each packet besides its own."""
        return int(self.link[link // 2].get("overhead_bytes", 66))

    def ns(self, link: int, size: float) -> float:
        """How long a packet takes."""
        delay = float(self.link[link // 2].get("delay_ns", 1000))
        return delay + (size + self.overhead(link)) * 8e9 / self.bps[link]

    def _from(self, to: int) -> list[int]:
        """By node, the number of links to `to`; -1: there is no path."""
        if to not in self._depths:
            self._depths[to] = depths(to, self.near, self.forwards)
        return self._depths[to]

    def path(self, a: int, b: int) -> Iterator[int]:
        """The links from a to b; of several shortest paths, the one whose links stand first."""
        last = None
        if len(self.out[b]) == 1 and a != b:  # a host: the path to the node before it, and one more
            link, near = self.out[b][0]
            if self.forwards[near] or near == a:
                b, last = near, link ^ 1
        depths = self._from(b)
        while a != b and depths[a] > 0:
            for link, other in self.out[a]:
                if depths[other] == depths[a] - 1 and (other == b or self.forwards[other]):
                    break
            yield link
            a = other
        if last is not None:
            yield last


# ---- jobs ----


class _Flow:
    """A job."""

    def __init__(
        self, net: _Network, job: dict[str, Any], model: dict[str, Any], seed: int
    ) -> None:
        numbers = model["layers"]
        layers = list(zip(numbers[0::3], numbers[1::3], numbers[2::3]))
        self.net, self.job, self.model_name = net, job, model["name"]
        self.hosts, self.reduce = job["hosts"], job.get("reduce", "fanin")
        self.numel = sum(layer[0] for layer in layers)
        self.buckets = buckets_of(layers, job.get("bucket_bytes", 0))
        self.computing = _Computing(seed, job, layers)
        self.element = _ELEMENT_BYTES[job.get("wire", "float32")]
        self.packet = float(self._per_packet() * self.element)
        self.load: list[tuple[int, float]] = []  # links, and bytes there for each byte of gradients
        self.ready_ns: list[float] = []
        self.iteration = self.bucket = 0
        self.begins, self.sends, self.over, self.fixed = True, False, False, False
        self.computed_ns = self.left = self.rate = self.most = self.done_ns = 0.0
        self.comm_ns = self.comm_until_ns = self.wait_ns = self.bytes = 0.0
        self.span_ns: list[float] = []
        self._begin()

    def _per_packet(self) -> int:
        """Elements of a full packet: half types grow while they are summed."""
        payload = int(self.job["payload_bytes"])
        if self.element == 1:  # with a byte for each block of 32 that has begun
            return payload - (payload + 32) // 33
        return payload // FLOAT_BYTES

    # ---- the links that it uses ----

    def _path(
        self, copies: dict[int, float], a: int, b: int, times: float, back: Optional[bool]
    ) -> float:
        """Add `times` contributions from node `a` to `b`, and their results, by multicast if `back`.

        Without results `back` is None.  Returns a packet's round-trip time."""
        ns, packet = 0.0, self.packet + HEAD_BYTES
        for link in self.net.path(a, b):
            copies[link] = copies.get(link, 0.0) + times
            ns += self.net.ns(link, packet)
            if back is not None:
                down = copies.get(link ^ 1, 0.0)
                copies[link ^ 1] = down if back and down > 0 else down + times
                ns += self.net.ns(link ^ 1, packet)
        return ns

    def _sums(self, copies: dict[int, float]) -> tuple[float, int]:
        """Add the paths from each worker to where it joins, and from each node that sums to the next.

        Returns the longest path's round-trip time, and the least window."""
        nodes, job, passed = self.net.nodes, self.job, set()
        top, shared, seats = job["at"], job.get("shared", False), job.get("seats")
        most_ns, window = 0.0, min(int(job["window"]), int(nodes[top]["window"]))
        for rank, host in enumerate(self.hosts):
            at = seats[5 * rank] if seats else top
            ns = self._path(copies, host, at, 1, nodes[at].get("multicast", False) and not shared)
            up = nodes[at].get("parent", nodes[at].get("server"))
            while at != top and up is not None:
                window = min(window, nodes[at]["window"])
                multicast = nodes[up].get("multicast", False) and not shared
                ns += self._path(copies, at, up, 0 if at in passed else 1, multicast)
                passed.add(at)
                at = up
                up = nodes[at].get("parent", nodes[at].get("server"))
            most_ns = max(most_ns, ns)
        return most_ns, window

    def _tree(self, copies: dict[int, float]) -> float:
        """Add the paths of a binary tree: each rank sends up once and gets the result once."""
        most_ns = 0.0
        for rank in range(1, len(self.hosts)):
            ns, at = 0.0, rank
            while at:
                up = (at - 1) // 2
                times = 1 if at == rank else 0
                ns += self._path(copies, self.hosts[at], self.hosts[up], times, False)
                at = up
            most_ns = max(most_ns, ns)
        return most_ns

    def _ring(self, copies: dict[int, float]) -> float:
        """Add the paths of a ring: parts go from each worker to the next, all but one n-th twice."""
        ns, count = 0.0, len(self.hosts)
        times = 2.0 * (count - 1) / count
        for rank, host in enumerate(self.hosts):
            ns += self._path(copies, host, self.hosts[(rank + 1) % count], times, None)
        return ns * times

    def _framed(self, link: int) -> float:
        """The bytes on a link for a byte of gradients, headers included."""
        return 1 + (HEAD_BYTES + self.net.overhead(link)) / self.packet

    def _begin(self) -> None:
        copies: dict[int, float] = {}
        self.wake_ns, self.window = float(self.job.get("arrival_ns", 0)), NEVER
        if self.reduce == "ring":
            self.latency_ns = self._ring(copies)
        elif self.reduce == "tree":
            self.latency_ns = self._tree(copies)
        else:
            self.latency_ns, window = self._sums(copies)
            self.window = window * self.packet
            self.wake_ns += 2 * self.latency_ns  # JOIN, WELCOME, BEAT and STATE
        used = sorted(link for link, times in copies.items() if times > 0)
        self.load = [(link, copies[link] * self._framed(link)) for link in used]
        frame = self._framed(used[0]) if used else 1.0
        pace_bps = self.job.get("pace_bps", 0)
        self.pace = float(pace_bps) / 8e9 / frame if pace_bps else NEVER

    # ---- time ----

    def _compute(self, now_ns: float) -> None:
        """Compute the iteration on all workers, and with it when each bucket is ready."""
        self.computed_ns, self.ready_ns = now_ns, [now_ns] * len(self.buckets)
        ranks = 1 if self.computing.alike else len(self.hosts)
        for rank in range(ranks):
            end_ns, back = self.computing.times(rank, self.iteration, int(now_ns))
            for b, (low, _) in enumerate(self.buckets):
                if back[low] > self.ready_ns[b]:
                    self.ready_ns[b] = float(back[low])
            self.computed_ns = max(self.computed_ns, float(end_ns))

    def _end_iteration(self, now_ns: float) -> None:
        """End the iteration: the last bucket was sent at `now_ns`, or there was none."""
        end_ns = max(now_ns + (self.latency_ns if self.buckets else 0), self.computed_ns)
        self.wait_ns += end_ns - self.computed_ns
        if self.iteration < SPANS_MAX:
            self.span_ns.append(end_ns)
        self.done_ns = end_ns
        self.iteration += 1
        self.over = self.iteration == self.job["iterations"]
        self.begins = not self.over
        self.wake_ns = NEVER if self.over else end_ns

    def _next_bucket(self, now_ns: float) -> None:
        """Go to the next bucket of the iteration, if there is one."""
        self.sends = False
        if self.bucket == len(self.buckets):
            self._end_iteration(now_ns)
            return
        self.left = float(self.buckets[self.bucket][1]) * self.element
        self.wake_ns = self.ready_ns[self.bucket]

    def _window_rate(self) -> float:
        """The rate that the window allows.

        Bytes beyond one window wait for results, one window in each round trip; all of them do if
        the window is full of the bucket before."""
        full = self.comm_until_ns > self.ready_ns[self.bucket]
        waits = self.left if full else self.left - self.window
        return _ratio(self.window, self.latency_ns) * self.left / waits if waits > 0 else NEVER

    def wake(self, now_ns: float) -> None:
        """Begin an iteration, or to send a bucket."""
        if self.begins:
            self.begins, self.bucket = False, 0
            self._compute(now_ns)
            self._next_bucket(now_ns)
            return
        self.most = min(self._window_rate(), self.pace)
        self.sends, self.wake_ns = True, NEVER

    def sent(self, now_ns: float) -> None:
        """The bucket has been sent."""
        from_ns, until_ns = self.ready_ns[self.bucket], now_ns + self.latency_ns
        self.bytes += float(self.buckets[self.bucket][1]) * self.element
        self.comm_ns += until_ns - max(self.comm_until_ns, from_ns)
        self.comm_until_ns = until_ns
        self.bucket += 1
        self._next_bucket(now_ns)


class Flows:
    """A run."""

    def __init__(self, flat: dict[str, Any]) -> None:
        self.flat, self.net = flat, _Network(flat)
        self.seed, self.limit_ns = flat.get("seed", 1), float(flat.get("limit_ns", 3600 * 10**9))
        self.flows = [
            _Flow(self.net, job, flat["models"][job["model"]], mix(self.seed ^ mix(i + 77)))
            for i, job in enumerate(flat["jobs"])
        ]
        self.copies = [0.0] * len(self.net.ends)  # bytes of all jobs without a rate
        self.room = [0.0] * len(self.net.ends)  # bytes a nanosecond not yet given to a job

    # ---- rates ----

    def _fix(self, flow: _Flow, rate: float) -> None:
        flow.rate, flow.fixed = rate, True
        for link, size in flow.load:
            self.copies[link] -= size
            if self.copies[link] < 1e-9:
                self.copies[link] = 0.0
            self.room[link] = max(0.0, self.room[link] - rate * size)

    def _bound(self, flow: _Flow) -> float:
        """The most that a job can get if all get the same."""
        copies, room = self.copies, self.room
        shares = [room[link] / copies[link] for link, _ in flow.load if copies[link] > 0]
        return min(flow.most, min(shares, default=NEVER))

    def _share_out(self) -> None:
        """Divide the rates max-min fairly: in each turn, the job with the least bound gets it."""
        sending = [flow for flow in self.flows if flow.sends]
        for flow in self.flows:
            flow.fixed = not flow.sends
        for flow in sending:
            for link, _ in flow.load:
                self.copies[link] = 0.0
                self.room[link] = self.net.bps[link] / 8e9
        for flow in sending:
            for link, size in flow.load:
                self.copies[link] += size
        while sending:  # ends: each turn fixes one rate
            bounds = [self._bound(flow) for flow in sending]
            least = min(bounds)
            flow = sending.pop(bounds.index(least))
            self._fix(flow, least if least < 1e9 else 1e9)  # no link: almost at once

    # ---- time ----

    def _advance(self, now_ns: float, next_ns: float) -> bool:
        """Do everything that is due.  True: the set of sending jobs has changed."""
        changed = False
        for flow in self.flows:
            sends = flow.sends
            if sends:
                flow.left -= flow.rate * (next_ns - now_ns)
                if flow.left <= 1e-6 * flow.rate:  # within a millionth of a nanosecond
                    flow.sent(next_ns)
            if not flow.over and not flow.sends and flow.wake_ns <= next_ns:
                flow.wake(next_ns)
            changed |= sends != flow.sends
        return changed

    def run(self) -> None:
        """Run until all jobs have ended or the limit is reached."""
        now_ns = 0.0
        while True:
            changes = [
                now_ns + _ratio(flow.left, flow.rate) if flow.sends else flow.wake_ns
                for flow in self.flows
            ]
            next_ns = max(min(changes), now_ns)
            if next_ns == NEVER or next_ns > self.limit_ns:
                return
            if self._advance(now_ns, next_ns):
                self._share_out()
            now_ns = next_ns

    # ---- results ----

    def _job(self, flow: _Flow) -> dict[str, Any]:
        job, size = flow.job, flow.bytes / flow.element * FLOAT_BYTES
        arrival_ns = float(job.get("arrival_ns", 0))
        at = self.net.nodes[job["at"]]["name"] if flow.reduce == "fanin" else flow.reduce
        return {
            "name": job["name"],
            "model": flow.model_name,
            "at": at,
            "workers": len(flow.hosts),
            "iterations": job["iterations"],
            "arrival_s": arrival_ns / 1e9,
            "jct_s": (flow.done_ns - arrival_ns) / 1e9 if flow.over else None,
            "comm_s": flow.comm_ns / 1e9,
            "wait_s": flow.wait_ns / 1e9,
            "bytes_per_worker": int(size),
            "throughput_gbps_per_worker": size * 8 / flow.comm_ns if flow.comm_ns > 0 else 0.0,
            "retransmissions": 0,
            "model_elements": flow.numel,
            "iteration_ends_s": [span_ns / 1e9 for span_ns in flow.span_ns],
            "error": None if flow.over else "not over at limit_s",
        }

    def _links(self, end_ns: float) -> Iterator[dict[str, Any]]:
        carried = [0.0] * len(self.net.ends)
        for flow in self.flows:
            for link, size in flow.load:
                carried[link] += size * flow.bytes
        for link, size in enumerate(carried):
            capacity = self.net.bps[link] / 8e9 * end_ns
            if size > 0:
                names = [self.net.nodes[node]["name"] for node in self.net.ends[link]]
                yield {
                    "from": names[0],
                    "to": names[1],
                    "bytes": int(size),
                    "use": size / capacity if capacity > 0 else 0.0,
                }

    def result(self) -> dict[str, Any]:
        """The results, by the keys of a run of packets."""
        jobs = [self._job(flow) for flow in self.flows]
        end_ns = max(flow.done_ns for flow in self.flows)
        times = [job["jct_s"] for job in jobs if job["jct_s"] is not None]
        total = 0.0
        for time_s in times:  # sum() rounds as the version of Python likes
            total += time_s
        mean = total / len(times) if times else None
        times.sort()
        ranks = [(len(times) * percent + 99) // 100 for percent in (50, 99)]
        p50, p99 = (times[max(rank, 1) - 1] if times else None for rank in ranks)
        return {
            "name": self.flat.get("name", ""),
            "seed": self.seed,
            "level": "flows",
            "avg_jct_s": mean,
            "p50_jct_s": p50,
            "p99_jct_s": p99,
            "failed_jobs": len(jobs) - len(times),
            "end_s": end_ns / 1e9,
            "jobs": jobs,
            "switches": [],
            "servers": [],
            "links": list(self._links(end_ns)),
        }


def main(_argv: Sequence[str]) -> int:
    """Answer requests, one a line, as the engine does (engine.py)."""
    for line in sys.stdin:
        flows = Flows(json.loads(line)["scenario"])
        flows.run()
        print(files.dump(flows.result()), end="\n\0", flush=True)
    return 0
