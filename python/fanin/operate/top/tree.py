# SPDX-License-Identifier: Apache-2.0
"""What a controller says: its nodes, its links, its jobs, and the trees that sum them."""

from __future__ import annotations

from .. import shape
from . import cells

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

HOPS_MAX = 16  # of a route, many more than there are
NODES = "kind node state since_s at routes packets hits passed drops".split()
HEALTH = "packets hits passed drops".split()


def _objects(of: Any, key: str) -> list[dict[str, Any]]:
    """The objects of a list that is a member."""
    found = of.get(key) if isinstance(of, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _text(of: dict[str, Any], key: str) -> str:
    value = of.get(key)
    return shape.plain(value[: shape.TEXT]) if isinstance(value, str) else ""


def _number(of: dict[str, Any], key: str) -> float:
    value = of.get(key)
    try:
        return float(value) if isinstance(value, (int, float)) else 0.0
    except OverflowError:
        return 0.0


def _count(of: dict[str, Any], key: str) -> int:
    value = of.get(key)
    return value if isinstance(value, int) else 0


def _node(node: dict[str, Any]) -> list[str]:
    """The cells of a node, as NODES has them."""
    health = node.get("health")
    about = health if isinstance(health, dict) else {}
    return [
        _text(node, "kind"),
        _text(node, "name"),
        _text(node, "state"),
        f"{_number(node, 'since_s'):.1f}",
        _text(node, "listen"),
        str(_count(node, "routes")),
        *(str(_count(about, key)) for key in HEALTH),
    ]


def _links(links: list[dict[str, Any]]) -> Iterator[str]:
    """Links that are down, or of which others use a part."""
    for link in links:
        name = f"link    {_text(link, 'a')}-{_text(link, 'b')}"
        if _text(link, "state") == "down":
            back = (
                f"; used again in {_number(link, 'back_in_s'):.1f} s" if "back_in_s" in link else ""
            )
            since, flaps = _number(link, "since_s"), _count(link, "flaps")
            yield f"{name} is down for {since:.1f} s, {flaps} times of late{back}"
        if _number(link, "load_gbps") > 0:
            yield f"{name}: others use {_number(link, 'load_gbps'):.4g} Gb/s"


def _branch(entries: list[dict[str, Any]], at: str) -> str:
    """What becomes of the ranks whose parts pass `at`: these entries."""
    ranks = sum(_count(e, "ranks") for e in entries)
    workers = sum(_count(e, "ranks") for e in entries if not isinstance(e.get("from"), str))
    summed = sum(_count(e, "ranks") for e in entries if e.get("sums") is True)
    return (
        at
        + (f", sums {summed}" if summed else "")
        + (f", passes {ranks - summed} on" if ranks > summed else "")
        + (f", {workers} workers here" if workers else "")
    )


def _below(entries: list[dict[str, Any]], to: str, depth: int) -> Iterator[str]:
    """Who sends to `to`, which is `depth` hops from the aggregator, and who sends to those."""
    senders: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        if _text(entry, "next") == to and _count(entry, "depth") == depth + 1:
            senders.setdefault(_text(entry, "at"), []).append(entry)
    for at, of in senders.items():
        yield "  " * (depth + 2) + _branch(of, at)
        if depth + 1 < HOPS_MAX:
            yield from _below(entries, at, depth + 1)


def _job(job: dict[str, Any]) -> Iterator[str]:
    """A job, and the tree of each of its parts."""
    ready = "ready" if job.get("ready") is True else "not ready"
    yield ""
    yield (
        f"job {_text(job, 'name')}: {_count(job, 'joined')} of {_count(job, 'ranks')} ranks, "
        f"{ready}, {_number(job, 'planned_gbps'):.4g} Gb/s planned"
    )
    yield f"  {_text(job, 'why')}"
    for part in _objects(job, "parts"):
        yield (
            f"  part {_count(part, 'number')}: {100 * _number(part, 'share'):.2f} %, "
            f"route {_count(part, 'route')} ({_text(part, 'state')}), "
            f"{_count(part, 'moved')} of {_count(part, 'ranks')} ranks on it"
        )
        yield f"  {_text(part, 'server')}"
        yield from _below(_objects(part, "entries"), _text(part, "server"), 0)


def lines(status: Any) -> list[str]:
    """The status of a controller as text."""
    about = status if isinstance(status, dict) else {}
    nodes = [_node(n) for n in _objects(about, "nodes") if _text(n, "kind") != "worker"]
    return [
        f"controller of {_text(about, 'topology')}: {_text(about, 'algorithm')}, "
        f"{_count(about, 'epoch')} plans made, up for {_number(about, 'up_s'):.1f} s",
        *cells.table([NODES, *nodes], (3, 5, 6, 7, 8, 9)),
        *_links(_objects(about, "links")),
        *(line for job in _objects(about, "jobs") for line in _job(job)),
    ]
