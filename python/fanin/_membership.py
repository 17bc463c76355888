# SPDX-License-Identifier: Apache-2.0
"""A process group's membership in a job of fanin: where its ranks meet, under which name, and what
they do if one of them cannot join."""

import contextlib
import dataclasses
import datetime
import hashlib
import logging
import os
import secrets
import threading
import time
from typing import Any, Callable, Iterable, Iterator, Sequence

from . import _arguments, _gathering, _meeting
from ._elastic import Place
from ._gathering import Gathering, Pauses
from ._learner import RANKS_MAX
from ._life import Life
from ._marks import in_words
from ._store import PatientStore, answered
from .communicator import Communicator, Operation
from .errors import BusyError, ClosedError, FaninError, InvalidError, RankLostError, StalledError

logger = logging.getLogger("fanin")

Start = Callable[[Communicator], Operation[Any]]

AGREE_S = 60.0  # beyond a join: the longest wait for what other ranks say about theirs
ANSWER_S = 10.0  # the longest wait for a store that all ranks ask
GRACE_S = 1.0  # for what goes through Gloo to end, once the communicator has
REFUSED_S = 15.0  # for Gloo to refuse it to all ranks, or for a lost rank to be found
ROOM_S = 0.001  # between looks for room for one more operation
COME = "come"  # counts ranks that have come...
FAILED = 1 << 20  # ...and each that does not join for so many: it says why
WHY = "why"
WHY_S = 5.0  # for a rank that has left to say so: more than it takes to leave
LEARN = "learn"
NAMED = (  # of these, fanin alone has what is meant
    "switch",
    "controller",
    "mode",
    "wire",
    "key_file",
    "ahead",
)
RANK_LOST, STALLED = -7, -9  # FANIN_E_RANK_LOST, FANIN_E_STALLED
NAME_CHARS = 24  # of a group's name: enough for no two to be alike
JOB_BYTES = 40  # of the job's name in the names of its groups' jobs
_environment_lock = threading.Lock()


@dataclasses.dataclass
class Options:
    """`pg_options` of init_process_group and new_group.

    required
        True: an exception on every rank if any of them cannot join.  False: the group then uses
        Gloo for everything, and rank 0 logs a warning.
    communicator
        Arguments of fanin.Communicator, such as {"mode": "fixed"}.
    use
        Of the default group, by rank 0's word.  "always": fanin alone; "learn": trials show whether steps
        are faster whose large sums go by Gloo, and all take that way; None: as FANIN_USE says, "always"
        if it says nothing.  Only where no switch is named, and sums are neither sealed nor "fixed".
    """

    required: bool = True
    communicator: dict[str, Any] = dataclasses.field(default_factory=dict)
    use: str | None = None

    def given(self, *names: str) -> bool:
        """Whether one of the arguments is given here, by the environment or in the INI file."""
        return any(self.communicator.get(name) or _arguments.told(name) for name in names)

    def learns(self, size: int) -> bool:
        """Whether sums of `size` ranks may go by Gloo where that is faster.  ValueError: no such word."""
        use = self.use or _arguments.told("use") or "always"
        _arguments.choice("use" if self.use else "FANIN_USE", use, {"always": 0, LEARN: 1})
        return use == LEARN and size <= RANKS_MAX and not self.given(*NAMED)


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Variables for the library."""
    with _environment_lock:
        before = {name: os.environ.get(name) for name in values}
        os.environ.update(values)
        try:
            yield
        finally:
            for name, text in before.items():
                if text is None:
                    del os.environ[name]
                else:
                    os.environ[name] = text


class Membership:
    """One group's, at `at`, whose name tells it from others of `world` on all its ranks.  `world`: that of
    the default group, of which its ranks are `members`; or `life`: this is the default group, or fanin's
    first."""

    def __init__(
        self,
        at: Place,
        options: Options,
        world: "Membership | None",
        members: Sequence[int],
        life: Life,
        timeout: datetime.timedelta | None,
    ) -> None:
        self.rank = at.rank
        self.size = at.size
        self.options = options
        self.communicator: Communicator | None = None
        self.reason = ""  #: why fanin is not used; "" while it is
        self.error: FaninError | None = None  #: what ended it
        self.meeting: _meeting.Meeting | None = (
            None  #: the switch inside rank 0; None: others are named
        )
        self.learns = False  #: rank 0's word: sums go by Gloo where that is faster
        self.first = os.environ.get("MASTER_ADDR", "")  #: rank 0's host, as this rank knows it
        self.kept: list[Any] = []  #: as long as this
        self.shrunk = 0  #: how often its ranks were to leave some behind
        self.store = PatientStore(at.store)
        self._ranks = Gathering(self.store, COME, self.size, life.tell if world is None else None)
        self._timeouts = _gathering.timeouts(options.communicator, timeout)
        self._limit_s: float | None = None  # shorter than that with which the ranks have joined
        self._processes: dict[int, str] = {}  # by rank: those that are known
        self._world = world
        self._members = list(members)  # its ranks in `world`
        self._at = at
        self._life = life
        self._lock = threading.Lock()
        self._tried = False
        self._own: str | None = None  # address of this host
        self._ended_s: float | None = None  # when `check` first saw that the communicator has ended

    def is_wanted(self) -> bool:
        """Whether operations go through fanin: the first call joins, on all ranks.  The same on all
        ranks.  FaninError: they cannot, and have to."""
        with self._lock:
            if not self._tried:
                self._tried = True
                if self.error is None:
                    self._join()
            if self.reason and self.options.required:
                raise self.error or FaninError(self.reason)
            return not self.reason

    def headline(self) -> str:
        """Whether fanin is used, and how or why not."""
        if self.error is not None:
            return f"FAILED: {self.error}"
        if self.reason:
            return f"NOT active, operations go through Gloo: {self.reason}"
        if self.communicator is None:
            return f"{self.size} ranks that have not joined: nothing to sum so far"
        where = self.communicator.switch or "nothing, being alone"
        return f"active, {self.size} ranks through {where}"

    def start(self, start: Start) -> Operation[Any]:
        """Start an operation, waiting for room for it."""
        if self.error is not None:
            raise self.error
        try:
            return self._patiently(start)
        except InvalidError:
            raise
        except FaninError as error:
            raise self._failed(error) from None

    def wait(self, op: Operation[Any]) -> None:
        """Wait for it, and keep what ends it for all."""
        try:
            op.wait(self._limit_s)
        except FaninError as error:
            raise self._failed(error) from None
        except TimeoutError as error:
            self.fail(StalledError(f"{error}: the group's timeout is over", STALLED))
            self.close()
            raise self.error or error from None

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """For operations to come.  Those of ranks that have joined end no later than they would have."""
        joined, new = self._timeouts, _gathering.timeouts(self.options.communicator, timeout)
        if self.communicator is None or joined.operation is None or new.operation is None:
            self._timeouts = new
            return
        self._limit_s = new.operation if new.operation < joined.operation else None
        if new.operation > joined.operation:
            self.say(
                f"operations still end after {joined.operation:g} s without progress, the timeout with "
                "which the ranks have joined: give init_process_group a longer one"
            )

    def fail(self, error: FaninError) -> None:
        """Keep the first error."""
        if self.error is None:
            self.error = error

    def check(self) -> None:
        """What a rank calls that waits for others by Gloo, to which those never come that have given up.
        FaninError: what has ended the communicator, or that this rank has closed it, GRACE_S ago.
        """
        if self.communicator is None:
            return
        with contextlib.suppress(ClosedError):
            if not self.communicator.error:
                return
        now = time.monotonic()
        self._ended_s = self._ended_s or now
        if now - self._ended_s >= GRACE_S:
            self.start(lambda comm: comm.barrier_start())  # ends as all do now

    def refused(self, key: str, error: Exception) -> None:
        """Gloo refuses this rank what all have stated under `key`: unless it does so to all ranks, or a rank
        is lost, leave the job, which ends it for the others.  FaninError: what has ended it already.
        """

        def all_refused() -> bool:
            until, pauses = time.monotonic() + REFUSED_S, Pauses()
            count = self.store.add(key, 1)
            while count < self.size and not self._what_ended() and time.monotonic() < until:
                pauses.sleep(until)
                count = self.store.add(key, 0)
            return bool(count == self.size)

        with contextlib.suppress(RuntimeError):  # the store has gone, or is silent
            if answered(all_refused, REFUSED_S + ANSWER_S, self.check):
                return
        if self._what_ended():
            self.start(lambda comm: comm.barrier_start())  # raises that: Gloo names no rank
        with contextlib.suppress(FaninError):
            self.start(lambda comm: comm.barrier_start())  # which the others never begin
        self.fail(FaninError(f"rank {self.rank}: Gloo refuses what all ranks have stated: {error}"))
        self.close()

    def first_said(self, key: str, word: bool) -> bool:
        """The `word` of the rank that is the first to call this with `key`; True: the store has gone."""

        def first() -> bool:
            patient = PatientStore(self.store, self.check)
            if patient.add(f"{key} said", 1) == 1:
                patient.set(key, str(int(word)))
                return word
            patient.wait([key], datetime.timedelta(seconds=ANSWER_S))
            return patient.read(key) == b"1"

        try:
            return bool(answered(first, ANSWER_S, self.check))
        except FaninError:
            raise
        except RuntimeError:  # others have perhaps heard their word: True, but for late ranks
            return True

    def own_address(self) -> str:
        """This host's address as the other ranks' hosts see it; "": not known."""
        if self._world is not None:
            return self._world.own_address()
        if not self._tried:
            return _meeting.local_address(self.first)
        if self._own is None:  # asked anew, the store may have gone
            self._own = _meeting.own_address(self.store, self._read, self.first)
        return self._own

    def next_number(self) -> int:
        """One that no other group of the job has."""
        return int(self.store.add("groups", 1))

    def say(self, text: str, level: int = logging.WARNING) -> None:
        """Once for the group: its rank 0 says it."""
        logger.log(level if self.rank == 0 else logging.DEBUG, "fanin: %s", text)

    def gone(self, ranks: Iterable[int]) -> list[int]:
        """Of these, those of which it is known that they have ended: on this host by their processes,
        elsewhere by the default group's communicator."""
        ranks = list(ranks)
        if self._world is not None:
            of_world = set(self._world.gone(self._members[rank] for rank in ranks))
            return [rank for rank in ranks if self._members[rank] in of_world]
        lost = _gathering.named(self._what_ended())
        return [rank for rank in ranks if rank in lost or self._has_ended(rank)]

    def look_for(self, rank: int) -> None:
        """Before a message to or from it.  RankLostError: the default group's communicator has lost it."""
        world, number = (self._world, self._members[rank]) if self._world else (self, rank)
        why = world._what_ended()
        if number in _gathering.named(why):
            raise RankLostError(why, RANK_LOST)

    def close(self) -> None:
        """Leave the job."""
        if self.communicator is not None:
            self.communicator.close()

    # Within.

    def _what_ended(self) -> str:
        """The communicator, in a sentence; "": nothing, or there is none."""
        try:
            return self.communicator.error if self.communicator is not None else ""
        except ClosedError as error:
            return str(error)

    def _failed(self, error: FaninError) -> FaninError:
        """What ends an operation, for the user, kept."""
        told = in_words(error)
        if isinstance(told, StalledError) and self._timeouts.operation is not None:
            told = StalledError(f"{told}: the group's timeout is over", told.code)
        self.fail(told)
        return told

    def _patiently(self, start: Start) -> Operation[Any]:
        assert self.communicator is not None
        while True:
            try:
                return start(self.communicator)
            except BusyError:
                time.sleep(ROOM_S)

    def _join(self) -> None:
        problem: Exception | None = None
        try:
            if self.size > 1:
                self._gather()
            self.communicator = self._made_of_world() or self._made_alone()
        except (FaninError, ValueError, TypeError) as error:
            problem = error
        except BaseException as error:  # such as KeyboardInterrupt
            self._give_up(error)
            raise
        self._agree(problem)

    def _gather(self) -> None:
        """Wait until all ranks have come: for as long as the group may, while the library's join is
        for what takes moments."""
        within_s = self._timeouts.coming if self._at.within_s is None else self._at.within_s
        try:
            _gathering.gather(self._ranks, self.rank, self.size, within_s, self._look)
            self._hear()
        except BaseException:
            if self._world is None:
                self._life.tell_on()
            raise

    def _look(self) -> None:
        """FaninError: there is no point in waiting any more."""
        self._hear()
        lost = self.gone(range(self.size))
        if lost:
            have = "have" if len(lost) > 1 else "has"
            text = (
                f"{_gathering.in_words(lost)} {have} ended before all ranks had come to the group"
            )
            raise RankLostError(text, RANK_LOST)

    def _hear(self) -> None:
        """FaninError: another rank has given up."""
        if self._ranks.count >= FAILED:
            raise FaninError(self.store.read(WHY).decode())

    def _has_ended(self, rank: int) -> bool:
        if rank not in self._processes and self._ranks.has_come(rank):
            self._processes[rank] = self._life.process(rank)
        return _gathering.has_ended(self._processes.get(rank, ""))

    def _give_up(self, error: BaseException) -> None:
        """Others need not wait for this rank."""
        self.reason = f"rank {self.rank}: interrupted while it joined: {type(error).__name__}"
        self.error = FaninError(self.reason)
        with contextlib.suppress(RuntimeError):
            self._fail_all(self.reason)

    def _made_of_world(self) -> Communicator | None:
        """As a group of the default group's communicator, whose ranks know their ways; None: it has
        none, or other options."""
        world = self._world
        if world is None or world.communicator is None or self.options is not world.options:
            return None
        if self.options.given("controller"):
            return None
        text = f"{world.token()} {self._at.name}"
        name = hashlib.sha256(text.encode()).hexdigest()[:NAME_CHARS]
        return world.communicator.group(name, self._members, **self._timeouts.arguments)

    def token(self) -> str:
        """The same on all ranks, and another one in each life of the job."""
        return self._world.token() if self._world else self._life.name

    def _made_alone(self) -> Communicator:
        arguments, variables = self._place()
        if self.size > 1:
            arguments.setdefault("run", self.token())
        with _environment(**variables):
            return Communicator(rank=self.rank, ranks=self.size, **arguments)

    def _place(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Arguments of the communicator, and variables, that say where the ranks meet."""
        arguments: dict[str, Any] = {**self._timeouts.arguments, **self.options.communicator}
        named = self.options.given("switch", "controller")
        if self._world is not None:
            arguments["job"] = self._from_first("job", self._name_of_group)
            meeting = self._world.meeting
            if named or meeting is None:
                return arguments, {}
            arguments["switch"] = meeting.address
            local = _arguments.told("local") or "1"
            return arguments, {"FANIN_LOCAL": local}
        if self.size == 1:
            return arguments, {}
        at, words = self._at, self._life.meeting
        if at.address:
            arguments["job"] = f"{self._name_of_job()}.{at.name}"
        meeting = _meeting.hear(words, self.store) if self.rank else _meeting.chosen(words)
        self.first, self.learns = meeting.host, meeting.learns
        if not named:
            self.meeting = meeting
        variables = meeting.restarts if named else meeting.variables
        return arguments, {**variables, **(at.variables if at.address else {})}

    def _fail_all(self, why: str) -> str:
        """Have the other ranks hear why none joins."""
        self.store.set(WHY, why)
        self.store.add(COME, FAILED)
        return why

    def _have_all_joined(self) -> str:
        """Wait until all have: "", or why one has not, which ends what the others wait for first."""
        assert self.communicator is not None
        op: Operation[None] | None = None
        pauses, ended = Pauses(), ""
        until = pauses.begun + AGREE_S
        while True:
            try:
                if not ended:
                    op = op or self.communicator.barrier_start()
                    op.wait(_gathering.LOOK_S)
                    return ""
                pauses.sleep(until)
            except TimeoutError:
                pass
            except FaninError as error:
                ended, until = str(error), time.monotonic() + WHY_S
            if self.store.add(COME, 0) >= FAILED:
                return self.store.read(WHY).decode()
            if time.monotonic() >= until:
                return f"ranks do not tell whether they have joined: {ended or 'one waits'}"

    def _name_of_job(self) -> str:
        job = self.options.communicator.get("job") or _arguments.told("job") or "torch"
        return str(job)[:JOB_BYTES]

    def _name_of_group(self) -> str:
        return f"{self._name_of_job()}.{secrets.token_hex(6)}"

    def _from_first(self, key: str, make: Callable[[], str]) -> str:
        """What rank 0 makes, on all ranks."""
        if self.rank == 0:
            text = make()
            self.store.set(key, text)
            return text
        return self._read(key)

    def _read(self, key: str) -> str:
        return self.store.get(key).decode()

    def _agree(self, problem: Exception | None) -> None:
        """All ranks or none."""
        failed = "" if problem is None else f"rank {self.rank}: {problem}"
        try:
            failed = self._fail_all(failed) if failed else self._have_all_joined()
        except RuntimeError as error:  # the store has gone
            failed = failed or str(error)
        if not failed:
            self.say(self.headline(), logging.INFO)
            return
        self.close()
        self.communicator = None
        self.reason = failed
        if not self.options.required:
            self.say(self.headline())
            return
        self.error = problem if isinstance(problem, FaninError) else FaninError(self.reason)
        raise self.error
