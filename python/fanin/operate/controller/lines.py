# SPDX-License-Identifier: Apache-2.0
"""Lines from daemons and workers: one table of messages, whose fields are shapes (shape.py).

Nothing of a line is trusted.  `decode` is the only way from bytes to a message: it gives the name
of the message and its fields, of which each has the type and bounds of the table, or raises
Refused with a sentence.  Other keys are left out.
"""

from __future__ import annotations

import ipaddress
import math
import re
import socket
from typing import Any, Callable, Dict, List, Optional, Tuple

from ...research import files
from ..shape import Bad, checked
from . import limits
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


# ---- kinds of fields: as shapes, or functions from a JSON value, None if it is missing ----

INT = (-(1 << 63), (1 << 63) - 1)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def text(value: Any) -> str:
    """A text that is UTF-8, without a zero; Bad: it is none."""
    if not isinstance(value, str) or re.search("[\0\ud800-\udfff]", value):
        raise Bad("expected a text")
    return value


def count(value: Any) -> int:
    """A counter; 0 if it is not one."""
    return int(value) if _whole(value) and 0 <= value <= INT[1] else 0


def gbps_by_name(value: Any) -> Dict[str, float]:
    """Rates by names of nodes; those that are no numbers are left out."""
    if not isinstance(value, dict) or len(value) > limits.BESIDE_MAX:
        return {}
    return {key: float(rate) for key, rate in value.items() if is_number(rate)}


def is_number(value: Any) -> bool:
    """Is it a finite number?"""
    if _whole(value):
        return bool(INT[0] <= value <= INT[1])
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


def numbers(most: int) -> Callable[[Any], Optional[List[int]]]:
    """Route numbers: those of a list that are none are 0.  None: no list."""

    def check(value: Any) -> Optional[List[int]]:
        if not isinstance(value, list):
            return None
        return [n if _whole(n) and 1 <= n <= limits.NUMBER_MAX else 0 for n in value[:most]]

    return check


def address(value: Any) -> str:
    """ADDR:PORT of a daemon; Bad: it is none."""
    if len(text(value)) > limits.ADDRESS_BYTES or not is_address(value):
        raise Bad("expected ADDR:PORT")
    return str(value)


def above(value: Any) -> Json:
    """A server's parent, and its place among the parent's children; "" and zeros: none."""
    if value is None:
        return {"at": "", "index": 0, "siblings": 0}
    place = (0, limits.RANKS_MAX)
    found: Json = checked(value, {"at!": text, "index": place, "siblings": place})
    if len(found["at"]) > limits.ADDRESS_BYTES or found["index"] >= found["siblings"]:
        raise Bad("expected a place")
    return found


def health(value: Any) -> Json:
    """A report, which each daemon sends four times a second; Bad: it is no object."""
    if not isinstance(value, dict):
        raise Bad("expected an object")
    get = value.get
    found: Json = {key: count(get(key)) for key in (*HEALTH, "neighbours")}
    return {**found, "silent": names(get("silent")), "others": gbps_by_name(get("others"))}


# By role and name, what a message has, and what is said where it is not so; "": what is said of a line
# without any of the role's messages.  A message is the first of these whose name the line has as a key.
NEW, NODE, WORKER = "new", "node", "worker"
MESSAGES: Dict[str, Dict[str, Tuple[Json, str]]] = {
    NEW: {
        "hello": (
            {
                **{"hello!": text, "name!": text, "listen!": address, "started": (0, INT[1])},
                **{"shards!": (1, limits.SHARDS_MAX), "slots": (0, limits.SLOTS_MAX)},
                **{"above": above, "routes": numbers(4 * limits.SWITCH_ROUTES_MAX)},
            },
            f"hello: expected hello, name, listen as ADDR:PORT, shards from 1 to {limits.SHARDS_MAX}, "
            "slots; of a server expected above with at, index, siblings",
        ),
        "join": (
            {
                "join!": {
                    **{"job!": text, "rank!": INT, "ranks!": INT, "launch": launch},
                    "routes": numbers(limits.PARTS_MAX + 1),
                }
            },
            "join: expected job, rank and ranks",
        ),
    },
    NODE: {
        "health": ({"health": health}, ""),
        "ok": ({"ok": INT}, ""),
        "error": ({"error": INT, "why": lambda why: text(why or "for no reason")}, ""),
        "stopping": ({"stopping": lambda value: value is True}, ""),
    },
    WORKER: {
        "moved": ({"moved": {"part!": INT, "route!": INT}}, ""),
        "join": ({"join": lambda value: value}, ""),
    },
}


def decode(said: bytes, role: str, unknown: str) -> Tuple[str, Json]:
    """The message's name and its checked fields.  `role`: who sends it, a key of MESSAGES;
    `unknown` is said of a line without any of that role's messages."""
    try:
        line = files.parse(said)
    except files.FileError as error:
        raise Refused(f"expected a JSON object in a line: {error}") from None
    if not isinstance(line, dict):
        raise Refused("expected a JSON object in a line")
    name = next((name for name in MESSAGES[role] if name in line), "")
    if not name:
        raise Refused(unknown)
    shape, wrong = MESSAGES[role][name]
    try:
        return name, checked(line, shape)
    except Bad:
        raise Refused(wrong or unknown) from None
