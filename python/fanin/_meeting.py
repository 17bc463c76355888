# SPDX-License-Identifier: Apache-2.0
"""Where the ranks of a default group meet.  Rank 0 says it by the store: MASTER_ADDR is the host of the
store, which torchrun keeps in an agent that may run on another host than rank 0; it is localhost to
rank 0 and a name to others with Kubeflow; and MASTER_PORT may be taken for UDP."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import ipaddress
import os
import socket
import struct
from typing import Any, Callable, Sequence

from ._store import PatientStore

ELSEWHERE = "elsewhere"  # an address of a rank on another host than rank 0
PORTS = 1 << 16
SIOCGIFFLAGS, SIOCGIFADDR = 0x8913, 0x8915  # netdevice(7)
IFREQ, IFREQ_FLAGS, IFREQ_ADDR = struct.Struct("16s24x"), struct.Struct("16xH22x"), slice(20, 24)
IFF_RUNNING = 0x40
Read = Callable[[str], str]
Words = Sequence[str]  # host, port, restarts, and of these "1": theirs, alone, learns


def _resolved(host: str, port: int | None) -> list[Any]:
    """Addresses of a host for UDP.  Python encodes bytes by no table of international names, which it
    loads for the first text."""
    name: str | bytes = host.encode() if host.isascii() else host
    return list(socket.getaddrinfo(name, port, type=socket.SOCK_DGRAM))


def local_address(host: str) -> str:
    """This host's address as `host` sees it; "": not known."""
    try:
        family, _, _, _, to = _resolved(host, 9)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as one:
            one.connect(to)
            return str(one.getsockname()[0])
    except OSError:
        return ""


def interfaces() -> dict[str, str]:
    """IPv4 addresses of this host's interfaces that run."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for _, name in socket.if_nameindex():
            asked = IFREQ.pack(name.encode())
            with contextlib.suppress(OSError):  # it has none
                (flags,) = IFREQ_FLAGS.unpack(fcntl.ioctl(one, SIOCGIFFLAGS, asked))
                if flags & IFF_RUNNING:
                    found[name] = socket.inet_ntoa(fcntl.ioctl(one, SIOCGIFADDR, asked)[IFREQ_ADDR])
    return found


def is_loopback(address: str) -> bool:
    """Whether it is an address of the host itself."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _is_known_elsewhere(host: str) -> bool:
    """Whether a name or address may mean the same on another host."""
    return host not in ("", "localhost", "0.0.0.0", "::") and not is_loopback(host)


def _is_this_host(host: str) -> bool:
    """Whether a name or address is one of this host's; True if it is not known yet."""
    try:
        found = _resolved(host, 0)
    except OSError:
        return True
    return any(_bound(family, to) for family, _, _, _, to in found)


def _bound(family: int, to: Any) -> int:
    """The UDP port of a socket at an address; 0: it is another host's, or the port is taken."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as one:
            one.bind(to)
            return int(one.getsockname()[1])
    except OSError:
        return 0


def _free_port(port: int = 0) -> int:
    """This UDP port, or any one; 0: it is taken on some interface."""
    return _bound(socket.AF_INET6, ("::", port)) or _bound(socket.AF_INET, ("", port))


def _own_host() -> str:
    """A name of this host by which others may know it."""
    try:
        _resolved(socket.gethostname(), None)
        return socket.gethostname()
    except OSError:
        return "127.0.0.1"


@dataclasses.dataclass
class Meeting:
    """What rank 0 says, and what this rank makes of it."""

    host: str
    port: str
    lives: str  #: TORCHELASTIC_RESTART_COUNT of rank 0, which each agent counts for itself
    learns: bool = False  #: sums go by Gloo where that is faster

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def variables(self) -> dict[str, str]:
        """For the library."""
        return {"MASTER_ADDR": self.host, "MASTER_PORT": self.port, **self.restarts}

    @property
    def restarts(self) -> dict[str, str]:
        """For the library that is told where a switch is."""
        return {"TORCHELASTIC_RESTART_COUNT": self.lives} if self.lives else {}


def choose(store: PatientStore, own: str = "", learns: bool = False) -> list[str]:
    """Rank 0's part, in Words.  `own`: its address, where the variables speak of another one."""
    host, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    may_be_elsewhere = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if own or not (host and port):
        host, port, may_be_elsewhere = own or store.host, "0", True
    theirs = not own and bool(host)  # others know rank 0's host by their own MASTER_ADDR or store
    if theirs and may_be_elsewhere and not _is_this_host(host):
        host, theirs = local_address(host) or host, False
    if not own and port == "0" and not _is_known_elsewhere(host):
        host = _own_host()
    if not (port.isdecimal() and 0 < int(port) < PORTS and _free_port(int(port))):
        port = str(_free_port())
    lives = os.environ.get("TORCHELASTIC_RESTART_COUNT", "")
    alone = is_loopback(local_address(host))
    return [host, port, lives, str(int(theirs)), str(int(alone)), str(int(learns))]


def chosen(words: Words) -> Meeting:
    """What rank 0 makes of its words."""
    host, port, lives, *_, learns = words
    return Meeting(host, port, lives, learns == "1")


def hear(words: Words, store: PatientStore) -> Meeting:
    """The other ranks' part."""
    host, port, lives, theirs, alone, learns = words
    if theirs == "1":
        met = store.host if _is_known_elsewhere(store.host) else host
        host = os.environ.get("MASTER_ADDR") or met
    mine = local_address(host) if alone == "1" else ""
    if mine and not is_loopback(mine):
        store.set(ELSEWHERE, mine)
        store.add(f"{ELSEWHERE} ranks", 1)
    return Meeting(host, port, lives, learns == "1")


def own_address(store: PatientStore, read: Read, first: str) -> str:
    """This host's address as the other ranks' hosts see it; "": not known.  `first`: rank 0's host.  Once
    all have heard where they meet: rank 0's way to itself may be loopback, while others are elsewhere.
    """
    address = local_address(first)
    if is_loopback(address) and store.add(f"{ELSEWHERE} ranks", 0):
        return local_address(read(ELSEWHERE))
    return address
