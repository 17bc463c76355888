#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fanin's reduce-scatter and all-gather: each by itself, and both at once.  Prints this rank's medians;
exits 1 when an element was wrong."""

import argparse
import json
import statistics
import sys
import time

import numpy

import fanin

KINDS = {
    "reduce_scatter_us": (True, False),
    "allgather_us": (False, True),
    "both_us": (True, True),
}


def inputs(rank, count):
    """Small whole numbers, whose sums are exact in any order (peer.h)."""
    return ((numpy.arange(count) * 7 + rank * 13) % 251).astype("float32")


class Sets:
    """The two, each with its tensors, and what should come out."""

    def __init__(self, comm, elems):
        self.comm, rank, size = comm, comm.rank, comm.size
        self.whole = inputs(rank, elems)
        self.own = inputs(rank, elems // size)
        self.share = numpy.empty(elems // size, "float32")
        self.gathered = numpy.empty(elems, "float32")
        total = sum(inputs(r, elems) for r in range(size))
        self.expected_share = total.reshape(size, -1)[rank]
        self.expected = numpy.concatenate([inputs(r, elems // size) for r in range(size)])
        self.wrong = 0

    def run(self, scatter, gather):
        """Seconds of a run."""
        self.share[:] = self.gathered[:] = -1
        self.comm.barrier()
        begun = time.perf_counter()
        started = []
        if scatter:
            started.append(self.comm.reduce_scatter_start(self.whole, self.share))
        if gather:
            started.append(self.comm.allgather_start(self.own, self.gathered))
        for one in started:
            one.wait()
        took = time.perf_counter() - begun
        self.comm.barrier()
        if scatter:
            self.wrong += int((self.share != self.expected_share).sum())
        if gather:
            self.wrong += int((self.gathered != self.expected).sum())
        return took


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--bytes", type=int, default=8 << 20, help="of the tensor of all ranks")
    parser.add_argument("--iters", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--only", choices=KINDS, help="one kind, to count its bytes")
    args = parser.parse_args()
    kinds = {kind: KINDS[kind] for kind in ([args.only] if args.only else KINDS)}
    times = {kind: [] for kind in kinds}
    with fanin.Communicator() as comm:
        sets = Sets(comm, args.bytes // 4)
        for number in range(args.warmup + args.iters):
            for kind, what in kinds.items():
                took = sets.run(*what)
                if number >= args.warmup:
                    times[kind].append(1e6 * took)
    answer = {kind: statistics.median(values) for kind, values in times.items()}
    print(json.dumps(dict(answer, wrong=sets.wrong)), flush=True)
    return 1 if sets.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
