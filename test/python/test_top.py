# SPDX-License-Identifier: Apache-2.0
"""python/fanin/operate/top: status files, hostile ones too, tables, and what switches say."""

import io
import json
import os
import pty
import random
import re
import select
import stat
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import BUILD, ROOT, WAIT_S, ranks

from fanin.operate import shape
from fanin.operate.top import cells, here, history, query, status, switches

FILES = 2000  # hostile ones, of a seeded generator
NOBODY = 65534


def life(pid):
    """The name of a process's status file."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        start = file.read().rpartition(b")")[2].split()[19].decode()
    return f"{pid}-{start}-{os.stat('/proc/self/ns/pid').st_ino}"


def process(**more):
    rank = {"job": "j", "rank": 0, "ranks": 2, "state": "idle"}
    return {"version": 1, "pid": os.getpid(), "program": "p", "more": 0, "ranks": [rank], **more}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of status files that is the only one; its path."""
    path = tmp_path / "fanin"
    path.mkdir(mode=0o700)
    monkeypatch.setattr(status, "_paths", lambda uid: [(str(path), None)])
    monkeypatch.setattr(status, "WAIT_S", 0.2)
    monkeypatch.setattr(status, "FRESH_S", 1e6)  # however slow the machine is
    return path


def collect():
    found = status.collect()
    return found["ranks"], found["silent"]


# ---- files ----


def test_a_file_of_this_user_is_believed(folder):
    (folder / life(os.getpid())).write_text(json.dumps(process()))
    (rank,), silent = collect()
    assert not silent and (rank["job"], rank["pid"], rank["uid"]) == (
        "j",
        os.getpid(),
        os.geteuid(),
    )
    assert rank["missing"] == [] and rank["stats"]["retransmits"] == 0 and "of" not in rank


def test_a_process_that_has_ended_is_not_shown_and_its_file_goes(folder):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name, reused = life(child.pid), f"{os.getpid()}-1-{os.stat('/proc/self/ns/pid').st_ino}"
    child.kill()
    child.wait()
    for left in (name, reused, "7-7-7", f"{name}.new"):
        (folder / left).write_text(json.dumps(process()))
        os.utime(folder / left, (1, 1))
    assert collect() == ([], []) and not list(folder.iterdir())


def test_one_of_another_namespace_is_shown_while_it_writes(folder):
    (folder / "7-7-7").write_text(json.dumps(process()))
    (rank,), silent = collect()
    assert rank["pid"] == os.getpid() and not silent


def test_a_process_that_does_not_write_is_named(folder):
    path = folder / life(os.getpid())
    path.write_text(json.dumps(process()))
    os.utime(path, (1, 1))
    assert collect() == ([], [os.getpid()])


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "long", "empty", "cut", "deep", "dir"])
def test_what_is_no_whole_regular_file_is_passed_over(folder, tmp_path, kind):
    path, good = folder / life(os.getpid()), tmp_path / "good"
    good.write_text(json.dumps(process()))
    if kind == "link":
        path.symlink_to(good)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "dir":  # the folder itself is a link
        (tmp_path / "there").mkdir()
        (tmp_path / "there" / path.name).write_text(good.read_text())
        folder.rmdir()
        folder.symlink_to(tmp_path / "there")
    else:
        text = good.read_text()
        texts = {
            "long": text + " " * status.FILE_BYTES,
            "empty": "",
            "cut": text[:-1],
            "deep": "[" * 100000 + text,
        }
        path.write_text(texts[kind])
    os.utime(path, follow_symlinks=False) if path.exists() else None
    assert collect()[0] == []


def test_a_folder_that_others_may_write_is_passed_over(folder):
    (folder / life(os.getpid())).write_text(json.dumps(process()))
    folder.chmod(0o777)
    assert collect() == ([], [])


def test_a_process_that_nobody_has_waited_for_is_no_silent_one(folder):
    child = os.posix_spawn("/bin/true", ["true"], {})
    path = folder / life(child)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    path.write_text(json.dumps(process(pid=child)))
    os.utime(path, (0, 0))
    found = collect()
    os.waitpid(child, 0)
    assert found == ([], []) and not path.exists()


def test_ranks_are_shown_where_no_aggregator_can_be_asked(folder, monkeypatch):
    place = {"at": "127.0.0.1:9", "job": "j"}
    (rank,) = process()["ranks"]
    parts = [{"aggregator": place["at"], "inside": 0}]
    waits = {**rank, "state": "waits", "places": [place], "parts": parts}
    (folder / life(os.getpid())).write_text(json.dumps(process(ranks=[waits])))
    for path in ("/dev/null/fanin", "/bin/false"):
        monkeypatch.setenv("FANIN", path)
        found = here.collect("j", all_hosts=True)
        assert [r["state"] for r in found["ranks"]] == ["waits"] and "waits" in str(
            here.lines(found)
        )
        assert [(a["at"], a["answers"]) for a in found["aggregators"]] == [(place["at"], False)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes other users' files")
def test_root_believes_each_user_for_its_own_files_alone(tmp_path, monkeypatch):
    own, other = tmp_path / "own", tmp_path / "other"
    for path, uid in ((own, 0), (other, NOBODY)):
        path.mkdir(mode=0o700)
        os.chown(path, uid, uid)
        for name, owner in ((life(os.getpid()), uid), (life(os.getppid()), NOBODY - uid)):
            (path / name).write_text(json.dumps(process(program=f"{uid} {owner}")))
            os.chown(path / name, owner, owner)
    paths = [(str(own), 0), (str(other), NOBODY), (str(other), 12345)]
    monkeypatch.setattr(status, "_paths", lambda uid: paths)
    assert sorted((r["uid"], r["program"]) for r in collect()[0]) == [
        (0, "0 0"),
        (NOBODY, f"{NOBODY} {NOBODY}"),
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees all users' folders")
def test_root_finds_the_folders_of_all_users():
    path = f"/tmp/fanin-{NOBODY - 1}"
    os.mkdir(path, 0o700)
    try:
        os.chown(path, NOBODY - 1, NOBODY - 1)
        found = status.folders()
        assert NOBODY - 1 in [one.uid for one in found]
        for one in found:
            os.close(one.fd)
    finally:
        os.rmdir(path)


class Hostile:
    """Values of any type, size and depth, more often than not near what is expected."""

    TEXTS = ["waits", "works", "\x1b[31m\x07", "a\nb\r", "\u202e\u009b", "\ud800", "x" * 5000, ""]
    NUMBERS = [
        0,
        -1,
        1 << 63,
        10**40,
        1e306,
        -1.7e306,
        0.5,
        float("inf"),
        float("nan"),
        True,
        70000,
    ]

    def __init__(self, seed):
        self.random = random.Random(seed)

    def any(self, depth=0):
        pick = self.random.randrange(7 if depth < 6 else 3)
        if pick == 0:
            return self.random.choice(self.NUMBERS)
        if pick == 1:
            return self.random.choice(self.TEXTS)
        if pick == 2:
            return None
        if pick == 3:
            return [self.any(depth + 1) for _ in range(self.random.randrange(4))]
        keys = self.random.choices([*shape.RANK, "share", "at", "kind", "x"], k=4)
        return {key: self.any(depth + 1) for key in keys}

    def of(self, form):
        """Mostly what the shape says, with a wrong value here and there."""
        if self.random.random() < 0.02:
            return self.any()
        if form is True:
            return self.random.random() < 0.5
        if isinstance(form, int):
            return self.random.choice(self.TEXTS)
        if isinstance(form, tuple):
            return form[self.random.randrange(2)]
        if isinstance(form, list):
            return [self.of(form[0]) for _ in range(self.random.randrange(4))]
        return {
            key.rstrip("?"): self.of(one) for key, one in form.items() if self.random.random() < 0.9
        }


def test_no_file_breaks_the_reader(folder):
    """Of whatever is written in a file, the reader takes all or nothing, and prints plain text."""
    name, taken = life(os.getpid()), 0
    for seed in range(FILES):
        hostile = Hostile(seed)
        text = json.dumps(hostile.any() if seed % 4 == 0 else hostile.of(shape.PROCESS))
        if seed % 5 == 0:
            text = text[: hostile.random.randrange(len(text) + 1)]
        (folder / name).write_text(text)
        found = status.collect()
        assert not found["silent"] or not text  # an empty one is not written yet
        taken += bool(found["ranks"])
        printed = "\n".join(here.lines(found))
        assert all(c.isprintable() or c == "\n" for c in printed)
        line = json.dumps(found).encode()
        assert shape.load(line, shape.TOLD)["ranks"] == found["ranks"]
    assert FILES / 20 < taken < FILES


@pytest.mark.parametrize("text", ["1" * 100000, "-Infinity", '{"rank": 1.5}', '{"job": 7}', "\xff"])
def test_odd_numbers_and_texts_are_refused(text):
    with pytest.raises(shape.Bad):
        shape.load(text.encode("latin-1"), {"rank": (0, 9), "job": 9})


def test_what_must_be_there_and_functions():
    with pytest.raises(shape.Bad):
        shape.load(b'{"b": 1}', {"a!": shape.COUNT})
    of = {"a!": shape.COUNT, "b": lambda value: [value], "c?": lambda value: [value]}
    assert shape.load(b'{"a": 7}', of) == {"a": 7, "b": [None]}
    assert shape.load(b'{"a": 7, "b": 1, "c": 2}', of) == {"a": 7, "b": [1], "c": [2]}
    assert shape.load(b'{"a": ["x\\u001b[2J"]}') == {"a": ["x?[2J"]}  # of a child of its own


# ---- processes ----


def test_ranks_of_several_users_and_without_a_runtime_folder(switch, job, monkeypatch, tmp_path):
    """The folder is in XDG_RUNTIME_DIR where that is this user's, in /tmp where nothing else is."""
    parents = [tmp_path, tmp_path / "missing"]
    if os.geteuid() == 0:
        parents.append(tmp_path / "foreign")
        parents[2].mkdir()
        os.chown(parents[2], NOBODY, NOBODY)
    for parent in parents:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(parent))

        def work(comm):
            comm.barrier()
            found = here.collect()
            comm.barrier()
            return [r["pid"] for r in found["ranks"] if r["job"] == job]

        for pids in ranks(2, work, switch=switch, job=job):
            assert pids == [os.getpid()] * 2
        assert (parent / "fanin").exists() == (parent == tmp_path)
    left = [n for n in os.listdir(tmp_path / "fanin") if n != "watch"]
    assert left == [] and stat.S_IMODE((tmp_path / "fanin").stat().st_mode) == 0o700


def fanin(*arguments, text=None, **more):
    return subprocess.run(
        [str(BUILD / "fanin"), *arguments], input=text, capture_output=True, text=True,
        timeout=WAIT_S, check=False, **more
    )  # fmt: skip


def test_top_shows_jobs_of_switches_ranks_here_and_a_page(switch, own_switch, job, tmp_path):
    def work(comm):
        comm.allreduce(np.ones(100000, np.float32))
        if comm.rank:
            comm.barrier()
            return None
        both = f"{switch},{own_switch.address}"
        files = [f"--json={tmp_path}/t.json", f"--page={tmp_path}/t.html"]
        said = (
            fanin("top", "--once", "--switch", both, *files),
            fanin("top", "--once", "--here", "--switch", switch, "--json", "-"),
            fanin("top", "--once", "--job", job, "--all-hosts"),
        )
        comm.barrier()
        return said

    told = ranks(2, work, switch=f"{switch},{own_switch.address}", job=job)
    table, merged, everywhere = next(one for one in told if one)
    assert re.search(rf"^0 +{job} +ready +2 ", merged.stdout + table.stdout, re.M), table
    assert f"shares of {job}: {switch} " in table.stdout
    read = json.loads((tmp_path / "t.json").read_text())
    (shares,) = [s["shares"] for s in read["shares"] if s["name"] == job]
    assert sum(one["share"] for one in shares) == pytest.approx(1)
    assert {one["switch"] for one in read["jobs"]} == {switch, own_switch.address}
    page = (tmp_path / "t.html").read_text()
    assert f"shares of {job}" in page and "<script" not in page and "refresh" not in page
    found = json.loads(merged.stdout)
    assert {r["rank"] for r in found["here"]["ranks"] if r["job"] == job} == {0, 1}
    assert "AGGREGATOR" in everywhere.stdout and own_switch.address in everywhere.stdout


def test_top_draws_on_a_terminal_until_q(own_switch):
    main, other = pty.openpty()
    top = subprocess.Popen(
        [str(BUILD / "fanin"), "top", "--switch", own_switch.address],
        stdin=other, stdout=other, stderr=other,
    )  # fmt: skip
    os.close(other)
    seen, until = b"", time.monotonic() + WAIT_S
    while b"no jobs" not in seen and time.monotonic() < until:
        if select.select([main], [], [], 1)[0]:
            seen += os.read(main, 4096)
    for key in (b"\x1b[A", b"\r", b"s", b"r", b"q"):
        os.write(main, key)
    assert top.wait(WAIT_S) == 0
    os.close(main)
    assert b"fanin top: switch " in seen and b"0 jobs by rate" in seen


@pytest.mark.parametrize(
    "arguments, says",
    [
        (("ps", "--all-hosts"), "--all-hosts: expected --job JOB"),
        (("top", "--prometheus", "f"), "use fanin switch --metrics"),
        (("top", "--switch", "h:1,h:1"), "named twice"),
        (("top", "--switch", "h:1", "--controller", "x"), "or --controller PATH"),
    ],
)
def test_options_that_do_not_go_together_are_named(arguments, says):
    done = fanin(*arguments)
    assert done.returncode == 2 and says in done.stderr


def test_silence_is_named():
    for arguments, says in (
        (("--switch", "127.0.0.1:1"), "nothing listens there"),
        (("--controller", "/nowhere"), "does a controller run there"),
    ):
        done = fanin("top", "--once", *arguments)
        assert done.returncode == 1 and says in done.stderr


# ---- several hosts ----


def test_lines_of_several_hosts_are_merged():
    lines = [
        f'h{i}: {{"host": "h{i}", "silent": [{i}], "ranks": [{{"job": "j", "rank": {i}, "ranks": 2, '
        f'"state": "waits", "waited_s": {i}, "missing": [0]}}]}}'
        for i in (1, 2)
    ]
    done = fanin("ps", "--merge", text="\n".join(lines) + "\n")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["HOST", "h2", "h1", "process", "process"]
    for text in ("{}x", '{"ranks": 7}', "junk"):
        done = fanin("ps", "--merge", text=text)
        assert done.returncode == 1 and "expected a line of `fanin ps --json`" in done.stderr


# ---- cells ----


def test_cells():
    assert [cells.of_bytes(n) for n in (0, 999, 4000, 999600, 25e9)] == [
        "0 B", "999 B", "4.0 kB", "1.0 MB", "25 GB",
    ]  # fmt: skip
    assert [cells.of_time(s) for s in (0.0124, 3.14, 100)] == ["12 ms", "3.1 s", "100 s"]
    assert cells.of_set([7, 0, 1, 2, 5]) == "0-2,5,7" and cells.of_set([]) == "none"
    assert cells.of_ranks([3], True) == "host of rank 3"


def job_of(name, results, at="a", **more):
    job = dict.fromkeys(["replays", "waiting", "operations", "window", "shard"], 0)
    job |= {"name": name, "results": results, "ranks": 2, "state": "ready", "missing": []}
    return {"at": at, "error": "", "jobs": [{**job, **more}], "slots": [], "ranks": []}


def test_shares_are_of_what_was_finished_since_the_last_answers():
    shares = switches.Shares()
    shares.take([job_of("j", 100), job_of("j/1", 300, "b")])
    (job,) = shares.take([job_of("j", 110), job_of("j/1", 330, "b")])
    assert job["name"] == "j" and [s["share"] for s in job["shares"]] == [0.25, 0.75]
    assert shares.take([job_of("j", 110), job_of("j/1", 330, "b")]) == []
    (job,) = shares.take([job_of("j", 7), job_of("j/1", 330, "b")])  # begun anew
    assert [s["share"] for s in job["shares"]] == [1, 0]


def test_a_job_that_stands_still_waits():
    rates = switches.Rates()
    (row,) = rates.take(job_of("j", 100, waiting=1, oldest=5), 10)
    assert row["state"] == "ready" and row["rate"] == 0
    (row,) = rates.take(job_of("j", 150, waiting=1, oldest=9), 12)
    assert row["state"] == "ready" and row["rate"] == 25
    (row,) = rates.take(job_of("j", 150, waiting=1, oldest=9), 13)
    assert row["state"] == "waits" and row["age_s"] == 1


def test_a_history_is_bounded():
    kept = history.History("results/s", str)
    for look in range(2 * history.LOOKS):
        kept.take({f"j{job}": look for job in range(2 * history.JOBS_MAX)})
    assert len(kept.told()) == history.JOBS_MAX
    assert kept.of("j0") == list(range(history.LOOKS, 2 * history.LOOKS))
    kept.take({"new": 1.0})
    assert [job["job"] for job in kept.told()] == ["new"] and kept.lines(1) == []


def test_a_history_is_drawn(monkeypatch):
    for encoding, line in (("utf-8", "▁▂▅█"), ("ascii", "_.=#")):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding))
        assert history.drawn([0, 0.1, 5, 10]) == line
    assert history.drawn([0, 0]) == "__" and history.drawn([]) == ""
    assert all(history.drawn([1 / n]) == "#" for n in range(1, 1000))


def values(found, job, unit):
    """The history of a job."""
    told = [one for one in found["history"] if one["job"] == job]
    assert {one["unit"] for one in told} <= {unit}
    return [value for one in told for value in one["values"]]


def test_top_keeps_the_rates_of_each_job(own_switch, job):
    def work(comm):
        if comm.rank:
            comm.barrier()
            return None
        flags = ["--here", "--job", job, "--switch", own_switch.address, "--json=-"]
        command, text = [str(BUILD / "fanin"), "top", *flags], ""
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        ) as top:
            for line in top.stdout:
                text += line
                if line == "}\n":
                    read, text = json.loads(text), ""
                    if len(values(read, job, "results/s")) > 1:
                        top.terminate()
                        break
        comm.barrier()
        return read

    (read,) = filter(None, ranks(2, work, switch=own_switch.address, job=job))
    assert len(values(read["here"], job, "B/s")) > 1
    kept = history.History("results/s", "{:.0f}/s".format)
    kept.take({job: 5})
    kept.take({job: 10})
    assert [line.split()[:3] for line in kept.lines(1)[2:]] == [[job, "10/s", "10/s"]]


def test_helpers_of_a_slow_rank_are_named():
    team = [
        {"rank": r, "deferred": 100, "helps": {"9": n}}
        for r, n in enumerate((30, 41, 0, 7, 5, 2, 1))
    ]
    told = switches.helped_by({"rank": 9, "deferred": 100}, team)
    assert told == "1 41%, 0 30%, 3 7%, 4 5%, 2 more 3%, server 14%"


def test_names_are_not_looked_up_because_a_process_says_so():
    assert query.is_address("10.0.0.1:7") and query.is_address("[fe80::1%eth0]:7")
    assert not any(map(query.is_address, ("host:7", "10.0.0.1", "--version", "1.2.3.4:7,x", "")))


def test_the_module_runs_by_its_name():
    done = subprocess.run(
        [sys.executable, "-m", "fanin.operate", "top", "--once"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "FANIN": str(BUILD / "fanin")},
        check=True, timeout=WAIT_S,
    )  # fmt: skip
    assert done.stdout.startswith("fanin top: ranks of this host")
