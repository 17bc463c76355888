#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# pytorch-ignite 0.5.5 with PyTorch 2.15.0: ignite.distributed.auto_model() wraps a model in DistributedDataParallel where
# the process group's backend is "gloo", and returns it as it is where that is "cpu:gloo", PyTorch's name for the same
# backend by device. Nothing says so, gradients are not averaged, and the ranks train apart.
# Cause: auto.py compares dist.get_backend() with "nccl", "gloo" and "mpi".
# Until it changes: wrap the model in the program, or name the backend "gloo".
#
#     gloo DistributedDataParallel [1.5, 1.5] [1.5, 1.5]
#     cpu:gloo Linear [1.0, 1.0] [2.0, 2.0]
#
# The last two are the gradients of ranks 0 and 1, whose inputs are ones and twos.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet torch==2.15.0 pytorch-ignite==0.5.5 numpy==2.4.6
cat >"$dir/rank.py" <<'EOF'
import logging, sys
import ignite.distributed as idist
import torch, torch.distributed as dist

backend, rank, store = sys.argv[1], int(sys.argv[2]), sys.argv[3]
logging.getLogger("ignite").setLevel(logging.WARNING)
dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=2)
model = idist.auto_model(torch.nn.Linear(2, 1))
model(torch.full((1, 2), rank + 1.0)).sum().backward()
gradient = next(model.parameters()).grad.flatten().tolist()
found = [None, None]
dist.all_gather_object(found, gradient)
if rank == 0:
    print(backend, type(model).__name__, *found)
dist.destroy_process_group()
EOF
for backend in gloo cpu:gloo; do
        for rank in 1 0; do
                CUDA_VISIBLE_DEVICES='' timeout 300 "$dir/venv/bin/python" "$dir/rank.py" $backend $rank "$dir/store.$backend" &
                other=${last:-}
                last=$!
        done
        wait "$other"
        wait "$last"
        last=
done >"$dir/out"
cat "$dir/out"
printf '%s\n' 'gloo DistributedDataParallel [1.5, 1.5] [1.5, 1.5]' 'cpu:gloo Linear [1.0, 1.0] [2.0, 2.0]' | cmp - "$dir/out"
