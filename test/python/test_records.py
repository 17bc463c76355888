# SPDX-License-Identifier: Apache-2.0
"""Records of experiments say of which code they are (experiments/records.py), in a tree without git."""

import json
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

pytestmark = pytest.mark.skipif(shutil.which("ninja") is None, reason="there is no ninja")
LIMIT_S = 300
C = """#include <stddef.h>
/* One. */
#define F (x)
#define N 1
static const char *at = "http://a", *gap = "b  c", quote = '"';

int sum(int a, int b) // of both
{
	return a + +b + 'c' + F;
}
"""
RUN = """#!/usr/bin/env python3
import os, sys
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import {0}
args = {1}
{0}.Experiment(os.path.basename(HERE), "One", args).finish()
"""
SIMULATES = RUN.format("explib", "explib.flags('One').parse_args()")
PLANS = RUN.format("planlib", "planlib.arguments('One')")
FILES = {
    "src/core/base/a.c": C,
    "simulator/sim/a.c": C,
    "simulator/cmd/sim.c": C,
    "simulator/cmd/lab.c": C,
    "python/fanin/research/flow.py": "RATE = 1\n",
    "planner/plan/topo.c": C,
    "planner/plan/network.c": C,
    "planner/plan/sizes.h": C,
    "planner/plan/best.c": C,
    "planner/cmd/plan.c": C,
    "experiments/all/run": SIMULATES,
    "experiments/all/settings.json": '{"seeds": [1, 2], "window": 64}',
    "experiments/drops/run": SIMULATES,
    "experiments/policies/jobs.json": '{"jobs": []}',
    "experiments/policies/one-each.json": "[]",
    "experiments/installs/run": PLANS,
    "build/build.ninja": "rule copy\n command = cp $in $out && chmod +x $out\nbuild fanin: copy ../src/core/base/a.c\n",
}
SIMULATED, EVERY = ["all", "drops"], ["all", "drops", "installs"]


def ran(tree, *argv, rc=0):
    command = [sys.executable, str(tree / argv[0]), *argv[1:]]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == rc, done.stdout + done.stderr
    return done.stdout + done.stderr


def stale(tree, rc=0):
    """{experiment: why} that --check names."""
    told = ran(tree, "experiments/run", "--check", rc=rc)
    return dict(re.findall(r"^experiments/(\w+)/result\.json: (?:stale: )?(.*)$", told, re.M))


def ninja(tree):
    subprocess.run(["ninja", "-C", str(tree / "build")], check=True, capture_output=True)


def replace(path, old, new):
    text = path.read_text("utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), "utf-8")


def placed(tree, source=None):
    """Make tree/build a build of `tree`, or of another source."""
    text = json.dumps({"directories": {"source": str(source or tree)}})
    (tree / "build" / "meson-info" / "meson-info.json").write_text(text, "utf-8")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A small tree of three experiments, all recorded."""
    tree = tmp_path_factory.mktemp("records") / "tree"
    for name in "page", "simulator/lab":
        shutil.copytree(ROOT / name, tree / name)
    for name, text in FILES.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text, "utf-8")
    for name in "explib.py", "pages.py", "planlib.py", "records.py", "README.md", "run":
        shutil.copy(ROOT / "experiments" / name, tree / "experiments" / name)
    for name in "report.css", "report.js":
        (tree / "share").mkdir(exist_ok=True)
        shutil.copy(ROOT / "share" / name, tree / "share" / name)
    for name in EVERY:
        (tree / "experiments" / name / "run").chmod(0o755)
    (tree / "build" / "meson-info").mkdir()
    placed(tree)
    ninja(tree)
    assert stale(tree) == dict.fromkeys(EVERY, "never recorded")
    ran(tree, "experiments/run", "--stale")
    assert not stale(tree)
    return tree


@pytest.fixture
def tree(recorded, tmp_path):
    """A copy, with the times of files, which ninja compares."""
    copy = tmp_path / "tree"
    shutil.copytree(recorded, copy)
    placed(copy)
    return copy


CORE = "src/core/base/a.c"


@pytest.mark.parametrize(
    ("path", "old", "new", "expected"),
    [
        (CORE, "/* One. */", "/* Another: \"x' */", []),
        (CORE, " // of both", "", []),
        (CORE, "return a + +b", "return  a\n\t\t+ +b", []),
        (CORE, "#define N 1", "#define N   1 /* one\n */", []),
        (CORE, "#define N 1", "#define N \\\n1", []),
        (CORE, "#define N 1", "#define N 2", EVERY),
        (CORE, "#define N 1\n", "#define N 1 ", EVERY),
        (CORE, "#define F (x)", "#define F(x)", EVERY),
        (CORE, "http://a", "http://b", EVERY),
        (CORE, "b  c", "b c", EVERY),
        (CORE, "+ +b", "++ b", EVERY),
        (CORE, "'c'", "' '", EVERY),
        ("simulator/sim/a.c", "return a", "return b", SIMULATED),
        ("simulator/cmd/lab.c", "return a", "return b", []),
        ("python/fanin/research/flow.py", "1", "2", SIMULATED),
        ("planner/plan/topo.c", "return a", "return b", EVERY),
        ("planner/plan/best.c", "return a", "return b", ["installs"]),
        ("experiments/all/settings.json", "64", "65", ["all"]),
        ("experiments/all/settings.json", "[1, 2]", "[\n1,2]", []),
        ("experiments/policies/jobs.json", "[]", "[1]", ["drops"]),
        ("experiments/all/run", '"One"', '"Two"', ["all"]),
        ("experiments/all/run", "import os, sys", "# Two.\n\nimport os, sys  # three", []),
        ("experiments/explib.py", "TIMEOUT_S = 3600", "TIMEOUT_S = 3601", SIMULATED),
        ("experiments/explib.py", '"""A run that failed; its', '"""Another; its\n\n   ', []),
        ("experiments/planlib.py", "TIMEOUT_S = 600", "TIMEOUT_S = 601", ["installs"]),
        ("experiments/pages.py", "import json", "import json as j", []),
    ],
)
def test_what_makes_a_record_stale(tree, path, old, new, expected):
    replace(tree / path, old, new)
    named = stale(tree)
    assert list(named) == expected
    for name, why in named.items():
        assert any(path.startswith(source.rstrip("*")) for source in why.split(", ")), name


def test_stale_records_exactly_those_anew(tree):
    replace(tree / "planner/plan/best.c", "return a", "return b")
    (tree / "experiments/all/result.json").write_text("{}", "utf-8")
    before = (tree / "experiments/drops/result.json").stat().st_mtime_ns
    told = ran(tree, "experiments/run", "--stale", "-j", "1")
    assert re.findall(r"^experiments/(\w+)/run .*-j 1$", told, re.M) == ["all", "installs"]
    assert (tree / "experiments/drops/result.json").stat().st_mtime_ns == before
    assert not stale(tree)
    assert "experiments/" not in ran(tree, "experiments/run", "--stale")


def test_results_of_stale_records_go_elsewhere(tree):
    replace(tree / "simulator/sim/a.c", "return a", "return b")
    ran(tree, "experiments/run", "--stale", "--out", str(tree / "made"))
    assert sorted(p.parent.name for p in tree.glob("made/*/result.json")) == SIMULATED
    assert list(stale(tree)) == SIMULATED


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"sources": "unknown"}, "of unknown sources"),
        ({"settings": {"quick": True}}, "parts were left out"),
        ({"skipped": ["fat-tree: no Mininet"]}, "parts were left out"),
    ],
)
def test_a_record_that_is_not_whole_is_stale(tree, change, why):
    path = tree / "experiments/all/result.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **change}), "utf-8")
    assert stale(tree) == {"all": why}


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", "{", "\udcff", '{"sources": {}}', '{"sources": "unknow"}',
     '{"sources": {"src/core": "0123456789ABCDEF"}}', '{"sources": {"src/core": 1}}',
     '{"sources": {"\\u001b[2J": "0123456789abcdef"}}'],
)  # fmt: skip
def test_a_record_that_does_not_say_its_code_is_a_fault(tree, text):
    path = tree / "experiments/all/result.json"
    path.write_text(text, "utf-8", "surrogateescape")
    assert list(stale(tree, rc=1)) == ["all"]


def test_a_program_that_may_be_of_other_sources_makes_a_stale_record(tree):
    replace(tree / CORE, "return a", "return b")
    assert "older than its sources" in ran(tree, "experiments/run", "--stale", rc=1)
    assert "stale" in ran(tree, "experiments/all/run")
    assert stale(tree)["all"] == "of unknown sources"
    ninja(tree)
    placed(tree, source=tree.parent)
    assert "built from" in ran(tree, "experiments/run", "--stale", rc=1)


def test_an_experiment_elsewhere_is_of_unknown_sources(tree):
    own = tree / "experiments/all/own"
    own.mkdir()
    (own / "run").write_text(SIMULATES.replace("dirname(HERE)", "dirname(os.path.dirname(HERE))"))
    assert "stale" not in ran(tree, "experiments/all/own/run", "--out", str(tree / "made"))
    assert json.loads((tree / "made/result.json").read_text("utf-8"))["sources"] == "unknown"


def test_a_source_that_is_not_there_is_a_fault(tree):
    shutil.rmtree(tree / "simulator" / "sim")
    assert all("simulator/sim: nothing is there" in why for why in stale(tree, rc=1).values())
