"""Files in the user's cache folder, each named by the digest of everything that its content was derived from."""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import stat
import tempfile
from pathlib import Path
from typing import Any, Final

from cli.cache.program import program_digest

VARIABLE: Final = "FLEETWRIGHT_CACHE_DIR"
"""Environment variable with another cache folder; empty to disable caching."""

BYTES_MAX: Final = 64 * 2**20
"""The most bytes of all files together; the oldest are deleted first."""

_WITHOUT_REFERENCES: Final = 2
"""The version of marshal's format in which equal content has equal bytes, regardless of sharing."""

_DIGEST_BYTES: Final = 32
_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


class Store:
    """Content by key, on disk. Unreadable content is derived again; failures to write are ignored."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def key(self, *parts: Any) -> str:
        """Return the key for the result of these inputs under this version of the code; empty if caching is disabled.

        Parts are bytes or JSON values. With any other value, equal inputs cannot be recognized.
        """
        if self._folder is None or not (program := program_digest()):
            return ""
        try:
            return hashlib.sha256(marshal.dumps((program, *parts), _WITHOUT_REFERENCES)).hexdigest()
        except ValueError:
            return ""

    def get(self, key: str) -> bytes | None:
        """Return the content of a key, None if there is none or the file is damaged."""
        if self._folder is None or not key or not _is_own(self._folder):
            return None
        try:
            raw = (self._folder / key).read_bytes()
        except OSError:
            return None
        digest, content = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES:]
        return content if hashlib.sha256(content).digest() == digest else None

    def put(self, key: str, content: bytes) -> None:
        """Store the content atomically."""
        if self._folder is None or not key:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_own(self._folder):
                return
            _make_room(self._folder, len(content))
            descriptor, written = tempfile.mkstemp(dir=self._folder)
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            Path(written).replace(self._folder / key)


def user_store() -> Store:
    """Return the store of the user who runs the program."""
    chosen = os.environ.get(VARIABLE)
    if chosen is not None:
        return Store(Path(chosen) if chosen else None)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - Path.expanduser raises without a home
    return Store(Path(base) / "fleetwright" if Path(base).is_absolute() else None)


def _is_own(folder: Path) -> bool:
    """Return whether only the user can write to the folder: its content decides plans."""
    try:
        about = folder.stat()
    except OSError:
        return False
    return about.st_uid == os.getuid() and not about.st_mode & _OTHERS


def _make_room(folder: Path, wanted: int) -> None:
    files = [(found.stat(), found) for found in folder.iterdir() if found.is_file()]
    total = wanted + sum(about.st_size for about, _ in files)
    for about, found in sorted(files, key=lambda file: (file[0].st_mtime_ns, file[1].name)):
        if total <= BYTES_MAX:
            return
        found.unlink(missing_ok=True)
        total -= about.st_size
