# SPDX-License-Identifier: Apache-2.0
"""The status files of the processes of this host (src/lib/base/rank_file.h): found, had written
anew, and read.

A file counts only if it belongs to the user whose folder it lies in, and that user is the reader
or the reader is root.
"""

from __future__ import annotations

import os
import re
import stat
import time

from .. import shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

FILE_BYTES = 4 << 20
USER_BYTES = 16 << 20  # of all files of a user: some are hostile, to root
FILES_MAX = 8192  # of a user
RANKS_MAX = 32768  # of a host
FRESH_S = 0.25  # a file so young is not written anew
WAIT_S = 2.0  # for processes to write theirs
LOOK_S = 0.005  # between looks whether they have, growing to
LOOK_MOST_S = 0.02
AWAY_S = 0.3  # for those of other namespaces, which may have ended
LEFT_S = 60.0  # a part of a file so old is of a process that was killed
WATCH = "watch"
_NAME = re.compile(r"([0-9]{1,10})-([0-9]{1,20})-([0-9]{1,20})(\.new)?", re.ASCII)
_ENDED = (b"Z", b"X")  # states of processes for which nobody has waited
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class Folder:
    """An open folder of one user: its descriptor and the user's number; its files, each with the
    time at which it was written, and those of them that are to be written anew; bytes read."""

    def __init__(self, fd: int, uid: int) -> None:
        self.fd = fd
        self.uid = uid
        self.before: dict[str, float] = {}
        self.waits: set[str] = set()
        self.bytes_read = 0


def _paths(uid: int) -> Iterator[tuple[str, int | None]]:
    """Where folders of status files may be, and whose each has to be; None: the reader's."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        yield runtime + "/fanin", None
    if uid:
        yield f"/run/user/{uid}/fanin", None
        yield f"/tmp/fanin-{uid}", None
        return
    for parent, form, tail in (("/run/user", "", "/fanin"), ("/tmp", "fanin-", "")):
        try:
            names = os.listdir(parent)
        except OSError:
            continue
        for name in names:
            number = name[len(form) :] if name.startswith(form) else ""
            if number.isascii() and number.isdigit() and len(number) <= 10:
                yield f"{parent}/{name}{tail}", int(number)


def open_trusted(path: str, flags: int, uids: tuple[int, ...], folder: int | None = None) -> int:
    """Open what belongs to one of these users, following no link; -1: it is not there, or not so."""
    try:
        fd = os.open(path, flags | _FLAGS, dir_fd=folder)
    except OSError:
        return -1
    if os.fstat(fd).st_uid in uids:
        return fd
    os.close(fd)
    return -1


def folders() -> list[Folder]:
    """All folders that this user may trust."""
    found: list[Folder] = []
    seen = set()
    for path, owner in _paths(os.geteuid()):
        owners = (os.geteuid(),) if owner is None else (owner,)
        fd = open_trusted(path, os.O_RDONLY | os.O_DIRECTORY, owners)
        if fd < 0:
            continue
        about = os.fstat(fd)
        if (about.st_dev, about.st_ino) in seen or about.st_mode & 0o022:
            os.close(fd)
            continue
        seen.add((about.st_dev, about.st_ino))
        found.append(Folder(fd, about.st_uid))
    return found


def _names(folder: Folder) -> dict[str, float]:
    """The status files of a folder, with the time at which each was written; 0: it never was."""
    found: dict[str, float] = {}
    with os.scandir(folder.fd) as entries:
        for entry, _ in zip(entries, range(FILES_MAX)):
            if _NAME.fullmatch(entry.name):
                try:
                    about = entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # gone since
                found[entry.name] = about.st_mtime if about.st_size else 0.0
    return found


def _wake(folder: Folder) -> None:
    """Have all processes write: a byte in the FIFO, which is emptied before."""
    fd = open_trusted(WATCH, os.O_RDWR, (folder.uid,), folder.fd)
    if fd < 0:
        return
    try:
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            try:
                os.read(fd, 1 << 16)
            except BlockingIOError:
                pass  # it is empty
            os.write(fd, b"?")
    except OSError:
        pass
    finally:
        os.close(fd)


def _here() -> int:
    """The number of this process's namespace of processes."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _life(name: str, here: int) -> bool | None:
    """Is the process alive whose file has this name, PID-START-NAMESPACE?  None: it is of another
    namespace than this one, so that cannot be seen."""
    match = _NAME.fullmatch(name)
    if not match or int(match[3]) != here:
        return None
    try:
        with open(f"/proc/{int(match[1])}/stat", "rb") as file:
            state, *rest = file.read().rpartition(b")")[2].split()
        return state not in _ENDED and int(rest[18]) == int(match[2])
    except (OSError, ValueError, IndexError):
        return False


def read_file(folder: Folder, name: str) -> dict[str, Any] | None:
    """What the file says, checked; None: it is not one that is believed."""
    fd = open_trusted(name, os.O_RDONLY, (folder.uid,), folder.fd)
    if fd < 0:
        return None
    try:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode) or about.st_size > FILE_BYTES:
            return None
        folder.bytes_read += about.st_size
        if folder.bytes_read > USER_BYTES and folder.uid != os.geteuid():
            return None
        with open(fd, "rb", closefd=False) as file:
            told = shape.load(file.read(FILE_BYTES + 1), shape.PROCESS)
        assert isinstance(told, dict)
        return told
    except (OSError, shape.Bad):
        return None
    finally:
        os.close(fd)


def _remove(folder: Folder, name: str) -> None:
    """Remove a file of this user."""
    if folder.uid == os.geteuid():
        try:
            os.unlink(name, dir_fd=folder.fd)
        except OSError:
            pass


def _clean(folder: Folder, names: dict[str, float], here: int) -> dict[str, float]:
    """The files of processes that may live; the others' are removed."""
    now = time.time()
    kept = {}
    for name, written in names.items():
        is_part = name.endswith(".new")
        if _life(name, here) is False or (is_part and not 0 <= now - written < LEFT_S):
            _remove(folder, name)
        elif not is_part:
            kept[name] = written
    return kept


def _begin(folder: Folder, here: int) -> None:
    """Note which files of a folder there are, and have old ones written anew."""
    folder.before = _clean(folder, _names(folder), here)
    now = time.time()
    folder.waits = {name for name, at in folder.before.items() if not 0 <= now - at < FRESH_S}
    _wake(folder)


def _finish(folder: Folder, here: int, begin: float) -> dict[str, bool]:
    """Wait until they are; which files there are then, True: it is still old."""
    names = _names(folder)
    away = {name for name in folder.waits if not name.endswith(f"-{here}")}
    look_s = LOOK_S
    while True:
        folder.waits = {n for n in folder.waits if names.get(n) == folder.before[n]}
        patience = AWAY_S if folder.waits <= away else WAIT_S
        if not folder.waits or time.monotonic() > begin + patience:
            break
        time.sleep(look_s)
        look_s = min(2 * look_s, LOOK_MOST_S)
        names = _names(folder)
    for name in folder.waits & away:
        _remove(folder, name)
        del names[name]
    old = {name: at for name, at in names.items() if name in folder.waits}
    lives = _clean(folder, old, here)  # some may have been killed meanwhile
    whole = [name for name in names if not name.endswith(".new")]
    return {name: name in old for name in whole if name not in old or name in lives}


def _take_from_columns(ranks: list[dict[str, Any]]) -> None:
    """What goes between hosts is the work of a rank of its own, the column: what that knows belongs
    to the rank of the same process."""
    by_place = {(r["job"], r["rank"]): r for r in ranks if not r["column"]}
    for column in ranks:
        rank = by_place.get((column["job"], column["rank"])) if column["column"] else None
        if rank:
            for key in ("parts", "places", "of"):
                if key in column:
                    rank[key] = column[key]
            rank["stats_net"] = column["stats"]


def _add(found: dict[str, Any], folder: Folder, told: dict[str, Any]) -> None:
    """Add the ranks of one process."""
    room = RANKS_MAX - len(found["ranks"])
    ranks = told["ranks"][:room]
    found["left_out"] += told["more"] + len(told["ranks"]) - len(ranks)
    _take_from_columns(ranks)
    about = {"pid": told["pid"], "uid": folder.uid, "program": told["program"]}
    found["ranks"] += [{**rank, **about} for rank in ranks]


def collect() -> dict[str, Any]:
    """What the ranks of this host do: {"host", "ranks", "silent": processes that do not write,
    "left_out": ranks beyond the bounds}."""
    found: dict[str, Any] = {"host": os.uname().nodename, "ranks": [], "silent": [], "left_out": 0}
    here = _here()
    begin = time.monotonic()
    trusted = folders()
    for folder in trusted:
        _begin(folder, here)
    for folder in trusted:
        for name, is_old in _finish(folder, here, begin).items():
            told = None if is_old else read_file(folder, name)
            if is_old:
                found["silent"].append(int(name.partition("-")[0]))
            elif told is not None:
                _add(found, folder, told)
        os.close(folder.fd)
    return found
