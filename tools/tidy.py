#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy, but for files in which it found nothing when they were what they are now.

    tidy.py BUILD CACHE FILE... -- OPTION...

What a file is: what the preprocessor makes of it, comments included since NOLINT is one, for each of
its commands in BUILD/compile_commands.json; with the options, .clang-tidy and the tool's version.  CACHE
is a folder of empty files, as many as FILEs at most.
"""

import hashlib
import json
import os
import shlex
import subprocess
import sys

NOT_FOR_US = {"-c", "-MD"}  # words of a compiler's command
NOT_WITH_NEXT = {"-o", "-MQ", "-MF"}


def preprocessor(entry):
    """A compiler's command as one that preprocesses."""
    words, result = iter(shlex.split(entry["command"])), []
    for word in words:
        if word in NOT_WITH_NEXT:
            next(words)
        elif word not in NOT_FOR_US:
            result.append(word)
    return result + ["-E", "-C"]


def commands(build):
    """Entries of the build by file."""
    found = {}
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        for entry in json.load(file):
            path = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
            found.setdefault(path, []).append(entry)
    return found


def key_of(entries, salt):
    """None: it does not compile, and clang-tidy will say why."""
    key = hashlib.sha256(salt)
    for entry in entries:
        done = subprocess.run(
            preprocessor(entry), cwd=entry["directory"], capture_output=True, check=False
        )
        if done.returncode:
            return None
        key.update(done.stdout)
    return key.hexdigest() if entries else None


def main(build, cache, files, options):
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    with open(".clang-tidy", "rb") as config:
        salt = version + config.read() + "\0".join(options).encode()
    os.makedirs(cache, exist_ok=True)
    by_file, kept, tried, bad = commands(build), set(), 0, False
    for file in files:
        key = key_of(by_file.get(os.path.realpath(file), []), salt)
        if key and os.path.exists(os.path.join(cache, key)):
            kept.add(key)
            continue
        tried += 1
        done = subprocess.run(["clang-tidy", "--quiet", "-p", build, *options, file], check=False)
        if done.returncode:
            bad = True
        elif key:
            with open(os.path.join(cache, key), "w", encoding="utf-8"):
                kept.add(key)
    for name in os.listdir(cache):
        if name not in kept:
            os.unlink(os.path.join(cache, name))
    print("%d files, %d of them new or changed" % (len(files), tried))
    return 1 if bad else 0


if __name__ == "__main__":
    if "--" not in sys.argv[3:]:
        sys.exit(__doc__)
    END = sys.argv.index("--")
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:END], sys.argv[END + 1 :]))
