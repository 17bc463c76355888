#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# PyTorch 2.15.0, torch.distributed.checkpoint: what ranks save under one name, and is no sharded tensor, is saved once, and
# which rank's it is differs between names of one checkpoint.  Two ranks that save their rank as a tensor and as a number get
# back rank 0's tensor and rank 1's number, both of them.  Nothing says that they differ.
# Cause: dedup_save_plans gives each entry to the rank that has the fewest bytes to write by then.
# So what differs by rank - a sampler's position, a generator's state - comes back as a mixture.  Until it changes: save it
# under names that have the rank in them.
#
#     saved [0.0, 0] [1.0, 1]
#     loaded [0.0, 1] [0.0, 1]
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet torch==2.15.0 numpy==2.4.6
cat >"$dir/rank.py" <<'EOP'
import sys

import torch, torch.distributed as dist
import torch.distributed.checkpoint as dcp

rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
saved = {"tensor": torch.tensor([float(rank)]), "number": rank}
dcp.save(saved, checkpoint_id=f"{folder}/checkpoint")
loaded = {"tensor": torch.zeros(1), "number": -1}
dcp.load(loaded, checkpoint_id=f"{folder}/checkpoint")
for name, state in {"saved": saved, "loaded": loaded}.items():
    found = [None, None]
    dist.all_gather_object(found, [state["tensor"].item(), state["number"]])
    if rank == 0:
        print(name, *found)
dist.destroy_process_group()
EOP
for rank in 1 0; do
        CUDA_VISIBLE_DEVICES='' timeout 300 "$dir/venv/bin/python" -W ignore "$dir/rank.py" $rank "$dir" &
        other=${last:-}
        last=$!
done >"$dir/out"
wait "$other"
wait "$last"
cat "$dir/out"
cmp - "$dir/out" <<'EOP'
saved [0.0, 0] [1.0, 1]
loaded [0.0, 1] [0.0, 1]
EOP
