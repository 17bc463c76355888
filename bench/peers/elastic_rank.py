#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank under `torchrun --max_restarts`: sums step after step, with a checkpoint of the step.  In the
first life rank 1 notes the time and kills itself; in the next one rank 0 notes the time at which the
first step has ended."""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist

import fanin.torch

STEPS, KILLED_AT = 40, 20


def main():
    folder = sys.argv[1]
    checkpoint = os.path.join(folder, "step")
    again = os.environ["TORCHELASTIC_RESTART_COUNT"] != "0"
    dist.init_process_group("fanin")
    first = 0
    if os.path.exists(checkpoint):
        with open(checkpoint) as file:
            first = int(file.read())
    for step in range(first, STEPS):
        if step == KILLED_AT and dist.get_rank() == 1 and not again:
            with open(os.path.join(folder, "killed"), "w") as file:
                file.write(repr(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        total = torch.ones(100000)
        dist.all_reduce(total)
        if not bool((total == dist.get_world_size()).all()):
            sys.exit("WRONG SUM")
        if dist.get_rank() == 0:
            if again and step == first:
                with open(os.path.join(folder, "next"), "w") as file:
                    file.write("%r %d" % (time.time(), step))
            with open(checkpoint + ".new", "w") as file:
                file.write(str(step + 1))
            os.replace(checkpoint + ".new", checkpoint)
    dist.barrier()
    if not fanin.torch.is_active():
        sys.exit("fanin is not active: %s" % fanin.torch.summary())


if __name__ == "__main__":
    main()
    os._exit(0)
