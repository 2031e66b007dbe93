"""Identifies the code that derives what is kept: a change of it must not meet what an older version has left."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

import core

SOURCES: Final = (
    "ami_families",
    "api",
    "catalogue",
    "model",
    "reasons",
    "errors.py",
    "identity_cache.py",
    "labels.py",
    "lazy_names.py",
)
"""Parts of `core` that read Karpenter's objects and build the catalogue. A test holds them against what is imported."""

_LIBRARIES: Final = ("pydantic", "msgspec")


@cache
def program_digest() -> bytes:
    """Return the digest of that code and its libraries' versions; empty where the sources cannot be read."""
    digest = hashlib.sha256(repr((sys.version_info, msgspec.__version__)).encode())
    try:
        for path in _files():
            content = path.read_bytes()
            digest.update(f"{path.name} {len(content)} ".encode() + content)
    except OSError:
        return b""
    return digest.digest()


def _files() -> list[Path]:
    root = Path(core.__path__[0])
    found = [file for name in SOURCES for file in (sorted((root / name).rglob("*.py")) or [root / name])]
    for name in _LIBRARIES:
        origin = spec.origin if (spec := find_spec(name)) is not None else None
        found += sorted(Path(origin).parent.glob("version.py")) if origin else []
    return found
