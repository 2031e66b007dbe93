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


def test_other_events_and_other_taints_change_nothing_of_a_disruption() -> None:
    other = {"node": "n1", "key": "node.kubernetes.io/not-ready", "reason": "NotReady"}
    tainted = ("nodeTainted", {**DISRUPTED, "reason": "Drifted"})
    assert lived(("nodeTainted", other), ("nodeChanged", {**DISRUPTED, "reason": "x"})).disrupted is None
    going = lived(tainted, ("nodeUntainted", other), ("nodeChanged", DISRUPTED))
    assert (minutes(going.disrupted), going.reason) == (2, "Drifted")
    kept = lived(tainted, ("nodeUntainted", DISRUPTED))
    assert (kept.disrupted, kept.reason) == (None, "")
    assert lived(("nodeTainted", {**DISRUPTED, "reason": None})).reason == ""


def test_what_the_record_does_not_say_is_empty() -> None:
    (found,) = lives([(START, "instanceLaunched", {"instance": "i-1", "price": None, "tags": None, "zone": None})])
    assert (found.name, found.claim, found.pool, found.zone, found.instance_type) == ("i-1", "", "", "", "")
    assert (found.capacity_type, found.price, found.cost(START + timedelta(hours=1))) == ("on-demand", 0.0, 0.0)


def test_a_life_costs_its_price_for_as_long_as_it_lasts() -> None:
    end = START + timedelta(hours=2)
    assert lived().cost(end) == 1.0
    assert (
        lived(*[("podBound", {"node": "n1", "pod": "p"})] * 28, ("instanceTerminated", {"instance": "i-1"})).cost(end)
        == 0.25
    )


def test_events_of_other_nodes_and_instances_are_not_its_own() -> None:
    quiet = lived(
        ("nodeJoined", {"providerID": "aws:///a/i-2", "node": "n2"}),
        ("nodeJoined", {"providerID": None, "node": "n3"}),
        ("nodeReady", {"node": "n2"}),
        ("instanceTerminated", {"instance": "i-2"}),
        ("podCreated", {"pod": "shop/a", "owner": "Deployment/a"}),
        ("podBound", {"node": "n2", "pod": "shop/a"}),
    )
    assert (quiet.name, quiet.ready, quiet.ended, quiet.pods) == ("n1", None, None, [])
