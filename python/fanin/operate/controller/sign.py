# SPDX-License-Identifier: Apache-2.0
"""Signed lines, as doc/controller.md has them, and the file of their keys.

One `Signer` for each connection, of the side that is dialled.
"""

from __future__ import annotations

import base64
import hmac
import os
import re
import stat
from typing import List, Optional, Tuple

from .model import Wrong

KEYS_MAX = 2
KEY_BYTES = 32
FILE_BYTES_MAX = 4096
NONCE_BYTES = 16
MAC_CHARS = 32
CLEAR = (
    '{"refused":"lines are signed here: expected a key, --controller-key or '
    'FANIN_CONTROLLER_KEY_FILE"}'
)
FORGED = '{"refused":"this line is not signed with a key of the controller\'s"}'
_nonce = re.compile(rb'\{"nonce":"([0-9a-f]{32})"\}')


class Unsigned(Exception):
    """A line is not signed as it has to be; the text is the answer, in clear."""


def _hmac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")


def _hkdf(key: bytes, salt: bytes, info: bytes) -> bytes:
    """The first 32 bytes of HKDF-SHA-256."""
    return _hmac(_hmac(salt, key), info + b"\x01")


class Signer:
    """Signs lines to who dials, and checks those from there."""

    def __init__(self, keys: List[bytes]) -> None:
        self._keys = keys
        self._ours = os.urandom(NONCE_BYTES)
        self._theirs: Optional[bytes] = None
        self._up = self._down = b""
        self._taken = self._signed = 0
        self.is_sure = False  # a line was right, so lines may be sent

    def _derive(self, key: bytes) -> None:
        salt = (self._theirs or b"") + self._ours
        self._up = _hkdf(key, salt, b"fanin lines up")
        self._down = _hkdf(key, salt, b"fanin lines down")

    @staticmethod
    def _mac(key: bytes, number: int, text: bytes) -> bytes:
        whole = _hmac(key, number.to_bytes(8, "little") + _hmac(key, text))
        return whole[: MAC_CHARS // 2].hex().encode()

    def sign(self, text: bytes) -> bytes:
        """The line to send."""
        mac = self._mac(self._down, self._signed, text)
        self._signed += 1
        return mac + b" " + text

    def take(self, line: bytes) -> Tuple[Optional[bytes], Optional[bytes]]:
        """What a line says, if anything, and what is answered at once; Unsigned: it is not signed
        with a key."""
        if self._theirs is None:
            found = _nonce.fullmatch(line)
            if not found:
                raise Unsigned(CLEAR)
            self._theirs = bytes.fromhex(found[1].decode())
            self._derive(self._keys[0])
            return None, b'{"nonce":"' + self._ours.hex().encode() + b'"}'
        mac, blank, text = line[:MAC_CHARS], line[MAC_CHARS : MAC_CHARS + 1], line[MAC_CHARS + 1 :]
        if blank != b" " or not re.fullmatch(rb"[0-9a-f]*", mac):
            raise Unsigned(CLEAR)
        if not self._is_right(mac, text):
            raise Unsigned(FORGED)
        self.is_sure = True
        self._taken += 1
        return text, None

    def _is_right(self, mac: bytes, text: bytes) -> bool:
        """Is it signed with a key?  The first right line decides which one."""
        if hmac.compare_digest(mac, self._mac(self._up, self._taken, text)):
            return True
        for key in self._keys[1:] if not self.is_sure else []:
            self._derive(key)
            if hmac.compare_digest(mac, self._mac(self._up, self._taken, text)):
                return True
        return False


# ---- the file ----


def _open(path: str) -> int:
    """A regular file of this user or root, of which nobody else has anything."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise Wrong(f"{path}: {error.strerror}") from None
    found = os.fstat(fd)
    mode, why = found.st_mode, ""
    if not stat.S_ISREG(mode):
        why = "expected a regular file"
    elif mode & 0o077:
        why = (
            f"others have access to it (mode {mode & 0o7777:04o}); expected 0600: chmod 600 {path}"
        )
    elif found.st_uid not in (0, os.geteuid()):
        why = (
            f"it belongs to user {found.st_uid}, who can change it; expected a file of user "
            f"{os.geteuid()} or root"
        )
    if why:
        os.close(fd)
        raise Wrong(f"{path}: {why}")
    return fd


def _key(line: str) -> Optional[bytes]:
    is_hex = len(line) == 2 * KEY_BYTES
    try:
        key = bytes.fromhex(line) if is_hex else base64.b64decode(line, validate=True)
    except ValueError:
        return None
    is_whole = is_hex or base64.b64encode(key).decode() == line
    return key if is_whole and len(key) == KEY_BYTES and any(key) else None


def read_keys(path: str) -> List[bytes]:
    """One or two keys, a line each; Wrong: the file is not as it has to be."""
    with open(_open(path), "rb") as file:
        text = file.read(FILE_BYTES_MAX + 1)
    if len(text) > FILE_BYTES_MAX:
        raise Wrong(f"{path}: expected a file of at most {FILE_BYTES_MAX} bytes")
    keys: List[bytes] = []
    for number, line in enumerate(text.decode("latin-1").split("\n"), 1):
        line = line.rstrip("\r ")
        if not line or line.startswith("#"):
            continue
        key = _key(line)
        if len(keys) == KEYS_MAX:
            raise Wrong(f"{path}:{number}: expected at most {KEYS_MAX} keys")
        if key is None:
            raise Wrong(
                f"{path}:{number}: {len(line)} characters: expected a key of {2 * KEY_BYTES} "
                "hexadecimal digits or 44 characters of base64, not all zero; `fanin key new` "
                "makes one"
            )
        keys.append(key)
    if not keys:
        raise Wrong(f"{path}: there is no key in it; `fanin key new` makes one")
    return keys
