# SPDX-License-Identifier: Apache-2.0
"""What this machine gives a worker, as findings."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Tuple

from ...research.files import plain
from .findings import Finding, Path, fails, judged

CORES_OF_A_RANK = 2  # for training, and for the thread that sends and receives
CGROUP_LEVELS = 32  # nested groups that are read
READING_NS = 500  # the vDSO takes 20 to 50
STEP_NS = 100000  # the timer's floor is 1 ms
CLOCKS = "/sys/devices/system/clocksource/clocksource0"
FILE_BYTES = 4096


def config(path: Path, said: Dict[str, Any]) -> Finding:
    """What FANIN_* and the INI file give a worker."""
    path.multicast = said["multicast"]
    if said["error"]:
        return fails("config", said["error"], "correct it: no worker starts with it")
    multicast = "welcome" if path.multicast else "forbidden"
    file = plain(os.environ.get("FANIN_CONFIG", "no file (FANIN_CONFIG)"))
    text = f"MTU {said['mtu']}, timeout {said['timeout_ms']} ms, multicast {multicast}"
    return Finding("config", "ok", f"{text}; from FANIN_* and {file}", [], said)


def machine(path: Path, said: Dict[str, Any]) -> List[Finding]:
    """Of the line "machine", and of what this process can read itself."""
    path.version, path.protocol = said["version"], said["protocol"]
    memory = "ranks of this machine can share it"
    if not said["shares_memory"]:
        memory = f"ranks of this machine cannot share it, and sum by sockets: {said['no_memory']}"
    filters = (
        "look at `ulimit -f`, and at what a container's filter refuses: memfd_create, sockets of "
        "AF_UNIX"
    )
    return [
        _library(path, said["library"]),
        _cores(),
        _clock(said["clock"]),
        _buffers(said["socket"]),
        _offload(said["offload"]),
        judged("memory", memory, {filters: not said["shares_memory"]}, {}),
    ]


def _library(path: Path, said: Dict[str, Any]) -> Finding:
    """The library that other programs, such as Python, load."""
    text = f"program {path.version}, protocol {path.protocol}; "
    if not said["version"] and said["named"]:
        return fails(
            "library", text + said["why"], "set FANIN_LIBRARY to libfanin.so.0, or unset it"
        )
    both = (
        "install both in one version; `fanin info` and `python3 -m fanin` say which files they are"
    )
    if said["version"]:
        text += f"{said['path']} {said['version']}"
    else:
        text += "no libfanin.so.0 on the loader's path; only programs linked with it need it"
    return judged("library", text, {both: said["version"] not in ("", path.version)}, said)


# ---- cores ----


def _read(path: str) -> str:
    """The first bytes of a file; "": it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(FILE_BYTES)
    except OSError:
        return ""


def _line(path: str) -> str:
    return _read(path).partition("\n")[0]


def quota_millicores(cpu_max: str) -> int:
    """Of "max 100000" or "150000 100000", in thousandths of a core; 0: no limit."""
    words = cpu_max.split()
    if len(words) != 2 or not all(word.isdigit() and len(word) < 16 for word in words):
        return 0
    quota, period = map(int, words)
    return max(quota * 1000 // period, 1) if quota and period else 0


def cgroup_path(text: str, controller: str) -> Optional[str]:
    """The group of a controller in the text of /proc/self/cgroup; "" asks for version 2."""
    for line in text.splitlines():  # "4:cpu,cpuacct:/jobs/7" or "0::/jobs/7"
        parts = line.split(":", 2)
        if len(parts) == 3 and controller in parts[1].split(","):
            return parts[2]
    return None


def _quota() -> Tuple[int, str]:
    """The least that a control group of this process allows, and its file; 0: no limit."""
    text = _read("/proc/self/cgroup")
    for mount, controller in (("/sys/fs/cgroup/cpu", "cpu"), ("/sys/fs/cgroup", "")):
        path = cgroup_path(text, controller)
        if path is None:
            continue
        found = []
        for _ in range(CGROUP_LEVELS):
            folder = mount + path
            file = f"{folder}/cpu.cfs_quota_us" if controller else f"{folder}/cpu.max"
            limit = _line(file)
            if controller:
                limit += " " + _line(f"{folder}/cpu.cfs_period_us")
            if quota_millicores(limit):
                found.append((quota_millicores(limit), file))
            if "/" not in path:
                break
            path = path.rpartition("/")[0]  # its parent; the mount itself is the last
        return min(found, key=lambda one: one[0], default=(0, ""))
    return 0, ""


def _ranks_here() -> int:
    """How many ranks a launcher starts on this machine."""
    for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"):
        text = os.environ.get(name, "")
        if text.isdecimal() and len(text) < 6 and int(text) > 0:
            return int(text)
    return 1


def _cores() -> Finding:
    online, allowed = os.sysconf("SC_NPROCESSORS_ONLN"), len(os.sched_getaffinity(0))
    milli, file = _quota()
    ranks = _ranks_here()
    wanted = CORES_OF_A_RANK * ranks
    limit = f"a quota of {milli // 1000}.{milli // 100 % 10}" if milli else "no quota"
    wants = "ranks here want" if ranks > 1 else "rank here wants"
    none = "-1" if "cfs_quota" in file else "max"
    advice = {
        f"as root: echo {none} > {plain(file)}; for a systemd unit: systemctl set-property UNIT "
        f"CPUQuota={wanted * 100}%; for a container: docker run --cpus {wanted} ...": 0
        < milli
        < wanted * 1000,
        f"bind the job to more cores: taskset -c 0-{online - 1} COMMAND, or in Slurm "
        f"--cpus-per-task={CORES_OF_A_RANK}": allowed < min(online, wanted),
        "run fewer ranks here (torchrun --nproc-per-node), or fewer compute threads: export "
        "OMP_NUM_THREADS=1": online < wanted,
    }
    text = f"{online} online, {allowed} allowed, {limit}; {ranks} {wants} {wanted}"
    values = {"online": online, "allowed": allowed, "quota_millicores": milli or None}
    return judged("cores", text, advice, {**values, "wanted_millicores": wanted * 1000})


# ---- clock, sockets ----


def _clock(said: Dict[str, Any]) -> Finding:
    every = _line(f"{CLOCKS}/available_clocksource")
    source = _line(f"{CLOCKS}/current_clocksource") or "unknown"
    bad = said["step_ns"] > STEP_NS or said["reading_ns"] > READING_NS
    better = next((name for name in ("tsc", "kvm-clock") if name in every), source)
    advice = {
        f"as root: echo {better} > {CLOCKS}/current_clocksource": bad and better != source,
        f'the kernel offers "{every}" only; for the reason: dmesg | grep -i -e tsc -e '
        "clocksource": bad
        and better == source,
    }
    text = f"resolution {said['resolution_ns']} ns, {said['reading_ns']} ns per reading"
    return judged("clock", f"source {source}, {text}", advice, {"source": source, **said})


def sysctl(name: str) -> int:
    """A number below /proc/sys/net; -1: it cannot be read."""
    text = _line(f"/proc/sys/net/{name}")
    return int(text) if text.isdecimal() else -1


def _buffers(said: Dict[str, Any]) -> Finding:
    if said["error"]:
        return fails("buffers", f"no UDP socket: {os.strerror(said['error'])}")
    want, receive, send = (said[f"{key}_bytes"] for key in ("wanted", "receive", "send"))
    limits = {f"{key}_max": sysctl(f"core/{key}_max") for key in ("rmem", "wmem")}
    enough = min(receive, send) >= want
    forced = enough and any(0 <= limit < want for limit in limits.values())
    text = (
        f"a socket gets {receive // 1024} KiB to receive and {send // 1024} KiB to send, of "
        f"{want // 1024} KiB asked for"
    )
    if forced:
        text += ", by this user's privilege; other users get less"
    knobs = [f"net.core.{key}={want}" for key in limits]
    advice = [
        f"as root: sysctl -w {' '.join(knobs)}",
        "to keep it after a reboot: printf '" + "".join(knob + "\\n" for knob in knobs) + "' > "
        "/etc/sysctl.d/60-fanin.conf",
    ]
    values = {"receive_bytes": receive, "send_bytes": send, "wanted_bytes": want, **limits}
    status = "ok" if enough else "warn"
    return Finding("buffers", status, text, advice if forced or not enough else [], values)


def _times(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _offload(said: Dict[str, Any]) -> Finding:
    if said.get("error"):
        text = f"not known: no UDP socket on 127.0.0.1: {os.strerror(said['error'])}"
        return Finding("offload", "warn", text, ["as root: ip link set lo up"])
    sent, came, kernel = said["datagrams"], said["came"], os.uname().release
    segment = said["segment"] and said["sends"] == 1
    gro = said["gro"] and said["receives"] < sent
    words = ["works" if one else "does not work" for one in (segment, gro)]
    text = (
        f"UDP_SEGMENT {words[0]}, UDP_GRO {words[1]}: {sent} datagrams over lo in "
        f"{_times(said['sends'], 'send')} and {_times(said['receives'], 'receive')}"
        f"{', some lost' if came < sent else ''}"
    )
    advice = {
        f"this kernel is {kernel}; UDP_SEGMENT needs Linux 4.18, UDP_GRO 5.0; plain datagrams work, "
        "but several times slower": not (segment and gro),
        f"only {came} of {sent} arrived: ip link set lo up; then look for a filter: nft list "
        "ruleset": came < sent,
    }
    values = {"segment": segment, "gro": gro, "kernel": kernel}
    return judged("offload", text, advice, values)
