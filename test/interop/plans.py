# SPDX-License-Identifier: Apache-2.0
"""What the two workers in Python are told: options, operations, plans; and their socket, with a bad network.

PLAN has one operation a line, `VERB DTYPE OP COUNT ROOT`; `wait` for all those before it; and
`sleep SECONDS`, alive.  IN holds the tensors of all operations one behind the other; results go to
OUT in the same way.  On stderr a worker says `waited` when such a wait is over, then its counters,
then `error CODE TEXT` if there was one.
"""
from __future__ import annotations

import random
import socket
import sys
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Tuple

SUM, AVG, MIN, MAX, BCAST, BARRIER = range(6)  # section 3.4
OPS = {"sum": SUM, "avg": AVG, "min": MIN, "max": MAX}
DTYPES = {"float32": 0, "float16": 1, "bfloat16": 2, "int32": 3, "int64": 4, "uint8": 7,
          "float64": 8}
SIZES = {"float32": 4, "float16": 2, "bfloat16": 2, "int32": 4, "int64": 8, "uint8": 1,
         "float64": 8}


class JobError(Exception):
    """The job is over.  `code` is of section 4.6."""

    def __init__(self, code: int, text: str, blamed: Sequence[int] = ()) -> None:
        super().__init__(text)
        self.code, self.blamed = code, list(blamed)


@dataclass
class Options:
    address: Tuple[str, int]
    job: str
    rank: int
    ranks: int
    mtu: int = 1500
    window: int = 0
    timeout: float = 30.0
    alive_ms: int = 10000
    fixed: bool = False
    wire: int = 0
    summed: bool = False
    wide: bool = True
    numbers: bool = True
    group: bool = False
    loss: float = 0.0  # of what is sent and of what arrives; for tests
    seed: int = 1
    workers: int = 0  # T, known when READY

    @property
    def payload(self) -> int:
        """P: section 5.1."""
        return min((self.mtu - 48 - 36 - 8 * -(-self.ranks // 64)) // 64 * 64, 8832)


@dataclass
class Request:
    """An operation.  root None: all-reduce or barrier.  `data` is the tensor as bytes."""

    op: int
    dtype: int
    size: int  # of an element, in bytes
    count: int
    data: bytes
    root: Optional[int] = None
    full: int = 0  # elements of a full fragment; this and what follows is for the worker
    first: int = 0  # number of the first fragment
    left: int = 0  # fragments without result
    results: List[bytes] = field(default_factory=list)


def options_from(env: Dict[str, str]) -> Options:
    """By the variables that libfanin reads, and INTEROP_* for what it does not have."""
    host, _, port = env["FANIN_SWITCH"].rpartition(":")
    return Options(
        address=(host.strip("[]"), int(port)), job=env["FANIN_JOB"],
        rank=int(env["FANIN_RANK"]), ranks=int(env["FANIN_RANKS"]),
        mtu=int(env.get("FANIN_MTU", "1500")), window=int(env.get("FANIN_WINDOW", "0")),
        timeout=int(env.get("FANIN_TIMEOUT_MS", "30000")) / 1000,
        alive_ms=int(env.get("FANIN_ALIVE_MS", "10000")),
        fixed=env.get("FANIN_MODE", "native") == "fixed",
        wire={**DTYPES, "int8": 9}[env.get("FANIN_WIRE", "float32")],
        summed=env.get("INTEROP_SUMMED", "0") == "1", wide=env.get("INTEROP_NARROW", "0") == "0",
        numbers=env.get("INTEROP_NUMBERS", "1") == "1", group=env.get("INTEROP_GROUP", "0") == "1",
        loss=float(env.get("INTEROP_LOSS", "0")), seed=int(env.get("INTEROP_SEED", "1")))


def request_of(line: str, tensors: bytes, at: int) -> Request:
    verb, dtype, op, count, root = line.split()
    code, size = {"broadcast": BCAST, "barrier": BARRIER}.get(verb, OPS.get(op, SUM)), SIZES[dtype]
    return Request(code, DTYPES[dtype], size, int(count), tensors[at:at + int(count) * size],
                   int(root) if verb in ("broadcast", "reduce") else None)


def run_plan(worker: Any, plan: Sequence[str], tensors: bytes) -> bytes:
    """Start and wait as the plan says.  The results of all operations, those for us."""
    results: List[bytes] = []
    started: List[Tuple[Request, Any]] = []
    at = 0
    for line in list(plan) + ["wait"]:
        if line == "wait":
            for request, handle in started:
                data = worker.wait(handle)
                if request.op == BCAST and request.root == worker.o.rank:
                    data = request.data
                if request.op == BCAST or request.root in (None, worker.o.rank):
                    results.append(data)
            started = []
            print("waited", file=sys.stderr, flush=True)
        elif line.startswith("sleep"):
            worker.idle(float(line.split()[1]))
        else:
            request = request_of(line, tensors, at)
            at += len(request.data)
            started.append((request, worker.start(request)))
    return b"".join(results)


def main(argv: Sequence[str], worker: Any) -> int:
    with open(argv[1], encoding="utf-8") as f:
        plan = f.read().splitlines()
    with open(argv[2], "rb") as f:
        tensors = f.read()
    error = None
    try:
        worker.join()
        results = run_plan(worker, plan, tensors)
    except JobError as e:
        error = e
    worker.leave(error)
    print(" ".join(f"{k}={v}" for k, v in worker.counters.items()), file=sys.stderr)
    if error:
        print(f"error {error.code} {error}", file=sys.stderr)
        return 1
    with open(argv[3], "wb") as f:
        f.write(results)
    return 0


CE, ECT0 = 3, 2
IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3


class Lossy:
    """A connected socket: only what comes from `address` is heard, and no call blocks.

    Of what is sent and of what arrives, a share of `o.loss` is lost; as much of what is sent is
    doubled, and as much late."""

    def __init__(self, o: Options, address: Tuple[str, int]) -> None:
        self.loss, self.held = o.loss, []  # type: float, List[bytes]
        self.random = random.Random(o.seed * 1000 + o.rank + address[1])
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        if family == socket.AF_INET:
            self.socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
            self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ECT0)
            self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        self.socket.connect(address)
        self.socket.setblocking(False)
        self.congested = False  # the datagram received last had met congestion

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, data: bytes) -> None:
        for one in self._faults(data):
            try:
                self.socket.send(one)
            except OSError:  # full, or an ICMP error of an earlier one
                pass

    def _faults(self, data: bytes) -> List[bytes]:
        if self.loss == 0:
            return [data]
        chance, before = self.random.random() / self.loss, self.held
        self.held = [data] if 2 <= chance < 3 else []
        if chance < 1 or self.held:
            return before
        return [data] * (2 if chance < 2 else 1) + before

    def receive(self) -> Optional[bytes]:
        """The next datagram; None if there is none, or it was lost."""
        try:
            data, about, _, _ = self.socket.recvmsg(65536, 64)
        except OSError:
            return None
        tos = [d for level, kind, d in about
               if (level, kind) == (socket.IPPROTO_IP, socket.IP_TOS)]
        self.congested = bool(tos) and tos[0][0] & 3 == CE
        return None if self.loses() else data

    def loses(self) -> bool:
        """Is the datagram that has arrived lost?"""
        return self.random.random() < self.loss

    def close(self) -> None:
        self.socket.close()
