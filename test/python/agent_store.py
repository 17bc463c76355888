# SPDX-License-Identifier: Apache-2.0
"""The store that an agent of torchrun keeps: agent_store.py HOST PORT.  Listens until it is ended."""

import datetime
import signal
import sys

from torch.distributed import TCPStore

store = TCPStore(
    sys.argv[1],
    int(sys.argv[2]),
    None,
    True,
    datetime.timedelta(seconds=60),
    wait_for_workers=False,
)
print("listens", flush=True)
signal.pause()
