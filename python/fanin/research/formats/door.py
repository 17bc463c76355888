# SPDX-License-Identifier: Apache-2.0
"""The forms of networks that are read, each known by what is in the file (doc/files.md).

A file is opened (gzip, zip and tar with one file in it), its form found, and read as a graph.
Modules that archives alone need are loaded for them.
"""

from __future__ import annotations

import io
import re
import zlib
from typing import Any, Callable, NamedTuple, Optional

from .. import files
from . import gml, graphml, host, infiniband, nodelink, simulators, slurm, sndlib, yaml
from .graph import Graph, Rate
from .network import FormatError, Network

BYTES_MAX = 64 << 20  # of a network
ARCHIVE_BYTES_MAX, MEMBERS_MAX = 64 << 20, 4096
UNPACKED_BYTES_MAX = 128 << 20
LINES_MAX, LINE_BYTES_MAX, YAML_BYTES_MAX = 1 << 21, 1 << 18, 1 << 20
LISTS_MAX, OBJECTS_MAX = 1 << 22, 1 << 20  # commas and { of JSON
HEAD_BYTES = 1 << 16


class Form(NamedTuple):
    """A row of networks or of traces.

    `of`: "json", "xml", "lines", "text" (lines do not matter), "yaml", "items" of JSON or "data".
    `is_it` asks the value of JSON or YAML, the name of XML's first element, a text, an item and the keys
    before it, or the data.  `read` takes the value, all items, a text, or the data: XML's as well.
    """

    name: str
    of: str
    is_it: Callable[..., bool]
    read: Callable[[Any], Any]


def _root(*names: str) -> Callable[[str], bool]:
    return lambda name: name in names


FORMS = (
    Form("node-link JSON", "json", nodelink.is_node_link, nodelink.read),
    Form("GraphML", "xml", _root("graphml", "graph"), graphml.read),
    Form("SNDlib XML", "xml", _root("network"), sndlib.read_xml),
    Form("NCCL topology XML", "xml", _root("system"), host.read),
    Form("SNDlib native", "lines", sndlib.is_native, sndlib.read_native),
    Form("ibnetdiscover", "lines", infiniband.is_ibnetdiscover, infiniband.read),
    Form("topology.conf of Slurm", "lines", slurm.is_conf, slurm.read_conf),
    Form("topology of HPCC or SimAI", "lines", simulators.is_text, simulators.read_text),
    Form("GML", "text", gml.is_gml, gml.read),
    Form("topology.yaml of Slurm", "yaml", slurm.is_yaml, slurm.read_yaml),
    Form("network of ASTRA-sim", "yaml", simulators.is_astra, simulators.read_astra),
    Form("containerlab", "yaml", simulators.is_containerlab, simulators.read_containerlab),
)
NAMES = ", ".join(["JSON", *(form.name for form in FORMS)])

# What is near: a pattern of the text, what it looks like, and what to do.
_NEAR = (
    (r"version https://git-lfs", "a pointer of Git LFS: fetch the file itself"),
    (r"SQLite format 3", "a database, as Nsight Systems writes it; torch.profiler writes JSON"),
    (r"<!doctype html|<html", "a page of the web"),
    (r"(?:strict\s+)?(?:di)?graph\b[^\[{]*\{", "graphviz's DOT; networkx writes it as GraphML"),
    (r"<(?:\w+:)?gexf\b", "GEXF; Gephi writes GraphML as well"),
    (r"<", "XML of another kind"),
    (r"(?:---\s*$|[\w-]+:(?:\s|$)|- \w)", "YAML of another kind"),
    (
        r"%%MatrixMarket|(?:[\w.]+[ \t,;]+){1,3}[\d.]+\s*$",
        "a list of edges; networkx writes it as GraphML",
    ),
    (r"[A-Za-z]\w* *=", "settings or Python"),
    (r"[\[{]", "JSON of another kind"),
)
BOM = b"\xef\xbb\xbf"
_YAML = re.compile(rb"(---|#|[\w-]+:(\s|$)|- )")
_TAG = re.compile(rb"<(?:[\w.-]+:)?([\w.-]+)")


# ---- archives ----


def _one(names: list[str]) -> str:
    if len(names) != 1:
        raise FormatError(f"an archive of {len(names)} files: expected one; unpack it")
    return names[0]


def _gunzip(data: bytes, most: int) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    found = stream.decompress(data, most + 1)
    if not stream.eof and len(found) <= most:
        raise FormatError("gzip that ends too early")
    return found


def _unzip(data: bytes, most: int) -> bytes:
    import zipfile

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        rows = [one for one in archive.infolist()[:MEMBERS_MAX] if not one.is_dir()]
        name = _one([one.filename for one in rows])
        if rows[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FormatError("zip: expected a file that is stored or deflated")
        with archive.open(name) as file:
            return file.read(most + 1)


def _untar(data: bytes, most: int) -> bytes:
    import tarfile

    found: list[tarfile.TarInfo] = []
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for _ in range(MEMBERS_MAX):
            one = archive.next()
            if one is None or len(found) > 1:
                break
            if one.isreg() and not one.issparse():
                found.append(one)
        _one([one.name for one in found])
        file = archive.extractfile(found[0])
        return file.read(most + 1) if file else b""


_ARCHIVES = ((0, b"\x1f\x8b", _gunzip), (0, b"PK\x03\x04", _unzip), (257, b"ustar", _untar))


def _take(take: Callable[[bytes, int], bytes], data: bytes, most: int) -> bytes:
    import tarfile
    import zipfile

    try:
        return take(data, most)
    except (zlib.error, EOFError, OSError, zipfile.BadZipFile, tarfile.TarError,
            RuntimeError, NotImplementedError, ValueError) as error:  # fmt: skip
        cause = str(error) or "it ends too early"
        raise FormatError(f"an archive that is broken: {cause}") from None


def opened(data: bytes, bytes_max: int = 0) -> bytes:
    """What is in an archive, or in one inside of that; other data as it is.

    At most so many bytes, BYTES_MAX unless another number is given."""
    most = bytes_max or BYTES_MAX
    for _ in range(2):
        for at, magic, take in _ARCHIVES:
            if data[at : at + len(magic)] == magic:
                packed_max = most if take is _untar else ARCHIVE_BYTES_MAX
                most = most if take is _untar else min(most, UNPACKED_BYTES_MAX)
                if len(data) > packed_max:
                    raise FormatError(f"an archive of more than {packed_max >> 20} MiB")
                data = _take(take, data, most)
                break
    if len(data) > most:
        raise FormatError(f"more than {most >> 20} MiB")
    return data


# ---- forms ----


def _decode_some(data: bytes) -> Any:
    """JSON of a network, which has no more values than one needs."""
    if data.count(b",") > LISTS_MAX or data.count(b"{") > OBJECTS_MAX or (
        data.count(b"[") > LISTS_MAX
    ):  # fmt: skip
        raise FormatError("more values than a network has")
    return files.parse(data)


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def near(data: bytes) -> str:
    """The end of an error: what it looks like."""
    text = _text(data[:HEAD_BYTES]).lstrip()
    if not text:
        return "it is empty"
    for pattern, what in _NEAR:
        if re.compile(pattern, re.M | re.I).match(text[:256]):
            return f"it looks like {what}"
    return "it looks like no text" if "\0" in text else "it looks like none of these"


def _find(data: bytes) -> Optional[Form]:
    """The form of what is no JSON."""
    if data.startswith(b"<"):
        found = _TAG.search(data[:HEAD_BYTES])
        name = found[1].decode("ascii", "replace") if found else ""
        return next((form for form in FORMS if form.of == "xml" and form.is_it(name)), None)
    text = _text(data[:HEAD_BYTES])
    return next((form for form in FORMS if form.of in ("lines", "text") and form.is_it(text)), None)


def _check_lines(data: bytes, bytes_max: int) -> None:
    if data.count(b"\n") > LINES_MAX:
        raise FormatError(f"more than {LINES_MAX} lines")
    if any(len(line) > bytes_max for line in io.BytesIO(data)):
        raise FormatError(f"a line of more than {bytes_max >> 10} KiB")


def _parts(data: bytes) -> tuple[Optional[Form], Any]:
    """The form, and what its reader reads; None: JSON in the form of network.py."""
    data = data.removeprefix(BOM).lstrip(b" \t\r\n")
    if data[:1] in (b"{", b"["):
        root = _decode_some(data)
        return (FORMS[0] if nodelink.is_node_link(root) else None), root
    form = _find(data)
    if form and form.of == "xml":
        return form, data
    if form:
        _check_lines(data, LINE_BYTES_MAX if form.of == "lines" else BYTES_MAX)
        return form, _text(data)
    if b"\0" not in data[:HEAD_BYTES] and _YAML.match(data):
        if len(data) > YAML_BYTES_MAX:
            raise FormatError(f"YAML of more than {YAML_BYTES_MAX >> 20} MiB")
        root = yaml.parse(_text(data))
        for form in FORMS:
            if form.of == "yaml" and form.is_it(root):
                return form, root
    raise FormatError(f"{near(data)}; networks are read as {NAMES}")


def is_unknown(data: bytes) -> bool:
    """Is it surely no network, before it is read?"""
    data = data.removeprefix(BOM).lstrip(b" \t\r\n")
    is_yaml = b"\0" not in data[:HEAD_BYTES] and _YAML.match(data)
    return data[:1] not in (b"{", b"[") and not is_yaml and _find(data) is None


def is_network(data: bytes) -> bool:
    """Is it a network in another form than JSON, or an archive?"""
    if any(data[at : at + len(magic)] == magic for at, magic, _ in _ARCHIVES):
        return True
    return data.removeprefix(BOM).lstrip(b" \t\r\n")[:1] not in (b"{", b"[")


def parse(data: bytes, rate: Rate) -> tuple[Any, str, list[str]]:
    """JSON that reader.py checks, the name of the form that was read, and what was left out.

    The name is "" for the JSON of network.py.  FormatError: it is no network."""
    form, value = _parts(opened(data))
    if form is None:
        return value, "", []
    graph: Graph = form.read(value)
    if not graph.nodes:
        raise FormatError(f"{form.name}: nodes: there is none: the file is blank")
    root = graph.to_json(rate)
    return root, form.name, graph.notes


def summary(network: Network, form: str, notes: list[str]) -> str:
    """A line for people about what was read: "GraphML: 5 switches; 6 links, 1 to 10 Gb/s"."""
    kinds = [node.kind for node in network.nodes]
    words = {"switch": "switches", "worker": "workers", "server": "servers"}
    counts = [f"{kinds.count(kind)} {word}" for kind, word in words.items() if kind in kinds]
    rates = [link.gbps for link in network.links] or [0.0]
    least, most = f"{min(rates):g}", f"{max(rates):g}"
    span = f"{least} to {most}" if least != most else most
    links = f"{len(network.links)} links, {span} Gb/s"
    return "; ".join([f"{form}: {', '.join(counts)}", links, *notes])
