# SPDX-License-Identifier: Apache-2.0
"""Messages between two ranks of a group, which only these two call."""

import functools
from typing import Any, Callable, Sequence

import torch

from ._store import PatientStore

c10d: Any = torch._C._distributed_c10d  # PyTorch's stubs lack half of it
TAGS = 1 << 16  # of each group
TAGGED_GROUPS_MAX = 1 << 15  # that have messages: a tag has 31 bits
COUNTED_MAX = TAGGED_GROUPS_MAX // 2  # of these, PyTorch has given numbers to as many


class Tagged:
    """Messages between two ranks of a group through the default group's Gloo, which all its ranks
    have: only two call this.  Tags keep groups apart."""

    def __init__(self, world: Any, members: Sequence[int], number: Callable[[], int]):
        self._world = world
        self._members = list(members)
        self._number = number  # of the group, among all

    def _tag(self, tag: int) -> int:
        number = self._number()
        if not 0 <= tag < TAGS or number >= TAGGED_GROUPS_MAX:
            raise ValueError(
                f"tag {tag} in group {number}: expected a tag below {TAGS}, and at most "
                f"{TAGGED_GROUPS_MAX} groups"
            )
        return number * TAGS + tag

    def send(self, tensors: Any, to: int, tag: int = 0) -> Any:
        return self._world.gloo.send(tensors, self._members[to], self._tag(tag))

    def recv(self, tensors: Any, source: int, tag: int = 0) -> Any:
        return self._world.gloo.recv(tensors, self._members[source], self._tag(tag))

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        return _Received(self._world.gloo.recv_anysource(tensors, self._tag(tag)), self._members)


class _Received:
    """A message from any rank: who it was, by its number in the group."""

    def __init__(self, work: Any, members: list[int]) -> None:
        self._work = work
        self._members = members

    def _source_rank(self) -> int:
        return self._members.index(self._work._source_rank())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


def numbering(given: Any, default: Any, store: Any) -> Callable[[], int]:
    """The group's number, the same on all its ranks, none of which waits for another one here: that
    which PyTorch counts, if it does."""
    counted = str(given.group_id)
    if counted.isdecimal() and int(counted) < COUNTED_MAX:
        return lambda: int(counted)
    store = PatientStore(store)
    if given.group_rank == 0:
        store.set("number", str(COUNTED_MAX + default.membership.next_number()))
    return functools.cache(lambda: int(store.get("number")))
