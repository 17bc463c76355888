# SPDX-License-Identifier: Apache-2.0
"""Operations under way as PyTorch sees them: Work objects, their futures, and the threads that end them.

A work ends when everything that it waits for has ended.  Whoever waits for it does that himself;
its future is completed by a thread, in the order of the starts.  That thread sleeps until somebody
asks for a future, or until there is a work that must go on though nobody waits for it: to wake it for
each takes longer than a small operation.

Callbacks of futures may start operations and wait for them: PowerSGD's do.  Such a callback runs on
a thread of this module or, if it comes late, on the caller's, so on different ranks it may begin
before or after the caller's next operation.  Therefore operations are numbered by *level*: 0 outside
of callbacks, and 1 + the level of the work of whose future it is a callback.  Within a level all
ranks start the same operations in the same order; each level has a thread and connections of its
own.
"""

import collections
import contextlib
import datetime
import functools
import sys
import threading
import time
from typing import Any, Callable, Iterator

import torch
from torch._C._distributed_c10d import Work

from ._compiled import skipped, untraced
from ._store import seconds_of

QUEUE_MAX = 1024  # works that wait for one thread; then a start waits
LAZY_MAX = 64  # of these, that have not been waited for; then the thread sees to them
LEVELS_MAX = 8  # so deep may callbacks start operations in each other
SHOWN_S = 30.0  # the longest wait for callbacks of a work that has ended, and of those before it
SLICE_S = 0.2  # a wait for another thread, which Ctrl-C may take away
KEPT_MAX = 4096  # works that only C++ code may still hold ...
KEPT_OUTPUTS_MAX = 64  # ... and of these, the newest: with their tensors, until somebody asks
END_S = 5.0  # for threads that were told to end

Devices = list[int | str | torch.device] | None  # of a future's value; None: none but the CPU

_here = threading.local()  # .level of the operations that this thread starts now


def level() -> int:
    """Of an operation that starts here and now."""
    found = getattr(_here, "level", 0)
    if found == LEVELS_MAX:
        raise RuntimeError(f"callbacks start operations in each other, {LEVELS_MAX} deep")
    return int(found)


def called_by_python(name: str) -> bool:
    """Whether the caller's caller is Python code that calls `name`.  C++ code has no frame, and below
    its own threads, such as autograd's for a GPU, there may be none at all."""
    try:
        return name in sys._getframe(2).f_code.co_names
    except ValueError:
        return False


@contextlib.contextmanager
def _callback_of(own: int) -> Iterator[None]:
    """The block is a callback of a work of level `own`."""
    before = getattr(_here, "level", 0)
    _here.level = own + 1
    try:
        yield
    finally:
        _here.level = before


def join(threads: list[threading.Thread]) -> None:
    """Until these have ended, which have been told to and have nothing to wait for, or END_S.  A thread
    that lets go of a tensor while the interpreter ends brings the process down: PyTorch's C++ code
    does not survive that Python ends the thread there."""
    if threading.current_thread() in threads:
        return  # it dropped the last reference to what it belongs to
    until = time.monotonic() + END_S
    for one in threads:
        one.join(max(0.0, until - time.monotonic()))


class Completer:
    """Threads that complete works, started when needed.  After `stop` they end with what is there."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # garbage collection may stop it, in the middle of a call
        self._queues: list[_Queue] = []
        self.threads: list[threading.Thread] = []

    def add(self, work: "FaninWork") -> None:
        """See to it that `work` ends."""
        queues = self._queues
        if len(queues) <= work.level:
            queues = self._make(work.level)
        queues[work.level].add(work)

    def stop(self) -> None:
        """End the threads once they have completed what is there."""
        with self._lock:
            queues, self._queues = self._queues, []
        for one in queues:
            one.stop()

    def _make(self, number: int) -> "list[_Queue]":
        with self._lock:
            while len(self._queues) <= number:
                self._queues.append(_Queue(self.threads))
            return self._queues


class _Queue:
    """Works of one level, in the order of the starts, and the thread that completes them."""

    def __init__(self, threads: list[threading.Thread]) -> None:
        self._threads = threads  # where it is told
        self._works: collections.deque[FaninWork] = collections.deque()
        self._changed = threading.Condition()
        self._wanted = False  # the thread completes all that there is
        self._stopped = False
        self._started = False

    def add(self, work: "FaninWork") -> None:
        with self._changed:
            self._retire()
            while len(self._works) >= QUEUE_MAX:
                self._want()
                self._changed.wait(SLICE_S)
            self._works.append(work)
            work.queue = self
            if self._wanted or not work.is_lazy or len(self._works) > LAZY_MAX:
                self._want()

    def want(self) -> None:
        """Somebody waits for what the thread does."""
        with self._changed:
            self._want()

    def retire(self) -> None:
        """Forget the first works, as far as they have ended and nobody wants more of them."""
        with self._changed:
            self._retire()

    def stop(self) -> None:
        """End the thread once it has completed what is there.  If it was not wanted so far, nobody has to:
        who holds a work may still wait for it."""
        with self._changed:
            self._stopped = True
            if self._started:
                self._want()

    def _retire(self) -> None:
        while not self._wanted and self._works and self._works[0].retire():
            self._works.popleft()

    def _want(self) -> None:
        self._wanted = True
        if not self._started:
            self._started = True
            thread = threading.Thread(target=self._run, name="fanin", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        _here.completes = True
        while True:
            work = self._next()
            if work is None:
                return
            work.complete()
            work.publish()
            del work  # not to keep tensors while there is nothing to do

    def _next(self) -> "FaninWork | None":
        """The first work, once the thread is wanted; None: the end."""
        with self._changed:
            while not (self._wanted and self._works):
                self._wanted = bool(self._works) and self._stopped
                if self._stopped and not self._works:
                    return None
                if not self._wanted:
                    self._changed.wait()
            work = self._works.popleft()
            if len(self._works) == QUEUE_MAX - 1:
                self._changed.notify_all()
            return work


class FaninFuture(torch.futures.Future[Any]):
    """A future whose callbacks, and theirs, know from which level they start operations."""

    def __init__(self, own: int, devices: Devices = None) -> None:
        super().__init__(devices=devices)
        self.level = own
        self._devices = devices

    def then(self, callback: Callable[[Any], Any]) -> "FaninFuture":
        """As PyTorch's.  Where C++ code takes the result, an error shows as one of its type."""
        child = FaninFuture(self.level, self._devices)

        def run(parent: Any) -> None:
            with _callback_of(self.level):
                try:
                    value = callback(parent)
                except Exception as error:
                    child.set_exception(error)
                    return
            child.set_result(value)

        super().add_done_callback(run)
        return child


class FaninWork(Work):
    """One or more operations that have been started, and what remains to be done at their end.

    outputs
        The tensors that hold the result.
    waits
        Each blocks until an operation has ended, and raises what it ended with.
    finish
        Called after them, before anybody learns that the work has ended.
    devices
        GPUs on which the outputs are.
    has_ended
        Given where the work need not go on while nobody waits for it or asks: whether all that
        `waits` wait for has ended.
    """

    def __init__(
        self,
        outputs: list[torch.Tensor],
        waits: list[Callable[[], Any]],
        finish: Callable[[], None] | None = None,
        devices: Devices = None,
        has_ended: Callable[[], bool] | None = None,
    ) -> None:
        super().__init__()
        self._devices = devices
        self.outputs: list[torch.Tensor] | None = outputs
        self.error: Exception | None = None
        self.level = level()
        self.queue: _Queue | None = None  #: whose thread completes it
        self._waits = waits
        self._finish = finish
        self._has_ended = has_ended
        self._lock = threading.Lock()
        self._claimed = False  # a thread is completing it
        self._done = False
        self._ended: threading.Event | None = None  # somebody waits for that
        self._published = False  # futures may be complete
        self._shown = False  # those that there were are
        self._showing: threading.Event | None = None  # somebody waits for that
        self._promised = False  # there are futures
        self._futures: list[torch.futures.Future[Any]] = []
        self._asked = self._waited = False
        self._kept = False

    @property
    def is_lazy(self) -> bool:
        """Whether it may stay as it is until somebody waits for it or asks."""
        return self._has_ended is not None

    def complete(self) -> None:
        """Wait until it has ended, in this thread or for the one that does so already."""
        while not self._done:
            if self._claim():
                self._end()
            else:
                self._await(SLICE_S)

    def _claim(self) -> bool:
        with self._lock:
            mine, self._claimed = not self._claimed, True
        return mine

    def _await(self, seconds: float) -> bool:
        """Wait for the thread that completes it: whether it has ended."""
        with self._lock:
            if self._done:
                return True
            if self._ended is None:
                self._ended = threading.Event()
        return self._ended.wait(seconds)

    def _end(self) -> None:
        try:
            if self.is_lazy:  # nothing touches tensors
                self._finish_waits()
            else:
                with torch.no_grad():
                    self._finish_waits()
        except Exception as error:  # whatever it is, others wait for the end
            self.error = error
        except BaseException:  # Ctrl-C: another thread goes on
            self._claimed = False
            self._want()
            raise
        self._waits, self._finish = [], None
        with self._lock:
            self._done = True
            if self._ended is not None:
                self._ended.set()

    def _finish_waits(self) -> None:
        for wait in self._waits:
            wait()
        if self._finish is not None:
            self._finish()

    def _want(self) -> None:
        if self.queue is not None:
            self.queue.want()

    def retire(self) -> bool:
        """Whether it has ended, and there are no futures: then those that come are complete at once."""
        ended = self.is_completed()
        with self._lock:
            if ended and not self._promised:
                self._published = self._shown = True
            return self._shown

    def publish(self) -> None:
        """Complete its futures, in this thread."""
        with self._lock:
            self._published = True
            futures, self._futures = self._futures, []
        for future in futures:
            self._complete_future(future)
        with self._lock:
            self._shown = True
            if self._showing is not None:
                self._showing.set()

    def _show(self) -> None:
        """Wait until its futures are complete, and their callbacks have returned.  These come in the
        order of the starts, so that does not begin here; and a callback cannot wait for its own
        thread."""
        if getattr(_here, "level", 0) > self.level or getattr(_here, "completes", False):
            return
        with self._lock:
            if self._shown:
                return
            if self._showing is None:
                self._showing = threading.Event()
        self._want()
        self._showing.wait(SHOWN_S)

    def _complete_future(self, future: torch.futures.Future[Any]) -> None:
        if self.error is not None and isinstance(future, FaninFuture):
            future.set_exception(self.error)
        else:
            future.set_result(self.error or self.outputs)

    # What PyTorch calls.

    @untraced
    def wait(self, timeout: datetime.timedelta | float | None = None) -> bool:
        """Block until it has ended; FaninError or RuntimeError: how it failed."""
        if timeout:
            self._want()
            if not self._await(seconds_of(timeout)):
                raise RuntimeError(f"not ended within {timeout}")
        else:
            self.complete()
        self._asked = self._waited = True
        if self._promised:
            self._show()
        elif self.queue is not None:
            self.queue.retire()
        if self._kept:
            self.outputs = None
        if self.error is not None:
            raise self.error
        return True

    def synchronize(self) -> None:
        """As wait."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        if not self._done and self._has_ended is not None:
            with self._lock:
                mine = not self._claimed and self._has_ended()
                self._claimed |= mine
            if mine:
                self._end()
        return self._done

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self.is_completed() and self.error is None

    def exception(self) -> Exception | None:
        """What it ended with."""
        return self.error if self.is_completed() else None

    def result(self) -> list[torch.Tensor]:
        """The tensors that hold the result, once it has ended."""
        self.wait()
        return self.outputs or []

    def source_rank(self) -> int:
        """Of a receive, which this is not."""
        raise RuntimeError("only a receive has a source")

    @skipped
    def get_future(self) -> "torch.futures.Future[Any]":
        """A future of the list of tensors.  It fails when the work does, and is done when wait() has
        returned."""
        self._asked = True
        if self._waited:
            self._show()
        if not called_by_python("get_future"):
            return self.raw_future()
        future = FaninFuture(self.level, self._devices)
        self._promise(future)
        return future

    def raw_future(self) -> "torch.futures.Future[Any]":
        """The same for C++ code and for callbacks that start nothing.  It fails by a callback that
        raises, the one way in which a future made in Python fails there."""
        promise: torch.futures.Future[Any] = torch.futures.Future(devices=self._devices)
        future: torch.futures.Future[Any] = promise.then(unwrap)
        self._promise(promise)
        return future

    def _promise(self, promise: "torch.futures.Future[Any]") -> None:
        with self._lock:
            due, self._promised = self._published, True
            if not due:
                self._futures.append(promise)
        if due:
            self._complete_future(promise)
        else:
            self._want()
        if self._kept:
            self.outputs = None

    def __del__(self) -> None:
        """C++ code may hold a work that Python has dropped, and would then wait for ever: also when it
        has done so before."""
        if not self._kept:
            self._kept = True
            if self._asked:
                self.outputs = None
            _kept.add(self)


class _Kept:
    """The last works that Python has dropped."""

    def __init__(self) -> None:
        self._works: collections.deque[FaninWork] = collections.deque(maxlen=KEPT_MAX)

    def add(self, work: FaninWork) -> None:
        self._works.append(work)
        try:
            self._works[-1 - KEPT_OUTPUTS_MAX].outputs = None
        except IndexError:
            pass


_kept = _Kept()


def native(work: Any) -> Any:
    """For C++ code that holds a work for as long as it likes, and not its Python object: one of
    PyTorch's own, which follows a future."""
    if not isinstance(work, FaninWork):
        return work
    follow: Any = torch._C._distributed_c10d._create_work_from_future  # type: ignore[attr-defined]
    return follow(work.raw_future())


def ended(outputs: list[torch.Tensor]) -> FaninWork:
    """A work with nothing to wait for."""
    work = FaninWork(outputs, [])
    work.complete()
    work.publish()
    return work


def unwrap(future: "torch.futures.Future[Any]") -> Any:
    """The value, or the error raised."""
    outcome = future.value()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def copy_back(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> Callable[[], None] | None:
    """What brings results from dense copies back to the tensors that they were made of; None where
    no tensor needed a copy."""
    copied = [(tensor, dense) for tensor, dense in pairs if tensor is not dense]
    return functools.partial(_copy_all, copied) if copied else None


def _copy_all(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    for tensor, dense in pairs:
        for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride())):
            if stride == 0 and size > 1:  # expanded: one element in many places
                tensor, dense = tensor.narrow(dim, 0, 1), dense.narrow(dim, 0, 1)
        tensor.copy_(dense)
