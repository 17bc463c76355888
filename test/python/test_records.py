# SPDX-License-Identifier: Apache-2.0
"""tools/record, and the rows that it writes (tools/records.py), in a tree without git."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import records  # noqa: E402

LIMIT_S = 300
BENCH = """#!/usr/bin/env python3
import argparse, sys
import benchlib
parser = argparse.ArgumentParser()
benchlib.add_flags(parser)
parser.add_argument("--fails", type=int, default=0)
parser.add_argument("--value", type=float, default=0.5)
args = parser.parse_args()
figures = benchlib.Figures("one")
figures.add('a "share", of it', 0.5, args.value, "x")
figures.add("time", 2, 3, "ms", at_most=True)
figures.add("for information", None, 7, "")
figures.add("SKIPPED", 1, None, "x")
figures.record("fanin", 0, {"time_us_p50": 1, "time_us_p99": 1, "linkbw_GBps": 1})
sys.exit(args.fails or benchlib.finish(figures, args, {"rounds": 3, "long": list(range(100))}))
"""
EXPERIMENT = """#!/usr/bin/env python3
import os, sys
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import explib
e = explib.Experiment("one", "One", explib.flags("One").parse_args())
e.spread("time", [{"failed_jobs": 0, "avg_jct_s": s} for s in (0.001, 0.003)])
e.finish()
"""


@pytest.fixture
def tree(tmp_path):
    """A small tree with a bench and an experiment, neither recorded."""
    for name in "page", "share", "tools", "simulator/lab":
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in (
        "bench/benchlib.py",
        "experiments/explib.py",
        "experiments/pages.py",
        "experiments/compare",
        "experiments/render",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "bench" / "results").mkdir()
    (tmp_path / "experiments" / "one").mkdir()
    for name, text in ("bench/one", BENCH), ("experiments/one/run", EXPERIMENT):
        (tmp_path / name).write_text(text, "utf-8")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def ran(tree, *argv, rc=0):
    done = subprocess.run(
        [sys.executable, str(tree / argv[0]), *argv[1:]],
        check=False,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=dict(os.environ, FAN_RECORDS=str(tree / "whole")),
    )
    assert done.returncode == rc, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_bench_is_recorded(tree, monkeypatch):
    ran(tree, "tools/record", "bench/one")
    whole = json.loads((tree / "whole/bench/one.json").read_text("utf-8"))
    assert whole["results"] and "long" in whole["settings"]
    monkeypatch.setattr(records, "ROOT", tree)
    head, figures = records.read("bench/one")
    assert head["command"] == "bench/one" and "cores, Linux" in head["machine"]
    assert json.loads(head["settings"]) == {"rounds": 3, "quick": False}
    kept = [[f[key] for key in ("name", "asked", "obtained", "unit", "holds")] for f in figures]
    assert kept == [[f[key] for key in ("name", "asked", "obtained", "unit", "holds")]
                    for f in whole["figures"]]  # fmt: skip
    assert [f["holds"] for f in figures] == [True, False, None, None]
    assert records.names() == ["bench/one"]


def test_the_command_is_that_of_the_record(tree, monkeypatch):
    ran(tree, "tools/record", "bench/other", "bench/one", "--value", "0.25")
    (tree / "whole/bench/other.json").unlink()
    ran(tree, "tools/record", "bench/other")
    monkeypatch.setattr(records, "ROOT", tree)
    assert records.read("bench/other")[0]["command"] == "bench/one --value 0.25"
    assert records.figures("bench/other")['a "share", of it'] == 0.25


def test_variants_of_a_bench_are_in_one_file(tree, monkeypatch):
    for name, value in ("one", "0.5"), ("one-less-far", "0.25"), ("one", "0.75"):
        ran(tree, "tools/record", "bench/" + name, "bench/one", "--value", value)
    monkeypatch.setattr(records, "ROOT", tree)
    assert [path.name for path in tree.glob("bench/results/*")] == ["one.csv"]
    assert records.names() == ["bench/one", "bench/one-less-far"]
    for name, value in ("one", 0.75), ("one-less-far", 0.25):
        assert records.figures("bench/" + name)['a "share", of it'] == value


@pytest.mark.parametrize(("more", "rc"), [(["--fails", "3"], 3), (["--quick"], 1)])
def test_what_fails_or_is_not_whole_is_not_recorded(tree, more, rc):
    ran(tree, "tools/record", "bench/one", "bench/one", *more, rc=rc)
    assert not list(tree.glob("bench/results/*"))


@pytest.mark.parametrize("name", ["one", "bench/../one", "elsewhere/one", "bench/"])
def test_a_name_is_of_a_bench_or_an_experiment(tree, name):
    assert "expected bench/NAME" in ran(tree, "tools/record", name, "true", rc=1)


def test_an_experiment_is_recorded_compared_and_drawn(tree, monkeypatch):
    ran(tree, "tools/record", "experiments/one")
    monkeypatch.setattr(records, "ROOT", tree)
    (figure,) = records.read("experiments/one")[1]
    assert (figure["obtained"], figure["least"], figure["most"]) == (2, 1, 3)
    assert "0 of 1 figures differ" in ran(tree, "experiments/compare", "one")
    path = tree / "whole/experiments/one/result.json"
    path.write_text(path.read_text("utf-8").replace("2.0", "2.1"), "utf-8")
    assert "recorded 2.0, now 2.1" in ran(tree, "experiments/compare", "one", rc=1)
    ran(tree, "experiments/compare", "--percent", "6", "one")
    page = path.parent / "report.html"
    page.unlink()
    ran(tree, "experiments/render")
    assert "2.1" in page.read_text("utf-8")
    assert sorted(p.name for p in (tree / "experiments/one").iterdir()) == ["figures.csv", "run"]


@pytest.mark.parametrize("row", ["a,>= x,1,x", "a,>= 1,x,x", "a", '"a'])
def test_a_bad_row_is_named(tree, monkeypatch, row):
    monkeypatch.setattr(records, "ROOT", tree)
    path = records.rows("bench/one")
    path.write_text(
        "# record: bench/one\n# revision: 1\nname,asked,obtained,unit\nb,,1,x\n%s\n" % row, "utf-8"
    )
    with pytest.raises(records.RecordError, match="one.csv: row 2"):
        records.read("bench/one")


def test_every_record_has_what_made_it_and_names_of_its_own():
    assert records.names()
    for name in records.names():
        head, figures = records.read(name)
        assert head["revision"], name
        assert (ROOT / head["command"].split()[0]).exists(), name
        assert figures and len({f["name"] for f in figures}) == len(figures), name
