"""Registration and initialization of a node."""

from datetime import timedelta

import pytest

from core import labels
from core.lifecycle import steps
from core.lifecycle.claims import next_claim_step
from core.lifecycle.facts import ClaimFacts
from core.lifecycle.records import ClaimPhase
from core.lifecycle.registration import STARTED, registration_of, waits_for, was_recreated
from core.model.values.taints import HELD, NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, UNREGISTERED, Taint
from tests.builders import NOW
from tests.unit.lifecycle.records_for_tests import a_node, a_plan, a_record

MINUTE = timedelta(minutes=1)


def test_registration_sets_the_claims_labels_and_removes_the_boot_taint() -> None:
    """Otherwise, pods that select a team's nodes are bound elsewhere, or no pod is ever bound to the node."""
    step = registration_of(a_record(ClaimPhase.LAUNCHED), a_node(booting=True))
    assert step.labels["team"] == "a"
    assert step.labels[labels.INSTANCE_TYPE] == "m5.large"
    assert step.labels[labels.REGISTERED] == "true"
    assert UNREGISTERED not in step.taints


def test_registration_merges_taints_by_key_and_effect() -> None:
    """Otherwise, a taint that a user's agent has changed on the node is reset."""
    plan = a_plan(
        taints=(Taint("a", NO_SCHEDULE, "new"), Taint("b", NO_EXECUTE)), startup_taints=(Taint("s", NO_SCHEDULE),)
    )
    node = a_node(taints=(UNREGISTERED, Taint("a", NO_SCHEDULE, "old")))
    step = registration_of(a_record(ClaimPhase.LAUNCHED, plan=plan), node)
    assert step.taints == (Taint("a", NO_SCHEDULE, "old"), Taint("b", NO_EXECUTE), Taint("s", NO_SCHEDULE))


def test_a_node_keeps_its_own_taints_on_request() -> None:
    plan = a_plan(taints=(Taint("a", NO_SCHEDULE),))
    node = a_node(booting=True, labels={labels.DO_NOT_SYNC_TAINTS: "true"})
    assert registration_of(a_record(ClaimPhase.LAUNCHED, plan=plan), node).taints == ()


@pytest.mark.parametrize(
    ("node", "missing"),
    [
        ({"is_ready": False}, "not ready"),
        ({"taints": (Taint("s", NO_SCHEDULE, "x"),)}, "startup taint"),
        ({"taints": (Taint("node.kubernetes.io/not-ready", NO_EXECUTE),)}, "not-ready"),
        ({"taints": (Taint("readiness.k8s.io/cni", NO_SCHEDULE),)}, "readiness.k8s.io/cni"),
        ({"allocatable": {"cpu": 2000}}, "nvidia.com/gpu"),
    ],
)
def test_a_node_is_initialized_only_when_nothing_is_missing(node: dict[str, object], missing: str) -> None:
    """Otherwise, a node counts as capacity, or as empty, before its GPU driver is there."""
    plan = a_plan(startup_taints=(Taint("s", NO_SCHEDULE),), resources={"cpu": 1000, "nvidia.com/gpu": 1, "x": 0})
    record = a_record(ClaimPhase.REGISTERED, plan=plan)
    found = a_node(**{"allocatable": {"cpu": 2000, "nvidia.com/gpu": 1}, **node})
    assert missing in waits_for(record, found)
    assert isinstance(next_claim_step(record, ClaimFacts(nodes=(found,)), NOW), steps.Wait)


def test_other_taints_do_not_keep_a_node_from_being_initialized() -> None:
    node = a_node(taints=(Taint("team", PREFER_NO_SCHEDULE),))
    assert waits_for(a_record(ClaimPhase.REGISTERED), node) == STARTED
    facts = ClaimFacts(nodes=(node,))
    assert next_claim_step(a_record(ClaimPhase.REGISTERED), facts, NOW) == steps.MarkInitialized("n")


def test_our_hold_comes_off_last_wherever_it_stands_among_the_taints() -> None:
    """A node whose agent has not finished is not opened to pods because our own taint happens to be the first."""
    startup = Taint("s", NO_SCHEDULE)
    record = a_record(ClaimPhase.REGISTERED, plan=a_plan(startup_taints=(startup,)))
    for taints in ((HELD, startup), (startup, HELD)):
        assert "startup taint" in waits_for(record, a_node(taints=taints))
    assert waits_for(record, a_node(taints=(HELD,))) == STARTED


def test_a_node_that_joined_again_under_its_name_is_registered_again() -> None:
    """Its kubelet brought the boot taint back, which keeps all pods away: the machine was paid for nothing, for good."""
    record = a_record(age=10 * MINUTE)
    known = a_node(labels={labels.REGISTERED: "true"}, created_at=NOW - 20 * MINUTE)
    assert isinstance(next_claim_step(record, ClaimFacts(nodes=(known,)), NOW), steps.NoStep)
    for node in (
        a_node(booting=True, created_at=NOW - 20 * MINUTE),
        a_node(created_at=NOW - MINUTE),
        a_node(booting=True),
    ):
        for phase in (ClaimPhase.REGISTERED, ClaimPhase.INITIALIZED):
            step = next_claim_step(a_record(phase, age=10 * MINUTE), ClaimFacts(nodes=(node,)), NOW)
            assert isinstance(step, steps.Register)
            assert step.taints == ()


def test_a_working_node_that_lost_a_label_gets_no_startup_taints() -> None:
    """They would stay: the agent that removes them has run."""
    plan = a_plan(startup_taints=(Taint("s", NO_SCHEDULE),))
    node = a_node(created_at=NOW - 20 * MINUTE)
    step = next_claim_step(a_record(age=10 * MINUTE, plan=plan), ClaimFacts(nodes=(node,)), NOW)
    assert isinstance(step, steps.NoStep)


@pytest.mark.parametrize(
    ("later", "node", "is_new"),
    [
        (timedelta(microseconds=1), {}, True),
        (timedelta(0), {}, False),
        (-MINUTE, {}, False),
        (-MINUTE, {"taints": (UNREGISTERED,)}, True),
        (MINUTE, {"labels": {labels.REGISTERED: "true"}}, False),
        (MINUTE, {"deleted_at": NOW}, False),
    ],
)
def test_a_node_is_another_one_if_it_is_younger_than_the_registration(
    later: timedelta, node: dict[str, object], *, is_new: bool
) -> None:
    record = a_record(ClaimPhase.INITIALIZED)
    assert was_recreated(record, a_node(created_at=record.phase_since + later, **node)) == is_new
    assert not was_recreated(a_record(ClaimPhase.LAUNCHED), a_node(created_at=NOW + MINUTE, **node))
