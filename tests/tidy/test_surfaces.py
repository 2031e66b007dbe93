"""Each package says in its `__init__` which of its files the rest of the project may import."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

from tests.tidy.test_manners import ROOT
from tests.walk import ALL, imports

PACKAGES: Final = sorted(
    str(path.parent.relative_to(ROOT))
    for package in ALL
    for path in (ROOT / package).rglob("__init__.py")
    if str(path.parent.relative_to(ROOT)) not in ALL
)
"""All packages but the outermost, which the contracts of `pyproject.toml` are about."""


def surface(package: str) -> set[str]:
    """The names in the package's `PUBLIC`."""
    for node in ast.parse((ROOT / package / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and [target.id for target in node.targets if isinstance(target, ast.Name)] == [
            "PUBLIC"
        ]:
            return set(ast.literal_eval(node.value))
    return set()


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    """Package → its files that others import."""
    found: dict[str, set[str]] = defaultdict(set)
    for file, targets in imports((*ALL, "infra", "benchmarks")).items():
        for target in map(Path, targets):
            if not file.startswith(f"{target.parent}/"):
                found[str(target.parent)].add(target.stem)
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_others_import_what_a_package_offers_and_nothing_else(package: str, imported: dict[str, set[str]]) -> None:
    """An offer that nobody takes up would hide what the inside is."""
    assert imported.get(package, set()) == surface(package)
