#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of local SGD: rounds in which the parameters of a large model are averaged by Gloo in
float32 and by fanin with bfloat16 on the wire, in turns.  Rank 0 prints the seconds of each."""

import argparse
import json
import statistics
import sys
import time

import torch
import torch.distributed as dist

import fanin

WORST = 0.01  # relative error of an average rounded to bfloat16, against the largest value


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--switch", required=True)
    parser.add_argument("--parameters", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    comm = fanin.Communicator(args.switch, "local-sgd", rank, size, wire="bfloat16", timeout=120)
    seconds = {"gloo": [], "fanin": []}

    def average(by, tensor):
        dist.barrier()
        begun = time.perf_counter()
        if by == "gloo":
            dist.all_reduce(tensor)
            tensor /= size
        else:
            comm.allreduce(tensor, "avg")
        return time.perf_counter() - begun

    for number in range(args.rounds):
        results = {}
        for by in seconds:
            torch.manual_seed(100 * number + rank)
            moved = torch.randn(args.parameters)  # how far this rank has moved
            seconds[by].append(average(by, moved))
            results[by] = moved
        error = (results["gloo"] - results["fanin"]).abs().max() / results["gloo"].abs().max()
        if not float(error) <= WORST:
            sys.exit("WRONG SUM: relative error %g" % float(error))
    if rank == 0:
        print(json.dumps({by: statistics.median(times) for by, times in seconds.items()}))
        sys.stdout.flush()
    dist.barrier()
    comm.close()


if __name__ == "__main__":
    main()
