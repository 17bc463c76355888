# SPDX-License-Identifier: Apache-2.0
"""Ranks that torch.multiprocessing.spawn starts, which tells them no launcher's variables: where they
meet follows from the store.  `spawned.py PORT`."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing

import fanin.torch

RANKS = 2


def work(rank, port):
    where = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("fanin", init_method=where, rank=rank, world_size=RANKS)
    total = torch.full((1000,), rank + 1.0)
    dist.all_reduce(total)
    assert torch.equal(total, torch.full((1000,), 3.0))
    assert fanin.torch.is_active()
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, (sys.argv[1],), nprocs=RANKS)
    print("spawned")
