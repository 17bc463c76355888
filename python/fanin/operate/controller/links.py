# SPDX-License-Identifier: Apache-2.0
"""Links that fail while their ends are up: daemons ask neighbours and report silent ones.

A link goes down as soon as either end reports silence while both are up, and is used again once
both ends have heard each other for a while.  This time grows with the number of failures, so that a
faulty cable does not move jobs again and again.
"""

from __future__ import annotations

from . import limits
from .core import NEVER_S, Controller
from .model import Json, Link, Node


def _age_list(c: Controller, node: Node) -> None:
    node.list_number = 0  # its reports do not count until it has a new list
    c.old_lists.add(node)
    c.wake(c.now_s + limits.SOON_S)


def _age_lists(c: Controller, node: Node) -> None:
    """Send the node's neighbours new lists, since it has come or gone."""
    for link, end in node.ends:
        if link.watched:
            _age_list(c, link.ends[1 - end])


def came(c: Controller, node: Node) -> None:
    """A daemon has come, perhaps again or at another address."""
    _age_list(c, node)
    _age_lists(c, node)


def gone(c: Controller, node: Node) -> None:
    """A daemon has gone: links that failed just before have not."""
    node.list_number = 0
    _age_lists(c, node)
    for link, _ in node.ends:
        link.silent = [False, False]
        if not link.is_down or c.now_s - link.since_s > limits.BLAME_S:
            continue
        link.is_down = False
        link.since_s = c.now_s
        link.flaps -= 1


def _send_list(c: Controller, node: Node) -> None:
    beside = [link.ends[1 - end] for link, end in node.ends if link.watched]
    there = [{"name": n.name, "at": n.listen} for n in beside if n.state == "up"]
    c.last_list = c.last_list % 0xFFFFFFFF + 1
    node.list_number = c.last_list
    c.send(
        node.conn, {"neighbours": {"number": node.list_number, "of": there[: limits.BESIDE_MAX]}}
    )


def health(c: Controller, node: Node, report: Json) -> None:
    """Take whom a daemon does not hear, if it speaks of its last list."""
    if not node.list_number or report["neighbours"] != node.list_number:
        return
    silent = report["silent"]
    for link, end in node.ends:
        if not link.watched or (not silent and not link.silent[end]):
            continue
        other = link.ends[1 - end]
        link.silent[end] = other.state == "up" and other.name in silent
        c.lively.add(link)
        c.wake(c.now_s)


def hold_s(link: Link) -> float:
    """How long both ends must hear each other before it is used."""
    return min(limits.HOLD_S * (1 << min(max(link.flaps - 1, 0), 16)), limits.HOLD_MAX_S)


def back_s(c: Controller, link: Link) -> float:
    """Of a link that is down, but whose ends hear each other: time until it is used."""
    return max((link.heard_s or 0) + hold_s(link) - c.now_s, 0)


def _go_down(c: Controller, link: Link) -> None:
    deaf = 0 if link.silent[0] else 1
    link.is_down, link.since_s, link.heard_s = True, c.now_s, None
    link.flaps += 1
    c.note(
        f"link {link.name} is down: {link.ends[deaf].name} does not hear {link.ends[1 - deaf].name}"
    )
    c.plan_in(limits.SETTLE_S, f"link {link.name} is down")


def _come_up(c: Controller, link: Link) -> None:
    c.note(f"link {link.name} is back after {c.now_s - link.since_s:.1f} s")
    link.is_down, link.since_s = False, c.now_s
    c.plan_in(limits.ARRIVAL_S, f"link {link.name} came back")


def _judge(c: Controller, link: Link) -> float:
    """Change the link's state if it is time; when to look again."""
    bad = link.silent[0] or link.silent[1]
    if not link.is_down:
        if link.flaps and c.now_s - link.since_s >= limits.CALM_S:
            link.flaps = 0
        if bad:
            _go_down(c, link)
    elif bad:
        link.heard_s = None
    elif link.heard_s is None:
        link.heard_s = c.now_s
    elif c.now_s - link.heard_s >= hold_s(link):
        _come_up(c, link)
    return link.heard_s + hold_s(link) if link.is_down and link.heard_s is not None else NEVER_S


def tick(c: Controller) -> float:
    """Judge links of which something was said, and send new lists; when to look again."""
    due_s = min((_judge(c, link) for link in list(c.lively) if link.watched), default=NEVER_S)
    for node in [node for node in c.old_lists if node.conn is not None]:
        c.old_lists.remove(node)
        _send_list(c, node)
    return due_s


def shown(c: Controller, link: Link) -> Json:
    """For `status json`."""
    state = "not watched" if not link.watched else "down" if link.is_down else "up"
    found = {
        "a": link.ends[0].name,
        "b": link.ends[1].name,
        "state": state,
        "since_s": c.now_s - link.since_s,
        "flaps": link.flaps,
        "load_gbps": link.used_gbps,
        "measured_gbps": link.measured_gbps,
    }
    if link.is_down and link.heard_s is not None:
        found["back_in_s"] = back_s(c, link)
    return found
