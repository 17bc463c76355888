# SPDX-License-Identifier: Apache-2.0
"""PyTorch's collectives through fanin: a backend of torch.distributed, and a hook for one model.

    import torch.distributed as dist, fanin.torch

    dist.init_process_group("fanin")

Ranks that mpirun or srun started get the variables that torch.distributed reads (RANK, MASTER_ADDR, ...)
with the import, unless they are set.

All that a program does with the group then goes through fanin, as far as fanin can carry it, and
otherwise through Gloo: sparse tensors, and sums of other types than float64, float32,
float16, bfloat16, int32 and int64.  `summary()` says which.

A program that has a group of another backend can give fanin the gradients of a model alone:

    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
    state = fanin.torch.HookState()
    model.register_comm_hook(state, fanin.torch.allreduce_hook)
"""

# No `from __future__ import annotations` here: DDP compares the hook's annotations with its types.

import contextlib
import logging
import os
import weakref
from typing import Any, Callable, Iterator

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket, ProcessGroup  # as torch.distributed exports them

from . import _autoload, _buffers, _group, _launcher, _libuv, _report
from ._agreed import agree, said
from ._completion import Completer, FaninWork, join
from ._membership import Options
from .communicator import Communicator
from .errors import FaninError

__all__ = [
    "HookState",
    "Options",
    "allreduce_hook",
    "is_active",
    "summary",
    "typed_errors",
]

logger = logging.getLogger("fanin")
_autoload.register()
_launcher.complete(os.environ)
_libuv.complete(os.environ)


def _fanin_group(group: ProcessGroup | None) -> _group.FaninGroup:
    found: Any = group if group is not None else dist.group.WORLD
    if not isinstance(found, _group.FaninGroup):
        raise TypeError(f'{type(found).__name__}: expected a group of backend "fanin"')
    return found


def is_active(group: ProcessGroup | None = None) -> bool:
    """Whether the operations of a group of backend "fanin" go through fanin; None: the default
    group."""
    membership = _fanin_group(group).membership
    return membership.is_wanted() and membership.error is None


def summary(group: ProcessGroup | None = None) -> str:
    """A few lines for a person about a group of backend "fanin": is fanin in use, through what, how
    much went through it, and what did not."""
    return _fanin_group(group).summary()


@contextlib.contextmanager
def typed_errors(group: ProcessGroup | None = None) -> Iterator[None]:
    """A failure of fanin inside the block is raised as its FaninError, though C++ code of PyTorch,
    such as `loss.backward()`, passed it on as a RuntimeError, which is then its cause."""
    with _report.typed_errors(lambda: _fanin_group(group).error):
        yield


class HookState:
    """What `allreduce_hook` needs: a communicator, and a process group for what fanin cannot do.

    All ranks of `process_group` make one, together: it is a collective call.

    process_group
        The group whose ranks train together; None: the default group.
    communicator
        One that exists already, with the same ranks; it is not closed by this object.  None: one
        is made from `options`, which are Communicator's, with the group's rank and size.
    average
        Whether gradients are averaged, as DDP does without a hook, or summed.
    feedback
        Whether what rounding to 8 bits takes from a bucket is added to it in the next step; None: if
        the communicator's `wire` is "int8".
    required
        True: FaninError on every rank if any of them could not join.  False: then all of them use
        the process group, `active` is False, `reason` says why, and rank 0 logs it as a warning.
    """

    def __init__(
        self,
        process_group: ProcessGroup | None = None,
        communicator: Communicator | None = None,
        *,
        average: bool = True,
        feedback: bool | None = None,
        required: bool = True,
        **options: Any,
    ) -> None:
        self.process_group = process_group
        self.average = average
        self.rank = dist.get_rank(process_group)
        self.size = dist.get_world_size(process_group)
        self.communicator: Communicator | None = communicator
        self.reason = ""  #: why fanin is not used; "" while it is
        self.error: FaninError | None = None  #: what ended it
        self.buckets = 0  #: gradient buckets summed by fanin
        self.bytes = 0  #: in them
        self.fallbacks: dict[str, int] = {}  #: reason -> buckets that went to the process group
        self._owns = communicator is None
        self._join(required, options)
        wire = self.communicator.wire if self.communicator is not None else ""
        self._feedback = wire == "int8" if feedback is None else feedback
        self._lost: dict[int, tuple[list[int], torch.Tensor]] = {}  # by bucket: of which, and what
        self._completer = Completer()
        owned = self.communicator if self._owns else None
        self._finalize = weakref.finalize(self, _end, self._completer, owned)

    @property
    def active(self) -> bool:
        """Whether gradients go through fanin."""
        return self.communicator is not None

    def summary(self) -> str:
        """A few lines for a person: is fanin in use, through what, how much, and what was not."""
        lines = [f"fanin: {self._headline()}"]
        if self.communicator is not None and self.error is None:
            lines += _report.lines(self.communicator, f"{self.buckets} buckets", self.bytes)
        for reason, count in self.fallbacks.items():
            lines.append(f"  fallback  {count} buckets to the process group: {reason}")
        return "\n".join(lines)

    def typed_errors(self) -> contextlib.AbstractContextManager[None]:
        """A failure of fanin inside the block is raised as its FaninError.

        DDP's C++ code passes exceptions on as a RuntimeError; around `loss.backward()` this turns
        it back into RankLostError, UnreachableError, and so on, with the RuntimeError as cause.
        """
        return _report.typed_errors(lambda: self.error)

    def close(self) -> None:
        """Leave the job.  The hook must not be called any more."""
        self._finalize()

    # Within.

    def _headline(self) -> str:
        if self.error is not None:
            return f"FAILED: {self.error}"
        if self.communicator is None:
            return f"NOT active, gradients go through the process group: {self.reason}"
        where = self.communicator.switch or "nothing, being alone"
        return f"active, {self.size} ranks through {where}"

    def _join(self, required: bool, options: dict[str, Any]) -> None:
        problem: Exception | None = None
        given = self.communicator
        if given is None:
            try:
                self.communicator = Communicator(rank=self.rank, ranks=self.size, **options)
            except (FaninError, ValueError) as error:
                problem = error
        elif (given.rank, given.size) != (self.rank, self.size):
            problem = FaninError(
                f"communicator: is rank {given.rank} of {given.size}, the process group's is "
                f"{self.rank} of {self.size}: expected the same"
            )
        self._agree(problem, required)

    def _agree(self, problem: Exception | None, required: bool) -> None:
        """All ranks or none: a rank that hears of another's problem leaves, too."""
        problems: list[str | None] = [None] * self.size
        mine = str(problem) if problem else None
        dist.all_gather_object(problems, mine, self.process_group)  # type: ignore[no-untyped-call]
        failed = [(rank, text) for rank, text in enumerate(problems) if text is not None]
        if not failed:
            logger.info("%s", self._headline())
            return
        if self.communicator is not None and self._owns:
            self.communicator.close()
        self.communicator = None
        self.reason = f"rank {failed[0][0]}: {failed[0][1]}"
        if len(failed) > 1:
            self.reason += f" (and {len(failed) - 1} more ranks)"
        if not required:
            self._say(self._headline())
        elif problem is not None:
            raise problem
        else:
            raise FaninError(self.reason)

    def _say(self, text: str) -> None:
        """Once for the job: rank 0 says it, the others keep it for those who look."""
        logger.log(logging.WARNING if self.rank == 0 else logging.DEBUG, "fanin: %s", text)

    def _why_not(self, tensor: torch.Tensor) -> str:
        """Why this bucket goes to the process group; "": it does not.  The same on all ranks."""
        if self.communicator is None:
            return self.reason
        problem = _buffers.torch_problem(tensor)
        if not problem and self.average and not tensor.is_floating_point():
            problem = f"tensor of {tensor.dtype}: its average would be truncated"
        return problem

    def _fall_back(self, tensor: torch.Tensor, reason: str) -> torch.futures.Future[torch.Tensor]:
        if reason not in self.fallbacks and self.communicator is not None:
            self._say(f"a bucket goes to the process group: {reason}")
        self.fallbacks[reason] = self.fallbacks.get(reason, 0) + 1
        self._agree_to_fall_back(tensor)
        work: Any = dist.all_reduce(  # type: ignore[no-untyped-call]
            tensor, group=self.process_group, async_op=True
        )
        divisor = self.size if self.average else 1

        def finish(future: torch.futures.Future[Any]) -> torch.Tensor:
            # of complex numbers Gloo gets, and gives, a view as real ones
            value: torch.Tensor = tensor if tensor.is_complex() else future.value()[0]
            return value if divisor == 1 else value.div_(divisor)

        result: torch.futures.Future[torch.Tensor] = work.get_future().then(finish)
        return result

    def _agree_to_fall_back(self, tensor: torch.Tensor) -> None:
        """All ranks have this bucket go to the process group, or none: the next one would be added to
        it."""
        if self.error is not None:
            raise self.error
        if self.communicator is None:
            return
        try:
            number = self.buckets + sum(self.fallbacks.values())
            agree(self.communicator, said("bucket", [tensor]), number)
        except FaninError as error:
            self.error = error
            raise

    def _refund(self, bucket: GradBucket) -> torch.Tensor | None:
        """Add to a bucket what it lost in the last step; where what it loses in this one goes."""
        if not self._feedback:
            return None
        tensor, index = bucket.buffer(), bucket.index()
        gradients = [gradient.data_ptr() for gradient in bucket.parameters()]
        kept, lost = self._lost.get(index, ([], tensor))
        if kept == gradients and lost.numel() == tensor.numel():
            tensor.add_(lost)
            return lost.zero_()
        lost = torch.zeros(tensor.numel(), dtype=torch.float32)
        self._lost[index] = gradients, lost  # DDP has divided the gradients anew
        return lost

    def _start(
        self, tensor: torch.Tensor, lost: torch.Tensor | None = None
    ) -> torch.futures.Future[torch.Tensor]:
        assert self.communicator is not None
        if self.error is not None:
            raise self.error
        try:
            op = self.communicator.allreduce_start(
                tensor, "avg" if self.average else "sum", lost=lost
            )
        except FaninError as error:
            self.error = error
            raise
        self.buckets += 1
        self.bytes += tensor.numel() * tensor.element_size()
        work = FaninWork([tensor], [_keeping(weakref.ref(self), op.wait)])
        self._completer.add(work)
        result: torch.futures.Future[torch.Tensor] = work.raw_future().then(_first)
        return result


def _end(completer: Completer, owned: Communicator | None) -> None:
    """Leave the job, and wait for the threads that its end ends."""
    completer.stop()
    if owned is not None:
        owned.close()
    join(completer.threads)


def _keeping(state: "weakref.ref[HookState]", wait: Callable[[], Any]) -> Callable[[], None]:
    """Wait, and keep in `state` what ends the operation."""

    def waited() -> None:
        try:
            wait()
        except FaninError as error:
            kept = state()
            if kept is not None and kept.error is None:
                kept.error = error
            raise

    return waited


def _first(future: "torch.futures.Future[Any]") -> torch.Tensor:
    tensor: torch.Tensor = future.value()[0]
    return tensor


def allreduce_hook(state: HookState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The hook for `DistributedDataParallel.register_comm_hook`: start to sum a bucket of gradients
    over all ranks and return a future of the sum (average), while backward goes on.

    The future fails, and so does `backward()`, with a RuntimeError whose text names the lost rank
    or the silent switch; HookState.typed_errors makes it a FaninError.
    """
    tensor = bucket.buffer()
    reason = state._why_not(tensor)
    if reason:
        return state._fall_back(tensor, reason)
    return state._start(tensor, state._refund(bucket))
