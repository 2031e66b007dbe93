"""Which tests a module has to answer to: those of its own area, not the whole suite."""

from __future__ import annotations

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
    """The tests that a module answers to: its own module of tests first, where there is one, then its area's.

    pytest keeps the order of its arguments and drops what is named twice, so most faults end after a second.
    """
    folder, name = Path(path).parent, Path(path).name
    own = Path("tests/unit", *folder.parts[1:], f"test_{name}")
    suite = SUITES[area_of(path)]
    return (str(own), *suite) if (ROOT / own).is_file() else suite


def modules(area: str) -> list[str]:
    """The modules of an area, by name, from the root of the repository."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / area).rglob("*.py") if path.name != "__init__.py")
