#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# mpi4py 4.1.2 with mpich 5.0.2: mpi4py's wheels look for the MPI at run time, ask it by MPI_Abi_get_version whether it speaks
# MPI 5.0's standard ABI, and name the module for that "mpiabi"; but no wheel has this module. With mpich's libmpi_abi.so.1,
# where one binary for every MPI was to be had, the import fails as if mpi4py had no MPI in it, and no word or warning names
# the ABI. With libmpi.so.12 of the same package it works. Until it changes: MPICC=mpicc_abi pip install --no-binary mpi4py.
#
#     libmpi.so.12 mpich: (5, 0) (-1, -1), 0 warnings
#     libmpi_abi.so.1 mpiabi: cannot import name 'MPI' from 'mpi4py', 0 warnings
#     modules openmpi mpich
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet mpi4py==4.1.2 mpich==5.0.2
cat >"$dir/import.py" <<'TEXT'
import os, sys, warnings

library = sys.argv[1]
os.environ["MPI4PY_LIBMPI"] = os.path.join(sys.prefix, "lib", library)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    try:
        from mpi4py import MPI

        result = f"{MPI.Get_version()} {MPI.Get_abi_version()}"
    except ImportError as e:
        result = str(e).split(" (")[0]
from mpi4py import _mpiabi

print(f"{library} {_mpiabi._get_mpiabi()}: {result}, {len(said)} warnings")
TEXT
for library in libmpi.so.12 libmpi_abi.so.1; do
        "$dir/venv/bin/python" "$dir/import.py" $library
done >"$dir/out"
echo modules "$(find "$dir/venv" -name 'MPI.*.so' -printf '%f\n' | cut -d . -f 2 | sort -r | tr '\n' ' ' | sed 's/ $//')" >>"$dir/out"
cat "$dir/out"
cmp - "$dir/out" <<'TEXT'
libmpi.so.12 mpich: (5, 0) (-1, -1), 0 warnings
libmpi_abi.so.1 mpiabi: cannot import name 'MPI' from 'mpi4py', 0 warnings
modules openmpi mpich
TEXT
