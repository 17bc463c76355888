#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tell who is on the same link something about addresses and groups that is not so.

    forge_neighbour.py --device DEV --to ADDRESS --to-mac MAC --claim ADDRESS [--seconds S] [--rate N]
    forge_neighbour.py --device DEV --unheard GROUP [--seconds S] [--rate N]

A host: that an address is at this one (a forged ARP reply, or neighbour advertisement).  A bridge that listens to
IGMP or MLD: that there is a querier here, and then that nobody hears a group: a query about it which its members
do not hear, since it goes to another group.  IPv4, or IPv6 without brackets.  How many it sent is printed at the
end.  Only for namespaces of one's own.
"""

import argparse
import socket
import struct
import time

ETH_ARP, ETH_IP6 = 0x0806, 0x86DD
ICMP6, ADVERTISEMENT, SOLICITED_OVERRIDE = 58, 136, 0x60
TARGET_ADDRESS = 2  # option
IGMP, IGMP_QUERY, MLD_QUERY = 2, 0x11, 130
SOON = {4: 1, 6: 100}  # within which members are to answer: 0.1 s, in tenths and in milliseconds
ALL_HOSTS = {4: "224.0.0.1", 6: "ff02::1"}
UNUSED = {4: "239.254.254.254", 6: "ff15::fefe:fefe"}  # a group that nobody hears


def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def arp(own, mac, claim, to):
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 2) + own + claim + mac + to
    return mac + own + struct.pack("!H", ETH_ARP) + body


def advertisement(own, mac, claim, to):
    rest = bytes([SOLICITED_OVERRIDE]) + b"\0" * 3 + claim + bytes([TARGET_ADDRESS, 1]) + own
    pseudo = claim + to + struct.pack("!II", 4 + len(rest), ICMP6)
    body = struct.pack("!BBH", ADVERTISEMENT, 0, 0) + rest
    body = body[:2] + struct.pack("!H", checksum(pseudo + body)) + body[4:]
    head = struct.pack("!IHBB", 6 << 28, len(body), ICMP6, 255) + claim + to
    return mac + own + struct.pack("!H", ETH_IP6) + head + body


def group_mac(family, group):
    if family == 4:
        return b"\x01\x00\x5e" + bytes([group[1] & 0x7F]) + group[2:]
    return b"\x33\x33" + group[12:]


def query(own, about, to):
    """Who hears `about`?  About all groups if it is zeros.  With "router alert", and to live for one hop."""
    if len(about) == 4:
        body = struct.pack("!BBH", IGMP_QUERY, SOON[4], 0) + about
        body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
        head = struct.pack("!BBHHHBBH4s4sI", 0x46, 0xC0, 24 + len(body), 1, 0, 1, IGMP, 0, b"\0\0\0\1", to,
                           0x94040000)  # fmt: skip
        head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
        return group_mac(4, to) + own + struct.pack("!H", 0x0800) + head + body
    source = socket.inet_pton(socket.AF_INET6, "fe80::1")
    body = struct.pack("!BBHHH", MLD_QUERY, 0, 0, SOON[6], 0) + about
    pseudo = source + to + struct.pack("!II", len(body), ICMP6)
    body = body[:2] + struct.pack("!H", checksum(pseudo + body)) + body[4:]
    alert = bytes([ICMP6, 0, 5, 2, 0, 0, 1, 0])
    head = struct.pack("!IHBB", 6 << 28, len(alert) + len(body), 0, 1) + source + to
    return group_mac(6, to) + own + struct.pack("!H", ETH_IP6) + head + alert + body


def queries(own, group):
    """The first ones make a querier of this one, which the members answer; then only `group` is asked for."""
    family = 6 if ":" in group else 4
    kind = socket.AF_INET6 if family == 6 else socket.AF_INET
    about = socket.inet_pton(kind, group)
    general = query(own, bytes(len(about)), socket.inet_pton(kind, ALL_HOSTS[family]))
    return [general] * 3, query(own, about, socket.inet_pton(kind, UNUSED[family]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for name in ("device", "to", "to-mac", "claim", "unheard"):
        parser.add_argument("--" + name, required=name == "device")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--rate", type=float, default=10)
    args = parser.parse_args()
    if not args.unheard and not (args.to and args.to_mac and args.claim):
        parser.error("expected --unheard, or --to, --to-mac and --claim")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((args.device, 0))
        own, first = raw.getsockname()[4], []
        if args.unheard:
            first, frame = queries(own, args.unheard)
        else:
            family = socket.AF_INET6 if ":" in args.to else socket.AF_INET
            frame = (advertisement if family == socket.AF_INET6 else arp)(
                own,
                bytes.fromhex(args.to_mac.replace(":", "")),
                socket.inet_pton(family, args.claim),
                socket.inet_pton(family, args.to),
            )
        sent, end = 0, time.monotonic() + args.seconds
        while time.monotonic() < end or sent <= len(first):
            raw.send(first[sent] if sent < len(first) else frame)
            sent += 1
            time.sleep(1 / args.rate)
    print(sent)


main()
