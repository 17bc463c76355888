# SPDX-License-Identifier: Apache-2.0
"""Recorded figures: a row each in the tree, the whole results outside.

A record is named as the command that makes it, bench/NAME or experiments/NAME, or bench/NAME-VARIANT.  Its rows are in
bench/results/NAME.csv or experiments/NAME/figures.csv, behind a line "# record: ..."; lines "# KEY: VALUE" above them have
what is common to all: revision, machine, command, seed, and settings as JSON.  `asked` has its relation, as in "<= 5"; it is empty for information, `obtained` where nothing was.

Whole results are below $FAN_RECORDS (~/.cache/fanin/records): bench/NAME.json, experiments/NAME/result.json.
"""

import csv
import io
import json
import os
import platform
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = ("name", "asked", "obtained", "unit")
SPREAD = ("least", "most")  # of a mean, where the record has one
SETTING_MAX = 120  # characters of a setting in the head; longer ones are in the whole result
SLACK = 1e-9
NOT_RECORDS = (":!bench/results/*.csv", ":!experiments/*/figures.csv")  # for git


class RecordError(Exception):
    """A record that is not as expected; its text says which and what."""


def folder():
    return Path(os.environ.get("FAN_RECORDS") or Path.home() / ".cache" / "fanin" / "records")


def split(name):
    kind, _, rest = name.partition("/")
    if kind not in ("bench", "experiments") or not re.fullmatch(r"[\w-]+", rest):
        raise RecordError("%s: expected bench/NAME or experiments/NAME" % name)
    return kind, rest


def whole(name):
    """Where its whole result is."""
    kind, rest = split(name)
    return folder() / (name + ".json") if kind == "bench" else folder() / name / "result.json"


def rows(name):
    """The file of its rows: variants of a bench are in one."""
    kind, rest = split(name)
    words = rest.split("-")
    known = ("-".join(words[:n]) for n in range(len(words), 0, -1))
    rest = next((one for one in known if (ROOT / "bench" / one).is_file()), rest)
    return ROOT / ("bench/results/%s.csv" % rest if kind == "bench" else name + "/figures.csv")


def sections(path):
    """{record: its lines} of a file."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    parts = re.split(r"^# record: (.*)\n", text, flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2]))


def names():
    """All that have rows."""
    paths = [*ROOT.glob("bench/results/*.csv"), *ROOT.glob("experiments/*/figures.csv")]
    return sorted(name for path in paths for name in sections(path))


def holds(relation, asked, obtained):
    """None: nothing was asked, or nothing obtained."""
    if asked is None or obtained is None:
        return None
    if relation == "=":
        return abs(obtained - asked) <= 1e-6 * abs(asked)
    return obtained <= asked + SLACK if relation == "<=" else obtained >= asked - SLACK


def read(name):
    """({key: value of its head}, [figure]), as the whole result has them."""
    head, figures = {}, []
    found = sections(rows(name))
    if name not in found:
        raise RecordError("%s: no record of %s" % (rows(name), name))
    lines = found[name].splitlines(keepends=True)
    table = [line for line in lines if not line.startswith("# ")]
    for line in lines[: len(lines) - len(table)]:
        key, _, value = line[2:].rstrip("\n").partition(": ")
        head[key] = value
    try:
        for row in csv.DictReader(table):
            relation, _, asked = row.pop("asked").rpartition(" ")
            values = {key: json.loads(row[key]) if row[key] else None
                      for key in ("obtained", *SPREAD) if key in row}  # fmt: skip
            asked = json.loads(asked) if asked else None
            figures.append({**row, **values, "asked": asked, "relation": relation or ">=",
                            "holds": holds(relation, asked, values["obtained"])})  # fmt: skip
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        raise RecordError("%s: row %d: %s" % (rows(name), len(figures) + 1, error)) from None
    return head, figures


def figures(name):
    """{figure: what was obtained}."""
    return {figure["name"]: figure["obtained"] for figure in read(name)[1]}


def number(value):
    return "" if value is None else json.dumps(value)


def write(name, result, command, on=None):
    """Its rows, of a whole result; `on`: the machine, where the result does not say."""
    settings = dict(result["settings"])
    on = settings.pop("machine", on)
    short = {k: v for k, v in settings.items() if len(json.dumps(v)) <= SETTING_MAX}
    head = {"revision": result["revision"], "machine": on and machine_text(on), "command": command,
            "seed": result.get("seed"), "settings": json.dumps(short) if short else None}  # fmt: skip
    columns = COLUMNS + (SPREAD if any("least" in f for f in result["figures"]) else ())
    out = io.StringIO()
    path = rows(name)
    for key, value in head.items():
        if value is not None:
            out.write("# %s: %s\n" % (key, value))
    table = csv.writer(out, lineterminator="\n")
    table.writerow(columns)
    for f in result["figures"]:
        relation = f.get("relation") or ("<=" if f.get("at_most") else ">=")
        asked = "" if f["asked"] is None else "%s %s" % (relation, number(f["asked"]))
        table.writerow([f["name"], asked, number(f["obtained"]), f["unit"],
                        *(number(f.get(key)) for key in columns[len(COLUMNS):])])  # fmt: skip
    found = {**sections(path), name: out.getvalue()}
    path.write_text("".join("# record: %s\n%s" % one for one in found.items()), encoding="utf-8")


def revision():
    """The commit, with -dirty when tracked files but records differ from it; None outside git."""

    def git(*argv):
        return subprocess.run(("git", "-C", ROOT) + argv, capture_output=True, text=True,
                              check=False, timeout=300)  # fmt: skip

    try:
        head = git("rev-parse", "--verify", "-q", "HEAD")
        if head.returncode != 0:
            return None
        dirty = git("status", "--porcelain", "-uno", "--", ".", *NOT_RECORDS).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    return head.stdout.strip() + ("-dirty" if dirty else "")


def machine():
    cpu = platform.processor()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        cpu = re.search(r"^model name\s*: (.*)$", text, re.M).group(1)
    except (OSError, AttributeError):
        pass
    return {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "load_1min": os.getloadavg()[0]}  # fmt: skip


def machine_text(on):
    return "%(cpu)s, %(cores)d cores, Linux %(kernel)s, load %(load_1min).2f" % on
