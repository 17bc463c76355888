# SPDX-License-Identifier: Apache-2.0
"""A rank under any launcher, with no option: it sums, and rank 0 says how."""

import os
import sys

import torch
import torch.distributed as dist

import fanin.torch

dist.init_process_group("fanin")
total = torch.full((50000,), float(dist.get_rank()))
dist.all_reduce(total)
size = dist.get_world_size()
assert bool((total == size * (size - 1) / 2).all())
dist.barrier()
if dist.get_rank() == 0:
    print("launched:", fanin.torch.summary())
sys.stdout.flush()
os._exit(0)
