# SPDX-License-Identifier: Apache-2.0
"""A rank of one of two launches of one job name, for test/net/launches.sh.

    launch_rank.py LAUNCH RANK RANKS SECONDS FOLDER [torch]     LAUNCH is added to each element

It sums until SECONDS after all ranks of both have come to their communicators, which a file of each
in FOLDER says, with its process id.  Then it prints "right", "wrong" (a sum was not of this launch)
or "error: TEXT".  A wrong sum with an error after it is "error": the program has been told.
"""

import array
import os
import sys
import time
from pathlib import Path

import fanin


class Clock:
    """When to end."""

    def __init__(self, folder, ranks, seconds):
        self.folder, self.ranks, self.seconds = folder, ranks, seconds
        self.end = None

    def come(self, launch, rank):
        (self.folder / f"{launch:.0f}.{rank}").write_text(str(os.getpid()), encoding="ascii")

    def is_over(self):
        if self.end is None and len(list(self.folder.iterdir())) >= 2 * self.ranks:
            self.end = time.monotonic() + self.seconds
        return self.end is not None and time.monotonic() > self.end


def by_library(launch, rank, ranks, clock):
    """Whether any sum was wrong."""
    wrong, want = False, sum(launch + r for r in range(ranks))
    clock.come(launch, rank)
    with fanin.Communicator(rank=rank, ranks=ranks, timeout=8) as communicator:
        while True:
            data = array.array("f", [launch + rank] * 999)
            data[0] = clock.is_over()  # all go on until it is over for all
            communicator.allreduce(data)
            wrong = wrong or any(x != want for x in data[1:])
            if data[0] >= ranks:
                return wrong
            time.sleep(0.002)


def by_torch(launch, rank, ranks, clock):
    """Whether any sum was wrong."""
    import torch  # pylint: disable=import-outside-toplevel
    import torch.distributed as dist  # pylint: disable=import-outside-toplevel

    import fanin.torch  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import

    wrong, want = False, sum(launch + r for r in range(ranks))
    clock.come(launch, rank)
    dist.init_process_group("fanin", rank=rank, world_size=ranks)
    while True:
        data = torch.full((999,), float(launch + rank))
        data[0] = float(clock.is_over())
        dist.all_reduce(data)
        wrong = wrong or bool((data[1:] != want).any())
        if data[0] >= ranks:
            break
        time.sleep(0.002)
    dist.destroy_process_group()
    return wrong


def main():
    launch, rank, ranks = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    clock = Clock(Path(sys.argv[5]), ranks, float(sys.argv[4]))
    run = by_torch if sys.argv[6:] == ["torch"] else by_library
    try:
        wrong = run(launch, rank, ranks, clock)
    except (RuntimeError, ValueError) as error:  # fanin's are these as well
        print(f"error: {str(error)[:300]}", flush=True)
    else:
        print("wrong" if wrong else "right", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
