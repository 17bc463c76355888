# SPDX-License-Identifier: Apache-2.0
"""Pages of results and of plans: the generator in page/, which is beside the program."""

from __future__ import annotations

import os
import subprocess
import sys

from . import engine, files

LIMIT_S = 300  # for the generator
PLACES = ("page/__main__.py", "../libexec/fanin/page/__main__.py")  # relative to the program


def write(kind: str, path: str, text: str) -> None:
    """Write what the generator makes of JSON.  FileError: it made nothing, or `path` is not writable."""
    folder = os.path.dirname(os.path.realpath(engine.find_program()))
    script = next((p for p in (os.path.join(folder, q) for q in PLACES) if os.path.exists(p)), None)
    if script is None:
        raise files.FileError(f"no {PLACES[0]} or {PLACES[1]} beside {folder}/fanin")
    try:
        done = subprocess.run(
            [sys.executable, "-E", "-s", "-B", script, kind],
            input=text.encode(), stdout=subprocess.PIPE, timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise files.FileError(f"{script}: not done after {LIMIT_S} s") from None
    if done.returncode:
        raise files.FileError(f"{sys.executable} {script} ended with {done.returncode}")
    files.write(path, done.stdout.decode())
