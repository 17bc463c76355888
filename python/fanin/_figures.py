# SPDX-License-Identifier: Apache-2.0
"""What a communicator tells of itself: counters, and the parts of its tensors."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Stats:
    """Counters of a communicator; names and units as in struct fanin_stats."""

    ops: int = 0  #: operations finished
    bytes: int = 0  #: of tensors reduced, this rank's
    fragments: int = 0  #: results received
    sent: int = 0  #: contributions sent, resent ones included
    retransmits: int = 0  #: contributions sent again
    probes: int = 0  #: "I miss this result" sent
    replays: int = 0  #: results that came again
    drops: int = 0  #: packets dropped on arrival
    srtt_ns: int = 0  #: smoothed round trip, waits for others included
    window_frags: int = 0  #: granted by the switch
    packet_bytes: int = 0  #: header, payload and, sealed, tag of a full fragment
    shards: int = 0  #: threads of the switch that this rank talks to
    multicast: bool = False  #: results arrive by multicast
    segment_offload: bool = False  #: UDP_SEGMENT in use
    receive_offload: bool = False  #: UDP_GRO in use
    cwnd_frags: int = 0  #: of window_frags: that congestion leaves
    marks: int = 0  #: results with a congestion mark (ECN)
    collisions: int = 0  #: results with a contribution whose shared slot was taken
    moves: int = 0  #: from the switch to the server, and back
    server: bool = False  #: the switch is silent, and this rank goes through the server
    ahead_asked: int = 0  #: run-ahead that the options ask for, fragments per shard
    ahead_frags: int = 0  #: run-ahead granted, all shards together; 0: all in step
    ahead_now_frags: int = 0  #: the known distance to the slowest rank, fragments
    cache_frags: int = 0  #: sums that it has room to keep for others
    cache_open: int = 0  #: of them: incomplete
    cache_peak: int = 0  #: the most of them there have been
    cache_parts: int = 0  #: contributions and partial sums added to them
    cache_done: int = 0  #: sums of all ranks sent
    cache_early: int = 0  #: sums of some ranks sent on request
    cache_over: int = 0  #: contributions and partial sums for which there was no room
    parts: int = 0  #: of each tensor that are summed separately; 1 without a plan
    result_ns: int = 0  #: when the last result came, by the monotonic clock; 0: none yet
    gap_ns: int = 0  #: longest time without a result while operations were under way
    hosts: int = 0  #: on which the ranks are; 0: not known
    host_ranks: int = 0  #: ranks of this host that share memory; 0: none
    sealed: bool = False  #: packets are encrypted and authenticated with the key of key_file
    forged: int = (
        0  #: sealed: packets dropped that nobody with the key had sent, or that had come before
    )
    idle_hosts: int = 0  #: hosts that sum nothing, although hosts sum
    idle_rank: int = 0  #: the first rank of the first of them
    idle_misses: int = 0  #: ranks that do not reach the switch inside it; 0: it could start none


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of every tensor, and the aggregator that sums it."""

    aggregator: str  #: its address, as "10.0.0.1:5000"
    rank: int  #: in whose process it is; -1: it is a named switch, or a plan's
    share: float  #: of every tensor, from 0 to 1
    rtt_ns: int  #: round trip through it, the mean of all ranks; 0: not measured
    settled: bool  #: the shares stay until the network changes
    lost: bool  #: the switch is lost, and the others sum its share


def times_a_ring(parts: list[Part], ranks: int, sharing_hosts: int) -> float:
    """How many times as fast as a ring over all ranks sums should be by the shares of `parts`; 0: not
    known, since no host sums or an aggregator is lost.  `sharing_hosts`: hosts on which ranks share memory; 0: they do not.

    Once shares fit the links, all links that matter are busy equally long.  The host that sums
    least has the narrowest link, which is the ring's time too: of n streams, m from this host, it
    carries m + g (n - 2 m) tensors with a share g, and 2 (N - 1) / N in a ring over N ranks.
    """
    of_hosts = [part.share for part in parts if part.rank >= 0]
    hosts = sharing_hosts or len(of_hosts)
    if not of_hosts or hosts < 2 or any(part.lost for part in parts):
        return 0
    mine = 1 if sharing_hosts else ranks / hosts
    least = min(of_hosts) if len(of_hosts) == hosts else 0
    return 2 * (ranks - 1) / ranks / (mine + least * mine * (hosts - 2))
