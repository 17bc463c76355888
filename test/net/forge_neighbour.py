#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tell a host of the same link that an address is at this one: a forged ARP reply, or neighbour advertisement.

    forge_neighbour.py --device DEV --to ADDRESS --to-mac MAC --claim ADDRESS [--seconds S] [--rate N]

IPv4, or IPv6 without brackets.  How many it sent is printed at the end.  Only for namespaces of one's own.
"""

import argparse
import socket
import struct
import time

ETH_ARP, ETH_IP6 = 0x0806, 0x86DD
ICMP6, ADVERTISEMENT, SOLICITED_OVERRIDE = 58, 136, 0x60
TARGET_ADDRESS = 2  # option


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for name in ("device", "to", "to-mac", "claim"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--rate", type=float, default=10)
    args = parser.parse_args()
    family = socket.AF_INET6 if ":" in args.to else socket.AF_INET
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((args.device, 0))
        frame = (advertisement if family == socket.AF_INET6 else arp)(
            raw.getsockname()[4],
            bytes.fromhex(args.to_mac.replace(":", "")),
            socket.inet_pton(family, args.claim),
            socket.inet_pton(family, args.to),
        )
        sent, end = 0, time.monotonic() + args.seconds
        while time.monotonic() < end:
            raw.send(frame)
            sent += 1
            time.sleep(1 / args.rate)
    print(sent)


main()
