# SPDX-License-Identifier: Apache-2.0
"""Gradients of PyTorch's DistributedDataParallel through fanin: a communication hook.

    import torch.distributed as dist, fanin.torch

    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
    state = fanin.torch.HookState()
    model.register_comm_hook(state, fanin.torch.allreduce_hook)

The process group still does what DDP does at its start (parameters from rank 0, buffers) and takes
the gradients that fanin cannot sum: on a GPU, sparse, or of another type than float32, float16 and
bfloat16.
"""

# No `from __future__ import annotations` here: DDP compares the hook's annotations with its types.

import contextlib
import logging
import queue
import threading
import weakref
from typing import Any, Iterator

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket, ProcessGroup  # as torch.distributed exports them

from . import _buffers
from .communicator import Communicator, Operation, Part
from .errors import FaninError

logger = logging.getLogger("fanin")

Work = tuple[Operation[torch.Tensor], torch.futures.Future[Any]]


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
        self._completer = _Completer(self)
        self._finalize = weakref.finalize(self, self._completer.stop)

    @property
    def active(self) -> bool:
        """Whether gradients go through fanin."""
        return self.communicator is not None

    def summary(self) -> str:
        """A few lines for a person: is fanin in use, through what, how much, and what was not."""
        lines = [f"fanin: {self._headline()}"]
        if self.communicator is not None and self.error is None:
            stats = self.communicator.stats()
            lines.append(
                f"  summed    {self.buckets} buckets, {self.bytes / 1e6:.1f} MB; "
                f"{stats.retransmits} of {stats.sent} fragments sent again"
            )
            if stats.host_ranks:
                lines.append(
                    f"  memory    shared by {stats.host_ranks} ranks of this host; "
                    f"{stats.hosts} host{'s' * (stats.hosts != 1)} in all"
                )
            parts = self.communicator.parts()
            if len(parts) > 1:
                lines.append(
                    f"  shares    {_shares(parts)}; {'' if parts[0].settled else 'not '}settled"
                )
            lines.append(
                f"  transport window {stats.window_frags} fragments of {stats.packet_bytes} bytes, "
                f"results by {'multicast' if stats.multicast else 'unicast'}, "
                f"UDP_SEGMENT {_on(stats.segment_offload)}, UDP_GRO {_on(stats.receive_offload)}"
            )
            if stats.ahead_frags:
                lines.append(
                    f"  ahead     of the slowest rank by up to {stats.ahead_frags} fragments; kept "
                    f"for others at most {stats.cache_peak} sums of {stats.cache_frags}"
                )
            elif stats.ahead_asked:
                lines.append(
                    "  ahead     NOT granted, all ranks go in step: the switch has policy switchml, "
                    "or no memory for it (fanin switch, server --ahead)"
                )
        for reason, count in self.fallbacks.items():
            lines.append(f"  fallback  {count} buckets to the process group: {reason}")
        return "\n".join(lines)

    @contextlib.contextmanager
    def typed_errors(self) -> Iterator[None]:
        """A failure of fanin inside the block is raised as its FaninError.

        DDP's C++ code passes exceptions on as a RuntimeError; around `loss.backward()` this turns
        it back into RankLostError, UnreachableError, and so on, with the RuntimeError as cause.
        """
        try:
            yield
        except FaninError:
            raise
        except RuntimeError as error:
            if self.error is None:
                raise
            raise self.error from error

    def close(self) -> None:
        """Leave the job.  The hook must not be called any more."""
        self._finalize()
        if self.communicator is not None and self._owns:
            self.communicator.close()

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
        work: Any = dist.all_reduce(  # type: ignore[no-untyped-call]
            tensor, group=self.process_group, async_op=True
        )
        divisor = self.size if self.average else 1

        def finish(future: torch.futures.Future[Any]) -> torch.Tensor:
            value: torch.Tensor = future.value()[0]
            return value if divisor == 1 else value.div_(divisor)

        result: torch.futures.Future[torch.Tensor] = work.get_future().then(finish)
        return result

    def _start(self, tensor: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
        assert self.communicator is not None
        if self.error is not None:
            raise self.error
        try:
            op = self.communicator.allreduce_start(tensor, "avg" if self.average else "sum")
        except FaninError as error:
            self.error = error
            raise
        self.buckets += 1
        self.bytes += tensor.numel() * tensor.element_size()
        return self._completer.watch(op)


def _shares(parts: list[Part]) -> str:
    return ", ".join(
        f"{100 * part.share:.0f} % {part.aggregator if part.rank < 0 else f'rank {part.rank}'}"
        for part in parts
    )


def _on(flag: bool) -> str:
    return "on" if flag else "off"


def allreduce_hook(state: HookState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The hook for `DistributedDataParallel.register_comm_hook`: start to sum a bucket of gradients
    over all ranks and return a future of the sum (average), while backward goes on.

    The future fails, and so does `backward()`, with a RuntimeError whose text names the lost rank
    or the silent switch; HookState.typed_errors makes it a FaninError.
    """
    tensor = bucket.buffer()
    reason = state._why_not(tensor)
    return state._fall_back(tensor, reason) if reason else state._start(tensor)


class _Completer:
    """A thread that waits for operations in the order of their start and completes their futures.

    It holds the HookState by a weak reference only, so that dropping the state ends it.
    """

    def __init__(self, state: HookState) -> None:
        self._state = weakref.ref(state)
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def watch(self, op: Operation[torch.Tensor]) -> torch.futures.Future[torch.Tensor]:
        """A future of what `op` gives."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="fanin", daemon=True)
            self._thread.start()
        ended: torch.futures.Future[Any] = torch.futures.Future()
        result: torch.futures.Future[torch.Tensor] = ended.then(_unwrap)
        self._work.put((op, ended))
        return result

    def stop(self) -> None:
        """End the thread once it has completed what is there."""
        self._work.put(None)

    def _run(self) -> None:
        while True:
            work = self._work.get()
            if work is None:
                return
            op, ended = work
            del work  # not to keep a tensor while there is nothing to do
            try:
                outcome: Any = op.wait()
            except Exception as error:  # whatever it is, somebody waits for the future
                outcome = error
                self._keep(error)
            ended.set_result(outcome)
            del op, ended, outcome

    def _keep(self, error: Exception) -> None:
        state = self._state()
        if state is not None and state.error is None and isinstance(error, FaninError):
            state.error = error


def _unwrap(ended: torch.futures.Future[Any]) -> torch.Tensor:
    """The tensor, or the error raised: a callback that raises is the one way in which a future made
    in Python fails for C++ code, too."""
    outcome = ended.value()
    if isinstance(outcome, Exception):
        raise outcome
    tensor: torch.Tensor = outcome
    return tensor
