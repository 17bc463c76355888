# SPDX-License-Identifier: Apache-2.0
"""`python3 -m fanin`: which package and library are in use, and what the environment says;
`python3 -m fanin nccl`, or mpi: the path of that plug-in alone, for a variable.

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
_PLUGINS = {"nccl": "libnccl-net-fanin.so", "mpi": "libfanin-mpi.so"}


def program() -> int:
    """Become the program `fanin` of this package; 1: there is none that can be executed."""
    path = _HERE / "bin" / "fanin"
    if sys.executable:  # which runs the commands that are Python
        os.environ["FANIN_PYTHON"] = sys.executable
    try:
        os.execv(path, ["fanin", *sys.argv[1:]])
    except OSError as error:
        print(
            f"fanin: {path}: {error.strerror}: expected the program that fanin's wheel brings",
            file=sys.stderr,
        )
    return 1


def _plugin(name: str) -> int:
    """Print the path of one that is beside the library; 0, or 1 if there is none."""
    try:
        path = Path(_library.path()).parent / _PLUGINS[name]
    except LibraryError as error:
        print(f"fanin: {error}", file=sys.stderr)
        return 1
    if not path.exists():
        print(f"fanin: {path}: not there: package fanin-{name} or fanin's wheel", file=sys.stderr)
        return 1
    print(path)
    return 0


def main() -> int:
    """Print it; 0, or 1 if there is no library."""
    if len(sys.argv) == 2 and sys.argv[1] in _PLUGINS:
        return _plugin(sys.argv[1])
    if len(sys.argv) > 1:
        print("usage: python3 -m fanin [nccl | mpi]", file=sys.stderr)
        return 2
    print(f"package  fanin {__version__} in {os.path.dirname(os.path.abspath(__file__))}")
    try:
        version = _library.load().fanin_version().decode()
        print(f"library  libfanin {version}: {_library.path()}")
    except LibraryError as error:
        print(f"library  {error}")
        return 1
    folder = Path(_library.path()).parent
    for name, variable in (("mpi", "LD_PRELOAD"), ("nccl", "NCCL_NET_PLUGIN")):
        if (folder / _PLUGINS[name]).exists():
            print(f"{name:8} {variable}={folder / _PLUGINS[name]}")
    names = sorted(name for name in os.environ if name.startswith("FANIN_"))
    for name in names + [name for name in _LAUNCHER if name in os.environ]:
        print(f"set      {name}={os.environ[name]}")
    if "FANIN_SWITCH" not in os.environ and "FANIN_CONFIG" not in os.environ:
        print("switch   none named: rank 0 will start one (FANIN_SWITCH=HOST:PORT names one)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
