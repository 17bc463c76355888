# SPDX-License-Identifier: Apache-2.0
"""The file that a later run goes on from.

A line of magic, a line with the SHA-256 of all that follows, a line of JSON with the facts, and
torch.save of the tensors, which is read without running any code that a pickle may contain.
The file is replaced in one go, so that a crash leaves the old one or the new one.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
from pathlib import Path
from typing import Any

import torch

from . import FAILED, ExampleError

MAGIC = b"fanin: checkpoint of train_fashion_mnist, format 1\n"
DIGEST_BYTES = 64
BYTES_MAX = 1 << 30

Content = dict[str, Any]


def encode(facts: Content, tensors: Content) -> bytes:
    """The whole file.  `tensors` are those, and lists and dicts of them; `facts` all the rest."""
    held = io.BytesIO()
    torch.save(tensors, held)
    payload = json.dumps(facts).encode() + b"\n" + held.getvalue()
    return MAGIC + hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload


def decode(data: bytes, path: str, wanted: dict[str, type]) -> Content:
    """Facts and tensors, which must have the keys of `wanted` with those types."""
    if not data.startswith(MAGIC):
        raise ExampleError(f"{path}: not a checkpoint of this program (or of another version)")
    begin = len(MAGIC) + DIGEST_BYTES + 1
    digest, payload = data[len(MAGIC) : begin - 1], data[begin:]
    if hashlib.sha256(payload).hexdigest().encode() != digest:
        raise ExampleError(
            f"{path}: damaged, its checksum is wrong; go on from a copy, or "
            f"start without --resume"
        )
    try:
        facts, _, tensors = payload.partition(b"\n")
        content = dict(json.loads(facts))
        content.update(torch.load(io.BytesIO(tensors), weights_only=True))
    except (RuntimeError, pickle.UnpicklingError, ValueError, TypeError, EOFError) as error:
        raise ExampleError(f"{path}: cannot be read: {error}") from error
    for key, kind in wanted.items():
        if not isinstance(content.get(key), kind):
            raise ExampleError(f'{path}: has no "{key}" of type {kind.__name__}')
    return content


def write(path: str, data: bytes) -> None:
    """Replace the file; the old one stays whole until the new one is on disk."""
    part = Path(path + ".part")
    try:
        with open(part, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        folder = os.open(Path(path).resolve().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ExampleError(f"{path}: cannot be written: {error.strerror}", FAILED) from error


def read(path: str) -> bytes | None:
    """What write() wrote; None if there is no such file."""
    try:
        with open(path, "rb") as file:
            data = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ExampleError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > BYTES_MAX:
        raise ExampleError(f"{path}: larger than any checkpoint of this program")
    return data


def differences(own: dict[str, Any], other: dict[str, Any]) -> str:
    """What of two sets of settings is not the same, as text for the user; "" if nothing."""
    return ", ".join(
        f"{name} is {own.get(name)} here and {other.get(name)} there"
        for name in sorted(own.keys() | other.keys())
        if own.get(name) != other.get(name)
    )
