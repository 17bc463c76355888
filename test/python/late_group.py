# SPDX-License-Identifier: Apache-2.0
"""A rank of a job whose default group is Gloo's and that makes one of fanin's, to which the last rank comes
late: late_group.py SECONDS, the rank in the environment."""

import os
import sys
import time

import torch
import torch.distributed as dist

import fanin.torch

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
if rank == size - 1:
    time.sleep(float(sys.argv[1]))
group = dist.new_group(backend="fanin")
dist.all_reduce(total := torch.full((5,), 2.0), group=group)
assert total.tolist() == [2.0 * size] * 5, total
print(fanin.torch.summary(group), flush=True)
dist.barrier()
os._exit(0)
