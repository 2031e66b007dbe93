"""Amounts under a NodePool's limits."""

from __future__ import annotations

import msgspec

from core import labels
from core.model.state_node import state_nodes
from core.model.values import quantity
from core.scheduling.capacity.node_pool_limits import RemainingLimits, largest_amount, used_by_pool
from core.scheduling.primitives.handles import TypeMask
from tests.builders import a_node_of, a_pool, a_snapshot, a_type
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


def test_nodes_count_with_what_they_have_and_claims_without_an_instance_with_what_they_request() -> None:
    """Otherwise, what has just been ordered is ordered again, beyond the limit."""
    claim, node = a_node_of(a_type("a", cpu="4"))
    ordered = msgspec.structs.replace(claim, name="ordered", provider_id="", resources={"cpu": 3_000})
    foreign = msgspec.structs.replace(ordered, labels={**claim.labels, labels.NODEPOOL: "gone"})
    states = state_nodes(a_snapshot(nodes=(node,), node_claims=(claim,)))
    used = used_by_pool(states, (a_pool(), a_pool("other")), (ordered, ordered, foreign))
    assert sorted(used) == ["default", "other"]
    assert (used["default"]["cpu"], used["default"][quantity.NODES]) == (4_000 + 2 * 3_000, 3)
    assert used["other"] == {}
