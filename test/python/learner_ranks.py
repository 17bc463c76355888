# SPDX-License-Identifier: Apache-2.0
"""What one rank of a test of the two ways does: `learner_ranks.py FUNCTION ARGUMENTS-AS-JSON`.

Times decide nothing here: `judge` says what trials find.
"""

import datetime
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import types

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import fanin.torch
from fanin import _beside, _gloo, _group, _learner, _level, _membership, _store

SIZES = [1 << 16, 3 << 15, 1 << 16, 1 << 14]  # elements of the sums of a step
TYPES = [torch.float32, torch.float64, torch.int32, torch.int64]
STEPS_MAX = 2000
STUCK_S = 12  # longer than a process takes to end
AHEAD, AHEAD_S = 40, 30  # sums, and the longest that one waits
SLOW_S, CHILDREN_MAX = 0.5, 20  # of connecting, and of a process meanwhile


def judge(gloo_s):
    """Have trials find this for a step by Gloo, and a second for one by fanin."""
    steps = _learner.ROUNDS * _learner.TIMED
    _learner.times_of = lambda times, by_gloo: [gloo_s if by_gloo else 1.0] * steps


def group():
    """The default group, and what learns in it."""
    dist.init_process_group("fanin")
    return dist.group.WORLD


def learner():
    """Of the default group, once it has begun."""
    found = dist.group.WORLD._here().beside
    return found.learner if found is not None else None


def summed(number, elems, dtype, blocking):
    """One sum of known numbers; whether it is right on this rank."""
    rank, size = dist.get_rank(), dist.get_world_size()
    tensor = torch.arange(elems).remainder(13).add(number % 7 + rank).to(dtype)
    expected = torch.arange(elems).remainder(13).add(number % 7).mul(size) + size * (size - 1) // 2
    work = dist.all_reduce(tensor, async_op=not blocking)
    return lambda: (blocking or work.wait()) and torch.equal(tensor, expected.to(dtype))


def step(number):
    """A step of a program: some sums at a time, among others that are never tried."""
    dtype, blocking = TYPES[number % len(TYPES)], number % 3 == 0
    ends = [summed(number + n, elems, torch.float32, blocking) for n, elems in enumerate(SIZES)]
    ends.append(summed(number, 100, dtype, blocking))
    return all(end() for end in ends)


def steps(until):
    """Steps until all ranks see that; how many were right."""
    right = []
    while len(right) < STEPS_MAX and not until():
        right.append(step(len(right)))
    return right


def turns(_):
    """Sums go by Gloo once trials find it faster, and by fanin again."""
    world = group()
    judge(0.5)
    right = steps(lambda: learner().by_gloo)
    right += [step(n) for n in range(20)]
    text, taken = world.summary(), world.fallbacks[_beside.FASTER]
    judge(2.0)
    learner()._look = learner()._count  # the next trial
    right += steps(lambda: not learner().by_gloo)
    right += [step(n) for n in range(20)]
    return {
        "right": all(right),
        "steps": len(right),
        "summary": text,
        "taken": taken,
        "trials": learner().trials,
    }


def training(arguments):
    """Parameters after a training with DDP whose gradients go by Gloo in the end."""
    group()
    judge(0.5)
    torch.manual_seed(3)
    layers = [torch.nn.Linear(256, 256) for _ in range(3)]
    ddp = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.3)
    optimizer, count = torch.optim.SGD(ddp.parameters(), lr=1e-3), 0
    while count < STEPS_MAX and not (learner() and learner().by_gloo):
        optimizer.zero_grad()
        ddp(torch.randn(4, 256) + dist.get_rank()).square().mean().backward()
        optimizer.step()
        count += 1
    flat = torch.cat([one.detach().reshape(-1) for one in ddp.parameters()])
    found = [torch.zeros_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(found, flat)
    return {"same": all(torch.equal(one, flat) for one in found), "by_gloo": learner().by_gloo}


def apart(arguments):
    """One rank cannot be reached by TCP."""
    group()
    judge(0.5)
    if dist.get_rank() == arguments["rank"]:

        def refuse(*_, **__):
            raise RuntimeError("no way")

        _gloo.connect = refuse
    _gloo.TRY_S, _level.BESIDE_S = 1.0, 2.0
    right = steps(lambda: learner().off)
    right += [step(n) for n in range(20)]
    return {"right": all(right), "off": learner().off, "taken": dist.group.WORLD.fallbacks}


def ended(arguments):
    """How sums by Gloo end where one rank has ended, or wants another sum."""
    group()
    judge(0.5)
    steps(lambda: learner().by_gloo)
    if dist.get_rank() == 1 and arguments["how"] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    begun, elems = time.monotonic(), SIZES[0]
    if dist.get_rank() == 1:
        elems += 64
    try:
        dist.all_reduce(torch.ones(elems))
    except RuntimeError as error:
        return {"error": type(error).__name__, "text": str(error), "s": time.monotonic() - begun}
    return {"error": ""}


def ahead(_):
    """Rank 0 starts many sums, and only then lets rank 1 start its own."""
    dist.init_process_group("fanin", timeout=datetime.timedelta(seconds=AHEAD_S))
    judge(0.5)
    store, right = dist.distributed_c10d._get_default_store(), []
    for turn in range(3):
        if dist.get_rank():
            store.get(f"go {turn}")
        ends = [summed(turn, SIZES[0], torch.float32, blocking=False) for _ in range(AHEAD)]
        if dist.get_rank() == 0:
            store.set(f"go {turn}", "1")
        right += [end() for end in ends]
    return {"right": all(right), "asked": dist.group.WORLD._here().beside._questions > 0}


def coalesced(_):
    """A thread of rank 0 alone is where sums are coalesced, while others go on."""
    world = group()
    judge(0.5)
    if dist.get_rank() == 0:
        cpu = torch.device("cpu")
        thread = threading.Thread(target=world._start_coalescing, args=[cpu])
        thread.start()
        thread.join()
    right = steps(lambda: learner().by_gloo)
    return {"right": all(right), "by_gloo": learner().by_gloo}


def without_threads(_):
    """One rank can start no thread."""
    group()
    judge(0.5)
    if dist.get_rank():

        class Thread(threading.Thread):
            def start(self):
                raise RuntimeError("can't start new thread")

        _beside.threading = types.SimpleNamespace(
            Thread=Thread, Event=threading.Event, Lock=threading.Lock
        )
    right = steps(lambda: learner().off)
    return {"right": all(right), "off": learner().off}


def used(arguments):
    """What a group with these options learns."""
    try:
        dist.init_process_group("fanin", pg_options=fanin.torch.Options(**arguments["options"]))
    except ValueError as error:
        return {"error": str(error)}
    right = [step(n) for n in range(30)]
    return {"right": all(right), "learns": learner() is not None}


def stuck(arguments):
    """Rank 1 has stated a sum, and does not begin it while rank 0 ends."""
    world = group()
    judge(0.5)
    steps(lambda: learner().by_gloo)
    here = world._here()
    if dist.get_rank():
        before, begun = here.beside.gloo, threading.Event()
        here.beside.gloo = types.SimpleNamespace()
        if arguments["leaves"]:
            del before  # which ends its connections
        here.beside.gloo.allreduce = lambda *_: begun.set() or time.sleep(STUCK_S)
    work = dist.all_reduce(torch.ones(SIZES[0]), async_op=True)
    del work  # a program that does not wait for it
    if dist.get_rank():
        begun.wait()
        print(json.dumps({"left": []}), flush=True)
        time.sleep(STUCK_S)
        os._exit(0)
    time.sleep(1.0)
    world.close()
    return {"left": [one.name for one in threading.enumerate() if one.name == "fanin"]}


def refused(_):
    """Sums of rank 1 often start at the second try only."""
    group()
    judge(0.5)
    real, calls, failed = _group.FaninGroup._sum, [], []

    def fails(self, *arguments):
        calls.append(0)
        if len(calls) % 7 == 3:
            raise MemoryError
        return real(self, *arguments)

    if dist.get_rank():
        _group.FaninGroup._sum = fails

    def again(tensor, **arguments):
        try:
            return plain(tensor, **arguments)
        except MemoryError:
            failed.append(0)
            return plain(tensor, **arguments)

    plain, dist.all_reduce = dist.all_reduce, again
    right = steps(lambda: learner().by_gloo)
    right += [step(n) for n in range(20)]
    many = len(failed) > 10 if dist.get_rank() else not failed
    return {"right": all(right) and many, "by_gloo": learner().by_gloo}


def forks(_):
    """Children, as a DataLoader has them."""
    group()
    judge(0.5)
    connect, children = _gloo.connect, []

    def slowly(*arguments, **named):
        time.sleep(SLOW_S)
        found = connect(*arguments, **named)
        time.sleep(SLOW_S)
        return found

    _gloo.connect = slowly

    def until():
        if learner()._connecting and learner()._ways.connected() == _learner.PENDING:
            if len(children) < CHILDREN_MAX:
                children.append(multiprocessing.get_context("fork").Process(target=int))
                children[-1].start()
            time.sleep(SLOW_S / CHILDREN_MAX)
        return learner().by_gloo

    right = steps(until)
    for child in children:
        child.join()
    statuses = [child.exitcode for child in children]
    return {"right": all(right), "by_gloo": learner().by_gloo, "children": statuses}


def storeless(_):
    """Rank 1 hears of no answer by the store."""
    group()
    judge(0.5)
    if dist.get_rank() == 1:
        add = _store.PatientStore.add

        def fails(self, key, amount):
            if key.startswith("answer/"):
                raise RuntimeError("Connection reset by peer")
            return add(self, key, amount)

        _store.PatientStore.add = fails
    right = steps(lambda: learner().by_gloo)
    right += [step(n) for n in range(20)]
    return {"right": all(right), "by_gloo": learner().by_gloo}


def error_of(until):
    """What steps end with."""
    begun = time.monotonic()
    try:
        steps(until)
    except RuntimeError as error:
        return {"error": type(error).__name__, "text": str(error), "s": time.monotonic() - begun}
    return {"error": ""}


def first(arguments):
    """Rank 0 ends, or stands still, as it looks at an answer."""
    group()
    if dist.get_rank() == 0:
        _membership.Membership.first_said = lambda *_: os.kill(os.getpid(), arguments["how"])
    return error_of(lambda: False)


def in_gloo(what):
    """Have this rank do that in the place of a sum by Gloo of a trial."""
    connect = _gloo.connect

    def connected(*arguments, **named):
        found = connect(*arguments, **named)
        return types.SimpleNamespace(allreduce=what, kept=found)

    _gloo.connect = connected


def still(arguments):
    """A rank stands still in the first sum by Gloo."""
    dist.init_process_group("fanin", timeout=datetime.timedelta(seconds=arguments["timeout_s"]))
    if dist.get_rank() == arguments["rank"]:
        in_gloo(lambda *_: os.kill(os.getpid(), signal.SIGSTOP))
    return error_of(lambda: False)


def shrunk(arguments):
    """Rank 2 leaves in a trial, and the others go on."""
    group()
    judge(0.5)
    if dist.get_rank() == 2 and arguments["killed"]:
        in_gloo(lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    world, right = dist.group.WORLD, []
    try:
        right = steps(lambda: world.fallbacks.get(_beside.FASTER, 0) > 8)
    except fanin.FaninError as error:
        assert arguments["killed"] and "rank 2" in str(error), error
    if dist.get_rank() == 2:
        return {}
    before = learner()
    assert before._pattern
    dist.shrink_group([2])
    right += steps(lambda: learner() is not before and learner().by_gloo)
    right += [step(n) for n in range(20)]
    return {"right": all(right), "by_gloo": learner().by_gloo, "ranks": dist.get_world_size()}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](json.loads(sys.argv[2]))), flush=True)
