# SPDX-License-Identifier: Apache-2.0
"""A rank that ends as programs do, by the end of its text, while staged sums and callbacks are under way."""

import torch
import torch.distributed as dist
from lazy_streams import Streams

import fanin.torch
from fanin import _carried, _staging

dist.init_process_group("fanin")
streams = Streams(dist.get_rank(), 0.3, at_once=["main", "ends"])
_staging.needed_for = lambda tensor: streams
_carried.SLICE_BYTES = 16384
dist.barrier()
works = [dist.all_reduce(torch.ones(50000), async_op=True) for _ in range(30)]
for work in works:
    work.get_future().then(lambda done: done.value()[0] + 1)
