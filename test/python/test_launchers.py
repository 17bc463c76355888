# SPDX-License-Identifier: Apache-2.0
"""PyTorch programs under mpirun, and what each launcher's variables come to."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest
import warm
from conftest import ROOT, WAIT_S, free_port, ranks

import fanin
from fanin import _launcher, _meeting

SCRIPT = [str(Path(__file__).parent / "launched.py"), "summed"]
TRAINING = [str(ROOT / "examples" / "train_text.py"), "--steps", "20"]


@pytest.mark.parametrize(
    "mpirun, script",
    [
        (["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"], TRAINING),
        (["mpirun.mpich"], SCRIPT),
    ],
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
    ],
)
def test_variables_of_launchers(given, host):
    env = dict(given)
    _launcher.complete(env)
    assert (env["RANK"], env["WORLD_SIZE"]) == ("2", "4")
    assert env.get("MASTER_ADDR") == host
    port = int(env["MASTER_PORT"])
    assert _launcher.FIRST_PORT <= port < _launcher.FIRST_PORT + _launcher.PORTS


@pytest.mark.parametrize(
    "given, said", [({}, False), ({"MASTER_ADDR": "here"}, True), ({"MASTER_PORT": "9"}, False)]
)
@pytest.mark.parametrize("local", [{"MPI_LOCALNRANKS": "2"}, {"MPI_LOCALNRANKS": ""}])
def test_mpich_on_several_hosts_tells_no_port_that_all_of_them_know(given, said, local, caplog):
    """Each host had another one, and its ranks waited for those of the other hosts."""
    env = dict(PMI, **local, **given)
    _launcher.complete(env)
    assert (env["RANK"], env["WORLD_SIZE"]) == ("2", "4")
    assert env.get("MASTER_PORT") == given.get("MASTER_PORT")
    assert ("-genv MASTER_PORT" in caplog.text) == said


def test_the_script_of_an_allocation_is_no_rank():
    env = dict(BATCH)
    _launcher.complete(env)
    assert env == BATCH
    assert _launcher.size(BATCH) == ""
    assert _launcher.size(dict(BATCH, FANIN_RANKS="1")) == "1"
    assert _launcher.size(dict(BATCH, SLURM_STEP_ID="0", SLURM_STEP_NUM_TASKS="1")) == "1"
    assert _launcher.size(PMI_STEP) == "4"


def test_a_shell_in_an_allocation_is_no_rank():
    shell = dict(STEP, SLURM_PROCID="0", SLURM_STEP_NUM_TASKS="1", SLURM_LOCALID="0")
    for mark in ({"SLURM_PTY_PORT": "41234"}, {"SLURM_JOB_NAME": "bash"}):
        env = dict(shell, **mark)  # srun --pty bash
        _launcher.complete(env)
        assert "RANK" not in env and "LOCAL_RANK" not in env
        assert _launcher.size(env) == ""
        ranks = dict(STEP, **mark)  # srun python3 in that shell
        _launcher.complete(ranks)
        assert (ranks["RANK"], ranks["LOCAL_RANK"]) == ("2", "1")


# What frameworks that start ranks set, of rank 0 and of another one; the address where these meet.
# Ray 2.60 (ray/train/torch/config.py; init_method="tcp" sets no MASTER_ADDR), Lightning 2.6.6
# (fabric/strategies/launchers/subprocess_script.py; plugins/environments), DeepSpeed 0.19.8
# (launcher/launch.py), Kubeflow's PyTorchJob.
RAY = {"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
RAY_RANKS = tuple(
    dict(RAY, RANK=rank, LOCAL_RANK=rank, NODE_RANK="0", ACCELERATE_TORCH_DEVICE="cpu")
    for rank in ("0", "1")
)
LIGHTNING = {"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "2", "NODE_RANK": "0"}
LIGHTNING_SLURM = {"MASTER_ADDR": "localhost", "SLURM_JOB_ID": "7", "SLURM_NTASKS": "2"}
JSM = {"MASTER_ADDR": "localhost", "JSM_NAMESPACE_SIZE": "2", "LSB_JOBID": "9"}
DEEPSPEED = {"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "2", "LOCAL_SIZE": "2", "CROSS_SIZE": "1"}


@pytest.mark.parametrize(
    "of_first, of_other, host",
    [
        (*RAY_RANKS, "127.0.0.1"),
        (dict(LIGHTNING, LOCAL_RANK="0"), dict(LIGHTNING, LOCAL_RANK="1"), "127.0.0.1"),
        (
            dict(LIGHTNING_SLURM, SLURM_PROCID="0", SLURM_LOCALID="0"),
            dict(LIGHTNING_SLURM, SLURM_PROCID="1", SLURM_LOCALID="1"),
            "localhost",
        ),
        (dict(JSM, JSM_NAMESPACE_RANK="0"), dict(JSM, JSM_NAMESPACE_RANK="1"), "localhost"),
        (dict(DEEPSPEED, RANK="0"), dict(DEEPSPEED, RANK="1"), "127.0.0.1"),
    ],
    ids=["Ray", "Lightning", "Lightning-Slurm", "Lightning-LSF", "DeepSpeed"],
)
def test_ranks_of_frameworks_meet(monkeypatch, of_first, of_other, host):
    port = str(free_port())
    of_first, of_other = (dict(one, MASTER_PORT=port) for one in (of_first, of_other))
    for one in (of_first, of_other):
        env = dict(one)
        _launcher.complete(env)
        assert env == one  # nothing is made up of what a scheduler says
    first, other, _ = meet(monkeypatch, of_first, of_other)
    assert first == other and first.address == f"{host}:{port}"


@pytest.mark.parametrize("init_method", ["env", "tcp"])
def test_ranks_of_ray_sum(init_method, tmp_path):
    """As its workers begin: MASTER_ADDR is set with init_method "env" alone, the rest before the group."""
    port = str(free_port())
    url = "env://" if init_method == "env" else f"tcp://127.0.0.1:{port}"
    master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port} if init_method == "env" else {}
    path = {"PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    plain = {key: value for key, value in os.environ.items() if not key.startswith("MASTER_")}
    script = (
        "import sys, torch, torch.distributed as dist, fanin.torch\n"
        "rank = int(sys.argv[1])\n"
        "dist.init_process_group('fanin', init_method=sys.argv[2], rank=rank, world_size=2)\n"
        "total = torch.full((5,), rank + 1.0)\n"
        "dist.all_reduce(total)\n"
        "assert total.tolist() == [3.0] * 5, total\n"
        "print(fanin.torch.summary())\n"
    )
    (tmp_path / "worker.py").write_text(script)
    ranks = []
    for rank, variables in enumerate(RAY_RANKS):
        told = {key: value for key, value in variables.items() if key != "MASTER_ADDR"}
        env = dict(plain, **told, **master, **path)
        said = (tmp_path / f"rank{rank}").open("w+")
        command = [str(tmp_path / "worker.py"), str(rank), url]
        ranks.append((warm.Process(command, env, said, said), tmp_path / f"rank{rank}"))
    for process, said in ranks:
        assert process.wait(WAIT_S) == 0, said.read_text()
        assert "fanin: active, 2 ranks" in said.read_text()


def test_what_is_set_stays():
    env = dict(MPI, RANK="0", WORLD_SIZE="1")
    _launcher.complete(env)
    assert env == dict(MPI, RANK="0", WORLD_SIZE="1")
    nothing = {"PATH": "/bin"}
    _launcher.complete(nothing)
    assert nothing == {"PATH": "/bin"}


class Store:
    """A store of torch.distributed, as far as a meeting asks it."""

    host = ""

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


def meet(monkeypatch, of_first, of_other, hosts=("", "")):
    """(what rank 0 takes, what another rank takes) with these variables and hosts of the store of each, and
    the store."""
    store, taken, words = Store(), [], []
    for variables, store.host in zip((of_first, of_other), hosts):
        for name, value in dict(TORCHRUN, **variables).items():
            monkeypatch.setenv(name, value)
        words = words if taken else _meeting.choose(store)
        taken.append(_meeting.hear(words, store) if taken else _meeting.chosen(words))
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
    assert _meeting.own_address(store, store.read, other.host) == "198.51.100.2"
    assert _meeting.own_address(store, store.read, first.host) == "198.51.100.1"
    first, other, store = meet(monkeypatch, master, master)  # all on one host
    assert _meeting.own_address(store, store.read, first.host) == "127.0.0.1"


@pytest.mark.parametrize(
    "hosts, taken",
    [
        (("here", "here"), ("here", "here")),  # tcp://here:PORT
        (("here", "198.51.100.2"), ("here", "198.51.100.2")),
        (("localhost", "198.51.100.2"), ("own", "198.51.100.2")),
        (("127.0.0.1", "127.0.0.1"), ("own", "own")),
        (("far", "far"), ("198.51.100.1", "198.51.100.1")),  # a store of neither
        (("", ""), ("own", "own")),  # file://
    ],
)
def test_ranks_without_variables_meet_at_the_host_of_the_store(monkeypatch, hosts, taken):
    """Its own name may be loopback to rank 0, and unknown to others."""
    monkeypatch.setattr(_meeting, "_own_host", lambda: "own")
    monkeypatch.setattr(_meeting, "_is_this_host", lambda host: host != "far")
    monkeypatch.setattr(_meeting, "local_address", lambda host: "198.51.100.1")
    first, other, _ = meet(monkeypatch, {}, {}, hosts)
    assert (first.host, other.host) == taken and first.port == other.port


def assert_all(outcome, expected):
    assert outcome == [expected] * len(outcome), outcome


def test_launches_of_one_name_sum_their_own(switch, job):
    def work(comm):
        other = fanin.Communicator(switch, job, comm.rank, 2, run="b")
        mine, theirs = numpy.ones(9, "float32"), numpy.full(9, 5, "float32")
        for _ in range(5):
            comm.allreduce(mine)
            other.allreduce(theirs)
        other.close()
        return mine[0], theirs[8]

    assert_all(ranks(2, work, switch=switch, job=job, run="a"), (32, 160))


@pytest.mark.parametrize("local", ["0", "1"])
def test_two_launches_without_an_id_all_end(switch, job, local, monkeypatch):
    monkeypatch.setenv("FANIN_LOCAL", local)
    intruder = [
        sys.executable,
        "-c",
        f"import fanin; fanin.Communicator({switch!r}, {job!r}, 1, 2)",
    ]
    env = {**os.environ, "FANIN_LOCAL": local, "PYTHONPATH": str(ROOT / "python")}

    def work(comm):
        comm.barrier()
        if comm.rank == 0:
            said = subprocess.run(
                intruder, env=env, capture_output=True, text=True, timeout=WAIT_S, check=False
            ).stderr
            assert "LaunchesError: two launches use the name" in said
            assert "rank 1 was started at 127.0.0.1 and at 127.0.0.1" in said
        # one that is in an operation may hear first that the other has left
        words = "give each launch a FANIN_JOB or a FANIN_RUN|rank 0 left"
        with pytest.raises((fanin.LaunchesError, fanin.RankLeftError), match=words):
            for _ in range(2000):
                time.sleep(0.005)
                comm.barrier()
        return True

    assert_all(ranks(2, work, switch=switch, job=job), True)
