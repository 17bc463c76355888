# SPDX-License-Identifier: Apache-2.0
"""What a launcher tells its ranks, in the variables that torch.distributed reads.

torchrun sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT.  Open MPI, MPICH and Slurm tell
the same by other names, but for the port, which follows from the job.
"""

from __future__ import annotations

import logging
import os
import re
import zlib
from collections.abc import Mapping, MutableMapping
from typing import NamedTuple

logger = logging.getLogger("fanin")
FIRST_PORT = 20000  # as the library's, below Linux's ephemeral ones
PORTS = 10000


class Place(NamedTuple):
    """A rank, as its launcher tells it."""

    rank: str
    size: str
    local: str  #: "": not known
    host: str  #: rank 0's; "": not known
    job: str  #: a name of the job; "": none that ranks of all its hosts know


def _first_host(env: Mapping[str, str]) -> str:
    """Of a list of Slurm's, such as node[3-5,9],other: node3; "": there is none."""
    nodes = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST") or ""
    return re.sub(r"\[([0-9]+)[^\]]*\]", r"\1", nodes).split(",")[0]


def _open_mpi(env: Mapping[str, str]) -> Place | None:
    rank, size = env.get("OMPI_COMM_WORLD_RANK"), env.get("OMPI_COMM_WORLD_SIZE")
    if not (rank and size):
        return None
    host = "127.0.0.1" if env.get("OMPI_COMM_WORLD_LOCAL_SIZE") == size else ""
    job = env.get("PMIX_NAMESPACE") or env.get("OMPI_MCA_ess_base_jobid", "")
    return Place(rank, size, env.get("OMPI_COMM_WORLD_LOCAL_RANK", ""), host, f"openmpi-{job}")


def _mpich(env: Mapping[str, str]) -> Place | None:
    """Inside an allocation of Slurm its mpirun starts its processes by a step of its own, one process
    a host, and ranks have that step's variables, too: they do not tell the rank, but the host."""
    rank, size = env.get("PMI_RANK"), env.get("PMI_SIZE")
    if not (rank and size and env.get("MPI_LOCALNRANKS")):
        return None
    local = env.get("MPI_LOCALRANKID", "")
    if env["MPI_LOCALNRANKS"] == size:  # mpirun is the parent of all
        return Place(rank, size, local, "127.0.0.1", f"hydra-{os.getppid()}")
    host = _first_host(env)
    return Place(rank, size, local, host, _step(env) if host else "")


def _is_shell(env: Mapping[str, str]) -> bool:
    """`srun --pty bash` is a step of one task, and what is started there by hand no rank: Lightning, which
    goes by the names, takes one that has a LOCAL_RANK for a rank among others, and starts none."""
    return "SLURM_PTY_PORT" in env or env.get("SLURM_JOB_NAME") in ("bash", "interactive")


def _slurm(env: Mapping[str, str]) -> Place | None:
    """A step's: the script of an allocation has its number of tasks, too, and is no rank."""
    rank, size = env.get("SLURM_PROCID"), env.get("SLURM_STEP_NUM_TASKS")
    if not size and env.get("SLURM_STEP_ID"):
        size = env.get("SLURM_NTASKS")
    if not (rank and size and env.get("SLURM_JOB_ID")) or (size == "1" and _is_shell(env)):
        return None
    host = _first_host(env)
    return Place(rank, size, env.get("SLURM_LOCALID", ""), host, _step(env))


def _step(env: Mapping[str, str]) -> str:
    return f"slurm-{env.get('SLURM_JOB_ID', '')}.{env.get('SLURM_STEP_ID', '0')}"


def _pmi(env: Mapping[str, str]) -> Place | None:
    """Another mpirun that speaks PMI."""
    rank, size = env.get("PMI_RANK"), env.get("PMI_SIZE")
    if not (rank and size):
        return None
    loopback = re.match(r"127\.|::1$|localhost$", env.get("MASTER_ADDR", ""))
    job = f"hydra-{os.getppid()}" if loopback else ""
    return Place(rank, size, env.get("MPI_LOCALRANKID", ""), "", job)


_LAUNCHERS = (_open_mpi, _mpich, _slurm, _pmi)  # as the library's: the first that is one counts


def place(env: Mapping[str, str]) -> Place | None:
    """What a launcher other than torchrun tells; None: there is none."""
    return next((found for found in (tell(env) for tell in _LAUNCHERS) if found), None)


def size(env: Mapping[str, str]) -> str:
    """How many ranks there are; "": nobody tells."""
    found = place(env)
    return env.get("FANIN_RANKS") or env.get("WORLD_SIZE") or (found.size if found else "")


def rank(env: Mapping[str, str]) -> str:
    """This rank; "": nobody tells."""
    found = place(env)
    return env.get("FANIN_RANK") or env.get("RANK") or (found.rank if found else "")


def complete(env: MutableMapping[str, str]) -> None:
    """Set what torch.distributed reads and nobody has set, if another launcher tells it."""
    if env.get("RANK") or env.get("WORLD_SIZE"):
        return
    found = place(env)
    if found is None:
        return
    values = {"RANK": found.rank, "WORLD_SIZE": found.size, "LOCAL_RANK": found.local}
    values["MASTER_ADDR"] = found.host
    if found.job:
        values["MASTER_PORT"] = str(FIRST_PORT + zlib.crc32(found.job.encode()) % PORTS)
    elif env.get("MASTER_ADDR") and not env.get("MASTER_PORT"):
        logger.warning(
            "fanin: MASTER_PORT is not set, and MPICH tells the ranks of several hosts nothing from which "
            "they could take the same one: give it a free port of rank 0's host (mpirun -genv MASTER_PORT N)"
        )
    for name, value in values.items():
        if value and not env.get(name):
            env[name] = value
