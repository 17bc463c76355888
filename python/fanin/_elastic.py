# SPDX-License-Identifier: Apache-2.0
"""Groups whose ranks change while their processes live on.

Each process has a *home*: a store that it listens with, if it becomes rank 0.  A handle says where
that is.  Ranks that have each other's handles, in one order, are a new life of their group, and meet
at the home of the first.
"""

import contextlib
import dataclasses
import datetime
import hashlib
import logging
import os
import secrets
import threading
import types
from typing import Any, Callable, Iterable, Optional, Sequence

import torch
import torch.distributed as dist

from . import _meeting
from ._libuv import tcp_store

logger = logging.getLogger("fanin")

c10d: Any = torch._C._distributed_c10d  # PyTorch's stubs lack half of it
KIND = "fanin1"  # of handles: kind/number/port/address
PARTS = 4
NAME_CHARS = 16
FIRST_GROUP, COUNT_DIGITS = 1 << 20, 7  # the count of groups after ranks have changed
ELSEWHERE = "192.0.2.1", "2001:db8::1"  # nobody's (RFC 5737, 3849), to see where the way out begins
LOOPBACK = "127.0.0.1"
SHRINK = datetime.timedelta(
    minutes=5
)  # the longest wait for the ranks that stay, if the group has none
UUID_BITS = 62


@dataclasses.dataclass
class Place:
    """Where the ranks of a group meet, and under which name."""

    rank: int
    size: int
    name: str
    store: Any
    address: str = ""  #: of rank 0's host, where ranks have got each other's handles
    within_s: Optional[float] = None  #: the longest wait for ranks; None: the group's timeout

    @property
    def variables(self) -> dict[str, str]:
        """For the library, in place of what a launcher has said about ranks that were."""
        found = {"RANK": str(self.rank), "WORLD_SIZE": str(self.size)}
        if not _meeting.is_loopback(self.address):
            found["LOCAL_WORLD_SIZE"] = "1"  # others are perhaps elsewhere
        return found


_home: tuple[str, Any] | None = None  # this process's handle, and its store
_home_lock = threading.Lock()


def _own_address(seen: Callable[[], str]) -> str:
    """This host's address as others see it: of the interface that the user names; as the group's ranks see
    it; where the way out begins; of any interface."""
    own = _meeting.interfaces()
    for name in os.environ.get("GLOO_SOCKET_IFNAME", "").split(","):
        if name in own:
            return own[name]
    found = []
    with contextlib.suppress(RuntimeError):  # the store has gone
        found.append(seen())
    found += [_meeting.local_address(nobody) for nobody in ELSEWHERE]
    for address in [*found, *own.values()]:
        if address and not _meeting.is_loopback(address):
            return address
    logger.warning(
        "fanin: reconfigure: this host has no address but loopback, so that ranks of other hosts cannot "
        "reach it"
    )
    return LOOPBACK


def handle(seen: Callable[[], str]) -> str:
    """This process's, always the same.  `seen`: this host's address, as the group's ranks see it; "": they
    do not."""
    return _at_home(seen)[0]


def _at_home(seen: Callable[[], str] = str) -> tuple[str, Any]:
    global _home
    with _home_lock:
        if _home is None:
            address = _own_address(seen)
            store = tcp_store(address, 0, True, datetime.timedelta(minutes=30))
            _home = f"{KIND}/{secrets.token_hex(8)}/{store.port}/{address}", store
        return _home


def _parts(text: str) -> list[str]:
    found = text.split("/", PARTS - 1)
    if len(found) != PARTS or found[0] != KIND or not found[2].isdecimal():
        raise ValueError(f"handle {text!r}: expected one of get_reconfigure_handle() of fanin")
    return found


def place(uuid: int, handles: Iterable[str], timeout: datetime.timedelta) -> Place:
    """Of the ranks with these handles: in their order, or of a set in an order that all see."""
    ordered = list(handles) if isinstance(handles, Sequence) else sorted(handles)
    own, store = _at_home()
    if own not in ordered:
        raise ValueError("handles: this rank's own is not among them")
    if len(set(ordered)) != len(ordered):
        raise ValueError("handles: one is there twice")
    _, _, port, address = [_parts(text) for text in ordered][0]
    digest = hashlib.sha256(" ".join([str(uuid), *ordered]).encode()).hexdigest()
    name, rank = digest[:NAME_CHARS], ordered.index(own)
    if rank:
        store = tcp_store(address, int(port), False, timeout)
    store = c10d.PrefixStore(f"life/{name}", store)
    return Place(rank, len(ordered), name, store, address, timeout.total_seconds())


def check() -> None:
    """Whether this PyTorch's C++ code would notice; before it does, DDP would divide by the old size."""

    class Probe(c10d.ProcessGroup):  # type: ignore[misc]
        def getSize(self) -> int:
            return 2

    if c10d.ProcessGroup.size(Probe(0, 1)) != 2:
        raise RuntimeError(
            f"PyTorch {torch.__version__}: its C++ code keeps the size of a group: destroy the group "
            "and make one anew (doc/pytorch.md)"
        )


def tell_torch(group: Any, at: Place) -> None:
    """PyTorch's own tables of the default group; and its number of groups, of which it makes their names, is
    one that all ranks have."""
    torch_s: Any = dist.distributed_c10d
    world = torch_s._world
    world.group_count = FIRST_GROUP + int(at.name[:COUNT_DIGITS], 16)
    if group in world.pg_map:
        world.pg_map[group] = world.pg_map[group][0], c10d.PrefixStore("torch", at.store)
        world.pg_group_ranks[group] = {rank: rank for rank in range(at.size)}


def shrink(group: Any, excluded: Sequence[int], options: Any = None) -> Any:
    """dist.shrink_group: the other ranks of the default group, which call this, all of them, go on as that
    group in their order.  They hand each other their handles by its store."""
    size, own = group.getSize(), group.getRank()
    kept = [rank for rank in range(size) if rank not in excluded]
    if len(set(excluded)) != len(excluded) or len(kept) + len(excluded) != size or not excluded:
        raise ValueError(f"ranks_to_exclude: {excluded}: expected ranks of 0 to {size - 1}")
    if own not in kept:
        raise RuntimeError(f"shrink_group: rank {own} is to be excluded, and must not call it")
    if not group.supports_reconfigure:
        raise TypeError("shrink_group: expected the default group, with fanin alone")
    if options is not None:
        raise ValueError("shrink_group: pg_options: the group keeps its own")
    check()
    limit = group.timeout or SHRINK
    _, store = dist.distributed_c10d._world.pg_map[group]  # type: ignore[attr-defined]
    group.membership.shrunk += 1
    key = f"shrink {group.membership.shrunk}"
    try:
        store.set(f"{key} {own}", group.get_reconfigure_handle())
        if own == kept[0]:
            store.set(key, str(secrets.randbits(UUID_BITS)))
        names = [key, *(f"{key} {rank}" for rank in kept)]
        store.wait(names, limit)
        uuid, *handles = [store.get(name).decode() for name in names]
    except RuntimeError as error:
        raise RuntimeError(
            f"shrink_group: ranks {kept} have not all called it within {limit}, or the store that they "
            f"met at, of rank 0 or of the launcher, is gone: {error}"
        ) from error
    opts = types.SimpleNamespace(uuid=int(uuid), handles=handles, timeout=limit)
    group.reconfigure(opts).wait()
    return group
