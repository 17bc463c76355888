# SPDX-License-Identifier: Apache-2.0
"""PyTorch programs under mpirun, and what each launcher's variables come to."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, WAIT_S, free_port

from fanin import _launcher, _meeting

SCRIPT = [str(Path(__file__).parent / "launched.py")]
TRAINING = [str(ROOT / "examples" / "train_text.py"), "--steps", "20"]


@pytest.mark.parametrize("script", [SCRIPT, TRAINING], ids=["sum", "training"])
@pytest.mark.parametrize(
    "mpirun", [["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"], ["mpirun.mpich"]]
)
def test_mpirun_needs_no_option(mpirun, script):
    if shutil.which(mpirun[0]) is None:
        pytest.skip(f"SKIPPED: no {mpirun[0]} here")
    env = dict(os.environ, PYTHONPATH=str(ROOT / "python"), OMP_NUM_THREADS="1")
    done = subprocess.run(
        [*mpirun, "-n", "2", sys.executable, *script],
        env=env,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert done.returncode == 0, done.stderr
    assert "fanin: active, 2 ranks through shared memory" in done.stdout


# What launchers set, in part: Slurm 22.05 in a step of an allocation, Open MPI 4.1, MPICH 4.0.
MPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
BATCH = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NODELIST": "a1,b[2-3]",
    "SLURM_PROCID": "0",
    "SLURM_NTASKS": "16",
    "SLURM_NPROCS": "16",
    "SLURM_LOCALID": "0",
}
STEP = dict(
    BATCH,
    SLURM_PROCID="2",
    SLURM_NTASKS="4",
    SLURM_LOCALID="1",
    SLURM_STEP_ID="3",
    SLURM_STEP_NUM_TASKS="4",
    SLURM_STEP_NUM_NODES="2",
    SLURM_STEP_NODELIST="b[2-3]",
)
OLD_STEP = {
    key: STEP[key] for key in STEP if key not in ("SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST")
}
PMI = {"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "4", "MPI_LOCALRANKID": "2"}
# mpirun of MPICH inside an allocation: its processes are a step of one task a host
PMI_STEP = dict(STEP, SLURM_PROCID="0", SLURM_STEP_NUM_TASKS="1", SLURM_LOCALID="0", **PMI)


@pytest.mark.parametrize(
    "given, host",
    [
        (MPI, "127.0.0.1"),
        (dict(BATCH, **MPI), "127.0.0.1"),
        (dict(MPI, OMPI_COMM_WORLD_LOCAL_SIZE="2"), None),
        (STEP, "b2"),
        (OLD_STEP, "a1"),
        (dict(STEP, SLURM_STEP_NODELIST="node[03-05,9],other"), "node03"),
        (dict(STEP, SLURM_STEP_NODELIST="r[1-2]n[5,7],a"), "r1n5"),
        (dict(STEP, SLURM_STEP_NODELIST="", SLURM_JOB_NODELIST=""), None),
        (dict(STEP, PMI_RANK="2", PMI_SIZE="4"), "b2"),  # srun --mpi=pmi2
        (PMI, "127.0.0.1"),
        (PMI_STEP, "127.0.0.1"),
        (dict(PMI_STEP, MPI_LOCALNRANKS="2"), "b2"),
        (dict(PMI, MPI_LOCALNRANKS="2"), None),
        (dict(PMI, MPI_LOCALNRANKS="2", MASTER_ADDR="here"), "here"),
    ],
)
def test_variables_of_launchers(given, host):
    env = dict(given)
    _launcher.complete(env)
    assert (env["RANK"], env["WORLD_SIZE"]) == ("2", "4")
    assert env.get("MASTER_ADDR") == host
    port = int(env["MASTER_PORT"])
    assert _launcher.FIRST_PORT <= port < _launcher.FIRST_PORT + _launcher.PORTS


def test_the_script_of_an_allocation_is_no_rank():
    env = dict(BATCH)
    _launcher.complete(env)
    assert env == BATCH
    assert _launcher.size(BATCH) == ""
    assert _launcher.size(dict(BATCH, FANIN_RANKS="1")) == "1"
    assert _launcher.size(dict(BATCH, SLURM_STEP_ID="0", SLURM_STEP_NUM_TASKS="1")) == "1"
    assert _launcher.size(PMI_STEP) == "4"


def test_what_is_set_stays():
    env = dict(MPI, RANK="0", WORLD_SIZE="1")
    _launcher.complete(env)
    assert env == dict(MPI, RANK="0", WORLD_SIZE="1")
    nothing = {"PATH": "/bin"}
    _launcher.complete(nothing)
    assert nothing == {"PATH": "/bin"}


class Store:
    """A store of torch.distributed, as far as a meeting asks it."""

    def __init__(self):
        self.values = {}

    def set(self, key, value):
        self.values[key] = value

    def add(self, key, count):
        self.values[key] = self.values.get(key, 0) + count
        return self.values[key]

    def read(self, key):
        return self.values[key]


TORCHRUN = {
    "MASTER_ADDR": "",
    "MASTER_PORT": "",
    "TORCHELASTIC_USE_AGENT_STORE": "",
    "TORCHELASTIC_RESTART_COUNT": "",
}
OF_OTHERS = "203.0.113.7"  # TEST-NET-3: no address of this host


def meet(monkeypatch, of_first, of_other):
    """(what rank 0 takes, what another rank takes) with these variables of each, and the store."""
    store, taken = Store(), []
    for variables in (of_first, of_other):
        for name, value in dict(TORCHRUN, **variables).items():
            monkeypatch.setenv(name, value)
        heard = _meeting.hear(store, store.read) if taken else _meeting.tell(store)
        taken.append(heard)
    return *taken, store


def test_ranks_meet_at_the_master():
    port = str(free_port())
    with pytest.MonkeyPatch.context() as patch:
        master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        first, other, _ = meet(patch, master, master)
        assert first == other and first.address == f"127.0.0.1:{port}"
        theirs = dict(master, MASTER_ADDR="::1")
        first, other, _ = meet(patch, master, theirs)
        assert (first.address, other.address) == (f"127.0.0.1:{port}", f"[::1]:{port}")


def test_a_port_that_is_taken_is_not_used():
    with pytest.MonkeyPatch.context() as patch, socket.socket(type=socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(one.getsockname()[1])}
        first, other, _ = meet(patch, master, master)
        assert first == other and first.port != master["MASTER_PORT"]


def test_the_store_is_on_another_host_than_rank_0(monkeypatch):
    """torchrun from 2.4 on."""
    agent = {
        "MASTER_ADDR": OF_OTHERS,
        "MASTER_PORT": str(free_port()),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    monkeypatch.setattr(_meeting, "local_address", lambda host: "198.51.100.1")
    first, other, _ = meet(monkeypatch, agent, agent)
    assert first == other and first.host == "198.51.100.1"
    nobodys = dict(agent, TORCHELASTIC_USE_AGENT_STORE="")  # rank 0's, behind another address
    first, other, _ = meet(monkeypatch, nobodys, nobodys)
    assert first == other and first.host == OF_OTHERS


def test_restarts_are_counted_as_rank_0_counts_them(monkeypatch):
    """Agents count their own failures: after one the ranks of others have been restarted less often."""
    master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    first, other, _ = meet(
        monkeypatch,
        dict(master, TORCHELASTIC_RESTART_COUNT="1"),
        dict(master, TORCHELASTIC_RESTART_COUNT="0"),
    )
    assert first == other and other.variables["TORCHELASTIC_RESTART_COUNT"] == "1"


def test_rank_0_learns_its_address_where_its_own_name_is_loopback(monkeypatch):
    master = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
    seen = {"localhost": "127.0.0.1", "pod-0": "198.51.100.2", "198.51.100.2": "198.51.100.1"}
    monkeypatch.setattr(_meeting, "local_address", lambda host: seen.get(host, ""))
    first, other, store = meet(monkeypatch, master, dict(master, MASTER_ADDR="pod-0"))
    assert (first.host, other.host) == ("localhost", "pod-0")
    assert _meeting.own_address(store, store.read) == "198.51.100.2"
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    assert _meeting.own_address(store, store.read) == "198.51.100.1"
    first, other, store = meet(monkeypatch, master, master)  # all on one host
    assert _meeting.own_address(store, store.read) == "127.0.0.1"
