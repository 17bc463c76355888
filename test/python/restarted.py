# SPDX-License-Identifier: Apache-2.0
"""Ranks under `torchrun --max_restarts`: rank 1 kills itself in its first life, and the group that
torchrun starts next sums on the same ports."""

import os
import signal

import torch
import torch.distributed as dist

import fanin.torch

dist.init_process_group("fanin")
again = os.environ["TORCHELASTIC_RESTART_COUNT"] == "1"
for step in range(20):
    if step == 10 and dist.get_rank() == 1 and not again:
        os.kill(os.getpid(), signal.SIGKILL)
    total = torch.ones(1000)
    dist.all_reduce(total)
    assert bool((total == dist.get_world_size()).all())
if again and dist.get_rank() == 0:
    print("restarted:", fanin.torch.summary(), flush=True)
os._exit(0)
