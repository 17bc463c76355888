# SPDX-License-Identifier: Apache-2.0
"""`python3 -m fanin`: which package and library are in use, and what the environment says.

`program` is the console script `fanin`, which becomes the program that a wheel brings."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from . import __version__, _library
from .errors import LibraryError

_LAUNCHER = (
    "RANK WORLD_SIZE MASTER_ADDR MASTER_PORT OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE "
    "SLURM_PROCID SLURM_NTASKS PMI_RANK PMI_SIZE"
).split()

_HERE = Path(__file__).resolve().parent


def program() -> int:
    """Become the program `fanin` of this package; 1: there is none that can be executed."""
    path = _HERE / "bin" / "fanin"
    try:
        os.execv(path, ["fanin", *sys.argv[1:]])
    except OSError as error:
        print(
            f"fanin: {path}: {error.strerror}: expected the program that fanin's wheel brings",
            file=sys.stderr,
        )
    return 1


def main() -> int:
    """Print it; 0, or 1 if there is no library."""
    print(f"package  fanin {__version__} in {os.path.dirname(os.path.abspath(__file__))}")
    try:
        version = _library.load().fanin_version().decode()
        print(f"library  libfanin {version}: {_library.path()}")
    except LibraryError as error:
        print(f"library  {error}")
        return 1
    preload = Path(_library.path()).parent / "libfanin-mpi.so"
    if preload.exists():
        print(f"mpi      LD_PRELOAD={preload}")
    plugin = preload.parent / "libnccl-net-fanin.so"
    if plugin.exists():
        print(f"nccl     NCCL_NET_PLUGIN={plugin}")
    names = sorted(name for name in os.environ if name.startswith("FANIN_"))
    for name in names + [name for name in _LAUNCHER if name in os.environ]:
        print(f"set      {name}={os.environ[name]}")
    if "FANIN_SWITCH" not in os.environ and "FANIN_CONFIG" not in os.environ:
        print("switch   none named: rank 0 will start one (FANIN_SWITCH=HOST:PORT names one)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
