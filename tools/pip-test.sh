#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `pip install .` into an environment of its own, by Debian's meson-python and without the network, and use what
# lies there from another folder, as a stranger would: the package must bring its library and its program.
#
#     tools/pip-test.sh BUILD      where the sources are copied to and the environment lies
set -eu

build=$PWD/${1:?"tools/pip-test.sh: expected a build folder"}
env=$build/pip-env
rm -rf "$env" "$build/pip-source"

# meson-python builds in a folder beside the sources.
mkdir -p "$build/pip-source"
tar -c --exclude=./.git --exclude='./build*' . | tar -x -C "$build/pip-source"

/usr/bin/python3 -m venv --system-site-packages "$env"
"$env/bin/pip" -q install --no-index --no-build-isolation --disable-pip-version-check \
        "$build/pip-source"

cd /
unset PYTHONPATH FANIN_LIBRARY
"$env/bin/python3" -m fanin
"$env/bin/fanin" bench --local 2 -b 64K -n 3
"$env/bin/python3" - "$env" <<'PYTHON'
import sys
import array, fanin, fanin._library
with fanin.Communicator(rank=0, ranks=1) as comm:
    assert comm.allreduce(array.array("f", [1, 2])) == array.array("f", [1, 2])
path = fanin._library.path()
assert path.startswith(sys.argv[1]), path
try:
    fanin.Communicator("127.0.0.1:9", rank=0, ranks=2, timeout=0.2)
except fanin.UnreachableError as error:
    print("as expected:", error)
else:
    raise SystemExit("joined a switch that is not there")
PYTHON
"$env/bin/pip" -q uninstall -y fanin --disable-pip-version-check
rm -rf "$build/pip-source"
