# SPDX-License-Identifier: Apache-2.0
"""The ranks of one host that end right after a barrier, in all ways, run after run.

    ended.py HOST HOSTS RANKS RUNS PORT WHAT

WHAT is `library`, or `both`: then every other run is one of torch.distributed.

PyTorch is imported once; each run forks RANKS ranks of host HOST from here, as test/python/warm.py
does, and the other hosts fork theirs.  Run n meets at port PORT + n, so nothing else keeps the
hosts in step.  A rank is well when its barrier has ended without an error: it says so by a pipe
and ends at once.  Exit code 1 and a line for each rank that was not.
"""

import faulthandler
import os
import signal
import sys

RUN_LIMIT_S = 600

HOST, HOSTS, RANKS, RUNS, PORT = (int(word) for word in sys.argv[1:6])
WITH_BACKEND = sys.argv[6] == "both"


def rank_of(index):
    """Their world, as a launcher tells it."""
    return HOST * RANKS + index


def by_backend():
    """torch.distributed, whose programs leave by os._exit (test/python/launched.py)."""
    import torch
    import torch.distributed as dist

    import fanin.torch  # noqa: F401

    dist.init_process_group("fanin")
    total = torch.full((50000,), float(dist.get_rank()))
    dist.all_reduce(total)
    size = dist.get_world_size()
    assert bool((total == size * (size - 1) / 2).all())
    dist.barrier()


def by_communicator(last):
    """The library alone: less time between the last result and the end."""
    import numpy

    import fanin

    comm = fanin.Communicator()
    ones = numpy.ones(1000, dtype=numpy.float32)
    comm.allreduce(ones)
    assert (ones == comm.size).all()
    if last == "sum":
        comm.allreduce(ones[:1])
        assert ones[0] == comm.size**2
    else:
        comm.barrier()
    return comm


def end_by_kill():
    """As the kernel ends a process that takes too much memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def end_by_return():
    """As a program that has come to its end, without closing anything."""


def end_by_exit():
    """The same from somewhere else."""
    sys.exit(3)


def end_by_error():
    """And with an exception that nobody catches."""
    raise RuntimeError("as the test wants it")


ENDS = [
    lambda: os._exit(0),
    end_by_return,
    end_by_kill,
    lambda: os._exit(0),
    end_by_exit,
    end_by_error,
]


def one_rank(run, index, well):
    """In the child."""
    faulthandler.dump_traceback_later(RUN_LIMIT_S - 5, exit=True)
    os.environ.update(
        RANK=str(rank_of(index)),
        WORLD_SIZE=str(HOSTS * RANKS),
        LOCAL_RANK=str(index),
        LOCAL_WORLD_SIZE=str(RANKS),
        MASTER_PORT=str(PORT + run),
        FANIN_JOB=f"ended-{run}",
    )
    if run % 4 == 3:
        os.environ["FANIN_LOCAL"] = "0"
    if run % 7 == 5 and "ENDED_KEY" in os.environ:  # a sealed job, whose switches stewards run
        os.environ.update(FANIN_KEY_FILE=os.environ["ENDED_KEY"], FANIN_JOB=f"ended/{run}")
    if WITH_BACKEND and run % 2 == 0:
        by_backend()
        os.write(well, b"y")
        os._exit(0)
    kept = by_communicator("sum" if run % 8 == 5 else "barrier")
    os.write(well, b"y")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)  # what ends by an error says so
    ENDS[run // 2 % len(ENDS)]()
    del kept


def one_run(run):
    """The ranks of this host that were not well."""
    ranks = []
    for index in range(RANKS):
        told, well = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(told)
            one_rank(run, index, well)
            sys.exit()
        os.close(well)
        ranks.append((pid, told))
    bad = []
    for index, (pid, told) in enumerate(ranks):
        if os.read(told, 1) != b"y":
            bad.append(rank_of(index))
        os.close(told)
        os.waitpid(pid, 0)
    return bad


def main():
    """All runs; the count of those that went wrong here."""
    import numpy  # noqa: F401
    import torch.distributed  # noqa: F401

    sys.stdout.flush()
    failed = 0
    for run in range(RUNS):
        bad = one_run(run)
        failed += bool(bad)
        for rank in bad:
            print(f"run {run}: rank {rank} did not get past its barrier", flush=True)
    print(f"ended: {RUNS} runs, {failed} failed", flush=True)
    os._exit(failed > 0)


if __name__ == "__main__":
    main()
