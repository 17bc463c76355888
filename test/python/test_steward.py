# SPDX-License-Identifier: Apache-2.0
"""The process that goes on with the embedded switch of a rank's process when that has ended.

Programs are fresh processes: what is looked at is which of them are there.
"""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from conftest import BUILD, ROOT, free_port

LIMIT_S = 600  # nothing here takes a tenth of that

RANKS = """
    import os, sys, threading
    import numpy
    import fanin

    def run(rank):
        comms[rank] = fanin.Communicator(rank=rank, ranks=2, job=sys.argv[1], timeout=30)
        total = numpy.full(10, float(rank + 1), dtype=numpy.float32)
        comms[rank].allreduce(total)
        assert (total == 3).all()
        comms[rank].barrier()

    comms = [None, None]
    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert None not in comms
    print("ready", flush=True)
    sys.stdin.readline()
"""


def stewards(pid):
    """The stewards of process `pid`."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if name.isdigit() and b"of process %d" % pid in words:
            found.append(int(name))
    return found


def wait_until(holds):
    """Until `holds()`, for LIMIT_S at most."""
    until = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


class Program:
    """Two ranks in a process, whose last lines are `end`."""

    def __init__(self, end, port, job="steward", **variables):
        env = dict(os.environ, PYTHONPATH=str(ROOT / "python"), FANIN_LOCAL="0", **variables)
        env.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(RANKS) + textwrap.dedent(end), job],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid

    def go_on(self):
        """To its end; its exit status, once whoever holds its output has ended as well."""
        self.process.communicate("\n", timeout=LIMIT_S)
        return self.process.returncode


CLOSE = """
    for comm in comms:
        comm.close()
    print("closed", flush=True)
    sys.stdin.readline()
"""


def test_it_is_no_child_and_holds_no_file_of_the_rank():
    program = Program("os._exit(0)", free_port())
    (steward,) = stewards(program.pid)
    with open(f"/proc/{steward}/stat", encoding="ascii") as file:
        assert int(file.read().rpartition(")")[2].split()[1]) != program.pid
    assert os.getpgid(steward) != os.getpgid(program.pid)
    assert {os.readlink(f"/proc/{steward}/fd/{fd}") for fd in (0, 1, 2)} == {"/dev/null"}
    assert program.go_on() == 0  # its output has ended with it
    wait_until(lambda: not stewards(program.pid))


def test_it_ends_with_the_last_communicator():
    program = Program(CLOSE, free_port())
    assert len(stewards(program.pid)) == 1
    program.process.stdin.write("\n")
    program.process.stdin.flush()
    assert program.process.stdout.readline() == "closed\n"
    assert not stewards(program.pid)
    assert program.go_on() == 0


@pytest.mark.parametrize("end", ["os._exit(7)", "os.kill(os.getpid(), 9)"])
def test_it_outlives_the_rank_and_leaves_the_port_to_the_next(end):
    port = free_port()
    first = Program(end, port)
    steward = stewards(first.pid)
    assert first.go_on() != 0
    second = Program("os._exit(0)", port)  # which waits for ten seconds at most
    wait_until(lambda: not stewards(first.pid))
    assert stewards(second.pid) != steward
    assert second.go_on() == 0


def test_a_strangers_job_does_not_keep_the_port():
    port = free_port()
    first = Program("os._exit(0)", port)
    stranger = Program(
        "os._exit(0)",
        port,
        job="stranger",
        FANIN_SWITCH=f"127.0.0.1:{port}",
        FANIN_HOSTS="0",
        FANIN_ALIVE_MS="1000",  # which is heard each eighth of it
    )
    assert first.go_on() == 0
    second = Program("os._exit(0)", port)
    assert second.go_on() == 0
    stranger.process.kill()
    stranger.process.communicate()


def test_a_child_of_fork_does_not_keep_it():
    end = """
        child = os.fork()
        if child == 0:
            os.close(1)
            signal = __import__("signal")
            signal.alarm(120)
            signal.pause()
        print(child, flush=True)
        os._exit(0)
    """
    program = Program(end, free_port())
    assert len(stewards(program.pid)) == 1
    output, _ = program.process.communicate("\n", timeout=LIMIT_S)
    try:
        wait_until(lambda: not stewards(program.pid))
    finally:
        os.kill(int(output), signal.SIGKILL)


def test_without_one_the_switch_is_in_the_process():
    program = Program(CLOSE, free_port(), FANIN_STEWARD="0")
    assert not stewards(program.pid)
    assert program.go_on() == 0


AGAIN = """
    again = [comm.barrier_start() for comm in comms]
    for op in again:
        op.wait()
    print("again", flush=True)
    os._exit(0)
"""


def test_one_that_is_killed_is_not_missed():
    program = Program(AGAIN, free_port())
    (steward,) = stewards(program.pid)
    os.kill(steward, signal.SIGKILL)
    output, _ = program.process.communicate("\n", timeout=LIMIT_S)
    assert output == "again\n"


def sockets(pid):
    """Sockets that `pid` has, by their numbers."""
    names = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    return {name for name in names if name.startswith("socket:")}


@pytest.mark.parametrize("sealed", [False, True])
def test_it_watches_over_the_switch_or_runs_a_sealed_one(tmp_path, sealed):
    """The switch's own socket is in both processes, or in the steward's alone."""
    variables = {}
    if sealed:
        fabric, key = tmp_path / "fabric", tmp_path / "key"
        for words in (["new"], ["job", "steward", "--key", fabric]):
            out = fabric if words == ["new"] else key
            subprocess.run([BUILD / "fanin", "key", *words, "--out", out], check=True)
        variables = {"FANIN_KEY_FILE": str(key)}
    program = Program(AGAIN, free_port(), **variables)
    (steward,) = stewards(program.pid)
    assert bool(sockets(steward) & sockets(program.pid)) != sealed
    output, _ = program.process.communicate("\n", timeout=LIMIT_S)
    assert output == "again\n"
    wait_until(lambda: not stewards(program.pid))
