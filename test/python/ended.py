# SPDX-License-Identifier: Apache-2.0
"""The ranks of one host that end right after a barrier, run after run.

    ended.py HOST HOSTS RANKS RUNS PORT WHAT END [lossy]

WHAT is `library`, or `both`: then every other run is one of torch.distributed.  END is `normal` (the
program returns, exits or raises) or `killed` (by os._exit or SIGKILL).

PyTorch is imported once; each run forks RANKS ranks of host HOST from here, as test/python/warm.py
does, and the other hosts fork theirs.  Run n meets at port PORT + n, so nothing else keeps the
hosts in step.  A rank says by a pipe, before it ends, that its barrier has ended, or with what
error.  Exit code 1 and a line for each rank with an error; with `lossy` only for an error that does
not name the first rank of a host, which has an aggregator in its process.
"""

import faulthandler
import os
import re
import signal
import sys
import time

RUN_LIMIT_S = 600

HOST, HOSTS, RANKS, RUNS, PORT = (int(word) for word in sys.argv[1:6])
WITH_BACKEND = sys.argv[6] == "both"
KILLED = sys.argv[7] == "killed"
LOSSY = sys.argv[8:] == ["lossy"]
FIRST = {host * RANKS for host in range(HOSTS)}  # of each host


def named(error):
    """The ranks that an error names: "rank 2", "ranks 0 and 3", "ranks 1-3"."""
    found = set()
    for numbers in re.findall(r"\branks? (\d[\d, and-]*)", error):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", numbers):
            found.update(range(int(first), int(last or first) + 1))
    return found


def rank_of(index):
    """Their world, as a launcher tells it."""
    return HOST * RANKS + index


def by_backend():
    """torch.distributed."""
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


def end_by_kill(_kept):
    """As the kernel ends a process that takes too much memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def end_by_return(_kept):
    """As a program that has come to its end, without closing anything."""


def end_by_exit(_kept):
    """The same from somewhere else."""
    sys.exit(3)


def end_by_error(_kept):
    """And with an exception that nobody catches."""
    raise RuntimeError("as the test wants it")


def end_unclosed(kept):
    """As a program in C that returns: the interpreter does not close the communicator."""
    if kept is not None:
        kept._finalize.detach()  # pylint: disable=protected-access


ENDS = (
    [lambda _kept: os._exit(0), end_by_kill]
    if KILLED
    else [end_by_return, end_unclosed, end_by_exit, end_by_error]
)


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
    if run % 7 == 5 and "ENDED_KEY" in os.environ:
        os.environ.update(FANIN_KEY_FILE=os.environ["ENDED_KEY"], FANIN_JOB=f"ended/{run}")
    kept = None
    try:
        if WITH_BACKEND and run % 2 == 0:
            by_backend()
        else:
            kept = by_communicator("sum" if run % 8 == 5 else "barrier")
    except Exception as error:  # pylint: disable=broad-exception-caught
        os.write(well, str(error).replace("\n", " ").encode())
        os._exit(1)
    os.write(well, b"y")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)  # what ends by an error says so
    ENDS[run // 2 % len(ENDS)](kept)


def one_run(run):
    """Rank and error of those of this host that were not well."""
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
        text = os.read(told, 4096).decode()
        if text != "y":
            bad.append((rank_of(index), text or "it said nothing"))
        os.close(told)
        os.waitpid(pid, 0)
    return bad


def main():
    """All runs."""
    import numpy  # noqa: F401
    import torch.distributed  # noqa: F401

    sys.stdout.flush()
    failed = nameless = 0
    longest_s = 0.0
    for run in range(RUNS):
        began = time.monotonic()
        bad = one_run(run)
        longest_s = max(longest_s, time.monotonic() - began)
        failed += bool(bad)
        for rank, error in bad:
            nameless += not FIRST & named(error)
            print(f"run {run}: rank {rank}: {error}", flush=True)
    print(
        f"ended: {RUNS} runs, {failed} failed, {nameless} errors without the rank of an aggregator, "
        f"the longest {longest_s:.1f} s",
        flush=True,
    )
    os._exit((nameless if LOSSY else failed) > 0)


if __name__ == "__main__":
    main()
