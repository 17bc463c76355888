# SPDX-License-Identifier: Apache-2.0
"""libfanin with the libraries that it needs, in a folder that goes to a machine without them.

glibc is not among them: the other machine's must be as new as `glibc` of pack.json.
"""

import hashlib
import json
import lzma
import platform
import re
import shutil
import struct
import subprocess
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SONAME = "libfanin.so.0"
PLUGIN = "libnccl-net-fanin.so"
NCCL = "libnccl.so.2"
NCCL_PACKED = NCCL + ".xz"
GPU = 90  # of the machine: sm_90, Hopper
FACTS = "pack.json"
MIB_MAX = 64  # of the repository's files and the pack
# Of glibc; what gcc links is there wherever PyTorch is.
LEFT = re.compile(r"^(linux-vdso|ld-linux|libc|libm|libpthread|libdl|librt|libgcc_s)\b")


class PackError(Exception):
    """There will be no pack, and why."""


def said(*command, folder=None):
    """What a command prints."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    except OSError as error:
        raise PackError(f"{command[0]}: {error.strerror}") from None
    if done.returncode:
        raise PackError(f"{' '.join(map(str, command))}: {(done.stderr + done.stdout).strip()}")
    return done.stdout


def sources():
    """A hash of what libfanin is built from."""
    found = hashlib.sha256()
    folders = [ROOT / "src", ROOT / "include"]
    files = [
        one for folder in folders for one in folder.rglob("*") if one.suffix in (".c", ".h", ".map")
    ]
    for one in sorted([*files, ROOT / "meson.build", *(ROOT / "src").rglob("meson.build")]):
        found.update(f"{one.relative_to(ROOT)}\n".encode() + one.read_bytes())
    return found.hexdigest()[:16]


def revision():
    """Of the checkout, with a word if it was changed since; None: no git is here."""
    try:
        commit = said("git", "rev-parse", "HEAD", folder=ROOT).strip()
        changed = said("git", "status", "--porcelain", "--untracked-files=no", folder=ROOT)
    except PackError:
        return None
    return commit + " and changes" * bool(changed.strip())


def needed(library):
    """Files of the libraries that `library` needs, by the name that it asks for."""
    found = {}
    for line in said("ldd", library).splitlines():
        if match := re.match(r"\s*(\S+) => (\S+)", line):
            name, path = match.groups()
            if path == "not":
                raise PackError(f"{library}: needs {name}, which is not here")
            if not LEFT.match(name):
                found[name] = Path(path)
    return found


def glibc(files):
    """The newest version of glibc that any of these asks for."""
    text = "".join(said("readelf", "--wide", "--version-info", one) for one in files)
    versions = {tuple(map(int, one)) for one in re.findall(r"\bGLIBC_(\d+)\.(\d+)", text)}
    return ".".join(map(str, max(versions)))


def tracked_bytes():
    """Of the files that git has of this checkout; 0 without git."""
    try:
        names = said("git", "ls-files", "-z", folder=ROOT).split("\0")
    except PackError:
        return 0
    files = [ROOT / name for name in names if name]
    return sum(one.stat().st_size for one in files if one.is_file())


def nccl_of(path):
    """The bytes of NCCL's library: of a file, or of one of PyPI's wheels."""
    if not zipfile.is_zipfile(path):
        return bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as wheel:
        names = [name for name in wheel.namelist() if name.endswith("/" + NCCL)]
        if len(names) != 1:
            raise PackError(f"{path}: has no {NCCL}: expected a wheel of nvidia-nccl-cu13 or -cu12")
        return bytearray(wheel.read(names[0]))


def sections(image):
    """Name, offset and bytes of the sections of an ELF file of 64 bits, as its headers say."""
    (at,) = struct.unpack_from("<Q", image, 40)
    size, count, names = struct.unpack_from("<3H", image, 58)
    heads = [struct.unpack_from("<IIQQQQ", image, at + i * size) for i in range(count)]
    for name, _, _, _, offset, length in heads:
        begin = heads[names][4] + name
        yield bytes(image[begin : image.index(0, begin)]).decode(), offset, length


def slim(image, gpu=GPU):
    """Make nothing of the machine code of other GPUs; places and sizes stay as they are.  Returns how
    many programs were kept.  A fat binary is a head (magic, version, bytes of the head, bytes after it)
    and programs, each with a head of its own: kind, version, bytes of the head, bytes after it, and at
    28 the GPU."""
    kept = 0
    for name, at, length in sections(image):
        if name not in (".nv_fatbin", "__nv_relfatbin"):
            continue
        end = at + length
        while at + 16 <= end:
            magic, _, head, size = struct.unpack_from("<IHHQ", image, at)
            if magic != 0xBA55ED50:
                at += 8
                continue
            at += head
            binary_end = at + size
            if binary_end > end:
                raise PackError(f"{NCCL}: a fat binary at {at} goes beyond its section")
            while at < binary_end:
                head, size, of = struct.unpack_from("<4xIQ12xI", image, at)
                if at + head + size > binary_end or head < 32:
                    raise PackError(f"{NCCL}: a program at {at} goes beyond its fat binary")
                if of != gpu:
                    image[at + head : at + head + size] = bytes(size)
                kept += of == gpu
                at += head + size
    if not kept:
        raise PackError(f"{NCCL}: has no machine code for sm_{gpu}")
    return kept


def pack_nccl(folder, path):
    """Put NCCL's library into `folder`, of code for one GPU; in words."""
    image = nccl_of(path)
    kept = slim(image)
    packed = lzma.compress(bytes(image), preset=1)
    (folder / NCCL_PACKED).write_bytes(packed)
    return f"{NCCL}: {kept} programs for sm_{GPU}, {len(packed) / 2**20:.1f} MiB"


def unpack_nccl(packed, folder):
    """NCCL's library of a pack, in `folder`; None: it has none."""
    path = packed / NCCL_PACKED
    if not path.exists():
        return None
    (folder / NCCL).write_bytes(lzma.decompress(path.read_bytes()))
    return folder / NCCL


def pack(folder, build, nccl=None):
    """Fill `folder` from a build folder, and from a file with NCCL; what it now has, in words."""
    if not (build / "build.ninja").exists():
        raise PackError(
            f"{build}: no build folder: meson setup {build}, or BUILD=... names another"
        )
    version = re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text()).group(1)
    built = f"src/libfanin.so.{version}"
    plugin = f"src/nccl/{PLUGIN}"
    said("ninja", "-C", build, built, plugin)
    library = build / built
    folder.mkdir(parents=True, exist_ok=True)
    made = {SONAME: library, PLUGIN: build / plugin}
    for name, path in {**made, **needed(library)}.items():
        shutil.copy(path.resolve(), folder / name)
    (folder / NCCL_PACKED).unlink(missing_ok=True)
    words = [pack_nccl(folder, nccl)] if nccl else []
    files = sorted(one for one in folder.iterdir() if ".so" in one.name and one.name != NCCL_PACKED)
    facts = {
        "revision": revision(),
        "sources": sources(),
        "machine": platform.machine(),
        "glibc": glibc(files),
        "files": [one.name for one in files],
    }
    (folder / FACTS).write_text(json.dumps(facts, indent=2) + "\n")
    mib = [sum(one.stat().st_size for one in folder.iterdir()) / 2**20, tracked_bytes() / 2**20]
    if sum(mib) > MIB_MAX:
        raise PackError(
            f"{folder}: {mib[0]:.1f} MiB, and {mib[1]:.1f} of the repository: over {MIB_MAX}"
        )
    return (
        "\n".join(words)
        + "\n" * len(words)
        + (
            f"{folder}: {', '.join(facts['files'])}: {mib[0]:.1f} MiB, and {mib[1]:.1f} of the "
            f"repository; for {facts['machine']} with glibc {facts['glibc']} or newer"
        )
    )


def facts_of(folder):
    """Of a pack; {}: `folder` is None or none."""
    try:
        return json.loads((folder / FACTS).read_text()) if folder else {}
    except (OSError, ValueError):
        return {}


def problem(folder):
    """Why a pack is not for this checkout and machine; "": it is."""
    facts = facts_of(folder)
    if not facts:
        return f"{folder}: no pack: expected what gpu-check --pack makes"
    if facts["machine"] != platform.machine():
        return f"{folder}: is for {facts['machine']}, this machine is {platform.machine()}"
    if facts["sources"] != sources():
        return f"{folder}: was packed from other sources: expected those of this checkout"
    return ""
