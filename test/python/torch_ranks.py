# SPDX-License-Identifier: Apache-2.0
"""What one rank of a test of fanin.torch does: `torch_ranks.py FUNCTION ARGUMENTS-AS-JSON`.

Rank and size come from the environment.  The function's answer is printed as one line of JSON.
"""

import hashlib
import json
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import fanin
import fanin.torch

ALIVE_S = 5.0  # by the network that a rank is lost shows by silence; in shared memory nothing waits for it
TIMEOUT_S = 600  # far from what a silent rank or switch takes


def model(dtype=torch.float32):
    """Four layers, 3.4 MB of gradients in float32; DDP makes its first bucket 1 MiB."""
    torch.manual_seed(3)
    sizes = [200, 600, 600, 600, 10]
    layers = [torch.nn.Linear(wide, high) for wide, high in zip(sizes, sizes[1:])]
    return torch.nn.Sequential(*layers).to(dtype)


def fingerprint(module):
    """A hash of all parameters, bit by bit."""
    data = b"".join(
        p.detach().contiguous().view(torch.uint8).numpy().tobytes() for p in module.parameters()
    )
    return hashlib.sha256(data).hexdigest()


def train(ddp, steps, state=None, at_step=None, dtype=torch.float32):
    """`steps` of SGD on noise that differs by rank; the losses."""
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    losses = []
    for step in range(steps):
        if at_step is not None:
            at_step(step)
        torch.manual_seed(1000 * dist.get_rank() + step)
        batch = torch.randn(16, 200).to(dtype)
        optimizer.zero_grad()
        loss = (ddp(batch) - 1).square().mean()
        if state is None:
            loss.backward()
        else:
            with state.typed_errors():
                loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def hook(steps=8, bucket_mb=0.3, dtype="float32", comm="fanin", **options):
    """Train with the hook, or with Gloo, and tell how it went."""
    kind = getattr(torch, dtype)
    ddp = DistributedDataParallel(model(kind), bucket_cap_mb=bucket_mb)
    state = None
    if comm == "fanin":
        state = fanin.torch.HookState(**options)
        ddp.register_comm_hook(state, fanin.torch.allreduce_hook)
    answer = {"losses": train(ddp, steps, state, dtype=kind), "hash": fingerprint(ddp)}
    if state is not None:
        answer.update(
            active=state.active,
            reason=state.reason,
            buckets=state.buckets,
            bytes=state.bytes,
            fallbacks=state.fallbacks,
            summary=state.summary(),
        )
        dist.barrier()
        state.close()
        state.close()
    return answer


def gradients(average=True, **options):
    """One step by hand: the hook's gradient against the mean (sum) of all ranks' gradients."""
    ddp = DistributedDataParallel(model(), bucket_cap_mb=0.3)
    plain = model()
    state = fanin.torch.HookState(average=average, **options)
    ddp.register_comm_hook(state, fanin.torch.allreduce_hook)
    torch.manual_seed(dist.get_rank())
    batch = torch.randn(16, 200)
    ddp(batch).square().mean().backward()
    plain(batch).square().mean().backward()
    worst = 0.0
    for got, own in zip(ddp.parameters(), plain.parameters()):
        dist.all_reduce(own.grad)
        expected = own.grad / dist.get_world_size() if average else own.grad
        worst = max(worst, float((got.grad - expected).abs().max() / expected.abs().max()))
    state.close()
    return {"worst": worst}


class Bucket:
    """Stands for DDP's bucket where DDP itself would not make such a tensor."""

    def __init__(self, tensor):
        self.tensor = tensor

    def buffer(self):
        return self.tensor


def odd_tensors(**options):
    """Tensors that fanin cannot sum go to the process group; how often, and with what values."""
    state = fanin.torch.HookState(**options)
    rank = dist.get_rank()
    tensors = [
        torch.full((5,), rank + 1, dtype=torch.complex64),
        torch.full((5,), rank + 1, dtype=torch.complex64),
        torch.full((6, 4), rank + 1.0).t(),
        torch.eye(3).to_sparse() * (rank + 1.0),
        torch.zeros(0),
        torch.full((5,), rank + 1.0),
    ]
    results = [fanin.torch.allreduce_hook(state, Bucket(t)).wait() for t in tensors]
    values = [float(r.to_dense().real.max()) if r.numel() else None for r in results]
    state.close()
    return {"values": values, "fallbacks": state.fallbacks, "buckets": state.buckets}


def refunds(steps=40, **options):
    """Forty times a gradient of which 8 bits hold only the first element: the sum of all means."""
    state = fanin.torch.HookState(wire="int8", **options)
    bucket = Bucket(torch.zeros(1001))
    bucket.index, bucket.parameters = lambda: 0, lambda: [bucket.tensor]
    total = torch.zeros(1001)
    for _ in range(steps):
        bucket.tensor.fill_(0.1)
        bucket.tensor[::32] = 100
        total += fanin.torch.allreduce_hook(state, bucket).wait()
    state.close()
    return {"first": float(total[0]), "least": float(total.min()), "most": float(total[1:32].max())}


def half_tensors(**options):
    """The mean of half-precision buckets, which Gloo would refuse in part."""
    state = fanin.torch.HookState(**options)
    answer = {}
    for dtype in (torch.float16, torch.bfloat16):
        bucket = Bucket(torch.full((1001,), dist.get_rank() + 0.5, dtype=dtype))
        mean = fanin.torch.allreduce_hook(state, bucket).wait()
        answer[str(dtype)] = mean.dtype == dtype and bool((mean == 1).all())
    state.close()
    return {"right": answer, "fallbacks": state.fallbacks}


def killed(victim, at, alive=ALIVE_S, **options):
    """Rank `victim` kills itself in step `at`; what the others see."""
    ddp = DistributedDataParallel(model(), bucket_cap_mb=0.3)
    state = fanin.torch.HookState(alive=alive, timeout=TIMEOUT_S, **options)
    ddp.register_comm_hook(state, fanin.torch.allreduce_hook)

    def at_step(step):
        if step == at and dist.get_rank() == victim:
            os.kill(os.getpid(), signal.SIGKILL)

    return fails(ddp, state, at_step)


def fails(ddp, state, at_step):
    """Train until it fails; the failure as DDP's user sees it."""
    answer = {"raised": None}
    try:
        train(ddp, 10000, state, at_step)
    except fanin.FaninError as error:
        answer = {"raised": type(error).__name__, "text": str(error)}
        answer["cause"] = type(error.__cause__).__name__
        answer["summary"] = state.summary()
        again = "no error"
        try:
            fanin.torch.allreduce_hook(state, Bucket(torch.zeros(3)))
        except fanin.FaninError as later:
            again = type(later).__name__
        answer["again"] = again
    print(json.dumps(answer), flush=True)
    os._exit(0)  # the process group has lost a member: taking it down could wait for it


def not_required(**options):
    """No switch there, and that is allowed: all ranks train through the process group."""
    return hook(required=False, timeout=1, **options)


def one_rank_cannot(required, **options):
    """Rank 1 looks for the switch at a wrong place: all ranks must come to the same end."""
    if dist.get_rank() == 1:
        options["switch"] = "127.0.0.1:9"
    try:
        return hook(required=required, timeout=1, **options)
    except fanin.FaninError as error:
        return {"raised": type(error).__name__, "text": str(error)}


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    answer = globals()[sys.argv[1]](**json.loads(sys.argv[2]))
    dist.barrier()
    print(json.dumps(answer), flush=True)
    # PyTorch 1.13 can deadlock when the last DDP object and Gloo's threads let go of tensors.
    os._exit(0)


if __name__ == "__main__":
    main()
