# SPDX-License-Identifier: Apache-2.0
"""Files that are written anew, so that whoever reads one finds it whole."""

from __future__ import annotations

import os
import stat
from typing import Callable


def renew(path: str, text: str) -> None:
    """Write PATH.new, and make it the file.  What stands at `path` has to be a regular file, or
    nothing; links are followed at neither name.  OSError: the file is as it was."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError(0, "expected a regular file, or none")
    except FileNotFoundError:
        pass
    new = path + ".new"
    try:
        os.unlink(new)  # of a program that was killed, or laid there by somebody
    except FileNotFoundError:
        pass
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(new, flags, 0o666)
    try:
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(new, path)
    except OSError:
        os.unlink(new)
        raise


class Kept:
    """A file of an option that is written again and again; the first failure and the recovery are
    logged."""

    def __init__(self, option: str, path: str, log: Callable[[str], None], again_s: float) -> None:
        self._option, self._path, self._log, self._again_s = option, path, log, again_s
        self._failed = False
        self._text = ""

    def write(self, text: str) -> bool:
        """Write it unless it is there already; False: it could not be."""
        if text == self._text and not self._failed:
            return True
        try:
            renew(self._path, text + "\n")
        except OSError as error:
            if not self._failed:
                self._log(
                    f"--{self._option}: {self._path}: {error.strerror}; it is tried again every "
                    f"{self._again_s:g} s"
                )
            self._failed = True
            return False
        if self._failed:
            self._log(f"--{self._option}: it is written again")
        self._failed, self._text = False, text
        return True
