#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packets in clear for a sealed job, with its numbers and the addresses of its own ends: clear.py LOG JOB SWITCH FRAGMENTS.

Of each fragment a contribution of each rank to the switch and a result to each rank.  Needs root, since
only a raw socket can send from the port of another program.
"""

import os
import re
import socket
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))
import wire  # pylint: disable=wrong-import-position

COUNT = 336  # elements of a fragment of a sealed job
BODY = struct.pack("<f", 1e6) * COUNT


def packet(data, source, dest):
    """An IPv4 packet of `data` from one (address, port) to another."""
    udp = struct.pack("!HHHH", source[1], dest[1], 8 + len(data), 0) + data
    ends = socket.inet_aton(source[0]), socket.inet_aton(dest[0])
    return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, 0, 0, 64, socket.IPPROTO_UDP, 0, *ends) + udp


def address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def joined(log, job):
    """(number, epoch, {rank: its address}) of the job's last life."""
    pattern = r'event=rank_joined job="%s" id=(\d+) epoch=(\d+) rank=(\d+) .*peer=(\S+)' % job
    with open(log, encoding="utf-8") as file:
        found = re.findall(pattern, file.read())
    number, epoch = map(int, found[-1][:2])
    return (
        number,
        epoch,
        {int(rank): address(peer) for _, of, rank, peer in found if int(of) == epoch},
    )


def main():
    log, job, switch, fragments = sys.argv[1], sys.argv[2], address(sys.argv[3]), int(sys.argv[4])
    number, epoch, ranks = joined(log, job)
    of_job = {"job": number, "epoch": epoch, "count": COUNT, "body": BODY}
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for frag in range(fragments):
        result = wire.encode(wire.Message(wire.RESULT, sender=wire.AGGREGATOR, frag=frag, **of_job))
        for rank, at in ranks.items():
            data = wire.encode(wire.Message(wire.DATA, sender=rank, frag=frag, **of_job))
            raw.sendto(packet(data, at, switch), switch)
            raw.sendto(packet(result, switch, at), at)
    print(2 * fragments * len(ranks))


main()
