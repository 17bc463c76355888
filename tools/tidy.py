#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy, but for files in which it found nothing when they were what they are now.

It gets AT_ONCE files at a time, since beginning takes 0.03 s of the processor; where it finds something, again one by
one.  clang 14 knows va_start in the first of them alone, so that a file that has VARIADIC comes first.

    tidy.py BUILD CACHE FILE... -- OPTION...

What a file is: its text and that of all that it may include, of the system as well, for each of its commands in
BUILD/compile_commands.json; with the command, the options, .clang-tidy and the tool's version.  CACHE is a folder of
empty files, as many as FILEs at most.
"""

import functools
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys

AT_ONCE = 16
VARIADIC = re.compile(rb"\bva_|\bv\w*(printf|scanf)\b")
INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include(?:_next)?[ \t]*(["<])([^">\n]+)', re.MULTILINE)
SYSTEM = ["/usr/include", "/usr/include/x86_64-linux-gnu"]  # what clang-tidy brings has its version


@functools.lru_cache(maxsize=None)
def read(path):
    """What a file includes, and its digest; None: it is not there."""
    try:
        with open(path, "rb") as file:
            text = file.read()
    except (FileNotFoundError, IsADirectoryError):
        return None
    return INCLUDE.findall(text), hashlib.sha256(text).digest()


@functools.lru_cache(maxsize=None)
def included(path, folders):
    """Paths of what one file may include by itself."""
    found = []
    for mark, name in read(path)[0]:
        own = (os.path.dirname(path),) if mark == b'"' else ()
        paths = (os.path.normpath(os.path.join(f, name.decode())) for f in own + folders)
        found += [next((p for p in paths if read(p)), None)]
    return [path for path in found if path]


def texts(entry):
    """All files that the compiler may read for an entry."""
    words = shlex.split(entry["command"])
    ways = [word[2:] for word in words if word.startswith("-I")]
    ways += [word[8:] or after for word, after in zip(words, words[1:]) if word[:8] == "-isystem"]
    folders = tuple(os.path.join(entry["directory"], way) for way in ways) + tuple(SYSTEM)
    rest, seen = [os.path.normpath(os.path.join(entry["directory"], entry["file"]))], set()
    while rest:
        path = rest.pop()
        if path not in seen:
            seen.add(path)
            rest += included(path, folders)
    return seen


def commands(build):
    """Entries of the build by file."""
    found = {}
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        for entry in json.load(file):
            path = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
            found.setdefault(path, []).append(entry)
    return found


def key_of(entries, salt):
    """None: no command compiles it."""
    key = hashlib.sha256(salt)
    for entry in entries:
        key.update(entry["command"].encode())
        for path in sorted(texts(entry)):
            key.update(path.encode() + read(path)[1])
    return key.hexdigest() if entries else None


def clean(command, files, **output):
    """Does clang-tidy find nothing in them?"""
    return subprocess.run([*command, *files], check=False, **output).returncode == 0


def batches(files):
    """AT_ONCE of them in each at most, and one that is variadic."""
    first, others = [], []
    for file in files:
        with open(file, "rb") as text:
            (first if VARIADIC.search(text.read()) else others).append(file)
    while first or others:
        some = [first.pop()] if first else []
        room = AT_ONCE - len(some)
        yield some + others[:room]
        others = others[room:]


def main(build, cache, files, options):
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    with open(".clang-tidy", "rb") as config:
        salt = version + config.read() + "\0".join(options).encode()
    os.makedirs(cache, exist_ok=True)
    by_file = commands(build)
    keys = {file: key_of(by_file.get(os.path.realpath(file), []), salt) for file in files}
    new = [f for f in files if not (keys[f] and os.path.exists(os.path.join(cache, keys[f])))]
    command, bad = ["clang-tidy", "--quiet", "-p", build, *options], set()
    for some in batches(new):
        if not clean(command, some, capture_output=True):
            bad.update(file for file in some if not clean(command, [file]))
        for key in (keys[file] for file in some if file not in bad and keys[file]):
            with open(os.path.join(cache, key), "w", encoding="utf-8"):
                pass
    kept = set(keys.values())
    for name in os.listdir(cache):
        if name not in kept:
            os.unlink(os.path.join(cache, name))
    print("%d files, %d of them new or changed" % (len(files), len(new)))
    return 1 if bad else 0


if __name__ == "__main__":
    if "--" not in sys.argv[3:]:
        sys.exit(__doc__)
    END = sys.argv.index("--")
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:END], sys.argv[END + 1 :]))
