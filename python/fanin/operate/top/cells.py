# SPDX-License-Identifier: Apache-2.0
"""Cells of tables: bytes, times, sets of ranks; and tables of them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Sequence


UNITS = ("B", "kB", "MB", "GB", "TB")


def of_bytes(count: float) -> str:
    """An amount of bytes: "950 B", "4.0 kB"."""
    unit = 0
    while count >= 999.5 and unit + 1 < len(UNITS):
        count /= 1000
        unit += 1
    return f"{count:.1f} {UNITS[unit]}" if unit and count < 9.95 else f"{count:.0f} {UNITS[unit]}"


def of_time(seconds: float) -> str:
    """A time: "12 ms", "3.1 s", "100 s"."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 99.5 else f"{seconds:.0f} s"


def of_age(job: dict[str, Any]) -> str:
    """For how long a job of a switch has had no result."""
    return of_time(job["age_s"]) if "age_s" in job else "-"


def of_set(ranks: Iterable[int]) -> str:
    """Ranks as "0,3,5-7"; "none"."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in runs) or "none"


def of_ranks(ranks: Sequence[int], by_host: bool) -> str:
    """Ranks in words: "rank 2", "hosts of ranks 0-1"."""
    what = "rank" if len(set(ranks)) == 1 else "ranks"
    return f"{'host of ' if by_host else ''}{what} {of_set(ranks)}"


def table(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Lines of a table, of which some columns stand at the right."""
    width = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    at_right = set(right)
    return [
        "  ".join(
            cell.rjust(width[i]) if i in at_right else cell.ljust(width[i])
            for i, cell in enumerate(row)
        ).rstrip()
        for row in rows
    ]
