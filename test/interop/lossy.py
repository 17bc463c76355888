# SPDX-License-Identifier: Apache-2.0
"""The socket of a worker, and for tests a bad network on both sides of it."""
from __future__ import annotations

import random
import socket
from typing import List, Optional, Tuple

from plans import Options

CE, ECT0 = 3, 2
IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3


class Lossy:
    """A connected socket: only what comes from `address` is heard, and no call blocks.

    Of what is sent and of what arrives, a share of `o.loss` is lost; as much of what is sent is
    doubled, and as much late."""

    def __init__(self, o: Options, address: Tuple[str, int]) -> None:
        self.loss, self.held = o.loss, []  # type: float, List[bytes]
        self.random = random.Random(o.seed * 1000 + o.rank + address[1])
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        if family == socket.AF_INET:
            self.socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
            self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ECT0)
            self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        self.socket.connect(address)
        self.socket.setblocking(False)
        self.congested = False  # the datagram received last had met congestion

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, data: bytes) -> None:
        for one in self._faults(data):
            try:
                self.socket.send(one)
            except OSError:  # full, or an ICMP error of an earlier one
                pass

    def _faults(self, data: bytes) -> List[bytes]:
        if self.loss == 0:
            return [data]
        chance, before = self.random.random() / self.loss, self.held
        self.held = [data] if 2 <= chance < 3 else []
        if chance < 1 or self.held:
            return before
        return [data] * (2 if chance < 2 else 1) + before

    def receive(self) -> Optional[bytes]:
        """The next datagram; None if there is none, or it was lost."""
        try:
            data, about, _, _ = self.socket.recvmsg(65536, 64)
        except OSError:
            return None
        tos = [d for level, kind, d in about
               if (level, kind) == (socket.IPPROTO_IP, socket.IP_TOS)]
        self.congested = bool(tos) and tos[0][0] & 3 == CE
        return None if self.loses() else data

    def loses(self) -> bool:
        """Is the datagram that has arrived lost?"""
        return self.random.random() < self.loss

    def close(self) -> None:
        self.socket.close()
