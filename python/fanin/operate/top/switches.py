# SPDX-License-Identifier: Apache-2.0
"""The jobs of switches, as the switches tell them: tables, and shares of a job."""

from __future__ import annotations

import re

from . import cells

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .query import Switch

STRANGER = (
    "(as a stranger sees it: counts in steps of 1024, not which fragment is oldest, but its age)"
)
HELPERS_TOLD = 4  # named helpers of a slow rank; two or more others are added up
JOBS = [
    "shard", "job", "state", "ranks", "window", "results", "replays", "by", "waiting", "oldest",
    "age", "waits for",
]  # fmt: skip
SLOTS = [
    "shard", "shared slots of job", "held", "quota", "sums", "hits", "collisions", "over quota",
    "unsummed", "preempts", "evicted", "flushes",
]  # fmt: skip
RANKS = [
    "shard", "ranks of job", "rank", "behind", "most", "deferred", "lent", "cache", "used", "peak",
    "", "helped by",
]  # fmt: skip

_SLOT_KEYS = (
    "held quota completions hits collisions over_quota passed preemptions evictions flushes".split()
)
_RANK_KEYS = "rank behind behind_most deferred lent cache_frags cache_open cache_peak".split()
_PART = re.compile(r"(.+)/[1-9][0-9]*", re.DOTALL | re.ASCII)


def sees_less(switch: Switch) -> bool:
    """Does a switch take this host for a stranger, as far as can be seen?"""
    return any(job["waiting"] and "oldest" not in job for job in switch["jobs"])


def waits(job: dict[str, Any]) -> str:
    """For whom a job waits, or why it has failed."""
    ranks = cells.of_set(job["missing"])
    if job["state"] == "failed":
        return f"{job.get('cause_text', '')}: blamed {ranks}"
    if job["state"] == "forming":
        return f"ranks {ranks} to join"
    return f"ranks {ranks}" if job["waiting"] else "nobody"


def _job(job: dict[str, Any]) -> list[str]:
    """The cells of a job, as JOBS has them."""
    by = "multicast" if job["multicast"] else "unicast"
    numbers = [str(job[key]) for key in ("ranks", "window", "results", "replays")]
    oldest = str(job["oldest"]) if "oldest" in job else "-"
    about = [str(job["shard"]), job["name"], job["state"], *numbers, by, str(job["waiting"])]
    return [*about, oldest, cells.of_age(job), waits(job)]


def _standing(rank: dict[str, Any]) -> str:
    """What a rank that runs ahead, or does not, does for others."""
    if rank["straggles"]:
        return "is slow, others keep for it" if rank["deferred"] else "is slow"
    if rank["full"]:
        return "keeps for others, is full"
    if rank["lent"]:
        return "keeps for others"
    return "would keep" if rank["offers"] else "-"


def helped_by(rank: dict[str, Any], team: list[dict[str, Any]]) -> str:
    """Where the late contributions of a rank went: "2 41%, itself 3%, 3 more 10%, server 6%"."""
    kept = {r["rank"]: r["helps"].get(str(rank["rank"]), 0) for r in team if "helps" in r}
    kept = {helper: parts for helper, parts in kept.items() if parts}
    whole = max(rank["deferred"], sum(kept.values()))  # the answers are of different times
    if not whole or not any("helps" in r for r in team):
        return "-"
    order = sorted(kept, key=lambda helper: (-kept[helper], helper))
    told = order if len(order) <= HELPERS_TOLD + 1 else order[:HELPERS_TOLD]
    rest = sum(kept[helper] for helper in order[len(told) :])
    said = [("itself" if h == rank["rank"] else str(h), kept[h]) for h in told]
    said += [(f"{len(order) - len(told)} more", rest), ("server", whole - sum(kept.values()))]
    return ", ".join(f"{who} {100 * parts / whole:.0f}%" for who, parts in said if parts)


def _rank_rows(ranks: list[dict[str, Any]]) -> list[list[str]]:
    """The cells of ranks, as RANKS has them."""

    def team(rank: dict[str, Any]) -> tuple[Any, ...]:
        return rank["shard"], rank["job"], rank.get("copy", 0)

    return [
        [
            str(rank["shard"]),
            rank["job"] or "?",
            *(str(rank[key]) for key in _RANK_KEYS),
            _standing(rank),
            helped_by(rank, [other for other in ranks if team(other) == team(rank)]),
        ]
        for rank in ranks
    ]


def _table(heads: list[str], rows: list[list[str]], right: range) -> list[str]:
    return ["", *cells.table([heads, *rows], right)] if rows else []


def lines(switch: Switch) -> list[str]:
    """The tables of a switch; [] if it has no jobs."""
    text: list[str] = []
    if switch["jobs"]:
        text.append(f"switch {switch['at']}{'   ' + STRANGER if sees_less(switch) else ''}")
        text += cells.table([JOBS, *map(_job, switch["jobs"])], (3, 4, 5, 6, 8, 9, 10))
    slots = [
        [str(one["shard"]), one["name"] or "?", *(str(one[key]) for key in _SLOT_KEYS)]
        for one in switch["slots"]
    ]
    text += _table(SLOTS, slots, range(2, 12))
    return text + _table(RANKS, _rank_rows(switch["ranks"]), range(2, 10))


# ---- shares ----
#
# Ranks that use several aggregators give each a part of every tensor, as a job of its own: the
# first has the job's name, part K the name with "/K" behind it.  No aggregator knows how large its
# part is, but each counts the fragments that it has finished: its share is its own count since the
# last question, divided by all counts.


class Shares:
    """The share of a job that each of several switches has."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, int, str], int] = {}

    def take(self, switches: list[Switch]) -> list[dict[str, Any]]:
        """Answers of all switches: [{"name", "shares": [{"switch", "share"}]}], of jobs of which
        something was finished since the last ones."""
        now: dict[tuple[str, int, str], int] = {}
        for switch in switches:
            for job in switch["jobs"]:
                key = job["name"], job["ranks"], switch["at"]
                now[key] = now.get(key, 0) + job["results"]
        whole: dict[tuple[str, int], dict[str, int]] = {}
        for (name, ranks, at), count in now.items():
            before = self._before.get((name, ranks, at), 0)
            done = whole.setdefault(self._job_of(name, ranks, now), {})
            done[at] = done.get(at, 0) + (count - before if count >= before else count)
        self._before = now
        return [
            {
                "name": name,
                "shares": [
                    {"switch": s["at"], "share": done.get(s["at"], 0) / sum(done.values())}
                    for s in switches
                ],
            }
            for (name, _), done in whole.items()
            if sum(done.values())
        ]

    @staticmethod
    def _job_of(name: str, ranks: int, now: dict[tuple[str, int, str], int]) -> tuple[str, int]:
        """The job of which it is a part, or itself."""
        stem = _PART.fullmatch(name)
        is_part = stem and any((n, r) == (stem[1], ranks) for n, r, _ in now)
        return (stem[1] if stem and is_part else name), ranks


def share_lines(shares: list[dict[str, Any]]) -> list[str]:
    """A line for each job."""
    text: list[str] = []
    for job in shares:
        each = ", ".join(f"{s['switch']} {100 * s['share']:.1f} %" for s in job["shares"])
        text += ["", f"shares of {job['name']}: {each}"]
    return text


# ---- rates ----


class Rates:
    """Jobs over all shards of a switch, with what has changed since the last answer."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._before: dict[str, dict[str, Any]] = {}

    @property
    def is_begun(self) -> bool:
        """Is there an answer to compare the next one with?"""
        return self._at is not None

    def take(self, switch: Switch, now: float) -> list[dict[str, Any]]:
        """The jobs, each {"name", "state", "ranks", "open", "held", "rate", "again", "collided",
        "missing", "age_s"}; rates are a second."""
        rows: dict[str, dict[str, Any]] = {}
        for job in switch["jobs"]:
            self._add_job(rows, job)
        for slots in switch["slots"]:
            row = self._row(rows, slots["name"])
            for key in ("held", "collisions", "completions"):
                row[key] += slots[key]
        seconds = now - self._at if self._at is not None else 0.0
        for name, row in rows.items():
            self._compare(row, self._before.get(name), seconds, now)
        self._at, self._before = now, rows
        return list(rows.values())

    @staticmethod
    def _row(rows: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
        keys = "shards ranks open results replays held collisions completions oldest".split()
        empty: dict[str, Any] = {**dict.fromkeys(keys, 0), "name": name, "state": "seen"}
        return rows.setdefault(name, {**empty, "missing": set(), "age_s": 0.0})

    def _add_job(self, rows: dict[str, dict[str, Any]], job: dict[str, Any]) -> None:
        """Add one shard's job to that of the same name."""
        row = self._row(rows, job["name"])
        if row["state"] != "failed":
            row["state"] = job["state"]
        row["shards"] += 1
        row["ranks"] = job["ranks"]
        row["open"] += job["waiting"]
        row["results"] += job["results"]
        row["replays"] += job["replays"]
        row["missing"] |= set(job["missing"])
        row["oldest"] += job["oldest"] + 1 if "oldest" in job else 0
        row["age_s"] = max(row["age_s"], job.get("age_s", 0.0))

    @staticmethod
    def _compare(
        row: dict[str, Any], before: dict[str, Any] | None, seconds: float, now: float
    ) -> None:
        """Add rates, and whether the job stands still."""

        def rate(key: str) -> float:
            more = row[key] - before[key] if before else 0
            return float(more / seconds) if more > 0 and seconds > 0 else 0.0

        same = before and row["oldest"] and row["oldest"] == before["oldest"]
        row["since"] = before["since"] if before and same else now
        row["age_s"] = max(row["age_s"], now - row["since"])
        row["rate"] = rate("results" if row["shards"] else "completions")
        row["again"] = rate("replays")
        row["collided"] = rate("collisions")
        stands = row["age_s"] >= 1 or (same and before and row["results"] == before["results"])
        if row["state"] == "ready" and row["open"] and stands:
            row["state"] = "waits"
