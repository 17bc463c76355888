# SPDX-License-Identifier: Apache-2.0
"""Lines from daemons and workers: one table of messages and kinds of fields.

Nothing of a line is trusted.  `decode` is the only way from bytes to a message: it gives the name
of the message and its fields, of which each has the type and bounds of the table, or raises
Refused with a sentence.  Other keys are left out.
"""

from __future__ import annotations

import ipaddress
import json
import math
import re
import socket
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import limits
from ...research import files
from .model import HEALTH, Json, Refused, Wrong

# ---- addresses, as options, topologies and daemons write them: HOST:PORT or [IPV6]:PORT ----

_address = re.compile(r"(?:\[([^\]]+)\]|([^:]+)):([0-9]{1,5})", re.ASCII)


def resolve(said: str) -> Tuple[str, int, int]:
    """The host and port of an address in numbers, and its family as a number of socket; Wrong: it has
    another form."""
    parts = _address.fullmatch(said)
    if not parts or int(parts[3]) > 65535:
        raise Wrong(f'expected HOST:PORT or [IPV6]:PORT, got "{said}"')
    host, port = parts[1] or parts[2], int(parts[3])
    family = socket.AF_INET6 if parts[1] else socket.AF_INET
    try:
        found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else error
        raise Wrong(f'expected an address in numbers, got "{host}" ({cause})') from None
    return str(found[0][4][0]), port, family


def plain_host(host: str) -> str:
    """The host of a socket's peer or of `resolve`, in one form for IPv4 and IPv6."""
    try:
        at = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = at.ipv4_mapped if isinstance(at, ipaddress.IPv6Address) else None
    return str(mapped or at)


def is_address(said: str) -> bool:
    """Is it ADDR:PORT of one host, as numbers?"""
    try:
        host, port, _ = resolve(said)
        return port > 0 and not ipaddress.ip_address(plain_host(host)).is_unspecified
    except (Wrong, ValueError):
        return False


def text_of(host: str, port: int) -> str:
    """ADDR:PORT."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# ---- kinds of fields ----

NONE: Any = object()  # a field that is not there
Kind = Callable[[Any], Any]  # from a JSON value to a checked one; raises _Bad

INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1


class _Bad(Exception):
    """A value is not of its kind."""


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def integer(low: int = INT_MIN, high: int = INT_MAX, default: Any = NONE) -> Kind:
    """A whole number from `low` to `high`; without a default it has to be there."""

    def check(value: Any) -> Any:
        if value is NONE and default is not NONE:
            return default
        if not _whole(value) or not low <= value <= high:
            raise _Bad
        return value

    return check


def text(most: int, default: Any = NONE) -> Kind:
    """A string of at most `most` bytes of UTF-8, without a zero."""

    def check(value: Any) -> Any:
        if value is NONE and default is not NONE:
            return default
        if not isinstance(value, str) or len(value) > most or "\0" in value:
            raise _Bad
        try:
            if len(value.encode()) > most:
                raise _Bad
        except UnicodeEncodeError:
            raise _Bad from None
        return value

    return check


def nested(fields: Dict[str, Kind]) -> Kind:
    """An object with these fields."""

    def check(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _Bad
        return {key: kind(value.get(key, NONE)) for key, kind in fields.items()}

    return check


def count(value: Any) -> int:
    """A counter; 0 if it is not one."""
    return int(value) if _whole(value) and 0 <= value <= INT_MAX else 0


def gbps_by_name(value: Any) -> Dict[str, float]:
    """Rates by names of nodes; those that are no numbers are left out."""
    if not isinstance(value, dict) or len(value) > limits.BESIDE_MAX:
        return {}
    return {key: float(rate) for key, rate in value.items() if is_number(rate)}


def is_number(value: Any) -> bool:
    """Is it a finite number?"""
    if _whole(value):
        return bool(INT_MIN <= value <= INT_MAX)
    return isinstance(value, float) and math.isfinite(value)


def launch(value: Any) -> int:
    """The id of a launch as hexadecimal digits; 0: none."""
    try:
        return int(value, 16) & ((1 << 64) - 1) if isinstance(value, str) else 0
    except ValueError:
        return 0


def names(value: Any) -> List[str]:
    """The strings of a list, the first limits.BESIDE_MAX values."""
    if not isinstance(value, list):
        return []
    return [one for one in value[: limits.BESIDE_MAX] if isinstance(one, str)]


def numbers(most: int) -> Kind:
    """Route numbers: those of a list that are none are 0.  None: no list."""

    def check(value: Any) -> Optional[List[int]]:
        if not isinstance(value, list):
            return None
        return [n if _whole(n) and 1 <= n <= limits.NUMBER_MAX else 0 for n in value[:most]]

    return check


def address(value: Any) -> str:
    """ADDR:PORT of a daemon."""
    found: str = text(limits.ADDRESS_BYTES)(value)
    if not is_address(found):
        raise _Bad
    return found


ABOVE = {
    "at": text(limits.ADDRESS_BYTES),
    "index": integer(0, limits.RANKS_MAX, 0),
    "siblings": integer(0, limits.RANKS_MAX, 0),
}


def above(value: Any) -> Json:
    """A server's parent, and its place among the parent's children; "" and zeros: none."""
    if value is NONE:
        return {"at": "", "index": 0, "siblings": 0}
    found: Json = nested(ABOVE)(value)
    if found["index"] >= found["siblings"]:
        raise _Bad
    return found


HEALTH_FIELDS: Dict[str, Kind] = {
    **dict.fromkeys(HEALTH, count),
    "neighbours": count,
    "silent": names,
    "others": gbps_by_name,
}
JOIN = {
    "job": text(1 << 20),
    "rank": integer(),
    "ranks": integer(),
    "launch": launch,
    "routes": numbers(limits.PARTS_MAX + 1),
}

# Of each message: its fields with their kinds, and what is said where one is not of its kind.  A
# message is the first of its role's whose own name the line has as a key.
Message = List[Tuple[Dict[str, Kind], str]]
HELLO: Message = [
    (
        {"hello": text(1 << 20), "name": text(1 << 20), "listen": address},
        "hello: expected hello, name, and listen as ADDR:PORT",
    ),
    (
        {
            "shards": integer(1, limits.SHARDS_MAX),
            "slots": integer(0, limits.SLOTS_MAX, 0),
            "started": integer(default=0),
        },
        f'hello of "%s": expected shards from 1 to {limits.SHARDS_MAX}, and slots',
    ),
    (
        {"above": above, "routes": numbers(4 * limits.SWITCH_ROUTES_MAX)},
        'hello of "%s": expected above with at, index, siblings',
    ),
]
NEW = "new"
NODE = "node"
WORKER = "worker"
MESSAGES: Dict[str, Dict[str, Message]] = {
    NEW: {
        "hello": HELLO,
        "join": [({"join": nested(JOIN)}, "join: expected job, rank and ranks")],
    },
    NODE: {
        "health": [({"health": nested(HEALTH_FIELDS)}, "")],
        "ok": [({"ok": integer()}, "")],
        "error": [({"error": integer(), "why": text(1 << 20, "for no reason")}, "")],
        "stopping": [({"stopping": lambda value: value is True}, "")],
    },
    WORKER: {
        "moved": [({"moved": nested({"part": integer(), "route": integer()})}, "expected moved")],
        "join": [({"join": lambda value: value}, "")],
    },
}


def parse(said: bytes) -> Any:
    """JSON as it is; Refused: it is none, has a key twice, or is nested too deeply."""
    try:
        return files.decode(said.decode())
    except json.JSONDecodeError as error:
        column, cause = error.colno, error.msg
    except (ValueError, RecursionError) as error:
        column, cause = 0, str(error) if not isinstance(error, RecursionError) else "too deep"
    raise Refused(f"expected a JSON object in a line, column {column}: {cause}")


def decode(said: bytes, role: str, unknown: str) -> Tuple[str, Json]:
    """The message's name and its checked fields.  `role`: who sends it, a key of MESSAGES;
    `unknown` is said of a line without any of that role's messages."""
    line = parse(said)
    if not isinstance(line, dict):
        raise Refused("expected a JSON object in a line, column 0: something else")
    for name, groups in MESSAGES[role].items():
        if name not in line:
            continue
        fields: Json = {}
        for kinds, wrong in groups:
            try:
                for key, kind in kinds.items():
                    fields[key] = kind(line.get(key, NONE))
            except _Bad:
                if not wrong:
                    raise Refused(unknown) from None
                whom = str(fields.get("name", ""))[:63]
                raise Refused(wrong.replace("%s", whom)) from None
        return name, fields
    raise Refused(unknown)
