# SPDX-License-Identifier: Apache-2.0
"""What the ranks have measured together, as findings: links, who sums, the forecast, the proof."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Dict, List, Optional, Tuple

from . import gains
from .findings import Finding, fails
from .model import WIDE_MBPS, Forecast, Net, forecast

WIDE = 0.9  # part of what all hosts send; a switch that takes it is as wide
SHOWN_MAX = 8  # rates printed one by one
SLOW = 2  # times the forecast: more than a loaded host

Rates = List[float]


def _mbps(per_s: float, frame_bytes: int) -> float:
    """The rate of so many frames a second."""
    return per_s * frame_bytes * 8e-6


def _list(rates: Rates) -> str:
    """Rates of all hosts: "200, 200, 50", or the least and the most."""
    if len(rates) > SHOWN_MAX:
        return f"{min(rates):.0f} to {max(rates):.0f}"
    return ", ".join(f"{mbps:.0f}" for mbps in rates)


def _size(count: int) -> str:
    """An amount of bytes."""
    return f"{count / (1 << 20):.4g} MiB" if count >= 1 << 20 else f"{count / 1024:.4g} KiB"


def alone(said: Dict[str, Any], has_ranks: bool) -> List[Finding]:
    """The rates to the named switches; has_ranks: nobody has said that there are no others."""
    found, texts, rates = [], [], []
    for switch in said["switches"]:
        if not switch["per_s"]:
            advice = f"find out why: fanin doctor --switch {switch['at']}"
            found.append(fails("links", f"switch {switch['at']} does not answer", advice))
        rates.append(_mbps(switch["per_s"], said["payload"] + said["headers"]))
        texts.append(f"{switch['at']} {rates[-1]:.0f}")
    every = "for a forecast, run it as every rank of the job: torchrun ... --no-python fanin doctor"
    text, several = f"Mb/s to the switch and back: {', '.join(texts)}", [every] if has_ranks else []
    return [*found, Finding("links", "ok", text, several, {"switch_mbps": rates})]


def _host_rates(said: Dict[str, Any], rail: int) -> Tuple[Rates, Rates]:
    """The most that each host has sent by this network, and the most it has got."""
    hosts = len(said["hosts"])
    full, small = said["payload"] + said["headers"], said["answer"] + said["headers"]
    up, down = [0.0] * hosts, [0.0] * hosts
    for stream in said["rails"][rail]:
        for h in range(hosts):
            sent = stream["per_s"][h]
            got = stream["per_s"][(h + hosts - stream["shift"]) % hosts]
            if sent:
                up[h] = max(up[h], _mbps(sent, full) + _mbps(got, small))
            if got:
                down[h] = max(down[h], _mbps(got, full) + _mbps(sent, small))
    for switch in said["switches"]:
        for h, per_s in enumerate(switch["per_s"] if switch["rail"] == rail else []):
            up[h], down[h] = (max(mbps, _mbps(per_s, full)) for mbps in (up[h], down[h]))
    return up, down


def _narrower(up: Rates, down: Rates) -> Rates:
    """Of each host.  An unmeasured direction does not count, and a host without a measured one has
    the usual rate; []: no host has one."""
    rates = [min(both) if min(both) > 0 else max(both) for both in zip(up, down)]
    known = [mbps for mbps in rates if mbps > 0]
    return [mbps or gains.usual_mbps(known) for mbps in rates] if known else []


@dataclass
class Job:
    """All ranks, once their links are measured."""

    net: Net
    named: gains.Job
    tensor_bytes: int
    links_known: bool
    forecast: Optional[Forecast] = None


def job(said: Dict[str, Any], tensor_bytes: int) -> Tuple[Job, List[Finding]]:
    """The network by what "links" says, and findings about it."""
    found, silent = [], False
    for switch in said["switches"]:
        for host, per_s in zip(said["hosts"], switch["per_s"]):
            if not per_s:
                silent, at = True, switch["at"]
                what = f"switch {at} does not answer the host of rank {host['first']}"
                advice = f"on that host: fanin doctor --no-join --switch {at}"
                found.append(fails("links", what, advice))
    rails = [_narrower(*_host_rates(said, rail)) for rail in range(len(said["rails"]))]
    known = all(rails) and not silent
    net = Net(
        ranks=[host["ranks"] for host in said["hosts"]],
        host_mbps=rails[0],
        switch_mbps=_switch_rates(said, rails) if known else [0.0] * len(said["switches"]),
        switch_rail=[switch["rail"] for switch in said["switches"]],
        rail_mbps=rails[1:],
        headers=said["headers"],
        rtt_ns=1e3 * max(said["rtt_us"]),
    )
    named = gains.Job(
        [host["first"] for host in said["hosts"]],
        [switch["at"] for switch in said["switches"]],
        0,
        min(said["mtu"]),
    )
    if known:
        found.append(_links(net, named))
    elif len(said["hosts"]) > 1 and not silent:
        found.append(Finding("links", "skip", "no host answers another"))
    return Job(net, named, tensor_bytes, known), found


def _switch_rates(said: Dict[str, Any], rails: List[Rates]) -> Rates:
    """Of the named switches; one that takes what all hosts send there counts as wide as they are."""
    rates = []
    for switch in said["switches"]:
        mbps = sum(_mbps(per_s, said["payload"] + said["headers"]) for per_s in switch["per_s"])
        rates.append(WIDE_MBPS if mbps >= WIDE * sum(rails[switch["rail"]]) else mbps)
    return rates


def _links(net: Net, named: gains.Job) -> Finding:
    text = (
        f"Mb/s in the narrower direction, hosts in the order of their ranks: {_list(net.host_mbps)}"
    )
    if net.rail_mbps:
        text += f"; by further networks: {'; '.join(map(_list, net.rail_mbps))}"
    for at, mbps in zip(named.switches, net.switch_mbps):
        rate = "as much as all hosts" if mbps >= WIDE_MBPS else f"{mbps:.0f}"
        text += f"; switch {at} {rate}"
    values = {
        "host_mbps": net.host_mbps,
        "rail_mbps": net.rail_mbps,
        "switch_mbps": [None if mbps >= WIDE_MBPS else mbps for mbps in net.switch_mbps],
    }
    return Finding("links", "ok", text, [], values)


def summing(of: Job, said: Dict[str, Any]) -> Finding:
    """Fill in `of` by what "summing" says; who sums, in words."""
    of.net = replace(
        of.net,
        **{key: said[key] for key in ("shares_memory", "payload", "sums")},
        window_bytes=said["window_bytes"],
    )
    of.named.jumbo_payload = said["jumbo_payload"]
    net, hosts, switches = of.net, len(of.net.ranks), len(of.net.switch_mbps)
    some = sum(net.sums) if hosts > 1 else 0
    memory = "ranks of a host share memory; " if net.shares_memory else ""
    named = f"{switches} named switch{'es' if switches > 1 else ''}"
    if hosts == 1 and net.shares_memory:
        text = "all ranks are on this host and share memory: nothing is sent"
    elif hosts == 1 and not switches:
        text = "all ranks are on this host; rank 0 sums, over loopback"
    elif switches and some:
        text = f"{memory}{named} and {some} hosts sum"
    elif switches:
        text = f"{memory}{named} sum{'' if switches > 1 else 's'}"
    else:
        text = f"{memory}no switch is named: {some} of {hosts} hosts sum"
    found = Finding("summing", "ok", text)
    if hosts == 1 and not net.shares_memory:
        found.advice.append(
            "ranks of one host are faster in shared memory: export FANIN_LOCAL=1 on all ranks"
        )
    found.values = {
        "shares_memory": net.shares_memory,
        "hosts_sum": some,
        "switches": switches,
        "window_bytes": net.window_bytes,
    }
    return found


def foresee(of: Job) -> Optional[Finding]:
    """The forecast; None: there is no link between ranks, or none is known."""
    net = of.net
    if not of.links_known or len(net.ranks) == 1 or not net.parts():
        return None
    f = of.forecast = forecast(net, of.tensor_bytes)
    shares = ""
    if net.switch_mbps and any(net.sums):
        shares = f"; hosts sum {100 * sum(f.host_share):.0f} % of it"
    text = (
        f"{_size(of.tensor_bytes)} float32: {f.ns * 1e-6:.4g} ms, a ring over {sum(net.ranks)} ranks "
        f"{f.ring_ns * 1e-6:.4g} ms: {f.ring_ns / f.ns:.2f} times as fast{shares}"
    )
    text += "; windows limit it, not links" if f.by_window else ""
    advice = [
        f"{f.ns / ns:.2f} times as fast, {ns * 1e-6:.4g} ms: {what}"
        for ns, what in gains.gains(net, of.named, f, of.tensor_bytes)
    ]
    values = {
        "bytes": of.tensor_bytes,
        "ms": f.ns * 1e-6,
        "ring_ms": f.ring_ns * 1e-6,
        "by_ring": f.ring_ns / f.ns,
        "by_window": f.by_window,
        "host_shares": f.host_share,
        "switch_shares": f.switch_share,
    }
    return Finding("forecast", "ok", text, advice, values)


def proof(of: Optional[Forecast], said: Dict[str, Any], tensor_bytes: int) -> Finding:
    """All-reduces, by their forecast if there is one."""
    took, wrong = said["took_ns"], said["wrong"]
    half = sorted(took[len(took) // 2 :])  # shares are learnt in the first half
    ms, links_ms = half[len(half) // 2] * 1e-6, of.ns * 1e-6 if of else 0.0
    by = f", {ms / links_ms:.2f} of the forecast" if links_ms else ""
    learning = "" if said["settled"] else "; shares were still being learnt"
    is_slow = 0 < SLOW * links_ms < ms
    found = Finding(
        "allreduce",
        "FAIL" if wrong else "warn" if is_slow else "ok",
        f"{len(took)} of {_size(tensor_bytes)} took {ms:.4g} ms{by}, {wrong} elements wrong"
        f"{learning}",
    )
    found.values = {"ms": ms, "count": len(took), "wrong": wrong, "settled": said["settled"]}
    if wrong:
        found.advice.append(
            "a node on the path changes packets: seal the job (FANIN_KEY_FILE on all ranks), and "
            "report it to the authors"
        )
    elif is_slow and learning:
        found.advice.append(
            f"the links allow {links_ms:.4g} ms; once more, with more time to learn shares: "
            "fanin doctor --timeout 60"
        )
    elif is_slow:
        found.advice.append(
            f"the links allow {links_ms:.4g} ms: see warnings of cores, buffers and burst on all "
            "hosts, and who else uses links and processors (top, sar -n DEV 1)"
        )
    return found
