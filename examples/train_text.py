#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train an LSTM with an embedding on the pages of doc/, data-parallel, with the backend "fanin".

    torchrun --standalone --nproc_per_node=2 examples/train_text.py

The only line that is fanin's is the one that names the backend.  Exit code 0: trained, and all ranks
hold the same parameters.
"""

from __future__ import annotations

import argparse
import os
import sys

import torch
import torch.distributed as dist
from text import Model, batch, load
from torch.nn.parallel import DistributedDataParallel

import fanin.torch


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--backend", default="fanin", help="fanin, or gloo to compare")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16, help="sequences of each rank")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(args.backend)
    rank = dist.get_rank()
    characters, count = load()
    torch.manual_seed(1)
    model = DistributedDataParallel(Model(count))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    own = torch.Generator().manual_seed(1000 + rank)
    for step in range(1, args.steps + 1):
        optimizer.zero_grad()
        loss = model(batch(characters, args.batch, own))
        loss.backward()
        optimizer.step()
        if step % 50 == 0 or step == args.steps:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if rank == 0:
                print(f"step {step}: {mean.item() / dist.get_world_size():.3f} nats", flush=True)
    own_sum = torch.stack([p.detach().double().sum() for p in model.parameters()])
    sums = [torch.zeros_like(own_sum) for _ in range(dist.get_world_size())]
    dist.all_gather(sums, own_sum)
    same = all(bool(torch.equal(one, own_sum)) for one in sums)
    if rank == 0 and args.backend == "fanin":
        print(fanin.torch.summary())
    if rank == 0 and not same:
        print("ranks hold different parameters", file=sys.stderr)
    return 0 if same else 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # PyTorch 1.13 can deadlock in taking down DDP and Gloo's threads
