"""When a node is unhealthy for long enough to be replaced, and when too many are."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core.disruption.node_health import POLICIES, HealthCheck, RepairPolicy, drain_bound, has_unhealthy_node
from core.model.plan import Condition
from core.model.snapshot import Node, NodeCondition
from core.model.state_node import StateNode, state_nodes
from tests.builders import NOW, a_node_of, a_snapshot, a_type

TYPE = a_type()


def nodes(count: int, *ill: NodeCondition) -> tuple[StateNode, ...]:
    """So many nodes of a pool; the first has these conditions."""
    pairs = [a_node_of(TYPE, f"node-{n}") for n in range(count)]
    claim, node = pairs[0]
    pairs[0] = claim, msgspec.structs.replace(node, conditions=ill)
    snapshot = a_snapshot(
        types=(TYPE,), nodes=tuple(node for _, node in pairs), node_claims=tuple(claim for claim, _ in pairs)
    )
    return state_nodes(snapshot)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.type}={policy.status}")
def test_each_condition_is_tolerated_for_a_while(policy: RepairPolicy) -> None:
    """As long as in Karpenter's policies."""
    reason = {True: "NvidiaXID79Error", False: "NvidiaXID999Error"}[policy.reason != ""]
    for age, is_due in ((policy.patience - timedelta(seconds=1), False), (policy.patience, True)):
        unhealthy = nodes(1, NodeCondition(policy.type, policy.status, NOW - age, reason))
        illness = HealthCheck(unhealthy, NOW).illness(unhealthy[0])
        assert (illness is not None) is is_due
        assert illness is None or illness.drain_within == policy.drain_within
        assert HealthCheck(unhealthy, NOW).due(unhealthy) == ({unhealthy[0].claim_name} if is_due else set())


@pytest.mark.parametrize(
    ("reason", "minutes"), [("XID46", 10), ("GPU_XID640_x", 10), ("XID463", 10), ("XID13", 30), ("", 30)]
)
def test_the_reason_of_an_accelerator_decides_how_long_it_is_tolerated(reason: str, minutes: int) -> None:
    """As long as in Karpenter 1.15; its expressions are not anchored."""
    for age, is_due in ((minutes, True), (minutes - 1, False)):
        found = nodes(1, NodeCondition("AcceleratedHardwareReady", "False", NOW - timedelta(minutes=age), reason))
        assert (HealthCheck(found, NOW).illness(found[0]) is not None) is is_due


def test_the_time_counts_from_the_end_of_the_last_reboot() -> None:
    """The conditions of a node that has just been rebooted may be old."""
    (state,) = nodes(1, NodeCondition("Ready", "False", NOW - timedelta(hours=2)))
    assert state.claim is not None
    for status, minutes, is_due in (("False", 29, False), ("False", 30, True), ("True", 1, True)):
        conditions = {
            **state.claim.conditions,
            "Rebooting": Condition(status, changed_at=NOW - timedelta(minutes=minutes)),
        }
        claim = msgspec.structs.replace(state.claim, conditions=conditions)
        node = state.node and msgspec.structs.replace(state.node, created_at=NOW - timedelta(days=1))
        rebooted = msgspec.structs.replace(state, node=node, claim=claim)
        assert (HealthCheck([rebooted], NOW).illness(rebooted) is not None) is is_due


def test_a_drain_has_the_shortest_bound_of_what_is_due() -> None:
    since = NOW - timedelta(hours=1)
    ill = NodeCondition("Ready", "False", since), NodeCondition("AcceleratedHardwareReady", "False", since, "XID64")
    (state,) = nodes(1, *ill)
    assert drain_bound(state.node, NOW) == timedelta(minutes=5)
    assert drain_bound(nodes(1)[0].node, NOW) == drain_bound(None, NOW) == timedelta(minutes=10)


@pytest.mark.parametrize(("count", "is_widespread"), [(1, False), (5, False), (3, False)])
def test_one_unhealthy_node_is_not_too_many(count: int, is_widespread: bool) -> None:
    """A fifth of the pool, rounded up, may be unhealthy."""
    unhealthy = nodes(count, NodeCondition("Ready", "False", NOW))
    assert HealthCheck(unhealthy, NOW).is_widespread(unhealthy[0].node_pool) is is_widespread


def test_conditions_without_a_policy_are_ignored() -> None:
    assert not has_unhealthy_node([Node(name="n", conditions=(NodeCondition("MemoryPressure", "True", NOW),))])
    assert has_unhealthy_node([Node(name="n", conditions=(NodeCondition("Ready", "Unknown", NOW),))])


@pytest.mark.parametrize(("count", "allowed"), [(1, 1), (5, 1), (6, 2), (10, 2), (11, 3), (505, 101)])
def test_a_fifth_of_the_pool_rounded_up_may_be_unhealthy(count: int, allowed: int) -> None:
    ill, well = nodes(2, NodeCondition("Ready", "False", NOW))
    for unhealthy in (allowed, min(allowed + 1, count)):
        check = HealthCheck([ill] * unhealthy + [well] * (count - unhealthy), NOW)
        assert check.is_widespread(ill.node_pool) is (unhealthy > allowed)
