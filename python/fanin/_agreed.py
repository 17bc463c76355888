# SPDX-License-Identifier: Apache-2.0
"""What ranks tell each other about operations that fanin does not compare by itself.

The library compares what it sums: a rank's k-th operation with the others' k-th.  What goes through
Gloo, or is made of several operations, would be missing in that order, and the next operation of a
rank would be added to this one of another.  So it takes a place there: a *statement*, in which each
rank says what it is about to do.  Only when all have said the same does Gloo begin; it ends the
process where ranks gather different sizes.

A statement is a sum of int64 in which each rank has a record of its own, with a mark that no other
operation has.
"""

import collections
import datetime
import functools
import hashlib
import threading
import zlib
from typing import Any, Callable, Sequence

import torch

from ._carried import bytes_of
from ._gloo import leave
from ._marks import GATHER, STATEMENT, in_words
from ._membership import Membership
from .communicator import Communicator, Operation
from .errors import FaninError, MismatchError

MISMATCH = -10  # FANIN_E_MISMATCH
HEAD_WORDS = 2  # before the elements of a rank: how many, and their type
FEW_BYTES = 16384  # of one rank, and...
FEW_TOTAL_BYTES = 1 << 18  # ...of all: so much at most is gathered as one sum
NOT_YET = "Operation timed out"  # what a wait of PyTorch's raises whose time is over
LOOK_S = 0.2  # of a wait for Gloo, between looks at whether others may still come
WORDS = 16  # of a record: balance, number, text, its digest
TEXT_BYTES = 8 * (WORDS - 3)


def said(
    operation: str,
    tensors: Sequence[torch.Tensor],
    op: str = "",
    root: int | None = None,
    count: bool = True,
) -> str:
    """An operation in words, the same on all ranks that agree about it."""
    kinds = dict.fromkeys(
        f"{str(tensor.dtype).partition('.')[2]}"
        + ("" if tensor.layout == torch.strided else f" in layout {tensor.layout}")
        for tensor in tensors
    )
    text = operation + (f" with {op}" if op else "")
    text += f" of {' and '.join(kinds)}" if kinds else ""
    if count and all(tensor.layout == torch.strided for tensor in tensors):
        numbers = [str(tensor.numel()) for tensor in tensors]
        text += f", {' + '.join(numbers)} elements" if numbers else ""
    elif tensors:
        text += ", shape " + str(list(tensors[0].shape)) if count else ""
    return text + ("" if root is None else f", root {root}")


@functools.lru_cache(1 << 16)
def _weight(sender: int, receiver: int) -> int:
    """A number of the pair, which nobody can make up from others."""
    text = f"{sender} {receiver}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def balance(rank: int, sends: Sequence[int], receives: Sequence[int]) -> int:
    """What adds up to 0 over all ranks, modulo 2^64, if each gets from another what that one sends."""
    total = sum(_weight(rank, other) * count for other, count in enumerate(sends))
    total -= sum(_weight(other, rank) * count for other, count in enumerate(receives))
    return total


def marked(
    comm: Communicator, mark: int, tensor: torch.Tensor, op: str = "sum", within: float = 0.0
) -> Operation[Any]:
    """A reduction that nothing without the mark is added to."""
    comm.mark(mark)
    try:
        return comm.allreduce_start(tensor, op, within=within)
    finally:
        comm.mark(0)


class PackedAllGather:
    """A small all-gather as one sum of int32: each rank has a place of its own, with the number of its
    elements, their type and themselves, and zeros for the others."""

    def __init__(self, source: torch.Tensor, of: Membership) -> None:
        raw, rank, size = bytes_of(source), of.rank, of.size
        self._of = of
        self._bytes = raw.numel()
        self.buffer = torch.zeros(size, HEAD_WORDS + -(-self._bytes // 4), dtype=torch.int32)
        self.buffer[rank, :HEAD_WORDS] = torch.tensor(
            [source.numel(), _code_of(source.dtype)], dtype=torch.int32
        )
        self._places = self.buffer.view(torch.uint8)[:, 4 * HEAD_WORDS :][:, : self._bytes]
        self._places[rank] = raw

    @staticmethod
    def holds(source: torch.Tensor, size: int) -> bool:
        """Whether it is small enough; a broadcast from each rank costs more then."""
        count = source.numel() * source.element_size()
        return count < FEW_BYTES and count * size <= FEW_TOTAL_BYTES

    def start(self, comm: Communicator, tensor: torch.Tensor, within: float) -> Operation[Any]:
        """The sum, in place."""
        return marked(comm, GATHER, tensor, within=within)

    def spread(self, over: Sequence[torch.Tensor]) -> None:
        """Once it has ended, to contiguous tensors of all ranks.  MismatchError: they differ."""
        heads = self.buffer[:, :HEAD_WORDS].tolist()
        for other, head in enumerate(heads):
            if head != heads[0]:
                error = MismatchError(
                    f"ranks disagree: rank {other} called all_gather of {_words_of(head)}, rank 0 "
                    f"of {_words_of(heads[0])}",
                    MISMATCH,
                )
                self._of.fail(error)
                raise error
        for place, tensor in zip(self._places, over):
            bytes_of(tensor).copy_(place)


def _code_of(dtype: torch.dtype) -> int:
    return zlib.crc32(str(dtype).encode()) - (1 << 31)


def _words_of(head: list[int]) -> str:
    known = (one for one in vars(torch).values() if isinstance(one, torch.dtype))
    name = next((str(one) for one in known if _code_of(one) == head[1]), "another type")
    return f"{name.partition('.')[2] or name}, {head[0]} elements"


class Statement:
    """What all ranks say about their operation number `number`."""

    def __init__(self, rank: int, size: int, text: str, number: int, unbalance: int = 0) -> None:
        self._rank = rank
        self._records = torch.zeros(size, WORDS, dtype=torch.int64)
        raw = text.encode()
        digest = hashlib.blake2b(raw, digest_size=8).digest()
        signed = (unbalance + (1 << 63)) % (1 << 64) - (1 << 63)
        content = raw[:TEXT_BYTES].ljust(TEXT_BYTES, b"\0") + digest
        self._records[rank, :2] = torch.tensor([signed, number])
        self._records[rank, 2:] = torch.frombuffer(bytearray(content), dtype=torch.int64)

    def start(self, comm: Communicator) -> Operation[Any]:
        """By fanin."""
        return marked(comm, STATEMENT, self._records)

    @property
    def tensor(self) -> torch.Tensor:
        """What is summed, in place."""
        return self._records

    def check(self) -> None:
        """Once it is summed.  MismatchError: ranks have said different things."""
        rows = self._records[:, 1:]
        differs = (rows != rows[0]).any(1).nonzero()
        if differs.numel():
            other = int(differs[0])
            raise MismatchError(
                f"ranks disagree: rank {other} called {self._words(other)}, rank 0 "
                f"{self._words(0)}",
                MISMATCH,
            )
        if int(self._records[:, 0].sum()):
            raise MismatchError(
                f"ranks disagree about {self._words(0)}: they do not get what others send",
                MISMATCH,
            )

    def _words(self, rank: int) -> str:
        row = self._records[rank]
        raw = row[2 : WORDS - 1].numpy().tobytes().rstrip(b"\0")
        number = int(row[1])
        same = self._records[:, 1]
        which = "" if bool((same == same[0]).all()) else f" as operation {number} of the group"
        return str(raw.decode(errors="replace")) + which


def agree(comm: Communicator, text: str, number: int) -> None:
    """Have all ranks of a communicator say what they do next, and wait for that.  FaninError: they do not,
    or say different things."""
    statement = Statement(comm.rank, comm.size, text, number)
    try:
        statement.start(comm).wait()
    except FaninError as error:
        raise in_words(error) from None
    statement.check()


class Stated:
    """A statement under way.  `wait` raises how it failed, as often as it is called."""

    def __init__(self, begin: Callable[[], Callable[[], None]], at_once: bool) -> None:
        self._lock = threading.Lock()
        self._begin = begin
        self._finish: Callable[[], None] | None = begin() if at_once else None
        self._error: Exception | None = None
        self.done = False

    def wait(self) -> None:
        """Until all ranks have said what they do."""
        if not self.done:
            with self._lock:
                if not self.done:
                    self._end()
        if self._error is not None:
            raise self._error

    def is_well(self) -> bool:
        """Whether all are known to have said the same."""
        return self.done and self._error is None

    def _end(self) -> None:
        try:
            (self._finish or self._begin())()
        except Exception as error:  # others wait for it, too
            self._error = error
        self._finish = None
        self.done = True


class _Queued:
    """An operation through Gloo, which begins when it is its turn and all have stated it."""

    def __init__(
        self,
        sequencer: "Sequencer",
        stated: Stated | None,
        call: Callable[[Any], Any],
        gloo: Callable[[], Any],
    ) -> None:
        self._sequencer = sequencer
        self._number = sequencer.number  # the same on all ranks
        self._refused = False  # Gloo has raised, and the others were told
        self._stated = stated
        self._call: Callable[[Any], Any] | None = call
        self._gloo = gloo
        self._works: list[Any] = []
        self._error: Exception | None = None
        self.begun = False

    def begin(self) -> None:
        """Under the lock of the sequencer."""
        try:
            if self._stated is not None:
                self._stated.wait()
            assert self._call is not None
            found = self._call(self._gloo())
            self._works = found if isinstance(found, list) else [found]
        except Exception as error:  # `wait` raises it
            self._error = error
        self._call = None
        self.begun = True

    def wait(self) -> None:
        """Until it has ended."""
        self._sequencer.reach(self)
        try:
            if self._error is not None:
                raise self._error
            for work in self._works:
                self._sequencer.end(work, self._gloo)
        except FaninError:
            raise
        except Exception as error:
            if not self._refused:
                self._refused = True
                self._sequencer.refused(self._number, error)
            raise


def _has_ended(work: Any) -> bool:
    """Whether it does within LOOK_S; what it ended with.  That may be raised only once: the process does
    not survive the second time where it is an exception of Python's, as those of a store are."""
    if work.is_completed():
        return bool(work.wait())
    try:
        return bool(work.wait(datetime.timedelta(seconds=LOOK_S)))
    except RuntimeError as error:
        if work.is_completed() and NOT_YET not in str(error):
            raise
        return False


class Sequencer:
    """The statements and Gloo operations of one level, in the order of their calls, in which Gloo
    numbers them, too."""

    def __init__(self, membership: Membership, gloo: Callable[[], Any]) -> None:
        self._membership = membership
        self._gloo = gloo
        self._lock = threading.Lock()
        self._waiting: collections.deque[_Queued] = collections.deque()
        self.number = 0  #: operations of this level that have been started
        self._staged = False  # the last one was of tensors on a GPU, through another communicator
        self._gate: Stated | None = None  # what those after it wait for

    def state(self, text: str, unbalance: int = 0) -> Stated:
        """Say what this rank does next.  Under the group's lock."""
        of = self._membership
        statement = Statement(of.rank, of.size, text, self.number, unbalance)
        self.number += 1
        if of.is_wanted():
            return Stated(lambda: self._by_fanin(statement), True)
        return Stated(lambda: self._by_gloo(statement), False)

    def before(self, staged: bool, text: str) -> list[Callable[[], Any]]:
        """What an operation of fanin's has to wait for besides its own end.  `text`: what ranks have to
        say about it.  Under the group's lock."""
        if staged != self._staged:
            self._staged = staged
            self.gate(f"an operation of tensors on {'a GPU' if staged else 'the CPU'}")
        waits: list[Callable[[], Any]] = []
        if self._gate is not None and not self._gate.is_well():
            waits.append(self._gate.wait)
        else:
            self._gate = None
        if text:
            waits.append(self._wait_of(self.state(text)))
        else:
            self.number += 1
        return waits

    def gate(self, text: str) -> None:
        """Have operations after this wait until all ranks have said the same here."""
        stated = self.state(text)
        wait = self._wait_of(stated)
        self._gate = stated if wait == stated.wait else Stated(lambda: wait, True)

    def _wait_of(self, stated: Stated) -> Callable[[], None]:
        return stated.wait if self._membership.is_wanted() else self.add(stated, lambda _: []).wait

    def add(self, stated: Stated | None, call: Callable[[Any], Any], gloo: Any = None) -> _Queued:
        """Let `call` start operations of a Gloo group, this level's or another one, when it is their turn.
        Under the group's lock."""
        queued = _Queued(self, stated, call, self._gloo if gloo is None else lambda: gloo)
        self._waiting.append(queued)
        return queued

    def reach(self, queued: _Queued) -> None:
        """Begin it, after those before it."""
        while not queued.begun:
            with self._lock:
                if not queued.begun:
                    self._waiting[0].begin()
                    self._waiting.popleft()

    def end(self, work: Any, gloo: Callable[[], Any]) -> None:
        """Wait for an operation of Gloo's.  A rank that has given up as the others heard its word does not
        begin it, and Gloo alone waits for it until the group's timeout."""
        while not _has_ended(work):
            try:
                self._membership.check()
            except FaninError:
                leave(gloo())
                raise

    def refused(self, number: int, error: Exception) -> None:
        """Tell the others that this rank's own Gloo refuses an operation that all have stated: they wait for
        it.  Where it refuses that on all ranks, nobody waits, and the group goes on."""
        if self._membership.size > 1 and self._membership.is_wanted():
            self._membership.refused(f"refused/{number}", error)

    def _by_fanin(self, statement: Statement) -> Callable[[], None]:
        op = self._membership.start(statement.start)

        def finish() -> None:
            self._membership.wait(op)
            try:
                statement.check()
            except MismatchError as error:
                self._membership.fail(error)
                raise

        return finish

    def _by_gloo(self, statement: Statement) -> Callable[[], None]:
        """In its turn: Gloo's own operations have to be in one order."""
        work = self._gloo().allreduce([statement.tensor])

        def finish() -> None:
            work.wait()
            statement.check()

        return finish
