# SPDX-License-Identifier: Apache-2.0
"""python/fanin/operate/forecast: what `fanin doctor` and `fanin info` say of what `fanin probe`
prints."""

import os

import pytest
from probe_lines import said

from fanin.operate.forecast import findings, local, path, settings


def seen(**of):
    """The path to a switch that answers."""
    return findings.Path(
        **{
            **{"version": "0.2", "protocol": 2, "at": "10.0.0.1:5000", "device": "eth0"},
            **{"window": 512, "shards": 1, **of},
        }
    )


# ---- this machine ----


def test_a_wrong_configuration_fails(monkeypatch):
    assert local.config(seen(), said("config", {"error": "mtu: no"})).status == "FAIL"
    monkeypatch.setenv("FANIN_CONFIG", "/x\x1b.ini")
    known = seen()
    found = local.config(known, said("config", {"mtu": 1500, "timeout_ms": 7}))
    assert found.found == "MTU 1500, timeout 7 ms, multicast forbidden; from FANIN_* and /x?.ini"
    assert not known.multicast


def test_quotas_of_control_groups():
    for text, milli in (
        ("max 100000\n", 0),
        ("150000 100000\n", 1500),
        ("1 100000", 1),  # a limit all the same
        ("-1 100000", 0),
        ("5 0", 0),
        ("", 0),
    ):
        assert local.quota_millicores(text) == milli


def test_the_group_of_a_controller():
    both = "12:memory:/m\n4:cpuset:/set\n3:cpu,cpuacct:/one\n0::/two/x"
    assert local.cgroup_path(both, "cpu") == local.cgroup_path(both, "cpuacct") == "/one"
    assert local.cgroup_path(both, "") == "/two/x"
    assert local.cgroup_path(both, "acct") is None
    assert local.cgroup_path("what\n1:cpu\n", "cpu") is None


@pytest.fixture(name="files")
def fixture_files(monkeypatch):
    """The files that are read, by their paths."""
    files = {}
    monkeypatch.setattr(local, "_read", lambda name: files.get(name, ""))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(os, "sysconf", lambda _: 16)
    for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return files


MACHINE = {
    "version": "0.2",
    "protocol": 2,
    "library": {"path": "/lib/f", "version": "0.2"},
    "clock": {"resolution_ns": 1, "reading_ns": 30, "step_ns": 20},
    "socket": {"receive_bytes": 1 << 22, "send_bytes": 1 << 22, "wanted_bytes": 1 << 22},
    "offload": {"segment": True, "gro": True, "datagrams": 16, "came": 16, "sends": 1, "receives": 1},
    "shares_memory": True,
}  # fmt: skip


def machine(**more):
    """The findings by name, of a machine which differs in these."""
    of = said("machine", {**MACHINE, **more})
    return {found.name: found for found in local.machine(findings.Path(), of)}


@pytest.mark.usefixtures("files")
def test_a_machine_in_order():
    found = machine()
    assert list(found) == ["library", "cores", "clock", "buffers", "offload", "memory"]
    assert {one.status for one in found.values()} == {"ok"}
    assert not any(one.advice for one in found.values())
    assert found["cores"].found == "16 online, 8 allowed, no quota; 1 rank here wants 2"


def test_cores_that_a_group_or_a_binding_forbids(files, monkeypatch):
    files["/proc/self/cgroup"] = "0::/a/b\n"
    files["/sys/fs/cgroup/a/cpu.max"] = "150000 100000\n"
    files["/sys/fs/cgroup/a/b/cpu.max"] = "max 100000\n"
    cores = machine()["cores"]
    assert cores.status == "warn" and "a quota of 1.5;" in cores.found
    assert "echo max > /sys/fs/cgroup/a/cpu.max; " in cores.advice[0]
    files["/proc/self/cgroup"] = "3:cpu,cpuacct:/one\n0::/a\n"
    files["/sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "100000"
    files["/sys/fs/cgroup/cpu/cpu.cfs_period_us"] = "100000"
    assert "echo -1 > /sys/fs/cgroup/cpu/cpu.cfs_quota_us" in machine()["cores"].advice[0]
    files.clear()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "9")
    cores = machine()["cores"]
    assert cores.status == "warn" and cores.found.endswith("no quota; 9 ranks here want 18")
    assert "taskset -c 0-15" in cores.advice[0] and "fewer ranks" in cores.advice[1]


@pytest.mark.parametrize(
    "name, more, status, text, advice",
    [
        ("library", {"library": {"path": "/l", "version": "0.1"}}, "warn", "/l 0.1", "one version"),
        ("library", {"library": {"why": "gone"}}, "ok", "no libfanin.so.0 on the loader's", ""),
        ("library", {"library": {"why": "gone", "named": True}}, "FAIL", "gone", "FANIN_LIBRARY"),
        ("clock", {"clock": {"step_ns": 100001}}, "warn", "source hpet", "echo tsc > /sys"),
        ("clock", {"clock": {"reading_ns": 501}}, "warn", "501 ns per reading", "echo tsc > /sys"),
        ("buffers", {"socket": {"error": 13}}, "FAIL", "no UDP socket: Permission denied", ""),
        ("buffers", {"socket": {"wanted_bytes": 2048}}, "warn", "of 2 KiB asked for", "sysctl -w"),
        ("offload", {"offload": {"error": 13}}, "warn", "127.0.0.1: Permission", "ip link set lo"),
        ("offload", {"offload": {"datagrams": 16, "came": 15}}, "warn", "some lost", "UDP_SEGMENT"),
        ("memory", {"shares_memory": False, "no_memory": "no file"}, "warn", "no file", "ulimit"),
    ],
)
def test_what_is_wrong_with_a_machine(files, name, more, status, text, advice):
    clocks = "/sys/devices/system/clocksource/clocksource0"
    files[f"{clocks}/current_clocksource"] = "hpet\n"
    files[f"{clocks}/available_clocksource"] = "tsc hpet\n"
    found = machine(**more)[name]
    assert found.status == status and text in found.found
    assert advice in " ".join(found.advice) and bool(found.advice) == bool(advice)


def test_buffers_by_privilege(files):
    files["/proc/sys/net/core/rmem_max"] = "212992\n"
    found = machine()["buffers"]
    assert found.status == "ok" and found.found.endswith("other users get less") and found.advice
    assert found.values["rmem_max"] == 212992 and found.values["wmem_max"] == -1


# ---- the switch ----


@pytest.mark.parametrize(
    "of, ranks, names, text",
    [
        ({}, 1, "switch seal", "no switch given: expected"),
        ({}, 4, "seal", "open: anybody"),
        ({"text": "n:1", "late": True}, 4, "switch seal", '"n": no name server answered'),
        ({"text": "n:1"}, 1, "switch seal", '"n": unknown here'),
        ({"text": "a:1", "at": "1.1.1.1:1", "lost": "b:2"}, 1, "switch seal", "switch b:2 cannot"),
        ({"text": "a:1", "at": "1.1.1.1:1", "key": "K"}, 1, "seal", "sealed with the key in K"),
        ({"text": "a:1", "at": "1.1.1.1:1", "exposed": True}, 1, "seal", "a public address"),
    ],
)
def test_the_named_switch(of, ranks, names, text):
    found = list(path.named(findings.Path(ranks=ranks), said("named", of)))
    assert " ".join(one.name for one in found) == names and text in found[0].found


@pytest.mark.parametrize(
    "of, text, advice",
    [
        ({"error": 111}, "nothing listens on UDP port 5000 of 10.0.0.1", "fanin switch --listen"),
        ({"error": 1}, "a firewall refuses packets", "nft list ruleset"),
        ({"error": 113}, "10.0.0.1:5000: No route to host", "ip route get 10.0.0.1"),
        ({"strays": True}, "is another program", "correct the port"),
        ({"tried": 10, "tried_ms": 1000}, "none of 10 questions in 1000 ms", "dport 5000 accept"),
        ({"other_protocol": 3}, "speaks version 3 of the protocol, this program 2", "one version"),
    ],
)
def test_a_switch_that_does_not_answer(of, text, advice):
    known = seen(at="")
    found = list(path.switch(known, said("switch", {"at": "10.0.0.1:5000", **of})))
    assert [one.name for one in found] == ["switch", "version"]
    assert found[0].status == "FAIL" and text in found[0].found
    assert any(advice in one for one in found[0].advice)
    assert found[1].status == "skip" and found[1].found == known.no_path
    skipped = path.skip(known, said("skip", {"check": "rtt", "why": "path"}))
    assert skipped.found == known.no_path


ANSWERS = {"at": "10.0.0.1:5000", "device": "eth0", "answers": True, "version": "0.2"}


def test_redirects_behind_a_gateway(files):
    of = {**ANSWERS, "version": "0.1", "gateway": "10.9.9.9:0"}
    switch, version = path.switch(seen(), said("switch", of))
    assert switch.found == "10.0.0.1:5000 answers, through interface eth0"
    assert version.status == "warn" and version.found.startswith("switch 0.1, this program 0.2;")
    files["/proc/sys/net/ipv4/conf/eth0/accept_redirects"] = "1\n"
    *_, found = path.switch(seen(), said("switch", of))
    assert found.name == "redirects" and "gateway 10.9.9.9, and a forged" in found.found
    files["/proc/sys/net/ipv4/conf/eth0/forwarding"] = "1\n"  # a router needs both
    assert len(list(path.switch(seen(), said("switch", of)))) == 2
    *_, found = path.switch(seen(), said("switch", {**of, "redirected": True}))
    assert "10.9.9.9 because of an ICMP redirect" in found.found
    assert found.advice[1] == "and: ip route flush cache"


def test_loss_and_round_trips():
    for sent, answered, status in (
        *((1000, 1000, "ok"), (1000, 999, "warn"), (1000, 801, "warn"), (1000, 800, "FAIL")),
        *((1000, 0, "FAIL"), (0, 0, "FAIL")),  # nothing could be sent
    ):
        assert path.judge_loss(sent, answered) == status
    for p50, p99, status in (
        *((100000, 300000, "ok"), (5000000, 20000000, "ok")),
        *((5000001, 5000001, "warn"), (100000, 20000001, "warn")),
    ):
        assert path.judge_rtt(p50, p99) == status
    known = seen()
    of = said(
        "train", {"check": "rtt", "sent": 400, "answered": 390, "p50_ns": 6000000, "payload": 1408}
    )
    found = path.train(known, of)
    assert found.status == "warn" and "10 of 400 lost (2.5 %)" in found.found
    assert "ip -s link show dev eth0" in found.advice[0]
    assert found.advice[2].startswith(
        "a window of 512 fragments each 6.0 ms limits a job to 120 MB/s"
    )
    assert len(path.train(known, of).advice) == 1  # of the window; the loss is known
    of = said("train", {"check": "rtt", "send_error": 1})
    assert "Operation not permitted" in path.train(known, of).advice[0]  # fmt: skip


MTU = {"asked": 1500, "packet_bytes": 1472, "path": 1500, "slots": 1500, "fits": True,
       "path_fits": True}  # fmt: skip


@pytest.mark.parametrize(
    "more, status, text, advice",
    [
        ({}, "ok", "packets of 1500 bytes pass in both directions; FANIN_MTU is 1500", []),
        ({"path": 0}, "ok", "MTU 1500 works in both directions", []),
        ({"path": 9000, "slots": 9000}, "ok", "9000 bytes", ["more speed", "FANIN_MTU=9000"]),
        ({"path": 9000, "path_fits": False}, "ok", "", ["--listen 10.0.0.1:5000 --mtu 9000"]),
        ({"path": 9000, "inside": True, "path_fits": False}, "ok", "", ["FANIN_MTU=9000"]),
        ({"fits": False, "asked": 9000}, "FAIL", "slots are for 1500", ["--mtu 9000", "=1500"]),
        ({"told": 1400}, "warn", "ICMP told this kernel that the path takes 1400", ["route flush"]),
        ({"fails": "router", "path": 1400}, "FAIL", "that passes has 1400", ["=1400", "tracepath"]),
        ({"fails": "forward", "path": 0}, "FAIL", "no smaller size passes", ["tracepath"]),
        ({"fails": "back", "path": 1333}, "FAIL", "answers of that size", ["dev DEVICE mtu 1500"]),
        ({"fails": "local", "path": 1300}, "FAIL", "interface", ["dev eth0 mtu 1500", "=1300"]),
    ],
)
def test_packet_sizes(more, status, text, advice):
    found = path.mtu(seen(), said("mtu", {**MTU, **more}))
    assert found.status == status and text in found.found
    assert all(one in " ".join(found.advice) for one in advice)
    assert bool(found.advice) == bool(advice)


def test_bursts_and_shards():
    of = {"rounds": 4, "burst": 64, "sent": 256, "sends": 4, "largest_batch": 64, "segment": True}
    found = path.burst(seen(), said("burst", of))
    assert found.status == "ok" and not found.advice
    found = path.burst(seen(), said("burst", {**of, "lost": 3, "segment": False, "gro_off": True}))
    assert found.status == "warn" and len(found.advice) == 4
    assert path.burst(seen(lossy=True), said("burst", {**of, "lost": 3})).status == "ok"
    known = seen(shards=6)
    found = path.shards(known, said("shards", {"port": 5000}))
    assert found.found == "6, on ports 5000 to 5005; all answer"
    assert path.shards(seen(), said("shards", {"port": 5000})).found == "1, on port 5000"
    found = path.shards(
        known, said("shards", {"port": 5000, "silent": [5001, 5002, 5003, 5004, 5005]})
    )
    assert found.found.endswith("silent: 5001, 5002, 5003, 5004, ...") and found.status == "FAIL"
    assert known.no_path and "dport 5000-5005 accept" in found.advice[0]  # fmt: skip


def test_a_job_of_two_ranks():
    of = {"job": "j#doctor-1", "bytes": 1 << 18, "multicast": True}
    total, multicast = path.two_ranks(seen(multicast=True), said("sum", of))
    assert total.found.startswith("job j#doctor-1 of 2 ranks: 256 KiB summed, 0 elements wrong")
    assert multicast.status == "ok" and multicast.found.startswith("results arrive")
    (failed,) = path.two_ranks(seen(), said("sum", {**of, "cause": "TIMEOUT", "why": "late"}))
    assert failed.status == "FAIL" and failed.found == "a job of 2 ranks did not work: late"
    assert [one.found for one in path.two_ranks(seen(), said("sum", {}))] == [
        "no memory or no thread for two ranks"
    ]
    wrong, multicast = path.two_ranks(seen(), said("sum", {**of, "wrong": 1, "multicast": False}))
    assert wrong.status == "FAIL" and "the switch offers no group" in multicast.found
    of["multicast"] = False
    for gateway, count in (("", 3), ("10.9.9.9", 4)):
        _, multicast = path.two_ranks(seen(group=4, gateway=gateway), said("sum", of))
        assert multicast.status == "warn" and len(multicast.advice) == count
    _, multicast = path.two_ranks(seen(multicast=False), said("sum", of))
    assert multicast.status == "ok" and "multicast = 0" in multicast.found


def test_ranks_that_meet():
    def met(of, **known):
        return next(path.meeting(seen(ranks=4, **known), said("meeting", of)), None)

    assert met({}) is None
    of = {"met": True, "at": "a:1", "ranks": [2, 1, 1], "rails": ["b:1"], "silent": 3}
    found = met(of)
    assert found.status == "warn" and "the host of rank 3" in found.advice[0]
    assert found.found == "4 ranks on 3 hosts, 2, 1, 1; they met at a:1, and also send by b:1"
    assert met(of, rank=1).status == "ok"  # reported once
    assert met({"ranks": [1] * 64}).found == "64 hosts or more: their links are not measured"
    known = seen(at="")
    (found,) = path.meeting(known, said("meeting", {"error": "gone"}))
    assert found.status == "FAIL" and found.found == "the ranks did not meet: gone"
    assert known.no_path == "the ranks did not meet"
    assert met({"error": "gone", "silent_switch": True}).found.endswith("switch does not answer")


def test_what_ranks_together_could_not_do():
    found = path.lost(seen(), said("lost", {"why": "rank 3"}))
    assert (found.status, found.found) == ("FAIL", "the ranks have lost each other: rank 3")
    found = path.failure(seen(), said("failure", {"check": "summing", "cause": "X", "why": "y"}))
    assert found.found == "the job of all ranks did not work: y" and found.values == {"cause": "X"}
    found = path.failure(seen(), said("failure", {"check": "allreduce", "why": "y"}))
    assert (found.name, found.found, found.values) == ("allreduce", "y", {})
    assert path.unready(seen(), said("unready", {"ranks": 2})).status == "skip"
    found = path.no_socket(seen(), said("no_socket", {"check": "mtu", "error": 13}))
    assert found.found == "cannot open a socket that probes the path: Permission denied"
    assert path.skip(seen(), {"check": "sum", "why": "no-join"}).found == "--no-join forbids a job"


# ---- settings ----

AUTO = {"hosts": True, "local": True, "wanted": True, "is_rank": True}


@pytest.mark.parametrize(
    "of, good, texts, never",
    [
        (
            {"switch": "10.0.0.1:5000"},
            True,
            ["The switch 10.0.0.1:5000", "host sums a share", "those of each host sum in shared"],
            "",
        ),
        (
            {"switch": "s:1", "hosts": False},
            True,
            ["sum nothing, because FANIN_HOSTS=0", "stream of its own, because FANIN_HOSTS=0"],
            "",
        ),
        (
            {"switch": "s:1", "hosts": False, "asked": True},
            True,
            ["Ranks of one host sum in shared memory first"],
            "a stream of its own",
        ),
        (
            {"switch": "s:1", "local": False, "wanted": False},
            True,
            ["a stream of its own, because FANIN_LOCAL=0"],
            "",
        ),
        ({"switch": "a:1,b:2,c:3"}, True, ["3 switches", "shares follow"], ""),
        ({"switch": "s:1", "server": "t:1"}, True, ["continue through the server t:1"], "a share"),
        ({"switch": "s:1", "ahead": True}, True, ["because ranks run ahead"], ""),
        ({"switch": "s:1", "is_rank": False}, True, ["because it is named"], ""),
        ({"controller": "c:1"}, True, ["controller c:1"], "open"),
        ({"switch": "s", "wrong": "switch: expected HOST:PORT"}, False, ["Nothing: switch"], "named"),
        ({"is_rank": False}, True, ["starts no rank here"], "open"),
        ({"nowhere": "no switch"}, False, ["Nothing: no switch"], "open"),
        ({"meeting": "m:1"}, True, ["first rank of each host", "meet at m:1", "The job is open"], ""),
        ({"meeting": "m:1", "one_host": True, "key": "K"}, True, ["switch in rank 0 at m:1", "key in K;"], ""),
    ],
)  # fmt: skip
def test_what_would_sum(of, good, texts, never):
    sentences, is_good = settings.sums(said("settings", {"sums": {**AUTO, **of}})["sums"])
    assert is_good == good and all(any(text in one for one in sentences) for text in texts)
    assert not never or not any(never in one for one in sentences)


def test_settings_in_lines(monkeypatch, tmp_path):
    of = {
        "version": "0.2",
        "options": [{"name": "mtu", "value": "9000", "from": "FANIN_MTU"}, {"name": "job", "value": "j"}],
        "unknown": [{"name": "FANIN_SWICH", "near": "FANIN_SWITCH"}, {"name": "FANIN_X"}],
        "sums": {**AUTO, "meeting": "m:1"},
    }  # fmt: skip
    for variable in settings.FILES:
        monkeypatch.delenv(variable, raising=False)
    lines, good = settings.text(said("settings", of), False)
    assert (
        good
        and "  mtu         9000   from FANIN_MTU" in lines
        and not any(" j" == one[-2:] for one in lines)
    )
    assert "  FANIN_SWICH is no variable of fanin; did you mean FANIN_SWITCH?" in lines
    assert "  job         j" in settings.text(said("settings", of), True)[0]  # fmt: skip
    for more in ({"error": "mtu: no"}, {"socket": {"error": 13}}):
        assert not settings.text(said("settings", {**of, **more}), False)[1]
    monkeypatch.setenv("FANIN_TRACE", f"{tmp_path}/none/t")
    lines, good = settings.text(said("settings", of), False)
    assert not good
    assert f"  wrong: FANIN_TRACE: {tmp_path}/none/: No such file or directory" in lines
