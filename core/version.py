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
    text = blake2b(digest_size=6)
    for path in sorted(sources):
        text.update(f"{path} {len(sources[path])}\n".encode() + sources[path])
    return text.hexdigest()
