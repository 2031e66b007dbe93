"""When a node is unhealthy for long enough to be replaced, and when too many are."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core.disruption.node_health import POLICIES, HealthCheck, RepairPolicy, has_unhealthy_node
from core.model.snapshot import Node, NodeCondition
from core.model.state_node import StateNode, state_nodes
from tests.builders import NOW, a_node_of, a_snapshot, a_type

TYPE = a_type()


def nodes(count: int, *ill: NodeCondition) -> tuple[StateNode, ...]:
    """So many nodes of a pool; the first has these conditions."""
    pairs = [a_node_of(TYPE, f"node-{n}") for n in range(count)]
    claim, node = pairs[0]
    pairs[0] = claim, msgspec.structs.replace(node, conditions=ill)
    found = a_snapshot(
        types=(TYPE,), nodes=tuple(node for _, node in pairs), node_claims=tuple(claim for claim, _ in pairs)
    )
    return state_nodes(found)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.type}={policy.status}")
def test_each_condition_is_tolerated_for_a_while(policy: RepairPolicy) -> None:
    """As long as in Karpenter's policies."""
    for age, is_due in ((policy.patience - timedelta(seconds=1), False), (policy.patience, True)):
        found = nodes(1, NodeCondition(policy.type, policy.status, NOW - age))
        assert bool(HealthCheck(found, NOW).problem(found[0].node)) is is_due
        assert HealthCheck(found, NOW).due(found) == ({found[0].claim_name} if is_due else set())


@pytest.mark.parametrize(("count", "is_widespread"), [(1, False), (5, False), (3, False)])
def test_one_unhealthy_node_is_not_too_many(count: int, is_widespread: bool) -> None:
    """A fifth of the pool, rounded up, may be unhealthy."""
    found = nodes(count, NodeCondition("Ready", "False", NOW))
    assert HealthCheck(found, NOW).is_widespread(found[0].node_pool) is is_widespread


def test_conditions_without_a_policy_are_ignored() -> None:
    assert not has_unhealthy_node([Node(name="n", conditions=(NodeCondition("MemoryPressure", "True", NOW),))])
    assert has_unhealthy_node([Node(name="n", conditions=(NodeCondition("Ready", "Unknown", NOW),))])


@pytest.mark.parametrize(("count", "allowed"), [(1, 1), (5, 1), (6, 2), (10, 2), (11, 3), (505, 101)])
def test_a_fifth_of_the_pool_rounded_up_may_be_unhealthy(count: int, allowed: int) -> None:
    ill, well = nodes(2, NodeCondition("Ready", "False", NOW))
    for unhealthy in (allowed, min(allowed + 1, count)):
        check = HealthCheck([ill] * unhealthy + [well] * (count - unhealthy), NOW)
        assert check.is_widespread(ill.node_pool) is (unhealthy > allowed)
