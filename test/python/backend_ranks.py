# SPDX-License-Identifier: Apache-2.0
"""What one rank of a test of the backend does: `backend_ranks.py FUNCTION ARGUMENTS-AS-JSON`.

The default group is fanin's, and a group of Gloo's beside it says what should come out.
"""

import copy
import json
import os
import random
import signal
import sys

import torch
import torch.distributed as dist
from lazy_streams import Streams
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging import averagers
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch_ranks import fingerprint, model

import fanin
import fanin.torch
from fanin import _carried, _staging

REDUCED = ["SUM", "MIN", "MAX", "PRODUCT"]
TYPES = ["float32", "float64", "float16", "bfloat16", "int32", "int64", "int8", "uint8"]
TYPES += ["bool", "int16"]

# ---- calls as Gloo would answer them -------------------------------------------


def drawn(rng, shape, dtype, rank):
    """A tensor of small numbers that differ by rank, exact in every type; its layout differs, too."""
    layout = rng.choice(["plain", "transposed", "strided", "plain"])
    values = torch.tensor([rng.randint(0, 3) for _ in range(max(1, torch.Size(shape).numel()))])
    values = (values[: torch.Size(shape).numel()] + rank % 2).reshape(shape).to(dtype)
    if layout == "transposed" and len(shape) == 2:
        return values.t().contiguous().t()
    if layout == "strided" and shape:
        wide = torch.zeros(*shape[:-1], 2 * shape[-1], dtype=dtype)
        wide[..., ::2] = values
        return wide[..., ::2]
    return values


def call(name, tensor, group, op, root):
    """One collective; its results on this rank."""
    size, rank = dist.get_world_size(), dist.get_rank()
    if name == "all_reduce":
        dist.all_reduce(tensor, op, group=group)
    elif name == "reduce":
        dist.reduce(tensor, root, op, group=group)
        return [tensor] if rank == root else []
    elif name == "broadcast":
        dist.broadcast(tensor, root, group=group)
    elif name == "all_gather":
        gathered = [torch.zeros_like(tensor) for _ in range(size)]
        dist.all_gather(gathered, tensor, group=group)
        return gathered
    elif name == "coalesced":
        two = [tensor, (tensor + 1).to(tensor.dtype)]
        dist.all_reduce_coalesced(two, op, group=group)
        return two
    elif name == "async":
        other = tensor.clone()
        works = [dist.all_reduce(tensor, op, group=group, async_op=True)]
        works.append(dist.broadcast(other, root, group=group, async_op=True))
        works[1].wait()
        return [works[0].get_future().wait()[0], other]
    return [tensor]


def outcome(name, tensor, group, op, root):
    """The results, or the class of the error."""
    try:
        return call(name, tensor, group, op, root)
    except (RuntimeError, ValueError) as error:
        return "ValueError" if isinstance(error, ValueError) else "RuntimeError"


def random_calls(count, seed):
    """The same calls of both groups: how often their results are equal, and what differs.

    Gloo takes a tensor that is not contiguous for one that is, so it gets a contiguous copy; and it
    divides by zero where an empty tensor is gathered, so that is not asked of it.  Calls of types
    that it refuses are right when fanin refuses them as well, or equal sums of int64.
    """
    gloo = dist.new_group(backend="gloo")
    rng = random.Random(seed)
    own = random.Random(f"{seed} {dist.get_rank()}")
    size = dist.get_world_size()
    answer = {"same": 0, "refused": 0, "more": 0, "wrong": []}
    for number in range(count):
        name = rng.choice(["all_reduce", "reduce", "broadcast", "all_gather", "coalesced", "async"])
        dtype = getattr(torch, rng.choice(TYPES))
        op = getattr(dist.ReduceOp, rng.choice(REDUCED))
        root = rng.randrange(size)
        shape = [rng.choice([0, 1, 2, 7, 300]) for _ in range(rng.randrange(3))]
        tensor = drawn(own, shape, dtype, dist.get_rank())
        plain = tensor.clone(memory_format=torch.contiguous_format)
        wide = plain.to(torch.int64)
        got = outcome(name, tensor, None, op, root)
        empty = name == "all_gather" and not tensor.numel()
        expected = (
            [torch.zeros_like(plain)] * size if empty else outcome(name, plain, gloo, op, root)
        )
        kind = judge(got, expected, lambda: outcome(name, wide, gloo, op, root), dtype)
        if kind == "wrong":
            answer["wrong"].append([number, name, str(dtype), shape, str(got), str(expected)])
        else:
            answer[kind] += 1
    answer["ops"] = dist.group.WORLD.ops
    return answer


def judge(got, expected, in_int64, dtype):
    """How fanin's results compare with Gloo's."""
    if isinstance(expected, str):
        if isinstance(got, str):
            return "refused" if got == expected else "wrong"
        expected = [tensor.to(dtype) for tensor in in_int64()]
        return "more" if equal(got, expected) else "wrong"
    return "same" if equal(got, expected) else "wrong"


def equal(got, expected):
    return (
        not isinstance(got, str)
        and len(got) == len(expected)
        and all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(got, expected))
    )


# ---- what Gloo cannot do, and subsets --------------------------------------------


def more_calls():
    """Collectives of which Gloo has none, objects, subsets, point to point."""
    size, rank = dist.get_world_size(), dist.get_rank()
    everything = torch.arange(size * 3.0) * (rank + 1)
    total = sum(range(1, size + 1))
    scattered, gathered = torch.zeros(3), torch.zeros(size * 3)
    dist.reduce_scatter_tensor(scattered, everything)
    right = {
        "reduce_scatter": torch.equal(scattered, torch.arange(size * 3.0)[3 * rank :][:3] * total)
    }
    dist.all_gather_into_tensor(gathered, scattered)
    right["all_gather"] = torch.equal(gathered, torch.arange(size * 3.0) * total)
    if hasattr(dist, "gather_single"):
        into = torch.zeros(2, size, 3)[0] if rank == 1 else None
        dist.gather_single(scattered, into, 1)
        right["gather_single"] = into is None or torch.equal(into.reshape(-1), gathered)
    large = torch.zeros(size * 9000)
    dist.all_gather_into_tensor(large, torch.full((9000,), float(rank)))
    right["large"] = torch.equal(large, torch.arange(float(size)).repeat_interleave(9000))
    small = torch.zeros(3, dtype=torch.int8)
    dist.reduce_scatter(small, list(everything.to(torch.int8).chunk(size)))
    right["int8"] = torch.equal(small, scattered.to(torch.int8))
    mean = torch.full((5,), float(rank))
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    right["average"] = torch.equal(mean, torch.full((5,), (size - 1) / 2))
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    right["objects"] = objects == [{"rank": r} for r in range(size)]
    if rank == 0:
        dist.send(torch.ones(4), 1)
    if rank == 1:
        right["recv"] = dist.recv(into := torch.zeros(4)) == 0 and bool(into.all())
    right.update(subsets())
    dist.barrier()
    return {"right": right, "summary": fanin.torch.summary(), "active": fanin.torch.is_active()}


def subsets():
    """Groups of some of the ranks, several at a time."""
    size, rank = dist.get_world_size(), dist.get_rank()
    members = [[r for r in range(size) if r != left_out] for left_out in range(size)]
    groups = [dist.new_group(ranks) for ranks in members]
    sums = [torch.full((7,), float(rank)) for _ in groups]
    works = [
        dist.all_reduce(tensor, group=group, async_op=True)
        for tensor, group, ranks in zip(sums, groups, members)
        if rank in ranks
    ]
    for work in works:
        work.wait()
    total = float(sum(range(size)))
    expected = [total - out if out != rank else float(rank) for out in range(size)]
    return {"subsets": [tensor[0].item() for tensor in sums] == expected, **messages(groups)}


def messages(groups):
    """Rank 0 and rank 2 send to rank 1, each in a group with it, with one tag, in the order in which
    it does not take them; and Gloo has a group of its own for what is gathered."""
    rank, got, right = dist.get_rank(), torch.zeros(2), {}
    if rank != 1:
        dist.send(torch.full((2,), float(rank)), 1, groups[2 - rank], 7)
    else:
        source = dist.recv(got, None, groups[0], 7)
        right["any source"] = source == 2 and got.tolist() == [2.0, 2.0]
        right["source"] = dist.recv(got, 0, groups[2], 7) == 0 and got.tolist() == [0.0, 0.0]
    if rank != 2:
        gathered = [torch.zeros(1), torch.zeros(1)]
        dist.all_gather(gathered, torch.ones(1) * rank, group=groups[2])
        right["gathered"] = [one.item() for one in gathered] == [0.0, 1.0]
    return right


# ---- training ----------------------------------------------------------------------


class Partly(torch.nn.Module):
    """A model of which a step uses one branch, another one on each rank."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.branches = torch.nn.ModuleList([torch.nn.Linear(20, 5) for _ in range(4)])

    def forward(self, batch, branch):
        return self.branches[branch](batch)


def batch_of(step, wide=200):
    torch.manual_seed(1000 * dist.get_rank() + step)
    return torch.randn(8, wide)


def plain(group, hook=None, steps=4, module=None, **options):
    """DDP without a hook, or with one that PyTorch brings."""
    module = module or model()
    ddp = DistributedDataParallel(module, process_group=group, bucket_cap_mb=0.3, **options)
    if hook is not None:
        ddp.register_comm_hook(*hook(group))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    for step in range(steps):
        optimizer.zero_grad()
        ddp(batch_of(step)).square().mean().backward()
        optimizer.step()
    return ddp


def accumulated(group):
    """Two micro-batches a step, of which the last communicates, and two models at a time."""
    both = [DistributedDataParallel(model(), process_group=group) for _ in range(2)]
    for step in range(3):
        for number, ddp in enumerate(both):
            with ddp.no_sync():
                ddp(batch_of(step)).square().mean().backward()
            ddp(batch_of(step + 50 + number)).square().mean().backward()
            with torch.no_grad():
                for parameter in ddp.parameters():
                    parameter -= 0.02 * parameter.grad
                    parameter.grad = None
    return torch.nn.ModuleList(both)


def unused(group):
    """Parameters that have no gradient on some ranks."""
    ddp = DistributedDataParallel(Partly(), process_group=group, find_unused_parameters=True)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    for step in range(4):
        optimizer.zero_grad()
        ddp(batch_of(step, 20), (step + dist.get_rank()) % 3).square().mean().backward()
        optimizer.step()
    return ddp


def zero(group):
    """Each rank keeps a part of the optimizer's state and hands out its parameters."""
    ddp = DistributedDataParallel(model(), process_group=group)
    optimizer = ZeroRedundancyOptimizer(
        ddp.parameters(), torch.optim.Adam, process_group=group, lr=0.01
    )
    for step in range(3):
        optimizer.zero_grad()
        ddp(batch_of(step)).square().mean().backward()
        optimizer.step()
    return ddp


def local_sgd(group):
    """Steps on one's own, and the mean of the models from time to time."""
    ddp = DistributedDataParallel(model(), process_group=group)
    state = post_localSGD_hook.PostLocalSGDState(
        process_group=group,
        subgroup=None,
        start_localSGD_iter=2,
        post_local_gradient_allreduce=False,
    )
    ddp.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
    averager = averagers.PeriodicModelAverager(period=2, warmup_steps=2, process_group=group)
    optimizer = PostLocalSGDOptimizer(torch.optim.SGD(ddp.parameters(), lr=0.05), averager)
    for step in range(7):
        optimizer.zero_grad()
        ddp(batch_of(step)).square().mean().backward()
        optimizer.step()
    return ddp


def joined(group):
    """Ranks with different numbers of batches."""
    ddp = DistributedDataParallel(model(), process_group=group)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    with Join([ddp]):
        for step in range(2 + dist.get_rank()):
            optimizer.zero_grad()
            ddp(batch_of(step)).square().mean().backward()
            optimizer.step()
    return ddp


def power_sgd_hook(group):
    torch.manual_seed(11)
    state = powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=2, start_powerSGD_iter=2)
    return state, powerSGD_hook.powerSGD_hook


def power_sgd(group):
    """A hook whose callbacks start operations and wait for them.  With more than one bucket Gloo
    mixes them up."""
    torch.manual_seed(3)
    return plain(group, power_sgd_hook, module=torch.nn.Linear(200, 300))


def power_sgd_buckets():
    """The same with several buckets, twice."""
    one, other = (plain(dist.group.WORLD, power_sgd_hook) for _ in range(2))
    hashes = [None] * dist.get_world_size()
    dist.all_gather_object(hashes, fingerprint(one))
    return len(set(hashes)) == 1 and differ(one, other) <= 1e-4


def differ(one, other):
    """By how much, relative to the largest."""
    pairs = zip(one.parameters(), other.parameters())
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)


def bfloat16(group, bucket):
    """PyTorch's hook under another name: under its own, PyTorch 1.13 wants NCCL for it."""
    return default_hooks.bf16_compress_hook(group, bucket)


SCENES = {
    "plain": plain,
    "static": lambda group: plain(group, static_graph=True),
    "fp16": lambda group: plain(group, lambda g: (g, default_hooks.fp16_compress_hook)),
    "bf16": lambda group: plain(group, lambda g: (g, bfloat16)),
    "power_sgd": power_sgd,
    "accumulated": accumulated,
    "unused": unused,
    "zero": zero,
    "local_sgd": local_sgd,
    "joined": joined,
}
LOOSE = {"fp16": 2e-3, "bf16": 1e-2}  # of gradients in half precision


def scenes(names):
    """Each training with both groups: how far their parameters differ, relative to the largest."""
    gloo = dist.new_group(backend="gloo")
    answer = {}
    for name in names:
        mine = SCENES[name](dist.group.WORLD)
        # Gloo refuses bfloat16, and of Debian's 2.14 float16: the mean of float32 is what these hooks
        # stand for.
        other = SCENES["plain" if name in LOOSE else name](gloo)
        moved = fingerprint(mine) != fingerprint(model())
        answer[name] = moved and differ(mine, other) <= LOOSE.get(name, 1e-4)
    answer["power_sgd_buckets"] = power_sgd_buckets()
    return {"right": answer, "ops": dist.group.WORLD.ops, "fallbacks": dist.group.WORLD.fallbacks}


def fixed():
    """Sums in fixed mode: the same bits on every run."""
    return {"hash": fingerprint(plain(dist.group.WORLD)), "summary": fanin.torch.summary()}


class Noise(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.full((200,), index / 32)


def loader():
    """Workers of a DataLoader, which are children of fork(), beside sums under way."""
    ddp = DistributedDataParallel(model())
    batches = torch.utils.data.DataLoader(Noise(), batch_size=8, num_workers=2)
    for _ in range(2):
        for batch in batches:
            ddp(batch).square().mean().backward()
    total = torch.ones(3)
    dist.all_reduce(total)
    return {"steps": len(batches), "sum": total[0].item()}


# ---- tensors that are staged as those on a GPU are ---------------------------------


def staged(seed):
    """From now on all tensors; streams run by chance, each rank's differently."""
    streams = Streams(seed + dist.get_rank(), 0.3, at_once=["main", "ends"])
    _staging.needed_for = lambda tensor: streams
    _carried.SLICE_BYTES = 16384
    return streams


def staged_calls(count, seed):
    streams = staged(seed)
    return dict(random_calls(count, seed), pinned=streams.pinned_bytes)


def staged_scenes(names):
    streams = staged(1)
    return dict(scenes(names), pinned=streams.pinned_bytes)


# ---- failures --------------------------------------------------------------------


def killed():
    """Rank 1 kills itself; what the others see, in backward() and in a call."""
    ddp = DistributedDataParallel(model())
    answer = {}
    try:
        for step in range(1000):
            if step == 3 and dist.get_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            with fanin.torch.typed_errors():
                ddp(batch_of(step)).square().mean().backward()
    except fanin.FaninError as error:
        answer = {"raised": type(error).__name__, "text": str(error)}
    for name, tensors in {"again": torch.ones(3), "waited": torch.ones(1 << 16)}.items():
        try:
            dist.all_reduce(tensors)
        except fanin.FaninError as error:
            answer[name] = type(error).__name__
    answer["summary"] = fanin.torch.summary()
    return answer


def mismatch():
    """Ranks that reduce different numbers of elements."""
    try:
        dist.all_reduce(torch.ones(3 + dist.get_rank()))
    except fanin.MismatchError as error:
        return {"text": str(error)}
    return {}


def nan_refused():
    """Calls that read a NaN, and calls that only write over one, where PyTorch is told to look for them."""
    rank, size = dist.get_rank(), dist.get_world_size()

    def of(number):
        return torch.tensor([1.0, 0.0, number, 0.0])[::2]

    def read(number):
        into = [of(float("nan")) for _ in range(size)]
        yield "all_reduce", lambda: dist.all_reduce(of(number))
        yield "reduce", lambda: dist.reduce(of(number), 0)
        yield "all_gather", lambda: dist.all_gather(into, of(number))
        yield "reduce_scatter", lambda: dist.reduce_scatter(into[0], [of(number)] * size)
        yield "gather", lambda: dist.gather(of(number), into if rank == 0 else None)
        yield "all_to_all_single", lambda: dist.all_to_all_single(into[0], of(number))

    def refused(call):
        try:
            call()
        except RuntimeError as error:
            return "NaN found in input tensor" in str(error)
        return False

    answer = {name: refused(call) for name, call in read(float("nan"))}
    if rank == 0:
        answer["broadcast"] = refused(lambda: dist.broadcast(of(float("nan")), 0))
    written = of(2.0 if rank == 0 else float("nan"))
    dist.broadcast(written, 0)
    for _, call in read(2.0):
        call()
    answer["written"] = written.tolist() == [1.0, 2.0]
    return answer


def not_required():
    """No switch there, and that is allowed."""
    total = torch.ones(3)
    dist.all_reduce(total)
    return {"sum": total[0].item(), "active": fanin.torch.is_active()}


def main():
    torch.set_num_threads(1)
    arguments = json.loads(sys.argv[2])
    required = arguments.pop("required", True)
    options = arguments.pop("options", None)
    given = None
    if options is not None:
        given = fanin.torch.Options(required=required, communicator=options)
    dist.init_process_group("fanin", pg_options=given)
    print(json.dumps(globals()[sys.argv[1]](**arguments)), flush=True)
    if sys.argv[1] not in ("killed", "mismatch"):
        dist.barrier()
    # PyTorch 1.13 can deadlock when the last DDP object and Gloo's threads let go of tensors.
    os._exit(0)


if __name__ == "__main__":
    main()
