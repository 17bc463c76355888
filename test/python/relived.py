# SPDX-License-Identifier: Apache-2.0
"""A rank of a life of a job whose store outlives it, as agents of torchrun keep one from PyTorch 2.6 on:
relived.py PORT LIFE, the rank in the environment.  Sums through fanin and through Gloo; what of this life is the store told."""

import datetime
import os
import sys

import torch
import torch.distributed as dist

import fanin.torch
from fanin import _libuv

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
port, life = (int(text) for text in sys.argv[1:])
store = _libuv.tcp_store("127.0.0.1", port, False, datetime.timedelta(seconds=60))
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
print(fanin.torch.summary(), flush=True)
os._exit(0)
