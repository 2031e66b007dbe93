"""Which pods we bind, and to which nodes; the rest is left to kube-scheduler."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from core.lifecycle.binding.eligibility import (
    SETTLES_WITHIN,
    accepts_bindings,
    covers_plan,
    is_left_to_scheduler,
    is_seen_by_kubelet,
    lacking_resource,
    may_hold,
)
from core.lifecycle.records import ClaimPhase, Moments
from core.model.node import Node
from core.model.pod import LabelSelector, Pod, VolumeUse
from core.model.values.taints import HELD, NO_SCHEDULE, UNREGISTERED, Taint
from tests.builders import NOW, a_pod
from tests.unit.lifecycle.binding.cases import a_held_node, a_term
from tests.unit.lifecycle.records_for_tests import a_plan, a_record


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(volumes=(VolumeUse("data"),)),
        a_pod(resource_claims=("gpu",)),
        a_pod(workload="train"),
        a_pod(is_gated=True),
        a_pod(scheduler_name="batch"),
        a_pod(unreadable="spec.affinity"),
        a_pod(problem="spec.affinity: no node can have it"),
        a_pod(anti_affinity=(a_term(), a_term(namespace_selector=LabelSelector()))),
        a_pod(extra={"nvidia.com/gpu": "1"}),
        a_pod(affinity=(a_term(namespace_selector=LabelSelector()),)),
    ],
)
def test_pods_that_need_the_scheduler_are_left_to_it(pod: Pod) -> None:
    assert is_left_to_scheduler(pod)


def test_an_ordinary_pod_is_bound_by_us() -> None:
    assert not is_left_to_scheduler(a_pod(affinity=(a_term(),)))


@pytest.mark.parametrize(
    ("plan", "held"),
    [
        ({}, True),
        ({"pods": ()}, False),
        ({"startup_taints": (Taint("cilium", NO_SCHEDULE),)}, False),
        ({"resources": {"cpu": 1, "nvidia.com/gpu": 1}}, False),
        ({"resources": {"cpu": 1, "nvidia.com/gpu": 0}}, True),
    ],
)
def test_a_node_that_other_agents_must_prepare_is_not_held(plan: dict[str, Any], held: bool) -> None:
    """Agents that remove startup taints or set up a device may not tolerate our taint: the node would never start."""
    assert may_hold(a_record(ClaimPhase.REGISTERED, plan=a_plan(**plan))) is held


def test_a_replacement_is_open_at_once() -> None:
    """Its pods run until they are evicted, which waits for it."""
    assert not may_hold(a_record(ClaimPhase.REGISTERED, command="one"))


@pytest.mark.parametrize(
    ("node", "accepts"),
    [
        (a_held_node(), True),
        (a_held_node(is_ready=False), False),
        (a_held_node(taints=()), False),
        (a_held_node(taints=(HELD, UNREGISTERED)), False),
        (a_held_node(deleted_at=NOW), False),
        (a_held_node(ready_changed_at=NOW), False),
        (a_held_node(ready_changed_at=NOW - SETTLES_WITHIN), True),
    ],
)
def test_bindings_wait_until_the_kubelet_has_seen_that_the_node_is_open(node: Node, accepts: bool) -> None:
    """It fails a pod for a NoExecute taint in its cache, and a failed pod does not come back."""
    assert accepts_bindings(node, NOW + timedelta(0)) is accepts


def test_a_node_smaller_than_planned_takes_no_bindings() -> None:
    record = a_record(ClaimPhase.REGISTERED, plan=a_plan(resources={"cpu": 4001}))
    assert not covers_plan(record, a_held_node())
    exact = a_record(ClaimPhase.REGISTERED, plan=a_plan(resources={"cpu": 4000, "memory": 1 << 34, "pods": 10}))
    assert covers_plan(exact, a_held_node())
    for lacking in ({"cpu": 1, "example.com/gpu": 1}, {"example.com/gpu": 1}, {"cpu": 4001, "pods": 1}):
        assert not covers_plan(a_record(ClaimPhase.REGISTERED, plan=a_plan(resources=lacking)), a_held_node())
    assert covers_plan(a_record(ClaimPhase.REGISTERED, plan=a_plan(resources={"example.com/gpu": 0})), a_held_node())


@pytest.mark.parametrize(
    ("written", "is_seen"),
    [(None, False), (NOW - SETTLES_WITHIN + timedelta(microseconds=1), False), (NOW - SETTLES_WITHIN, True)],
)
def test_a_kubelet_has_seen_what_was_written_long_enough_ago(written: datetime | None, is_seen: bool) -> None:
    record = a_record(ClaimPhase.REGISTERED, moments=Moments(usable_at=written))
    assert is_seen_by_kubelet(record, NOW) == is_seen


@pytest.mark.parametrize(
    ("resources", "lacks"),
    [({"gpu": 1, "cpu": 1}, "gpu"), ({"gpu": 0, "cpu": 1}, None), ({"cpu": 9000}, None), ({"b": 1, "a": 1}, "a")],
)
def test_a_node_lacks_what_was_requested_and_is_not_there_at_all(resources: dict[str, int], lacks: str | None) -> None:
    record = a_record(ClaimPhase.REGISTERED, plan=a_plan(resources=resources))
    assert lacking_resource(record, a_held_node()) == lacks
