#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# paddlepaddle 3.3.1: a tensor on the CPU tells DLPack's consumers the device (1, None): the second of the pair, the device's
# number, is no integer, where JAX 0.10.2, PyTorch and numpy 2.4 say (1, 0). numpy.from_dlpack looks at the first alone, takes
# the tensor and shares its memory. Who compares the pair with (1, 0), or formats or hashes it as two integers, does not know
# the tensor as one of the CPU. And a bfloat16 tensor's numpy() is an array of uint16, with no word that its bits are floats:
# 1.0 becomes 16256; from_dlpack refuses it.
#
#     paddle (1, None) shares True
#     numpy (1, 0)
#     bfloat16 uint16 [16256, 16384] from_dlpack refused
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet paddlepaddle==3.3.1 numpy==2.4.6
cat >"$dir/arrays.py" <<'EOF'
import warnings

import numpy

warnings.simplefilter("ignore")
import paddle

tensor = paddle.ones([4])
kind, number = tensor.__dlpack_device__()
seen = numpy.from_dlpack(tensor)
print("paddle", (int(kind), number), "shares", seen.ctypes.data == tensor.data_ptr())
print("numpy", tuple(int(x) for x in numpy.ones(4).__dlpack_device__()))
half = paddle.to_tensor([1.0, 2.0]).astype("bfloat16")
try:
    numpy.from_dlpack(half)
    taken = "taken"
except Exception:
    taken = "refused"
print("bfloat16", half.numpy().dtype, half.numpy().tolist(), "from_dlpack", taken)
EOF
"$dir/venv/bin/python" "$dir/arrays.py" 2>/dev/null | tee "$dir/out"
cmp - "$dir/out" <<'EOF'
paddle (1, None) shares True
numpy (1, 0)
bfloat16 uint16 [16256, 16384] from_dlpack refused
EOF
