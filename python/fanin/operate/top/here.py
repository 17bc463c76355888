# SPDX-License-Identifier: Apache-2.0
"""The ranks of this host, or of several: who waits for whom, and for how long."""

from __future__ import annotations

import json
import os
import sys

from .. import shape
from . import cells, query, status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

    Found = dict[str, Any]  # what status.collect returns
    Rank = dict[str, Any]  # shape.RANK, with "pid", "uid", "program"

SHARES_MAX = 4  # that are printed of a rank
MERGE_BYTES = 64 << 20  # of standard input
MERGE_RANKS = 262144  # of all hosts
COMPLETE_MS = 500  # for the aggregators for which ranks wait
COMPLETE_MAX = 16
ALL_HOSTS_MS = 3000  # for all of a job
STATES = ("waits", "joins", "failed", "works", "idle")  # who needs to be looked at comes first
HEADS = "HOST JOB RANK PID STATE OPERATION BYTES AGE WAITS-FOR SHARE RATE RETRANS".split()
RIGHT = (3, 6, 7, 10, 11)
AGGREGATOR = "AGGREGATOR INSIDE JOB STATE OPS OPEN AGE WAITS-FOR WHO-WAITS".split()


def _order(rank: Rank) -> tuple[Any, ...]:
    """Whole seconds: those that began to wait together are sorted as others."""
    place = STATES.index(rank["state"]) if rank["state"] in STATES else len(STATES)
    return place, -int(rank["waited_s"]), rank["job"], rank["rank"], rank["pid"]


def _waits(rank: Rank) -> str:
    """For whom a rank waits, or why it has failed."""
    if rank["error"]:
        return str(rank["error"])
    if rank["state"] == "works":
        return "-"
    if rank["missing"]:
        return cells.of_ranks(rank["missing"], rank.get("by_host", False))
    begins = "waits for "
    waits = str(rank["waits"])
    return (waits[len(begins) :] if waits.startswith(begins) else waits) or "-"


def _shares(parts: list[dict[str, Any]]) -> str:
    """Percent of each part: "40/30/30"."""
    if len(parts) < 2:
        return "-"
    text = "/".join(f"{100 * part['share']:.0f}" for part in parts[:SHARES_MAX])
    return text + "/..." if len(parts) > SHARES_MAX else text


def _row(rank: Rank) -> list[str]:
    """The cells of a rank, as HEADS has them."""
    ops = rank["under_way"]
    more = f" +{rank['open'] - 1}" if rank["open"] > 1 else ""
    operation = [
        (ops[0]["kind"] or "-") + more,
        cells.of_bytes(ops[0]["bytes"]),
        cells.of_time(max(rank["waited_s"], ops[0]["age_s"])),
    ] if ops else ["-"] * 3  # fmt: skip
    return [
        rank.get("host") or "-",
        rank["job"] or "-",
        f"{rank['rank']}/{rank['ranks']}",
        str(rank["pid"]),
        rank["state"] or "-",
        *operation,
        _waits(rank),
        _shares(rank["parts"]),
        cells.of_bytes(rank["rate"]) + "/s",
        str(rank.get("stats_net", rank["stats"])["retransmits"]),
    ]


def lines(found: Found) -> list[str]:
    """The table of ranks and what else is to be said; [] if there is nothing."""
    ranks = [rank for rank in found["ranks"] if not rank["column"]]
    text: list[str] = []
    if ranks:
        rows = [HEADS] + [_row(rank) for rank in sorted(ranks, key=_order)]
        first = 0 if found.get("merged") else 1
        text = cells.table([row[first:] for row in rows], [at - first for at in RIGHT])
    if found["left_out"]:
        text.append(f"and {found['left_out']} more")
    for number in found["silent"]:
        text.append(f"process {number} does not answer: is it stopped, or its disk full?")
    return text + _aggregators(found.get("aggregators", []))


def nothing(job: str, pid: int) -> str:
    """Why there is no table."""
    if job or pid:
        return "no such ranks here"
    whose = " of this user" if os.geteuid() else ""
    return (
        f"no ranks{whose} run here. A process is seen from its first communicator on, unless "
        "no folder can have its status file; of another user, by root alone; in a container with "
        "folders of its own, from inside."
    )


def keep(found: Found, job: str, pid: int) -> None:
    """Leave out what was not asked for."""
    found["ranks"] = [
        rank
        for rank in found["ranks"]
        if (not job or rank["job"] == job) and (not pid or rank["pid"] == pid)
    ]


def merge(file: BinaryIO) -> Found:
    """The ranks of several hosts, lines of `fanin ps --json`; shape.Bad: a line is nothing such."""
    found: Found = {"merged": True, "host": "several", "ranks": [], "silent": [], "left_out": 0}
    text = file.read(MERGE_BYTES)
    if len(text) == MERGE_BYTES:
        raise shape.Bad(f"standard input: expected less than {MERGE_BYTES >> 20} MiB of text")
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line.strip():
            continue
        begin = line.find(b"{")  # pdsh and others write the host before it
        try:
            told = shape.load(line[max(begin, 0) :], shape.TOLD)
        except shape.Bad as error:
            raise shape.Bad(
                f"standard input:{number}: expected a line of `fanin ps --json`: {error}"
            ) from error
        ranks = told["ranks"][: MERGE_RANKS - len(found["ranks"])]
        found["left_out"] += told["left_out"] + len(told["ranks"]) - len(ranks)
        found["ranks"] += [{**rank, "host": told["host"]} for rank in ranks]
        found["silent"] += told["silent"]
    return found


# ---- aggregators ----


def _asks(rank: Rank) -> dict[str, Any] | None:
    """The place whose aggregator knows for whom a rank waits; None: nobody is to be asked."""
    waits = rank["state"] == "waits" and (rank["away"] or not rank["missing"])
    place = rank["places"][0] if rank["places"] and not rank["column"] and waits else None
    return place if place and query.is_address(place["at"]) else None


def _named(numbers: list[int], of: list[int]) -> list[int]:
    """Ranks of a report, as the job of the rank calls them."""
    return [of[i] if i < len(of) else i for i in numbers]


def _ask(addresses: list[str], within_ms: int) -> list[query.Switch]:
    """As query.ask, of aggregators: each of them is silent where `fanin query` fails."""
    try:
        return query.ask(addresses, within_ms, jobs=True)
    except query.Silent as error:
        return [{"at": at, "error": str(error), "jobs": []} for at in addresses]


def complete(found: Found) -> None:
    """Complete what ranks that wait know with what the aggregators tell for which they wait."""
    asked = {rank: _asks(found["ranks"][rank]) for rank in range(len(found["ranks"]))}
    places = [place["at"] for place in asked.values() if place]
    known = {
        (switch["at"], job["name"]): job["missing"]
        for switch in _ask(list(dict.fromkeys(places))[:COMPLETE_MAX], COMPLETE_MS)
        for job in switch["jobs"]
    }
    for number, place in asked.items():
        rank = found["ranks"][number]
        missing = known.get((place["at"], place["job"]), []) if place else []
        if missing:
            rank["missing"] = _named(missing, rank.get("of", []))
            rank["by_host"] = rank["away"]


def _is_job_of(name: str, job: str) -> bool:
    """Is it the job, a part of it, or what its hosts do between them?"""
    return name.startswith(job) and name[len(job) : len(job) + 1] in ("", "/", "!")


def _report(job: dict[str, Any], of: list[int]) -> dict[str, Any]:
    """A job of an aggregator: the ranks for which it waits, and those that wait."""
    tail = job["name"].partition("/c")[2]
    by_host = tail[:1].isdigit()
    numbers = of if by_host else []
    there = [r for r in range(job["ranks"]) if job["waiting"] and r not in job["missing"]]
    return {
        "job": job["name"],
        "state": job["state"],
        "ranks": job["ranks"],
        "operations": job["operations"],
        "open": job["waiting"],
        "by_host": by_host,
        "missing": _named(job["missing"], numbers),
        "waits": _named(there, numbers),
        **({"age_s": job["age_s"]} if "age_s" in job else {}),
    }


def ask_aggregators(found: Found, job: str) -> None:
    """Ask the aggregators of `job`, those on other hosts too, as far as ranks here know them."""
    parts: dict[str, tuple[int, list[int]]] = {}
    for rank in found["ranks"]:
        for part in rank["parts"] if rank["job"] == job else []:
            if query.is_address(part["aggregator"]):
                parts.setdefault(part["aggregator"], (part["inside"], rank.get("of", [])))
    found["aggregators"] = [
        {
            "at": switch["at"],
            "inside": parts[switch["at"]][0],
            "answers": not switch["error"] or bool(switch["jobs"]),
            "jobs": [
                _report(told, parts[switch["at"]][1])
                for told in switch["jobs"]
                if _is_job_of(told["name"], job)
            ],
        }
        for switch in _ask(list(parts), ALL_HOSTS_MS)
    ]


def _aggregator(one: dict[str, Any]) -> list[list[str]]:
    """The rows of an aggregator, one for each job."""
    inside = f"rank {one['inside']}" if one["inside"] >= 0 else "-"
    if not one["jobs"]:
        says = "does not have the job" if one["answers"] else "does not answer"
        return [[one["at"], inside, says] + [""] * 6]
    return [
        [
            one["at"],
            inside,
            job["job"] or "-",
            job["state"],
            str(job["operations"]),
            str(job["open"]),
            cells.of_age(job),
            cells.of_ranks(job["missing"], job["by_host"]) if job["missing"] else "-",
            cells.of_ranks(job["waits"], job["by_host"])
            if job["waits"] and job["missing"]
            else "-",
        ]
        for job in one["jobs"]
    ]


def _aggregators(all_of_them: list[dict[str, Any]]) -> list[str]:
    """The table of a job's aggregators."""
    rows = [row for one in all_of_them for row in _aggregator(one)]
    return ["", *cells.table([AGGREGATOR, *rows], (4, 5, 6))] if rows else []


def collect(job: str = "", all_hosts: bool = False) -> Found:
    """The ranks of this host, with what aggregators know."""
    found = status.collect()
    complete(found)
    if all_hosts:
        ask_aggregators(found, job)
    return found


def ps(options: Any) -> int:
    """`fanin ps`; the exit status."""
    merged = options.merge
    found = merge(sys.stdin.buffer) if merged else collect(options.job, options.all_hosts)
    keep(found, options.job, options.pid)
    if options.json:
        print(json.dumps(found, separators=(",", ":")))
        return 0
    text = lines(found)
    if not text:
        print(f"fanin ps: {nothing(options.job, options.pid)}", file=sys.stderr)
        return 1
    print("\n".join(text))
    return 0
