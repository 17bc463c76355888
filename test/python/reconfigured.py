# SPDX-License-Identifier: Apache-2.0
"""Ranks that leave their group and come back, by reconfigure(): reconfigured.py FOLDER PART.

PART "first": three ranks; the last one kills itself, and the two that are left go on alone, then with the
process of PART "again", which was in no group before.  FOLDER has each one's handle.
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
    for dtype in (torch.float32, torch.int8):
        total = torch.ones(3, dtype=dtype)
        dist.all_reduce(total)
        assert total.tolist() == [size] * 3, total
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
    say("again", dist.group.WORLD.get_reconfigure_handle())
    reconfigure(2, ["1", "0", "again"])
    os._exit(0)
dist.init_process_group("fanin", pg_options=fanin.torch.Options(communicator={"alive": 2}))
me = dist.get_rank()
say(str(me), dist.group.WORLD.get_reconfigure_handle())
dist.all_reduce(torch.ones(1))
if me == 2:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    dist.all_reduce(torch.ones(1))
    raise SystemExit("a sum without rank 2")
except fanin.FaninError as error:
    assert "rank 2" in str(error), error
reconfigure(1, ["0", "1"])
reconfigure(2, ["1", "0", "again"])
os._exit(0)
