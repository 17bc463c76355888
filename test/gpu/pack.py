# SPDX-License-Identifier: Apache-2.0
"""libfanin with the libraries that it needs, in a folder that goes to a machine without them.

glibc is not among them: the other machine's must be as new as `glibc` of pack.json.
"""

import hashlib
import json
import platform
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SONAME = "libfanin.so.0"
PLUGIN = "libnccl-net-fanin.so"
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


def pack(folder, build):
    """Fill `folder` from a build folder; what it now has, in words."""
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
    files = sorted(one for one in folder.iterdir() if ".so" in one.name)
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
        f"{folder}: {', '.join(facts['files'])}: {mib[0]:.1f} MiB, and {mib[1]:.1f} of the "
        f"repository; for {facts['machine']} with glibc {facts['glibc']} or newer"
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
