#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of two jobs without a named switch, a sealed and an open one, as if each rank had a host of
its own.  Blocking calls of each in turns; writes medians of each round, in microseconds, as JSON."""

import argparse
import array
import json
import os
import statistics
import time

import fanin


def joined(rank, ranks, port, key_file):
    """A communicator whose switch is inside rank 0."""
    os.environ["MASTER_PORT"] = str(port)
    os.environ.pop("FANIN_KEY_FILE", None)
    if key_file:
        os.environ["FANIN_KEY_FILE"] = key_file
    return fanin.Communicator(rank=rank, ranks=ranks, job="bench/calls")


def timed(call, count):
    """The median of that many calls."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return 1e6 * statistics.median(taken)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rank", type=int)
    parser.add_argument("ranks", type=int)
    parser.add_argument("port", type=int)
    parser.add_argument("key_file")
    parser.add_argument("order", help="the job that is made first, and the other: sealed,open")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    args = parser.parse_args()
    jobs = {}
    for port, name in enumerate(args.order.split(","), args.port):
        jobs[name] = joined(args.rank, args.ranks, port, args.key_file if name == "sealed" else "")
    tensors = {"4 B": array.array("f", [0.0]), "1 KiB": array.array("f", [0.0] * 256)}
    answer = {name: {kind: [] for kind in [*tensors, "barrier"]} for name in jobs}
    for number in range(args.rounds + 1):
        for kind in [*tensors, "barrier"]:
            for name in list(jobs)[:: 1 if number % 2 else -1]:
                comm, tensor = jobs[name], tensors.get(kind)
                call = comm.barrier if tensor is None else lambda c=comm, t=tensor: c.allreduce(t)
                taken = timed(call, args.count)
                if number:  # the first warms up
                    answer[name][kind].append(taken)
    print(json.dumps(answer))
    for comm in jobs.values():
        comm.close()


main()
