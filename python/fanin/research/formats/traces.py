# SPDX-License-Identifier: Apache-2.0
"""The forms of traces, workloads and lists of jobs that are read, each known by what is in the file."""

from __future__ import annotations

from typing import Any, Optional, Union

from .. import files
from . import arrivals, chakra, door, execution, flight, profile, stream, workloads
from .arrivals import Arrivals
from .collectives import Trace
from .door import Form
from .network import FormatError

BYTES_MAX = files.BYTES_MAX  # of a trace, unpacked
ITEMS_MAX = 4096  # entries of a JSON by which it must be known
TEXT_MAX = 64 << 20


FORMS = (
    Form("PyTorch execution trace", "items", execution.is_execution, execution.read),
    Form("profile of torch.profiler", "items", profile.is_profile, profile.read),
    Form("flight recorder's dump", "items", flight.is_flight, flight.read),
    Form(
        "flight recorder's dump",
        "data",
        flight.is_pickle,
        lambda data: flight.read(flight.items_of_pickle(data)),
    ),
    Form("Chakra .et", "data", chakra.is_et, chakra.read_et),
    Form("Chakra messages as JSON", "items", chakra.is_messages, chakra.read_messages),
    Form("JSON of Chakra's feeder", "items", chakra.is_feeder, chakra.read_feeder),
    Form("workload of SimAI or ASTRA-sim", "text", workloads.is_text, workloads.read_text),
    Form("workload of AICB", "text", workloads.is_aicb, workloads.read_aicb),
    Form("jobs of Tiresias", "text", arrivals.is_csv, arrivals.read_csv),
    Form("jobs of Philly", "items", arrivals.is_philly, arrivals.read_philly),
)
NAMES = ", ".join(dict.fromkeys(form.name for form in FORMS))


def _is_json(data: bytes) -> bool:
    return data[:64].removeprefix(door.BOM).lstrip(b" \t\r\n")[:1] in (b"{", b"[")


def _of_items(data: bytes) -> Optional[Form]:
    keys: set[str] = set()
    forms = [form for form in FORMS if form.of == "items"]
    try:
        for count, item in enumerate(stream.items(data)):
            keys.add(item.key)
            for form in forms:
                if form.is_it(item, keys):
                    return form
            if count == ITEMS_MAX:
                break
    except FormatError:
        pass  # whoever reads it says what is wrong
    return None


def find(data: bytes) -> Optional[Form]:
    """The form of a file that is open already; None: it is no trace."""
    head = data[: door.HEAD_BYTES]
    text = "" if b"\0" in head else head.removeprefix(door.BOM).decode("utf-8", "replace")
    for form in FORMS:
        if form.of == "data" and form.is_it(head) or form.of == "text" and form.is_it(text):
            return form
    return _of_items(data) if _is_json(data) else None


def parse(data: bytes) -> tuple[Union[Trace, Arrivals], str]:
    """What a file has, and the name of its form.  FormatError: it is none."""
    data = door.opened(data, BYTES_MAX)
    form = find(data)
    if form is None:
        if _is_json(data):
            for _ in stream.items(data):
                pass  # says where it is no JSON
        raise FormatError(f"{door.near(data)}; traces are read as {NAMES}")
    if form.of == "items":
        value: Any = stream.items(data)
    elif form.of == "text":
        if len(data) > TEXT_MAX:
            raise FormatError(f"{form.name}: more than {TEXT_MAX >> 20} MiB")
        value = data.removeprefix(door.BOM).decode("utf-8", "replace")
    else:
        value = data
    try:
        return form.read(value), form.name
    except FormatError as error:
        raise FormatError(f"{form.name}: {error}") from None
