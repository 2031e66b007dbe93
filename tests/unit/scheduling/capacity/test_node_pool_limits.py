"""Amounts under a NodePool's limits."""

from __future__ import annotations

from core.model.values import quantity
from core.scheduling.capacity.node_pool_limits import RemainingLimits, largest_amount
from core.scheduling.primitives.handles import TypeMask
from tests.builders import a_pool, a_type
from tests.unit.scheduling.reading import context_of


def test_what_is_charged_is_refunded() -> None:
    """Otherwise, a plan under tight limits loses room for good."""
    (template,) = context_of(types=(a_type("a", cpu="4"), a_type("b", cpu="8")), node_pools=(a_pool(),)).templates
    limits = RemainingLimits({"cpu": 10_000, quantity.NODES: 2}, {"cpu": 1_000})
    limits.charge(template.types, TypeMask(0b11))
    assert limits.left == {"cpu": 1_000, quantity.NODES: 1}
    assert largest_amount(template.types, TypeMask(0b01), "cpu") == 4_000
    assert limits.mask(template.types, TypeMask(0b11)) == 0
    limits.refund(template.types, TypeMask(0b11))
    assert limits.left == {"cpu": 9_000, quantity.NODES: 2}
    assert limits.mask(template.types, TypeMask(0b11)) == 0b11
