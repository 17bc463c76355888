# SPDX-License-Identifier: Apache-2.0
"""Ranks under torchrun on hosts that come and go: elastic.py FOLDER STEPS [KILLS].

Sums and a message through Gloo in each step.  In each of the first KILLS lives rank 1 kills itself in
the middle; FOLDER has a file for each time.  Without KILLS, the job goes on until FOLDER/enough is there.
"""

import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import fanin.torch

folder, steps = Path(sys.argv[1]), int(sys.argv[2])
kills = int(sys.argv[3]) if len(sys.argv) > 3 else 0

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
    print(f"ended: life {life}, {fanin.torch.summary()}", flush=True)
os._exit(0)
