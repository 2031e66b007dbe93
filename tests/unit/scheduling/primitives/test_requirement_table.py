"""Requirements as numbers."""

from __future__ import annotations

from core import labels
from core.model.values.requirements import Requirement
from core.scheduling.primitives.requirement_table import IMPOSSIBLE, RequirementTable

LINUX = Requirement.one_of(labels.OS, "linux")
WINDOWS = Requirement.one_of(labels.OS, "windows")


def test_equal_requirements_have_one_number() -> None:
    """Otherwise, results for them cannot be cached."""
    table = RequirementTable(labels.WELL_KNOWN)
    assert table.conjunction((LINUX,)) == table.conjunction((LINUX, LINUX))
    assert table.conjunction((LINUX,)) != table.conjunction((WINDOWS,))


def test_contradicting_requirements_are_impossible() -> None:
    """Otherwise, a node is launched that no pod can use."""
    table = RequirementTable(labels.WELL_KNOWN)
    linux, windows = table.conjunction((LINUX,)), table.conjunction((WINDOWS,))
    assert table.conjunction((LINUX, WINDOWS)) == IMPOSSIBLE
    assert table.narrowed(linux, asked=windows) == IMPOSSIBLE
    assert table.with_value(linux, labels.OS, "windows") == IMPOSSIBLE


def test_a_users_label_must_be_offered_and_a_well_known_one_need_not() -> None:
    """Otherwise, pods wait for labels that every cloud node has, or get nodes without their labels (Karpenter)."""
    table = RequirementTable(labels.WELL_KNOWN)
    nothing = table.conjunction(())
    assert table.narrowed(nothing, asked=table.conjunction((Requirement.one_of("team", "a"),))) == IMPOSSIBLE
    zone = table.narrowed(nothing, asked=table.conjunction((Requirement.one_of(labels.ZONE, "z"),)))
    assert table.single(zone, labels.ZONE) == "z"
    assert table.single(nothing, labels.ZONE) is None
