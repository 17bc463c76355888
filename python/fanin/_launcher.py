# SPDX-License-Identifier: Apache-2.0
"""What a launcher tells its ranks, in the variables that torch.distributed reads.

torchrun sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT.  Open MPI, MPICH and Slurm tell
the same by other names, but for the port, which follows from the job.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import MutableMapping

FIRST_PORT = 20000  # as the library's, below Linux's ephemeral ones
PORTS = 10000


def _first_host(nodes: str) -> str:
    """Of a list of Slurm's, such as node[3-5,9],other: node3; "": there is none."""
    return re.sub(r"\[([0-9]+)[^\]]*\]", r"\1", nodes).split(",")[0]


def _open_mpi(env: MutableMapping[str, str]) -> tuple[str, str] | None:
    """Host of rank 0, if that is known, and a name of the job; None: another launcher's."""
    if not env.get("OMPI_COMM_WORLD_SIZE"):
        return None
    here = env.get("OMPI_COMM_WORLD_LOCAL_SIZE") == env["OMPI_COMM_WORLD_SIZE"]
    job = env.get("PMIX_NAMESPACE") or env.get("OMPI_MCA_ess_base_jobid", "")
    return "127.0.0.1" if here else "", f"openmpi-{job}"


def _slurm(env: MutableMapping[str, str]) -> tuple[str, str] | None:
    if not (env.get("SLURM_JOB_ID") and env.get("SLURM_PROCID") and env.get("SLURM_NTASKS")):
        return None
    nodes = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST") or ""
    return _first_host(nodes), f"slurm-{env['SLURM_JOB_ID']}.{env.get('SLURM_STEP_ID', '0')}"


def _mpich(env: MutableMapping[str, str]) -> tuple[str, str] | None:
    if not env.get("PMI_SIZE"):
        return None
    here = env.get("MPI_LOCALNRANKS") == env["PMI_SIZE"]
    return "127.0.0.1" if here else "", f"hydra-{os.getppid()}"  # mpirun is the parent of all


_LAUNCHERS = (
    (_open_mpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    (_slurm, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    (_mpich, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)


def complete(env: MutableMapping[str, str]) -> None:
    """Set what torch.distributed reads and nobody has set, if another launcher tells it."""
    if env.get("RANK") or env.get("WORLD_SIZE"):
        return
    for recognise, rank, size, local in _LAUNCHERS:
        found = recognise(env)
        if found is None or not env.get(rank):
            continue
        host, job = found
        values = {"RANK": env[rank], "WORLD_SIZE": env[size], "LOCAL_RANK": env.get(local, "")}
        if host and not env.get("MASTER_ADDR"):
            values["MASTER_ADDR"] = host
        values["MASTER_PORT"] = str(FIRST_PORT + zlib.crc32(job.encode()) % PORTS)
        for name, value in values.items():
            if value and not env.get(name):
                env[name] = value
        return
