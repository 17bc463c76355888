# SPDX-License-Identifier: Apache-2.0
"""A rank of a job: reductions, broadcasts and barriers through a switch that adds on the way."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import time
import weakref
from typing import Any, Generic, Sequence, TypeVar

from . import _arguments, _buffers, _launcher, _library, _open, _waiting
from ._figures import Part, Stats
from .errors import ClosedError, from_code

OPS = {"sum": 0, "avg": 1, "min": 2, "max": 3}
MODES = {"native": 0, "fixed": 1}
WIRES = {"float32": 0, "float16": 1, "bfloat16": 2, "int8": 3}
MARK_MAX = 14  # FANIN_MARK_MAX

_SLICE_MS = 200  # one uninterruptible wait: Ctrl-C is noticed after it
WITHIN_S = 0.02  # of a start that waits: close() in another thread waits for it

T = TypeVar("T")


class Operation(Generic[T]):
    """An operation that has been started.  Its tensors must not be touched until it has ended.

    Waiting and testing may be done by any thread, but by one at a time.
    """

    def __init__(self, opened: _open.Open | None, handle: int, result: T, owners: Any) -> None:
        self._open = opened
        self._handle: int | None = handle
        self._result = result
        self._owners = owners
        self._error: Exception | None = None

    @classmethod
    def ended(cls, result: T) -> Operation[T]:
        """An operation that has ended well already."""
        op = cls(None, 0, result, None)
        op._handle = None
        return op

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        if self._handle is not None:
            assert self._open is not None
            code = self._open.library.fanin_op_test(self._handle)
            if code != _open.PENDING:
                self._end(code)
        return self._handle is None

    def succeeded(self) -> bool:
        """Whether it has ended, and well: wait() would raise nothing."""
        return self.done() and self._error is None

    def wait(self, timeout: float | None = None) -> T:
        """Block until it has ended; the tensor that holds the result.

        `timeout` in seconds; None: as long as it takes, which the communicator's own timeout bounds.
        TimeoutError: it has not ended in `timeout`, and goes on.  FaninError: what it ended with.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while self._handle is not None:
            slice_ms = _SLICE_MS
            if until is not None:
                slice_ms = max(0, min(_SLICE_MS, int((until - time.monotonic()) * 1000)))
            assert self._open is not None
            code = self._open.library.fanin_op_wait(self._handle, slice_ms)
            if code != _open.PENDING:
                self._end(code)
            elif until is not None and time.monotonic() >= until:
                raise TimeoutError(f"not ended within {timeout} s")
        if self._error is not None:
            raise self._error
        return self._result

    def _end(self, code: int) -> None:
        assert self._open is not None
        if code:
            self._error = from_code(code, _open.sentence(self._open, code))
        handle, self._handle = self._handle, None
        self._open.library.fanin_op_free(handle)
        self._owners = None

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None and self._open is not None:
            self._open.abandon(handle, self._owners)


def _alone(rank: int | None, ranks: int | None) -> bool:
    """Whether the job has one rank, so that there is nothing to talk to."""
    if ranks is not None:
        return ranks == 1 and rank in (None, 0)
    return _launcher.size(os.environ) == "1"


def _create(options: _library.Options) -> _open.Open:
    library = _library.load()
    handle = ctypes.c_void_p()
    _waiting.watch(library)
    _waiting.begin()
    code = library.fanin_comm_create(ctypes.byref(options), ctypes.byref(handle))
    made = _open.opened(library, code, handle)
    try:
        _waiting.end(library.fanin_comm_rank(handle))
    except BaseException:  # such as KeyboardInterrupt, while it waited
        made.close()
        raise
    return made


class Communicator:
    """One rank of one job.  All its ranks start the same operations in the same order; each ends
    with the right result or with an exception that names the cause.

    Arguments that are left out are taken from the variable ``FANIN_<NAME>``, if they have one, then
    (rank and ranks) from the launcher - ``RANK``/``WORLD_SIZE`` of torchrun, Open MPI's or Slurm's
    -, then from the INI file that ``FANIN_CONFIG`` names, then their defaults.

    switch
        "HOST:PORT" of a `fanin switch`, or several with commas between, each of which sums a part
        of every tensor.  With none given anywhere, rank 0 starts one in its own process, on UDP
        port ``MASTER_PORT`` of ``MASTER_ADDR``, the others find it there, and with ranks on several
        hosts the first rank of each host starts one for its part.
    job
        The job's name on the switch, the same on all ranks.
    rank, ranks
        This rank, from 0, and how many there are, 1 to 256.  A job of one rank needs no switch.
    mtu
        Path MTU in bytes, 576 to 9000 (1500).
    window
        Fragments in flight per thread of the switch; 0: as many as the switch gives (0).
    timeout
        Seconds without progress after which an operation ends in an error (30).
    join
        The same of a join (as `timeout`).
    alive
        Seconds of silence after which a rank is lost (10).
    mode
        "native": sums in arrival order, same bits on every rank; "fixed": float32 in block fixed
        point, same bits on every rank and on every run.
    wire
        "float32", "float16" or "bfloat16": how float32 tensors travel when they are reduced; "int8":
        sums and averages of more than 256 float32, float16 or bfloat16 travel in 8 bits.
    multicast
        As in fanin.h.
    ahead
        Fragments by which a rank may run ahead of the slowest one, per thread of the switch, the
        same on all ranks; 0: all go in step (0).
    cache
        With `ahead`: sums that this rank keeps for slower ones, per thread of the switch (0).
    controller
        "HOST:PORT" of a `fanin controller`, instead of `switch`: its plan says which switches and
        servers sum which part of each tensor.  When a server is lost, operations end with a
        RestartedError, and a new communicator of the same job goes on without that server.
    pace
        With `controller`: percent of the planned rate at which this rank sends; 0: as fast as
        windows allow (100).
    key_file
        The file of the tenant's key, with which what is sent is sealed (none: the job is open).
    controller_key_file
        With `controller`: the file of the key that signs its lines (none: they are not signed).
    run
        What tells this launch of the program from all others, the same on all its ranks: ranks of
        different launches are never summed (the launcher's id of it).

    What it waits for is logged as a warning (logger "fanin") after two seconds and then every five.

    Raises FaninError's subclasses: RefusedError, UnreachableError, JoinTimeoutError, ConfigError;
    ValueError for an argument out of its range.  A communicator may be used by several threads.
    """

    def __init__(
        self,
        switch: str | None = None,
        job: str | None = None,
        rank: int | None = None,
        ranks: int | None = None,
        *,
        mtu: int | None = None,
        window: int | None = None,
        timeout: float | None = None,
        join: float | None = None,
        alive: float | None = None,
        mode: str | None = None,
        wire: str | None = None,
        multicast: bool | None = None,
        priority: int | None = None,
        server: str | None = None,
        ahead: int | None = None,
        cache: int | None = None,
        controller: str | None = None,
        pace: int | None = None,
        key_file: str | None = None,
        controller_key_file: str | None = None,
        run: str | None = None,
    ) -> None:
        options = _library.Options()
        options.switch_addr = None if switch is None else switch.encode()
        options.job = None if job is None else job.encode()
        options.rank = _arguments.number("rank", rank)
        options.ranks = _arguments.number("ranks", ranks)
        options.waiting = _waiting.callback()
        options.waiting_arg = _waiting.argument(rank)
        options.mtu = _arguments.number("mtu", mtu)
        options.window = _arguments.number("window", window)
        options.timeout_ms = _arguments.milliseconds("timeout", timeout)
        options.join_ms = 0 if join is None else _arguments.milliseconds("join", join)
        options.alive_ms = _arguments.milliseconds("alive", alive)
        options.mode = _arguments.choice("mode", mode, MODES)
        #: how float32 tensors travel
        self.wire = wire or _arguments.told("wire") or "float32"
        options.wire = _arguments.choice("wire", wire, WIRES)
        options.multicast = _arguments.number("multicast", multicast)
        options.priority = _arguments.number("priority", priority)
        options.server_addr = None if server is None else server.encode()
        options.ahead = _arguments.number("ahead", ahead)
        options.cache = _arguments.number("cache", cache)
        options.controller_addr = None if controller is None else controller.encode()
        options.pace = _arguments.number("pace", pace)
        options.key_file = None if key_file is None else key_file.encode()
        if controller_key_file is not None:
            options.controller_key_file = controller_key_file.encode()
        options.run = None if run is None else run.encode()

        self._take(None if _alone(rank, ranks) else _create(options))

    def group(
        self,
        name: str,
        ranks: Sequence[int],
        *,
        timeout: float | None = None,
        join: float | None = None,
    ) -> Communicator:
        """A communicator of these of its ranks, in this order, to be called by all of them and by no
        others.  `name`, 1 to 24 printable characters without blanks, tells it from the other groups
        that there are at a time.  Close it before this one.

        It has the options of this one, but for its `timeout` and `join` if they are given, and takes
        less time and memory than a Communicator of its own: ranks know each other's hosts already.
        """
        self._check_open()
        members = list(ranks)
        if self.rank not in members or len(set(members)) != len(members):
            raise ValueError(
                f"ranks {members}: expected different ones, and {self.rank} among them"
            )
        if self._open is None or len(members) == 1:
            return self._made(None)
        handle = ctypes.c_void_p()
        array = (ctypes.c_int * len(members))(*members)
        with _open.Calling(self._open) as opened:
            code = opened.library.fanin_comm_group_within(
                opened.handle,
                name.encode(),
                array,
                len(members),
                _arguments.milliseconds("timeout", timeout),
                _arguments.milliseconds("join", join),
                ctypes.byref(handle),
            )
            return self._made(_open.opened(opened.library, code, handle), self)

    def shrink(self, wait: float | None = None) -> Communicator:
        """A communicator of the ranks that are left of one that has failed, in their order.  All of
        them call this, and it returns once all are there but those that are known as lost.  Ranks
        that have not come after `wait` seconds (the communicator's timeout) are left out, if most
        ranks are there; otherwise JoinTimeoutError, since the others may go on without this one.
        """
        self._check_open()
        if self._open is None:
            return self._made(None)
        handle = ctypes.c_void_p()
        with _open.Calling(self._open) as opened:
            code = opened.library.fanin_comm_shrink(
                opened.handle, _arguments.milliseconds("wait", wait), ctypes.byref(handle)
            )
            if code == _open.RANK_LEFT:
                return self._made(None)
            return self._made(_open.opened(opened.library, code, handle))

    # What this is.

    @property
    def rank(self) -> int:
        """This rank, from 0."""
        return self._number_of("fanin_comm_rank", 0)

    @property
    def size(self) -> int:
        """How many ranks the job has."""
        return self._number_of("fanin_comm_size", 1)

    @property
    def switch(self) -> str:
        """Where the switch is, as "10.0.0.1:5000"; "" for a job of one rank."""
        return self._text_of("fanin_comm_switch")

    @property
    def error(self) -> str:
        """What ended the communicator, in a sentence; "" while it works."""
        return self._text_of("fanin_comm_error")

    def stats(self) -> Stats:
        """Counters since the communicator was made.  ClosedError after close()."""
        self._check_open()
        if self._open is None:
            return Stats()
        raw = _library.RawStats()
        with self._locked() as opened:
            opened.library.fanin_comm_stats(opened.handle, ctypes.byref(raw))
        fields = {f.name: getattr(raw, f.name) for f in dataclasses.fields(Stats)}
        for name in ("multicast", "segment_offload", "receive_offload", "sealed"):
            fields[name] = bool(fields[name])
        return Stats(**fields)

    def parts(self) -> list[Part]:
        """The parts of every tensor; none for ranks of one host, which share memory.  ClosedError
        after close()."""
        self._check_open()
        found: list[Part] = []
        if self._open is None:
            return found
        raw = _library.RawPart()
        with self._locked() as opened:
            while not opened.library.fanin_comm_part(opened.handle, len(found), ctypes.byref(raw)):
                found.append(
                    Part(
                        raw.aggregator.decode(),
                        raw.rank,
                        raw.share_ppm / 1e6,
                        raw.rtt_ns,
                        bool(raw.settled),
                        bool(raw.lost),
                    )
                )
        return found

    # Operations.  Tensors: PyTorch tensors on the CPU, numpy arrays, buffers; contiguous, float64,
    # float32, float16, bfloat16, int32 or int64 (uint8 where nothing is summed).  They are used in
    # place, never copied.  What is only read may be read-only: JAX's arrays with an `out`, say.

    def allreduce(self, tensor: T, op: str = "sum", out: T | None = None) -> T:
        """Reduce `tensor` of all ranks into `out` (the tensor itself if there is none) on every
        rank, and return that.  `op`: "sum", "avg", "min" or "max"; sums of int32 and int64 wrap,
        their averages truncate.

        TypeError, ValueError: a tensor that cannot be used as it is; nothing was sent.
        MismatchError: ranks differ in elements, type or operation.  RankLostError, StalledError,
        UnreachableError, ...: how it ended; the communicator cannot be used any more.
        """
        return self.allreduce_start(tensor, op, out, within=WITHIN_S).wait()

    def allreduce_start(
        self,
        tensor: T,
        op: str = "sum",
        out: T | None = None,
        *,
        lost: Any = None,
        within: float = 0.0,
    ) -> Operation[T]:
        """Start an all-reduce and return at once.  BusyError: 4096 have not ended yet.

        lost
            float32, as many elements: where this rank sends in 8 bits, it gets what rounding took.
            Not with `within`.
        within
            Seconds for which to wait for its end first, where that is what comes next: quicker than
            Operation.wait behind the start.  Raises what the operation has ended with by then.
        """
        code = _arguments.choice("op", op, OPS)
        into = tensor if out is None else out
        source, target = _buffers.pair(tensor, into)
        if lost is not None and self._open is not None:
            error = _buffers.memory(lost)
            if (error.elems, error.dtype) != (source.elems, _buffers.FLOAT32):
                raise ValueError(f"lost: expected {source.elems} elements of float32")
            return self._start(
                "allreduce_lossy",
                (source.address, target.address, error.address, source.elems, source.dtype, code),
                into,
                (source, target, error),
                0.0,
            )
        return self._start(
            "allreduce",
            (source.address, target.address, source.elems, source.dtype, code),
            into,
            (source, target),
            within,
        )

    def reduce(self, tensor: T, op: str = "sum", root: int = 0, out: T | None = None) -> T:
        """As allreduce, but only rank `root` gets the result; elsewhere the tensor stays as it is."""
        return self.reduce_start(tensor, op, root, out, within=WITHIN_S).wait()

    def reduce_start(
        self,
        tensor: T,
        op: str = "sum",
        root: int = 0,
        out: T | None = None,
        *,
        within: float = 0.0,
    ) -> Operation[T]:
        """Start a reduction to `root` and return at once, or as allreduce_start."""
        code = _arguments.choice("op", op, OPS)
        into = tensor if out is None else out
        source, target = _buffers.pair(tensor, into)
        return self._start(
            "reduce",
            (source.address, target.address, source.elems, source.dtype, code, root),
            into,
            (source, target),
            within,
        )

    def broadcast(self, tensor: T, root: int = 0) -> T:
        """Copy `tensor` of rank `root` to every rank's, and return it."""
        return self.broadcast_start(tensor, root, within=WITHIN_S).wait()

    def broadcast_start(self, tensor: T, root: int = 0, *, within: float = 0.0) -> Operation[T]:
        """Start a broadcast and return at once, or as allreduce_start."""
        memory = _buffers.memory(tensor, self.rank != root)
        return self._start(
            "broadcast",
            (memory.address, memory.elems, memory.dtype, root),
            tensor,
            memory,
            within,
        )

    def reduce_scatter(self, tensor: T, out: T, op: str = "sum") -> T:
        """Reduce `tensor`, which has as many times the elements of `out` as there are ranks, over all
        ranks, and put those of this rank into `out`, which may be their place in `tensor`."""
        return self.reduce_scatter_start(tensor, out, op).wait()

    def reduce_scatter_start(self, tensor: T, out: T, op: str = "sum") -> Operation[T]:
        """Start a reduce-scatter and return at once."""
        code = _arguments.choice("op", op, OPS)
        source, target = _buffers.shares(tensor, out, self.size, gathers=False)
        _buffers.summed(source)
        return self._start(
            "reduce_scatter",
            (source.address, target.address, target.elems, target.dtype, code),
            out,
            (source, target),
        )

    def allgather(self, tensor: T, out: T) -> T:
        """Put the elements of all ranks' `tensor` into `out`, in the order of ranks.  `tensor` may be
        this rank's place in it."""
        return self.allgather_start(tensor, out).wait()

    def allgather_start(self, tensor: T, out: T) -> Operation[T]:
        """Start an all-gather and return at once."""
        source, target = _buffers.shares(tensor, out, self.size, gathers=True)
        return self._start(
            "allgather",
            (source.address, target.address, source.elems, source.dtype),
            out,
            (source, target),
        )

    def barrier(self) -> None:
        """Return when every rank has called it."""
        self.barrier_start(within=WITHIN_S).wait()

    def barrier_start(self, *, within: float = 0.0) -> Operation[None]:
        """Start a barrier and return at once, or as allreduce_start."""
        return self._start("barrier", (), None, None, within)

    def mark(self, mark: int) -> None:
        """Operations that are started from here on carry `mark`, 0 (as at first) to 14, about which
        ranks must agree as they must about the type: MismatchError.  For who builds other operations of these.
        """
        if not 0 <= mark <= MARK_MAX:
            raise ValueError(f"mark: {mark}: expected 0 to {MARK_MAX}")
        self._check_open()
        if self._open is not None:
            with self._locked() as opened:
                opened.library.fanin_comm_mark(opened.handle, mark)

    # Life.

    def close(self) -> None:
        """Leave the job.  Operations that have not ended end with ClosedError.  May be repeated."""
        self._closed = True
        if self._open is not None:
            self._open.close()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._closed:
            return "<fanin.Communicator closed>"
        return (
            f"<fanin.Communicator rank {self.rank} of {self.size} through {self.switch or 'none'}>"
        )

    # Within.

    def _take(self, opened: _open.Open | None) -> None:
        self._open = opened  #: None: a job of one rank
        self._closed = False
        self._of: Communicator | None = None  # lives as long
        self._finalize = None
        if opened is not None:
            self._finalize = weakref.finalize(self, _open.Open.close, opened)

    @staticmethod
    def _made(opened: _open.Open | None, of: Communicator | None = None) -> Communicator:
        """One made of another one, which `of` is if it must live as long."""
        made = Communicator.__new__(Communicator)
        made._take(opened)
        made._of = of
        return made

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the communicator is closed", _open.CLOSED)

    def _locked(self) -> _open.Locked:
        self._check_open()
        assert self._open is not None
        return _open.Locked(self._open)

    def _number_of(self, function: str, alone: int) -> int:
        self._check_open()
        if self._open is None:
            return alone
        with self._locked() as opened:
            return int(getattr(opened.library, function)(opened.handle))

    def _text_of(self, function: str) -> str:
        self._check_open()
        if self._open is None:
            return ""
        with self._locked() as opened:
            return str(getattr(opened.library, function)(opened.handle).decode(errors="replace"))

    def _start(
        self, what: str, arguments: tuple[int, ...], result: T, owners: Any, within: float = 0.0
    ) -> Operation[T]:
        self._check_open()
        opened = self._open
        if opened is None:
            return self._alone_run(what, arguments, result)
        handle = ctypes.c_void_p()
        to = ctypes.byref(handle)
        if opened.abandoned:
            opened.reap()
        if within:
            function = getattr(opened.library, f"fanin_{what}_within")
            opened.enter()
            try:
                code = function(opened.handle, *arguments, int(within * 1000), to)
            finally:
                opened.leave()
            if code == 0:
                return Operation.ended(result)
        else:
            function = getattr(opened.library, f"fanin_{what}_start")
            with _open.Locked(opened):
                code = function(opened.handle, *arguments, to)
        if code not in (0, _open.PENDING) or handle.value is None:
            raise from_code(code, _open.sentence(opened, code))
        return Operation(opened, handle.value, result, (self, owners))

    def _alone_run(self, what: str, arguments: tuple[int, ...], result: T) -> Operation[T]:
        """A job of one rank: what it gets is what it gave."""
        if what not in ("broadcast", "barrier"):
            source, target, count, dtype = arguments[:4]
            if source != target:
                ctypes.memmove(target, source, count * _buffers.SIZES[dtype])
        return Operation.ended(result)
