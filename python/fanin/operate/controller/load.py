# SPDX-License-Identifier: Apache-2.0
"""Load by others on links, switches and servers.

People or their monitoring report it with `load`, and the ends of links measure it; plans use what
is left.  When it changes, better paths are sought for running jobs, at most once in LOOK_S.

Of measured load, a rise counts after a short time, a fall after a longer one, which doubles with
each recent rise.  Otherwise jobs would move in vain each time that others start or stop; and
traffic that yields to a job is still there when the job moves away.
"""

from __future__ import annotations

from typing import Any, List, Optional

from . import limits
from .core import LOOK, MEND, NEVER_S, Controller
from .lines import is_number
from .model import Json, Link, Node, Others, Wrong


def _look(c: Controller, gbps: float, what: str) -> None:
    """Let the next plan search all paths.  A plan in progress is still used, above all after a
    failure: measured load changes too often to start again each time."""
    if c.wanted == MEND:
        c.wanted = LOOK
    c.note(f"load on {what}: {gbps:.4g} Gb/s")
    c.loaded = c.phase == "drafting"
    if not c.loaded:
        c.plan_in(max(c.look_s - c.now_s, 0), f"load on {what} is {gbps:.4g} Gb/s")


def _check(gbps: float, rate: float, what: str) -> None:
    if not rate > 0:
        raise Wrong(f"{what}: has no rate of its own")
    if not 0 <= gbps < rate:
        raise Wrong(
            f"{what}: gbps: expected 0 or more, and less than the {rate:g} that are left of it, got"
            f" {gbps:g}; what is not to be used at all has failed"
        )


def order(c: Controller, said: Any) -> None:
    """Take {"link": [A, B], "gbps": N} or {"node": A, "gbps": N}; Wrong: it makes no sense."""
    fields: Json = said if isinstance(said, dict) else {}
    gbps: Any = fields.get("gbps")
    ends: Any = fields.get("link")
    name: Any = fields.get("node")
    is_link = isinstance(ends, list) and len(ends) == 2 and all(isinstance(e, str) for e in ends)
    is_one = is_link if name is None else ends is None and isinstance(name, str)
    if not is_number(gbps) or not is_one:
        raise Wrong('expected {"link":[A,B],"gbps":N} or {"node":A,"gbps":N}')
    at: Any = c.link_between(*ends) if is_link else c.nodes.get(name)
    if at is None:
        what = f'link "{ends[0]:.63}" to "{ends[1]:.63}"' if is_link else f'node "{name:.63}"'
        raise Wrong(f"no {what} in {c.settings.file}")
    what = f"link {ends[0]}-{ends[1]}" if is_link else str(name)
    _check(gbps, at.gbps, what)
    if at.load_gbps != gbps:
        at.load_gbps = float(gbps)
        _look(c, gbps, what)


def saved(c: Controller) -> List[Json]:
    """All loads by order, as `order` takes them."""
    found: List[Json] = [
        {"link": [link.ends[0].name, link.ends[1].name], "gbps": link.load_gbps}
        for link in c.links
        if link.load_gbps > 0
    ]
    for node in c.nodes.values():
        if node.load_gbps > 0:
            found.append({"node": node.name, "gbps": node.load_gbps})
    return found


def added(said: Json, load_gbps: float) -> Json:
    """A node or link of the topology with so much load more."""
    if not load_gbps > 0:
        return said
    used = said.get("background_gbps", 0) + load_gbps
    return {**said, "background_gbps": min(used, said["gbps"] * (1 - limits.LEFT_MIN))}


# ---- measured load ----


def _is_alone(c: Controller, node: Node) -> bool:
    """Is no other daemon or worker on its host?  What that receives would count as load."""
    return node.conn is not None and c.hosts[node.conn.host] == 1


def health(c: Controller, node: Node, report: Json) -> None:
    """Take a daemon's measurements of its links."""
    if not report["others"] or not _is_alone(c, node):
        return
    for link, end in node.ends:
        gbps = report["others"].get(link.ends[1 - end].name)
        if not link.watched or gbps is None:
            continue
        link.others.said[end] = min(max(gbps / link.whole_gbps, 0), limits.OTHERS_MOST)
        link.others.heard_s[end] = c.now_s
        c.lively.add(link)  # the next tick judges it, within AWAKE_S


def _said(c: Controller, others: Others) -> float:
    """The larger of the shares that the ends have reported recently; 0 if neither has."""
    return max(
        share if heard_s is not None and c.now_s - heard_s < limits.OTHERS_OLD_S else 0
        for share, heard_s in zip(others.said, others.heard_s)
    )


def _since(c: Controller, holds: bool, since_s: Optional[float]) -> Optional[float]:
    return (c.now_s if since_s is None else since_s) if holds else None


def _judge(c: Controller, others: Others) -> bool:
    """Let the reported share count if it has lasted long enough."""
    said = _said(c, others)
    fall_s = limits.OTHERS_FALL_S * 2 ** min(max(others.rises - 1, 0), limits.OTHERS_DOUBLINGS)
    if others.rises and others.less_s is None and c.now_s - others.rose_s >= limits.CALM_S:
        others.rises = 0
    others.more_s = _since(c, said >= others.share + limits.OTHERS_STEP, others.more_s)
    others.less_s = _since(c, said <= others.share - limits.OTHERS_STEP, others.less_s)
    rises = others.more_s is not None and c.now_s - others.more_s >= limits.OTHERS_RISE_S
    falls = others.less_s is not None and c.now_s - others.less_s >= fall_s
    if not rises and not falls:
        return False
    if rises:  # a mean that grows over several reports counts as one rise
        others.rises += not others.rose
        others.rose_s = c.now_s
    others.rose = rises
    others.share = 0 if said < limits.OTHERS_STEP else said
    others.more_s = others.less_s = None
    return True


def _rests(link: Link) -> bool:
    """Is there nothing to judge until something is said of it?"""
    others = link.others
    quiet = not (link.is_down or link.flaps or any(link.silent))
    return quiet and not others.share and not others.rises and not any(others.said)


def tick(c: Controller) -> float:
    """Act on measurements that have lasted; when to look again."""
    for link in list(c.lively):
        if link.watched and _judge(c, link.others):
            _look(c, link.measured_gbps, f"link {link.name}, as measured")
        if _rests(link):
            c.lively.discard(link)
    return NEVER_S
