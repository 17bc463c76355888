#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# PyTorch 2.15.0: with record_shapes=True the event of a collective whose argument is a list of tensors has their shapes, but
# "TensorList" instead of their type; a list of lists, such as the outputs of all_gather, has neither.  A collective of bfloat16
# cannot be told from one of float32, twice its bytes, and an all_gather has the shape of one share alone.
# Until it changes: take the type from the event of the backend (gloo:, nccl:) and count the share for each rank, or use an
# ExecutionTraceObserver, which notes both.
#
#     c10d::allgather_ [[], [[8]]] ['', 'TensorList']
#     gloo:all_gather [[8]] ['c10::BFloat16']
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
half = torch.ones(8, dtype=torch.bfloat16)
with torch.profiler.profile(
    activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
) as profile:
    dist.all_gather([torch.empty_like(half) for _ in range(2)], half)
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
c10d::allgather_ [[], [[8]]] ['', 'TensorList']
gloo:all_gather [[8]] ['c10::BFloat16']
EOP
