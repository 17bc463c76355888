#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank that makes many groups of all ranks and sums once in each, with the library or with
PyTorch.  Writes what a group took as JSON."""

import argparse
import array
import json
import re
import sys
import time


def private_bytes():
    """This process's memory, and its part of what it shares."""
    with open("/proc/self/smaps_rollup") as file:
        return 1024 * int(re.search(r"^Pss:\s+(\d+) kB$", file.read(), re.M).group(1))


class Library:
    """Groups of a communicator."""

    def __init__(self):
        import fanin

        self.comm = fanin.Communicator()
        self.size = self.comm.size

    def barrier(self):
        self.comm.barrier()

    def make(self, number):
        return self.comm.group("g%d" % number, range(self.size))

    def sum(self, group):
        one = array.array("f", [1.0] * 256)
        group.allreduce(one)
        return one[0]

    def close(self, groups):
        for group in groups:
            group.close()
        self.comm.close()


class Torch:
    """Groups of torch.distributed."""

    def __init__(self, backend):
        import torch
        import torch.distributed as dist

        import fanin.torch

        self.torch, self.dist = torch, dist
        dist.init_process_group(backend)
        self.size = dist.get_world_size()

    def barrier(self):
        self.dist.barrier()

    def make(self, number):
        del number
        return self.dist.new_group()

    def sum(self, group):
        one = self.torch.ones(256)
        self.dist.all_reduce(one, group=group)
        return float(one[0])

    def close(self, groups):
        del groups


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--backend", default="fanin")
    parser.add_argument("--groups", type=int, default=100)
    args = parser.parse_args()
    system = Torch(args.backend) if args.torch else Library()
    system.sum(system.make(-1))  # what the first one alone takes
    system.barrier()
    groups, before = [], private_bytes()
    begun = time.perf_counter()
    for number in range(args.groups):
        groups.append(system.make(number))
    made = time.perf_counter()
    for group in groups:
        if system.sum(group) != system.size:
            sys.exit("WRONG SUM")
    used = time.perf_counter()
    system.barrier()
    kept = private_bytes() - before
    print(
        json.dumps(
            {
                "make_ms": 1e3 * (made - begun) / args.groups,
                "first_sum_ms": 1e3 * (used - made) / args.groups,
                "bytes": kept / args.groups,
            }
        ),
        flush=True,
    )
    system.barrier()
    system.close(groups)


if __name__ == "__main__":
    main()
