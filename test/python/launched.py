# SPDX-License-Identifier: Apache-2.0
"""Ranks as launchers start them, and what stands beside them.

    launched.py summed [METHOD]             a rank under any launcher, with no option: it sums, and rank 0 says how
    launched.py spawned PORT                ranks that torch.multiprocessing.spawn starts
    launched.py restarted                   ranks under `torchrun --max_restarts`
    launched.py elastic FOLDER STEPS [KILLS]    ranks under torchrun on hosts that come and go
    launched.py relived PORT LIFE           a rank of a job whose store outlives it
    launched.py store HOST PORT             the store that an agent of torchrun keeps
"""

import datetime
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing

import fanin.torch
from fanin import _libuv

WAIT = datetime.timedelta(seconds=60)
SPAWNED = 2  # ranks


def summed(method="env://"):
    """Sums by fanin and by Gloo; the summary of rank 0."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("fanin", init_method=method, rank=rank, world_size=size)
    for dtype in (torch.float32, torch.int8):
        total = torch.full((50000,), rank, dtype=dtype)
        dist.all_reduce(total)
        assert bool((total == size * (size - 1) // 2).all())
    dist.barrier()
    if dist.get_rank() == 0:
        print("launched:", fanin.torch.summary())


def spawned_rank(rank, port):
    """One rank, which no launcher's variables tell anything: where they meet follows from the store."""
    where = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("fanin", init_method=where, rank=rank, world_size=SPAWNED)
    total = torch.full((1000,), rank + 1.0)
    dist.all_reduce(total)
    assert torch.equal(total, torch.full((1000,), 3.0))
    assert fanin.torch.is_active()
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)


def spawned(port):
    """Ranks that torch.multiprocessing.spawn starts."""
    torch.multiprocessing.spawn(spawned_rank, (port,), nprocs=SPAWNED)
    print("spawned")


def restarted():
    """Rank 1 kills itself in its first life; the group that torchrun starts next sums on the same ports."""
    dist.init_process_group("fanin")
    again = os.environ["TORCHELASTIC_RESTART_COUNT"] == "1"
    for step in range(20):
        if step == 10 and dist.get_rank() == 1 and not again:
            os.kill(os.getpid(), signal.SIGKILL)
        total = torch.ones(1000)
        dist.all_reduce(total)
        assert bool((total == dist.get_world_size()).all())
    if again and dist.get_rank() == 0:
        print("restarted:", fanin.torch.summary())


def elastic(marks, steps, kills=0):
    """Sums and a message through Gloo in each step.  In each of the first `kills` lives rank 1 kills itself
    in the middle; `marks` has a file for each time.  Without kills the job goes on until marks/enough is there.
    """
    folder, steps, kills = Path(marks), int(steps), int(kills)
    dist.init_process_group("fanin")
    rank, size = dist.get_rank(), dist.get_world_size()
    life = len(list(folder.glob("killed.*")))
    enough = torch.zeros(1, dtype=torch.int32)
    step = 0
    while not enough.item():
        if step == steps // 2 and rank == 1 and life < kills:
            (folder / f"killed.{life}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        total = torch.ones(1000)
        dist.all_reduce(total)
        assert bool((total == size).all())
        by_gloo = torch.ones(5, dtype=torch.int8)
        dist.all_reduce(by_gloo)
        assert bool((by_gloo == size).all())
        if rank == 0:
            (folder / f"summed.{size}").touch()
        step += 1
        enough.fill_(int(rank == 0 and (step >= steps if kills else (folder / "enough").exists())))
        dist.all_reduce(enough)
        time.sleep(0 if kills else 0.05)
    if rank == 0:
        print(f"ended: life {life}, {fanin.torch.summary()}")


def relived(port, life):
    """The rank in the environment sums through fanin and through Gloo, and tells what the store knows of this
    life: agents of torchrun keep a store beyond a job's life from PyTorch 2.6 on."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    port, life = int(port), int(life)
    store = _libuv.tcp_store("127.0.0.1", port, False, WAIT)
    dist.init_process_group("fanin", store=store, rank=rank, world_size=size)
    for dtype in (torch.float32, torch.int8):
        total = torch.full((5,), life, dtype=dtype)
        dist.all_reduce(total)
        assert total.tolist() == [life * size] * 5, total
    pair = dist.new_group([0, 1])
    if rank < 2:
        total = torch.full((5,), life, dtype=torch.int8)
        dist.all_reduce(total, group=pair)
        assert total.tolist() == [2 * life] * 5, total
        if rank == 0:
            dist.send(torch.tensor([life]), 1, group=pair)
        else:
            dist.recv(into := torch.zeros(1, dtype=torch.int64), 0, group=pair)
            assert into.item() == life
    print(fanin.torch.summary())


def store(host, port):
    """Listens until it is ended."""
    kept = _libuv.tcp_store(host, int(port), True, WAIT)
    print("listens", flush=True)
    signal.pause()
    del kept


if __name__ == "__main__":
    programs = [summed, spawned, restarted, elastic, relived, store]
    {program.__name__: program for program in programs}[sys.argv[1]](*sys.argv[2:])
    sys.stdout.flush()
    os._exit(0)
