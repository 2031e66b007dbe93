"""Writes to Nodes: lists are replaced only where nobody has changed the Node meanwhile, and only our own marks go."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.ports import ConflictError, JsonObject
from core import labels
from core.lifecycle.draining.disruption_taint import EXCLUDED_BY_US, REASON_ANNOTATION
from core.manifests.wire import api_resources as kinds
from core.model.values.taints import DISRUPTED, NO_SCHEDULE, Taint
from lambdas.controllers.nodes.node_lists import ObservedNode, seen_node
from lambdas.controllers.nodes.node_patches import delete_node, patch_node, release_node
from tests.builders import NOW
from tests.fakes.lab import a_joining_node
from tests.fakes.world import FakeClock, FakeKubernetes

OURS, THEIRS = labels.TERMINATION_FINALIZER, "example.com/hold"
TEAM = Taint("team", NO_SCHEDULE, "x")


@pytest.fixture
def kubernetes() -> FakeKubernetes:
    """An API server with one Node, which has our finalizer and another."""
    found = FakeKubernetes(FakeClock(NOW))
    found.put(a_joining_node("n", "aws:///z/i-1"))
    found.amend(kinds.NODES, "n", {"metadata": {"finalizers": [OURS, THEIRS]}})
    return found


def seen(kubernetes: FakeKubernetes) -> ObservedNode:
    return seen_node(kubernetes.get(kinds.NODES, "n"))


def raw(kubernetes: FakeKubernetes) -> JsonObject:
    return kubernetes.raw(kinds.NODES, "n")


def changed(kubernetes: FakeKubernetes) -> ObservedNode:
    """The Node as it was seen before somebody changed it."""
    before = seen(kubernetes)
    kubernetes.amend(kinds.NODES, "n", {"metadata": {"labels": {"meanwhile": "yes"}}})
    return before


@pytest.mark.parametrize("lists", [{"taints": (TEAM,)}, {"finalizers": (THEIRS,)}, {"taints": ()}, {"finalizers": ()}])
def test_a_list_is_not_replaced_if_the_node_has_changed(kubernetes: FakeKubernetes, lists: dict[str, Any]) -> None:
    """Otherwise, a taint or finalizer that somebody set meanwhile is lost."""
    before = changed(kubernetes)
    with pytest.raises(ConflictError):
        patch_node(kubernetes, before, **lists)
    patch_node(kubernetes, seen(kubernetes), **lists)


def test_labels_and_annotations_are_added_whatever_has_changed(kubernetes: FakeKubernetes) -> None:
    before = changed(kubernetes)
    patch_node(kubernetes, before, labels={"a": "1"}, annotations={"b": "2"})
    metadata = raw(kubernetes)["metadata"]
    assert (metadata["labels"]["a"], metadata["labels"]["meanwhile"], metadata["annotations"]["b"]) == ("1", "yes", "2")
    assert metadata["finalizers"] == [OURS, THEIRS]
    assert raw(kubernetes)["spec"]["taints"]


def test_a_deleted_node_keeps_the_finalizers_of_others(kubernetes: FakeKubernetes) -> None:
    delete_node(kubernetes, seen(kubernetes))
    metadata = raw(kubernetes)["metadata"]
    assert metadata["finalizers"] == [THEIRS]
    assert metadata["deletionTimestamp"]
    delete_node(kubernetes, seen(kubernetes))
    kubernetes.drop(kinds.NODES, "n")
    delete_node(kubernetes, seen_node(_alone()))


def _alone() -> Any:
    other = FakeKubernetes(FakeClock(NOW))
    other.put(a_joining_node("gone", "aws:///z/i-2"))
    return other.get(kinds.NODES, "gone")


def test_a_node_that_stays_loses_our_marks_alone(kubernetes: FakeKubernetes) -> None:
    """It takes pods and the load balancers' traffic again; a label that somebody else set keeps the balancers away."""
    patch_node(
        kubernetes,
        seen(kubernetes),
        labels={labels.EXCLUDE_FROM_BALANCERS: EXCLUDED_BY_US},
        annotations={REASON_ANNOTATION: "Drifted", "other": "stays"},
        taints=(TEAM, DISRUPTED),
    )
    release_node(kubernetes, seen(kubernetes))
    found = raw(kubernetes)
    assert [taint["key"] for taint in found["spec"]["taints"]] == [TEAM.key]
    assert labels.EXCLUDE_FROM_BALANCERS not in found["metadata"]["labels"]
    assert found["metadata"]["annotations"] == {"other": "stays"}
    patch_node(kubernetes, seen(kubernetes), labels={labels.EXCLUDE_FROM_BALANCERS: "by-hand"})
    release_node(kubernetes, seen(kubernetes))
    assert raw(kubernetes)["metadata"]["labels"][labels.EXCLUDE_FROM_BALANCERS] == "by-hand"
    with pytest.raises(ConflictError):
        release_node(kubernetes, changed(kubernetes))
