# SPDX-License-Identifier: Apache-2.0
"""What one rank of tools/gpu-check --nccl does: `nccl_ranks.py PART ARGUMENTS-AS-JSON`, with the variables
that torch.distributed reads, and NCCL's.

All ranks use one GPU and are hosts of their own to NCCL, which 2.30 can.
"""

import faulthandler
import json
import os
import re
import sys
import time
from pathlib import Path

import ranks
import streams
import torch
import torch.distributed as dist

NEEDS = (2, 30)  # NCCL_MULTI_RANK_GPU_ENABLE
TYPES = ["float64", "float32", "float16", "bfloat16", "int32", "int64"]
SIZES = [1, 1000, (1 << 19) + 1, (5 << 19) + 77]
MIB = 64  # of what is timed
USED = re.compile(r"NET/Fanin: CollNet is used by rank")
THROUGH = re.compile(r"via COLLNET/Fanin")


def said():
    """NCCL's log of this rank."""
    path = Path(os.environ["NCCL_DEBUG_FILE"])
    return path.read_text(errors="replace") if path.exists() else ""


def path_taken():
    """What the log says of CollNet; and what is wrong in that."""
    log = said()
    used, through = len(USED.findall(log)), len(THROUGH.findall(log))
    facts = {
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        "collnet": used,
        "channels": through,
    }
    wanted = os.environ.get("NCCL_NET_PLUGIN", "none") != "none"
    wrong = []
    if wanted and not (used and through):
        lines = [line for line in log.splitlines() if "Fanin" in line or "Plugin" in line]
        wrong.append("NCCL's log does not show CollNet by fanin: " + " | ".join(lines[-4:]))
    return wrong, facts


def best_ms():
    """Of an all-reduce of MIB MiB, the best of five."""
    tensor, times = torch.ones(MIB << 18, device="cuda"), []
    for _ in range(6):
        torch.cuda.synchronize()
        dist.barrier()
        begun = time.perf_counter()
        dist.all_reduce(tensor)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return round(min(times[1:]) * 1e3, 2)


def sums(device, sizes=None, timed=True):
    """Every operation, type and kind of size."""
    wrong = []
    for size in sizes or SIZES:
        for dtype in (getattr(torch, name) for name in TYPES):
            for op in ("SUM", "MIN", "MAX"):
                if not ranks.is_reduced(device, size, dtype, op, False):
                    wrong.append(f"all_reduce of {size} {dtype}, {op}")
        if not ranks.shares_are_right(device, size):
            wrong.append(f"reduce_scatter, all_gather of {size}")
    bad, facts = path_taken()
    return {
        "wrong": wrong + bad,
        "facts": facts,
        "figures": {f"all_reduce_{MIB}_mib_ms": best_ms()} if timed else {},
    }


def few(device):
    """As sums, for compute-sanitizer."""
    return sums(device, [1000], False)


def trained(device, how):
    """A model of ranks.py, trained as `how` does; its parameters are compared there."""
    ranks.calls["staged"] = 1  # by NCCL, which path_taken looks at
    answer = how(device, False)
    bad, facts = path_taken()
    return {**answer, "wrong": answer.get("wrong", []) + bad, "facts": facts}


def ddp(device):
    return trained(device, ranks.ddp)


def fsdp2(device):
    return trained(device, ranks.fsdp2)


def run(part, fake=False, blind=""):
    """A part's answer."""
    if fake or not torch.cuda.is_available():
        return {"skipped": "NCCL needs a GPU"}
    version = torch.cuda.nccl.version()
    if version < NEEDS:
        have, need = (".".join(map(str, one)) for one in (version, NEEDS))
        return {
            "skipped": f"NCCL {have}: ranks share a GPU from {need} on; LD_PRELOAD brings another"
        }
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    return globals()[part](torch.device("cuda", 0))


def main():
    faulthandler.enable()
    faulthandler.dump_traceback_later(streams.LIVES_S, exit=True)
    torch.set_num_threads(1)
    answer = run(sys.argv[1], **json.loads(sys.argv[2]))
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
