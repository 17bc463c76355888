# SPDX-License-Identifier: Apache-2.0
"""The process group of PyTorch's backend "fanin": what fanin can sum or copy goes through it, and
everything else through a Gloo group inside.

Which of the two follows from the operation, the tensor's type, layout and device.  What goes through
Gloo takes a place among fanin's operations (_agreed.py), so that ranks which disagree are told.
Strides may differ between ranks: a tensor that is not contiguous is copied.
"""

import datetime
import functools
import logging
import weakref
from typing import Any, Callable

import torch

from . import _buffers, _elastic, _report, _staging
from ._agreed import PackedAllGather, said
from ._autoload import devices as known_devices
from ._beside import FASTER, Beside, may_take
from ._carried import Carried, Gather, InPlace, Scatter, bytes_of
from ._completion import Completer, FaninWork, copy_back, ended, join, level
from ._devices import OWN, beside, collective, know, named_devices, refuse
from ._gloo_alone import GlooAlone
from ._level import STAGED, Level, Opener, levels
from ._gathering import monitored_barrier
from ._life import Life
from ._membership import AGREE_S, Membership, Options
from ._messages import Tagged, numbering
from ._tensors import CARRIED, Tensors, contiguous, elements_of, is_staged, joined, listed, name_of
from ._tensors import is_waited_for, options_of, spread, why_not_copied, why_not_summed, words_of
from .communicator import WITHIN_S
from .errors import FaninError

logger = logging.getLogger("fanin")

c10d: Any = torch._C._distributed_c10d  # PyTorch's stubs lack half of it


class FaninGroup(GlooAlone):
    """A process group whose sums go through fanin; made by `init_process_group("fanin")`."""

    def __init__(
        self,
        open_level: Opener,
        messages: Any = None,
        devices: dict[str, str] | None = None,
        timeout: datetime.timedelta | None = None,
        life: Life | None = None,
    ) -> None:
        first = open_level(0, None)
        rank, size = first.membership.rank, first.membership.size
        super().__init__(rank, size, devices or dict.fromkeys(known_devices(), OWN))
        self.fallbacks: dict[str, int] = {}  #: reason -> operations that went to Gloo
        self.timeout = timeout
        self.life = life or Life("alone")  #: which the group is of
        self.parts: "weakref.WeakSet[FaninGroup]" = weakref.WeakSet()  #: groups of its ranks
        self._messages = messages  # what send and recv go through; None: the Gloo group
        self._ended: FaninWork | None = None  # for all who know already
        self._past = 0, 0  # operations and bytes of the ranks that there were before
        self._begin(open_level, first)

    def _begin(self, open_level: Opener, first: Level) -> None:
        self.membership = first.membership  #: of operations outside of callbacks
        self._open_level = open_level
        self._levels = {0: first}
        self._completer = Completer()
        self._monitored = 0  # calls of monitored_barrier
        self._finalize = weakref.finalize(self, _close, self._completer, self._levels)

    # Ranks that change.

    def getRank(self) -> int:
        """For C++ code, too, which asks in PyTorch 2 (_elastic.check)."""
        return int(self.membership.rank)

    def getSize(self) -> int:
        """As getRank."""
        return int(self.membership.size)

    rank = getRank
    size = getSize

    @property
    def supports_reconfigure(self) -> bool:
        """As PyTorch 2.14 asks."""
        return not self.others and self._messages is None

    def get_reconfigure_handle(self) -> str:
        """What others need so that this rank can be in a group with them."""
        return _elastic.handle(self.membership.own_address)

    def reconfigure(self, opts: Any) -> Any:
        """Have the ranks whose handles `opts` has go on as this group, from now on with new numbers, and
        wait for them.  What was made of the group, as new_group does, is closed."""
        if not self.supports_reconfigure:
            raise RuntimeError("reconfigure: expected the default group, with fanin alone")
        _elastic.check()
        limit = opts.timeout or self.timeout or datetime.timedelta(seconds=AGREE_S)
        at = _elastic.place(opts.uuid, opts.handles, limit)
        for part in list(self.parts):
            part.close()
        self.close()
        self.life, opener = levels(at, self.membership.options, self.timeout)
        self._past = self.ops, self.bytes
        self._begin(opener, opener(0, None))
        _elastic.tell_torch(self, at)
        self.membership.is_wanted()
        _ = self.gloo
        return self._track([], [], None)

    @property
    def ops(self) -> int:
        """Operations that went through fanin."""
        return self._past[0] + sum(one.ops for one in list(self._levels.values()))

    @property
    def bytes(self) -> int:
        """In them."""
        return self._past[1] + sum(one.bytes for one in list(self._levels.values()))

    @property
    def error(self) -> FaninError | None:
        """What ended fanin in this group."""
        errors = (one.membership.error for one in list(self._levels.values()))
        return next((error for error in errors if error), None)

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

    def _here(self, staged: bool = False) -> Level:
        """What an operation that starts here and now goes through.  All ranks come to a new level
        with the same operation."""
        number = level() + STAGED * staged
        if number not in self._levels:
            self._levels[number] = self._open_level(number, self.membership)
        return self._levels[number]

    @property
    def gloo(self) -> Any:
        """The Gloo group for what fanin cannot do."""
        return self._here().gloo

    # Reductions.

    @collective
    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        tensors, opts = listed(tensors), options_of(c10d.AllreduceOptions, opts)
        beside = self._beside_for(tensors, opts.reduceOp)
        if beside is not None:
            return beside.start(tensors[0], functools.partial(self._sum, tensors, opts))
        return self._sum(tensors, opts)

    def _sum(self, tensors: Tensors, opts: Any, beside: Any = None) -> Any:
        """`beside`: a Gloo group that it goes through instead."""
        if beside is not None:
            self.fallbacks[FASTER] = self.fallbacks.get(FASTER, 0) + 1
            text = said("all_reduce", tensors, "sum")
            return self._by_gloo("allreduce", tensors, opts, text, beside)
        if is_waited_for(opts) and len(tensors) == 1 and self._here().membership.is_wanted():
            op = name_of(opts.reduceOp)
            memory = _buffers.summed_in_place(tensors[0], op == "avg") if op else None
            if memory is not None and not is_staged(tensors[0]):
                return self._sum_at_once(tensors, memory, op)
        why = why_not_summed(tensors, opts.reduceOp)
        if len(tensors) != 1 or self._is_left_to_gloo("allreduce", tensors, why):
            text = said("all_reduce", tensors, words_of(opts.reduceOp))
            return self._by_gloo("allreduce", tensors, opts, text)
        op, dense = name_of(opts.reduceOp), contiguous(tensors[0])
        carried = InPlace(
            dense, lambda comm, one, within: comm.allreduce_start(one, op, within=within)
        )
        return self._by_fanin(tensors, carried, copy_back([(tensors[0], dense)]), opts)

    @collective
    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        tensors, opts = listed(tensors), options_of(c10d.AllreduceCoalescedOptions, opts)
        why = why_not_summed(tensors, opts.reduceOp)
        if len({tensor.dtype for tensor in tensors}) != 1:
            why = "tensors of several types"
        text = said("all_reduce_coalesced", tensors, words_of(opts.reduceOp))
        if self._is_left_to_gloo("allreduce_coalesced", tensors, why):
            return self._by_gloo("allreduce_coalesced", tensors, opts, text)
        op = name_of(opts.reduceOp)
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
        pieces = torch.split(flat, [tensor.numel() for tensor in tensors])
        views = [piece.view(tensor.shape) for piece, tensor in zip(pieces, tensors)]
        carried = InPlace(
            flat, lambda comm, one, within: comm.allreduce_start(one, op, within=within)
        )
        return self._by_fanin(tensors, carried, copy_back(list(zip(tensors, views))), opts, text)

    @collective
    def reduce(self, tensors: Any, opts: Any = None) -> Any:  # type: ignore[override]
        tensors, opts = listed(tensors), options_of(c10d.ReduceOptions, opts)
        why = why_not_summed(tensors, opts.reduceOp)
        if len(tensors) != 1 or self._is_left_to_gloo("reduce", tensors, why):
            text = said("reduce", tensors, words_of(opts.reduceOp), opts.rootRank)
            return self._by_gloo("reduce", tensors, opts, text)
        op, root, dense = name_of(opts.reduceOp), opts.rootRank, contiguous(tensors[0])
        mine = root == self.membership.rank
        carried = InPlace(
            dense,
            lambda comm, one, within: comm.reduce_start(one, op, root, within=within),
            stores=mine,
        )
        finish = copy_back([(tensors[0], dense)]) if mine else None
        return self._by_fanin(tensors, carried, finish, opts)

    @collective
    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        opts = options_of(c10d.ReduceScatterOptions, opts)
        if len(outputs) != 1 or len(inputs) != 1 or len(inputs[0]) != self.membership.size:
            raise ValueError("reduce_scatter: expected one output and as many inputs as ranks")
        sources = [contiguous(tensor) for tensor in inputs[0]]
        return self._reduce_scatter(outputs[0], sources, opts)

    @collective
    def _reduce_scatter_base(
        self, output: torch.Tensor, source: torch.Tensor, opts: Any = None
    ) -> Any:
        size = self.membership.size
        if output.dtype != source.dtype or output.numel() * size != source.numel():
            raise ValueError(
                f"reduce_scatter: input has {source.numel()} elements of {source.dtype}, output "
                f"{output.numel()} of {output.dtype}: expected {size} times as many of one type"
            )
        sources = list(contiguous(source).detach().reshape(-1).chunk(size))
        return self._reduce_scatter(output, sources, options_of(c10d.ReduceScatterOptions, opts))

    def _reduce_scatter(self, output: torch.Tensor, sources: Tensors, opts: Any) -> Any:
        """Chunk i of all ranks is reduced to rank i."""
        rank = self.membership.rank
        why = why_not_summed(sources, opts.reduceOp)
        if self._is_left_to_gloo("reduce_scatter", sources, why):
            return self._scatter_by_gloo(output, sources, opts)
        dense = contiguous(output)
        result = dense.detach().view(sources[rank].shape)
        carried = Scatter(joined(sources), result, name_of(opts.reduceOp))
        return self._by_fanin([output], carried, copy_back([(output, dense)]), opts)

    def _scatter_by_gloo(self, output: torch.Tensor, sources: Tensors, opts: Any) -> Any:
        """Gloo has no reduce_scatter: all ranks reduce everything."""
        mine = sources[self.membership.rank].clone()
        chunks = [
            mine if rank == self.membership.rank else chunk.clone()
            for rank, chunk in enumerate(sources)
        ]
        reducing = c10d.AllreduceOptions()
        reducing.reduceOp = opts.reduceOp
        return self._through_gloo(
            said("reduce_scatter", sources[:1], words_of(opts.reduceOp)) + " a rank",
            [output],
            lambda gloo: [gloo.allreduce([chunk], reducing) for chunk in chunks],
            lambda: output.copy_(mine.view(output.shape)),
        )

    # Copies.

    @collective
    def broadcast(self, tensors: Any, opts: Any = None) -> Any:
        tensors, opts = listed(tensors), options_of(c10d.BroadcastOptions, opts)
        why = why_not_copied(tensors)
        if len(tensors) != 1 or self._is_left_to_gloo("broadcast", tensors, why):
            text = said("broadcast", tensors, root=opts.rootRank)
            return self._by_gloo("broadcast", tensors, opts, text)
        root, dense = opts.rootRank, contiguous(tensors[0])
        mine = root == self.membership.rank
        carried = InPlace(
            elements_of(dense),
            lambda comm, one, within: comm.broadcast_start(one, root, within=within),
            mine,
            not mine,
        )
        finish = None if mine else copy_back([(tensors[0], dense)])
        text = "" if dense.dtype in CARRIED else said("broadcast", tensors, root=root)
        return self._by_fanin(tensors, carried, finish, opts, text)

    @collective
    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        opts = options_of(c10d.AllgatherOptions, opts)
        if len(outputs) != 1 or len(inputs) != 1 or len(outputs[0]) != self.membership.size:
            raise ValueError("all_gather: expected one input and as many outputs as ranks")
        into, source = list(outputs[0]), inputs[0]
        if len({(tensor.numel(), tensor.dtype) for tensor in [source, *into]}) != 1:
            raise ValueError("all_gather: expected outputs of the size and type of the input")
        return self._gather(into, source, into, opts)

    @collective
    def _allgather_base(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None) -> Any:
        size = self.membership.size
        if output.dtype != source.dtype or output.numel() != size * source.numel():
            raise ValueError(
                f"all_gather: input has {source.numel()} elements of {source.dtype}, output "
                f"{output.numel()} of {output.dtype}: expected {size} times as many of one type"
            )
        dense = contiguous(output)
        into = list(dense.detach().reshape(-1).chunk(size))
        return self._gather(into, source, [output], opts, copy_back([(output, dense)]))

    def _gather(
        self,
        into: Tensors,
        source: torch.Tensor,
        outputs: Tensors,
        opts: Any,
        finish: Callable[[], None] | None = None,
    ) -> Any:
        """All ranks' tensors on every rank."""
        dense = [contiguous(tensor) for tensor in into]
        why, mine = why_not_copied([source, *into]), contiguous(source)
        bring_back = copy_back(list(zip(into, dense)))
        ends = [step for step in (bring_back, finish) if step is not None]
        if self._is_left_to_gloo("allgather", [source], why):
            text = said("all_gather", [source])
            return self._gather_by_gloo(text, dense, mine, outputs, ends, in_bytes=not why)
        staged = mine.numel() and is_staged(mine)
        if not staged and PackedAllGather.holds(mine, self.membership.size):
            packed = PackedAllGather(mine, self._here().membership)
            ends.insert(0, lambda: packed.spread(dense))
            carried: Carried = InPlace(packed.buffer, packed.start)
            return self._by_fanin(outputs, carried, lambda: [step() for step in ends], opts)
        whole = joined(dense)
        if whole.data_ptr() != dense[0].data_ptr():
            ends.insert(0, functools.partial(spread, whole, dense))
        carried = Gather(elements_of(whole), elements_of(mine))
        text = "" if mine.dtype in CARRIED else said("all_gather", [source])
        return self._by_fanin(outputs, carried, lambda: [step() for step in ends], opts, text)

    def _gather_by_gloo(
        self,
        text: str,
        dense: Tensors,
        mine: torch.Tensor,
        outputs: Tensors,
        ends: list[Callable[[], Any]],
        in_bytes: bool,
    ) -> Any:
        """Gloo does not know all types, and divides by the number of elements."""
        into = [bytes_of(tensor) for tensor in dense] if in_bytes else dense
        source = bytes_of(mine) if in_bytes else mine

        def start(gloo: Any) -> Any:
            return gloo.allgather([into], [source]) if source.numel() else []

        return self._through_gloo(text, outputs, start, lambda: [step() for step in ends])

    def barrier(self, opts: Any = None) -> Any:
        if self._is_left_to_gloo("barrier", [], ""):
            opts = opts or c10d.BarrierOptions()
            return self._through_gloo("barrier", [], lambda gloo: gloo.barrier(opts))
        carried = InPlace(torch.empty(0), lambda comm, _, within: comm.barrier_start(within=within))
        return self._by_fanin([], carried, None, opts)

    # Several operations as one.

    def _all_of(self, works: list[Any]) -> Any:
        return self._track([], works, None)

    @collective
    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        works = [self._allgather_base(one, source) for one, source in zip(outputs, inputs)]
        return self._track(list(outputs), works, None)

    @collective
    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        pairs = zip(outputs, inputs)
        works = [self._reduce_scatter_base(one, source, opts) for one, source in pairs]
        return self._track(list(outputs), works, None)

    # Messages.

    @collective
    def send(self, tensors: Any, to: int, tag: int = 0) -> Any:
        self.membership.look_for(to)
        return (self._messages or self.gloo).send(tensors, to, tag)

    @collective
    def recv(self, tensors: Any, source: int, tag: int = 0) -> Any:
        self.membership.look_for(source)
        return (self._messages or self.gloo).recv(tensors, source, tag)

    @collective
    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        return (self._messages or self.gloo).recv_anysource(tensors, tag)

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        self._monitored += 1
        within = self.timeout if timeout is None else timeout
        monitored_barrier(self.membership, self._monitored, within, wait_all_ranks)
        here = self._here()
        with here.order:
            here.sequencer.gate("monitored_barrier")

    def _set_sequence_number_for_group(self) -> None:
        self.gloo._set_sequence_number_for_group()

    def _get_sequence_number_for_group(self) -> int:
        return int(self.gloo._get_sequence_number_for_group())

    # PyTorch 2.13 and later call some by other names.

    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    # Within.

    def _is_left_to_gloo(self, operation: str, tensors: Tensors, why: str) -> bool:
        if not why:
            staged = any(is_staged(tensor) for tensor in tensors)
            return not self._here(staged).membership.is_wanted()
        reason = f"{operation}: {why}"
        if reason not in self.fallbacks:
            self.membership.say(f"goes through Gloo: {reason}")
        self.fallbacks[reason] = self.fallbacks.get(reason, 0) + 1
        return True

    def _by_fanin(
        self,
        outputs: Tensors,
        carried: Carried,
        finish: Callable[[], Any] | None,
        opts: Any,
        text: str = "",
    ) -> Any:
        """`opts`: may say that the caller waits at once.  `text`: what ranks have to agree about besides,
        since the library does not compare it."""
        cuda = _staging.needed_for(carried.sample) if outputs else None
        if cuda is not None and not carried.bytes:
            carried, cuda = carried.empty(), None
        here = self._here()
        op, is_blocking = None, is_waited_for(opts) and not self._coalesced
        with here.order:
            before = here.sequencer.before(cuda is not None, text)
            here.ops += 1
            here.bytes += carried.bytes
            if cuda is None:
                within = WITHIN_S if is_blocking and not before else 0.0
                op = here.membership.start(lambda comm: carried.start(comm, within))
            else:
                staged = self._here(True).stager.start(cuda, outputs, carried, finish, before)
        if op is None:
            return self._added(staged)
        if is_blocking and not before and op.succeeded():
            return self._ended_at_once(finish)
        return self._added(here.work_of(op, outputs, before, finish))

    def _sum_at_once(self, tensors: Tensors, memory: _buffers.Memory, op: str) -> Any:
        """As _by_fanin, of an all-reduce that needs nothing before and after, and is waited for."""
        here = self._here()
        with here.order:
            before = here.sequencer.before(False, "")
            within = 0.0 if before or self._coalesced else WITHIN_S
            started = here.membership.start(
                lambda comm: comm.allreduce_start(memory, op, within=within)
            )
            here.ops += 1
            here.bytes += memory.elems * _buffers.SIZES[memory.dtype]
        if within and started.succeeded():
            return self._ended_at_once(None)
        return self._added(here.work_of(started, tensors, before, None))

    def _added(self, work: FaninWork) -> FaninWork:
        self._completer.add(work)
        return work

    def _ended_at_once(self, finish: Callable[[], Any] | None) -> Any:
        """Of an operation that has ended within its start, for a caller who waits and asks no more."""
        if finish is not None:
            with torch.no_grad():
                finish()
        if self._ended is None:
            self._ended = ended([])
        return self._ended

    def _beside_for(self, tensors: Tensors, op: Any) -> Beside | None:
        """What starts a sum that fanin can carry, and Gloo perhaps faster.  The same on all ranks."""
        found = None if level() else self._levels[0].beside
        if found is None or self._is_coalescing() or not may_take(tensors, op):
            return None
        return found if not found.learner.off and self.membership.is_wanted() else None

    def _by_gloo(
        self, name: str, tensors: Tensors, opts: Any, text: str, beside: Any = None
    ) -> Any:
        """In place; where a tensor is not contiguous, on copies: Gloo would take its memory for one
        that is."""
        dense = [contiguous(tensor) for tensor in tensors]
        finish = copy_back(list(zip(tensors, dense)))
        return self._through_gloo(
            text, tensors, lambda gloo: getattr(gloo, name)(dense, opts), finish, beside=beside
        )

    def _through_gloo(
        self,
        text: str,
        outputs: Tensors,
        call: Callable[[Any], Any],
        finish: Callable[[], Any] | None = None,
        unbalance: int = 0,
        beside: Any = None,
    ) -> Any:
        """Have `call` start operations of a Gloo group, the level's unless it is `beside`, once all ranks
        have said that they do so: in `text`, and with an `unbalance` whose sum is 0."""
        here = self._here()
        here.membership.is_wanted()
        with here.order:
            stated = here.sequencer.state(text, unbalance) if self.membership.size > 1 else None
            queued = here.sequencer.add(stated, call, beside)
            work = FaninWork(outputs, [queued.wait], finish)
        return self._added(work)

    def _track(self, outputs: Tensors, works: list[Any], finish: Callable[[], Any] | None) -> Any:
        return self._added(FaninWork(outputs, [one.wait for one in works], finish))


def _close(completer: Completer, levels: dict[int, Level]) -> None:
    completer.stop()
    for one in levels.values():
        one.close()
    join(completer.threads + [thread for one in levels.values() for thread in one.threads])


_world: "weakref.ref[FaninGroup] | None" = None


def create(given: Any, options: Options | None) -> FaninGroup:
    """What torch.distributed calls on every rank of a new group."""
    global _world
    default = _world() if _world is not None and given.global_ranks_in_group else None
    if options is None:
        options = default.membership.options if default is not None else Options()
    if not isinstance(options, Options):
        raise TypeError(f"pg_options: {type(options).__name__}: expected fanin.torch.Options")
    options.learns(given.group_size)  # ValueError: on each rank, before they meet
    devices = named_devices()
    refuse(devices)
    later = default is None and bool(getattr(given, "enable_reconfigure", False))
    at = _elastic.Place(given.group_rank, given.group_size, str(given.group_id), given.store)
    known = default.life if default is not None else Life("later") if later else None
    members = given.global_ranks_in_group
    life, opener = levels(at, options, given.timeout, known, default, members)
    messages = None
    if default is not None:
        number = numbering(given, default, at.store)
        messages = Tagged(default, given.global_ranks_in_group, number)
    group = FaninGroup(opener, messages, devices, given.timeout, life)
    if default is None and not later:
        group.membership.is_wanted()
    group.others = beside(devices, given, at.store)
    if later:
        group.membership.fail(FaninError("this group has no ranks before reconfigure()"))
        _world = weakref.ref(group)
        return group
    if default is not None:
        default.parts.add(group)
    if messages is None:
        _ = group.gloo  # while all ranks are here: messages go through it
    if not given.global_ranks_in_group:
        _world = weakref.ref(group)
    return group


know()
