#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# pytorch-ignite 0.5.5 with PyTorch 2.15.0: ignite.distributed.broadcast() of a Python number gives it back as a float of
# single precision, on the rank that has sent it, too: 0.1 is another number, and 16777217, an integer, becomes the float
# 16777216.0.  all_reduce() and all_gather() of the same module keep both.
# Cause: comp_models/base.py makes torch.tensor([number], dtype=torch.float) of it.
# So a step count or a random seed that rank 0 hands out may be another one.  Until it changes: broadcast
# torch.tensor([number], dtype=torch.int64), which stays what it is, or float64.
#
#     broadcast 0.10000000149011612 16777216.0
#     all_gather [0.1, 0.1] [16777217, 16777217]
#     tensor [16777217]
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet torch==2.15.0 pytorch-ignite==0.5.5 numpy==2.4.6
cat >"$dir/rank.py" <<'EOP'
import logging, sys

import ignite.distributed as idist
import torch, torch.distributed as dist

rank, store = int(sys.argv[1]), sys.argv[2]
logging.getLogger("ignite").setLevel(logging.WARNING)
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
numbers = 0.1, 2**24 + 1
sent = [idist.broadcast(number, src=0) for number in numbers]
gathered = [idist.all_gather(number) for number in numbers]
whole = idist.broadcast(torch.tensor([numbers[1]]), src=0)
if rank == 0:
    print("broadcast", *sent)
    print("all_gather", *gathered)
    print("tensor", whole.tolist())
dist.destroy_process_group()
EOP
for rank in 1 0; do
        CUDA_VISIBLE_DEVICES='' timeout 300 "$dir/venv/bin/python" -W ignore "$dir/rank.py" $rank "$dir/store" &
        other=${last:-}
        last=$!
done >"$dir/out"
wait "$other"
wait "$last"
cat "$dir/out"
cmp - "$dir/out" <<'EOP'
broadcast 0.10000000149011612 16777216.0
all_gather [0.1, 0.1] [16777217, 16777217]
tensor [16777217]
EOP
