"""What a NodePool can launch before any pod asks."""

from __future__ import annotations

from core import labels
from core.model.values.requirements import Requirement
from core.scheduling.explanation.pool_offers import pool_offers
from tests.builders import a_pod, a_pool, a_type
from tests.unit.scheduling.reading import context_of

TYPES = (a_type("large", cpu="8", price=0.4), a_type("small", cpu="2", price=0.1), a_type("mid", cpu="4", price=0.2))


def test_types_are_named_cheapest_first_with_the_lowest_price() -> None:
    (template,) = context_of(types=TYPES, pods=(a_pod(),)).templates
    found = pool_offers(template)
    assert (found.types, found.price) == (("small", "mid", "large"), 40_000_000)
    assert (found.conflict, dict(found.missing)) == (None, {})


def test_the_requirement_that_leaves_nothing_is_named_by_its_position() -> None:
    """Several requirements may each leave something; the reader must know which one to change."""
    two = Requirement.one_of(labels.INSTANCE_TYPE, "small", "mid")
    arm = Requirement.one_of(labels.ARCH, "arm64")
    (template,) = context_of(types=TYPES, node_pools=(a_pool("default", two, arm),), pods=(a_pod(),)).templates
    found = pool_offers(template)
    assert (found.types, found.price, found.conflict, found.before) == ((), 0, 1, 2)


def test_min_values_that_cannot_be_met_are_counted() -> None:
    several = Requirement(labels.INSTANCE_TYPE, True, (), min_values=5)
    (template,) = context_of(types=TYPES, node_pools=(a_pool("default", several),), pods=(a_pod(),)).templates
    assert dict(pool_offers(template).missing) == {labels.INSTANCE_TYPE: 3}
