#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# PyTorch 2.15.0 with TORCH_DIST_NAN_CHECK=1: whether a tensor has a NaN is found in as many elements of its memory as the
# tensor has, whatever its strides.  Every second element of [1, 2, NaN, 3] passes with its NaN, and [1, 2], every second
# element of [1, NaN, 2, 3], is refused.
# Cause: check_for_nan_cpu reads data_ptr()[0] to data_ptr()[numel() - 1].
# Until it changes: give collectives contiguous tensors.
#
#     [1.0, nan] strided: no error
#     [1.0, nan] contiguous: NaN found in input tensor.
#     [1.0, 2.0] strided: NaN found in input tensor.
#     [1.0, 2.0] contiguous: no error
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet torch==2.15.0 numpy==2.4.6
cat >"$dir/rank.py" <<'EOP'
import os
import sys

os.environ["TORCH_DIST_NAN_CHECK"] = "1"
import torch, torch.distributed as dist

dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
nan = float("nan")
for values in [1.0, 2.0, nan, 3.0], [1.0, nan, 2.0, 3.0]:
    strided = torch.tensor(values)[::2]
    for name, tensor in {"strided": strided, "contiguous": strided.contiguous()}.items():
        before, found = tensor.tolist(), "no error"
        try:
            dist.all_reduce(tensor)
        except RuntimeError as error:
            found = str(error)
        print(f"{before} {name}: {found}")
dist.destroy_process_group()
EOP
CUDA_VISIBLE_DEVICES='' timeout 300 "$dir/venv/bin/python" -W ignore "$dir/rank.py" "$dir/store" >"$dir/out"
cat "$dir/out"
cmp - "$dir/out" <<'EOP'
[1.0, nan] strided: no error
[1.0, nan] contiguous: NaN found in input tensor.
[1.0, 2.0] strided: NaN found in input tensor.
[1.0, 2.0] contiguous: no error
EOP
