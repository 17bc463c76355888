# SPDX-License-Identifier: Apache-2.0
"""What one process of tools/gpu-check does: `alone.py PART ARGUMENTS-AS-JSON`.

It prints, as JSON: `figures` or `facts`, `wrong` (a list of texts), `skipped` (why).
"""

import contextlib
import faulthandler
import json
import os
import platform
import shutil
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python"), str(HERE.parents[1] / "python")]

import lazy_streams
import streams
import torch

from fanin import _completion, _library, _staging

REPEATS = 5  # of what is timed; the best counts
SMALL_SLICE = 1 << 16  # bytes, where many slices are wanted of small tensors


def device(fake):
    """Where tensors are staged from."""
    return torch.device("cpu") if fake else torch.device("cuda", 0)


# ---- the machine ---------------------------------------------------------------------


def card():
    """What is here.  `no_gpu`: why there is none."""
    facts = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "kernel": platform.release(),
        "glibc": platform.libc_ver()[1],
        "cpus": os.cpu_count(),
    }
    try:
        torch.cuda.init()
        found = torch.cuda.get_device_properties(0)
    except (AssertionError, RuntimeError) as error:
        return {"facts": facts, "no_gpu": f"PyTorch {torch.__version__}: {error}"}
    facts["card"] = found.name
    facts["memory_mib"] = found.total_memory >> 20
    facts["capability"] = f"{found.major}.{found.minor}"
    asked = ["nvidia-smi", "--query-gpu=driver_version,pci.bus_id", "--format=csv,noheader"]
    if shutil.which(asked[0]):
        said = subprocess.run(asked, capture_output=True, text=True, timeout=20).stdout
        facts["driver"] = said.strip()
    return {"facts": facts}


def library():
    """The library is found, and is of this version."""
    _library.load()
    return {"facts": {"path": _library.path()}}


# ---- streams and events --------------------------------------------------------------


def late(fake, order):
    """Streams that are late so that `order`, which is not kept, is missed; "": all late, all kept."""
    if fake:
        return lazy_streams.Streams(blind=[order] if order else [])
    if not order:
        return streams.Delayed(["main", *streams.NAMES])
    source, target = order.split()
    return streams.Delayed([target if source == "host" else source], [order])


def orders(fake=False, blind=""):
    """Sums are right however late streams are, and wrong without any of the five orders."""
    streams.set_slices(256 if fake else SMALL_SLICE)
    wrong = []
    kept = lazy_streams.Streams(blind=[blind]) if blind else late(fake, "")
    if not streams.sums_are_right(kept, device(fake)):
        wrong.append("sums on late streams")
    noticed = []
    for order in streams.ORDERS:
        last = "main" if order == "back ends" else "ends"
        if streams.sums_are_right(late(fake, order), device(fake), last):
            wrong.append(f'without the order "{order}" sums are right: this check sees nothing')
        else:
            noticed.append(order)
    return {"wrong": wrong, "facts": {"needed": noticed}}


class Unrecorded(streams.Delayed):
    """Forgets to say which streams use a tensor's memory."""

    def run(self, stream, what, touched):
        super().run(stream, what, [])


def keep_no_works():
    """Tensors go with the last work that Python has of them; 64 works are kept otherwise."""
    _completion.KEPT_OUTPUTS_MAX = 0


def overwritten(cuda):
    """How many of some tensors of the caller's stream were overwritten by sums of others, which were
    dropped before their copies back had begun."""
    stager, where, found = _staging.Stager(streams.Doubling()), device(False), 0
    for _ in range(REPEATS):
        tensor = torch.full((SMALL_SLICE >> 2,), 1.0, device=where)
        gone = weakref.ref(tensor)
        stager.start(cuda, [tensor], streams.in_place(tensor), None)
        del tensor
        while gone() is not None:  # until the copies back are on their stream
            time.sleep(0)
        others = [torch.full((SMALL_SLICE >> 2,), -1.0, device=where) for _ in range(4)]
        torch.cuda.synchronize()
        found += sum(not bool((one == -1).all()) for one in others)
    stager.stop()
    return found


def memory(fake=False):
    """Memory of a tensor that the program drops comes back only when copies have left it."""
    if fake:
        return {"skipped": "only a GPU's memory comes back so"}
    keep_no_works()
    wrong = []
    streams.set_slices(SMALL_SLICE)
    if overwritten(streams.Delayed(["back"])):
        wrong.append("a tensor has the sum of another, which was dropped")
    if not overwritten(Unrecorded(["back"])):
        wrong.append("without record_stream nothing was overwritten: this check sees nothing")
    return {"wrong": wrong}


def watched(fake=False):
    """Operations whose tensors go while copies are under way.  Under compute-sanitizer, too, with an
    allocator whose memory it can watch; see check.py."""
    streams.set_slices(SMALL_SLICE)
    where = device(fake)
    keep_no_works()
    cuda = _staging._cuda
    if fake:
        cuda = lazy_streams.Streams(1, 0.3, at_once=["main", "ends"])
    stager, wrong = _staging.Stager(streams.Doubling()), 0
    for number in range(24):
        size = (1, 5000, 16384, 40000)[number % 4]
        tensor = torch.full((size,), float(number), device=where)
        work = stager.start(cuda, [tensor], streams.in_place(tensor), None)
        if number % 2:
            work.wait()
            wrong += not bool((tensor == 2.0 * number).all())
        del tensor, work
        torch.full((size,), -1.0, device=where)  # comes to lie where memory was given back
    stager.stop()
    for one in threading.enumerate():
        if one.name == "fanin":
            one.join(streams.WAIT_S)
    if not fake:
        torch.cuda.synchronize()
    return {"wrong": [f"{wrong} sums"] * bool(wrong)}


# ---- bandwidth -----------------------------------------------------------------------


def best_gbps(size, what):
    """10^9 bytes a second, when `what` moves `size` bytes."""
    times = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        what()
        times.append(time.perf_counter() - begun)
    return round(size / min(times) / 1e9, 2)


def copy_engine(memory, pieces, fake):
    """GB/s of plain asynchronous copies between the GPU's memory and pinned pieces: to the host,
    from it, and both at a time (each way)."""
    step = pieces[0].numel()
    parts = [(memory[at : at + step], at // step) for at in range(0, memory.numel(), step)]
    half = len(pieces) // 2

    def moved(to_host, to_gpu):
        for part, number in parts:
            for wanted, first in ((to_host, 0), (to_gpu, half)):
                if wanted is not None:
                    piece = pieces[first + number % half][: part.numel()]
                    into, source = (piece, part) if wanted is to_host else (part, piece)
                    with entered(wanted):
                        into.copy_(source, non_blocking=True)
        if not fake:
            torch.cuda.synchronize()

    entered = contextlib.nullcontext if fake else torch.cuda.stream
    one, two = (object(), object()) if fake else (torch.cuda.Stream(), torch.cuda.Stream())
    ways = {"to_host": (one, None), "to_gpu": (None, two), "both_ways": (one, two)}
    return {
        name: best_gbps(memory.numel(), lambda w=which: moved(*w)) for name, which in ways.items()
    }


def bandwidth(fake=False, mib=256):
    """Staging beside what the copy engines do without it, in the same slices."""
    if fake:
        mib = 1
        streams.set_slices(SMALL_SLICE)
    where, wrong = device(fake), []
    cuda = lazy_streams.Streams(at_once=["main", "ends"]) if fake else _staging.Cuda()
    whole = torch.arange(mib << 18, device=where, dtype=torch.float32)
    pieces = [cuda.pinned(_staging.SLICE_BYTES) for _ in range(_staging.PIECES_MAX)]
    engine = copy_engine(torch.zeros_like(whole).view(torch.uint8), pieces, fake)

    def staged(membership):
        stager = _staging.Stager(membership)

        def once():
            stager.start(cuda, [whole], in_place, None).wait()
            if not fake:
                torch.cuda.synchronize()

        in_place = streams.in_place(whole)
        return stager, once

    stager, once = staged(streams.Doubling())
    expected = 2 * whole
    once()
    stager.stop()
    if not torch.equal(whole, expected):
        wrong.append(f"the sum of {mib} MiB")
    stager, once = staged(streams.Nothing())
    once()  # pinned memory is made
    found = best_gbps(whole.numel() * 4, once)
    stager.stop()
    if not torch.equal(whole, expected):
        wrong.append("elements after copies there and back")
    figures = {f"copy_engine_{name}_gbps": value for name, value in engine.items()}
    figures["staging_gbps"] = found
    figures["staging_by_copy_engine"] = round(found / engine["both_ways"], 3)
    return {"wrong": wrong, "figures": figures}


def main():
    faulthandler.enable()
    faulthandler.dump_traceback_later(streams.LIVES_S, exit=True)
    torch.set_num_threads(1)
    print(json.dumps(globals()[sys.argv[1]](**json.loads(sys.argv[2]))), flush=True)
    if sys.argv[1] != "watched":  # compute-sanitizer reports at a normal end
        os._exit(0)  # threads may be letting go of tensors, which a normal end cuts short


if __name__ == "__main__":
    main()
