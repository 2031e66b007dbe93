"""The life of a node is what the record says of it, of its instance and of its pods, and of nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from cli.report.node_lifetimes import NodeLifetime, lives

START = datetime(2026, 11, 20, tzinfo=UTC)
LAUNCHED = {
    "instance": "i-1",
    "instanceType": "m5.large",
    "zone": "a",
    "capacityType": "spot",
    "price": 0.5,
    "tags": {"karpenter.sh/nodepool": "web"},
}
JOINED = {"providerID": "aws:///a/i-1", "node": "n1", "nodeClaim": "web-1"}
DISRUPTED = {"node": "n1", "key": "karpenter.sh/disrupted"}


def lived(*events: tuple[str, dict[str, Any]]) -> NodeLifetime:
    """The life of i-1, whose events are a minute apart."""
    every = (("instanceLaunched", LAUNCHED), ("nodeJoined", JOINED), *events)
    (found,) = lives([(START + minute * timedelta(minutes=1), *event) for minute, event in enumerate(every)])
    return found


def minutes(moment: datetime | None) -> float | None:
    return None if moment is None else (moment - START) / timedelta(minutes=1)


def test_a_whole_life() -> None:
    found = lived(
        ("podCreated", {"pod": "kube-system/daemon", "owner": "DaemonSet/daemon"}),
        ("nodeReady", {"node": "n1"}),
        ("nodeReady", {"node": "n1"}),
        ("podBound", {"node": "n1", "pod": "shop/a"}),
        ("podBound", {"node": "n1", "pod": "kube-system/daemon"}),
        ("interruptionNotice", {"instance": "i-1"}),
        ("interruptionNotice", {"instance": "i-1"}),
        ("nodeTainted", {**DISRUPTED, "reason": "Empty"}),
        ("podEvicted", {"node": "n1", "pod": "shop/a"}),
        ("podEvicted", {"node": "n1", "pod": "kube-system/daemon"}),
        ("instanceTerminated", {"instance": "i-1"}),
        ("nodeDeleted", {"node": "n1"}),
    )
    known = ("name", "claim", "pool", "instance_type", "zone", "capacity_type", "price", "reason", "pods")
    assert {key: getattr(found, key) for key in known} == {
        "name": "n1",
        "claim": "web-1",
        "pool": "web",
        "instance_type": "m5.large",
        "zone": "a",
        "capacity_type": "spot",
        "price": 0.5,
        "reason": "Empty",
        "pods": ["shop/a"],
    }
    moments = (found.launched, found.joined, found.ready, found.noticed, found.disrupted, found.ended, found.deleted)
    assert [*map(minutes, moments)] == [0, 1, 3, 7, 9, 12, 13]
    assert [(minutes(at), pod) for at, pod in found.evicted] == [(10, "shop/a")]
    assert found.cost(START + timedelta(hours=9)) == 0.5 * 12 / 60


def test_only_the_taint_of_disruption_disrupts_and_it_may_be_taken_back() -> None:
    other = ("nodeTainted", {"node": "n1", "key": "node.kubernetes.io/not-ready", "reason": "Odd"})
    assert (lived(other).disrupted, lived(other).reason) == (None, "")
    tainted = ("nodeTainted", {**DISRUPTED, "reason": "Drifted"})
    unrelated = [
        ("nodeUntainted", {**other[1]}),
        ("nodeReady", DISRUPTED),
        ("nodeTainted", {**DISRUPTED, "node": "n2"}),
    ]
    kept = lived(tainted, *unrelated)
    assert (minutes(kept.disrupted), kept.reason) == (2, "Drifted")
    back = lived(tainted, ("nodeUntainted", DISRUPTED))
    assert (back.disrupted, back.reason) == (None, "")


def test_an_instance_that_never_joins_has_the_name_of_its_own() -> None:
    found = lives(
        [(START, "instanceLaunched", {"instance": "i-1"}), (START, "nodeJoined", {**JOINED, "providerID": "x"})]
    )
    assert [(one.name, one.capacity_type, one.price, one.pool, one.joined) for one in found] == [
        ("i-1", "on-demand", 0.0, "", None)
    ]
    assert found[0].cost(START + timedelta(hours=1)) == 0.0
