#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# PyTorch 2.15.0: collectives through Gloo take a tensor that is not contiguous for one that is.  all_reduce of every second
# element of a tensor sums the first elements of its memory, which are others; broadcast into a transposed matrix transposes
# what comes.  Nothing says so; expected were the same sums as of contiguous tensors, or an error.
# Until it changes: call with x.contiguous() and copy back.
#
#     all_reduce of 1 + 2 in places 0 and 2: [3.0, 0.0, 1.0, 0.0]
#     broadcast of [[1.0, 2.0], [3.0, 4.0]]: [[1.0, 3.0], [2.0, 4.0]]
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
whole = torch.zeros(4)
whole[::2] += rank + 1
dist.all_reduce(whole[::2])
if rank == 0:
    print("all_reduce of 1 + 2 in places 0 and 2:", whole.tolist(), flush=True)
matrix = torch.tensor([[1.0, 2.0], [3.0, 4.0]]) if rank == 0 else torch.zeros(2, 2).t()
sent = matrix.tolist()
dist.broadcast(matrix, 0)
found = [None, None]
dist.all_gather_object(found, matrix.tolist())
if rank == 0:
    print(f"broadcast of {sent}:", found[1])
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
all_reduce of 1 + 2 in places 0 and 2: [3.0, 0.0, 1.0, 0.0]
broadcast of [[1.0, 2.0], [3.0, 4.0]]: [[1.0, 3.0], [2.0, 4.0]]
EOP
