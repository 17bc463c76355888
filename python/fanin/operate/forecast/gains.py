# SPDX-License-Identifier: Apache-2.0
"""What would make an all-reduce faster, by the same arithmetic, and how to have it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Iterator, List, Tuple

from .model import WIDE_MBPS, Forecast, Net, forecast

GAIN = 1.02  # the least that is named
NARROW = 0.9  # of the usual rate: below, a link is narrow
SWITCHES_MAX = 64
BUFFER = 4 << 20
JUMBO_MTU = 9000

Change = Tuple[Net, str]  # the network as it would be, and how to have it


@dataclass
class Job:
    """What advice has to name, beside the network."""

    first: List[int]  # the first rank of each host
    switches: List[str]  # addresses
    jumbo_payload: int  # as Net.payload, in jumbo frames
    least_mtu: int  # of all paths


def usual_mbps(rates: List[float]) -> float:
    """The rate that half of the links reach."""
    return sorted(rates)[len(rates) // 2]


def _by_settings(net: Net, job: Job) -> Iterator[Change]:
    """What variables and the kernel's settings change."""
    yield (
        replace(net, shares_memory=True),
        "ranks of a host that share memory: export FANIN_LOCAL=1 on all ranks",
    )
    if len(net.ranks) > 1:
        yield (
            replace(net, sums=[True] * len(net.sums)),
            "hosts that sum with the switches: unset FANIN_HOSTS",
        )
    yield (
        replace(net, window_bytes=0.0),
        "larger socket buffers on all hosts, as root: sysctl -w "
        f"net.core.rmem_max={BUFFER} net.core.wmem_max={BUFFER}",
    )
    links = (
        ""
        if job.least_mtu >= JUMBO_MTU
        else "as root, on all links, ip link set dev DEVICE mtu 9000; then "
    )
    switch = ", and fanin switch --mtu 9000" if net.switch_mbps else ""
    yield (
        replace(net, payload=job.jumbo_payload),
        f"jumbo frames: {links}export FANIN_MTU={JUMBO_MTU} on all ranks{switch}",
    )


def _by_links(net: Net, job: Job) -> Iterator[Change]:
    """What wider links change."""
    usual, least = usual_mbps(net.host_mbps), min(net.host_mbps)
    host = net.host_mbps.index(least)
    if least < NARROW * usual:
        yield (
            replace(net, host_mbps=[*net.host_mbps[:host], usual, *net.host_mbps[host + 1 :]]),
            "a link as wide as the others' at the host of rank "
            f"{job.first[host]}, which has {least:.0f} Mb/s",
        )
    twice = [2 * mbps for mbps in net.host_mbps]
    rails = [[2 * mbps for mbps in rail] for rail in net.rail_mbps]
    yield replace(net, host_mbps=twice, rail_mbps=rails), "links twice as wide at all hosts"
    if net.switch_mbps:
        rates = list(net.switch_mbps)
        k = rates.index(min(rates))
        rates[k] *= 2
        yield (
            replace(net, switch_mbps=rates),
            f"a link of {rates[k]:.0f} Mb/s at switch {job.switches[k]}",
        )


def _by_machines(net: Net) -> Iterator[Change]:
    """What further machines change."""
    usual, hosts = usual_mbps(net.host_mbps), len(net.ranks)
    if len(net.switch_mbps) < SWITCHES_MAX:
        yield (
            replace(
                net,
                switch_mbps=[*net.switch_mbps, usual],
                switch_rail=[*net.switch_rail, 0],
            ),
            f"one more spare machine, link {usual:.0f} Mb/s: fanin switch on it, and its address "
            "in FANIN_SWITCH",
        )
    networks = 1 + len(net.rail_mbps)
    yield (
        replace(net, switch_mbps=[WIDE_MBPS] * networks, switch_rail=list(range(networks))),
        f"{hosts} spare machines with such links, or one whose link is {hosts} times as wide",
    )


def gains(net: Net, job: Job, now: Forecast, tensor_bytes: int) -> List[Tuple[float, str]]:
    """Each change that is faster than `now`, and its time in ns; the largest gain first."""
    found = []
    changes = [*_by_settings(net, job), *_by_links(net, job), *_by_machines(net)]
    for changed, what in changes if now.ns > 0 else []:
        then = forecast(changed, tensor_bytes)
        if then.ns * GAIN <= now.ns:
            found.append((then.ns, what))
    return sorted(found, key=lambda gain: gain[0])
