"""The tuning constants of the search and of a fleet's target are in one place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from core.packing.search_settings import DEFAULT_SETTINGS, FluidSettings
from core.packing.size_settings import TargetSettings

ROOT = Path(__file__).parents[3]
MODULES = [
    path
    for folder in ("core/packing", "core/scheduling/optimization")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path.name != "search_settings.py"
]


def constants(path: Path) -> Iterator[str]:
    """Names of module-level numbers and tuples of numbers."""
    for node in ast.parse(path.read_text()).body:
        target = (
            node.target
            if isinstance(node, ast.AnnAssign)
            else node.targets[0]
            if isinstance(node, ast.Assign)
            else None
        )
        if isinstance(target, ast.Name) and isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            leaves = [leaf for leaf in ast.walk(node.value) if isinstance(leaf, ast.Constant)]
            if leaves and all(type(leaf.value) in (int, float) for leaf in leaves):
                yield target.id


def test_no_tuning_constant_is_elsewhere() -> None:
    """Otherwise, one name gets several values, and a caller cannot pass its own."""
    markers = {
        "NO_TYPE",
        "NO_GROUP",
        "DOLLARS",
        "INTERDEPENDENT",
        "_PAYS_IN_FULL",
    }  # values with a meaning, which are not tuned
    found = {f"{path.name}: {name}" for path in MODULES for name in constants(path) if name not in markers}
    assert not found


def test_settings_are_frozen() -> None:
    """Otherwise, one search changes the settings of the next."""
    with pytest.raises(AttributeError):
        DEFAULT_SETTINGS.fluid.rounds_max = 3  # type: ignore[misc]


@pytest.mark.parametrize("group", msgspec.structs.fields(DEFAULT_SETTINGS), ids=lambda group: group.name)
def test_names_say_what_they_bound(group: msgspec.structs.FieldInfo) -> None:
    """A share is between zero and one, a relative gap is below one, a largest number is at least one."""
    settings = getattr(DEFAULT_SETTINGS, group.name)
    for field in msgspec.structs.fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, tuple):
            assert value, field.name
        elif field.name.endswith("_share"):
            assert 0 < value < 1, field.name
        elif field.name.endswith(("_relative", "_relative_max", "_relative_min")):
            assert 0 < value < 0.1, field.name
        elif field.name.endswith("_max") and isinstance(value, int):
            assert value >= 1, field.name


@pytest.mark.parametrize("group", [DEFAULT_SETTINGS.fluid, DEFAULT_SETTINGS.target], ids=["fluid", "target"])
def test_sizes_are_distinguished_finely_first(group: FluidSettings | TargetSettings) -> None:
    """The first step that keeps within the bound is used."""
    assert all(finer > coarser for finer, coarser in pairwise(group.size_steps_per_doubling))


def test_gaps_are_filled_with_the_most_similar_pods_first() -> None:
    assert all(1 >= first > second > 0 for first, second in pairwise(DEFAULT_SETTINGS.target.likeness_min))
