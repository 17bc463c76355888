#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# PyTorch 2.15.0: in the dump of the flight recorder an operation of Gloo that is over stays "scheduled", with 0 as the time of its
# completion; only "retired" says that it is over.  The default group is "0" in entries and "" in pg_config.
# So who looks for operations that are not "completed" takes all for stuck, and who looks up a group by its name finds no ranks.
# Until it changes: look at "retired", and take the one group of pg_config where the name is not there.
#
#     gloo:all_reduce group 0 scheduled retired True completed 0
#     groups ['']
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
dist.all_reduce(torch.ones(8))
if rank == 0:
    from torch._C._distributed_c10d import _dump_fr_trace_json

    dump = json.loads(_dump_fr_trace_json())
    for one in dump["entries"]:
        completed = one["time_discovered_completed_ns"]
        print(one["profiling_name"], "group", one["process_group"][0], one["state"], end=" ")
        print("retired", one["retired"], "completed", completed)
    print("groups", list(dump["pg_config"]))
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
gloo:all_reduce group 0 scheduled retired True completed 0
groups ['']
EOP
