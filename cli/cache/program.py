"""Identifies the code that derives cached results, so that changed code does not use results of an older version."""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

import core
from core.version import files_digest

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
"""Parts of `core` that read Karpenter's objects and build the catalogue. A test compares them with the actual imports."""

_LIBRARIES: Final = ("pydantic", "msgspec")


@cache
def program_digest() -> bytes:
    """Return the digest of that code and its libraries' versions; empty if the sources cannot be read."""
    versions = repr((sys.version_info, msgspec.__version__)).encode()
    try:
        return files_digest({"versions": versions, **{name: path.read_bytes() for name, path in _files().items()}})
    except OSError:
        return b""


def _files() -> dict[str, Path]:
    """Return the files by path within `core`, or by library."""
    root = Path(core.__path__[0])
    sources = [
        file for name in SOURCES for file in ((root / name).rglob("*.py") if (root / name).is_dir() else [root / name])
    ]
    found = {path.relative_to(root).as_posix(): path for path in sources}
    for name in _LIBRARIES:
        origin = spec.origin if (spec := find_spec(name)) is not None else None
        if origin:
            found |= {f"{name}/{path.name}": path for path in Path(origin).parent.glob("version.py")}
    return found
