#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# PyTorch 2.15.0, Gloo with enable_reconfigure=True: the handle of a process changes with each _reconfigure().  Ranks that go on
# a second time with the handles by which they know each other are refused, each its own.  Expected was a handle that stays, or
# a word about it: "an opaque reconfigure handle for group".
# Cause: ProcessGroupGloo makes it of the rank and the last uuid, "gloo:RANK:UUID:STABLE RANK:ADDRESS OF THE STORE"; so two
# processes that both begin as rank 0 of 1 have one handle, too.
# Until it changes: exchange the handles anew before each _reconfigure(), and begin each process with a rank of its own.
#
#     with the handles of the start: a sum of 2.0
#     with the same again: Local Gloo reconfigure handle is not part of the new communicator
#     with handles asked for anew: a sum of 2.0
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet torch==2.15.0 numpy==2.4.6
cat >"$dir/rank.py" <<'EOP'
import datetime, sys

import torch, torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

rank, store = int(sys.argv[1]), dist.FileStore(sys.argv[2], 2)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2, enable_reconfigure=True)


def exchanged(key):
    store.set(f"{key} {rank}", c10d._get_reconfigure_handle())
    return [store.get(f"{key} {other}").decode() for other in range(2)]


def go_on(text, uuid, handles):
    try:
        c10d._reconfigure(uuid, handles, timeout=datetime.timedelta(seconds=60)).wait()
        total = torch.ones(1)
        dist.all_reduce(total)
        how = f"a sum of {total.item()}"
    except RuntimeError as error:
        how = str(error).splitlines()[0]
    if rank == 0:
        print(f"with {text}: {how}", flush=True)


start = exchanged("start")
go_on("the handles of the start", 1, start)
go_on("the same again", 2, start)
go_on("handles asked for anew", 3, exchanged("anew"))
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
with the handles of the start: a sum of 2.0
with the same again: Local Gloo reconfigure handle is not part of the new communicator
with handles asked for anew: a sum of 2.0
EOP
