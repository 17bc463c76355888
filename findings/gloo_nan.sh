#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# PyTorch 2.15.0: all_reduce of MIN or MAX through Gloo keeps a NaN or drops it by which rank has it.  Of two ranks, that of
# rank 0 stays and that of rank 1 becomes the other's number; torch.minimum and torch.maximum keep any NaN.  All ranks get
# the same.
# So a check such as "is the largest gradient finite on all ranks" misses what one rank has.  Until it changes: reduce
# torch.isnan(x) as well.
#
#     MIN nan of rank 0: nan nan of rank 1: 1.0
#     MAX nan of rank 0: nan nan of rank 1: 1.0
#     minimum nan nan
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet torch==2.15.0 numpy==2.4.6
cat >"$dir/rank.py" <<'EOP'
import sys

import torch, torch.distributed as dist

rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
nan = float("nan")
for name in ("MIN", "MAX"):
    values = torch.tensor([nan, 1.0] if rank == 0 else [1.0, nan])
    dist.all_reduce(values, getattr(dist.ReduceOp, name))
    if rank == 0:
        print(name, "nan of rank 0:", values[0].item(), "nan of rank 1:", values[1].item())
if rank == 0:
    print("minimum", *torch.minimum(torch.tensor([nan, 1.0]), torch.tensor([1.0, nan])).tolist())
dist.destroy_process_group()
EOP
for rank in 1 0; do
        CUDA_VISIBLE_DEVICES='' timeout 300 "$dir/venv/bin/python" "$dir/rank.py" $rank "$dir/store" &
        other=${last:-}
        last=$!
done >"$dir/out"
wait "$other"
wait "$last"
cat "$dir/out"
cmp - "$dir/out" <<'EOP'
MIN nan of rank 0: nan nan of rank 1: 1.0
MAX nan of rank 0: nan nan of rank 1: 1.0
minimum nan nan
EOP
