# SPDX-License-Identifier: Apache-2.0
"""`fanin top`: what is shown, once or again and again."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import termios
import time
from types import SimpleNamespace

from ...research import files
from .. import shape
from . import cells, here, query, switches
from .history import History, drawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

    Shown = tuple[Any, list[str]]  # as JSON, as text

ROWS_MAX = 256  # of jobs on a terminal; the rest is counted
NAME_WIDTH = 24
COLUMNS = ("rate", "open", "held", "again", "name")  # to sort by
LIVE = "job state ranks results/s open slots coll/s again/s".split() + ["waits for rank"]

SEQUENCE_S = 0.02  # in which the rest of an arrow key arrives
KEYS = {"\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "enter", "\x1b[D": "back", "\x1b": "back",
        "\r": "enter", "\n": "enter", "\x03": "q"}  # fmt: skip
FORM = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
{again}<title>fanin top</title>
<style>body {{ font-family: sans-serif; margin: 2em }} pre {{ overflow-x: auto }}</style>
</head><body><h1>fanin top</h1><p>{when}</p><pre>{text}</pre></body></html>
"""


class Top:
    """What is shown: ranks of this host, jobs of switches, or a controller's; and how."""

    def __init__(self, options: SimpleNamespace, at: list[str]) -> None:
        self.options = options
        self.at = at
        self.shares = switches.Shares()
        self.rates = {address: switches.Rates() for address in at}
        self.results = History("results/s", lambda rate: f"{rate:.0f}/s")
        self.bytes = History("B/s", lambda rate: cells.of_bytes(rate) + "/s")
        self.rows: list[dict[str, Any]] = []
        self.switch: query.Switch = {}
        self.by = COLUMNS[0]
        self.reverse = False
        self.chosen = ""  # the name of the selected job
        self.inside = False  # it is shown alone

    def read(self) -> Shown:
        """Ask for everything anew; query.Silent: somebody does not answer."""
        if self.options.controller:
            return self._read_controller(self.options.controller)
        text: list[str] = []
        root: dict[str, Any] = {}
        if self.at:
            root, text = self._read_switches()
        if self.options.here or not self.at:
            found, lines = self._read_ranks()
            root = {**root, "here": found} if self.at else found
            text += ["", *lines] if text else lines
        return root, text

    def _read_controller(self, path: str) -> Shown:
        """Its status, as JSON only where that is written."""
        try:
            told = query.ask_controller(path, "status json") if self.options.json else b"{}"
            text = query.ask_controller(path, "status").decode(errors="replace")
            return shape.load(told), [files.plain(line) for line in text.splitlines()]
        except shape.Bad as error:
            raise query.Silent(f"the answer is no status: {error}") from error

    def _read_ranks(self) -> Shown:
        """The ranks of this host."""
        found = here.collect(self.options.job, self.options.all_hosts)
        whose = "this" if os.geteuid() else "any"
        head = f"fanin top: ranks of this host, of {whose} user; of a switch: --switch ADDR:PORT"
        here.keep(found, self.options.job, self.options.pid)
        lines = here.lines(found)
        rates: dict[str, float] = {}
        for rank in found["ranks"]:
            rates[rank["job"]] = rates.get(rank["job"], 0) + rank["rate"]
        self.bytes.take(rates)
        history = self.bytes.lines(self.options.interval)
        return {**found, **self._history(self.bytes)}, [head, *(lines or ["no ranks"]), *history]

    def _history(self, of: History) -> dict[str, Any]:
        """A member of what is written as JSON again and again."""
        return {} if self.options.once else {"history": of.told()}

    def _read_switches(self) -> Shown:
        """The jobs of all switches that were named."""
        told = query.ask(self.at)
        for switch in told:
            if switch["error"]:
                raise query.Silent(switch["error"])
        several = len(told) > 1
        jobs = [{**j, "switch": s["at"]} if several else j for s in told for j in s["jobs"]]
        shares = self.shares.take(told)
        root = {
            "switch": self.options.switch,
            "jobs": jobs,
            "slots": [one for switch in told for one in switch["slots"]],
            "ranks": [one for switch in told for one in switch["ranks"]],
            **({"shares": shares} if several else {}),
            **self._take_rates(told),
        }
        self.switch = told[0]
        text = [line for switch in told for line in switches.lines(switch)]
        if not jobs:
            text.append("no jobs")
        text += switches.share_lines(shares) if several else []
        return root, text + self.results.lines(self.options.interval)

    def _take_rates(self, told: list[query.Switch]) -> dict[str, Any]:
        """Keep the rates of all jobs; their history."""
        rates: dict[str, float] = {}
        for number, switch in enumerate(told):
            is_first = not self.rates[self.at[number]].is_begun
            rows = self.rates[self.at[number]].take(switch, time.monotonic())
            self.rows = self.rows if number else rows
            for row in rows if not is_first else []:
                rates[row["name"]] = rates.get(row["name"], 0) + row["rate"]
        self.results.take(rates)
        return self._history(self.results)

    # ---- jobs of one switch on a terminal ----

    def sorted_rows(self) -> list[dict[str, Any]]:
        """Those that wait come first, for that is what is looked for."""
        rows = sorted(self.rows, key=lambda row: str(row["name"]))
        if self.by != "name":
            rows.sort(key=lambda row: -float(row[self.by]))
        if self.reverse:
            rows.reverse()
        return sorted(rows, key=lambda row: bool(row["state"] != "waits"))

    def _place(self, rows: list[dict[str, Any]]) -> int:
        """Where the selected job is."""
        return next((i for i, row in enumerate(rows) if row["name"] == self.chosen), 0)

    def live(self) -> tuple[list[str], int | None]:
        """The lines of the terminal, and which is marked."""
        rows = self.sorted_rows()
        if self.inside and any(row["name"] == self.chosen for row in rows):
            return self._inside(), None
        stranger = "   " + switches.STRANGER if switches.sees_less(self.switch) else ""
        heads = [
            f"fanin top: switch {self.at[0]}, {len(rows)} jobs by {self.by}{stranger}",
            "up, down, enter: open a job   s: sort by another column   r: reverse   q: quit",
        ]
        if not rows:
            return [*heads, "no jobs"], None
        cut = [[*live_row(row), drawn(self.results.of(row["name"]))] for row in rows[:ROWS_MAX]]
        table = cells.table([[*LIVE, "rates"], *cut], range(2, 8))
        more = [f"and {len(rows) - ROWS_MAX} more"] if len(rows) > ROWS_MAX else []
        return heads + table + more, len(heads) + 1 + min(self._place(rows), ROWS_MAX - 1)

    def _inside(self) -> list[str]:
        """The selected job alone."""
        job = {
            "at": self.at[0],
            "jobs": [one for one in self.switch["jobs"] if one["name"] == self.chosen],
            "slots": [one for one in self.switch["slots"] if one["name"] == self.chosen],
            "ranks": [one for one in self.switch["ranks"] if one["job"] == self.chosen],
        }
        rates = drawn(self.results.of(self.chosen))
        heads = [f"fanin top: job {self.chosen}   {rates}", "back: all jobs   q: quit"]
        return [*heads, *switches.lines(job)]

    def heed(self, key: str) -> bool:
        """Act on a key; False: it ends the program."""
        rows = self.sorted_rows()
        step = {"up": -1, "k": -1, "down": 1, "j": 1}.get(key)
        if step is not None and rows:
            place = max(0, min(self._place(rows) + step, len(rows) - 1))
            self.chosen = rows[place]["name"]
        elif key == "enter" and rows:
            self.chosen = rows[self._place(rows)]["name"]
            self.inside = True
        elif key in ("back", "h"):
            self.inside = False
        elif key == "s":
            self.by = COLUMNS[(COLUMNS.index(self.by) + 1) % len(COLUMNS)]
        elif key == "r":
            self.reverse = not self.reverse
        return key != "q"


def title_of(name: str) -> str:
    """ "job/1!4" is part 1 of a job that goes on without some of its switches."""
    whole, mark, _ = name.rpartition("!")
    if not mark or not whole:
        return name
    stem, slash, part = whole.rpartition("/")
    if slash and stem and part.isdigit():
        return f"{stem} (part {part})"
    return f"{whole} (part 0)"


def live_row(row: dict[str, Any]) -> list[str]:
    """The cells of a job over all shards, as LIVE has them."""
    waits = row["state"] in ("failed", "forming") or row["open"]
    since = f" for {row['age_s']:.0f} s" if row["open"] and row["age_s"] >= 1 else ""
    who = cells.of_set(row["missing"]) if waits else "nobody"
    return [
        title_of(row["name"])[:NAME_WIDTH].ljust(NAME_WIDTH),
        row["state"],
        str(row["ranks"]),
        f"{row['rate']:.0f}",
        str(row["open"]),
        str(row["held"]),
        f"{row['collided']:.0f}",
        f"{row['again']:.0f}",
        ("blamed " if row["state"] == "failed" else "") + who + since,
    ]


# ---- pages ----


def _write_page(path: str, lines: list[str], interval_s: int) -> None:
    """Replace the page at once; interval_s: how soon another follows, 0: none does.

    OSError: it cannot be written."""
    import html

    again = f'<meta http-equiv="refresh" content="{interval_s}">\n' if interval_s else ""
    when = time.strftime("%Y-%m-%d %H:%M:%S %z")
    text = FORM.format(again=again, when=when, text=html.escape("\n".join(lines)))
    is_file = os.path.isfile(path) or not os.path.exists(path)  # or a pipe, a device
    (files.renew if is_file else files.write)(path, text)


# ---- a terminal ----


def _end(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def _terminal() -> Iterator[None]:
    """Take over the terminal; it is restored at the end, also when a signal ends the program."""
    before = termios.tcgetattr(sys.stdin)
    raw = termios.tcgetattr(sys.stdin)
    raw[0] &= ~termios.ICRNL
    raw[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    termios.tcsetattr(sys.stdin, termios.TCSANOW, raw)
    print("\033[?1049h\033[?25l", end="", flush=True)  # the other screen, no cursor
    try:
        yield
    finally:
        print("\033[?25h\033[?1049l", end="", flush=True)
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


def _draw(lines: list[str], marked: int | None = None) -> None:
    """Draw as much as there is room for; line `marked` is shown inversely."""
    import shutil

    columns, rows = shutil.get_terminal_size()
    first = max(0, (marked or 0) - rows + 1)
    out = []
    for number, line in enumerate(lines[first : first + rows], first):
        cut = line[:columns]
        out.append(f"\033[7m{cut}\033[0m\033[K" if number == marked else cut + "\033[K")
    print("\033[H" + "\r\n".join(out) + "\033[J", end="", flush=True)


def _key(until: float) -> str:
    """The next key, by name; "": none by then; "q" also where standard input has ended."""
    file = sys.stdin.fileno()
    if not select.select([file], [], [], max(0.0, until - time.monotonic()))[0]:
        return ""
    text = os.read(file, 1)
    if text == b"\x1b" and select.select([file], [], [], SEQUENCE_S)[0]:
        text += os.read(file, 2)
    if not text:
        return "q"
    name = text.decode("latin-1")
    return KEYS.get(name, name)


# ---- again and again ----


def _write(top: Top, root: Any, text: list[str]) -> None:
    """Write what was told wherever it is to be, apart from the terminal."""
    if top.options.json:
        files.write(top.options.json, json.dumps(root, indent=2) + "\n")
        sys.stdout.flush()
    if top.options.page:
        _write_page(top.options.page, text, 0 if top.options.once else top.options.interval)


def _run_plain(top: Top) -> None:
    """Print it once, or again and again."""
    next_at = time.monotonic()
    while True:
        root, text = top.read()
        _write(top, root, text)
        if top.options.json != "-":
            print("\n".join(text), flush=True)
        next_at += top.options.interval
        if top.options.once:
            return
        time.sleep(max(0.0, next_at - time.monotonic()))


def _run_live(top: Top) -> None:
    """Draw it anew on the terminal until a key ends that."""
    jobs = len(top.at) == 1 and not top.options.here
    with _terminal():
        next_at = time.monotonic()
        while True:
            root, text = top.read()
            _write(top, root, text)
            next_at = max(next_at + top.options.interval, time.monotonic())
            _draw(*(top.live() if jobs else (text, None)))
            while time.monotonic() < next_at:
                if not top.heed(_key(next_at)):
                    return
                _draw(*(top.live() if jobs else (text, None)))


def run(options: SimpleNamespace, at: list[str]) -> None:
    """Show what the options ask for; query.Silent: somebody does not answer."""
    top = Top(options, at)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if options.once or options.json == "-" or not terminal:
        _run_plain(top)
    else:
        _run_live(top)
