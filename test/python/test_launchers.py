# SPDX-License-Identifier: Apache-2.0
"""PyTorch programs under mpirun, and what each launcher's variables come to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, WAIT_S

from fanin import _launcher

SCRIPT = [str(Path(__file__).parent / "launched.py")]
TRAINING = [str(ROOT / "examples" / "train_text.py"), "--steps", "20"]


@pytest.mark.parametrize("script", [SCRIPT, TRAINING], ids=["sum", "training"])
@pytest.mark.parametrize(
    "mpirun", [["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"], ["mpirun.mpich"]]
)
def test_mpirun_needs_no_option(mpirun, script):
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


MPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
SLURM = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1"}
PMI = {"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "4", "MPI_LOCALRANKID": "2"}


@pytest.mark.parametrize(
    "given, host",
    [
        (MPI, "127.0.0.1"),
        (dict(MPI, OMPI_COMM_WORLD_LOCAL_SIZE="2"), None),
        (dict(SLURM, SLURM_STEP_NODELIST="node[03-05,9],other"), "node03"),
        (dict(SLURM, SLURM_JOB_NODELIST="a1,b[2-3]"), "a1"),
        (dict(SLURM, SLURM_JOB_NODELIST="r[1-2]n[5,7],a"), "r1n5"),
        (SLURM, None),
        (PMI, "127.0.0.1"),
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


def test_what_is_set_stays():
    env = dict(MPI, RANK="0", WORLD_SIZE="1")
    _launcher.complete(env)
    assert env == dict(MPI, RANK="0", WORLD_SIZE="1")
    nothing = {"PATH": "/bin"}
    _launcher.complete(nothing)
    assert nothing == {"PATH": "/bin"}
