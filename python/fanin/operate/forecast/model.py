# SPDX-License-Identifier: Apache-2.0
"""How long an all-reduce takes, by the links that it crosses.

The busiest link decides.  A stream sends a tensor to the network: it is a rank, or a host whose
ranks share memory.  Of n streams, a switch that sums a share f of a tensor of S bytes gets n f S,
and sends as much.  A host with m streams that sums a share g sends m (1 - g) S to others, and
(n - m) g S as results; it gets as much.  A ring over N ranks, neighbours on one host, sends
2 (N - 1) / N S over each host's link.

Where all hosts have further networks, each carries a share of the tensor, so that all are done at
the same time, or with even shares one for each part.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import List, Tuple

STEPS = 60  # of a bisection
TCP_PAYLOAD, TCP_FRAME = 1448, 1514
WIDE_MBPS = 1e9  # a link that never decides

Range = Tuple[float, float]


@dataclass
class Net:
    """A job's network.  Rates are in Mb/s in the narrower direction, with all headers, above 0."""

    ranks: List[int]  # of each host, at least 1
    host_mbps: List[float]
    switch_mbps: List[float] = field(default_factory=list)
    switch_rail: List[int] = field(default_factory=list)  # its network; 0: the first one
    rail_mbps: List[List[float]] = field(default_factory=list)  # by each further network
    sums: List[bool] = field(default_factory=list)  # the host has an aggregator, for a share
    shares_memory: bool = False  # the ranks of a host send one stream
    payload: int = 1408  # bytes of a tensor in a full frame
    headers: int = 78  # bytes of all others in it
    rtt_ns: float = 0.0  # while the network is idle
    window_bytes: float = 0.0  # of tensors, that a stream may have in flight; 0: not known

    def streams_of(self, host: int) -> int:
        """How many streams this host sends."""
        return 1 if self.shares_memory else self.ranks[host]

    def streams(self) -> int:
        """Of all hosts."""
        return len(self.ranks) if self.shares_memory else sum(self.ranks)

    def parts(self) -> int:
        """How many sum."""
        return len(self.switch_mbps) + sum(self.sums)


@dataclass
class Forecast:
    """Of one all-reduce."""

    ns: float  # 0: no link is crossed
    ring_ns: float  # of a ring over all ranks
    by_window: bool  # windows decide, not links
    host_share: List[float]
    switch_share: List[float]


def _clamp(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _ns(tensors: float, wire_bytes: float, mbps: float) -> float:
    """The time in which a link of this rate carries so many tensors, headers included."""
    return tensors * wire_bytes * 8e3 / mbps


def _host_range(m: int, others: int, sums: bool, tensors: float) -> Range:
    """The shares that a host of `m` streams can sum while its link carries `tensors`; `others`: how
    many more streams all other hosts have.  None if low > high."""
    low, high = 0.0, 1.0
    if not sums:
        high = -1.0 if tensors < m else 0.0
    elif others > 0:
        high = -1.0 if tensors < m else _clamp((tensors - m) / others)
    elif others < 0:
        low = (m - tensors) / -others if tensors < m else 0.0
    elif tensors < m:
        high = -1.0
    return low, high


def _fits(net: Net, ns: float, wire_bytes: float) -> Tuple[bool, List[Range], List[float]]:
    """Can everything be summed in `ns`?  How much each host must and can, and each switch can."""
    streams = net.streams()
    hosts = []
    for h, mbps in enumerate(net.host_mbps):
        m = net.streams_of(h)
        tensors = ns / _ns(1, wire_bytes, mbps)
        hosts.append(_host_range(m, streams - 2 * m, net.sums[h], tensors))
    switches = [_clamp(ns / _ns(streams, wire_bytes, mbps)) for mbps in net.switch_mbps]
    can = all(low <= high for low, high in hosts)
    # what must be summed is at most 1: only one host has most of the streams
    return can and sum(high for _, high in hosts) + sum(switches) >= 1, hosts, switches


def _best_shares(net: Net, wire_bytes: float) -> Forecast:
    """Hosts sum what they must, switches what they can, and hosts the rest."""
    low, high = 0.0, 1.0
    while not _fits(net, high, wire_bytes)[0]:
        high *= 2
    for _ in range(STEPS):
        ns = (low + high) / 2
        if _fits(net, ns, wire_bytes)[0]:
            high = ns
        else:
            low = ns
    _, hosts, switches = _fits(net, high, wire_bytes)
    left = 1 - sum(least for least, _ in hosts)
    room = sum(most - least for least, most in hosts)
    by_switches = sum(switches)
    taken = min(by_switches, left)
    more = (left - taken) / room if room > 0 else 0.0
    of_switches = [can * taken / by_switches if by_switches > 0 else 0.0 for can in switches]
    of_hosts = [least + (most - least) * more for least, most in hosts]
    return Forecast(high, 0.0, False, of_hosts, of_switches)


def _one_network(net: Net, rail: int) -> Net:
    """Number `rail` alone."""
    here = [mbps for mbps, at in zip(net.switch_mbps, net.switch_rail) if at == rail]
    hosts = net.rail_mbps[rail - 1] if rail else net.host_mbps
    return replace(
        net, host_mbps=hosts, switch_mbps=here, switch_rail=[0] * len(here), rail_mbps=[]
    )


def _by_links(net: Net, wire_bytes: float) -> Forecast:
    """By all networks, one of which may have nobody who sums."""
    found = {}  # by the network: its forecast, and its weight among them
    for rail in range(1 + len(net.rail_mbps)):
        one = _one_network(net, rail)
        if one.parts():
            f = _best_shares(one, wire_bytes)
            found[rail] = f, 1 / f.ns
    every = sum(weight for _, weight in found.values())
    whole = Forecast(0.0, 0.0, False, [0.0] * len(net.ranks), [0.0] * len(net.switch_mbps))
    for rail, (f, weight) in found.items():
        share = weight / every
        whole.ns = max(whole.ns, f.ns * share)
        for h, of_host in enumerate(f.host_share):
            whole.host_share[h] += share * of_host
        here = [k for k, at in enumerate(net.switch_rail) if at == rail]
        for k, of_switch in zip(here, f.switch_share):
            whole.switch_share[k] = share * of_switch
    return whole


def _ring_ns(net: Net, tensor_bytes: int) -> float:
    """Of a ring over all ranks."""
    if len(net.ranks) < 2:
        return 0.0
    ranks = sum(net.ranks)
    wire_bytes = tensor_bytes * TCP_FRAME / TCP_PAYLOAD
    sent = _ns(2 * (ranks - 1) / ranks, wire_bytes, min([*net.host_mbps, WIDE_MBPS]))
    return sent + (ranks - 1) * net.rtt_ns


def forecast(net: Net, tensor_bytes: int) -> Forecast:
    """Of an all-reduce of so many bytes.  There must be a switch, or a host that sums."""
    assert net.parts() and len(net.sums) == len(net.host_mbps) == len(net.ranks) > 0
    ring_ns = _ring_ns(net, tensor_bytes)
    if len(net.ranks) == 1 and (net.shares_memory or not net.switch_mbps):
        return Forecast(0.0, ring_ns, False, [0.0], [0.0] * len(net.switch_mbps))
    f = _by_links(net, tensor_bytes * (net.payload + net.headers) / net.payload)
    f.ring_ns = ring_ns
    if net.window_bytes > 0:  # a stream has at most a window in flight for each round trip
        most = max(1 - share for share in f.host_share)
        by_windows = most * tensor_bytes * net.rtt_ns / net.window_bytes
        f.by_window = by_windows > f.ns
        f.ns = max(f.ns, by_windows)
    f.ns += net.rtt_ns
    return f
