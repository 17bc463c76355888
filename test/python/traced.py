# SPDX-License-Identifier: Apache-2.0
"""Ranks of test_traces.py under Gloo, recorded by PyTorch itself: traced.py FOLDER RANK RANKS PORT.

Rank 0 writes execution.json and profile.json, and where PyTorch has one of Gloo flight.pickle and flight.json."""

import os
import sys

os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "2000")

import torch  # pylint: disable=wrong-import-position
import torch.distributed as dist  # pylint: disable=wrong-import-position
import torch.profiler  # pylint: disable=wrong-import-position

FOLDER, RANK, RANKS, PORT = sys.argv[1], *map(int, sys.argv[2:5])


def collectives():
    """Every kind of argument: tensors, lists, lists of lists; float32, float64, and halves."""
    dist.all_reduce(torch.ones(1024))
    dist.all_reduce(torch.ones(512, dtype=torch.float64))
    dist.all_reduce(torch.ones(256, dtype=HALF))
    share = torch.ones(100, dtype=HALF)
    dist.all_gather([torch.empty_like(share) for _ in range(RANKS)], share)
    if IS_2:  # Gloo of 1.13 has none
        dist.all_gather_into_tensor(torch.empty(60 * RANKS), torch.ones(60))
    dist.all_reduce_coalesced([torch.ones(8), torch.ones(16)])
    dist.broadcast(torch.ones(10), 0)


def recorded(path):
    """Collectives under both of PyTorch's observers."""
    name = "ExecutionTraceObserver" if IS_2 else "ExecutionGraphObserver"
    observer = getattr(torch.profiler, name)()
    observer.register_callback(os.path.join(path, "execution.json"))
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
    ) as profiled:
        observer.start()
        collectives()
        observer.stop()
    observer.unregister_callback()
    profiled.export_chrome_trace(os.path.join(path, "profile.json"))


def recorder(path):
    """What the flight recorder has of all collectives."""
    import torch._C._distributed_c10d as c10d

    for name, of in (("flight.pickle", "_dump_fr_trace"), ("flight.json", "_dump_fr_trace_json")):
        if hasattr(c10d, of):
            found = getattr(c10d, of)()
            with open(os.path.join(path, name), "wb") as file:
                file.write(found if isinstance(found, bytes) else found.encode())


IS_2 = torch.__version__ >= "2"
HALF = torch.bfloat16 if IS_2 else torch.float16
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(PORT), USE_LIBUV="0")
dist.init_process_group("gloo", rank=RANK, world_size=RANKS)
collectives()
if RANK == 0:
    recorded(FOLDER)
    recorder(FOLDER)
else:
    collectives()
print(torch.__version__, flush=True)
# Under PyTorch 2.6 destroy_process_group() at times does not return once another rank has ended, so
# ranks end without it: all after the last collective, rank 0, which has the store, last.
store = dist.distributed_c10d._get_default_store()
store.set(f"through {RANK}", "")
store.wait([f"through {rank}" for rank in range(RANKS)])
if RANK == 0:
    store.wait([f"ended {rank}" for rank in range(1, RANKS)])
else:
    store.set(f"ended {RANK}", "")
os._exit(0)
