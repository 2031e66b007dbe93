"""What we are, said once: the release, and a digest of the code that decides."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

VERSION: Final = "0.1.0"
"""The wheel, the command line and the functions' user agent read it here."""


def code_digest(sources: Mapping[str, bytes]) -> str:
    """Return twelve characters for the code that decides, from its modules by path within `core`.

    The release does not name it: two builds between releases carry the same version and can decide differently.
    """
    return files_digest(sources, size=6).hex()


def files_digest(files: Mapping[str, bytes], *, size: int = 32) -> bytes:
    """Return a digest of `size` bytes of files by path: each counts with its path and its length."""
    text = blake2b(digest_size=size)
    for path in sorted(files):
        text.update(f"{path} {len(files[path])}\n".encode() + files[path])
    return text.digest()
