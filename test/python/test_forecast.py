# SPDX-License-Identifier: Apache-2.0
"""python/fanin/operate/forecast: the arithmetic, in tensors over one link as the table in
doc/deploy.md has them; what `fanin probe` prints; what is printed."""

import itertools
import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import probe_lines
import pytest
from conftest import BUILD, ROOT, WAIT_S

from fanin.operate.forecast import findings, gains, measured, model, probe
from fanin.operate.shape import Bad

MBPS = 200.0
PAYLOAD = 1408
BYTES = 8 << 20


def net(hosts, ranks=1, switches=0, **more):
    """A network whose links are all alike, whose hosts sum, and whose ranks share memory."""
    of = model.Net(
        ranks=[ranks] * hosts,
        host_mbps=[MBPS] * hosts,
        switch_mbps=[MBPS] * switches,
        switch_rail=[0] * switches,
        sums=[True] * hosts,
        shares_memory=True,
    )
    return replace(of, **more)


def nobody(hosts):
    return [False] * hosts


def tensors(of):
    """The time of an all-reduce, in tensors over a link of MBPS."""
    f = model.forecast(of, BYTES)
    if f.ns > 0:
        assert sum(f.host_share) + sum(f.switch_share) == pytest.approx(1, abs=1e-6)
    return f.ns / (BYTES * (PAYLOAD + 78) / PAYLOAD * 8e3 / MBPS)


def ring(of):
    return model.forecast(of, BYTES).ring_ns / (BYTES * 1514 / 1448 * 8e3 / MBPS)


def gained(of, word, names=None):
    """How many times as fast with the change whose words have `word`, and these; 0: not named."""
    now = model.forecast(of, BYTES)
    job = names or gains.Job(
        first=list(range(len(of.ranks))),
        switches=[f"s{k}" for k in range(len(of.switch_mbps))],
        jumbo_payload=8832,
        least_mtu=1500,
    )
    found = gains.gains(of, job, now, BYTES)
    times = [ns for ns, _ in found]
    assert times == sorted(times) and all(ns * gains.GAIN <= now.ns for ns in times)
    return next(((now.ns / ns, what) for ns, what in found if word in what), (0, ""))


def near(value):
    return pytest.approx(value, rel=1e-6)


# ---- the arithmetic ----


def test_each_host_sums_a_part():
    for hosts, ranks in itertools.product((2, 4, 8, 16, 32, 64), (1, 2, 4, 8)):
        of = net(hosts, ranks)
        assert tensors(of) == near(2 * (hosts - 1) / hosts)
        assert ring(of) == near(2 * (hosts * ranks - 1) / (hosts * ranks))


def test_spare_machines_and_hosts_share():
    for n in range(3, 17):
        for k in range(1, n + 1):
            assert tensors(net(n, 1, k)) == near(2 * n * (n - 1) / (n * n + k * n - 2 * k))
    f = model.forecast(net(4, 1, 1), BYTES)
    assert f.switch_share[0] == near(1 / 3) and f.host_share[3] == near(1 / 6)


def test_switches_alone():
    assert tensors(net(4, 1, 1, sums=nobody(4))) == near(4)
    assert tensors(net(4, 1, 4, sums=nobody(4))) == near(1)
    assert tensors(net(8, 1, 1, sums=nobody(8), switch_mbps=[8 * MBPS])) == near(1)


def test_each_rank_for_itself_sends_a_stream():
    of = net(4, 4, 1, shares_memory=False, sums=nobody(4))
    assert tensors(replace(of, switch_mbps=[4 * MBPS])) == near(4)
    assert tensors(of) == near(16)
    assert tensors(replace(of, sums=[True] * 4)) == near(16 / 3)  # 16 f = 4 + 8 g, f + 4 g = 1
    assert tensors(net(1, 4, 1, shares_memory=False, sums=[False])) == near(4)  # nobody else
    of = replace(net(2, 1, 1, shares_memory=False, sums=nobody(2)), ranks=[5, 1])
    assert tensors(of) == near(6)  # most of the streams are of host 0


def test_a_host_with_most_of_the_streams_sums_more():
    """It sums little itself: 5 (1 - g) + g of its link, 1 + 4 (1 - g) of the other's."""
    of = replace(net(2, shares_memory=False), ranks=[5, 1])
    assert tensors(of) == near(1) and model.forecast(of, BYTES).host_share[0] == near(1)


def test_a_host_without_an_aggregator_sums_nothing():
    of = net(4, sums=[True, True, False, True])
    assert tensors(of) == near(1 + 2 / 3) and model.forecast(of, BYTES).host_share[2] == 0


def test_a_narrow_link_decides():
    of = net(4, host_mbps=[MBPS] * 3 + [MBPS / 4])
    assert tensors(of) == near(4)  # it sends its tensor, and sums nothing
    assert model.forecast(of, BYTES).host_share[3] < 1e-6 and ring(of) == near(4 * 1.5)
    of = net(4, 1, 4, switch_mbps=[MBPS, MBPS, MBPS / 4, MBPS])
    assert tensors(of) == near(3 / (3.25 / 4 + 2))  # t = 1 + 2 g, 3 t / 4 + t / 16 + 4 g = 1


def test_further_networks_carry_shares():
    of = net(4, rail_mbps=[[MBPS] * 4])
    assert tensors(of) == near(0.75) and ring(of) == near(1.5)  # a ring by the first one
    of = net(4, rail_mbps=[[MBPS] * 4, [MBPS / 2] * 4])
    assert tensors(of) == near(0.6)
    of = net(4, 1, 1, switch_mbps=[model.WIDE_MBPS], rail_mbps=[[MBPS] * 4])
    assert tensors(of) == near(0.6)  # it has no port in the second one
    assert gained(of, "4 spare machines with")[0] == near(0.6 / 0.5)
    assert tensors(replace(of, sums=nobody(4))) == near(1)
    of = net(4, 1, 2, rail_mbps=[[MBPS] * 4], switch_rail=[0, 1])
    assert tensors(replace(of, switch_mbps=[model.WIDE_MBPS] * 2)) == near(0.5)
    assert tensors(replace(of, switch_mbps=[model.WIDE_MBPS, MBPS])) == near(1 / 1.75)


def test_one_host_has_no_link():
    f = model.forecast(net(1, 8), BYTES)
    assert f.ns == f.ring_ns == 0 and gained(net(1, 8), "") == (0, "")


def test_round_trips_and_windows_count():
    idle, of = model.forecast(net(4), 1024), net(4, rtt_ns=1e6)
    far = model.forecast(of, 1024)
    assert far.ns - idle.ns == near(1e6) and far.ring_ns - idle.ring_ns == near(3e6)
    assert not far.by_window
    f = model.forecast(replace(of, window_bytes=256.0), 1024)  # 3 / 4 of it leave each host
    assert f.by_window and f.ns == near(4e6)
    of = replace(of, window_bytes=256.0)
    without = model.forecast(replace(of, window_bytes=0.0), BYTES).ns
    by = model.forecast(of, BYTES).ns / without
    assert gained(of, "larger socket buffers")[0] == near(by) and by > 40


def test_gains_and_how_to_have_them():
    of = net(4, 1, 1)
    by, what = gained(of, "one more spare machine, link 200 Mb/s")
    assert by == near(4 / 3 / (24 / (16 + 8 - 4))) and "FANIN_SWITCH" in what
    assert gained(of, "4 spare machines with such links, or one")[0] == near(4 / 3)
    by, what = gained(of, "jumbo frames: as root, on all links, ip link")
    assert 1.03 < by < 1.06 and what.endswith("and fanin switch --mtu 9000")
    jumbo = gains.Job([0] * 4, ["s0"], 8832, 9000)
    assert gained(of, "jumbo frames: export FANIN_MTU=9000", jumbo)[0] == by
    assert gained(of, "share memory") == gained(of, "as wide as the others'") == (0, "")
    narrow = replace(of, host_mbps=[MBPS, MBPS, MBPS / 2, MBPS])
    assert gained(narrow, "at the host of rank 2, which has 100 Mb/s")[0] > 1.2
    assert gained(net(4, 4, 1, shares_memory=False), "FANIN_LOCAL=1")[0] == near(4)
    of = net(8, 1, 1, sums=nobody(8))
    assert gained(of, "unset FANIN_HOSTS")[0] == near(8 / 1.6)
    assert gained(of, "a link of 400 Mb/s at switch s0")[0] == near(2)
    of = replace(of, switch_mbps=[8 * MBPS])
    assert gained(of, "spare machine") == (0, "")  # the box has a link for each host


# ---- what is measured ----


def links(hosts=3, switches=(), rails=None, **more):
    """What the probe prints of hosts whose streams have 1,000 frames a second."""
    shifts = [1, 2][: hosts - 1]
    streams = [{"shift": shift, "per_s": [1000] * hosts} for shift in shifts]
    return {
        "payload": PAYLOAD,
        "answer": 16,
        "headers": 78,
        "rtt_us": [0, 300, 200][:hosts],
        "mtu": [9000, 1500, 9000][:hosts],
        "hosts": [{"first": 2 * h, "ranks": 2} for h in range(hosts)],
        "rails": [streams] if rails is None else rails,
        "switches": [
            {"at": f"s{k}", "rail": 0, "per_s": [rate] * hosts} for k, rate in enumerate(switches)
        ],
        **more,
    }


def mbps(frames, acks=0):
    return (frames * (PAYLOAD + 78) + acks * (16 + 78)) * 8e-6


def test_a_host_has_the_rate_of_its_narrower_direction():
    there = {"shift": 1, "per_s": [1000, 400, 1000]}  # to the next host
    back = {"shift": 2, "per_s": [300, 1000, 0]}  # to the one before
    job, (found,) = measured.job(links(rails=[[there, back]]), BYTES)
    assert job.net.host_mbps == [
        near(mbps(1000, 1000)),  # both directions of the first
        near(mbps(1000)),  # sends as much back, unanswered
        near(mbps(400, 1000)),  # gets no more
    ]
    assert job.links_known and job.net.rtt_ns == 3e5 and job.named.least_mtu == 1500
    assert found.status == "ok" and found.values["host_mbps"] == job.net.host_mbps


def test_a_host_that_was_not_measured_has_the_usual_rate():
    streams = [{"shift": 1, "per_s": [1000, 0, 0]}, {"shift": 2, "per_s": [0, 1000, 0]}]
    job, _ = measured.job(links(rails=[streams]), BYTES)
    assert job.links_known and job.net.host_mbps[2] == job.net.host_mbps[0]
    silent = [{"shift": 1, "per_s": [0, 0, 0]}]
    job, (found,) = measured.job(links(rails=[silent]), BYTES)
    assert not job.links_known and (found.status, found.found) == (
        "skip",
        "no host answers another",
    )


def test_a_switch_as_wide_as_all_hosts_never_decides():
    job, (found,) = measured.job(links(switches=(1000, 500)), BYTES)
    assert job.net.switch_mbps == [model.WIDE_MBPS, near(3 * mbps(500))]
    assert "; switch s0 as much as all hosts; switch s1 18" in found.found
    assert found.values["switch_mbps"] == [None, near(3 * mbps(500))]


def test_a_silent_switch_fails_and_nothing_is_forecast():
    said = links(switches=(1000,))
    said["switches"][0]["per_s"][1] = 0
    job, (found,) = measured.job(said, BYTES)
    assert found.status == "FAIL" and found.found == "switch s0 does not answer the host of rank 2"
    measured.summing(job, counted([True] * 3))
    assert measured.foresee(job) is None


def counted(sums, **more):
    return {
        "shares_memory": True,
        "payload": PAYLOAD,
        "jumbo_payload": 8832,
        "window_bytes": 0.0,
        "sums": sums,
        **more,
    }


@pytest.mark.parametrize(
    "hosts, switches, sums, memory, text",
    [
        (3, (), [True, True, False], False, "no switch is named: 2 of 3 hosts sum"),
        (3, (9, 9), [True] * 3, True, "; 2 named switches and 3 hosts sum"),
        (3, (9,), [False] * 3, False, "1 named switch sums"),
        (1, (), [True], True, "share memory: nothing is sent"),
        (1, (), [True], False, "rank 0 sums, over loopback"),
    ],
)
def test_who_sums_is_told_in_words(hosts, switches, sums, memory, text):
    job, _ = measured.job(links(hosts, switches), BYTES)
    found = measured.summing(job, counted(sums, shares_memory=memory))
    assert found.found.endswith(text) and found.values["switches"] == len(switches)
    assert bool(found.advice) == (hosts == 1 and not memory)


def test_the_forecast_and_what_shortens_it_are_told():
    job, _ = measured.job(links(), BYTES)
    measured.summing(job, counted([True] * 3))
    found = measured.foresee(job)
    assert found.found.startswith("8 MiB float32: ") and "over 6 ranks" in found.found
    assert found.values["by_ring"] == found.values["ring_ms"] / found.values["ms"]
    assert any("one more spare machine" in advice for advice in found.advice)
    assert sum(found.values["host_shares"]) == near(1)


def test_all_reduces_beside_their_forecast():
    of = model.Forecast(5e6, 0.0, False, [], [])
    took = [90000000, 80000000, 9000000, 10000000, 11000000]
    said = {"took_ns": took, "wrong": 0, "settled": True}
    found = measured.proof(of, said, BYTES)
    assert (found.status, found.values["ms"]) == ("ok", 10.0)  # of the second half
    assert found.found == "5 of 8 MiB took 10 ms, 2.00 of the forecast, 0 elements wrong"
    of.ns = 4.9e6
    assert measured.proof(of, said, BYTES).status == "warn"
    slow = measured.proof(of, {**said, "settled": False}, BYTES)
    assert "more time to learn shares" in slow.advice[0]
    assert measured.proof(None, said, BYTES).status == "ok"  # there was no forecast
    assert measured.proof(None, {**said, "wrong": 7}, BYTES).status == "FAIL"


def test_alone_the_rates_to_switches_are_told():
    said = {"payload": PAYLOAD, "headers": 78, "switches": [{"at": "s0", "per_s": 1000.0}]}
    (found,) = measured.alone(said, has_ranks=True)
    assert found.found == "Mb/s to the switch and back: s0 12" and "torchrun" in found.advice[0]
    said["switches"].append({"at": "s1", "per_s": 0.0})
    fails, found = measured.alone(said, has_ranks=False)
    assert fails.status == "FAIL" and not found.advice


# ---- findings ----


def finding(status, text):
    return findings.Finding("name", status, text)


def test_the_verdict_is_one_line():
    of = [finding("ok", text) for text in "abcd"]
    assert findings.verdict(of) == ("aggregation can work: no warnings", False)
    of[1].status = "warn"
    assert findings.verdict(of) == ("aggregation can work: 1 warning", False)
    of[2].status = "warn"
    assert findings.verdict(of) == ("aggregation can work: 2 warnings", False)
    of[3].status = "skip"  # then nobody knows whether it can
    skipped = "3 of 4 checks done, 2 warnings; the others were skipped: d"
    assert findings.verdict(of) == (skipped, False)
    of[2].status = "FAIL"
    assert findings.verdict(of) == ("aggregation cannot work: c", True)
    of[0].status = "FAIL"
    assert findings.verdict(of) == ("aggregation cannot work: a (and 1 more)", True)


@pytest.mark.parametrize(
    "rank, met, first, shown", [(0, True, True, "abc"), (3, True, True, "bc"), (3, True, False, "")]
)
def test_each_host_tells_once_what_is_wrong_there(capsys, rank, met, first, shown):
    report = findings.Report(False, rank)
    report.add(finding("ok", "a"))
    report.add(finding("warn", "b"))
    early = capsys.readouterr().out
    assert bool(early) == (rank == 0)  # others wait for the meeting
    report.known, report.met, report.first = True, met, first
    report.add(finding("FAIL", "c"))
    lines = (early + capsys.readouterr().out).splitlines()
    assert [line[-1] for line in lines] == list(shown)
    assert all(line.startswith("rank 3: ") == (rank == 3) for line in lines)
    report.met = False
    report.add(finding("FAIL", "lost"))
    assert capsys.readouterr().out.endswith("lost\n")  # whoever it is


# ---- lines of the probe ----


def line(kind, said):
    return json.dumps({kind: probe_lines.said(kind, said)}).encode()


GOOD = {
    "begin": {"rank": 0, "ranks": 6},
    "meeting": {"met": True, "first": True, "at": "s", "ranks": [2, 2, 2], "silent": -1},
    "train": {"check": "rtt", "packet_bytes": 128, "sent": 9, "answered": 9, "p50_ns": 1000},
    "alone": {"payload": 1, "headers": 78, "switches": [{"at": "s", "per_s": 1.5}]},
    "links": links(switches=(9,)),
    "summing": counted([True] * 3),
    "allreduce": {"wrong": 0, "settled": True, "took_ns": [1]},
    "end": {"switch": "s"},
}


@pytest.mark.parametrize("text", [b"", b"x", b"[]", b"{}", b'{"a": {}, "b": {}}', b'{"end": 7}'])
def test_what_is_no_line_of_the_probe_is_refused(text):
    with pytest.raises(Bad):
        probe.parse(text)


def test_the_probe_prints_what_is_read(tmp_path):
    """Each line has all members that its shape names, in their bounds."""
    kinds = set()
    for flags in (["--settings"], ["--no-join"], ["--switch", "127.0.0.1:1", "--timeout", "1"]):
        done = subprocess.run(
            [BUILD / "fanin", "probe", *flags], capture_output=True, check=True, timeout=WAIT_S
        )
        for text in done.stdout.splitlines():
            kind, of = probe.parse(text)
            kinds.add(kind)
            assert kind == "end" or probe_lines.said(kind, of) == of
    assert {"settings", "config", "machine", "named", "switch", "end"} <= kinds


# ---- the whole ----


def doctor(tmp_path, lines, *flags, status=0):
    """`fanin doctor` beside a probe that prints these lines."""
    fake = tmp_path / "probe"
    fake.write_text(
        f"#!/bin/sh\nprintf '%s ' \"$@\" >{tmp_path}/argv\ncat {tmp_path}/lines\nexit {status}\n"
    )
    fake.chmod(0o755)
    (tmp_path / "lines").write_bytes(b"".join(one + b"\n" for one in lines))
    return subprocess.run(
        [
            *(sys.executable, "-I", "-S"),
            ROOT / "python/fanin/operate/__main__.py",
            *("doctor", "--count=9", f"--bytes={BYTES}", *flags),
        ],
        env={**os.environ, "FANIN": str(fake)},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


ALL = [line(kind, GOOD[kind]) for kind in GOOD if kind != "alone"]


def test_doctor_prints_what_the_probe_measures(tmp_path):
    file = tmp_path / "json"
    done = doctor(tmp_path, ALL, f"--json={file}")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "argv").read_text() == f"probe --count=9 --bytes={BYTES} "
    names = [text.split()[1] for text in done.stdout.splitlines() if text[:2] == "ok"]
    assert names == ["hosts", "rtt", "links", "summing", "forecast", "allreduce"]
    root = json.loads(file.read_text())
    assert [check["name"] for check in root["checks"]] == names and root["switch"] == "s"
    assert done.stdout.endswith(f"\n\n{root['verdict']}\n") and root["fails"] is False
    silent = doctor(tmp_path, ALL, "--json=-")
    assert json.loads(silent.stdout) == root


def test_doctor_fails_where_a_finding_fails_or_the_json_is_lost(tmp_path):
    bad = line("train", {**GOOD["train"], "answered": 0})
    assert doctor(tmp_path, [*ALL[:-1], bad, ALL[-1]]).returncode == 1
    done = doctor(tmp_path, ALL, f"--json={tmp_path}/none/json")
    assert done.returncode == 1 and "--json: " in done.stderr and "aggregation can" in done.stdout


@pytest.mark.parametrize(
    "lines, status, expected, text",
    [
        (ALL[:-1], 0, 1, "ended early"),
        ([], 2, 2, ""),
        ([*ALL[:3], b"nonsense"], 0, 1, "no JSON"),
        ([ALL[0], ALL[4]], 0, 1, "expected links first"),
        ([ALL[3], line("summing", counted([True] * 4))], 0, 1, "as many hosts"),
        ([ALL[0]] * 300, 0, 1, "too many lines"),
    ],
)
def test_a_probe_that_does_not_do_its_part(tmp_path, lines, status, expected, text):
    done = doctor(tmp_path, lines, status=status)
    assert done.returncode == expected and text in done.stderr and "Traceback" not in done.stderr


def test_wrong_options_are_told_once():
    for flags, text in (
        (["--mtu", "100"], "--mtu"),
        (["--switch", "nowhere"], "--switch: expected HOST:PORT"),
    ):
        done = subprocess.run(
            [BUILD / "fanin", "doctor", *flags],
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert done.returncode == 2 and done.stdout == "" and text in done.stderr


def test_without_the_systems_python_one_line_says_what_is_missing():
    """The system's needs no PATH."""
    found = re.fullmatch(r"/usr/bin/python3\.(\d+)", os.path.realpath("/usr/bin/python3"))
    done = subprocess.run(
        [BUILD / "fanin", "ps"],
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    is_missing = not found or int(found[1]) < 9
    assert ("needs Python 3.9 or later" in done.stderr) == is_missing


def test_a_probe_ends_with_whoever_asked():
    """Killed while its doctor waits for other ranks, it leaves none behind."""
    port = 1  # nobody is there, and the doctor waits for its ranks
    env = {**os.environ, "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    with subprocess.Popen(
        [BUILD / "fanin", "doctor"],
        env={**env, "MASTER_PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stderr.readline()  # the probe waits, and says so
        child.kill()
        assert child.stdout.read() == b""  # nobody has it open any more


def test_settings_are_what_info_shows():
    def said(*argv):
        done = subprocess.run([str(BUILD / "fanin"), *argv, "--json", "-"], capture_output=True, text=True,
                              check=False, timeout=WAIT_S)  # fmt: skip
        return done.returncode, json.loads(done.stdout)["build"]

    assert said("doctor", "--settings") == said("info")
