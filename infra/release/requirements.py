"""The locked packages of the command line: what the wheel asks for, and what that needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.metadata import requires
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from infra.packaging.dependencies import ROOT

LOCK: Final = ROOT / "requirements-dev.lock"
"""Everything that is installed for development, with hashes; the command line's packages are a part of it."""


def entries(lock: Path = LOCK) -> Mapping[str, str]:
    """Return package name → its entry in the lock: pin, marker and hashes."""
    joined = lock.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    return {normal(entry.partition("==")[0]): entry for entry in joined if "==" in entry and not entry.startswith("#")}


def closure(wanted: Iterable[str]) -> list[str]:
    """Return the names of these requirements and of all that they need here, sorted.

    Every package of the lock is installed where a release is built, so its own metadata says what it needs.
    """
    names: set[str] = set()
    waiting = [Requirement(line) for line in wanted]
    while waiting:
        requirement = waiting.pop()
        name = normal(requirement.name)
        if name in names or not _applies(requirement, ()):
            continue
        names.add(name)
        needed = [Requirement(line) for line in requires(requirement.name) or ()]
        waiting += [dependency for dependency in needed if _applies(dependency, requirement.extras)]
    return sorted(names)


def version_of(entry: str) -> str:
    """Return the version that an entry of the lock pins."""
    return re.split(r"[\s;]", entry.partition("==")[2])[0]


def normal(name: str) -> str:
    """Return a package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name.partition("[")[0].strip()).lower()


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({"extra": extra}) for extra in (*extras, ""))
