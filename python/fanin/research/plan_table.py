# SPDX-License-Identifier: Apache-2.0
"""A plan, as planner/plan/plan_json.h has it, as tables for people."""

from __future__ import annotations

from collections import Counter
from typing import Any, Iterator, Sequence

from .formats import Network

TREES_SHOWN, LOADS_SHOWN, SUMS_SHOWN = 12, 12, 6
_KINDS = (("switches", "switch"), ("servers", "server"), ("workers", "worker"))


def _sums(tree: dict[str, Any], workers: Counter[str]) -> str:
    """Which switches sum, for how many workers each, and how many send straight to the server."""
    shown = [f"{s['switch']} ({workers[s['switch']]})" for s in tree["sums"][:SUMS_SHOWN]]
    if len(tree["sums"]) > SUMS_SHOWN:
        shown.append(f"and {len(tree['sums']) - SUMS_SHOWN} more switches")
    if workers[tree["server"]]:
        shown.append(f"server ({workers[tree['server']]})")
    return "".join("  " + text for text in shown)


def _trees(plan: dict[str, Any]) -> Iterator[str]:
    trees = plan["trees"]
    at: list[Counter[str]] = [Counter() for _ in trees]
    for flow in plan["assignments"]:
        at[flow["tree"]][flow["at"]] += 1
    yield ""
    yield f"{'job':16s} {'server':12s} {'share':>8s}   summed at (by how many workers)"
    for tree, workers in list(zip(trees, at))[:TREES_SHOWN]:
        share = f"{100 * tree['share']:6.2f} % "
        yield f"{tree['job']:16s} {tree['server']:12s} {share}{_sums(tree, workers)}"
    if len(trees) > TREES_SHOWN:
        yield f"... and {len(trees) - TREES_SHOWN} trees more; --json has them all"


def _loads(network: Network, plan: dict[str, Any]) -> Iterator[str]:
    """The fullest resources first; of two as full, links, and what comes first in the network."""
    order = {node.name: i for i, node in enumerate(network.nodes)}
    found = []
    for link in plan["loads"]["links"]:
        found.append((f"link {link['from']}-{link['to']}", -1, link))
    for key, kind in _KINDS:
        found += [(f"{kind} {one['name']}", order[one["name"]], one) for one in plan["loads"][key]]
    rows = []
    for name, place, load in found:
        free = (load["capacity_gbps"] or 0.0) - load["background_gbps"]
        if free > 0:
            rows.append((-load["gbps"] / free, place, name, load["gbps"], free))
    yield ""
    yield f"{'fullest':32s} {'Gb/s':>10s} {'free for it':>10s} {'load':>8s}"
    for part, _, name, gbps, free in sorted(rows, key=lambda row: row[:2])[:LOADS_SHOWN]:
        yield f"{name:32s} {gbps:10.4g} {free:11.4g} {-100 * part:6.1f} %"


def one(network: Network, plan: dict[str, Any], results: bool) -> Iterator[str]:
    """Rate, bound, shares, sums and the fullest resources of a plan.

    `results`: they count in its rate."""
    text = f"{plan['algorithm']}: {plan['feasible_gbps']:.6g} Gb/s for every worker"
    if plan["bound_gbps"] > 0:
        text += (
            f"; no plan gives more than {plan['bound_gbps']:.6g} (gap {100 * plan['gap']:.1f} %)"
        )
    yield f"{text}; made in {plan['seconds']:.3g} s"
    if plan["proven"]:
        yield (
            "proven: no plan that sums once gives more over these routes, with as many trees on a "
            "server"
        )
    if plan["binding"]:
        yield f"{plan['binding']} is full first"
    if results:
        yield f"{plan['gradients_gbps']:.6g} Gb/s for gradients alone, as papers count"
    else:
        yield (
            f"{plan['with_results_gbps']:.6g} Gb/s with the results that come back over the same "
            "links"
        )
    drawings = plan.get("drawings")
    if drawings and drawings["count"] > 1:
        low, high, mean = (drawings[key] for key in ("least_gbps", "most_gbps", "mean_gbps"))
        yield f"{drawings['count']} drawings: {low:.6g} to {high:.6g} Gb/s, {mean:.6g} on the mean"
    if "refused" in plan:
        yield f"cannot be installed: {plan['refused']}"
    for job in plan["jobs"] if len(plan["jobs"]) > 1 else ():
        yield f"job {job['name']:16s} {job['gbps']:10.6g} Gb/s"
    yield from _trees(plan)
    yield from _loads(network, plan)


def several(plans: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A line for each plan; the first one's rate is what others are compared with."""
    geryon = 0.0
    yield (
        f"{'algorithm':9s} {'gradients':>12s} {'with results':>12s} {'bound':>12s} {'gap':>8s} "
        f"{'x geryon':>9s} {'trees':>7s} {'seconds':>9s}"
    )
    for i, plan in enumerate(plans):
        if "error" in plan:
            yield f"{plan['algorithm']:9s} {'-':>12s}   {plan['text']}"
            continue
        gbps = plan["feasible_gbps"]
        geryon = geryon if i else gbps
        refused = "  cannot be installed" if "refused" in plan else ""
        yield (
            f"{plan['algorithm']:9s} {plan['gradients_gbps']:12.6g} "
            f"{plan['with_results_gbps']:12.6g} {plan['bound_gbps']:12.6g} "
            f"{100 * plan['gap']:6.1f} % {gbps / geryon if geryon > 0 else 0:9.3g} "
            f"{len(plan['trees']):7d} {plan['seconds']:9.3f}{refused}"
        )
