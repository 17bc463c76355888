# SPDX-License-Identifier: Apache-2.0
"""The store that an agent of torchrun keeps: agent_store.py HOST PORT.  Listens until it is ended."""

import datetime
import signal
import sys

from fanin import _libuv

WAIT = datetime.timedelta(seconds=60)

store = _libuv.tcp_store(sys.argv[1], int(sys.argv[2]), True, WAIT)
print("listens", flush=True)
signal.pause()
