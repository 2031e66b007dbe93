"""What a snapshot says about the stored target."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core.errors import InvalidInputError
from core.model.snapshot import (
    DWELL,
    GATES,
    TARGET_AGE_MAX,
    FeatureGates,
    GivenGates,
    MovedWorkload,
    Options,
    PodDisruptionBudget,
    Snapshot,
    parse_feature_gates,
)
from core.reasons.nodes import MovedInVain
from tests.builders import NOW, a_pod, a_selector, a_stored_target

# The functions and the command line read FEATURE_GATES in the same way.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", FeatureGates()),
        ("SpotToSpotConsolidation=true", FeatureGates(spot_to_spot_consolidation=True)),
        ("NodeOverlay=1, ReservedCapacity=F,", FeatureGates(node_overlay=True, reserved_capacity=False)),
        ("NodeOverlay = T", FeatureGates(node_overlay=True)),
    ],
)
def test_gates_are_read_as_karpenter_reads_them(text: str, expected: FeatureGates) -> None:
    """In a migration, the same variable is used for both."""
    assert parse_feature_gates(text) == GivenGates(expected)


def test_names_of_other_releases_are_ignored_and_returned() -> None:
    assert parse_feature_gates("Unheard=true,NodeRepair=true") == GivenGates(
        FeatureGates(node_repair=True), unknown=("Unheard",)
    )


@pytest.mark.parametrize("text", ["NodeOverlay", "NodeOverlay=yes", "=,x"])
def test_a_malformed_entry_is_refused(text: str) -> None:
    """A gate that a typo leaves off is hard to find."""
    with pytest.raises(InvalidInputError, match="FEATURE_GATES"):
        parse_feature_gates(text)


def test_every_gate_has_a_name() -> None:
    assert sorted(GATES.values()) == sorted(FeatureGates.__struct_fields__)


# Pods that were moved stay for a while, so that one pod is not moved again and again to save cents.


MINUTE = timedelta(minutes=1)
MOVED = MovedWorkload(name="default/ReplicaSet/web", moving_since=NOW - 5 * MINUTE, moved_at=NOW - MINUTE)


@pytest.mark.parametrize(
    ("started", "now", "stays"),
    [
        (NOW - 2 * MINUTE, NOW, True),
        (NOW - 6 * MINUTE, NOW, False),
        (NOW - 2 * MINUTE, NOW - MINUTE + DWELL, False),
    ],
)
def test_a_pod_that_was_moved_stays_for_a_while(started: object, now: object, stays: bool) -> None:
    """A pod older than the moves may go; after the dwell time, all may."""
    pod = msgspec.structs.replace(a_pod("p"), started_at=started)
    assert bool(MOVED.keeps(pod, now)) is stays  # type: ignore[arg-type]


def test_a_hold_keeps_every_pod_of_the_workload() -> None:
    """Any of them would be placed like the one before."""
    held = msgspec.structs.replace(MOVED, held_until=NOW + MINUTE)
    old = msgspec.structs.replace(a_pod("p"), started_at=NOW - timedelta(days=9))
    assert held.keeps(old, NOW) == MovedInVain("default/p", NOW + MINUTE, MOVED.name)
    assert held.keeps(old, NOW + MINUTE) is None


# Which pods a PodDisruptionBudget selects.


WEB = PodDisruptionBudget(namespace="default", name="web", selector=a_selector(app="web"))


def test_a_budget_selects_in_its_own_namespace() -> None:
    assert WEB.selects(a_pod(labels={"app": "web"}))
    assert not WEB.selects(a_pod(labels={"app": "web"}, namespace="other"))
    assert not WEB.selects(a_pod())
    assert not PodDisruptionBudget(namespace="default", name="none").selects(a_pod())


TARGET = a_stored_target("n1", "n2")


def test_nodes_that_the_target_drains_later_are_named_as_long_as_it_is_followed() -> None:
    """A target that nothing follows any more would keep pods away from nodes that stay."""
    snapshot = Snapshot(now=NOW + TARGET_AGE_MAX, stored_target=TARGET)
    assert snapshot.drained_later == {"n1", "n2"}
    later = msgspec.structs.replace(snapshot, now=snapshot.now + timedelta(seconds=1))
    assert later.drained_later == Snapshot(now=NOW).drained_later == frozenset()


def test_karpenters_policy_has_no_target() -> None:
    as_karpenter = Snapshot(now=NOW, stored_target=TARGET, options=Options(karpenter_moves_only=True))
    assert as_karpenter.drained_later == frozenset()
