#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of two jobs without a named switch, as if each rank had a host of its own: one whose switch a
steward watches, and one without.  Blocking calls of each in turns; writes medians of each round, in
microseconds, as JSON."""

import argparse
import array
import contextlib
import json
import os
import statistics
import time

import fanin

NAME = "fanin-steward"
MARK = "BENCH_STEWARD"
TASK_COMM_BYTES = 15  # of a process's name, as the kernel keeps it


def of_this_run(pid):
    """Whether a process has the mark in its environment that bench/steward gives to a run."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        return f"{MARK}={os.environ[MARK]}".encode() in file.read().split(b"\0")


def stewards():
    """How many this run's ranks have."""
    found = 0
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended
            with open(f"/proc/{pid}/comm") as file:
                name = file.read().strip()
            found += name == NAME[:TASK_COMM_BYTES] and of_this_run(pid)
    return found


def joined(rank, ranks, port, steward):
    """A communicator whose switch is inside rank 0."""
    os.environ.update(MASTER_PORT=str(port), FANIN_STEWARD=steward)
    return fanin.Communicator(rank=rank, ranks=ranks, job=f"bench/steward{steward}")


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
    parser.add_argument("order", help="the job that is made first, and the other: with,without")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    args = parser.parse_args()
    jobs = {}
    for port, name in enumerate(args.order.split(","), args.port):
        jobs[name] = joined(args.rank, args.ranks, port, str(int(name == "with")))
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
    print(json.dumps({"times": answer, "stewards": stewards()}))
    jobs["with"].barrier()
    for comm in jobs.values():
        comm.close()


main()
