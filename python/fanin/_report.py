# SPDX-License-Identifier: Apache-2.0
"""What a process group and a hook tell about their communicator, and their errors by name."""

import contextlib
from typing import Callable, Iterator

from ._figures import Part, Stats, times_a_ring
from .communicator import Communicator
from .errors import FaninError


def lines(communicator: Communicator, what: str, total_bytes: int) -> list[str]:
    """Lines for a person about a communicator that works: `what` was summed, by which means."""
    stats = communicator.stats()
    found = [
        f"  summed    {what}, {total_bytes / 1e6:.1f} MB; "
        f"{stats.retransmits} of {stats.sent} fragments sent again"
    ]
    if stats.host_ranks:
        found.append(
            f"  memory    shared by {stats.host_ranks} ranks of this host; "
            f"{stats.hosts} host{'s' * (stats.hosts != 1)} in all"
        )
    if stats.idle_hosts:
        found.append(f"  idle      {idle(stats)}")
    if stats.sealed:
        found.append(f"  sealed    what is sent; {stats.forged} forged packets dropped")
    else:
        found.append(
            "  open      whoever sees its packets can read and change them (FANIN_KEY_FILE)"
        )
    parts = communicator.parts()
    if len(parts) > 1:
        found.append(f"  shares    {_shares(parts)}; {'' if parts[0].settled else 'not '}settled")
        times = times_a_ring(parts, communicator.size, stats.hosts if stats.host_ranks else 0)
        if times:
            found.append(
                f"  expected  {times:.2f} times as fast as a ring over {communicator.size} ranks, "
                "if these shares fit the links; `fanin doctor` measures links"
            )
    found.append(
        f"  transport window {stats.window_frags} fragments of {stats.packet_bytes} bytes, "
        f"results by {'multicast' if stats.multicast else 'unicast'}, "
        f"UDP_SEGMENT {_on(stats.segment_offload)}, UDP_GRO {_on(stats.receive_offload)}"
    )
    if stats.ahead_frags:
        found.append(
            f"  ahead     of the slowest rank by up to {stats.ahead_frags} fragments; kept "
            f"for others at most {stats.cache_peak} sums of {stats.cache_frags}"
        )
    elif stats.ahead_asked:
        found.append(
            "  ahead     NOT granted, all ranks go in step: the switch has policy switchml, "
            "or no memory for it (fanin switch, server --ahead)"
        )
    return found


def idle(stats: Stats) -> str:
    """Which host sums nothing, and why."""
    why = "it could start no switch"
    if stats.idle_misses:
        ranks = "1 rank does" if stats.idle_misses == 1 else f"{stats.idle_misses} ranks do"
        why = (
            f"{ranks} not reach the switch inside it: is a firewall there?  Open UDP between hosts"
        )
    more = f" (and {stats.idle_hosts - 1} more)" if stats.idle_hosts > 1 else ""
    return f"the host of rank {stats.idle_rank}{more} sums nothing: {why}"


@contextlib.contextmanager
def typed_errors(kept: Callable[[], FaninError | None]) -> Iterator[None]:
    """A RuntimeError of the block is raised as the FaninError that `kept` then gives, if any."""
    try:
        yield
    except FaninError:
        raise
    except RuntimeError as error:
        cause = kept()
        if cause is None:
            raise
        raise cause from error


def _shares(parts: list[Part]) -> str:
    return ", ".join(
        f"{'lost' if part.lost else f'{100 * part.share:.0f} %'} "
        f"{part.aggregator if part.rank < 0 else f'rank {part.rank}'}"
        for part in parts
    )


def _on(flag: bool) -> str:
    return "on" if flag else "off"
