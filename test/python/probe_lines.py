# SPDX-License-Identifier: Apache-2.0
"""What `fanin probe` prints, by kind of line, as shapes (python/fanin/operate/shape.py)."""

from fanin.operate.shape import COUNT, TEXT, checked

HOSTS_MAX = 64
NETWORKS_MAX = 4
ROUNDS_MAX = 25
OPTIONS_MAX = 128
SHARDS_MAX = 64
NAME_MAX = 31
FAILS = ("", "local", "router", "forward", "back")  # of packets of a size
LIST_MAX = 2047  # bytes of the named switches

_RANK = (0, 65535)
_BYTES = (1, 65535)  # of a frame's payload
_RATES = [(0, 1 << 31), HOSTS_MAX]
_ERROR = (0, 4095)  # of the kernel; 0: none
_INT = (0, (1 << 31) - 1)
_LIBRARY = {"program": TEXT, "path": TEXT, "version": TEXT, "why": TEXT, "named": True}
_SOCKET = {
    **{"error": _ERROR, "segment": True, "gro": True},
    **{f"{key}_bytes": _INT for key in ("receive", "send", "wanted")},
}
_FLAGS = "is_rank ahead hosts local asked wanted one_host".split()
LINES = {
    "settings": {
        "version": TEXT,
        "built": TEXT,
        "protocol": _INT,
        "library": _LIBRARY,
        "socket": _SOCKET,
        "options": [{"name": NAME_MAX, "value": LIST_MAX, "from": TEXT}, OPTIONS_MAX],
        "unknown": [{"name": TEXT, "near": TEXT}, OPTIONS_MAX],
        "error": TEXT,
        "sums": {
            **{key: TEXT for key in "wrong controller server key nowhere meeting".split()},
            **{key: True for key in _FLAGS},
            "switch": LIST_MAX,
        },
    },
    "begin": {"rank": _RANK, "ranks": _BYTES},
    "config": {"error": TEXT, "mtu": _INT, "timeout_ms": _INT, "multicast": True},
    "machine": {
        "version": TEXT,
        "protocol": _INT,
        "library": _LIBRARY,
        "clock": {"resolution_ns": COUNT, "reading_ns": COUNT, "step_ns": COUNT},
        "socket": _SOCKET,
        "offload": {
            **{"error?": _ERROR, "segment": True, "gro": True},
            **{key: _INT for key in ("datagrams", "came", "sends", "receives")},
        },
        "shares_memory": True,
        "no_memory": TEXT,
    },
    "named": {
        **{"text": LIST_MAX, "at": TEXT, "late": True, "lost": TEXT, "key": TEXT},
        "exposed": True,
    },
    "meeting": {
        **{"met": True, "first": True, "silent_switch": True, "error": TEXT, "at": TEXT},
        "ranks": [_BYTES, HOSTS_MAX],
        "rails": [TEXT, NETWORKS_MAX],
        "silent": (-1, 65535),
    },
    "lost": {"why": TEXT},
    "switch": {
        **{key: TEXT for key in ("at", "device", "gateway", "version")},
        **{key: True for key in ("redirected", "answers", "strays")},
        **{key: _INT for key in ("other_protocol", "tried", "tried_ms", "window", "group")},
        "error": _ERROR,
        "shards": (0, SHARDS_MAX),
    },
    "no_socket": {"check": NAME_MAX, "error": _ERROR},
    "train": {
        "check": NAME_MAX,
        **{key: _INT for key in ("packet_bytes", "payload", "sent", "answered")},
        "send_error": _ERROR,
        **{f"{key}_ns": COUNT for key in ("min", "p50", "p99")},
    },
    "mtu": {
        **{key: _INT for key in ("asked", "packet_bytes", "path", "slots", "told")},
        **{key: True for key in ("fits", "path_fits", "inside")},
        "fails": NAME_MAX,
    },
    "burst": {
        **{key: _INT for key in ("rounds", "burst", "sent", "lost", "sends", "largest_batch")},
        **{"segment": True, "gro_off": True},
    },
    "shards": {"port": _RANK, "silent": [(0, 1 << 17), SHARDS_MAX]},
    "sum": {
        **{"job": TEXT, "cause": TEXT, "why": TEXT, "multicast": True},
        **{key: _INT for key in ("bytes", "wrong")},
        "retransmits": COUNT,
    },
    "skip": {"check": NAME_MAX, "why": NAME_MAX},
    "failure": {"check": NAME_MAX, "cause": NAME_MAX, "why": TEXT},
    "unready": {"ranks": _BYTES},
    "alone": {
        "payload": _BYTES,
        "headers": _RANK,
        "switches": [{"at": TEXT, "per_s": (0.0, 1e12)}, HOSTS_MAX],
    },
    "links": {
        "payload": _BYTES,
        "answer": _BYTES,
        "headers": _RANK,
        "rtt_us": _RATES,
        "mtu": _RATES,
        "hosts": [{"first": _RANK, "ranks": _BYTES}, HOSTS_MAX],
        "rails": [[{"shift": (1, HOSTS_MAX), "per_s": _RATES}, 3], NETWORKS_MAX],
        "switches": [{"at": TEXT, "rail": (0, NETWORKS_MAX - 1), "per_s": _RATES}, HOSTS_MAX],
    },
    "summing": {
        "shares_memory": True,
        "payload": _BYTES,
        "jumbo_payload": _BYTES,
        "window_bytes": (0.0, 1e15),
        "sums": [True, HOSTS_MAX],
    },
    "allreduce": {"wrong": COUNT, "settled": True, "took_ns": [(1, 1 << 62), ROUNDS_MAX]},
    "end": {"switch": TEXT},
}


def said(kind, of):
    """What a line of the probe says, with all that is not given at its least."""
    return checked(of, LINES[kind])
