# SPDX-License-Identifier: Apache-2.0
"""Which code a record is of: result.json has a digest of each source that its figures depend on.

A digest covers a folder's C, Python, JSON and its script `run`, but not comments, docstrings, blank
lines, and in C and JSON no white space.  What only draws pages (page, pages.py) is no source.
"""

import ast
import functools
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNKNOWN = "unknown"  # in place of digests: an experiment elsewhere, or a program that may be of other sources
DIGITS = 16
FILES_MAX = 4096  # kept in memory
NINJA_TIMEOUT_S = 60
NEEDS_ROOT = ("lab",)

# Beside its own folder.  A source is a file, a folder, or a pattern of either.
SIMULATOR = ("src/core", "simulator/sim", "simulator/cmd/sim*", "python/fanin/research")
PLANNER = ("planner/plan", "planner/cmd/plan*", "experiments/planlib.py")
TOPOLOGY = ("planner/plan/topo*", "planner/plan/network.*", "planner/plan/sizes.h")
SIMULATED = (*SIMULATOR, *TOPOLOGY, "experiments/explib.py")
PLANNED = ("src/core/base", *PLANNER)
BOTH = (*SIMULATOR, *PLANNER, "experiments/simulate.py", "simulator/lab/layout.py")
SOURCES = {  # of all others: SIMULATED
    "drops": (*SIMULATED, "experiments/policies/jobs.json", "experiments/policies/one-each.json"),
    "helpers": (*SIMULATED, "experiments/policies/jobs.json", "experiments/policies/one-each.json"),
    "grid": (*BOTH, "experiments/lab/grid-example.json"),
    "inart": (*PLANNED, "experiments/lab/inart-example.json"),
    "installs": PLANNED,
    "simulated": (*BOTH, "experiments/grid/settings.json", "experiments/inart/settings.json"),
    "lab": ("src/core", "src/net", "src/lib", "src/cmd/bench", "planner", "simulator"),
}

LITERAL = r'"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\\n])*'"
COMMENT = re.compile(r"(%s)|//[^\n]*|/\*.*?\*/" % LITERAL, re.DOTALL)
TOKEN = re.compile(
    LITERAL
    + r"|\w+|\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|[-+*/%&|^<>=!]=|&&|\|\||##|\S"  # the longest first
)


class RecordError(Exception):
    """A record, or the table above, that is not as expected; its text says which and what was."""


def c_code(text):
    """Its tokens.  A directive is a line of its own, in which white space counts, but not how much."""
    text = COMMENT.sub(lambda found: found[1] or " ", text.replace("\\\n", ""))
    lines = []
    for line in text.split("\n"):
        if line.lstrip().startswith("#"):
            words = re.findall(r"%s|\S+?(?=[\"'\s]|$)|\s+" % LITERAL, line.strip())
            lines.append("\n" + "".join(" " if word.isspace() else word for word in words) + "\n")
        else:
            lines += TOKEN.findall(line)
    return "\n".join(lines)


def python_code(text):
    """Its lines, without comments, docstrings, and those that are empty then."""
    lines, gone = text.split("\n"), set()
    for node in ast.walk(ast.parse(text)):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            around = lines[value.lineno - 1][: value.col_offset] + lines[value.end_lineno - 1][value.end_col_offset :]  # fmt: skip
            if not around.strip():
                gone.update(range(value.lineno, value.end_lineno + 1))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        row, column = token.start
        if token.type == tokenize.COMMENT:
            lines[row - 1] = lines[row - 1][:column].rstrip()
        elif token.type == tokenize.NL and not lines[row - 1].strip():
            gone.add(row)
    return "\n".join(line for row, line in enumerate(lines, 1) if row not in gone)


def code_of(path):
    """What counts of a file: all of one that is not what its name says."""
    text = path.read_text("utf-8", "surrogateescape")
    try:
        if path.suffix == ".json":
            return json.dumps(json.loads(text))
        return c_code(text) if path.suffix in (".c", ".h") else python_code(text)
    except (ValueError, SyntaxError, tokenize.TokenError):
        return text


@functools.lru_cache(FILES_MAX)
def line_of(path):
    """Of a digest: the file's name, and what counts of it."""
    counted = hashlib.sha256(code_of(path).encode("utf-8", "surrogateescape"))
    return "%s %s\n" % (path.relative_to(ROOT), counted.hexdigest())


@functools.lru_cache(FILES_MAX)
def digest(source):
    found = sorted(ROOT.glob(source))
    files = [path for one in found for path in ([one] if one.is_file() else sorted(one.rglob("*")))]
    lines = [line_of(path) for path in files if path.name != "result.json"
             and (path.name == "run" or path.suffix in (".c", ".h", ".py", ".json"))]  # fmt: skip
    if not lines:
        raise RecordError("experiments/records.py: %s: nothing is there" % source)
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:DIGITS]


def sources(name):
    """{source: digest} of what the figures of experiments/NAME depend on."""
    return {s: digest(s) for s in (*SOURCES.get(name, SIMULATED), "experiments/" + name)}


def unbuilt(build):
    """Why programs in the folder `build` are not known to be of these sources; None if they are."""
    try:
        info = Path(build, "meson-info", "meson-info.json").read_text("utf-8")
        source = json.loads(info)["directories"]["source"]
        if not os.path.samefile(source, ROOT):
            return "%s: built from %s" % (build, source)
        told = subprocess.run(["ninja", "-C", build, "-n"], capture_output=True, text=True,
                              check=False, timeout=NINJA_TIMEOUT_S)  # fmt: skip
    except (OSError, ValueError, LookupError, TypeError, subprocess.TimeoutExpired) as error:
        return "%s: %s" % (build, error)
    if "no work to do" in told.stdout:
        return None
    return "%s: older than its sources; `ninja -C %s` first" % (build, build)


def code(name, build):
    """What a record says of its code, to be asked before results are written: they are tracked files."""
    own = (ROOT / "experiments" / name).is_dir()
    why = own and unbuilt(build)
    if why:
        print("This will count as stale: %s" % why, file=sys.stderr)
    return {"revision": revision(), "sources": sources(name) if own and not why else UNKNOWN}


def revision():
    """The commit, with -dirty when tracked files differ from it; None outside git."""

    def git(*argv):
        return subprocess.run(("git", "-C", ROOT) + argv, capture_output=True, text=True,
                              check=False, timeout=30)  # fmt: skip

    try:
        head = git("rev-parse", "--verify", "-q", "HEAD")
        if head.returncode != 0:
            return None
        dirty = git("status", "--porcelain", "-uno").stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    return head.stdout.strip() + ("-dirty" if dirty else "")


def stale(name):
    """Why the record of experiments/NAME is not of this code: sources that differ, or a reason; "" if it is."""
    now, path = sources(name), ROOT / "experiments" / name / "result.json"
    if not path.exists():
        return "never recorded"
    try:
        result = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise RecordError("experiments/%s/result.json: %s" % (name, error)) from None
    result = result if isinstance(result, dict) else {}
    told, settings = result.get("sources"), result.get("settings")
    if told == UNKNOWN:
        return "of unknown sources"
    if not told or not isinstance(told, dict) or not all(
        re.fullmatch(r"[\w./*-]+ [0-9a-f]{%d}" % DIGITS, "%s %s" % one) for one in told.items()
    ):  # fmt: skip
        raise RecordError(
            'experiments/%s/result.json: "sources": expected "%s", or of each source a digest of %d hexadecimal digits'
            % (name, UNKNOWN, DIGITS)
        )
    if result.get("skipped") or isinstance(settings, dict) and settings.get("quick"):
        return "parts were left out"
    return ", ".join(s for s in {**now, **told} if now.get(s) != told.get(s))


def states():
    """Of each experiment its name, why its record is stale or "", and whether that is a fault of the record."""
    for path in sorted(ROOT.glob("experiments/*/run")):
        name = path.parent.name
        try:
            yield name, stale(name), False
        except RecordError as error:
            yield name, str(error), True


def check():
    """Print a line for each record that is not of this code, then one for all; 1: one has a fault."""
    found = list(states())
    for name, why, fault in found:
        if why:
            print(why if fault else "experiments/%s/result.json: stale: %s" % (name, why))
    old = [name for name, why, _ in found if why]
    print("%d records, %d stale%s" % (len(found), len(old), ": " + " ".join(old) if old else ""))
    return int(any(fault for _, _, fault in found))
