# SPDX-License-Identifier: Apache-2.0
"""What doc/protocol/base.md and aggregator.md say about messages that an honest worker never sends,
or seldom: two members of a job by hand, against an aggregator.  "Section" is one of those pages."""
from __future__ import annotations

import random
import struct
from typing import Optional, Tuple

import wire
from member import (BARRIER_KIND, FAILED, FLOAT_BCAST, FLOAT_SUM, FORMING, LEFT, NONE, ONE, READY,
                    SLOTS, Address, Member, State, Wrong, result_of, same)
from wire import (BARRIER, BEAT, COLLISION, DATA, DIRECT, ECN, EMPTY, FLOAT32, LEAVE, MISS, NEED,
                  NUMBERS, PROBE, REDUCE, REFUSE, REPLAY, RESULT, ROOT, STATE, SUM, SUMMED, WAITING,
                  WELCOME, WIDE, Message, WHO)

RANK_LEFT, STALLED, MISMATCH, RANK_TAKEN, OWN_ERROR, LAUNCHES = -8, -9, -10, -11, -3, -31
UNKNOWN = 0xFFFF


def barrier_types(a: Member, b: Member) -> None:
    """Sections 3.4 and 4.5: any dtype of a BARRIER passes, and is compared."""
    for m in (a, b):
        m.data(BARRIER << 4 | FLOAT32)
    same([result_of(m, 0).kind for m in (a, b)], [0x50, 0x50], "kinds")
    a.data(frag=1)
    b.data(BARRIER << 4 | FLOAT32, frag=1)
    s = a.state(FAILED)
    same((s.err, s.missing), (MISMATCH, [0, 1]), "failure")
    same(sorted(zip(s.disagree[:2], s.disagree[2:])), [(0, 0x357), (1, 0x350)], "descriptions")


def exponents(a: Member, b: Member) -> None:
    """Section 6.3: exponents are compared."""
    kind = SUM << 4 | wire.FIXED32
    for m in (a, b):
        m.data(kind, count=2, exponent=-5)
    same(result_of(a, 0).exponent, -5, "exponent")
    for m in (a, b):  # other dtypes send 0; nothing says that the aggregator looks at it
        m.data(FLOAT_SUM, frag=1, count=2)
    same(result_of(a, 1).exponent, 0, "exponent")
    a.data(kind, frag=2, count=2)
    b.data(kind, frag=2, count=2, exponent=5)
    s = a.state(FAILED)
    same((s.err, sorted(s.disagree[:2])), (MISMATCH, [0, 1]), "failure")
    same(s.disagree[2], s.disagree[3], "descriptions")


def flags(a: Member, b: Member) -> None:
    """Section 3.3: a flag that has no business there."""
    for bad in (REPLAY, wire.INSIST, 0x1000, 0x2000, 0x4000, 0x8000):
        a.data(flags=ONE | bad)
    for kind in (BEAT, LEAVE):
        a.send(Message(kind, flags=1, nonce=a.nonce, body=bytes(33)))
    a.send(Message(PROBE, flags=1))
    same(a.answers(), [], "answers")
    b.data(flags=ONE | SUMMED | ECN | DIRECT)
    a.data(flags=ONE | COLLISION)
    same([result_of(m, 0).flags for m in (a, b)], [ONE | ECN | COLLISION] * 2, "flags")


def combinations(a: Member, b: Member) -> None:
    """Sections 3.4, 3.6 and 6.2: what claims two things at once is dropped."""
    a.data(BARRIER_KIND, count=1, body=b"")
    a.data(BARRIER_KIND, ONE | REDUCE)
    a.data(BARRIER_KIND, ONE | EMPTY)
    a.data(BARRIER_KIND, body=b"1")
    a.data(FLOAT_BCAST, ONE, count=1)
    a.data(FLOAT_BCAST, ONE | ROOT | EMPTY, count=1)
    a.data(FLOAT_BCAST, ONE | REDUCE | ROOT, count=1)
    a.data(FLOAT_SUM, ONE | ROOT, count=1)
    a.data(FLOAT_SUM, ONE | EMPTY, count=1)
    a.data(FLOAT_SUM, count=2, body=bytes(4))
    a.data(FLOAT_SUM, count=353)
    a.data(wire.MAX << 4 | wire.FIXED32, count=1)
    a.data(SUM << 4 | wire.UINT8, count=1)
    a.data(wire.MAX << 4 | wire.BLOCK8, count=1, body=bytes(2))
    a.data(SUM << 4 | wire.BLOCK8, count=33, body=bytes(34))
    a.data(SUM << 4 | 10, body=b"")
    a.data(6 << 4 | FLOAT32, body=b"")
    same(a.answers(), [], "answers")
    for m in (b, a):
        m.data(FLOAT_SUM, count=352)
    same(result_of(a, 0).count, 352, "elements")


def wide_slots(a: Member, b: Member) -> None:
    """Section 6.2: elements of half types take 4 bytes while they are summed, and a slot has 2P."""
    for m in (b, a):
        m.data(SUM << 4 | wire.FLOAT16, count=704)
    same(result_of(a, 0).count, 704, "elements")


def quad_slots(a: Member, b: Member) -> None:
    """Sections 6.2 and 6.7: BLOCK8 takes 4 bytes while it is summed, and a slot has 4P; 1 and 3 are 4."""
    for m, q in ((b, b"\x7f\x40"), (a, b"\x80\x60")):
        m.data(SUM << 4 | wire.BLOCK8, count=1366, body=bytes(1366 + 43))
        m.data(SUM << 4 | wire.BLOCK8, count=1365, body=q + bytes(1364 + 42))
    same(result_of(a, 0).body, b"\x81\x40" + bytes(1364 + 42), "payload")


def tags(a: Member, b: Member) -> None:
    """Sections 3.7 and 6.3: a tag above 256 is dropped; the place comes back."""
    a.data(tag=257)
    a.data(tag=0xFFF)
    b.data(tag=5 << 12, priority=200)
    same(b.answers() + a.answers(), [], "answers")
    a.data(tag=5 << 12 | 256)
    same([result_of(m, 0).place for m in (a, b)], [5, 5], "places")


def reserved_types(a: Member, b: Member) -> None:
    """Section 9."""
    good = a.datagram(Message(DATA, flags=ONE, kind=BARRIER_KIND))
    for kind in (0, 2, 3, 5, 7, 9, 15, 17, 18, 20, 22, 26, 255):
        a.socket.send(wire.sealed(good[:1] + bytes([kind]) + good[2:]))
    for length in (0, 1, 16, 35):
        a.socket.send(good[:length])
    same(a.answers(), [], "answers")
    b.data()
    a.data()
    result_of(a, 0)


def ignored_bytes(a: Member, b: Member) -> None:
    """Section 3.2: bytes that are no field; section 4: bodies that grow."""
    probe = bytearray(a.datagram(Message(PROBE, frag=0)))
    probe[28:32] = b"\xff" * 4
    a.socket.send(wire.sealed(bytes(probe)))
    same([m.type for m in a.answers()], [NEED], "answers to PROBE")
    a.beat(0, WAITING | 0xE0, bytes(40))
    s = a.state()
    same((s.state, s.missing), (READY, [0, 1]), "STATE")
    same(s.workers or 2, 2, "workers")


def root_is_told(a: Member, b: Member) -> None:
    """Section 6.2: a broadcast's root gets the RESULT, with the payload, like the others."""
    a.data(FLOAT_BCAST, ONE | ROOT, count=1, body=b"\1\2\3\4")
    b.data(FLOAT_BCAST, ONE | EMPTY, count=1)
    same([result_of(m, 0).body for m in (a, b)], [b"\1\2\3\4"] * 2, "results")


def reduce_results(a: Member, b: Member) -> None:
    """Sections 6.2 and 6.3: two RESULTs of one number, one EMPTY."""
    a.data(FLOAT_SUM, ONE | REDUCE, count=1)
    b.data(FLOAT_SUM, ONE | REDUCE | ROOT, count=1)
    mine = result_of(a, 0)
    same((mine.flags, mine.count, mine.body), (ONE | REDUCE | EMPTY, 1, b""), "RESULT")
    full = result_of(b, 0)
    while full.flags & EMPTY:
        full = result_of(b, 0)
    same((full.flags, full.body, full.seq), (ONE | REDUCE, bytes(4), mine.seq), "for the root")
    b.probe(0)
    again = result_of(b, 0)
    same((again.flags, again.body), (ONE | REDUCE | REPLAY, bytes(4)), "replay")
    same(again.seq, mine.seq, "seq of the replay")


def roots(a: Member, b: Member) -> None:
    """Section 6.3: no root."""
    for m in (a, b):
        m.data(FLOAT_BCAST, ONE | EMPTY, count=1)
    s = a.state(FAILED)
    same(s.err, MISMATCH, "failure")


def probes(a: Member, b: Member) -> None:
    """Section 6.3: turns of PROBEs."""
    a.probe(0)
    need = a.hear(NEED)
    same((need.frag, need.tag, need.words), (0, 1, 0), "NEED")
    a.data()
    a.probe(0)
    same(a.answers(), [], "PROBE whose contribution is in")
    b.probe(0)
    same(b.hear(NEED).tag, 2, "NEED")
    b.data()
    result = [result_of(m, 0) for m in (a, b)]
    same([m.seq for m in result], [0, 0], "seq of the first result")
    for _ in range(2):
        a.probe(0)
        a.probe(0, False, 0)
        a.data()
    for _ in range(6):
        replay = result_of(a, 0)
        same((replay.flags, replay.seq, replay.tag), (ONE | REPLAY, 0, 1), "replay")
    same(b.answers(), [], "replays to another")
    a.probe(SLOTS + 1)
    a.data(frag=SLOTS + 1)
    same(a.answers(), [], "fragments ahead of their turn")
    a.probe(SLOTS)
    same(a.hear(NEED).frag, SLOTS, "NEED")
    for frag in (SLOTS, 2 * SLOTS):
        for m in (a, b):
            m.data(frag=frag)
        same([result_of(m, frag).seq for m in (a, b)], [frag // SLOTS] * 2, "seq")
    a.probe(0)
    a.data()
    same(a.answers(), [], "stale fragments")


def states(a: Member, b: Member) -> None:
    """Section 4.5: who is missing."""
    a.data()
    for rank, want in ((0, [1]), (1, [1])):
        (a, b)[rank].beat(0, WAITING)
        same((a, b)[rank].state().missing, want, "missing")
    b.data()
    result_of(a, 0)
    a.beat(0, WAITING)
    same(a.state().missing, [], "missing of a finished fragment")
    a.beat(1, WAITING)
    same(a.state().missing, [0, 1], "missing of a fragment that nobody has sent")
    a.beat(1)
    s = a.state()
    same((s.missing, s.frag, s.nonce, s.ranks), ([], 1, a.nonce, 2), "STATE")
    same(s.disagree, [UNKNOWN, UNKNOWN, 0, 0], "ranks that disagree")


def strangers(a: Member, b: Member) -> None:
    """Section 5.5: whose BEAT and LEAVE count."""
    stranger = Member(a.socket.getpeername(), "-", 0)
    stranger.job, stranger.epoch, stranger.nonce = a.job, a.epoch, a.nonce
    stranger.data()
    stranger.beat(3, WAITING)
    stranger.nonce = 0x5555
    stranger.beat(3, WAITING)
    s = State(stranger.hear(STATE))
    same((s.state, s.frag, s.ranks, s.missing, s.nonce), (NONE, 3, 0, [], 0x5555), "STATE")
    stranger.nonce = a.nonce
    stranger.leave(STALLED)
    same(stranger.state().state, LEFT, "STATE to a stranger's LEAVE")
    stranger.close()
    right = a.nonce
    a.nonce = 99
    a.leave(STALLED)
    s = a.state()
    same((s.state, s.nonce), (LEFT, 99), "STATE to a LEAVE with a wrong nonce")
    a.nonce = right
    a.rank = 1
    a.data()
    a.rank = 0
    a.data()
    b.data()
    result_of(a, 0)


def joining_again(a: Member, b: Member) -> None:
    """Section 5.3."""
    a.send(a.joining())
    same(a.hear(WELCOME).nonce, a.nonce, "WELCOME")
    other = Member(a.socket.getpeername(), a.name.decode(), 0, nonce=77)
    other.send(other.joining())
    refusal = other.hear(REFUSE)
    err, rank, have, want = struct.unpack("<bHII", refusal.body[:11])
    same((err, rank, have != 0, want), (RANK_TAKEN, 0, True, 0), "REFUSE")
    same(refusal.nonce, 77, "nonce of REFUSE")
    b.leave(STALLED, [0])
    same(a.state(FAILED).missing, [0], "blame")
    a.send(a.joining())
    s = a.state()
    same((s.state, s.err, s.nonce, s.missing), (FAILED, STALLED, a.nonce, [0]), "STATE for a JOIN")
    other.send(other.joining())
    welcome = other.hear(WELCOME)
    same((welcome.job, welcome.epoch) != (a.job, a.epoch), True, "another job")
    other.job, other.epoch = welcome.job, welcome.epoch
    other.leave(0)
    other.close()


def launches(a: Member, b: Member) -> None:
    """Section 5.3."""
    other = Member(a.socket.getpeername(), a.name.decode(), 0, nonce=77)

    def refused(launch: int, claim: int) -> Tuple[int, int]:
        other.nonce += 1
        other.send(other.joining(launch, claim))
        refusal = other.hear(REFUSE)
        err, _, have, _ = struct.unpack("<bHII", refusal.body[:11])
        return err, have

    err, proof = refused(0, 0)
    same(refused(0, proof ^ 1), (err, proof), "REFUSE of a wrong claim")
    same(refused(0, proof), (RANK_TAKEN, proof), "REFUSE of a claim")
    a.hear(WHO)
    a.beat()
    a.state(READY)
    same(refused(0, proof)[0], LAUNCHES, "REFUSE of a claim of a rank that lives")
    for m in (a, b):
        s = m.state(FAILED)
        same((s.err, s.missing), (LAUNCHES, [0]), "STATE for two launches")
    same(refused(0, 0)[0], LAUNCHES, "REFUSE soon after")
    other.send(other.joining(5))
    welcome = other.hear(WELCOME)
    other.job, other.epoch = welcome.job, welcome.epoch
    other.leave(0)
    other.close()


def lost_numbers(a: Member, b: Member) -> None:
    """Section 6.8, both directions."""
    for seq, frag in ((1, 0), (3, 1), (4, 2)):
        a.data(frag=frag, seq=seq)
    same(a.answers(), [], "MISS too early")
    a.probe(1)
    a.send(Message(PROBE, frag=2, seq=5))
    asked = [(m.last - i, m.tag) for m in a.answers() for i in range(64) if m.missing >> i & 1]
    same(asked, [(2, 1)], "numbers and ranks of MISS")
    for seq, frag in ((1, 0), (2, 1), (3, 2)):
        b.data(frag=frag, seq=seq)
    numbers = [m.hear(RESULT).seq for m in (a, a, a)]
    same(numbers, [0, 1, 2], "numbers of results")
    a.send(Message(MISS, last=2, missing=0b101))
    replays = [a.hear(RESULT) for _ in range(2)]
    same(sorted(m.seq for m in replays), [0, 2], "replays")
    same([m.flags for m in replays], [ONE | REPLAY] * 2, "flags of replays")


def blame(a: Member, b: Member) -> None:
    """Sections 4.5 and 5.5: error and blame are handed on, without ranks >= N."""
    a.leave(STALLED, [1, 77])
    s = b.state(FAILED)
    same((s.err, s.missing), (STALLED, [1]), "failure")


def blame_nobody(a: Member, b: Member) -> None:
    a.leave(OWN_ERROR)
    s = b.state(FAILED)
    same((s.err, s.missing), (OWN_ERROR, [0]), "failure")


def giving_up_early(a: Member, b: Member) -> None:
    """Section 5.5: who cannot take part ends a job that forms, who goes for another reason does not."""
    for err, ends in ((-2, True), (-3, True), (-23, True), (-29, True), (0, False), (-6, False)):
        here = [Member(a.socket.getpeername(), f"early{err}", rank, ranks=3) for rank in range(2)]
        for m in here:
            m.enter()
            m.state(FORMING)
        here[1].leave(err)
        here[1].state(LEFT)
        here[0].beat(1 << 40)
        s = here[0].state(FAILED if ends else FORMING)
        same((s.err, s.missing), (err, [1]) if ends else (0, [1, 2]), f"STATE after LEAVE {err}")
        here[0].leave(0)
        for m in here:
            m.close()


def mismatch_elsewhere(a: Member, b: Member) -> None:
    """Section 4.5: of a MISMATCH on another shard only the blame is told."""
    a.leave(MISMATCH, [0, 1])
    s = b.state(FAILED)
    same((s.err, s.disagree[:2], s.missing), (MISMATCH, [UNKNOWN] * 2, [0, 1]), "failure")


def leaving(a: Member, b: Member) -> None:
    """Section 5.5: a rank that left in good order is blamed when it is needed."""
    a.leave(0)
    s = a.state(LEFT)
    same((s.nonce, s.ranks, s.missing), (a.nonce, 0, []), "STATE LEFT")
    a.leave(0)
    a.state(LEFT)
    b.data()
    s = b.state(FAILED)
    same((s.err, s.missing), (RANK_LEFT, [0]), "failure")


def unknown_error(a: Member, b: Member) -> None:
    """Section 4.6: codes that nobody knows."""
    a.leave(-99)
    same(b.state(FAILED).err, -99, "failure")


def damage(a: Member, b: Member) -> None:
    """Section 3.7: damaged datagrams, half of them with a valid check, end no job."""
    rng = random.Random(7)
    models = [a.datagram(m) for m in (
        Message(DATA, flags=ONE, kind=FLOAT_SUM, count=2, body=bytes(8)), Message(PROBE, frag=0),
        Message(MISS, missing=5, last=9), a.joining(),
        Message(BEAT, nonce=a.nonce, body=b"\0"))]
    envelope = [0] + list(range(4, 14))  # version, job, epoch, sender: what a good check may cover
    for i in range(3000):
        data, checked = bytearray(rng.choice(models)), rng.random() < 0.5
        for _ in range(rng.randint(1, 4)):
            at = rng.choice(envelope) if checked else rng.randrange(len(data))
            data[at] ^= 1 << rng.randrange(8)
        if not checked and rng.random() < 0.2:
            data = data[:rng.randint(0, len(data))]
        a.socket.send(wire.sealed(bytes(data)) if checked else bytes(data))
        if i % 50 == 0:
            a.answers()
    a.answers()
    b.data(FLOAT_SUM, count=2)
    a.data(FLOAT_SUM, count=2)
    result_of(b, 0)


def payload_checked(a: Member, b: Member) -> None:
    """Sections 3.5 and 6.2: a job with SUMMED."""
    a.data()
    same(a.answers(), [], "DATA without SUMMED")
    broken = bytearray(a.datagram(Message(
        DATA, flags=ONE | SUMMED, kind=FLOAT_SUM, count=1, body=bytes(4))))
    broken[-1] ^= 1
    a.socket.send(bytes(broken))
    for m in (a, b):
        m.data(FLOAT_SUM, ONE | SUMMED, count=1)
    same([(m.flags, m.body) for m in (result_of(a, 0), result_of(b, 0))],
         [(ONE | SUMMED, bytes(4))] * 2, "results")


def runs(a: Member, b: Member) -> None:
    """protocol/runs.md: malformed ones are dropped whole, a good one is all of its messages."""
    def run(more: int, flags: int = ONE | EMPTY | wire.RUN) -> bytes:
        return a.datagram(Message(DATA, flags=flags, kind=FLOAT_BCAST, count=1, priority=more,
                                  seq=1))

    damaged = run(2)[:35] + bytes([run(2)[35] ^ 1])
    for bad in (run(0), run(8), run(255), run(2, ONE | wire.RUN), damaged, run(2) + b"\0"):
        a.socket.send(bad)
    for frag in range(3):
        b.data(FLOAT_BCAST, ONE | ROOT, count=1, frag=frag, seq=frag + 1, body=bytes([frag] * 4))
    same(b.answers(), [], "answers")
    a.socket.send(run(2))
    for m in (a, b):
        same([result_of(m, n).body for n in range(3)], [bytes([n] * 4) for n in range(3)],
             "results")


RULES = (barrier_types, exponents, flags, combinations, wide_slots, quad_slots, tags,
         reserved_types,
         ignored_bytes, root_is_told, reduce_results, roots, probes, states, strangers,
         joining_again, launches, lost_numbers, blame, blame_nobody, giving_up_early, mismatch_elsewhere, leaving,
         unknown_error, damage, payload_checked, runs)
OPTIONS = {quad_slots: wire.QUAD, lost_numbers: WIDE | NUMBERS, runs: WIDE | NUMBERS | wire.RUNS,
           payload_checked: WIDE | wire.SUMMED_JOB}


def broken(address: Address) -> Optional[str]:
    """The rules that the aggregator at `address` does not keep, and how; or None."""
    found = []
    for rule in RULES:
        options = OPTIONS.get(rule, WIDE)
        members = [Member(address, rule.__name__, rank, options) for rank in range(2)]
        try:
            for m in members:
                m.enter()
            for m in members:
                m.state(READY)
            rule(*members)
            for m in members:
                m.leave(0)
        except Wrong as e:
            found.append(f"{rule.__name__}: {e}")
        except TimeoutError:
            found.append(f"{rule.__name__}: no answer")
        finally:
            for m in members:
                m.close()
    return "; ".join(found) or None
