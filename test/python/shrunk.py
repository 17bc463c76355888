# SPDX-License-Identifier: Apache-2.0
"""A rank of three, of which rank 0, which has the switch, kills itself; rank 1, which takes that over,
comes to shrink later than rank 2.  Prints the sum of the ranks that are left."""

import array
import os
import signal
import time

import fanin

LATE_S = 2.5  # than a named switch may be silent

comm = fanin.Communicator(alive=5)
rank, one = comm.rank, array.array("i", [1])
comm.allreduce(one)
if rank == 0:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    comm.allreduce(one)
    raise SystemExit("a sum without rank 0")
except fanin.FaninError:
    time.sleep(LATE_S if rank == 1 else 0)
left = comm.shrink(30)
print(left.allreduce(array.array("i", [rank]))[0], flush=True)
left.close()
comm.close()
