# SPDX-License-Identifier: Apache-2.0
"""One rank of random programs (agreement.py): `agreement_ranks.py programs ARGUMENTS-AS-JSON`.

Each program has groups of its own, which are made before it begins; after it ranks meet in a group of
Gloo's, so that none leaves while others still ask.  The rank judges its results by the model.
"""

import datetime
import faulthandler
import json
import os
import random
import sys
import time

import torch
import torch.distributed as dist
from agreement import REDUCED, Program, elements, given_value

import fanin
import fanin.torch

LATE_S = 120.0  # an operation that took longer is a hang: the time to wait is 2 s
HANG_S = 600  # a program that takes longer ends its process, and says where
MEET = datetime.timedelta(seconds=300)
ROUNDED = 1e-2  # of averages, and of products of half types
CAUSES = ("rank", "switch", "disagree")


def tensor_of(step, rank, place, members):
    """What the rank gives."""
    count = elements(step, members)
    values = [given_value(step, rank, place, i) for i in range(count)]
    made = torch.tensor(values, dtype=torch.float64).to(getattr(torch, step.dtype))
    if not step.strided:
        return made
    wide = torch.zeros(2 * count, dtype=made.dtype)
    wide[::2] = made
    return wide[::2]


def zeros(step, count):
    """Where a result comes to."""
    return torch.zeros(count, dtype=getattr(torch, step.dtype))


class Torch:
    """The operations of a process group.  Each gives (works, tensors of the result)."""

    def __init__(self, groups, rank, size):
        self.groups, self.rank, self.size = groups, rank, size
        self.value = 0.0  # what the rank gives where that is one number

    def members(self, step):
        return 2 if step.group == "pair" else self.size

    def start(self, step, place):
        """Begin the step."""
        group, late = self.groups[step.group], step.style != "blocking"
        given = tensor_of(step, self.rank, place, self.members(step))
        self.value = float(given_value(step, self.rank, place, 0))
        return getattr(self, step.kind)(step, given, group, late)

    def all_reduce(self, step, given, group, late):
        return [dist.all_reduce(given, reduction(step), group, late)], [given]

    def reduce(self, step, given, group, late):
        works = [dist.reduce(given, step.root, reduction(step), group, late)]
        return works, [given] if self.rank == step.root else []

    def broadcast(self, step, given, group, late):
        return [dist.broadcast(given, step.root, group, late)], [given]

    def all_gather(self, step, given, group, late):
        into = [zeros(step, step.count) for _ in range(self.members(step))]
        return [dist.all_gather(into, given, group, late)], into

    def reduce_scatter(self, step, given, group, late):
        into, parts = zeros(step, step.count), list(given.chunk(self.members(step)))
        return [dist.reduce_scatter(into, parts, reduction(step), group, late)], [into]

    def barrier(self, _step, _given, group, late):
        return [dist.barrier(group, late)], []

    def gather(self, step, given, group, late):
        into = [zeros(step, step.count) for _ in range(self.members(step))]
        into = into if self.rank == step.root else None
        return [dist.gather(given, into, step.root, group, late)], into or []

    def scatter(self, step, given, group, late):
        into, parts = zeros(step, step.count), list(given.chunk(self.members(step)))
        parts = parts if self.rank == step.root else None
        return [dist.scatter(into, parts, step.root, group, late)], [into]

    def all_to_all(self, step, given, group, late):
        into = zeros(step, step.count * self.members(step))
        return [dist.all_to_all_single(into, given, group=group, async_op=late)], [into]

    def coalesced(self, step, given, group, late):
        pieces = [given[: step.cut()].clone(), given[step.cut() :].clone()]
        return [dist.all_reduce_coalesced(pieces, reduction(step), group, late)], pieces

    def sparse(self, step, _given, group, late):
        """A diagonal that has one element of each rank."""
        size = self.members(step)
        value = torch.zeros(size)
        value[self.rank] = self.value
        made = torch.diag(value).to_sparse()
        work = dist.all_reduce(made, group=group, async_op=late)
        return [work], [lambda: made.to_dense().diagonal()]

    def objects(self, step, _given, group, _late):
        """As a program gathers them."""
        found = [None] * self.members(step)
        dist.all_gather_object(found, [self.value, "x" * step.count], group)
        return [None], [torch.tensor([one[0] for one in found])]


def reduction(step):
    return getattr(dist.ReduceOp, step.op.upper())


class Library:
    """The same of the library itself, through its C interface."""

    def __init__(self, comm):
        self.comm = comm

    def start(self, step, place):
        """Begin the step."""
        comm, size = self.comm, self.comm.size
        given = tensor_of(step, comm.rank, place, size).contiguous()
        into, found = zeros(step, step.count), [given]
        if step.kind == "all_reduce":
            op = comm.allreduce_start(given, step.op)
        elif step.kind == "reduce":
            op = comm.reduce_start(given, step.op, step.root)
            found = [given] if comm.rank == step.root else []
        elif step.kind == "broadcast":
            op = comm.broadcast_start(given, step.root)
        elif step.kind == "all_gather":
            found = [zeros(step, step.count * size)]
            op = comm.allgather_start(given, found[0])
        elif step.kind == "reduce_scatter":
            found = [into]
            op = comm.reduce_scatter_start(given, into, step.op)
        else:
            op, found = comm.barrier_start(), []
        if step.style == "blocking":
            op.wait()
        return [op], found


def outcome(program, rank, at, tensors):
    """What there is to say of an operation that has ended well: "right", or what is wrong."""
    step = program.steps[rank][at]
    if not program.is_agreed(rank, at):
        partners = [found and found[0] for found in program.partners(rank, at)]
        return f"{step} ended well, though ranks ask for {partners}"
    got = [one() if callable(one) else one for one in tensors]
    wanted = torch.tensor(program.expected(rank, at), dtype=torch.float64)
    found = torch.cat([one.reshape(-1).double() for one in got] or [torch.zeros(0).double()])
    if step.dtype in ("int8", "uint8") and step.kind not in ("sparse", "objects"):
        found, wanted = found % 256, wanted % 256  # they wrap
    elif step.dtype == "bool" and step.kind not in ("sparse", "objects"):
        found, wanted = found != 0, wanted != 0  # two are 2 in PyTorch 1.13, 1 in 2.14
    elif step.dtype == "float16":
        wanted = wanted.half().double()  # where products have no place
    rounds = step.kind in REDUCED and step.op in ("avg", "product")
    if found.shape == wanted.shape and torch.allclose(
        found.double(), wanted.double(), rtol=ROUNDED if rounds else 0
    ):
        return "right"
    return f"{step} gave {found[:6].tolist()}, expected {wanted[:6].tolist()}"


def ended(program, rank, at, error):
    """What there is to say of an operation that has failed."""
    if str(error).strip() and (
        program.is_agreed(rank, at) or any(one in str(error) for one in CAUSES)
    ):
        return f"error {type(error).__name__}"
    return f"{program.steps[rank][at]} failed without a cause: {error!r}"


def run(program, rank, api):
    """Do the rank's steps: what each came to."""
    found, started = {}, []

    def tried(at, call):
        began = time.monotonic()
        try:
            works, tensors = call()
            if program.steps[rank][at].style == "blocking":
                found[at] = outcome(program, rank, at, tensors)
            elif program.steps[rank][at].style == "async":
                started.append((at, works, tensors))
            else:
                found[at] = "dropped"
        except (RuntimeError, ValueError) as error:
            found[at] = ended(program, rank, at, error)
        took = time.monotonic() - began
        if took > LATE_S:
            found[at] = f"{program.steps[rank][at]} took {took:.0f} s"

    for at, step in enumerate(program.steps[rank]):
        tried(at, lambda step=step, at=at: api.start(step, at))
    random.Random(f"{program.seed} {rank}").shuffle(started)
    for at, works, tensors in started:
        began = time.monotonic()
        try:
            for work in works:
                if work is not None:
                    work.wait()
            found[at] = outcome(program, rank, at, tensors)
        except (RuntimeError, ValueError) as error:
            found[at] = ended(program, rank, at, error)
        if time.monotonic() - began > LATE_S:
            found[at] = f"{program.steps[rank][at]} took {time.monotonic() - began:.0f} s"
    return [found[at] for at in range(len(program.steps[rank]))]


def joined(groups):
    """Have all of them join."""
    for group in groups.values():
        if hasattr(group, "membership"):
            group.membership.is_wanted()


def programs(seeds):
    """All of these, one after the other."""
    rank, size = dist.get_rank(), dist.get_world_size()
    meeting = dist.new_group(backend="gloo", timeout=MEET)
    totals, wrong = {}, []
    for seed in seeds:
        program = Program(seed)
        comm = None
        print(f"program {seed}", file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        groups = {"all": dist.new_group(timeout=MEET), "pair": dist.new_group([0, 1], timeout=MEET)}
        dist.barrier(meeting)  # ranks may take longer than a join to leave what was before
        try:
            if program.library:
                comm = dist.group.WORLD.membership.communicator.group(f"p{seed}", list(range(size)))
            if seed % 3:  # in a third of programs ranks disagree while they join, too
                joined(groups)
        except fanin.JoinTimeoutError as error:  # a rank had no processor for so long
            totals["join late"] = totals.get("join late", 0) + 1
            print(f"program {seed}: {error}", file=sys.stderr, flush=True)
        dist.barrier(meeting)
        api = Library(comm) if comm is not None else Torch(groups, rank, size)
        found = run(program, rank, api) if comm is not None or not program.library else []
        for at, one in enumerate(found):
            good = one in ("right", "dropped") or one.startswith("error ")
            totals["steps"] = totals.get("steps", 0) + 1
            totals[one if good else "wrong"] = totals.get(one if good else "wrong", 0) + 1
            if not good:
                wrong.append(f"seed {seed}, rank {rank}, step {at}: {one}")
        faulthandler.cancel_dump_traceback_later()
        totals["programs"] = totals.get("programs", 0) + (rank == 0)
        dist.barrier(meeting)
        if comm is not None:
            comm.close()
        for group in groups.values():
            if hasattr(group, "close"):
                group.close()
    return {"totals": totals, "wrong": wrong}


if __name__ == "__main__":
    faulthandler.enable()
    dist.init_process_group("fanin")
    print(json.dumps(programs(**json.loads(sys.argv[2]))), flush=True)
    os._exit(0)
