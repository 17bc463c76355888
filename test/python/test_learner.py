# SPDX-License-Identifier: Apache-2.0
"""Which way sums take (fanin._learner): all ranks decide alike, and take the faster way."""

import itertools
import random
import signal

import pytest
import torch
import torch.distributed as dist

from conftest import WAIT_S, Processes

from fanin import _beside, _learner, _level
from fanin._learner import FAILED, PENDING, READY, Learner

STEP = [1 << 20, 25 << 20, 25 << 20, 1 << 20, 7 << 20]  # sums of a step, in bytes
STEP_S = {False: 0.100, True: 0.080}  # of a step by fanin, and by Gloo


class Ranks:
    """Learners of a few ranks that start the same sums, with clocks of their own."""

    def __init__(self, size=3, states=(READY,), seed=1):
        self.rng = random.Random(seed)
        self.states = states  # of Gloo's connections, one a question; the last one stays
        self.connects = 0
        self.questions = []  # for each: what the ranks say
        self.times = [self.rng.random() * 100 for _ in range(size)]
        self.step_s = dict(STEP_S)
        self.ways = []  # of each sum
        self.late = ()  # questions whose answers come too late
        self.learners = [Learner(Rank(self, rank), self.clock(rank)) for rank in range(size)]

    def clock(self, rank):
        return lambda: self.times[rank]

    def start(self, size, busy=False):
        """A sum, on all ranks."""
        ways = {learner.next(size) for learner in self.learners}
        assert len(ways) == 1, "ranks differ"
        for learner in self.learners:
            learner.started(size, busy and (busy is True or self.rng.random() < busy))
        self.ways += ways

    def sum(self, size, seconds, busy=False):
        """One that takes a rank `seconds` of its way, and a little more or less on each rank."""
        self.start(size, busy)
        self.times = [
            at + seconds[self.ways[-1]] * self.rng.uniform(0.98, 1.02) for at in self.times
        ]

    def steps(self, count, sizes=None):
        """Steps of a program, in which the last sum takes the time."""
        for _ in range(count):
            for size in (sizes or STEP)[:-1]:
                self.sum(size, {False: 0.0, True: 0.0})
            self.sum((sizes or STEP)[-1], self.step_s)

    @property
    def by_gloo(self):
        assert len({learner.by_gloo for learner in self.learners}) == 1
        return self.learners[0].by_gloo

    @property
    def trials(self):
        return self.learners[0].trials


class Rank:
    """What one learner asks."""

    def __init__(self, of, rank):
        self.of, self.rank, self.asked = of, rank, 0

    def connect(self):
        self.of.connects += 1

    def connected(self):
        return self.of.states[min(self.asked, len(self.of.states) - 1)] if self.rank else READY

    def agree(self, values):
        number, self.asked, at = self.asked, self.asked + 1, len(self.of.ways)
        if number == len(self.of.questions):
            self.of.questions.append({})
        self.of.questions[number][self.rank] = values

        def wait():
            said = self.of.questions[number].values()
            assert len(self.of.ways) - at >= _learner.LEAD
            assert len(said) == len(self.of.learners), "waits for a rank that has not asked yet"
            return None if number in self.of.late else [max(ones) for ones in zip(*said)]

        return wait


def test_the_faster_way_is_taken():
    ranks = Ranks()
    ranks.steps(60)
    assert ranks.trials == 1 and ranks.by_gloo and ranks.connects == 3
    ranks.step_s = {False: 0.05, True: 0.08}
    ranks.steps(800)
    assert ranks.trials >= 2 and not ranks.by_gloo


def test_fanin_stays_where_it_is_as_fast():
    ranks = Ranks()
    ranks.step_s = {False: 0.100, True: 0.099}
    ranks.steps(2000)
    assert 2 <= ranks.trials <= 5 and not ranks.by_gloo, "trials become rare"


def test_a_trial_goes_each_way_in_turns():
    ranks = Ranks(size=1)
    ranks.step_s = {False: 0.1, True: 0.2}
    ranks.steps(200)
    runs = [(way, len(list(of))) for way, of in itertools.groupby(ranks.ways)]
    three = (1 + _learner.TIMED) * len(STEP)
    assert runs[1:4] == [(True, 2 * three), (False, 2 * three), (True, three)] and len(runs) == 5


def test_trials_cost_a_small_share():
    ranks = Ranks(size=1)
    ranks.step_s = {False: 0.1, True: 1.0}
    ranks.steps(3000)
    assert ranks.trials == 1
    ranks.steps(17000)
    lost = ranks.ways.count(True) / len(ranks.ways) * 9
    assert ranks.trials >= 2 and lost < 2 * _learner.SHARE


def test_one_slow_step_decides_nothing():
    ranks = Ranks(size=1)
    while not ranks.learners[0]._pattern:
        ranks.steps(1)
    ranks.steps(3 + _learner.TIMED)
    ranks.times = [at + 5.0 for at in ranks.times]  # in a timed step by Gloo
    ranks.steps(40)
    assert ranks.trials == 1 and ranks.by_gloo


@pytest.mark.parametrize("states", [(FAILED,), (PENDING, PENDING, FAILED), (PENDING,)])
def test_without_gloo_all_sums_are_fanins(states):
    ranks = Ranks(states=states)
    ranks.steps(4000)
    assert not any(ranks.ways) and ranks.trials == 0 and ranks.connects == 3
    asked = len(ranks.questions)
    ranks.steps(100)
    assert len(ranks.questions) == asked <= _learner.QUESTIONS_MAX


def test_a_trial_begins_once_all_are_connected():
    ranks = Ranks(states=(PENDING, PENDING, PENDING, READY))
    ranks.steps(100)
    assert [max(said[rank][0] for rank in said) for said in ranks.questions[:4]] == [
        PENDING
    ] * 3 + [READY]
    assert ranks.trials == 1 and ranks.by_gloo


def test_an_answer_that_comes_too_late_is_asked_for_again():
    for late in ({0}, {1}, {0, 1, 2, 4}):
        ranks = Ranks()
        ranks.late = late
        ranks.steps(1200)
        assert ranks.by_gloo and ranks.connects == 3


def test_sums_without_a_period_are_not_tried():
    ranks = Ranks()
    for _ in range(5000):
        ranks.sum(ranks.rng.randrange(1 << 16, 1 << 30), STEP_S)
    assert not any(ranks.ways) and ranks.connects == 0


def test_other_sizes_end_a_trial():
    ranks = Ranks()
    for _ in range(40):
        ranks.steps(ranks.rng.randrange(1, 30))
        ranks.sum(3 << 20, STEP_S)
    ranks.steps(1000)
    assert ranks.trials and ranks.by_gloo


def test_ranks_agree_whatever_the_sums_are():
    for seed in range(100):
        ranks = Ranks(size=1 + seed % 4, states=(PENDING,) * (seed % 3) + (READY,), seed=seed)
        ranks.late = {ranks.rng.randrange(8) for _ in range(seed % 5)}
        for _ in range(ranks.rng.randrange(1, 12)):
            sizes = [ranks.rng.randrange(1, 4) << 20 for _ in range(ranks.rng.randrange(1, 9))]
            ranks.step_s = {way: ranks.rng.uniform(0.01, 0.1) for way in (False, True)}
            if ranks.rng.random() < 0.5:
                ranks.steps(ranks.rng.randrange(1, 200), sizes)
                continue
            busy = [ranks.rng.choice([False, 0.01, 0.5, True]) for _ in sizes]
            for _ in range(ranks.rng.randrange(1, 200)):
                for one, size in zip(busy, sizes):
                    ranks.sum(size, ranks.step_s, one)


def test_the_first_step_of_a_way_is_not_timed():
    ways = [(_learner.is_gloos(step), _learner.is_timed(step)) for step in range(_learner.STEPS)]
    assert sum(way for way, _ in ways) == _learner.STEPS / 2
    runs = [[False] + [True] * _learner.TIMED] * 2 * _learner.ROUNDS
    assert [timed for _, timed in ways] == [one for run in runs for one in run]
    assert all(before[0] == after[0] for before, after in zip(ways, ways[1:]) if after[1])


class Program(Ranks):
    """Ranks whose sums go on while the programs do; those of one way wait for each other."""

    def __init__(self, sum_s, **arguments):
        super().__init__(**arguments)
        self.sum_s = dict(zip((False, True), sum_s))  # by fanin, and by Gloo
        self.noise = 0.02
        self.times = [0.0 for _ in self.times]
        self.ends = 0.0  # when the last one does

    def compute(self, seconds):
        """On each rank."""
        self.times = [
            at + seconds * self.rng.uniform(1 - self.noise, 1 + self.noise) for at in self.times
        ]

    def begin(self, size=STEP[0]):
        """A sum."""
        self.start(size, min(self.times) < self.ends)
        took = self.sum_s[self.ways[-1]] * self.rng.uniform(1 - self.noise, 1 + self.noise)
        self.ends = max(self.ends, *self.times) + took
        self.compute(START_S)

    def wait(self):
        """For all of them."""
        self.times = [max(at, self.ends) for at in self.times]


START_S = 50e-6


def buckets(ranks, sizes):
    """A step of DDP."""
    for size in sizes:
        ranks.compute(0.004)
        ranks.begin(size)
    ranks.wait()
    ranks.compute(0.007)


def one_by_one(ranks, count):
    """Sums that are waited for, then something else."""
    for _ in range(count):
        ranks.begin()
        ranks.wait()
    ranks.compute(0.017)


def together(ranks, count):
    """Sums that are waited for together."""
    for _ in range(count):
        ranks.begin()
    ranks.wait()


PROGRAMS = {
    "buckets": lambda ranks: buckets(ranks, STEP),
    "equal buckets": lambda ranks: buckets(ranks, STEP[:1] * 3),
    "seven equal buckets": lambda ranks: buckets(ranks, STEP[:1] * 7),
    "one at a time": lambda ranks: one_by_one(ranks, 1),
    **{
        f"{count} one by one": lambda ranks, count=count: one_by_one(ranks, count)
        for count in (2, 3, 5, 6, 7, 12)
    },
    **{
        f"{count} together": lambda ranks, count=count: together(ranks, count)
        for count in (2, 3, 8, 50)
    },
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("gloo_s, faster", [(0.006, True), (0.0098, False), (0.015, False)])
def test_the_faster_way_of_a_program(name, gloo_s, faster):
    for seed in range(2):
        ranks = Program((0.010, gloo_s), size=2, seed=seed)
        for _ in range(800):
            PROGRAMS[name](ranks)
        assert ranks.trials and ranks.by_gloo == faster, seed


def test_a_program_that_waits_at_its_end_alone_shows_nothing():
    ranks = Program((0.010, 0.001), size=2)
    for _ in range(5000):
        ranks.compute(0.001)
        ranks.begin()
    assert ranks.trials == 0 and not any(ranks.ways)


def test_a_place_is_quiet_by_gloo_as_well():
    """One sum at a time, which Gloo does not end before the next one starts."""
    ranks = Program((0.001, 0.004), size=1)
    for _ in range(5000):
        ranks.compute(0.003)
        ranks.begin()
    assert ranks.trials == 0 and not ranks.by_gloo and any(ranks.ways), "tried, and no verdict"


def test_noise_decides_seldom():
    taken = 0
    for seed in range(100):
        ranks = Ranks(size=1, seed=seed)
        ranks.step_s = {False: 0.100, True: 0.110}
        while not ranks.trials:
            ranks.steps(1)
            ranks.times[0] += (
                ranks.rng.lognormvariate(0, 1.0) * 0.03
            )  # as long as a third of a step
        taken += ranks.by_gloo
    assert taken <= 3


def test_a_period():
    assert _learner.period_of([1] * 4) == 1
    assert _learner.period_of([1, 2] * 4) == 2
    assert _learner.period_of([9] + [1, 1, 2] * 4) == 3
    assert _learner.period_of([1, 2] * 3 + [1]) == 0
    assert _learner.period_of([]) == 0
    most = list(range(_learner.PERIOD_MAX))
    assert _learner.period_of(most * 4) == _learner.PERIOD_MAX
    assert _learner.period_of([*most, -1] * 4) == 0


def test_a_place():
    quiet, busy = 0.0, 1.0
    assert _learner.place_of([7] * 32, [quiet] * 32) == (1, 0)
    assert _learner.place_of([7] * 32, [busy] * 32) == (0, 0)
    assert _learner.place_of([7] * 36, [quiet, busy, busy] * 12) == (3, 2)
    assert _learner.place_of([7, 7, 8] * 12, [busy, quiet, quiet] * 12) == (3, 0)
    assert _learner.place_of([7, 8] * 64, [busy, quiet, busy, busy] * 32) == (4, 2)
    late = [quiet, busy, busy] * 12 + [quiet] * 36
    assert _learner.place_of([7, 7, 8] * 24, late) == (3, 2), "the one that was quiet before, too"
    assert _learner.place_of([7, 8, 9], [quiet] * 3) == (0, 0)
    count = 4 * _learner.PERIOD_MAX
    assert _learner.place_of([7] * count, [quiet, *[busy] * 255] * 4) == (256, 255)


# ---- ranks ----------------------------------------------------------------------


def answers(size, name, arguments=None, environment=None, dead=()):
    """What each rank printed."""
    environment = {"FANIN_USE": "learn", **(environment or {})}
    processes = Processes(size, name, arguments or {}, environment, "learner_ranks.py")
    return processes.answers(dead)


def survivors(size, lost, name, arguments, environment):
    """What the other ranks printed; the lost one does not end by itself."""
    environment = {"FANIN_USE": "learn", **environment}
    processes = Processes(size, name, arguments, environment, "learner_ranks.py")
    for rank, (process, _, _) in enumerate(processes.ranks):
        if rank != lost:
            process.wait(timeout=WAIT_S)
    processes.ranks[lost][0].kill()
    found = processes.answers(dead=[lost])
    return found[:lost] + found[lost + 1 :]


def test_sums_are_right_whichever_way_they_go():
    for answer in answers(3, "turns"):
        assert answer["right"] and answer["trials"] == 2 and answer["taken"] >= 80
        assert f"operations: {_beside.FASTER}" in answer["summary"]


def test_a_training_goes_by_gloo():
    for answer in answers(2, "training"):
        assert answer == {"same": True, "by_gloo": True}


@pytest.mark.parametrize("rank", [0, 1])
def test_where_gloo_cannot_connect_sums_are_fanins(rank):
    for answer in answers(2, "apart", {"rank": rank}):
        assert answer["right"] and answer["off"] and answer["taken"] == {}


def test_a_rank_that_ends_is_named():
    found = answers(3, "ended", {"how": "killed"}, {"FANIN_ALIVE_MS": "1000"}, dead=[1])
    for answer in (found[0], found[2]):
        assert answer["error"] == "RankLostError" and "rank 1" in answer["text"]


def test_a_start_waits_for_no_rank_that_waits_for_it():
    for answer in answers(2, "ahead"):
        assert answer == {"right": True, "asked": True}


def test_a_timeout_set_while_ranks_connect_is_gloos():
    class Gloo:
        timeouts = []

        def set_timeout(self, timeout):
            self.timeouts.append(timeout)

    class Membership:
        learns = True

        def set_timeout(self, timeout):
            pass

    gloo = Gloo()
    level = _level.Level(Membership(), None, lambda look: gloo)
    make = level.beside._make
    level.set_timeout(1)
    assert make(None) is gloo and Gloo.timeouts == [1]
    level.set_timeout(2)
    assert Gloo.timeouts == [1, 2]


def test_a_thread_that_coalesces_is_not_all_of_its_rank():
    for answer in answers(2, "coalesced"):
        assert answer == {"right": True, "by_gloo": True}


def test_where_no_thread_can_start_sums_are_fanins():
    for answer in answers(2, "without_threads"):
        assert answer == {"right": True, "off": True}


def test_ranks_that_disagree_are_told():
    for answer in answers(3, "ended", {"how": "differs"}):
        assert answer["error"] == "MismatchError" and "65600" in answer["text"]


def test_who_learns():
    for options, learns in (
        ({}, True),
        ({"use": "always"}, False),
        ({"use": "learn", "communicator": {"mode": "fixed"}}, False),
    ):
        assert answers(2, "used", {"options": options}) == [{"right": True, "learns": learns}] * 2
    nothing = {"FANIN_USE": ""}
    assert answers(2, "used", {"options": {}}, nothing) == [{"right": True, "learns": False}] * 2
    for options, name in (({"use": "perhaps"}, "use"), ({}, "FANIN_USE")):
        for answer in answers(1, "used", {"options": options}, {"FANIN_USE": "perhaps"}):
            assert answer == {"error": f"{name} 'perhaps': expected always, learn"}


def test_a_sum_that_could_not_start_is_not_counted():
    for answer in answers(2, "refused"):
        assert answer == {"right": True, "by_gloo": True}


def test_a_process_forks_while_ranks_connect():
    for answer in answers(2, "forks"):
        assert answer["right"] and answer["by_gloo"] and set(answer["children"]) == {0}


def test_where_the_store_goes_as_ranks_agree_all_go_on():
    for answer in answers(3, "storeless"):
        assert answer == {"right": True, "by_gloo": True}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_rank_0_and_its_store_end_as_ranks_agree(how):
    for answer in survivors(3, 0, "first", {"how": how}, {"FANIN_ALIVE_MS": "2000"}):
        assert answer["error"] == "RankLostError" and "rank 0" in answer["text"]


@pytest.mark.parametrize(
    "rank, timeout_s, alive_ms",
    [(0, 600, 2000), (2, 600, 2000), (2, 5, 60000)],  # not (0, 5, 60000): _store.py, answered()
)
def test_a_rank_that_stands_still_in_a_trial_is_named(rank, timeout_s, alive_ms):
    arguments = {"rank": rank, "timeout_s": timeout_s}
    environment = {"FANIN_ALIVE_MS": str(alive_ms)}
    for answer in survivors(3, rank, "still", arguments, environment):
        silent, over = f"rank {rank} stopped answering", ("Timed out", "timeout is over")
        why = [silent] if alive_ms < 1000 * timeout_s else over
        assert any(text in answer["text"] for text in why), answer


@pytest.mark.skipif(
    not hasattr(dist, "shrink_group"), reason=f"PyTorch {torch.__version__} has no shrink_group"
)
@pytest.mark.parametrize("killed", [False, True])
def test_ranks_that_are_left_go_on_from_a_trial(killed):
    found = answers(3, "shrunk", {"killed": killed}, {"FANIN_ALIVE_MS": "2000"}, dead=[2])
    for answer in found[:2]:
        assert answer == {"right": True, "by_gloo": True, "ranks": 2}


@pytest.mark.parametrize("leaves", [False, True])
def test_a_process_may_end_while_gloo_waits_for_another_rank(leaves):
    for answer in answers(2, "stuck", {"leaves": leaves}):
        assert answer == {"left": []}, "a thread that the interpreter's end would abort"
