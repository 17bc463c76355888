# SPDX-License-Identifier: Apache-2.0
"""A rank that sums once in a profiled step, in the thread that was first: PyTorch 2 profiles no other."""

import json
import sys
import time

import torch

import fanin
import fanin.trace

options = json.loads(sys.argv[2])
comm = fanin.Communicator(switch=options["switch"], job=options["job"])
with torch.profiler.profile() as profile:
    fanin.trace.mark(comm.rank)
    with torch.profiler.record_function("step"):
        time.sleep(options["pause_s"])
        comm.allreduce(torch.ones(1000))
        time.sleep(options["pause_s"])
profile.export_chrome_trace(options["out"].replace("%r", str(comm.rank)))
comm.close()
