# SPDX-License-Identifier: Apache-2.0
"""python/fanin/_library.py mirrors include/fanin.h: the same fields of the same types, in that order."""

import ctypes
import os
import re
import shutil
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT
from fanin import _library

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
