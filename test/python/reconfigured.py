# SPDX-License-Identifier: Apache-2.0
"""Ranks that leave their group and come back, by reconfigure() or shrink_group: reconfigured.py FOLDER PART.

PART "first": three ranks; the last one kills itself, and the two that are left go on alone, then with the
process of PART "again", which was in no group before.  FOLDER has each one's handle.
PART "shrink": of four ranks the last one kills itself, and the others go on by shrink_group, then without
rank 0, whose store that was; at last the store is gone.
"""

import contextlib
import datetime
import inspect
import os
import signal
import sys
import time
import types
from pathlib import Path

import torch
import torch.distributed as dist

import fanin.torch

with contextlib.suppress(ImportError):  # in PyTorch 2 DDP imports it, for longer than others wait
    import torch._dynamo

WAIT_S = 60
folder, part = Path(sys.argv[1]), sys.argv[2]


def handle_of(name):
    until = time.monotonic() + WAIT_S
    while not (folder / name).exists():
        assert time.monotonic() < until, name
        time.sleep(0.02)
    return (folder / name).read_text()


def say(name, text):
    (folder / f".{name}").write_text(text)
    (folder / f".{name}").rename(folder / name)


def is_said(state):
    """As torchft asks each backend, from PyTorch 2.7 on."""
    kinds, group = getattr(torch._C._distributed_c10d, "ErrorType", None), dist.group.WORLD
    for device in group._device_types if kinds else []:
        assert group._get_backend(device).get_error() == getattr(kinds, state), device


def reconfigure(uuid, names):
    handles = [handle_of(name) for name in names]
    opts = types.SimpleNamespace(
        uuid=uuid, handles=handles, timeout=datetime.timedelta(seconds=WAIT_S)
    )
    if hasattr(dist.distributed_c10d, "_reconfigure"):
        dist.distributed_c10d._reconfigure(uuid, handles, timeout=opts.timeout).wait()
    else:
        dist.group.WORLD.reconfigure(opts).wait()
    rank, size = dist.get_rank(), dist.get_world_size()
    assert (handles[rank], size) == (dist.group.WORLD.get_reconfigure_handle(), len(names))
    check(uuid)


def check(uuid):
    """The default group's operations, its parts, and C++ code that knows its size."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in (torch.float32, torch.int8):
        total = torch.ones(3, dtype=dtype)
        dist.all_reduce(total)
        assert total.tolist() == [size] * 3, total
    is_said("SUCCESS")
    own = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        total = torch.ones(1)
        dist.all_reduce(total, group=own)
        assert total.item() == 2
    ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
    ddp(torch.full((1, 1), float(rank + 1))).sum().backward()
    assert ddp.module.weight.grad.item() == (size + 1) / 2  # the mean: C++ code knows the size
    print(f"{uuid}: rank {rank} of {size}; {fanin.torch.summary()}", flush=True)


if part == "again":
    os.environ.update(RANK="0", WORLD_SIZE="1")
    later = "enable_reconfigure" in inspect.signature(dist.init_process_group).parameters
    options = {"enable_reconfigure": True} if later else {}
    dist.init_process_group("fanin", store=dist.HashStore(), rank=0, world_size=1, **options)
    if later:
        try:
            dist.all_reduce(torch.ones(1))
            raise SystemExit("a sum before reconfigure()")
        except fanin.FaninError as error:
            assert "before reconfigure()" in str(error), error
    own, late = dist.group.WORLD.get_reconfigure_handle(), datetime.timedelta(seconds=1)
    try:
        given = types.SimpleNamespace(uuid=0, handles=[own, own + ".nobody"], timeout=late)
        dist.group.WORLD.reconfigure(given)
        raise SystemExit("reconfigured with nobody")
    except fanin.FaninError as error:
        assert "rank 1" in str(error), error
    say("again", own)
    reconfigure(2, ["again", "0", "1"])
    os._exit(0)
dist.init_process_group("fanin", pg_options=fanin.torch.Options(communicator={"alive": 2}))
me = dist.get_rank()
if part == "shrink":
    dist.all_reduce(torch.ones(1))
    if me == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        dist.all_reduce(torch.ones(1))
        raise SystemExit("a sum without rank 3")
    except fanin.FaninError as error:
        assert "rank 3" in str(error), error
    for ranks, kind in (([me], RuntimeError), ([4], ValueError), ([3, 3], ValueError)):
        try:
            dist.shrink_group(ranks)
            raise SystemExit(f"shrunk by {ranks}")
        except kind as error:
            assert "exclude" in str(error), error
    assert dist.shrink_group([3]) is dist.group.WORLD and dist.get_world_size() == 3
    assert dist.get_rank() == me
    check("without 3")
    if me == 0:
        handle_of("1 is without")
        handle_of("2 is without")
        os._exit(0)
    dist.shrink_group([0], shrink_flags=1)
    assert (dist.get_rank(), dist.get_world_size()) == (me - 1, 2)
    check("without 0")
    say(f"{me} is without", "0")
    if me == 2:
        store, until = dist.distributed_c10d._world.pg_map[dist.group.WORLD][1], time.monotonic()
        with contextlib.suppress(RuntimeError):
            while time.monotonic() < until + WAIT_S:
                store.add("is it there", 0)
        try:
            dist.shrink_group([0])
            raise SystemExit("shrunk without a store")
        except RuntimeError as error:
            assert "is gone" in str(error), error
        print("no store", flush=True)
    os._exit(0)
say(str(me), dist.group.WORLD.get_reconfigure_handle())
dist.all_reduce(torch.ones(1))
if me == 2:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    dist.all_reduce(torch.ones(1))
    raise SystemExit("a sum without rank 2")
except fanin.FaninError as error:
    assert "rank 2" in str(error), error
is_said("COMM_ERROR")
reconfigure(1, ["0", "1"])
reconfigure(2, ["again", "0", "1"])
os._exit(0)
