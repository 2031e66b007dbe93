"""Adds our own sources to a bundle, and computes the digest of all its inputs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from core.version import code_digest, files_digest
from infra.packaging.bytecode import compile_sources
from infra.packaging.dependencies import LOCK, ROOT

PACKAGES: Final = ("core", "installation", "adapters", "lambdas")


def add_sources(target: Path, python: str) -> None:
    """Copy our packages beside the dependencies, with their bytecode."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, target / package, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        compile_sources(target / package, python, beneath=package)


def drop_sources(target: Path) -> None:
    """Delete the sources, two megabytes: tracebacks name file and line without them."""
    for package in PACKAGES:
        for source in sorted((target / package).rglob("*.py")):
            source.unlink()


def digest() -> str:
    """Return the digest of our sources, the lock and the packaging code; if it changes, the package is stale."""
    return files_digest({path.relative_to(ROOT).as_posix(): path.read_bytes() for path in _inputs()}).hex()


def deciding_code() -> str:
    """Return the digest of the code that decides (`core`), which the functions write to the ledger."""
    core = ROOT / "core"
    return code_digest({path.relative_to(core).as_posix(): path.read_bytes() for path in core.rglob("*.py")})


def _inputs() -> Iterator[Path]:
    yield LOCK
    for package in (*PACKAGES, "infra/packaging"):
        yield from sorted(path for form in ("*.py", "*.tsv") for path in (ROOT / package).rglob(form))
