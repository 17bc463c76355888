#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Local SGD: each rank trains by itself and all average their parameters now and then, for links that
are too slow for gradients.  A rank that dies does not end it: the others go on without it.

    torchrun --nnodes=4 --nproc_per_node=1 ... --no-python python3 examples/local_sgd.py

It needs no process group: ranks meet as their launcher says.  `--wire bfloat16` halves the bytes; the
average is then rounded to 8 bits of precision, so what travels is how far each rank has moved since
the last average.  Exit code 0: trained, and all ranks that are left hold the same parameters.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time

import torch
from text import Model, batch, load

import fanin


def flat(model: torch.nn.Module) -> torch.Tensor:
    """All parameters, one after the other."""
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def put(model: torch.nn.Module, values: torch.Tensor) -> None:
    """Set all parameters."""
    at = 0
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(values[at : at + p.numel()].view_as(p))
            at += p.numel()


class Averaging:
    """The common parameters, and the ranks that average them."""

    def __init__(self, comm: fanin.Communicator, model: torch.nn.Module, wait: float) -> None:
        self.comm = comm
        self.model = model
        self.wait = wait
        self.rounds = 0  # that have ended
        self.common = flat(model)  # the same on all ranks after as many rounds

    def average(self) -> None:
        """Add the mean of how far the ranks have moved; without those that are lost meanwhile."""
        moved = flat(self.model) - self.common
        shrunk = False
        while True:
            try:
                if shrunk and self._takes_over():
                    break
                self.common += self.comm.allreduce(moved.clone(), "avg")
                self.rounds += 1
                break
            except (fanin.RankLostError, fanin.RankLeftError, fanin.UnreachableError) as lost:
                self._shrink(lost)
                shrunk = True
        put(self.model, self.common)

    def _shrink(self, lost: fanin.FaninError) -> None:
        begun, failed = time.monotonic(), self.comm
        self.comm = failed.shrink(self.wait)
        failed.close()
        took = time.monotonic() - begun
        rank, size = self.comm.rank, self.comm.size
        print(f"{lost}; rank {rank} of {size} goes on after {took:.2f} s", flush=True)

    def _takes_over(self) -> bool:
        """A round may have ended on some ranks before it failed on this one, which then takes the
        parameters of one of these.  False: this rank is among the furthest."""
        furthest = self.comm.allreduce(torch.tensor([self.rounds]), "max").item()
        behind = self.rounds < furthest
        owner = self.comm.size if behind else self.comm.rank
        self.comm.broadcast(self.common, int(self.comm.allreduce(torch.tensor([owner]), "min")))
        self.rounds = int(furthest)
        return behind


def flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=20, help="of each rank between two averages")
    parser.add_argument("--batch", type=int, default=16, help="sequences of each rank")
    parser.add_argument("--wire", default="bfloat16", help="float32, float16 or bfloat16")
    parser.add_argument("--alive", type=float, default=5, help="seconds of silence: a rank is lost")
    parser.add_argument(
        "--wait", type=float, default=60, help="seconds, for ranks that are slower than others"
    )
    parser.add_argument(
        "--die", default="", metavar="RANK:ROUND", help="kill this rank in this round, to see it"
    )
    return parser.parse_args()


def main() -> int:
    args = flags()
    torch.set_num_threads(1)
    comm = fanin.Communicator(wire=args.wire, alive=args.alive)
    first = comm.rank
    characters, count = load()
    torch.manual_seed(1)
    model = Model(count)
    averaging = Averaging(comm, model, args.wait)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    own = torch.Generator().manual_seed(1000 + first)
    while averaging.rounds < args.rounds:
        for _ in range(args.steps):
            optimizer.zero_grad()
            loss = model(batch(characters, args.batch, own))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        if args.die == f"{first}:{averaging.rounds + 1}":
            os.kill(os.getpid(), signal.SIGKILL)
        averaging.average()
        if averaging.comm.rank == 0:
            print(
                f"round {averaging.rounds}: {loss.item():.3f} nats, {averaging.comm.size} ranks",
                flush=True,
            )
    comm = averaging.comm
    low, high = averaging.common.clone(), averaging.common.clone()
    same = bool(torch.equal(comm.allreduce(low, "min"), comm.allreduce(high, "max")))
    if comm.rank == 0:
        print("all ranks hold the same parameters" if same else "ranks differ", flush=True)
    comm.close()
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
