#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# mlx 0.32.4: arrays are values, and assignment to one (a[0] = 7) leaves those that were made of it as they were. What is
# written through the buffer of one (memoryview, numpy.asarray), which is writable, also changes arrays that were made of it
# before by reshape or by a slice, since they share its memory; and of those that were copied none.
# So a program that fills an array in place by its buffer changes others. Until it changes: write into memory of one's own.
#
#     assigned [7.0, 1.0, 2.0, 3.0] reshaped [[0.0, 1.0], [2.0, 3.0]] sliced [0.0, 1.0]
#     written [9.0, 1.0, 2.0, 3.0] reshaped [[9.0, 1.0], [2.0, 3.0]] sliced [9.0, 1.0]
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet 'mlx[cpu]==0.32.4'
cat >"$dir/arrays.py" <<'EOF'
import mlx.core as mx

mx.set_default_device(mx.cpu)


def assign(array):
    array[0] = 7


def write(array):
    memoryview(array)[0] = 9


for name, change in {"assigned": assign, "written": write}.items():
    whole = mx.arange(4, dtype=mx.float32)
    reshaped, sliced = whole.reshape(2, 2), whole[:2]
    mx.eval(whole, reshaped, sliced)
    change(whole)
    print(name, whole.tolist(), "reshaped", reshaped.tolist(), "sliced", sliced.tolist())
EOF
"$dir/venv/bin/python" "$dir/arrays.py" | tee "$dir/out"
cmp - "$dir/out" <<'EOF'
assigned [7.0, 1.0, 2.0, 3.0] reshaped [[0.0, 1.0], [2.0, 3.0]] sliced [0.0, 1.0]
written [9.0, 1.0, 2.0, 3.0] reshaped [[9.0, 1.0], [2.0, 3.0]] sliced [9.0, 1.0]
EOF
