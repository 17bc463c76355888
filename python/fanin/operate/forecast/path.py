# SPDX-License-Identifier: Apache-2.0
"""The other ranks' hosts, the path to the switch, and a job of two ranks there, as findings."""

from __future__ import annotations

import errno
import os
from typing import Any, Dict, Iterator, List

from .findings import Finding, Path, fails, judged
from .local import sysctl

SWITCHES_MAX = 64
SILENT_SHOWN = 4  # ports of silent shards that are listed
LOSS_FAILS = 0.2  # windows stay at their least, so sums are slow
RTT_NS = 5e6  # from here a full window of 512 is below 1 Gb/s
TAIL_NS = 2e7  # p99: scheduling or queues, not the wire
BURST_LOSS = 0.01  # of a burst's datagrams, beyond the loss of single ones
MTU_MIN = 576
STATUSES = ("ok", "warn", "FAIL")
BUFFERS = "sysctl -w net.core.rmem_max=4194304 net.core.wmem_max=4194304"
ONE_VERSION = "install one version of fanin on the switch and on all workers"
TAMPERED = (
    "a node on the path changes packets: seal the job (FANIN_KEY_FILE on all ranks), and report it "
    "to the authors"
)
MTU_FAILS = {
    "local": "are too large for this machine's interface",
    "router": "are too large for a router on the path",
    "forward": "vanish on the path to the switch",
    "back": "reach the switch, but its answers of that size vanish",
}


def named(path: Path, said: Dict[str, Any]) -> Iterator[Finding]:
    """The switch's name, and the seal of the job."""
    text, host = said["text"], said["text"].partition(":")[0]
    path.at = said["at"]
    if path.at and said["lost"]:
        lost = said["lost"]
        what = f"switch {lost} cannot be resolved here, or more than {SWITCHES_MAX} are named"
        yield fails("switch", what, f"ask the name servers: getent hosts {lost.partition(':')[0]}")
    elif not path.at and text:
        path.no_path = "the switch's name has no address"
        why = "no name server answered in time" if said["late"] else "unknown here"
        yield fails(
            "switch",
            f'switch has no address: "{host}": {why}',
            f"ask the name servers: getent hosts {host}",
            f"give the address itself: --switch 10.0.0.1:{text.rpartition(':')[2]}; or as root: echo "
            f"'10.0.0.1 {host}' >> /etc/hosts",
        )
    elif not path.at and path.ranks == 1:  # several meet at rank 0
        path.no_path = "no switch given"
        expected = "expected --switch ADDR:PORT, FANIN_SWITCH, or switch of [worker]"
        yield Finding("switch", "skip", f"{path.no_path}: {expected}")
    if said["key"]:
        yield Finding("seal", "ok", f"sealed with the key in {said['key']}")
        return
    public = ", and a switch has a public address" if said["exposed"] else ""
    seal = (
        "seal it: fanin key new --out F; fanin switch --key F; fanin key job TENANT --key F; "
        "FANIN_KEY_FILE at the ranks"
    )
    text = f"open{public}: anybody on the path can read and change the job's packets"
    yield judged("seal", text, {seal: public}, {})


def meeting(path: Path, said: Dict[str, Any]) -> Iterator[Finding]:
    """The other ranks' hosts."""
    hosts = len(said["ranks"])
    if said["error"]:
        why = "the switch does not answer" if said["silent_switch"] else said["error"]
        text = "the ranks did not meet"
        path.no_path = path.no_path if path.at else text
        yield fails(
            "hosts",
            f"{text}: {why}",
            "run it as every rank of the job, at the same time and with the same variables: "
            "torchrun ... --no-python fanin doctor",
            "to check this machine alone: fanin doctor --no-join",
        )
    elif hosts and not said["met"]:
        yield Finding("hosts", "skip", f"{hosts} hosts or more: their links are not measured")
    elif hosts:
        alike = len(set(said["ranks"])) == 1
        each = f"{said['ranks'][0]} each" if alike else ", ".join(map(str, said["ranks"]))
        rails = f", and also send by {', '.join(said['rails'])}" if said["rails"] else ""
        advice = (
            f"the host of rank {said['silent']} does not answer all others, so it sums nothing: as "
            "root there, with the others' network: nft add rule inet filter input ip saddr "
            "10.0.0.0/8 udp dport 1024-65535 accept"
        )
        yield judged(
            "hosts",
            f"{path.ranks} ranks on {hosts} host{'s' if hosts > 1 else ''}, {each}; they met at "
            f"{said['at']}{rails}",
            {advice: said["silent"] >= 0 and path.rank == 0},  # reported once
            {"hosts": hosts, "rails": 1 + len(said["rails"]), "ranks": path.ranks},
        )


def lost(_: Path, said: Dict[str, Any]) -> Finding:
    """Ranks that had met."""
    advice = "read that rank's doctor, and check that its host is up"
    return fails("hosts", f"the ranks have lost each other: {said['why']}", advice)


# ---- the switch ----


def _silence(path: Path, said: Dict[str, Any]) -> Finding:
    """The switch did not answer: the cause as far as it is known."""
    at, host, error = path.at, path.host(), said["error"]
    is_up = f"is that machine up?  ping -c 3 {host}"
    if error == errno.ECONNREFUSED:
        why = f"ICMP reports that nothing listens on UDP port {path.port()} of {host}"
        advice = [f"on {host}: fanin switch --listen {at}; or correct the port"]
    elif error in (errno.EPERM, errno.EACCES):
        why = f"a firewall refuses packets to {at} ({os.strerror(error)})"
        advice = ["as root: nft list ruleset"]
    elif error:
        why = f"{at}: {os.strerror(error)}"
        advice = [f"look at the route: ip route get {host}", is_up]
    elif said["strays"]:
        why = f"{at} is another program, or a `fanin switch` too old for this question"
        advice = [f"correct the port, or install fanin {path.version} on {host}"]
    else:
        why = f"{at} answered none of {said['tried']} questions in {said['tried_ms']} ms"
        advice = [
            is_up,
            "does `fanin switch` run there?  pgrep -a fanin",
            "does a firewall there drop UDP?  as root: nft add rule inet filter input udp dport "
            f"{path.port()} accept",
        ]
    return fails("switch", f"switch does not answer: {why}", *advice)


def switch(path: Path, said: Dict[str, Any]) -> Iterator[Finding]:
    """Whether it answers, in which version, and by which gateway."""
    path.at, path.gateway = said["at"], said["gateway"].rpartition(":")[0]  # without a port
    path.device = said["device"] or path.device
    if said["answers"]:
        path.window, path.shards, path.group = said["window"], said["shards"], said["group"]
        through = f", through interface {said['device']}" if said["device"] else ""
        yield Finding("switch", "ok", f"{path.at} answers{through}")
        text = f"switch {said['version']}, this program {path.version}"
        yield judged(
            "version",
            f"{text}; protocol {path.protocol} on both",
            {ONE_VERSION: said["version"] != path.version},
            {"switch": said["version"], "program": path.version, "protocol": path.protocol},
        )
    else:
        path.no_path = "the switch did not answer"
        if said["other_protocol"]:
            path.no_path = "the switch speaks another version of the protocol"
            text = (
                f"switch {path.at} speaks version {said['other_protocol']} of the protocol, this "
                f"program {path.protocol}"
            )
            yield fails("switch", text, ONE_VERSION)
        else:
            yield _silence(path, said)
        yield Finding("version", "skip", path.no_path)
    if path.gateway:
        yield from _redirects(path, said["device"], said["redirected"])


def _takes_redirects(device: str) -> bool:
    """Linux's rule: a router accepts redirects only if both knobs are set, a host if one is."""
    knobs = [sysctl(f"ipv4/conf/{of}/accept_redirects") > 0 for of in ("all", device)]
    return all(knobs) if sysctl(f"ipv4/conf/{device}/forwarding") > 0 else any(knobs)


def _redirects(path: Path, device: str, redirected: bool) -> Iterator[Finding]:
    """Those of IPv6 must come from the link, where neighbours can be forged as well."""
    if not (redirected or not path.is_v6() and _takes_redirects(device)):
        return
    why = ", and a forged ICMP redirect can divert them"
    if redirected:
        why = " because of an ICMP redirect, which can be forged"
    knobs = " ".join(f"net.ipv4.conf.{of}.accept_redirects=0" for of in ("all", device))
    yield judged(
        "redirects",
        f"packets to the switch take gateway {path.gateway}{why}",
        {f"as root: sysctl -w {knobs}": True, f"and: {path.flush_cache()}": redirected},
        {"gateway": path.gateway, "redirected": redirected},
    )


# ---- what passes ----


def no_socket(_: Path, said: Dict[str, Any]) -> Finding:
    """To the switch."""
    to = "that probes the path" if said["check"] == "mtu" else "to the switch"
    text = f"cannot open a socket {to}: {os.strerror(said['error'])}"
    return fails(said["check"], text)


def judge_loss(sent: int, answered: int) -> str:
    """Any loss is a warning; from LOSS_FAILS on aggregation fails."""
    if answered >= sent:
        return "ok" if sent else "FAIL"
    return "FAIL" if sent - answered >= sent * LOSS_FAILS else "warn"


def judge_rtt(p50_ns: float, p99_ns: float) -> str:
    """Of the median, and of the tail."""
    return "warn" if p50_ns > RTT_NS or p99_ns > TAIL_NS else "ok"


def train(path: Path, said: Dict[str, Any]) -> Finding:
    """Loss and round trips of packets of one size."""
    sent, lost_, device = said["sent"], said["sent"] - said["answered"], path.device
    least, p50, p99 = (said[f"{key}_ns"] / 1e6 for key in ("min", "p50", "p99"))
    statuses = judge_loss(sent, said["answered"]), judge_rtt(said["p50_ns"], said["p99_ns"])
    slow, first = said["p50_ns"] > RTT_NS, sent and lost_ and not path.lossy
    rate = path.window * said["payload"] / p50 / 1e3 if slow else 0
    path.lossy = path.lossy or lost_ > 0
    advice = {
        f"the kernel refuses to send: {os.strerror(said['send_error'])}": not sent,
        f"find where, at both ends: ip -s link show dev {device}; ethtool -S {device} | grep -iE "
        "'drop|err|discard'; nstat -az UdpRcvbufErrors UdpSndbufErrors": first,
        f"if buffers overflow, as root at both ends: {BUFFERS}": first,
        f"a window of {path.window} fragments each {p50:.1f} ms limits a job to {rate:.0f} MB/s: use "
        "a nearer switch, a larger window (fanin switch --window) or more shards (--threads)": slow,
        "some take far longer than most: look for busy cores at both ends with `top`, and reserve "
        "some: taskset -c CORES fanin switch ...": said["p99_ns"] > TAIL_NS
        and not slow,
    }
    text = (
        f"packets of {said['packet_bytes']} bytes: {lost_} of {sent} lost "
        f"({100 * lost_ / sent if sent else 0:.1f} %), rtt min {least:.3f} p50 {p50:.3f} p99 "
        f"{p99:.3f} ms"
    )
    values = {"packet_bytes": said["packet_bytes"], "sent": sent, "lost": lost_}
    values.update({"rtt_min_ms": least, "rtt_p50_ms": p50, "rtt_p99_ms": p99})
    found = judged(said["check"], text, advice, values)
    found.status = max(statuses, key=STATUSES.index)
    return found


def mtu(path: Path, said: Dict[str, Any]) -> Finding:
    """The packet sizes that pass."""
    asked, slots, longest, told = (said[key] for key in ("asked", "slots", "path", "told"))
    works = not said["fails"] and said["fits"]
    values = {"asked": asked, "works": works, "path": longest, "slots": slots}
    export = "export FANIN_MTU="
    if said["fails"]:
        known = f"the largest that passes has {longest}" if longest else "no smaller size passes"
        text = (
            f"fragments for MTU {asked}, packets of {said['packet_bytes']} bytes, "
            f"{MTU_FAILS[said['fails']]}; {known}"
        )
        return fails("mtu", text, *_larger(path, said), **values)
    if told and works:
        text = (
            f"packets of {said['packet_bytes']} bytes for MTU {asked} pass in both directions, but "
            f"ICMP told this kernel that the path takes {told}: forged, or outdated.  fanin ignores "
            "it; TCP to the switch is slower"
        )
        advice = [
            f"as root: {path.flush_cache()}",
            f"if it returns, find the sender, as root: tcpdump -ni {path.device} "
            f"{'icmp6' if path.is_v6() else 'icmp'}",
        ]
        del values["path"]
        return Finding("mtu", "warn", text, advice, {**values, "told": told})
    values["path"] = longest or None
    start = f"fanin switch --listen {path.at} --mtu"
    if not works:
        text = (
            f"the path takes MTU {asked}, but the switch's slots are for {slots} (its --mtu): it "
            "refuses such jobs"
        )
        raise_it = f"start the switch for it: {start} {asked}"
        return fails("mtu", text, raise_it, f"or, on all ranks: {export}{slots}", **values)
    text = f"MTU {asked} works in both directions; the switch's slots are for {slots}"
    if longest:
        text = (
            f"packets of {longest} bytes pass in both directions; FANIN_MTU is {asked}, slots are "
            f"for {slots}"
        )
    advice = []
    if longest > asked:
        usable = min(longest, slots)
        if usable > asked or said["inside"]:
            best = usable if usable > asked else longest
            advice = [f"for more speed, on all ranks: {export}{best}"]
        elif not said["path_fits"]:
            advice = [f"for more speed: {start} {longest}, and on all ranks: {export}{longest}"]
    return Finding("mtu", "ok", text, advice, values)


def _larger(path: Path, said: Dict[str, Any]) -> List[str]:
    """What lets larger packets pass."""
    asked, advice = said["asked"], []
    if said["path"] >= MTU_MIN:
        usable = min(said["path"], said["slots"])
        advice.append(f"on all ranks: export FANIN_MTU={usable}")
    device = "ip link set dev {} mtu {}"
    if said["fails"] == "local":
        what = device.format(path.device, asked)
        return [*advice, f"or, if the network takes it, as root: {what}"]
    if said["fails"] == "back":
        where = "as root on the switch, on the interface that leads here"
        return [*advice, f"or, {where}: {device.format('DEVICE', asked)}"]
    return [
        *advice,
        f"or raise the MTU of every link on the path to {asked}; to find the small one: tracepath "
        f"-n {path.host()}",
    ]


def burst(path: Path, said: Dict[str, Any]) -> Finding:
    """Batches of fragments."""
    device, lost_ = path.device, said["lost"]
    # a path that loses single packets loses bursts as well, which was reported
    bursty = lost_ > said["sent"] * BURST_LOSS and not path.lossy
    advice = {
        f"{device} refuses UDP_SEGMENT; as root: ethtool -K {device} tx on": not said["segment"],
        f"answers arrived one by one; as root: ethtool -K {device} gro on": said["gro_off"],
        f"as root, at both ends: {BUFFERS}; then start the switch again": bursty,
        f"lengthen the queues of {device}: ethtool -G {device} rx 4096; ip link set dev {device} "
        "txqueuelen 4000": bursty,
    }
    text = (
        f"{said['rounds']} bursts of {said['burst']} fragments: {lost_} lost, {said['sends']} "
        f"sends, up to {said['largest_batch']} in one receive"
    )
    return judged("burst", text, advice, said)


def shards(path: Path, said: Dict[str, Any]) -> Finding:
    """Whether all ports of the switch answer."""
    first, count, silent = said["port"], path.shards, said["silent"]
    ports = f"{first} to {first + count - 1}"
    values = {"shards": count, "silent": len(silent)}
    if not silent:
        text = f"{count}, on ports {ports}; all answer" if count > 1 else f"1, on port {first}"
        return Finding("shards", "ok", text, [], values)
    path.no_path = "a shard of the switch is silent"
    listed = ", ".join([*map(str, silent[:SILENT_SHOWN]), *["..."] * (len(silent) > SILENT_SHOWN)])
    return fails(
        "shards",
        f"the switch has {count}, on ports {ports}; silent: {listed}",
        "let the firewall pass all of them, as root on the switch: nft add rule inet filter input udp "
        f"dport {first}-{first + count - 1} accept",
        f"give workers the first port: the switch has {count}, from the one that it listens on",
        **values,
    )


# ---- the proof ----


def two_ranks(path: Path, said: Dict[str, Any]) -> Iterator[Finding]:
    """A job of two ranks in one process."""
    if not said["job"]:
        yield fails("sum", "no memory or no thread for two ranks")
        return
    if said["cause"]:
        advice = f"read the switch's log, and: fanin top --once --switch {path.at}"
        text = f"a job of 2 ranks did not work: {said['why']}"
        yield fails("sum", text, advice, cause=said["cause"])
        return
    wrong = said["wrong"]
    text = (
        f"job {said['job']} of 2 ranks: {said['bytes'] // 1024} KiB summed, {wrong} elements wrong, "
        f"{said['retransmits']} fragments sent again"
    )
    bad = [TAMPERED] if wrong else []
    yield Finding("sum", "FAIL" if wrong else "ok", text, bad, {"wrong": wrong})
    yield _multicast(path, said["multicast"])


def _multicast(path: Path, heard: bool) -> Finding:
    own = "each rank gets its own copy of results"
    if not path.multicast:
        return Finding("multicast", "ok", f"not used, by multicast = 0: {own}")
    text = "results arrive by multicast: once over the link for all ranks"
    if not heard:
        text = "the switch offers no group"
        if path.group:
            text = "the switch offers a group, but its packets did not arrive"
        text += f": {own}"
    deaf = path.group and not heard
    group = "ip daddr 239.0.0.0/8" if path.group == 4 else "ip6 daddr ff00::/8"
    advice = {
        "start the switch on the address of an interface that has it: ip "
        "link set dev DEVICE multicast on; shared slots have no group": not (path.group or heard),
        "the switch is behind a router, which passes multicast only if configured to: run a switch "
        "in this machine's network": deaf
        and path.gateway,
        f"as root, here and on the switch's interface: ip link set dev {path.device} multicast "
        "on": deaf,
        f"let this machine's firewall pass multicast: nft add rule inet filter input {group} "
        "accept": deaf,
        "where a bridge snoops IGMP or MLD without a querier, as root: ip link set dev BRIDGE type "
        "bridge mcast_querier 1": deaf,
    }
    return judged("multicast", text, advice, {"offered": bool(path.group), "heard": heard})


# ---- what was not done ----

SKIPS = {
    "time": "no time left: raise --timeout",
    "mtu": "no MTU works",
    "no-join": "--no-join forbids a job",
}


def skip(path: Path, said: Dict[str, Any]) -> Finding:
    """A check that was not made."""
    return Finding(said["check"], "skip", SKIPS.get(said["why"], path.no_path))


def unready(_: Path, said: Dict[str, Any]) -> Finding:
    """Ranks that try no all-reduce."""
    text = f"{said['ranks']} ranks have no job or no memory for the tensor"
    return Finding("allreduce", "skip", text)


def failure(_: Path, said: Dict[str, Any]) -> Finding:
    """Of the job of all ranks."""
    text = said["why"]
    if said["cause"]:
        text = f"the job of all ranks did not work: {text}"
    values = {"cause": said["cause"]} if said["cause"] else {}
    return fails(said["check"], text, "check one host alone: fanin doctor --no-join", **values)
