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


def test_a_pool_over_one_of_its_limits_launches_nothing_that_has_none_of_it_either() -> None:
    """Karpenter: whatever is exceeded, the pool launches no more; a limit may be lowered below what runs."""
    (template,) = context_of(types=(a_type("a", cpu="4"),), node_pools=(a_pool(),)).templates
    for exceeded in ("cpu", "nvidia.com/gpu", quantity.NODES):
        limits = RemainingLimits({"cpu": 10_000, exceeded: 1}, {exceeded: 2})
        assert limits.mask(template.types, TypeMask(0b1)) == 0, exceeded
    assert RemainingLimits({"cpu": 10_000}, {}).mask(template.types, TypeMask(0b1)) == 0b1
