"""Which types carry a label."""

from __future__ import annotations

from core import labels
from core.model.values.requirements import Requirement
from core.scheduling.instance_types.label_masks import LabelMasks
from core.scheduling.instance_types.type_index import TypeIndex
from tests.builders import a_type

INDEX = TypeIndex((a_type("a", family="x"), a_type("b", family="y"), a_type("c")))
MASKS = LabelMasks(INDEX, frozenset({"family"}))


def test_types_without_the_label_meet_only_requirements_that_allow_its_absence() -> None:
    """Otherwise, `NotIn` excludes types without the label."""
    assert MASKS.mask(Requirement.one_of("family", "x")) == 0b001
    assert MASKS.mask(Requirement("family", True, ("x",))) == 0b110
    assert MASKS.mask(Requirement("family")) == 0b011


def test_a_label_unknown_to_types_excludes_none() -> None:
    """Otherwise, a NodePool's own label leaves it without types."""
    assert MASKS.mask(Requirement.one_of("team", "a")) == INDEX.full


def test_values_and_their_number() -> None:
    """Otherwise, minValues are counted wrong."""
    assert MASKS.values(INDEX.full, "family", None) == ("x", "y")
    assert MASKS.values(INDEX.full, labels.INSTANCE_TYPE, Requirement.one_of(labels.INSTANCE_TYPE, "b")) == ("b",)
    assert (MASKS.distinct(INDEX.full, "family"), MASKS.distinct(INDEX.full, labels.INSTANCE_TYPE)) == (2, 3)
