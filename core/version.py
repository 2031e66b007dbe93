"""The release, and a digest of the deciding code."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

VERSION: Final = "0.1.0"
"""The wheel, the command line and the functions' user agent use it."""


def code_digest(sources: Mapping[str, bytes]) -> str:
    """Return a digest of twelve characters of the deciding code, from its modules by path within `core`.

    The release does not identify the code: two builds between releases have the same version and may decide differently.
    """
    return files_digest(sources, size=6).hex()


def files_digest(files: Mapping[str, bytes], *, size: int = 32) -> bytes:
    """Return a digest of `size` bytes of files by path; it covers each file's path, length and content."""
    text = blake2b(digest_size=size)
    for path in sorted(files):
        text.update(f"{path} {len(files[path])}\n".encode() + files[path])
    return text.digest()
