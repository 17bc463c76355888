# SPDX-License-Identifier: Apache-2.0
"""fanin: all-reduce through a switch that adds on the way.

    import fanin, numpy

    with fanin.Communicator() as comm:        # rank and size from torchrun, Open MPI or Slurm
        total = comm.allreduce(numpy.ones(1000, "float32"))

For PyTorch's DistributedDataParallel see fanin.torch.  The package uses libfanin by ctypes; which
file that is, `python3 -m fanin` tells.
"""

from ._figures import Part, Stats
from .communicator import Communicator, Operation
from .errors import (
    BusyError,
    ClosedError,
    ConfigError,
    FaninError,
    InvalidError,
    JoinTimeoutError,
    LaunchesError,
    LibraryError,
    MismatchError,
    RankLeftError,
    RankLostError,
    RefusedError,
    RestartedError,
    StalledError,
    UnreachableError,
)

__version__ = "0.2.0"

__all__ = [
    "BusyError",
    "ClosedError",
    "Communicator",
    "ConfigError",
    "FaninError",
    "InvalidError",
    "JoinTimeoutError",
    "LaunchesError",
    "LibraryError",
    "MismatchError",
    "Operation",
    "RankLeftError",
    "RankLostError",
    "RefusedError",
    "RestartedError",
    "StalledError",
    "Part",
    "Stats",
    "UnreachableError",
    "__version__",
]
