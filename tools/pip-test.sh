#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `pip install .` into an environment of its own, without the network, and use what lies
# there from another folder, as a stranger would: the package must bring its library.
#
#     tools/pip-test.sh BUILD      only "build" is where setup.py looks
set -eu

build=$PWD/${1:?"tools/pip-test.sh: expected a build folder"}
env=$build/pip-env
rm -rf "$env" "$build/pip-source"

# What pip builds from is a copy: it leaves build/lib and fanin.egg-info in its source.
mkdir -p "$build/pip-source/build/src"
cp -r pyproject.toml setup.py README.md python "$build/pip-source"
cp -L "$build/src/libfanin.so.0" "$build/pip-source/build/src"

/usr/bin/python3 -m venv --system-site-packages "$env"
"$env/bin/pip" -q install --no-index --no-build-isolation --disable-pip-version-check \
        "$build/pip-source"

cd /
unset PYTHONPATH FANIN_LIBRARY
"$env/bin/python3" -m fanin
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
