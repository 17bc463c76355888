# SPDX-License-Identifier: Apache-2.0
"""What is beside libfanin: python/fanin/_library.py has the fields of include/fanin.h, and programs take
the variables that it takes."""

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT
from fanin import __main__, _library

TYPES = {
    "size_t": ctypes.c_size_t,
    "const char *": ctypes.c_char_p,
    "int ": ctypes.c_int,
    "uint32_t ": ctypes.c_uint32,
    "uint64_t ": ctypes.c_uint64,
    "void *": ctypes.c_void_p,
    "char": ctypes.c_char,
}


def header_fields(name):
    """(name, type) of each field of a struct of the header, which declares one a line."""
    text = (ROOT / "include" / "fanin.h").read_text()
    body = re.search(rf"^struct {name} {{(.*?)^}};", text, re.M | re.S).group(1)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    fields = []
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        function = re.fullmatch(r"void \(\*(\w+)\)\(.*\)", declaration)
        if function:
            fields.append((function.group(1), ctypes.c_void_p))
            continue
        kind, field, _, count = re.fullmatch(r"(.*?[ *])(\w+)(\[(\d+)\])?", declaration).groups()
        found = TYPES.get(kind) or TYPES[kind.strip()]
        fields.append((field, found * int(count) if count else found))
    return fields


@pytest.mark.parametrize(
    "name, mirror",
    [
        ("fanin_options", _library.Options),
        ("fanin_stats", _library.RawStats),
        ("fanin_part", _library.RawPart),
    ],
)
def test_structs_are_those_of_the_header(name, mirror):
    assert mirror._fields_ == header_fields(name)


def test_initial_values_are_those_of_the_header():
    text = (ROOT / "include" / "fanin.h").read_text()
    values = re.search(r"#define FANIN_OPTIONS_INIT(.*?)}", text, re.S).group(1)
    words = [word.strip() for word in re.sub(r"[\\{\n\t]", " ", values).split(",")]
    expected = [{"NULL": None}.get(word, word) for word in words[1:]]
    options = _library.Options()
    found = [getattr(options, name) for name, _ in options._fields_[1:]]
    assert [value if value is None else str(value) for value in found] == expected
    assert options.size == ctypes.sizeof(options)


def test_the_version_is_that_of_the_header():
    text = (ROOT / "include" / "fanin.h").read_text()
    parts = [re.search(rf"VERSION_{p} (\d+)", text).group(1) for p in ("MAJOR", "MINOR")]
    assert _library.VERSION == ".".join(parts)


def test_each_says_which_file_it_has(tmp_path):
    """A package without a library of its own takes what the loader finds, and names the file."""
    (tmp_path / "lib").mkdir()
    library = tmp_path / "lib" / _library.SONAME
    shutil.copy(BUILD / "src" / _library.SONAME, library)
    shutil.copytree(ROOT / "python" / "fanin", tmp_path / "apart" / "fanin")
    env = {name: value for name, value in os.environ.items() if name != "FANIN_LIBRARY"}
    env |= {"LD_LIBRARY_PATH": str(library.parent), "PYTHONPATH": str(tmp_path / "apart")}
    for command, line in (
        (
            (sys.executable, "-m", "fanin"),
            rf"^library +libfanin [\d.]+: {re.escape(str(library))}$",
        ),
        ((str(BUILD / "fanin"), "info"), rf"^library +{re.escape(str(library))}, [\d.]+, "),
        ((str(BUILD / "fanin"), "info"), rf"^program +{re.escape(str(BUILD / 'fanin'))}, "),
    ):
        done = subprocess.run(
            command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
        )
        assert re.search(line, done.stdout, re.M), done.stdout + done.stderr


def test_a_plugin_is_named_alone(tmp_path):
    """For NCCL_NET_PLUGIN=$(python3 -m fanin nccl): NCCL loads what stands there."""
    shutil.copy(BUILD / "src" / _library.SONAME, tmp_path)
    (tmp_path / "libnccl-net-fanin.so").touch()
    env = os.environ | {"FANIN_LIBRARY": str(tmp_path / _library.SONAME)}
    env["PYTHONPATH"] = str(ROOT / "python")
    for argument, status, out, err in (
        ("nccl", 0, f"{tmp_path}/libnccl-net-fanin.so\n", ""),
        ("mpi", 1, "", f"fanin: {tmp_path}/libfanin-mpi.so: not there: package fanin-mpi or "),
        ("rccl", 2, "", "usage: python3 -m fanin [nccl | mpi]"),
    ):
        done = subprocess.run(
            (sys.executable, "-m", "fanin", argument),
            env=env, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (status, out), done.stderr
        assert done.stderr.startswith(err), done.stderr


@pytest.mark.parametrize(
    "variables, flags, shown",
    [
        ({"WIRE": "bfloat16", "MTU": "2000"}, [], {"wire": "bfloat16", "mtu": 2000}),
        ({"WIRE": "int8"}, ["--wire", "float16"], {"wire": "float16", "mtu": 1500}),
        ({"MODE": "fixed", "WINDOW": "7"}, [], {"mode": "fixed", "window_frags": 7}),
        ({"CONFIG": "multicast = 0"}, [], {"multicast": False}),
        ({"AHEAD": "8"}, [], {"ahead_frags": 0}),  # a key alone
        ({"CONFIG": "wire = int8\nmode = native"}, [], {"wire": "int8", "mode": "native"}),
        ({"CONFIG": "ahead = 8"}, ["--policy", "esa"], {"wire": "float32", "ahead_frags": 8}),
    ],
)
def test_a_bench_takes_variables(tmp_path, variables, flags, shown):
    done, env = bench(tmp_path, variables, [*flags, "--json", str(tmp_path / "json")])
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "json").read_text())
    found = document["results"][0]
    assert {name: found[name] for name in shown} == shown, env
    assert found["wrong"] == 0 and found["ahead_frags"] == shown.get("ahead_frags", 0)


@pytest.mark.parametrize(
    "variables, flags, why",
    [
        ({"WIRE": "int7"}, [], 'FANIN_WIRE: "int7": expected '),
        ({"WIRE": "float16"}, ["--mode", "fixed"], "mode fixed: expected wire float32"),
        ({"CONFIG": "ahead = 8"}, [], "ahead: expected with --policy"),
        ({"CONFIG": "wire = int7"}, [], '2: wire: "int7": expected '),
    ],
)
def test_a_bench_says_what_is_wrong_with_variables(tmp_path, variables, flags, why):
    done, _ = bench(tmp_path, variables, flags)
    assert done.returncode == 2 and why in done.stderr, done.stderr


def bench(tmp_path, variables, flags):
    """A short one of two ranks here; CONFIG is what the INI file has in [worker]."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("FANIN_")}
    if "CONFIG" in variables:
        (tmp_path / "ini").write_text(f"[worker]\n{variables['CONFIG']}\n")
        variables = {**variables, "CONFIG": str(tmp_path / "ini")}
    env |= {f"FANIN_{name}": value for name, value in variables.items()}
    command = [str(BUILD / "fanin"), "bench", "--local", "2", "-b", "64K", "-n", "1", "-w", "0"]
    done = subprocess.run(
        [*command, *flags], env=env, capture_output=True, text=True, timeout=600, check=False
    )
    return done, env


def test_a_misspelt_variable_is_logged_once():
    code = (
        "import fanin, logging\n"
        "logging.basicConfig()\n"
        "for _ in range(2):\n"
        "    try: fanin.Communicator('127.0.0.1:9', rank=1, ranks=2, timeout=0.2)\n"
        "    except fanin.FaninError: pass\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "FANIN_TIMEOUTMS": "1"}
    environment["FANIN_PORT"] = "udp://10.0.0.1:5000"  # of a service of Kubernetes named fanin
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    expected = "FANIN_TIMEOUTMS is no variable of fanin; did you mean FANIN_TIMEOUT_MS?"
    assert done.stderr.count(expected) == 1
    assert "FANIN_PORT" not in done.stderr and "have joined" not in done.stderr


def test_every_variable_is_in_the_manual_and_every_one_there_is_known():
    info = [BUILD / "fanin", "info", "--json", "-"]
    options = json.loads(subprocess.run(info, capture_output=True, check=True).stdout)["options"]
    known = {f"FANIN_{name.upper()}" for name in options}
    done = subprocess.run(info, env=dict.fromkeys(known, ""), capture_output=True, check=False)
    keys = set(json.loads(done.stdout)["unknown"])  # of the INI file alone
    assert len(keys) == 8 and "FANIN_PACE" in keys
    known -= keys
    names = "libfanin.3.scd", "fanin-mpi.7.scd", "fanin-doctor.1.scd"
    pages = [(ROOT / "doc" / "man" / name).read_text() for name in names]
    text = "\n".join(pages).replace("\\_", "_")
    told = set(re.findall(r"FANIN_[A-Z_]*[A-Z]", text))
    assert not known - told
    listed = re.findall(r"^:  (FANIN_[A-Z_]+)|\*(FANIN_[A-Z_]+)=", pages[0], re.MULTILINE)
    assert len(listed) > 20
    assert {one or other for one, other in listed} <= known


def test_commands_in_python_run_by_the_interpreter_that_is_named(tmp_path):
    python = tmp_path / "python3.15"
    python.write_text('#!/bin/sh\necho "by $0: $*"\n')
    python.chmod(0o755)
    env = {"FANIN_PYTHON": str(python), "PATH": "/nowhere"}
    for command in (["top", "--once"], ["sim", "--json=-", "a.json"]):
        done = subprocess.run(
            [BUILD / "fanin", *command], env=env, capture_output=True, text=True, check=True
        )
        assert done.stdout.startswith(f"by {python}: -I -S ")
        assert f"/__main__.py {command[0]} " in done.stdout
    env["FANIN_PYTHON"] = sys.executable
    info = subprocess.run(
        [BUILD / "fanin", "info"], env=env, capture_output=True, text=True, check=True
    )
    assert "FANIN_PYTHON" not in info.stdout + info.stderr  # a variable that is known


def test_the_script_of_an_environment_names_its_interpreter(monkeypatch):
    seen = []
    monkeypatch.setenv("FANIN_PYTHON", "of another")
    monkeypatch.setattr(sys, "argv", ["fanin", "top"])
    monkeypatch.setattr(os, "execv", lambda *_: seen.append(os.environ["FANIN_PYTHON"]))
    __main__.program()
    assert seen == [sys.executable]
