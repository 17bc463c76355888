# SPDX-License-Identifier: Apache-2.0
"""Addresses as options, topologies and daemons write them: HOST:PORT or [IPV6]:PORT."""

from __future__ import annotations

import ipaddress
import socket
from typing import Tuple

from .model import Wrong

HOST_BYTES = 255


def split(said: str) -> Tuple[str, int, bool]:
    """Host, port, and whether the host stood in brackets; Wrong: it has another form."""
    is_v6 = said.startswith("[")
    host, colon, digits = said[is_v6:].partition("]:") if is_v6 else said.rpartition(":")
    if not is_v6 and ":" in host:
        raise Wrong(f'expected brackets around an IPv6 address, got "{said}"')
    if not colon or not host or len(host) > HOST_BYTES:
        raise Wrong(f'expected HOST:PORT or [IPV6]:PORT, got "{said}"')
    if not (digits.isascii() and digits.isdigit() and len(digits) < 6 and int(digits) < 65536):
        raise Wrong(f'expected a port from 0 to 65535 after the address, got "{digits}"')
    return host, int(digits), is_v6


def resolve(said: str, numeric: bool = False) -> Tuple[str, int, int]:
    """Family, as a number of socket, host as a number, and port: (host, port, family)."""
    host, port, is_v6 = split(said)
    flags = socket.AI_NUMERICHOST if numeric or is_v6 else 0
    family = socket.AF_INET6 if is_v6 else socket.AF_UNSPEC
    try:
        found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, flags)
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else error
        raise Wrong(
            f'expected an {"IPv6 address in brackets" if is_v6 else "address or a known host name"}'
            f', got "{host}" ({cause})'
        ) from None
    one = next((f for f in found if f[0] == socket.AF_INET), found[0])
    return str(one[4][0]), port, int(one[0])


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
        host, port, _ = resolve(said, numeric=True)
        return port > 0 and not ipaddress.ip_address(plain_host(host)).is_unspecified
    except (Wrong, ValueError):
        return False


def text_of(host: str, port: int) -> str:
    """ADDR:PORT."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
