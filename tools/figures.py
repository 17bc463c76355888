#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures that pages name are those of the records: README.md, doc/policies.md, and the pages of bench and experiments.

    tools/figures.py        1: a page has another figure; it is named with what the record says

README.md's table and the pictures are drawn by tools/pictures.py, which checks them itself.
"""

import re
import sys

from records import ROOT, figures, names

SERVERS = (("one server", "one server"), ("one server, four times as fast", "one server, four times as fast"),
           ("a server for each job", "a server for each job"))  # fmt: skip
SYSTEMS = (("no aggregation: a server on 40 Gb/s", "no aggregation"), ("ring", "ring"), ("SwitchML's static split", "switchml"),
           ("ATP", "atp"), ("ESA", "esa"), ("SA-ATP (run-ahead of 192, M = 1024)", "sa-atp"),
           ("ESA with SA-ATP (the same)", "esa+sa-atp"))  # fmt: skip
SETTINGS = ("memory scarce", "memory ample", "memory scarce, workers slow in turns", "memory ample, workers slow in turns")  # fmt: skip
SHARED = ("atp", "atp, slots freed early", "esa")


def row(name, cells):
    return "| %s | %s |" % (name, " | ".join(cells))


def readme():
    found = figures("bench/fast")
    row_of = "%s, MTU 1500, nothing named: Gloo's %s by fanin's"

    def times(hosts_and_ranks):
        return 1 / found[row_of % (hosts_and_ranks + ", 16 MiB, no shaper", "time")]

    yield "%.1f times Gloo's" % (1 / found[row_of % ("4 x 1, 64 MiB, 1 Gb/s", "processor time") + ", ranks"])  # fmt: skip
    yield "fanin takes %.2f times as long as Gloo there" % times("2 x 2")
    yield "eight hosts take %.2f, and four hosts of four ranks %.2f of Gloo's time" % (times("8 x 1"), times("4 x 4"))  # fmt: skip
    yield "Four ranks with a key take %.2f times as long as Gloo" % (
        1 / found["4 x 1, 16 MiB, no shaper, MTU 1500, nothing named, sealed: Gloo's time by fanin's"])  # fmt: skip


def policies():
    found = figures("experiments/policies")
    memory = (16, 32, 64, 96, 256, 2048)
    static = [found["10 Gb/s, one server, memory %d: static split" % m] for m in memory]
    yield row("static split, ms", ["%.2f" % ms for ms in static])
    for name, key in SERVERS:
        split = [found["10 Gb/s, %s, memory %d: static split" % (key, m)] for m in memory]
        yield row(name, ["; ".join("%.2f" % (ms / found["10 Gb/s, %s, memory %d: %s" % (key, m, policy)])
                                   for policy in SHARED) for m, ms in zip(memory, split)])  # fmt: skip
    one = [found["10 Gb/s, one server, memory %d: static split" % m] / found["10 Gb/s, one server, memory %d: esa" % m]
           for m in (16, 32, 64)]  # fmt: skip
    yield "%.2f, %.2f, %.2f with memory 16, 32, 64 at 10 Gb/s" % tuple(one)
    real = figures("bench/contest")
    for slots in (12, 48, 512):
        cells = []
        for policy, simulated in zip(("atp", "atp-early", "esa"), SHARED):
            name = "contest, %d slots, 50 us a link: %s, speed by the static split's" % (slots, simulated)  # fmt: skip
            cells.append("%.2f; %.2f" % (real["%d slots: %s, speed by switchml's static split" % (slots, policy)], found[name]))  # fmt: skip
        yield row(str(slots), cells)


def systems():
    found = figures("experiments/all")
    for name, system in SYSTEMS:
        yield row(name, ["%.1f" % found["%s: %s, average completion time" % (setting, system)]
                         for setting in SETTINGS])  # fmt: skip


def misses():
    found = figures("experiments/inart")
    one = found["fat-tree, communication time of inart, one drawing against atp, nearest"]
    yield "| -49 %% | %.0f %% by its own drawing |" % one


PAGES = {"README.md": readme, "doc/policies.md": policies, "experiments/README.md": systems, "experiments/misses.md": misses}  # fmt: skip


def artefact():
    """Of each line of experiments/artefact.md that runs one experiment, the figures behind its command that it does not have."""
    page = "experiments/artefact.md"
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        command = re.search(r"`experiments/([\w-]+)/run`", line)
        expected = re.findall(r"`([^`]+)`:? (-?[\d.]+) (?:x|%|Gb/s|ms)", line.rpartition(" | ")[2])
        if not command or not expected:
            continue
        found = figures("experiments/%s" % command.group(1))
        for name, value in expected:
            pieces = [piece.strip() for piece in name.split("...")]
            places = len(value.partition(".")[2])
            pattern = ".*".join(re.escape(piece) for piece in pieces)
            got = [v for key, v in found.items() if re.search(pattern, key) and v is not None]
            if value not in ["%.*f" % (places, v) for v in got]:
                yield "%s: %s: %s, the record: %s" % (page, name, value, ", ".join("%.6g" % v for v in got[:4]) or "none")  # fmt: skip


def recorded(page, cell, what, kind, name):
    """The numbers of a row's `cell` that no record of `name`, or of a variant of it, has at their places."""
    pattern = r"%s/%s(-\w+)?" % (kind, name)
    got = [v for record in names() if re.fullmatch(pattern, record) for v in figures(record).values() if v is not None]  # fmt: skip
    got += [100 * v for v in got] if "%" in cell else []
    for value in re.findall(r"\d[\d.]*", cell):
        if value not in ["%.*f" % (len(value.partition(".")[2]), abs(v)) for v in got]:
            yield "%s: %s: %s: not in the records of %s/%s" % (page, what, value, kind, name)


def tables():
    """Rows of bench/README.md behind their command, and of a section of experiments/README.md behind its name."""
    page = "bench/README.md"
    text = (ROOT / page).read_text(encoding="utf-8")
    for line in text[text.index("## Figures") : text.index("Measured without")].splitlines():
        cells = re.findall(r" ([^|]+) \|", line)
        command = re.match(r"`bench/([\w-]+)", cells[-1]) if len(cells) == 4 else None
        if command:
            yield from recorded(page, cells[2], cells[0], "bench", command.group(1))
    page, name, inside = "experiments/README.md", None, False
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        name = line[3:] if line.startswith("## ") else name
        inside = line.startswith("| figure | asked |") or inside and line.startswith("|")
        cells = re.findall(r" ([^|]+) \|", line)
        if inside and len(cells) == 3 and cells[2] != "obtained":
            yield from recorded(page, cells[2], "%s: %s" % (name, cells[0]), "experiments", name)


def main():
    bad, count = list(artefact()) + list(tables()), 0
    for page, lines in PAGES.items():
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        for line in lines():
            count += 1
            if " ".join(line.split()) not in text:
                bad.append("%s: not as the record has it: %s" % (page, line))
    print("\n".join(bad) or "%d lines" % count)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
