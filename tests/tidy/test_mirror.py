"""Tests are found by the path of what they test: a module of the core that no test imports is tested by accident."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BY_INTERFACE = frozenset({"ami_families", "catalogue", "launch", "price_terms"})
"""Packages whose tests call modules through the package's functions: what EC2 is asked for, say."""

FOLDERS = sorted(path.parent.name for path in (ROOT / "core").glob("*/__init__.py"))
"""All packages of the core: their tests mirror their modules."""

DATA_ONLY = {
    "core.model.node_pool",
    "core.reasons.groups",
    "core.reasons.nodes",
    "core.reasons.pods",
    "core.reasons.runs",
}
"""Modules without a rule of their own: structs and enumerations. Those who use them test them."""


def modules(package: str) -> list[Path]:
    return sorted(path for path in (ROOT / "core" / package).rglob("*.py") if path.name != "__init__.py")


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imported_by_tests() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
    return found


def test_every_module_of_the_core_is_imported_by_a_test() -> None:
    known = imported_by_tests()
    ours = [path for package in FOLDERS if package not in BY_INTERFACE for path in modules(package)]
    assert ours
    assert not [dotted(path) for path in ours if dotted(path) not in known]


@pytest.mark.parametrize("package", FOLDERS)
def test_the_tests_of_a_module_have_its_path_and_name(package: str) -> None:
    lost = []
    for path in modules(package):
        where = path.relative_to(ROOT / "core")
        test = ROOT / "tests" / "unit" / where.with_name(f"test_{where.name}")
        if dotted(path) not in DATA_ONLY and not test.exists():
            lost.append(str(test.relative_to(ROOT)))
    assert not lost


def test_modules_beside_the_packages_have_tests_of_their_name() -> None:
    tests = ROOT / "tests" / "unit"
    names = {path.name for path in (ROOT / "core").glob("*.py")} - {"__init__.py"}
    assert not [name for name in sorted(names) if not (tests / f"test_{name}").exists()]


def test_what_is_called_data_holds_no_functions() -> None:
    """Otherwise, a rule could hide among structs without a test."""
    for name in sorted(DATA_ONLY):
        tree = ast.parse((ROOT / Path(*name.split("."))).with_suffix(".py").read_text())
        assert not [node.name for node in tree.body if isinstance(node, ast.FunctionDef)], name
