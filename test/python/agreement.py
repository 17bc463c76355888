# SPDX-License-Identifier: Apache-2.0
"""Random programs of ranks that disagree, and the model that says what a right result is.

    agreement.py [--count N] [--seed S] [--at-once M]     runs N of them; needs BUILD, as the tests do

A program has steps for each rank: operations on a group, all of whose members do the same at first;
then ranks are made to differ.  A rank's k-th operation on a group may be added to the others' k-th
alone, and only if all agree about it; everything else has to be an error that names a cause.
"""

import argparse
import functools
import random
import sys
import time
from pathlib import Path

KINDS = ["all_reduce", "all_reduce", "all_reduce", "reduce", "broadcast", "broadcast", "all_gather"]
KINDS += ["all_gather", "reduce_scatter", "barrier", "gather", "scatter", "all_to_all", "coalesced"]
KINDS += ["sparse", "objects"]
OF_LIBRARY = ["all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "barrier"]
ROOTED = {"reduce", "broadcast", "gather", "scatter"}
REDUCED = {"all_reduce", "reduce", "reduce_scatter", "coalesced"}
TYPES = ["float32"] * 4 + [
    "float64",
    "float16",
    "bfloat16",
    "int32",
    "int64",
    "int8",
    "uint8",
    "bool",
]
SUMMED = ["float32", "float64", "float16", "bfloat16", "int32", "int64"]
OPS = ["sum", "sum", "sum", "min", "max", "avg", "product"]
COUNTS = [0, 1, 2, 5, 5, 7, 300, 5000]
STYLES = ["blocking"] * 4 + ["async", "async", "dropped"]
DIFFERENCES = [
    "count",
    "empty",
    "type",
    "op",
    "root",
    "kind",
    "group",
    "order",
    "less",
    "more",
    "none",
]
BATCH_S = 3600  # the longest that a batch may take
AFTER_S = 60  # the longest that ranks go on after one has ended with an error
BATCH = 20  # programs that processes run, one after the other, in groups of their own


class Step:
    """One operation of one rank."""

    def __init__(self, rng, kinds, types, groups, size):
        self.kind = rng.choice(kinds)
        self.dtype = rng.choice(types)
        self.count = rng.choice(COUNTS)
        self.op = rng.choice(OPS if types is not SUMMED else OPS[:-1])
        self.group = rng.choice(groups)
        self.root = rng.randrange(2 if self.group == "pair" else size)
        self.style = rng.choice(STYLES)
        self.strided = rng.random() < 0.1

    def copy(self):
        """Another one like it."""
        made = Step.__new__(Step)
        made.__dict__.update(self.__dict__)
        return made

    def asked(self):
        """What ranks must agree about."""
        kind = self.kind
        if kind == "barrier":
            return (kind,)
        if kind in ("sparse", "objects"):
            return (kind,)  # of any number of elements, or any size
        return (
            kind,
            self.dtype,
            self.count,
            self.op if kind in REDUCED else "",
            self.root if kind in ROOTED else self.cut() if kind == "coalesced" else -1,
        )

    def cut(self):
        """Where the second of two coalesced tensors begins."""
        return self.count * self.root // 4

    def __repr__(self):
        return f"{' '.join(map(str, self.asked()))} in {self.group}, {self.style}"


class Program:
    """The steps of each of `size` ranks, from a seed."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.seed = seed
        self.size = 2 + seed // BATCH % 3  # the same for a batch
        self.library = rng.random() < 0.2
        self._kinds = OF_LIBRARY if self.library else KINDS
        self._types = SUMMED if self.library else TYPES
        self._groups = ["all"] if self.library else ["all", "all", "all", "pair"]
        common = [self._step(rng) for _ in range(rng.randint(1, 5))]
        self.steps = [
            [step.copy() for step in common if step.group == "all" or rank < 2]
            for rank in range(self.size)
        ]
        self.differences = [rng.choice(DIFFERENCES) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
        for difference in self.differences:
            self._differ(rng, rng.choice(self.steps), difference)
        for rank, steps in enumerate(self.steps):
            for step in steps:
                step.group = step.group if rank < 2 else "all"
                step.root %= self.members(step.group)

    def _step(self, rng):
        return Step(rng, self._kinds, self._types, self._groups, self.size)

    def _differ(self, rng, steps, difference):
        """Change what one rank does."""
        if not steps or difference == "none":
            return
        at = rng.randrange(len(steps))
        step, other = steps[at], self._step(rng)
        if difference in ("count", "op", "root", "kind", "group"):
            setattr(step, difference, getattr(other, difference))
        elif difference == "type":
            step.dtype = other.dtype
        elif difference == "empty":
            step.count = 0
        elif difference == "order" and len(steps) > 1:
            other = rng.randrange(len(steps))
            steps[at], steps[other] = steps[other], steps[at]
        elif difference == "less":
            del steps[at]
        elif difference == "more":
            steps.insert(at, other)

    def members(self, group):
        """How many; ranks 0, 1, ..."""
        return 2 if group == "pair" else self.size

    def partners(self, rank, at):
        """The steps that belong to step `at` of `rank`: as (step, its place) by member, None where a
        member has no such step."""
        group = self.steps[rank][at].group
        number = sum(step.group == group for step in self.steps[rank][:at])
        found = []
        for steps in self.steps[: self.members(group)]:
            same = [(step, place) for place, step in enumerate(steps) if step.group == group]
            found.append(same[number] if number < len(same) else None)
        return found

    def is_agreed(self, rank, at):
        """Whether all members ask for the same."""
        found = self.partners(rank, at)
        return all(one is not None and one[0].asked() == found[0][0].asked() for one in found)

    def expected(self, rank, at):
        """The elements of the result of an operation that is agreed, in the order of tensors; []: the
        rank gets none."""
        step, places = self.steps[rank][at], [place for _, place in self.partners(rank, at)]
        members, count = len(places), step.count
        given = [
            [given_value(step, member, place, i) for i in range(elements(step, members))]
            for member, place in enumerate(places)
        ]
        if step.kind in ("barrier", "sparse", "objects"):
            return [] if step.kind == "barrier" else [value[0] for value in given]
        if step.kind in ROOTED - {"broadcast", "scatter"} and rank != step.root:
            return []
        if step.kind in ("broadcast", "scatter"):
            found = given[step.root]
            return found if step.kind == "broadcast" else found[rank * count : (rank + 1) * count]
        if step.kind in ("all_gather", "gather"):
            return [value for values in given for value in values]
        if step.kind == "all_to_all":
            return [
                value for values in given for value in values[rank * count : (rank + 1) * count]
            ]
        reduced = [reduce(step.op, column) for column in zip(*given)]
        return (
            reduced[rank * count : (rank + 1) * count] if step.kind == "reduce_scatter" else reduced
        )


def elements(step, members):
    """That a rank gives."""
    if step.kind in ("barrier", "sparse", "objects"):
        return step.kind != "barrier"
    if step.kind in ("reduce_scatter", "scatter", "all_to_all"):
        return step.count * members
    return step.count


def given_value(step, rank, place, i):
    """Element `i` of what a rank gives in the step at `place` of its own: small enough that half types add
    and float32 multiplies without rounding."""
    value = place + 1 + 10 * (rank + 1) + i % 3
    return value % 2 if step.dtype == "bool" and step.kind not in ("sparse", "objects") else value


def reduce(op, column):
    """Numbers of all ranks as one."""
    total = 1
    if op in ("min", "max"):
        return min(column) if op == "min" else max(column)
    if op == "product":
        for value in column:
            total *= value
        return total
    return sum(column) / (len(column) if op == "avg" else 1)


PLACES = [{}, {"FANIN_LOCAL": "0"}, {"FANIN_SWITCH": ""}]  # with the address of a switch


def run(first, count, at_once, tell=lambda text: None):
    """Run programs `first` to `first + count - 1`, some batches at a time: (counts by outcome, what is
    wrong).  `tell` hears how far it is."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
    import conftest  # sets variables, and needs pytest

    switch = conftest.Switch()
    totals, wrong, running = {}, [], []
    waiting = list(range(first - first % BATCH, first + count, BATCH))
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(begin(conftest, switch, waiting.pop(0), first, first + count))
            seed, processes = running.pop(0)
            all_end(processes)
            known = len(wrong)
            for rank, (status, answer, err) in enumerate(processes.wait()):
                if status or answer is None:
                    wrong.append(
                        f"programs from {seed}: rank {rank} ended with {status}: {err[-4000:]}"
                    )
                    continue
                wrong += answer["wrong"]
                for outcome, times in answer["totals"].items():
                    totals[outcome] = totals.get(outcome, 0) + times
            tell("\n".join([f"programs from {seed}", *wrong[known:]]))
    finally:
        switch.stop()
    return totals, wrong


def all_end(processes):
    """Wait for the ranks of a batch.  Those that wait for one that cannot come are ended."""
    until = time.monotonic() + BATCH_S
    while any(process.poll() is None for process, *_ in processes.ranks):
        if any(process.poll() for process, *_ in processes.ranks):
            until = min(until, time.monotonic() + AFTER_S)
        if time.monotonic() > until:
            for process, *_ in processes.ranks:
                process.kill()
        time.sleep(0.05)


def begin(conftest, switch, seed, first, end):
    """Processes for the batch that begins with `seed`."""
    place = dict(PLACES[seed // BATCH % len(PLACES)], FANIN_TIMEOUT_MS="2000")
    if "FANIN_SWITCH" in place:
        place.update(FANIN_SWITCH=switch.address, FANIN_JOB=f"agreement{seed}")
    seeds = [one for one in range(seed, seed + BATCH) if first <= one < end]
    size = Program(seed).size
    arguments = {"seeds": seeds}
    return seed, conftest.Processes(size, "programs", arguments, place, "agreement_ranks.py")


def told(totals, wrong):
    """The outcome in a few lines."""
    lines = [f"{totals.get('programs', 0)} programs of ranks, {totals.get('steps', 0)} operations:"]
    lines += [f"  {times:7} {name}" for name, times in sorted(totals.items())]
    return "\n".join(lines + [f"WRONG: {one}" for one in wrong])


def main():
    """As above; 1: something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1, help="the first program's")
    parser.add_argument("--at-once", type=int, default=6, help="batches of %d" % BATCH)
    parser.add_argument("--show", type=int, help="print the program of a seed")
    given = parser.parse_args()
    if given.show is not None:
        shown = Program(given.show)
        print(f"{shown.size} ranks, library: {shown.library}, {shown.differences}")
        for rank, steps in enumerate(shown.steps):
            print(f"rank {rank}:", *steps, sep="\n  ")
        return 0
    began = time.monotonic()
    totals, wrong = run(
        given.seed,
        given.count,
        given.at_once,
        functools.partial(print, flush=True, file=sys.stderr),
    )
    print(told(totals, wrong))
    print(f"{len(wrong)} wrong, {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
