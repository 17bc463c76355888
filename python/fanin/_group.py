# SPDX-License-Identifier: Apache-2.0
"""The process group of PyTorch's backend "fanin": what fanin can sum or copy goes through it, and
everything else through a Gloo group inside.

Which of the two follows from the operation, the tensor's type and its size alone, so all ranks
decide alike.  Layouts may differ between ranks: a tensor that is not contiguous is copied.
"""

import contextlib
import functools
import inspect
import logging
import os
import threading
import weakref
from typing import Any, Callable, Sequence

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, ReduceOp

from . import _report
from ._completion import Completer, FaninWork, copy_back, ended, level
from ._membership import Membership, Options, Start, local_address
from .communicator import Operation
from .errors import FaninError

logger = logging.getLogger("fanin")

Tensors = list[torch.Tensor]

c10d: Any = torch._C._distributed_c10d  # PyTorch's stubs lack half of it
OPS = ["sum", "avg", "min", "max"]
FLOATS = {torch.float64, torch.float32, torch.float16, torch.bfloat16}
SUMMED = FLOATS | {torch.int32, torch.int64}
TAGS = 1 << 16  # of each group, for messages between two ranks
TAGGED_GROUPS_MAX = 1 << 15  # that have such messages: a tag has 31 bits
GATHER_BYTES_MIN = (
    16384  # of one rank; less is gathered by Gloo: a broadcast for each rank costs more
)


def _name_of(op: Any) -> str:
    """Of a reduction that fanin has; "" of another one."""
    return next((name for name in OPS if op == getattr(ReduceOp, name.upper())), "")


def _is_dense_cpu(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and tensor.device.type == "cpu"


def _why_not_copied(tensors: Sequence[torch.Tensor]) -> str:
    """Why fanin cannot carry the elements; "" if it can."""
    for tensor in tensors:
        if not _is_dense_cpu(tensor):
            return f"tensor of layout {tensor.layout} on {tensor.device}"
    return ""


def _why_not_summed(tensors: Sequence[torch.Tensor], op: Any) -> str:
    """Why fanin cannot reduce the tensors; "" if it can."""
    name = _name_of(op)
    if not name:
        return "operation other than SUM, AVG, MIN and MAX"
    for tensor in tensors:
        if tensor.dtype not in SUMMED:
            return f"tensor of {tensor.dtype}"
        if name == "avg" and tensor.dtype not in FLOATS:
            return f"average of {tensor.dtype}"
    return _why_not_copied(tensors)


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a contiguous copy of it."""
    if not _is_dense_cpu(tensor) or (
        tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj()
    ):
        return tensor
    return tensor.detach().resolve_neg().resolve_conj().contiguous()


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a contiguous tensor.  One of few elements may have any strides."""
    return tensor.detach().as_strided((tensor.numel(),), (1,)).view(torch.uint8)


def _joined(tensors: Tensors) -> torch.Tensor:
    """The elements of contiguous tensors of one size, one behind the other: in their own memory, if
    they lie there like that."""
    flat = [tensor.detach().as_strided((tensor.numel(),), (1,)) for tensor in tensors]
    step = flat[0].numel() * flat[0].element_size()
    first = flat[0].data_ptr()
    if all(one.data_ptr() == first + number * step for number, one in enumerate(flat)):
        with contextlib.suppress(RuntimeError):  # neighbours by chance
            return flat[0].as_strided((len(flat) * flat[0].numel(),), (1,))
    return torch.cat(flat)


def _spread(whole: torch.Tensor, over: Tensors) -> None:
    """Copy the pieces of `whole` to tensors."""
    for piece, one in zip(whole.chunk(len(over)), over):
        one.copy_(piece.view(one.shape))


def _listed(tensors: Any) -> Tensors:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _options(kind: Any, given: Any) -> Any:
    """Options as PyTorch passes them, or made of the operation alone."""
    if isinstance(given, kind):
        return given
    options = kind()
    if given is not None:
        options.reduceOp = given
    return options


class _Level:
    """What operations of one level go through.  Its Gloo group is made when something first goes
    through it, on all ranks: that takes longer, and more memory, than all the rest of a group."""

    def __init__(self, membership: Membership, make_gloo: Callable[[], Any]) -> None:
        self.membership = membership
        self._make_gloo = make_gloo
        self._gloo: Any = None
        self._lock = threading.Lock()

    @property
    def gloo(self) -> Any:
        with self._lock:
            if self._gloo is None:
                self._gloo = self._make_gloo()
            return self._gloo


class _Tagged:
    """Messages between two ranks of a group through the default group's Gloo, which all its ranks
    have: only two call this.  Tags keep groups apart."""

    def __init__(self, world: "FaninGroup", members: Sequence[int], number: Callable[[], int]):
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


class FaninGroup(ProcessGroup):
    """A process group whose sums go through fanin; made by `init_process_group("fanin")`."""

    def __init__(self, open_level: Callable[[int], _Level], messages: Any = None) -> None:
        first = open_level(0)
        super().__init__(first.membership.rank, first.membership.size)  # type: ignore
        self.membership = first.membership  #: of operations outside of callbacks
        self.fallbacks: dict[str, int] = {}  #: reason -> operations that went to Gloo
        self.ops = 0  #: operations that went through fanin
        self.bytes = 0  #: in them
        self._open_level = open_level
        self._levels = [first]
        self._messages = messages  # what send and recv go through; None: the Gloo group
        self._completer = Completer()
        self._order = threading.Lock()  # operations start in the order of their calls
        self._finalize = weakref.finalize(self, _close, self._completer, self._levels)

    @property
    def error(self) -> FaninError | None:
        """What ended fanin in this group."""
        return next((one.membership.error for one in self._levels if one.membership.error), None)

    def summary(self) -> str:
        """A few lines for a person: is fanin in use, through what, how much, and what was not."""
        found = [f"fanin: {self.membership.headline()}"]
        comm = self.membership.communicator
        if comm is not None and self.error is None:
            found += _report.lines(comm, f"{self.ops} operations", self.bytes)
        for reason, count in self.fallbacks.items():
            found.append(f"  by Gloo   {count} operations: {reason}")
        return "\n".join(found)

    def close(self) -> None:
        """Leave the job.  The group must not be used any more."""
        self._finalize()

    def getBackendName(self) -> str:
        return "fanin"

    def _get_backend_name(self) -> str:
        return "fanin"

    def _here(self) -> _Level:
        """What an operation that starts here and now goes through.  All ranks come to a new level
        with the same operation."""
        while len(self._levels) <= level():
            self._levels.append(self._open_level(len(self._levels)))
        return self._levels[level()]

    @property
    def gloo(self) -> Any:
        """The Gloo group for what fanin cannot do."""
        return self._here().gloo

    # Reductions.

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        tensors, opts = _listed(tensors), _options(c10d.AllreduceOptions, opts)
        why = _why_not_summed(tensors, opts.reduceOp)
        if len(tensors) != 1 or self._is_left_to_gloo("allreduce", tensors, why):
            return self._by_gloo(self.gloo.allreduce, tensors, opts)
        op = _name_of(opts.reduceOp)
        dense = [_dense(tensor) for tensor in tensors]
        return self._by_fanin(
            tensors,
            [lambda comm: comm.allreduce_start(dense[0], op)],
            copy_back(list(zip(tensors, dense))),
            dense,
        )

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        tensors, opts = _listed(tensors), _options(c10d.AllreduceCoalescedOptions, opts)
        why = _why_not_summed(tensors, opts.reduceOp)
        if len({tensor.dtype for tensor in tensors}) != 1:
            why = "tensors of several types"
        if self._is_left_to_gloo("allreduce_coalesced", tensors, why):
            return self._by_gloo(self.gloo.allreduce_coalesced, tensors, opts)
        op = _name_of(opts.reduceOp)
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
        pieces = torch.split(flat, [tensor.numel() for tensor in tensors])
        views = [piece.view(tensor.shape) for piece, tensor in zip(pieces, tensors)]
        return self._by_fanin(
            tensors,
            [lambda comm: comm.allreduce_start(flat, op)],
            copy_back(list(zip(tensors, views))),
            [flat],
        )

    def reduce(self, tensors: Any, opts: Any = None) -> Any:  # type: ignore[override]
        tensors, opts = _listed(tensors), _options(c10d.ReduceOptions, opts)
        why = _why_not_summed(tensors, opts.reduceOp)
        if len(tensors) != 1 or self._is_left_to_gloo("reduce", tensors, why):
            return self._by_gloo(self.gloo.reduce, tensors, opts)
        op, root = _name_of(opts.reduceOp), opts.rootRank
        dense = [_dense(tensor) for tensor in tensors]
        mine = root == self.membership.rank
        return self._by_fanin(
            tensors,
            [lambda comm: comm.reduce_start(dense[0], op, root)],
            copy_back(list(zip(tensors, dense))) if mine else None,
            dense,
        )

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        opts = _options(c10d.ReduceScatterOptions, opts)
        if len(outputs) != 1 or len(inputs) != 1 or len(inputs[0]) != self.membership.size:
            raise ValueError("reduce_scatter: expected one output and as many inputs as ranks")
        sources = [_dense(tensor) for tensor in inputs[0]]
        return self._reduce_scatter(outputs[0], sources, opts)

    def _reduce_scatter_base(
        self, output: torch.Tensor, source: torch.Tensor, opts: Any = None
    ) -> Any:
        size = self.membership.size
        if output.dtype != source.dtype or output.numel() * size != source.numel():
            raise ValueError(
                f"reduce_scatter: input has {source.numel()} elements of {source.dtype}, output "
                f"{output.numel()} of {output.dtype}: expected {size} times as many of one type"
            )
        sources = list(_dense(source).detach().reshape(-1).chunk(size)) if source.numel() else []
        return self._reduce_scatter(output, sources, _options(c10d.ReduceScatterOptions, opts))

    def _reduce_scatter(self, output: torch.Tensor, sources: Tensors, opts: Any) -> Any:
        """Chunk i of all ranks is reduced to rank i."""
        if not sources:
            return ended([output])
        rank = self.membership.rank
        why = _why_not_summed(sources, opts.reduceOp)
        if self._is_left_to_gloo("reduce_scatter", sources, why):
            return self._scatter_by_gloo(output, sources, opts)
        op, dense = _name_of(opts.reduceOp), _dense(output)
        result = dense.detach().view(sources[rank].shape)

        whole = _joined(sources)
        return self._by_fanin(
            [output],
            [lambda comm: comm.reduce_scatter_start(whole, result, op)],
            copy_back([(output, dense)]),
            [whole],
        )

    def _scatter_by_gloo(self, output: torch.Tensor, sources: Tensors, opts: Any) -> Any:
        """Gloo has no reduce_scatter: all ranks reduce everything."""
        mine = sources[self.membership.rank].clone()
        chunks = [
            mine if rank == self.membership.rank else chunk.clone()
            for rank, chunk in enumerate(sources)
        ]
        reducing = c10d.AllreduceOptions()
        reducing.reduceOp = opts.reduceOp
        works = [self.gloo.allreduce([chunk], reducing) for chunk in chunks]
        return self._track([output], works, lambda: output.copy_(mine.view(output.shape)))

    # Copies.

    def broadcast(self, tensors: Any, opts: Any = None) -> Any:
        tensors, opts = _listed(tensors), _options(c10d.BroadcastOptions, opts)
        why = _why_not_copied(tensors)
        if len(tensors) != 1 or self._is_left_to_gloo("broadcast", tensors, why):
            return self._by_gloo(self.gloo.broadcast, tensors, opts)
        root = opts.rootRank
        dense = [_dense(tensor) for tensor in tensors]
        memory = _bytes(dense[0])
        return self._by_fanin(
            tensors,
            [lambda comm: comm.broadcast_start(memory, root)],
            copy_back(list(zip(tensors, dense))) if root != self.membership.rank else None,
            [memory],
        )

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        opts = _options(c10d.AllgatherOptions, opts)
        if len(outputs) != 1 or len(inputs) != 1:
            return self.gloo.allgather(outputs, inputs, opts)
        into, source = list(outputs[0]), inputs[0]
        shapes = {(tensor.numel(), tensor.dtype) for tensor in [source, *into]}
        if len(into) != self.membership.size or len(shapes) != 1:
            return self.gloo.allgather(outputs, inputs, opts)  # which says what is wrong
        return self._gather(into, source, into)

    def _allgather_base(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None) -> Any:
        size = self.membership.size
        if output.dtype != source.dtype or output.numel() != size * source.numel():
            raise ValueError(
                f"all_gather: input has {source.numel()} elements of {source.dtype}, output "
                f"{output.numel()} of {output.dtype}: expected {size} times as many of one type"
            )
        if not source.numel():
            return ended([output])
        dense = _dense(output)
        into = list(dense.detach().reshape(-1).chunk(size))
        return self._gather(into, source, [output], copy_back([(output, dense)]))

    def _gather(
        self,
        into: Tensors,
        source: torch.Tensor,
        outputs: Tensors,
        finish: Callable[[], None] | None = None,
    ) -> Any:
        """All ranks' tensors on every rank."""
        if not source.numel():
            return ended(outputs)
        dense = [_dense(tensor) for tensor in into]
        why, mine = _why_not_copied([source, *into]), _dense(source)
        bring_back = copy_back(list(zip(into, dense)))
        ends = [step for step in (bring_back, finish) if step is not None]
        if mine.numel() * mine.element_size() < GATHER_BYTES_MIN and not why:
            why = "small"
        if self._is_left_to_gloo("allgather", [source], why):
            work = self.gloo.allgather(
                [[_bytes(t) for t in dense]] if _is_dense_cpu(mine) else [dense],
                [_bytes(mine)] if _is_dense_cpu(mine) else [mine],
            )
            return self._track(outputs, [work], lambda: [step() for step in ends])
        whole, own = _joined(dense), _bytes(mine)
        if whole.data_ptr() != dense[0].data_ptr():
            ends.insert(0, functools.partial(_spread, whole, dense))
        memory = _bytes(whole)
        return self._by_fanin(
            outputs,
            [lambda comm: comm.allgather_start(own, memory)],
            lambda: [step() for step in ends],
            [memory],
        )

    def barrier(self, opts: Any = None) -> Any:
        if self._is_left_to_gloo("barrier", [], ""):
            return self.gloo.barrier(opts or c10d.BarrierOptions())
        return self._by_fanin([], [lambda comm: comm.barrier_start()], None, [])

    # What Gloo alone can do.

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        return self.gloo.allgather_coalesced(outputs, inputs, opts or c10d.AllgatherOptions())

    def gather(self, outputs: Any, inputs: Any, *opts: Any) -> Any:
        return self.gloo.gather(outputs, inputs, *opts)

    def scatter(self, outputs: Any, inputs: Any, *opts: Any) -> Any:
        return self.gloo.scatter(outputs, inputs, *opts)

    def alltoall(self, outputs: Any, inputs: Any, *opts: Any) -> Any:
        return self.gloo.alltoall(outputs, inputs, *opts)

    def alltoall_base(self, *arguments: Any) -> Any:
        return self.gloo.alltoall_base(*arguments)

    def send(self, tensors: Any, to: int, tag: int = 0) -> Any:
        return (self._messages or self.gloo).send(tensors, to, tag)

    def recv(self, tensors: Any, source: int, tag: int = 0) -> Any:
        return (self._messages or self.gloo).recv(tensors, source, tag)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        return (self._messages or self.gloo).recv_anysource(tensors, tag)

    def monitored_barrier(self, *arguments: Any, **named: Any) -> None:
        self.gloo.monitored_barrier(*arguments, **named)

    def _set_sequence_number_for_group(self) -> None:
        self.gloo._set_sequence_number_for_group()

    def _get_sequence_number_for_group(self) -> int:
        return int(self.gloo._get_sequence_number_for_group())

    # Within.

    def _is_left_to_gloo(self, operation: str, tensors: Tensors, why: str) -> bool:
        if not why and sum(tensor.numel() for tensor in tensors) == 0 and operation != "barrier":
            why = "empty"
        if not why:
            return not self._here().membership.is_wanted()
        reason = f"{operation}: {why}"
        if reason not in self.fallbacks and why not in ("empty", "small"):
            self.membership.say(f"goes through Gloo: {reason}")
        self.fallbacks[reason] = self.fallbacks.get(reason, 0) + 1
        return True

    def _by_fanin(
        self,
        outputs: Tensors,
        starts: list[Start],
        finish: Callable[[], Any] | None,
        carried: Tensors,
    ) -> Any:
        work_bytes = sum(tensor.numel() * tensor.element_size() for tensor in carried)
        membership = self._here().membership
        with self._order:
            started = membership.start(starts)
            self.ops += 1
            self.bytes += work_bytes
        work = FaninWork(outputs, [_keeping(membership, op) for op in started], finish)
        self._completer.add(work)
        return work

    def _by_gloo(self, call: Callable[..., Any], tensors: Tensors, opts: Any) -> Any:
        """In place; where a tensor is not contiguous, on copies: Gloo would take its memory for one
        that is."""
        dense = [_dense(tensor) for tensor in tensors]
        work = call(dense, opts)
        finish = copy_back(list(zip(tensors, dense)))
        return work if finish is None else self._track(tensors, [work], finish)

    def _track(self, outputs: Tensors, works: list[Any], finish: Callable[[], Any] | None) -> Any:
        work = FaninWork(outputs, [one.wait for one in works], finish)
        self._completer.add(work)
        return work


def _keeping(membership: Membership, op: Operation[Any]) -> Callable[[], Any]:
    """Wait for it, and keep what ends it for all."""

    def wait() -> None:
        try:
            op.wait()
        except FaninError as error:
            membership.fail(error)
            raise

    return wait


def _close(completer: Completer, levels: list[_Level]) -> None:
    completer.stop()
    for one in levels:
        one.membership.close()


_world: "weakref.ref[FaninGroup] | None" = None


def create(given: Any, options: Options | None) -> FaninGroup:
    """What torch.distributed calls on every rank of a new group."""
    global _world
    default = _world() if _world is not None and given.global_ranks_in_group else None
    if options is None:
        options = default.membership.options if default is not None else Options()
    if not isinstance(options, Options):
        raise TypeError(f"pg_options: {type(options).__name__}: expected fanin.torch.Options")
    messages = None
    if default is not None:
        messages = _Tagged(default, given.global_ranks_in_group, _numbering(given, default))
    group = FaninGroup(functools.partial(_open_level, given, options, default), messages)
    if messages is None:
        _ = group.gloo  # while all ranks are here: messages go through it
    if not given.global_ranks_in_group:
        group.membership.is_wanted()
        _world = weakref.ref(group)
    return group


def _numbering(given: Any, default: FaninGroup) -> Callable[[], int]:
    """The group's number, the same on all its ranks, none of which waits for another one here."""
    store = c10d.PrefixStore("fanin", given.store)
    if given.group_rank == 0:
        store.set("number", str(default.membership.next_number()))
    return functools.cache(lambda: int(store.get("number")))


def _make_gloo(store: Any, rank: int, size: int, timeout: Any) -> Any:
    """Gloo by the interface that leads to rank 0, since a host's name may stand for loopback."""
    host = os.environ.get("MASTER_ADDR", "")
    address = "" if os.environ.get("GLOO_SOCKET_IFNAME") else local_address(host)
    if not address:
        return c10d.ProcessGroupGloo(store, rank, size, timeout=timeout)
    options = c10d.ProcessGroupGloo._Options()
    options._devices = [c10d.ProcessGroupGloo.create_device(hostname=address)]
    options._timeout = timeout
    return c10d.ProcessGroupGloo(store, rank, size, options)


def _open_level(given: Any, options: Options, default: FaninGroup | None, number: int) -> _Level:
    """The levels above 0 are as groups of the same ranks."""
    rank, size = given.group_rank, given.group_size
    store = c10d.PrefixStore(f"fanin{number}", given.store)
    world = default
    if number and world is None and _world is not None:
        world = _world()
    of = world.membership if world else None
    members = given.global_ranks_in_group or range(size)
    return _Level(
        Membership(store, rank, size, options, of, members),
        lambda: _make_gloo(store, rank, size, given.timeout),
    )


def register() -> None:
    """Make the backend known to torch.distributed."""
    if hasattr(dist.Backend, "FANIN"):
        return
    named: dict[str, Any] = {"extended_api": True}
    if "devices" in inspect.signature(dist.Backend.register_backend).parameters:
        named["devices"] = ["cpu", "cuda"]  # PyTorch 2
    dist.Backend.register_backend("fanin", create, **named)  # type: ignore[no-untyped-call]
