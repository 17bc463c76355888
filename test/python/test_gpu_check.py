# SPDX-License-Identifier: Apache-2.0
"""tools/gpu-check without a GPU: what its parts do, on streams that are none, and what it makes of parts
that go wrong."""

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import BUILD, ROOT, WAIT_S

sys.path.append(str(ROOT / "test" / "gpu"))
import check
import pack

LIMIT_S = 10 * WAIT_S  # of a run on a machine that is busy
needs_ninja = pytest.mark.skipif(
    shutil.which("ninja") is None, reason="SKIPPED: no ninja here, which links what is packed"
)

# What stands in for compute-sanitizer, and for the program that it starts: the arguments name a function.
SANITIZER = """#!/bin/sh
case $* in
*" hang "*) sleep 600 & sleep 600 ;;
*" alarm "*) kill -ALRM $PPID; sleep 600 ;;
*" refused "*) echo "Error: Device not supported" ;;
*" nothing "*) echo "========= ERROR SUMMARY: 0 errors" ;;
*" errors "*) echo '{"wrong": []}'; echo "========= ERROR SUMMARY: 3 errors"; exit 99 ;;
*" wrong "*) echo '{"wrong": ["a sum"]}'; echo "========= ERROR SUMMARY: 0 errors" ;;
*" looks "*) cp "$REPORT" "$REPORT.then"; echo '{"wrong": []}'; echo "========= ERROR SUMMARY: 0 errors" ;;
*) echo '{"wrong": []}'; echo "========= ERROR SUMMARY: 0 errors" ;;
esac
"""


def gpu_check(*arguments):
    """The exit status of the program, and what it wrote."""
    env = dict(os.environ, PYTHON=sys.executable)
    out = arguments[arguments.index("--out") + 1]
    arguments = ["--limit", LIMIT_S, *arguments]
    call = [str(ROOT / "tools" / "gpu-check"), *map(str, arguments)]
    done = subprocess.run(call, env=env, capture_output=True, text=True, timeout=LIMIT_S + WAIT_S)
    print(done.stdout, done.stderr)
    return done.returncode, json.loads(out.read_text())


def results(found):
    return {part["name"]: part["result"] for part in found["parts"]}


@needs_ninja
def test_a_fake_gpu_passes_with_a_library_that_was_packed(tmp_path):
    pack.pack(tmp_path / "pack", BUILD)
    parts = ["staging-4", "staging-packets", "ddp", "orders", "bandwidth"]
    out = tmp_path / "found.json"
    call = ["--fake", "--packed", tmp_path / "pack", "--out", out, "--only", *parts]
    status, found = gpu_check(*call, "fsdp2", "mixed")
    assert status == 0 and found["fake"] and found["ended"] and found["card"] is None
    wanted = {"card": "skipped", "library": "passed", **dict.fromkeys(parts, "passed")}
    assert results(found).items() > wanted.items()
    for part in ("fsdp2", "mixed"):  # of PyTorch 2
        assert results(found)[part] in ("passed", "skipped")
    by_name = {part["name"]: part for part in found["parts"]}
    assert by_name["library"]["facts"]["path"] == str(tmp_path / "pack" / pack.SONAME)
    assert by_name["ddp"]["facts"]["staged"] > 0
    assert "through shared memory" in by_name["staging-4"]["facts"]["summary"]
    assert "inside rank 0" in by_name["staging-packets"]["facts"]["summary"]
    assert found["packed"]["sources"] == pack.sources()


def fat_binary(*programs):
    """As nvcc leaves one: (GPU, machine code) of each."""
    inner = b"".join(
        struct.pack("<HHIQ12xI32x", 2, 257, 64, len(code), gpu) + code for gpu, code in programs
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(inner)) + inner


def elf(**sections):
    """A file that has these, and nothing else."""
    names = "\0" + "\0".join(sections) + "\0names\0"
    body, heads = b"", struct.pack("<IIQQQQ24x", 0, 0, 0, 0, 0, 0)
    for name, data in [*sections.items(), ("names", names.encode())]:
        at = names.index("\0" + name + "\0") + 1
        heads += struct.pack("<IIQQQQ24x", at, 1, 0, 0, 64 + len(body), len(data))
        body += data
    count = len(sections) + 2
    head = b"\x7fELF\2\1\1".ljust(40, b"\0") + struct.pack(
        "<Q10x3H", 64 + len(body), 64, count, count - 1
    )
    return head + body + heads


def test_a_packed_nccl_has_the_code_of_one_gpu(tmp_path):
    fat = fat_binary((80, b"A" * 5000), (90, b"B" * 77), (100, b"C" * 999)) + bytes(8)
    fat += fat_binary((90, b"D" * 64), (120, b"E" * 8))
    whole = elf(**{".text": b"ABCDE", ".nv_fatbin": fat})
    with zipfile.ZipFile(tmp_path / "nccl.whl", "w") as wheel:
        wheel.writestr("nvidia/nccl/lib/libnccl.so.2", whole)
    assert "2 programs for sm_90" in pack.pack_nccl(tmp_path, tmp_path / "nccl.whl")
    (tmp_path / "there").mkdir()
    there = pack.unpack_nccl(tmp_path, tmp_path / "there").read_bytes()
    wanted = whole
    for other in (b"A" * 5000, b"C" * 999, b"E" * 8):
        wanted = wanted.replace(other, bytes(len(other)))
    assert there == wanted and there != whole
    for broken in (elf(**{".nv_fatbin": fat_binary((80, b"A"))}), elf(**{".nv_fatbin": fat[:-30]})):
        (tmp_path / "broken.so").write_bytes(broken)
        with pytest.raises(pack.PackError):
            pack.pack_nccl(tmp_path, tmp_path / "broken.so")


def test_a_library_of_nccl_is_packed_or_refused():
    call = [sys.executable, str(ROOT / "test" / "gpu" / "check.py"), "--nccl-library", "x"]
    done = subprocess.run(call, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 2 and "--nccl-library goes with --pack" in done.stderr


def test_parts_of_nccl_are_skipped_without_a_gpu(tmp_path):
    out, parts = tmp_path / "found.json", ["nccl-2", "nccl-sockets-2"]
    assert {*parts} < {part.name for part in check.NCCL_PARTS}
    status, found = gpu_check("--fake", "--nccl", "--out", out, "--only", *parts)
    assert status == 0 and found["ended"]
    wanted = dict.fromkeys(parts, "skipped")
    assert results(found) == {"card": "skipped", "library": "passed", **wanted}
    assert [part["why"] for part in found["parts"] if part["name"] == "nccl-2"] == [
        ["NCCL needs a GPU"]
    ]


def test_ranks_of_nccl_are_hosts_of_their_own():
    by_name = {part.name: part for part in check.NCCL_PARTS}
    both = [check.environment(by_name["nccl-2"], rank, 1) for rank in range(2)]
    assert both[0]["NCCL_HOSTID"] != both[1]["NCCL_HOSTID"]
    assert all(env["NCCL_COLLNET_ENABLE"] == "1" for env in both)
    sockets = check.environment(by_name["nccl-sockets-2"], 0, 1)
    assert sockets["NCCL_NET_PLUGIN"] == "none" and "NCCL_ALGO" not in sockets


def test_a_stream_that_does_not_wait_is_found(tmp_path):
    parts = ["staging-2", "orders"]
    out = tmp_path / "found.json"
    status, found = gpu_check("--fake", "back main", "--out", out, "--only", *parts)
    assert status == 1
    assert [results(found)[part] for part in parts] == ["failed", "failed"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(tmp_path):
    status, found = gpu_check("--out", tmp_path / "found.json", "--only", "orders")
    assert status == check.NO_GPU and results(found) == {"card": "no GPU"}
    assert torch.__version__ in found["parts"][0]["why"][0]
    assert found["versions"]["torch"] == torch.__version__


@needs_ninja
def test_a_pack_of_other_sources_is_refused(tmp_path):
    assert "no pack" in pack.problem(tmp_path)
    pack.pack(tmp_path, BUILD)
    assert pack.problem(tmp_path) == ""
    facts = json.loads((tmp_path / pack.FACTS).read_text())
    (tmp_path / pack.FACTS).write_text(json.dumps(dict(facts, sources="others")))
    assert "other sources" in pack.problem(tmp_path)
    with pytest.raises(pack.PackError, match="no build folder"):
        pack.pack(tmp_path, tmp_path / "nowhere")


# ---- parts that go wrong -------------------------------------------------------------


@pytest.fixture
def whole(tmp_path, monkeypatch):
    """A check whose parts are SANITIZER's; nothing of PyTorch runs."""
    script = tmp_path / "sanitizer"
    script.write_text(SANITIZER)
    script.chmod(0o755)
    monkeypatch.setenv("MARK", str(script))
    monkeypatch.setenv("REPORT", str(tmp_path / "found.json"))
    options = SimpleNamespace(limit=WAIT_S, fake="", sanitizer=str(script), packed=None)
    return check.Check(options, check.Report(tmp_path / "found.json", True, {}))


def left_behind(text):
    """Whether a process has the text in its environment."""
    for one in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"\0MARK={text}\0".encode() in b"\0" + one.read_bytes():
                return True
        except OSError:
            pass
    return False


def nothing_is_left(whole):
    until = time.monotonic() + WAIT_S
    while left_behind(whole.options.sanitizer):
        assert time.monotonic() < until, "a process is left"
        time.sleep(0.1)


def part(name, limit_s=WAIT_S / 2, **more):
    return check.Part(name, limit_s, function=name, sanitized=True, **more)


def test_each_part_is_judged_by_itself(whole):
    names = ["hang", "refused", "nothing", "errors", "wrong", "right"]
    parts = [part(name, 1 if name == "hang" else WAIT_S / 2) for name in names]
    assert whole.run(parts) == 1
    found = json.loads(whole.report.path.read_text())
    assert results(found) == {
        "hang": "failed",
        "refused": "skipped",
        "nothing": "failed",
        "errors": "failed",
        "wrong": "failed",
        "right": "passed",
    }
    why = {one["name"]: one.get("why") for one in found["parts"]}
    nothing_is_left(whole)
    after = 1 * whole.scale  # it has more time, as all parts have in a run that may take longer
    assert why["hang"] == [f"not done after {after:.0f} s"] and why["errors"] == ["3 errors"]
    assert why["wrong"] == ["a sum"] and why["nothing"] == ["gave no result"]
    assert found["ended"]


def test_what_is_known_is_in_the_file_while_parts_run(whole):
    assert whole.run([part("wrong"), part("looks"), part("right")]) == 1
    then = json.loads((whole.report.path.parent / "found.json.then").read_text())
    assert results(then) == {"wrong": "failed"} and not then["ended"]


def test_no_part_outlasts_the_whole(whole):
    before = signal.getsignal(signal.SIGALRM)
    check.alarm.at(4 * WAIT_S)
    try:
        parts = [part("alarm"), part("right")]
        assert whole.run(parts[:1]) == 1
        whole.until = 0
        assert whole.run(parts[1:]) == 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    why = [one["why"] for one in whole.report.found["parts"]]
    assert why == [["all the time is over"], ["not run: all the time is over"]]
    nothing_is_left(whole)


def test_ranks_that_fail_are_named():
    ranks = check.Part("staging-2", 10, 2)
    good, bad = '{"wrong": []}', '{"wrong": ["a sum"]}'
    judged = check.judged(ranks, [(0, good, ""), (0, bad, "")], 10)
    assert (judged["result"], judged["why"]) == ("failed", ["rank 1: a sum"])
    judged = check.judged(ranks, [(None, "", "a trace"), (1, good, "")], 10)
    assert judged["why"] == ["rank 0: not done after 10 s", "rank 1: ended with 1"]
    assert judged["said"][0] == "a trace"
    judged = check.judged(ranks, [(0, good, ""), (0, "no JSON", "")], 10)
    assert judged["why"] == ["rank 1: gave no result"]
    many = json.dumps({"wrong": ["a sum"] * 100})
    assert len(check.judged(ranks, [(0, many, ""), (0, many, "")], 10)["why"]) < 20
    assert check.judged(ranks, [(0, good, "")] * 2, 10) == {"result": "passed"}
