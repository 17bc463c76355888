#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# PyTorch 2.15.0: a profile shows a reduce_scatter of Gloo as gloo:all_reduce, below c10d::_reduce_scatter_base_, since Gloo sums
# the whole input on every rank and each takes its part.
# So who counts the events of the backend sees all-reduces that the program never asked for, and no reduce-scatter.  Until it
# changes: count the events c10d::*, and leave out those of gloo: wherever there are any.
#
#     c10d::_reduce_scatter_base_ [[4], [8]] ['float', 'float']
#     gloo:all_reduce [[8]] ['float']
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet torch==2.15.0 numpy==2.4.6
cat >"$dir/rank.py" <<'EOP'
import json
import os
import sys

os.environ["TORCH_FR_BUFFER_SIZE"] = "100"
import torch, torch.distributed as dist

rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
with torch.profiler.profile(
    activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
) as profile:
    dist.reduce_scatter_tensor(torch.empty(4), torch.ones(8))
if rank == 0:
    profile.export_chrome_trace(store + ".json")
    with open(store + ".json", encoding="utf-8") as file:
        events = [one for one in json.load(file)["traceEvents"] if one.get("ph") == "X"]
    for one in sorted(events, key=lambda one: one["ts"]):
        if one["name"].startswith(("c10d", "gloo")):
            print(one["name"], one["args"]["Input Dims"][:2], one["args"]["Input type"][:2])
dist.barrier()
dist.destroy_process_group()
EOP
for rank in 1 0; do
        CUDA_VISIBLE_DEVICES='' timeout 300 "$dir/venv/bin/python" "$dir/rank.py" $rank "$dir/store" 2>"$dir/err" &
        other=${last:-}
        last=$!
done >"$dir/out"
wait "$other"
wait "$last"
cat "$dir/out"
cmp - "$dir/out" <<'EOP'
c10d::_reduce_scatter_base_ [[4], [8]] ['float', 'float']
gloo:all_reduce [[8]] ['float']
EOP
