# SPDX-License-Identifier: Apache-2.0
"""python/fanin/communicator.py through a real switch: values, errors by name, memory that lives."""

import array
import gc
import logging
import os
import pickle
import signal
import threading
import time

import numpy
import pytest
import torch
from conftest import WAIT_S, free_port, ranks

import fanin
from fanin import _report, _waiting, errors
from fanin._figures import Part, Stats, times_a_ring

ELEMS = 50_000  # several windows of fragments


def everyone(outcome, expected):
    """All ranks returned `expected`; an exception is shown as what it is."""
    for one in outcome:
        if isinstance(one, Exception):
            raise one
    assert outcome == [expected] * len(outcome)


@pytest.mark.parametrize(
    "hosts, switches, ranks, sharing, times",
    [
        ([0.25] * 4, [], 4, 0, 1),  # each host sums a part, as a ring does
        ([0.25] * 4, [], 16, 4, 1.25),  # 2 * 15 / 16 by 1.5
        ([0.5] * 2, [], 16, 2, 1.875),
        ([1 / 6] * 4, [1 / 3], 4, 0, 1.125),  # a spare machine
        ([0] * 8, [1], 8, 0, 1.75),  # a box with a link for each host
        ([0] * 4, [0.25] * 4, 16, 0, 1.875 / 4),  # a stream for each rank
        ([0.4, 0.4, 0.2, 0], [], 4, 0, 1.5),  # the last one's link is narrow: it sums nothing
        ([0.5, 0.5], [], 3, 3, 4 / 3),  # the third host has no aggregator
        ([], [1], 4, 0, 0),  # not known
        ([], [], 8, 1, 0),  # one host
    ],
)
def test_shares_tell_how_fast_it_should_be_by_a_ring(hosts, switches, ranks, sharing, times):
    parts = [Part("", 0, share, 0, True, False) for share in hosts]
    parts += [Part("", -1, share, 0, True, False) for share in switches]
    assert times_a_ring(parts, ranks, sharing) == pytest.approx(times)
    assert times_a_ring([*parts, Part("", -1, 0, 0, True, True)], ranks, sharing) == 0


@pytest.mark.parametrize("mode", ["native", "fixed"])
def test_sum_in_place(switch, job, mode):
    def work(comm):
        tensor = torch.arange(ELEMS, dtype=torch.float32) + comm.rank
        assert comm.allreduce(tensor) is tensor
        return bool((tensor == 3 * torch.arange(ELEMS) + 3).all())

    everyone(ranks(3, work, switch=switch, job=job, mode=mode), True)


@pytest.mark.parametrize("op, expected", [("sum", 6.0), ("avg", 2.0), ("min", 1.0), ("max", 3.0)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64"])
def test_operations(switch, job, op, expected, dtype):
    def work(comm):
        values = numpy.full(1000, comm.rank + 1, dtype)
        comm.allreduce(values, op)
        return bool((values == expected).all())

    everyone(ranks(3, work, switch=switch, job=job), True)


def test_bfloat16(switch, job):
    def work(comm):
        tensor = torch.full((1001,), comm.rank + 0.5, dtype=torch.bfloat16)
        comm.allreduce(tensor, "avg")
        return bool((tensor == 1.0).all())

    everyone(ranks(2, work, switch=switch, job=job), True)


def test_half_types_on_the_wire(switch, job):
    def work(comm):
        tensor = torch.full((ELEMS,), comm.rank + 1.0)
        comm.allreduce(tensor)
        return bool((tensor == 3.0).all())

    everyone(ranks(2, work, switch=switch, job=job, wire="bfloat16"), True)


def test_out_leaves_the_tensor_alone(switch, job):
    def work(comm):
        source = numpy.arange(ELEMS, dtype="float32")
        source.flags.writeable = False
        out = numpy.empty_like(source)
        assert comm.allreduce(source, out=out) is out
        return bool((out == 2 * source).all())

    everyone(ranks(2, work, switch=switch, job=job), True)


def test_operations_in_flight_end_in_any_order_of_waiting(switch, job):
    def work(comm):
        tensors = [torch.full((size,), float(comm.rank)) for size in (ELEMS, 1, 0, 777, ELEMS)]
        started = [comm.allreduce_start(tensor) for tensor in tensors]
        for op, tensor in reversed(list(zip(started, tensors))):
            assert op.wait() is tensor and op.done()
            assert op.wait() is tensor  # again: the same
        return all(bool((tensor == 3.0).all()) for tensor in tensors)

    everyone(ranks(3, work, switch=switch, job=job), True)


def test_reduce_broadcast_barrier(switch, job):
    def work(comm):
        counts = array.array("i", [comm.rank] * 10)
        comm.reduce(counts, root=1)
        total = counts[0]
        message = bytearray(b"from rank 2" if comm.rank == 2 else 11)
        comm.broadcast(message, root=2)
        comm.barrier()
        return total, bytes(message)

    assert ranks(3, work, switch=switch, job=job) == [
        (3 if rank == 1 else rank, b"from rank 2") for rank in range(3)
    ]


def test_not_a_number_arrives_as_such(switch, job):
    def work(comm):
        tensor = torch.tensor([1.0, float("nan") if comm.rank else 2.0, float("inf")])
        comm.allreduce(tensor)
        return [str(value) for value in tensor.tolist()]

    everyone(ranks(2, work, switch=switch, job=job, mode="fixed"), ["2.0", "nan", "inf"])


def test_properties_and_statistics(switch, job):
    def work(comm):
        comm.allreduce(torch.zeros(ELEMS))
        stats = comm.stats()
        assert stats.ops == 1 and stats.bytes == 4 * ELEMS and stats.fragments > 100
        assert isinstance(stats.multicast, bool) and stats.shards == 1
        assert comm.switch.startswith(switch) and comm.error == ""
        assert f"rank {comm.rank} of 2" in repr(comm)
        return comm.size

    everyone(ranks(2, work, switch=switch, job=job), 2)


@pytest.mark.parametrize("cache", [0, 16])
def test_ranks_run_ahead_of_a_slow_one(shared_switch, job, cache):
    def work(comm):
        tensors = [torch.arange(ELEMS, dtype=torch.int64) * k + comm.rank for k in range(8)]
        started = []
        for tensor in tensors:
            if comm.rank == 1:
                time.sleep(0.01)
            started.append(comm.allreduce_start(tensor))
        for operation in started:
            operation.wait()
        stats = comm.stats()
        assert stats.ahead_asked == 400 and stats.ahead_frags == 400
        assert stats.cache_frags == cache >= stats.cache_peak
        assert stats.window_frags <= 400
        return [torch.equal(t, torch.arange(ELEMS) * k * 3 + 3) for k, t in enumerate(tensors)]

    options = {"switch": shared_switch, "job": job, "ahead": 400, "cache": cache}
    everyone(ranks(3, work, **options), [True] * 8)


def test_running_ahead_is_not_granted_by_every_switch(switch, job):
    def work(comm):
        comm.allreduce(torch.ones(ELEMS))
        return comm.stats().ahead_asked, comm.stats().ahead_frags

    everyone(ranks(2, work, switch=switch, job=job, ahead=400), (400, 0))


def test_mismatch_names_both(switch, job):
    def work(comm):
        comm.allreduce(torch.zeros(10 + comm.rank))

    for error in ranks(2, work, switch=switch, job=job):
        assert isinstance(error, fanin.MismatchError)
        assert "rank 0" in str(error) and "rank 1" in str(error) and error.code == -10


def test_scatter_and_gather(switch, job):
    def work(comm):
        whole = numpy.arange(12, dtype="float64") * (comm.rank + 1)
        share, gathered = numpy.zeros(4), numpy.zeros(12)
        comm.reduce_scatter(whole, share)
        comm.allgather(share, gathered)
        with pytest.raises(ValueError, match="3 times as many"):
            comm.allgather(share, numpy.zeros(8))
        return gathered.tolist()

    assert ranks(3, work, switch=switch, job=job) == [[6.0 * i for i in range(12)]] * 3
    with fanin.Communicator(rank=0, ranks=1) as alone:
        assert alone.allgather(numpy.ones(3), numpy.zeros(3)).tolist() == [1, 1, 1]


def test_refused_tensors_send_nothing(switch, job):
    def work(comm):
        for bad in (torch.zeros(4, 4).t(), torch.zeros(4, dtype=torch.int16), [1.0]):
            with pytest.raises((TypeError, ValueError)):
                comm.allreduce(bad)
        with pytest.raises(ValueError, match="'product': expected sum, avg, min, max"):
            comm.allreduce(torch.zeros(4), "product")
        with pytest.raises(ValueError, match="expected the same"):
            comm.allreduce(torch.zeros(4), out=torch.zeros(5))
        whole = torch.zeros(8)
        with pytest.raises(ValueError, match="overlaps"):
            comm.allreduce(whole[0:6], out=whole[2:8])
        with pytest.raises(fanin.InvalidError):
            comm.broadcast(torch.zeros(4), root=7)
        return comm.allreduce(torch.ones(1)).item()

    everyone(ranks(2, work, switch=switch, job=job), 2.0)


def test_a_rank_that_leaves_is_named(switch, job):
    def work(comm):
        if comm.rank == 0:
            comm.allreduce(torch.zeros(10))

    error, left = ranks(2, work, switch=switch, job=job)
    assert left is None
    assert isinstance(error, fanin.RankLeftError) and "rank 1" in str(error)


def test_a_rank_that_does_not_take_part_is_named(switch, job):
    begun, named = time.monotonic(), threading.Event()

    def work(comm):
        if comm.rank == 1:
            named.wait(WAIT_S)
            return
        try:
            comm.allreduce(torch.zeros(10))
        finally:
            named.set()

    error, _ = ranks(2, work, switch=switch, job=job, timeout=3)
    assert isinstance(error, fanin.StalledError) and "rank 1" in str(error)
    assert isinstance(error, TimeoutError)
    assert time.monotonic() - begun < WAIT_S / 2


def test_a_controller_that_does_not_answer_is_named(job):
    with pytest.raises(fanin.UnreachableError) as caught:
        fanin.Communicator(controller="127.0.0.1:9", job=job, rank=0, ranks=2, timeout=0.5)
    assert "the controller 127.0.0.1:9 does not answer" in str(caught.value)
    with pytest.raises(fanin.ConfigError) as caught:
        fanin.Communicator("127.0.0.1:9", job, 0, 2, controller="127.0.0.1:9")
    assert "expected one of them" in str(caught.value)


def test_a_killed_switch_is_named(own_switch, job):
    def work(comm):
        comm.barrier()
        if comm.rank == 0:
            own_switch.stop(signal.SIGKILL)
        with pytest.raises(fanin.UnreachableError) as caught:
            for _ in range(1000):
                comm.allreduce(torch.zeros(ELEMS))
        assert own_switch.address in str(caught.value) and comm.error == str(caught.value)
        with pytest.raises(fanin.UnreachableError):
            comm.barrier()
        return True

    everyone(ranks(2, work, switch=own_switch.address, job=job, timeout=4, alive=3), True)


def test_a_switch_that_is_told_to_stop_says_so(own_switch, job):
    def work(comm):
        comm.barrier()
        if comm.rank == 0:
            own_switch.stop()
        with pytest.raises(fanin.UnreachableError, match="is being stopped"):
            while True:
                comm.allreduce(torch.zeros(ELEMS))
        return True

    everyone(ranks(2, work, switch=own_switch.address, job=job, timeout=600, alive=600), True)


def test_missing_ranks_are_counted_when_joining(switch, job):
    with pytest.raises(fanin.JoinTimeoutError, match="1"):
        fanin.Communicator(switch, job, 0, 2, timeout=3)  # in which the switch has answered


def test_a_rank_taken_is_refused(switch, job):
    def work(comm):
        comm.barrier()
        with pytest.raises(fanin.RefusedError, match="rank 1"):
            fanin.Communicator(switch, job, 1, 2, timeout=2, run="a")
        comm.barrier()
        return True

    everyone(ranks(2, work, switch=switch, job=job, run="a"), True)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"mode": "exact"}, "mode 'exact': expected native, fixed"),
        ({"wire": "int4"}, "wire 'int4'"),
        ({"timeout": 0}, "timeout 0: expected seconds"),
        ({"timeout": float("nan")}, "timeout nan"),
        ({"rank": -1}, "rank -1"),
        ({"rank": 2, "ranks": 2}, "rank 2 of 2 ranks"),
        ({"ranks": 257}, "257"),
        ({"mtu": 100}, "100"),
        ({"switch": "nowhere"}, "nowhere"),
        ({"job": "x" * 64}, "job"),
        ({"mode": "fixed", "wire": "float16"}, "fixed"),
        ({"mode": "fixed", "wire": "int8"}, "fixed"),
    ],
)
def test_bad_options(options, words):
    arguments = {"switch": "127.0.0.1:9", "job": "j", "rank": 0, "ranks": 2, **options}
    with pytest.raises(ValueError, match=words):
        fanin.Communicator(**arguments)


def test_abandoned_operations_keep_their_memory(switch, job):
    def work(comm):
        if comm.rank == 0:
            time.sleep(0.5)  # the other rank's operations cannot end yet
        for _ in range(20):
            comm.allreduce_start(torch.ones(ELEMS))
        gc.collect()
        result = comm.allreduce(torch.ones(10))[0].item()
        comm.barrier()
        assert len(comm._open.abandoned) <= 20
        comm.barrier()
        return result

    everyone(ranks(2, work, switch=switch, job=job), 2.0)


def test_closing_ends_operations(switch, job):
    closed = threading.Event()

    def work(comm):
        if comm.rank == 1:
            closed.wait(WAIT_S)
            return True
        op = comm.allreduce_start(torch.zeros(10))
        comm.close()
        comm.close()
        closed.set()
        with pytest.raises(fanin.ClosedError):
            op.wait()
        with pytest.raises(fanin.ClosedError):
            comm.barrier()
        with pytest.raises(fanin.ClosedError):
            comm.stats()
        assert repr(comm) == "<fanin.Communicator closed>"
        return True

    everyone(ranks(2, work, switch=switch, job=job), True)


def test_closing_wakes_a_thread_that_waits(switch, job):
    closed = threading.Event()

    def work(comm):
        if comm.rank == 1:
            closed.wait(WAIT_S)
            return "ClosedError"
        caught, begins = [], threading.Event()

        def wait():
            begins.set()
            try:
                comm.allreduce(torch.zeros(10))
            except fanin.FaninError as error:
                caught.append(type(error).__name__)

        thread = threading.Thread(target=wait)
        thread.start()
        begins.wait(WAIT_S)
        time.sleep(0.3)  # so that mostly it waits by then; it ends alike where it does not
        comm.close()
        closed.set()
        thread.join(WAIT_S)
        assert not thread.is_alive()
        return caught[0]

    everyone(ranks(2, work, switch=switch, job=job), "ClosedError")


def test_waiting_has_a_limit(switch, job):
    def work(comm):
        if comm.rank == 0:
            op = comm.allreduce_start(torch.ones(10))
            assert not op.done()
            with pytest.raises(TimeoutError, match="not ended within 0.1 s"):
                op.wait(0.1)
            comm_of_other.set()
            return op.wait()[0].item()
        comm_of_other.wait(WAIT_S)
        return comm.allreduce(torch.ones(10))[0].item()

    comm_of_other = threading.Event()
    everyone(ranks(2, work, switch=switch, job=job), 2.0)


def test_an_operation_keeps_its_communicator(switch, job):
    def start(rank):
        return fanin.Communicator(switch, job, rank, 2).allreduce_start(torch.ones(10))

    results = []
    threads = [
        threading.Thread(target=lambda rank=rank: results.append(start(rank).wait()[0].item()))
        for rank in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    gc.collect()
    assert results == [2.0, 2.0]


def test_a_child_of_fork_gets_an_error(switch, job):
    def work(comm):
        comm.barrier()
        if comm.rank == 0:
            pid = os.fork()
            if pid == 0:
                try:
                    comm.allreduce(torch.zeros(3))
                except fanin.ClosedError:
                    os._exit(7)
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        return comm.allreduce(torch.ones(3))[0].item()

    everyone(ranks(2, work, switch=switch, job=job), 2.0)


def test_the_file_says_how_tensors_travel(switch, job, monkeypatch, tmp_path):
    (tmp_path / "fanin.ini").write_text("[worker]\nwire = int8\n")
    monkeypatch.setenv("FANIN_CONFIG", str(tmp_path / "fanin.ini"))
    everyone(ranks(2, lambda comm: comm.wire, switch=switch, job=job), "int8")


def test_a_job_of_one_rank_needs_no_switch(monkeypatch):
    with fanin.Communicator(rank=0, ranks=1) as comm:
        tensor = torch.arange(10.0)
        out = torch.zeros(10)
        assert comm.allreduce(tensor, "avg", out) is out and bool((out == tensor).all())
        assert comm.broadcast(tensor) is tensor and comm.barrier() is None
        assert (comm.rank, comm.size, comm.switch, comm.stats().ops) == (0, 1, "", 0)
        with pytest.raises(TypeError):
            comm.allreduce([1.0])
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    with fanin.Communicator() as comm:
        assert comm.size == 1


def test_ranks_of_one_host_share_memory(monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(free_port()))

    def work(comm):
        assert comm.switch == "shared memory on 1 host"
        total = comm.allreduce(torch.ones(ELEMS))[-1].item()
        assert (comm.stats().hosts, comm.stats().host_ranks) == (1, 3)
        return total

    everyone(ranks(3, work), 3.0)


def test_ranks_meet_at_rank_0(monkeypatch):
    monkeypatch.setenv("FANIN_LOCAL", "0")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(free_port()))

    def work(comm):
        assert comm.switch == f"127.0.0.1:{os.environ['MASTER_PORT']} (inside rank 0)"
        return comm.allreduce(torch.ones(ELEMS))[-1].item()

    everyone(ranks(3, work), 3.0)


def test_groups_sum_among_some_ranks(switch, job):
    def work(comm):
        pair = [0, 2] if comm.rank != 1 else [1]
        with comm.group("pair", pair) as group, comm.group("all", [2, 1, 0]) as everyone:
            assert (group.rank, group.size) == (pair.index(comm.rank), len(pair))
            assert everyone.rank == 2 - comm.rank
            total = group.allreduce(numpy.full(3, comm.rank + 1.0, "float32"))
            first = everyone.broadcast(numpy.full(2, comm.rank, "int32"), 0)
        with pytest.raises(ValueError, match="among them"):
            comm.group("other", [(comm.rank + 1) % 3])
        comm.barrier()
        return total.tolist() + first.tolist()

    answers = ranks(3, work, switch=switch, job=job)
    assert answers == [[4, 4, 4, 2, 2], [2, 2, 2, 2, 2], [4, 4, 4, 2, 2]]


def test_errors_can_be_pickled():
    error = errors.from_code(-7, "rank 3 stopped answering")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is fanin.RankLostError
    assert (str(again), again.code) == ("rank 3 stopped answering", -7)
    assert type(errors.from_code(-999, "new")) is fanin.FaninError


def test_a_host_that_sums_nothing_is_named():
    one = Stats(idle_hosts=1, idle_rank=2, idle_misses=3)
    assert _report.idle(one).startswith("the host of rank 2 sums nothing: 3 ranks do not reach the")
    more = Stats(idle_hosts=3, idle_rank=0)
    assert _report.idle(more) == (
        "the host of rank 0 (and 2 more) sums nothing: it could start no switch"
    )


def test_what_a_join_waits_for_is_logged(caplog, switch, job):
    """A rank warns while others are missing, and once more when they are there."""
    joined = {}

    def join(rank):
        joined[rank] = fanin.Communicator(switch, job=job, rank=rank, ranks=2)

    def told():
        return [record.getMessage() for record in caplog.records]

    waits = f'fanin: rank 0: waits for rank 1 of 2 to join job "{job}"; gives up in '
    first = threading.Thread(target=join, args=(0,), daemon=True)
    with caplog.at_level(logging.WARNING, "fanin"):
        first.start()
        until = time.monotonic() + WAIT_S
        while not any(text.startswith(waits) for text in told()):
            assert time.monotonic() < until, told()
            time.sleep(0.05)
        join(1)
        first.join(WAIT_S)
    assert told()[-1] == "fanin: rank 0: all ranks have joined"
    for comm in joined.values():
        comm.close()


def test_a_switch_that_is_not_there_is_logged(caplog, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "0")
    with caplog.at_level(logging.DEBUG, "fanin"):
        with pytest.raises(errors.UnreachableError):
            fanin.Communicator("127.0.0.1:9", rank=3, ranks=4, timeout=5)
        monkeypatch.setenv("LOCAL_RANK", "1")
        with pytest.raises(errors.UnreachableError):
            fanin.Communicator("127.0.0.1:9", rank=3, ranks=4, timeout=5)
    told = [(record.levelno, record.getMessage()) for record in caplog.records]
    expected = "fanin: rank 3: waits for the switch 127.0.0.1:9: port unreachable; gives up in "
    assert {level for level, _ in told} == {logging.WARNING, logging.DEBUG}
    assert all(text.startswith(expected) for _, text in told)


def test_an_interrupt_while_a_join_waits_is_raised(monkeypatch, switch, job):
    """As Ctrl-C, which Python notices in the callback and C would swallow."""

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_waiting.logger, "log", interrupt)
    with pytest.raises(KeyboardInterrupt):
        _waiting.begin()
        _waiting._tell(1, b"waits")
        _waiting.end(0)
    _waiting.begin()
    _waiting.end(0)
