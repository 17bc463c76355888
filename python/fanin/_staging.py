# SPDX-License-Identifier: Apache-2.0
"""Tensors on a GPU: in slices to pinned memory, through the library, and back.

One stream of the GPU copies out and one copies back, so that both directions of its bus and the network
work at a time, each on another slice.  What must come before what:

    the caller's stream so far -> copy out -> the library -> copy back -> the caller's stream after
    wait(), and callbacks of futures;  the last copy back from a piece of memory -> what comes there next

The library's operations start in the order of the calls, slice by slice, so all ranks start the same
ones.  Each stager has its own communicator, because tensors of the CPU start at once; and its own
pinned memory: were that common to groups, ranks that use two groups at a time could each have given
all of it to the one that the other rank has no memory left for.
"""

import collections
import contextlib
import queue
import threading
from typing import Any, Callable, Iterator, Sequence

import torch

from ._carried import SLICE_BYTES, Carried, Layout, Slice
from ._completion import Devices, FaninWork
from ._membership import Membership

PIECES_MAX = 8  # of pinned memory, each of a slice
AHEAD = 2  # slices that are being copied out while the library starts an earlier one
TRANSFERS_MAX = 1024  # operations that wait; then a call waits


class Cuda:
    """What a stager needs of torch.cuda.  Tests put streams without a GPU in its place.  An event
    has synchronize() and query()."""

    def stream(self, device: torch.device) -> Any:
        """A new one."""
        return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def current(self, device: torch.device) -> Any:
        """The calling thread's."""
        return torch.cuda.current_stream(device)

    def entered(self, stream: Any) -> contextlib.AbstractContextManager[Any]:
        """A block whose current stream is this one."""
        return torch.cuda.stream(stream)

    def record(self, stream: Any) -> Any:
        """An event: all that is on the stream by now."""
        event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        event.record(stream)  # type: ignore[no-untyped-call]
        return event

    def wait(self, stream: Any, event: Any) -> None:
        """What comes to the stream from now on happens after the event."""
        stream.wait_event(event)

    def run(self, stream: Any, what: Callable[[], Any], touched: list[torch.Tensor]) -> None:
        """Do on the stream what `what` starts, with tensors whose memory stays until then."""
        with self.entered(stream):
            what()
        for tensor in touched:
            if tensor.is_cuda:
                tensor.record_stream(stream)

    def pinned(self, size: int) -> torch.Tensor:
        """Bytes of the host that the GPU copies from and to."""
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def devices_of(self, device: torch.device) -> Devices:
        """Of a future whose value has tensors on the device."""
        return [device]


_cuda = Cuda()


def needed_for(tensor: torch.Tensor) -> Cuda | None:
    """How a tensor is staged; None: it lies in memory that the library can use, or where nobody
    copies from."""
    return _cuda if tensor.device.type == "cuda" else None


class _Streams:
    """Those of a stager, on one GPU."""

    def __init__(self, cuda: Cuda, device: torch.device) -> None:
        self.out, self.back, self.ends = (cuda.stream(device) for _ in range(3))


class _Piece:
    """Pinned memory for one slice."""

    def __init__(self, memory: torch.Tensor) -> None:
        self.memory = memory
        self.free_after: Any = None  # event: the last copy back from it


class Transfer:
    """One operation under way."""

    def __init__(
        self,
        cuda: Cuda,
        streams: _Streams,
        outputs: list[torch.Tensor],
        finish: Callable[[], Any] | None,
    ) -> None:
        self.cuda, self.streams = cuda, streams
        self.device = device = outputs[0].device
        self.ready = cuda.record(cuda.current(device))  # its tensors have their elements
        self.outputs, self.finish = outputs, finish
        self.error: Exception | None = None
        self.copied: Any = None  # event: the last copy back, once it is on its stream
        self._ended = threading.Event()

    def end(self) -> None:
        """All copies are on their streams, or there will be none.  The work, which may be kept for
        long, no longer holds the tensors by this."""
        self.outputs, self.finish = [], None
        self._ended.set()

    def wait(self) -> None:
        """Until `end`; raises what it ended with."""
        self._ended.wait()
        if self.error is not None:
            raise self.error

    def follow(self) -> None:
        """What comes to the caller's stream from now on sees the result."""
        self.cuda.wait(self.cuda.current(self.device), self.copied)

    def following(self) -> contextlib.AbstractContextManager[Any]:
        """A block whose current stream sees the result, and has nothing else to wait for."""
        if self.copied is not None:
            self.cuda.wait(self.streams.ends, self.copied)
        return self.cuda.entered(self.streams.ends)


class StagedWork(FaninWork):
    """As PyTorch sees an operation of tensors on a GPU: wait() returns when the rest is on a stream,
    and the caller's stream waits for it."""

    def __init__(self, transfer: Transfer, before: Sequence[Callable[[], Any]]) -> None:
        devices = transfer.cuda.devices_of(transfer.device)
        super().__init__(transfer.outputs, [*before, transfer.wait], devices=devices)
        self._transfer = transfer

    def wait(self, timeout: Any = None) -> bool:
        """As FaninWork's."""
        super().wait(timeout)
        self._transfer.follow()
        return True

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        return super().is_completed() and (self.error is not None or self._transfer.copied.query())

    def _complete_future(self, future: "torch.futures.Future[Any]") -> None:
        with self._transfer.following():
            super()._complete_future(future)


class _Loaded:
    """A slice with its memory; `event`: its copies out."""

    def __init__(self, transfer: Transfer, part: Slice, piece: _Piece, is_last: bool) -> None:
        self.transfer, self.part, self.piece, self.is_last = transfer, part, piece, is_last
        self.event: Any = None
        self.op: Any = None


def _copy_all(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    for into, source in pairs:
        into.copy_(source, non_blocking=True)


def _pairs(piece: _Piece, places: Layout) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Bytes of the piece, and of the tensors that belong there."""
    return [(piece.memory[at : at + one.numel()], one) for at, one in places]


class Stager:
    """Operations of tensors on GPUs through one communicator, with two threads that start when needed:
    one copies out and starts, the other waits and copies back."""

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self._lock = threading.Lock()
        self._streams: dict[torch.device, _Streams] = {}
        self._made = 0  # pieces
        self._free: queue.Queue[_Piece] = queue.Queue()  # at most PIECES_MAX
        self._calls: queue.Queue[Any] = queue.Queue(TRANSFERS_MAX)
        self._started: queue.Queue[Any] = queue.Queue()  # each has a piece
        self.threads: list[threading.Thread] = []

    def start(
        self,
        cuda: Cuda,
        outputs: list[torch.Tensor],
        carried: Carried,
        finish: Callable[[], Any] | None,
        before: Sequence[Callable[[], Any]] = (),
    ) -> StagedWork:
        """Start an operation on what the caller's stream has made by then.  `finish` starts copies
        on the current stream, at the end.  The work first waits for all of `before`."""
        device = outputs[0].device
        with self._lock:
            if device not in self._streams:
                self._streams[device] = _Streams(cuda, device)
            transfer = Transfer(cuda, self._streams[device], outputs, finish)
            parts = carried.slices(self.membership.rank, self.membership.size)
            if not self.threads:
                for what in (self._run_out, self._run_back):
                    thread = threading.Thread(target=what, name="fanin", daemon=True)
                    thread.start()
                    self.threads.append(thread)
            self._calls.put((transfer, parts))
        return StagedWork(transfer, before)

    def stop(self) -> None:
        """End the threads once they have done what is there."""
        if self.threads:
            self._calls.put(None)

    # The thread that copies out and starts.

    def _run_out(self) -> None:
        ahead: collections.deque[_Loaded] = collections.deque()
        for found in self._cut(ahead):
            if found is not None:
                piece = self._piece(found[0].cuda, ahead)
                ahead.append(self._copied_out(piece, *found))  # no name here keeps its tensors
            if ahead and (found is None or len(ahead) > AHEAD):
                self._begin(ahead.popleft())
            del found
        while ahead:
            self._begin(ahead.popleft())
        self._started.put(None)

    def _cut(
        self, ahead: "collections.deque[_Loaded]"
    ) -> Iterator[tuple[Transfer, Slice, bool] | None]:
        """Slices in the order of the calls; None: there is none yet, and `ahead` is not empty."""
        while True:
            try:
                call = self._calls.get(block=not ahead)
            except queue.Empty:
                yield None
                continue
            if call is None:
                return
            transfer, parts = call
            del call
            part = next(parts)  # empty tensors do not come here
            while part is not None:
                following = next(parts, None)
                yield transfer, part, following is None
                part = following
            del transfer, parts  # not to keep tensors while there is nothing to do

    def _piece(self, cuda: Cuda, ahead: "collections.deque[_Loaded]") -> _Piece:
        """One that is free, or will be when its last copy back has ended."""
        while True:
            try:
                return self._free.get(block=self._made == PIECES_MAX and not ahead)
            except queue.Empty:
                if self._made < PIECES_MAX:
                    self._made += 1
                    return _Piece(cuda.pinned(SLICE_BYTES))
                self._begin(ahead.popleft())

    def _copied_out(self, piece: _Piece, transfer: Transfer, part: Slice, is_last: bool) -> _Loaded:
        """The slice, whose copies out are on their stream."""
        one, cuda, out = (
            _Loaded(transfer, part, piece, is_last),
            transfer.cuda,
            transfer.streams.out,
        )
        try:
            cuda.wait(out, transfer.ready)
            if piece.free_after is not None:
                cuda.wait(out, piece.free_after)
            pairs = _pairs(piece, part.loads)
            cuda.run(out, lambda: _copy_all(pairs), [tensor for _, tensor in part.loads])
            one.event = cuda.record(out)
        except RuntimeError as error:
            transfer.error = transfer.error or error
        return one

    def _begin(self, one: _Loaded) -> None:
        """Start the library's operation, once what it sums is there."""
        transfer, part = one.transfer, one.part
        try:
            if transfer.error is None:
                one.event.synchronize()
                pinned = one.piece.memory[: part.size]
                one.op = self.membership.start(lambda comm: part.start(comm, pinned))
        except Exception as error:  # whatever it is, others wait for the end
            transfer.error = transfer.error or error
        self._started.put(one)

    # The thread that waits and copies back.

    def _run_back(self) -> None:
        while True:
            one = self._started.get()
            if one is None:
                return
            try:
                self._copy_back(one)
            except Exception as error:  # as above
                one.transfer.error = one.transfer.error or error
            self._free.put(one.piece)
            if one.is_last:
                one.transfer.end()
            del one

    def _copy_back(self, one: _Loaded) -> None:
        transfer, cuda, back = one.transfer, one.transfer.cuda, one.transfer.streams.back
        if one.op is not None:
            self.membership.wait(one.op)
        if transfer.error is not None:
            return
        pairs = [(into, source) for source, into in _pairs(one.piece, one.part.stores)]
        cuda.run(back, lambda: _copy_all(pairs), [into for into, _ in pairs])
        one.piece.free_after = cuda.record(back)
        if one.is_last:
            if transfer.finish is not None:
                cuda.run(back, transfer.finish, transfer.outputs)
            transfer.copied = cuda.record(back)
