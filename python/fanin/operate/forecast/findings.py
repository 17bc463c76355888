# SPDX-License-Identifier: Apache-2.0
"""What is found, as it is printed, and as JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import Any, Dict, List, Tuple

from ...research import files

NAME_COLUMNS = 9
COLORS = {"ok": "32", "warn": "33", "FAIL": "31", "skip": "2"}
BAD = ("warn", "FAIL")


@dataclass
class Finding:
    """Of one check."""

    name: str
    status: str  # one of COLORS
    found: str
    advice: List[str] = field(default_factory=list)
    values: Dict[str, Any] = field(default_factory=dict)  # the figures behind the text

    def text(self, colored: bool) -> str:
        """Its lines."""
        status = f"{self.status:<4}"
        if colored:
            status = f"\033[{COLORS[self.status]}m{status}\033[0m"
        lines = [f"{status}  {self.name:<{NAME_COLUMNS}}  {self.found}"]
        indent = " " * (4 + 2 + NAME_COLUMNS + 2)
        return "\n".join(lines + [f"{indent}-> {advice}" for advice in self.advice])

    def json(self) -> Dict[str, Any]:
        """For --json."""
        members = ("name", "status", "found", "advice") + (("values",) if self.values else ())
        return {member: getattr(self, member) for member in members}


def fails(name: str, found: str, *advice: str, **values: Any) -> Finding:
    """Of a check that FAILs."""
    return Finding(name, "FAIL", found, list(advice), values)


def judged(name: str, found: str, advice: Dict[str, Any], values: Dict[str, Any]) -> Finding:
    """With the advice that holds: a warning if there is some."""
    held = [text for text, holds in advice.items() if holds]
    return Finding(name, "warn" if held else "ok", found, held, values)


@dataclass
class Path:
    """What is known of the path to the switch."""

    rank: int = 0
    ranks: int = 1
    version: str = ""  # of this program
    protocol: int = 0
    multicast: bool = True  # the rank's option
    no_path: str = ""  # why no packet is sent to the switch
    at: str = ""  # its address; "": none
    device: str = "DEVICE"  # the interface towards it
    gateway: str = ""
    window: int = 0
    shards: int = 0
    group: int = 0  # the family of its multicast group; 0: none
    lossy: bool = False

    def host(self) -> str:
        """Of the switch."""
        return self.at.rpartition(":")[0].strip("[]")

    def port(self) -> str:
        """Of the switch."""
        return self.at.rpartition(":")[2]

    def is_v6(self) -> bool:
        """Whether its address is one of IPv6."""
        return self.at.startswith("[")

    def flush_cache(self) -> str:
        """The command that forgets what ICMP has told."""
        return f"ip {'-6 ' if self.is_v6() else ''}route flush cache"


def verdict(findings: List[Finding]) -> Tuple[str, bool]:
    """One line for all findings, and whether one FAILs."""
    warnings = sum(f.status == "warn" for f in findings)
    fails = [f for f in findings if f.status == "FAIL"]
    skips = [f for f in findings if f.status == "skip"]
    counted = f"{warnings} warning{'' if warnings == 1 else 's'}" if warnings else "no warnings"
    if fails:
        more = f" (and {len(fails) - 1} more)" if len(fails) > 1 else ""
        return f"aggregation cannot work: {fails[0].found}{more}", True
    if skips:
        done = f"{len(findings) - len(skips)} of {len(findings)} checks done, {counted}"
        return f"{done}; the others were skipped: {skips[0].found}", False
    return f"aggregation can work: {counted}", False


@dataclass
class Report:
    """The findings of one rank.

    Rank 0 prints everything; the first rank of each other host, once known, what is wrong there;
    the others nothing, unless the ranks have not met."""

    silent: bool  # JSON takes the place of the text
    rank: int = 0
    known: bool = False  # whether the ranks have met
    met: bool = False
    first: bool = False  # of its host
    findings: List[Finding] = field(default_factory=list)
    printed: int = 0

    def add(self, finding: Finding) -> None:
        """Add it, and print it as soon as that may be."""
        self.findings.append(finding)
        self.flush()

    def flush(self) -> None:
        """Print what is new."""
        if self.rank and not self.known:
            return
        new, self.printed = self.findings[self.printed :], len(self.findings)
        for finding in new:
            theirs = finding.status in BAD and (self.first or not self.met)
            if self.silent or (self.rank and not theirs):
                continue
            who = f"rank {self.rank}: " if self.rank else ""
            print(who + finding.text(sys.stdout.isatty()), flush=True)

    def end(self, switch: str, file: str) -> int:
        """Print the verdict and write the JSON, of rank 0 alone; the exit status."""
        text, bad = verdict(self.findings)
        if self.rank:
            return int(bad)
        if not self.silent:
            print(f"\n{text}", flush=True)
        checks = [finding.json() for finding in self.findings]
        root = {"verdict": text, "fails": bad, "switch": switch or None, "checks": checks}
        is_lost = bool(file) and not write_json("doctor", file, root)
        return int(bad or is_lost)


def write_json(command: str, file: str, root: Any) -> bool:
    """To this file, or standard output for "-".  False, and a line on stderr: not all of it."""
    try:
        files.write(file, json.dumps(root, indent=2) + "\n")
        sys.stdout.flush()
        return True
    except files.FileError as error:
        print(f"fanin {command}: --json: {error}", file=sys.stderr)
        return False
