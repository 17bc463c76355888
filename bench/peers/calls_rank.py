#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank that calls all_reduce of torch.distributed on a small tensor, with a group of fanin and one of
Gloo in turns.  Writes medians of each round, in microseconds, as JSON."""

import argparse
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

import fanin.torch

AHEAD = 8  # operations that have been started before they are waited for


def blocking(group, tensor, count):
    """Of one all-reduce after the other."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        dist.all_reduce(tensor, group=group)
        taken.append(time.perf_counter() - began)
    return 1e6 * statistics.median(taken)


def starting(group, tensors, count):
    """Until all_reduce(async_op=True) returns."""
    taken = []
    for _ in range(max(count // len(tensors), 1)):
        works = []
        for tensor in tensors:
            began = time.perf_counter()
            works.append(dist.all_reduce(tensor, group=group, async_op=True))
            taken.append(time.perf_counter() - began)
        for work in works:
            work.wait()
    return 1e6 * statistics.median(taken)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--count", type=int, default=500)
    args = parser.parse_args()
    dist.init_process_group("fanin")
    groups = {"fanin": None, "gloo": dist.new_group(backend="gloo")}
    small, large = torch.zeros(1), [torch.zeros(65536) for _ in range(AHEAD)]
    answer = {name: {"blocking_us": [], "start_us": []} for name in groups}
    for number in range(args.rounds + 1):
        for name, group in groups.items():
            found = blocking(group, small, args.count), starting(group, large, args.count)
            if number:  # the first warms up
                answer[name]["blocking_us"].append(found[0])
                answer[name]["start_us"].append(found[1])
    dist.barrier()
    answer["active"], answer["torch"] = fanin.torch.is_active(), torch.__version__
    print(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)


main()
