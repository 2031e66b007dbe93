"""The tests that must notice a module's mutants: those of its own area, not the whole suite."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

_NAIVE: Final = ("tests/property/scheduling/test_regressions.py", "tests/property/scheduling/test_from_manifests.py")
SUITES: Final = {
    "core/scheduling": ("tests/unit/scheduling", "tests/unit/test_explain.py", *_NAIVE),
    "core/packing": ("tests/unit/packing", "tests/property/packing"),
    "core/disruption": ("tests/unit/disruption", "tests/property/disruption"),
    "core/lifecycle": ("tests/unit/lifecycle", "tests/unit/lambdas"),
    "core/ami_families": ("tests/unit/ami_families",),
    "core/launch": ("tests/unit/launch",),
    "core/catalogue": ("tests/unit/catalogue",),
    "core/manifests": ("tests/unit/manifests", "tests/property/scheduling/test_from_manifests.py"),
    "core/model": ("tests/unit/model", "tests/unit/scheduling", "tests/unit/disruption", "tests/unit/manifests"),
    "core/api": ("tests/unit/api",),
    "core/brakes": ("tests/unit/brakes",),
    "core/pods": ("tests/unit/pods", "tests/unit/disruption", "tests/unit/lifecycle", "tests/property/disruption"),
    "core/pools": ("tests/unit/pools", "tests/unit/scheduling"),
    "lambdas/controllers": ("tests/unit/lambdas", "tests/integration/test_handlers.py"),
    "lambdas/observation": ("tests/unit/lambdas", "tests/integration/test_handlers.py"),
}
"""Folder → the tests of its area. Tests that take minutes are named last: the first failure ends the run."""


def area_of(path: str) -> str:
    """The area of a module; empty for one that no area has."""
    return next((area for area in sorted(SUITES) if path.startswith(f"{area}/")), "")


def suite_of(path: str) -> tuple[str, ...]:
    """The tests of a module: its own module of tests first, then those that import it, then its area's.

    pytest keeps the order of its arguments and drops what is named twice, so most faults end after a second.
    """
    folder, name = Path(path).parent, Path(path).name
    suite = SUITES[area_of(path)]
    own = Path("tests/unit", *folder.parts[1:], f"test_{name}")
    dotted = ".".join((*folder.parts, Path(path).stem))
    package = f"from {'.'.join(folder.parts)} import {Path(path).stem}"
    found = [module for module, text in _texts(suite) if f"{dotted} " in text or package in text]
    return (
        *([str(own)] if (ROOT / own).is_file() else []),
        *(module for module in found if module != str(own)),
        *suite,
    )


@cache
def _texts(suite: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The modules of tests of a suite, by path, with their text."""
    files = [
        file
        for name in suite
        for file in ((ROOT / name).rglob("test_*.py") if (ROOT / name).is_dir() else [ROOT / name])
    ]
    return tuple((str(file.relative_to(ROOT)), file.read_text()) for file in sorted(files))


def modules(area: str) -> list[str]:
    """The modules of an area, by name, from the root of the repository."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / area).rglob("*.py") if path.name != "__init__.py")
