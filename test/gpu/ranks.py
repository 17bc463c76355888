# SPDX-License-Identifier: Apache-2.0
"""What one rank of tools/gpu-check does: `ranks.py PART ARGUMENTS-AS-JSON`, with the variables that
torch.distributed reads.

All ranks use one GPU.  What should come out is computed on the CPU, without communication, from what
all ranks give.
"""

import faulthandler
import json
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python"), str(HERE.parents[1] / "python")]

import lazy_streams
import streams
import torch
import torch.distributed as dist

import fanin
import fanin.torch
from fanin import _staging

TYPES = ["float64", "float32", "float16", "bfloat16", "int32", "int64"]
OPS = ["SUM", "AVG", "MIN", "MAX"]
SIZES = [1, 1000, (1 << 19) + 1, (5 << 19) + 77]  # elements: below a slice, about one, several
FAKE_SIZES = [1, 1000, 20000]
STEPS = 4
LIMIT = 1e-9  # of float64 elements, by the largest: a GPU adds in another order
calls = {"staged": 0, "library": 0}


# ---- where tensors lie ---------------------------------------------------------------


def counted(owner, name, what):
    """Count the calls of a method of a class."""
    inner = getattr(owner, name)

    def call(*arguments, **named):
        calls[what] += 1
        return inner(*arguments, **named)

    setattr(owner, name, call)


def prepare(fake, blind):
    """The device of tensors that are staged; without a GPU, the CPU's are."""
    counted(_staging.Stager, "start", "staged")
    for name in ("allreduce", "broadcast", "reduce", "reduce_scatter", "allgather"):
        counted(fanin.Communicator, f"{name}_start", "library")
    if not fake:
        torch.cuda.set_device(0)
        return torch.device("cuda", 0)
    eager = 0.0 if blind else 0.3
    kept = lazy_streams.Streams(
        dist.get_rank(), eager, [blind] if blind else [], at_once=["main", "ends"]
    )
    _staging.needed_for = lambda tensor: kept
    streams.set_slices(16384)
    return torch.device("cpu")


def summary():
    """What the group says of itself."""
    try:
        return fanin.torch.summary()
    except TypeError as error:
        return f"none: {error}"


def late(fake):
    """What the caller's stream does from now on happens late."""
    if not fake:
        torch.cuda._sleep(streams.DELAY_CYCLES)


# ---- collectives ---------------------------------------------------------------------


def given(rank, size, dtype, salt=0):
    """Small integers that differ by rank: exact in every type."""
    return ((torch.arange(size) * (7 + salt) + 3 * rank + salt) % 11 + rank).to(dtype)


def reduced(tensors, op):
    """As a reduction of all ranks' tensors should be.  AVG: of values whose sum is exact."""
    wide = torch.stack([one.to(torch.float64) for one in tensors])
    name = {"SUM": "sum", "AVG": "mean", "MIN": "amin", "MAX": "amax"}[op]
    return getattr(wide, name)(0).to(tensors[0].dtype)


def is_reduced(device, size, dtype, op, fake):
    """An all-reduce of what the caller's stream makes at the last moment."""
    ranks = dist.get_world_size()
    everyone = [given(rank, size, dtype) for rank in range(ranks)]
    mine = everyone[dist.get_rank()].to(device)
    late(fake)
    tensor = torch.full_like(mine, 100)
    tensor.copy_(mine)
    dist.all_reduce(tensor, getattr(dist.ReduceOp, op))
    return torch.equal(tensor.cpu(), reduced(everyone, op))


def shares_are_right(device, size):
    """A reduce-scatter and an all-gather."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    everyone = [given(one, size * ranks, torch.float32) for one in range(ranks)]
    share = torch.full((size,), -1.0, device=device)
    reduce_scatter = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base
    reduce_scatter(share, everyone[rank].to(device))
    whole = torch.full((size * ranks,), -1.0, device=device)
    all_gather = getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base
    all_gather(whole, share)
    total = reduced(everyone, "SUM")
    return torch.equal(share.cpu(), total.chunk(ranks)[rank]) and torch.equal(whole.cpu(), total)


def broadcast_and_reduce_are_right(device, size):
    """From and to another rank than 0; the tensors are not contiguous."""
    ranks, rank, root = dist.get_world_size(), dist.get_rank(), 1
    everyone = [given(one, 2 * size, torch.float32) for one in range(ranks)]
    tensor = everyone[rank].to(device, copy=True)[::2]
    dist.broadcast(tensor, root)
    right = torch.equal(tensor.cpu(), everyone[root][::2])
    tensor = everyone[rank].to(device, copy=True)[::2]
    dist.reduce(tensor, root)
    expected = reduced(everyone, "SUM")[::2]
    return right and (rank != root or torch.equal(tensor.cpu(), expected))


def many_at_once_are_right(device, size, fake):
    """Sums under way at a time, read on another stream, and by a callback."""
    ranks, rank, count = dist.get_world_size(), dist.get_rank(), 20
    everyone = [
        [given(one, size, torch.float32, salt) for one in range(ranks)] for salt in range(count)
    ]
    works, tensors, called = [], [], []
    for salt in range(count):
        late(fake)
        tensors.append(everyone[salt][rank].to(device, copy=True))
        works.append(dist.all_reduce(tensors[-1], async_op=True))
        future = works[-1].get_future()
        called.append(future.then(lambda done: 2 * done.value()[0]))
    side = None if fake else torch.cuda.Stream()
    right = True
    for salt, work in enumerate(works):
        expected = reduced(everyone[salt], "SUM")
        with torch.cuda.stream(side):
            work.wait()
            copy = tensors[salt].clone()
        right = right and torch.equal(called[salt].wait().cpu(), 2 * expected)
        if side is not None:
            side.synchronize()
        right = right and torch.equal(copy.cpu(), expected)
    return right


def staging(device, fake):
    """Every operation, type and kind of size, on tensors that are late."""
    wrong = []
    for size in FAKE_SIZES if fake else SIZES:
        for dtype in (getattr(torch, name) for name in TYPES):
            for op in OPS:
                is_int = not dtype.is_floating_point
                if not (op == "AVG" and is_int) and not is_reduced(device, size, dtype, op, fake):
                    wrong.append(f"all_reduce of {size} {dtype}, {op}")
        for name, call in {
            "reduce_scatter, all_gather": lambda: shares_are_right(device, size),
            "broadcast, reduce": lambda: broadcast_and_reduce_are_right(device, size),
            "many at once": lambda: many_at_once_are_right(device, min(size, 100000), fake),
        }.items():
            if not call():
                wrong.append(f"{name} of {size}")
    answer = {"wrong": wrong, "facts": {"summary": summary()}}
    if not fake:
        answer["figures"] = timed(device)
    return answer


def timed(device, mib=64, repeats=5):
    """An all-reduce of float32 elements, blocking."""
    tensor = torch.zeros(mib << 18, device=device)
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        dist.barrier()
        begun = time.perf_counter()
        dist.all_reduce(tensor)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return {f"all_reduce_{mib}_mib_ms": round(min(times) * 1e3, 2)}


# ---- training ------------------------------------------------------------------------


def model():
    """Some layers, the same on every rank."""
    torch.manual_seed(7)
    widths = [64, 512, 512, 10]
    layers = []
    for before, after in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(before, after), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers[:-1]).double()


def batch(step, ranks):
    """Inputs and what should come out, of all ranks."""
    made = torch.Generator().manual_seed(100 + step)
    inputs = torch.randn(8 * ranks, 64, generator=made, dtype=torch.float64)
    return inputs, torch.randn(8 * ranks, 10, generator=made, dtype=torch.float64)


def trained(net, device, rank, ranks, of):
    """After STEPS steps with part `rank` of `ranks` of each batch, which is of `of` ranks."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        inputs, targets = (one.chunk(ranks)[rank].to(device) for one in batch(step, of))
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(inputs), targets).backward()
        optimizer.step()
    return net


def compare(found):
    """Parameters with those of one process that trains on the CPU alone."""
    alone = model()
    untrained = {name: one.detach().clone() for name, one in alone.named_parameters()}
    trained(alone, torch.device("cpu"), 0, 1, dist.get_world_size())
    wrong, worst = [], 0.0
    for name, expected in alone.named_parameters():
        scale = expected.detach().abs().max().item()
        far = (found[name].detach().cpu() - expected.detach()).abs().max().item() / scale
        worst = max(worst, far)
        if not far <= LIMIT:
            wrong.append(f"{name} is off by {far:.1e} of the largest")
        if torch.equal(untrained[name], expected):
            wrong.append(f"{name} was not trained")
    if not calls["staged"]:
        wrong.append("nothing was staged")
    facts = {"staged": calls["staged"], "summary": summary()}
    return {"wrong": wrong, "figures": {"off_by": worst}, "facts": facts}


def ddp(device, fake):
    """DistributedDataParallel, in many buckets."""
    net = torch.nn.parallel.DistributedDataParallel(model().to(device), bucket_cap_mb=0.25)
    trained(net, device, dist.get_rank(), dist.get_world_size(), dist.get_world_size())
    return compare(dict(net.module.named_parameters()))


def fsdp2(device, fake):
    """fully_shard: each rank keeps a part of every parameter."""
    from torch.distributed.fsdp import fully_shard

    if fake and not hasattr(torch.cpu.Stream, "record_event"):
        return {"skipped": f"fully_shard of PyTorch {torch.__version__} needs streams of a GPU"}
    mesh = dist.device_mesh.init_device_mesh(device.type, (dist.get_world_size(),))
    net = model().to(device)
    for layer in net:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    trained(net, device, dist.get_rank(), dist.get_world_size(), dist.get_world_size())
    return compare({name: one.full_tensor() for name, one in net.named_parameters()})


def mixed(device, fake):
    """`cpu:gloo,cuda:fanin`: tensors of the CPU go through Gloo, those of a GPU through fanin."""
    wrong, ranks = [], dist.get_world_size()
    for where in [torch.device("cpu")] + [device] * (not fake):
        before = dict(calls)
        everyone = [given(rank, 100000, torch.float32) for rank in range(ranks)]
        tensor = everyone[dist.get_rank()].to(where, copy=True)
        dist.all_reduce(tensor)
        if not torch.equal(tensor.cpu(), reduced(everyone, "SUM")):
            wrong.append(f"all_reduce on {where}")
        for what in calls:
            if (calls[what] > before[what]) != (where.type == "cuda"):
                count = calls[what] - before[what]
                wrong.append(f"all_reduce on {where}: {count} calls of fanin's ({what})")
    if wrong or fake:
        return {"wrong": wrong, "facts": {"note": "of the CPU alone"}}
    return ddp(device, fake)


def nccl(device, fake):
    """`cpu:fanin,cuda:nccl` has both.  One rank: NCCL wants a GPU for each."""
    wrong, facts = [], {"nccl": ".".join(map(str, torch.cuda.nccl.version()))}
    for where, wanted in ((device, "ProcessGroupNCCL"), (torch.device("cpu"), "FaninGroup")):
        backend = type(dist.group.WORLD._get_backend(where)).__name__
        before = dict(calls)
        tensor = given(0, 100000, torch.float32).to(where)
        expected = tensor.clone()
        dist.all_reduce(tensor)
        if backend != wanted or not torch.equal(tensor, expected):
            wrong.append(f"all_reduce on {where}, by {backend}")
        if where.type == "cuda" and calls != before:
            wrong.append("fanin was called for tensors of the GPU")
    return {"wrong": wrong, "facts": facts}


# ---- one rank ------------------------------------------------------------------------


NEEDS = {"mixed": (2, 0), "nccl": (2, 0), "fsdp2": (2, 6)}  # versions of PyTorch
BACKENDS = {"mixed": "cpu:gloo,cuda:fanin", "nccl": "cpu:fanin,cuda:nccl"}


def run(part, fake=False, blind=""):
    """A part's answer."""
    version = tuple(int(one) for one in torch.__version__.split(".")[:2])
    if version < NEEDS.get(part, version):
        needed = ".".join(map(str, NEEDS[part]))
        return {"skipped": f"needs PyTorch {needed}, this is {torch.__version__}"}
    if part == "nccl" and fake:
        return {"skipped": "NCCL needs a GPU"}
    dist.init_process_group(BACKENDS.get(part, "fanin"))
    return globals()[part](prepare(fake, blind), fake)


def leave():
    """Rank 0, in whose process the switch is, goes last."""
    dist.barrier()
    gone = Path(os.environ["GONE"])
    if dist.get_rank():
        (gone / str(dist.get_rank())).touch()
        return
    until = time.monotonic() + streams.WAIT_S
    while len(list(gone.iterdir())) < dist.get_world_size() - 1 and time.monotonic() < until:
        time.sleep(0.01)


def main():
    faulthandler.enable()
    faulthandler.dump_traceback_later(streams.LIVES_S, exit=True)
    torch.set_num_threads(1)
    print(json.dumps(run(sys.argv[1], **json.loads(sys.argv[2]))), flush=True)
    if dist.is_initialized():
        leave()
    os._exit(0)


if __name__ == "__main__":
    main()
