#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank that trains a wide model with DistributedDataParallel, its steps timed by how the
gradients travel: a group of fanin's backend, fanin's hook, Gloo (DDP's own), or not at all.  Rank 0
writes JSON.

All of them live in one process and take turns, so that a noisy neighbour hits them alike.  What
travelled is checked: the first step's gradients against a sum made by hand, and at the end that
all ranks hold the same parameters.
"""

import argparse
import hashlib
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import fanin.torch

WORST = 1e-5  # relative error of a float32 mean of few ranks
BATCH = 4


class Way:
    """A model of its own whose gradients travel in one way."""

    def __init__(self, name, args):
        self.name = name
        group = self.group = None
        if name == "backend":
            where = {"switch": args.switch, "job": name} if args.switch else {"job": name}
            options = fanin.torch.Options(communicator=where, use="learn")
            group = self.group = dist.new_group(backend="fanin", pg_options=options)
        self.ddp = DistributedDataParallel(
            model(args.width), process_group=group, bucket_cap_mb=args.bucket_mb
        )
        self.state = None
        if name.startswith("fanin"):
            options = {"wire": "bfloat16"} if name.endswith("bfloat16") else {}
            self.state = fanin.torch.HookState(switch=args.switch, job=name, **options)
            self.ddp.register_comm_hook(self.state, fanin.torch.allreduce_hook)
        elif name == "none":
            self.ddp.register_comm_hook(None, keep)
        self.optimizer = torch.optim.SGD(self.ddp.parameters(), lr=1e-3)
        self.seconds = []
        self.settled = 0

    @property
    def by_gloo(self):
        """Operations of the backend that went by Gloo so far."""
        return sum(self.group.fallbacks.values()) if self.group is not None else 0

    def step(self, seed):
        """One step on noise; its time from forward to the end of backward."""
        torch.manual_seed(1000 * dist.get_rank() + seed)
        batch = torch.randn(BATCH, self.ddp.module[0].in_features)
        self.optimizer.zero_grad(set_to_none=True)
        dist.barrier()
        begun = time.perf_counter()
        self.ddp(batch).square().mean().backward()
        self.seconds.append(time.perf_counter() - begun)
        self.optimizer.step()

    def check(self, width):
        """The gradients of a step against the mean of all ranks' own, which Gloo sums."""
        if self.name == "none":
            return
        loose = WORST if not self.name.endswith("bfloat16") else 0.02
        own = model(width)
        own.load_state_dict(self.ddp.module.state_dict())
        torch.manual_seed(dist.get_rank())
        batch = torch.randn(BATCH, width)
        own(batch).square().mean().backward()
        self.ddp(batch).square().mean().backward()
        for got, mine in zip(self.ddp.parameters(), own.parameters()):
            dist.all_reduce(mine.grad)
            expected = mine.grad / dist.get_world_size()
            error = float((got.grad - expected).abs().max() / expected.abs().max())
            if not error <= loose:
                sys.exit(f"{self.name}: WRONG SUM: relative error {error}")

    def same_everywhere(self):
        """Whether all ranks hold the same parameters, bit by bit."""
        data = b"".join(p.detach().numpy().tobytes() for p in self.ddp.parameters())
        hashes = [None] * dist.get_world_size()
        dist.all_gather_object(hashes, hashlib.sha256(data).hexdigest())
        return len(set(hashes)) == 1


def keep(_, bucket):
    """The hook that communicates nothing."""
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def model(width):
    """Three square layers: much to send, little to compute."""
    torch.manual_seed(7)
    return torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(3)])


def flags():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--switch", help="none: ranks meet at MASTER_ADDR")
    parser.add_argument("--ways", default="none,gloo,fanin", help="in the order of their turns")
    parser.add_argument("--width", type=int, default=1664, help="of the three layers")
    parser.add_argument("--bucket-mb", type=float, default=25)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="of each way in a round")
    parser.add_argument("--settle", type=int, default=0, help="steps of the backend before all")
    return parser.parse_args()


def main():
    args = flags()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ways = [Way(name, args) for name in args.ways.split(",")]
    for way in ways:
        way.check(args.width)
        way.step(0)
        for step in range(args.settle if way.name == "backend" else 0):
            way.step(step)
        way.seconds.clear()  # DDP makes its buckets anew after the first step
        way.settled = way.by_gloo
    for number in range(args.rounds):
        for way in ways:
            for step in range(args.steps):
                way.step(1 + number * args.steps + step)
    for way in ways:
        if way.name != "none" and not way.same_everywhere():
            sys.exit(f"{way.name}: ranks hold different parameters")
    if dist.get_rank() == 0:
        elems = sum(p.numel() for p in ways[0].ddp.parameters())
        answer = {"gradient_bytes": 4 * elems, "step_s": {}, "all_s": {}}
        for way in ways:
            answer["step_s"][way.name] = statistics.median(way.seconds)
            answer["all_s"][way.name] = way.seconds
            if way.name == "backend":
                answer["by_gloo"] = way.by_gloo - way.settled
        print(json.dumps(answer), flush=True)
    dist.barrier()
    for way in ways:
        if way.state is not None:
            way.state.close()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # PyTorch 1.13 can deadlock in taking down DDP and Gloo's threads
