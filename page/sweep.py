# SPDX-License-Identifier: Apache-2.0
"""The page about a sweep: curves over its values, or bars, and a table of its runs.

The key with the most different numbers is the horizontal axis; each combination of the other keys'
values is a curve.  Without such a key, variants are bars.  Runs that differ only in their seed are
averaged; runs in which jobs failed are marked and left out of the mean.
"""

import json
import math

import report

POINTS_MAX = 64
LINES_MAX = 64
NAME_MAX = 159
KEY_MAX = 40
VALUE_MAX = 60


class Outcome:
    """A figure of runs that differ only in their seed: mean and spread; None if no run has it."""

    def __init__(self, name, x):
        self.name, self.x = name, x
        self.mean = self.low = self.high = None
        self.counted = self.runs = self.failed = self.jobs = 0
        self.why = None  # the first job that failed, and its error

    def add(self, run, figure):
        failed = run.get("failed_jobs") or 0
        value = math.nan if failed else figure(run)
        self.runs += 1
        self.failed += failed
        self.jobs += len(run["jobs"])
        errors = ["%s: %s" % (j.get("name"), j["error"]) for j in run["jobs"] if j.get("error")]
        self.why = self.why or next(iter(errors), None)
        if math.isnan(value):
            return
        self.counted += 1
        self.low = value if self.low is None else min(self.low, value)
        self.high = value if self.high is None else max(self.high, value)
        self.mean = value if self.mean is None else self.mean + (value - self.mean) / self.counted

    def failed_text(self):
        """ "2 of 4 jobs failed (j0: no result for 10 s)", or None."""
        why = " (%s)" % self.why if self.why else ""
        return "%d of %d jobs failed%s" % (self.failed, self.jobs, why) if self.failed else None


def value_text(value):
    if isinstance(value, str):
        return value
    return "%.9g" % value if isinstance(value, float) and value != int(value) else json.dumps(value)


def name_of(settings, axis):
    parts = []
    for key, value in settings.items():
        if key.split(".")[-1] in ("variant", "policy"):  # the value needs no key
            parts.append(value_text(value)[:VALUE_MAX])
        elif key not in ("seed", axis):
            parts.append("%s %s" % (report.key_words(key)[:KEY_MAX], value_text(value)[:VALUE_MAX]))
    return ", ".join(parts)[:NAME_MAX]


def outcomes(result, axis, figure):
    """The outcomes of a figure, in the order of their first runs."""
    found = {}
    for run in result["runs"]:
        key = (name_of(run["set"], axis), run["set"].get(axis) if axis else None)
        found.setdefault(key, Outcome(*key)).add(run, figure)
    return list(found.values())


# ---- figures of a run


def mean_of(rows, key):
    return sum(row.get(key) or 0 for row in rows) / len(rows) if rows else math.nan


def completion(run):
    return report.real(run, "avg_jct_s")


def communication(run):
    return mean_of(run["jobs"], "comm_s")


def rate(run):
    return mean_of(run["jobs"], "throughput_gbps_per_worker")


def hit_rate(run):
    return mean_of(run.get("switches"), "hit_rate")


def server_mb(run):
    rows = run.get("servers")
    return sum(row.get("rx_bytes") or 0 for row in rows) * 1e-6 if rows else math.nan


# ---- blocks


def numbers_of(runs, key):
    """How many different numbers the key has, up to POINTS_MAX; 0 if some are not numbers."""
    values = [run["set"].get(key) for run in runs]
    if any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in values):
        return 0
    return min(len(set(values)), POINTS_MAX)


def axis_of(result):
    counts = {key: numbers_of(result["runs"], key) for key in result["sweep"] if key != "seed"}
    best = max(counts, key=counts.get, default=None)
    return best if best and counts[best] > 1 else None


def curves(result, axis, title, y_name, figure):
    lines = {}
    for group in outcomes(result, axis, figure):
        name = group.name or y_name
        if len(lines) < LINES_MAX or name in lines:
            lines.setdefault(name, []).append(group)
    drawn = []
    for name, groups in lines.items():
        rising = sorted(groups, key=lambda g: g.x)
        drawn.append({"name": name, "x": [g.x for g in rising], "y": [g.mean for g in rising],
                      "failed": [[g.x, g.failed_text()] for g in groups if g.failed]})  # fmt: skip
    low, high = min(line["x"][0] for line in drawn), max(line["x"][-1] for line in drawn)
    return {"kind": "curves", "title": title, "x_name": report.key_words(axis), "y_name": y_name,
            "log_x": report.grows_by_factors((low, high)), "marks": True, "lines": drawn}  # fmt: skip


def bars(result, title, figure):
    """Bars, one for each variant, with the spread over its seeds."""
    rows = []
    for g in outcomes(result, None, figure):
        row = {"name": g.name or "all seeds", "values": [g.mean], "low": g.low, "high": g.high}
        rows.append(dict(row, failed=g.failed_text()) if g.failed else row)
    return {"kind": "bars", "title": title, "unit": "s", "sort": True, "panels": [{"rows": rows}]}


def run_table(result):
    columns = [("set",), ("runs",), ("mean completion", "s"), ("least", "s"), ("most", "s"),
               ("99th percentile", "s"), ("communication", "s"), ("failed jobs",)]  # fmt: skip
    rows = []
    late = outcomes(result, None, lambda run: report.real(run, "p99_jct_s"))
    for g, p99, comm in zip(outcomes(result, None, completion), late, outcomes(result, None, communication)):  # fmt: skip
        failed = {"by": g.failed, "text": g.failed_text() or "0", "bad": g.failed > 0, "n": True}
        rows.append([g.name, g.runs, g.mean, g.low, g.high, p99.mean, comm.mean, failed])
    return {"kind": "table", "columns": [report.column(*c) for c in columns], "rows": rows,
            "sort": [2, "up"]}  # fmt: skip


def finding(result, name):
    """The finding in a sentence: which values are best, and by how much."""
    groups = outcomes(result, None, completion)
    ended = [g for g in groups if g.mean is not None]
    if not ended:
        return "%s: no job completed" % name
    best, worst = min(ended, key=lambda g: g.mean), max(ended, key=lambda g: g.mean)
    said = "%s: %s" % (name, report.seconds(best.mean))
    if best.name and worst.mean > best.mean:
        said = "%s: soonest with %s, %s; %.3g times that with %s" % (
            name, best.name, report.seconds(best.mean), worst.mean / best.mean, worst.name)  # fmt: skip
    failed = sum(g.failed for g in groups)
    return said + ("; %d jobs failed" % failed if failed else "")


def page(result, name):
    axis, blocks = axis_of(result), []
    if axis:
        asked = [("Mean job completion time", "seconds", completion),
                 ("Mean communication time of a job", "seconds", communication),
                 ("Throughput of a worker while it communicates", "Gb/s", rate),
                 ("Contributions that switches added", "share", hit_rate)]  # fmt: skip
        if any(run.get("servers") for run in result["runs"]):
            asked.append(("What servers received", "MB", server_mb))
        blocks += report.different([curves(result, axis, *one) for one in asked])
    else:
        blocks += [bars(result, "Mean job completion time", completion),
                   bars(result, "Mean communication time of a job", communication)]  # fmt: skip
    blocks += [report.heading("Runs"), run_table(result)]
    sub = "fanin sim, a sweep of %d runs, virtual time" % len(result["runs"])
    return report.page("fanin sim", finding(result, name), sub, blocks)
