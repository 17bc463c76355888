# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""Step times of every way of communication, in one run and in turns.

Each way trains a copy of the model, some steps at a time, so that what else the machine does
falls on all of them alike; who is first changes from turn to turn.  "none" is what a step takes
without communication, on the same number of cores.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch

from .comm import Comm, connect
from .data import Images, epoch_order, steps_per_epoch
from .options import Options
from .progress import say
from .ranks import World
from .report import StepTime, step_time
from .training import Learner

WARM_STEPS = 5  # of each way, not timed
TURN_STEPS = 10


@dataclass
class Way:
    """One way, and how it did."""

    learner: Learner
    times_s: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)


def _ways(options: Options, world: World, comm: Comm) -> dict[str, Way]:
    ways = {} if comm.name != "fanin" else {"fanin": Way(Learner(options, comm))}
    for name in ("gloo", "none"):
        ways[name] = Way(Learner(options, connect(name, world, options)))
    return ways


def _turn(way: Way, images: Images, rows: torch.Tensor, world: World) -> None:
    world.barrier()
    for index in rows:
        begin = time.perf_counter()
        loss = way.learner.step(*images.batch(index))
        way.times_s.append(time.perf_counter() - begin)
        way.losses.append(loss)


def compare(options: Options, world: World, comm: Comm, images: Images) -> dict[str, StepTime]:
    """Time options.compare steps of each way; every rank gets the same result."""
    ways = _ways(options, world, comm)
    if world.speaks:
        say(f"Timing {options.compare} steps each of {', '.join(ways)}, in turns")
    order = epoch_order(len(images), 0, options.seed, world.rank, world.size, options.batch)
    total = WARM_STEPS + options.compare
    rows = order[torch.arange(total) % steps_per_epoch(len(images), world.size, options.batch)]
    names = list(ways)
    for name in names:
        _turn(ways[name], images, rows[:WARM_STEPS], world)
    for turn, part in enumerate(rows[WARM_STEPS:].split(TURN_STEPS)):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            _turn(ways[name], images, part, world)
    world.barrier()
    return {name: step_time(world, way.times_s[WARM_STEPS:]) for name, way in ways.items()}
