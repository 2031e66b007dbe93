"""Whether a drain is given back: a protected pod keeps a node that may stay, and never one that must go."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.lifecycle import steps
from core.lifecycle.claims import next_claim_step
from core.lifecycle.draining.cancellation import (
    FIRST_HOLD,
    LONGEST_HOLD,
    TAINT_SEEN_WITHIN,
    hold_for,
    is_last_check_due,
    may_be_cancelled,
    open_again,
)
from core.lifecycle.facts import ClaimFacts
from core.model.pod import Owner
from core.model.policy import PodDisruptionBudget
from tests.builders import NOW, a_pod, a_selector
from tests.unit.lifecycle.records_for_tests import a_leaving, a_node, a_record

LEAVING = a_node(leaving=True)
PLAIN = a_pod("a", node_name="n", phase="Running", labels={"app": "web"})
PROTECTED = a_pod("b", node_name="n", phase="Running", annotations={labels.DO_NOT_DISRUPT: "true"})
MINUTE = timedelta(minutes=1)


def a_budget(**changes: object) -> PodDisruptionBudget:
    fields = {"min_available": "1", "disruptions_allowed": 0, "expected_pods": 1, "selector": a_selector(app="web")}
    return PodDisruptionBudget(**{"namespace": "default", "name": "web", **fields, **changes})


def step_of(*pods: object, budgets: tuple[PodDisruptionBudget, ...] = (), **changes: object) -> object:
    facts = ClaimFacts(nodes=(LEAVING,), pods=pods, budgets=budgets)
    return next_claim_step(a_leaving(**{"reason": "Underutilized", **changes}), facts, NOW)


def test_a_protected_pod_that_came_late_keeps_the_node() -> None:
    """Otherwise, its neighbours are moved for nothing, and the node stays closed until the pod ends."""
    step = step_of(PLAIN, PROTECTED)
    assert step == steps.CancelDrain("n", "DoNotDisrupt", f"pod default/b has {labels.DO_NOT_DISRUPT}")


def test_a_budget_that_never_allows_an_eviction_keeps_the_node() -> None:
    step = step_of(PLAIN, budgets=(a_budget(),))
    assert isinstance(step, steps.CancelDrain)
    assert (
        step.message == "PodDisruptionBudget web never lets pod default/a be evicted: minAvailable 1 wants 1 of 1 pod"
    )
    assert isinstance(step_of(PLAIN, budgets=(a_budget(), a_budget(name="more"))), steps.CancelDrain)


def test_several_budgets_keep_the_node_whatever_else_is_true_of_the_pod() -> None:
    """The eviction API refuses the pod; a rollout restart is tried for a single budget only.

    The drain would stop half-way.
    """
    both = (a_budget(unhealthy_pod_eviction_policy="AlwaysAllow"), a_budget(name="more"))
    broken = msgspec.structs.replace(PLAIN, is_ready=False)
    owner = Owner("ReplicaSet", "web-1", is_controller=True)
    surging = msgspec.structs.replace(PLAIN, owners=(owner,), annotations={labels.SURGE: "true"})
    for pod in (broken, surging):
        assert isinstance(step_of(pod, budgets=both), steps.CancelDrain)
        assert isinstance(step_of(pod, budgets=both[:1]), steps.Drain)


@pytest.mark.parametrize(
    "budget", [a_budget(expected_pods=2), a_budget(expected_pods=None), a_budget(disruptions_allowed=1)]
)
def test_a_budget_that_may_open_is_waited_for(budget: PodDisruptionBudget) -> None:
    """Two nodes that drain one after the other each block the other's budget for a minute."""
    assert isinstance(step_of(PLAIN, budgets=(budget,)), steps.Drain)


@pytest.mark.parametrize(
    "changes",
    [
        {"reason": "SpotInterrupted"},
        {"reason": "NodePoolDeleted"},
        {"reason": "Drifted", "deadline": NOW + 30 * MINUTE},
        {"reason": "Expired", "deadline": NOW + 30 * MINUTE},
        {"evicted_at": NOW},
        {"is_final": True},
    ],
)
def test_drains_of_some_nodes_are_not_cancelled(changes: dict[str, object]) -> None:
    """They must go, their time is bounded, or pods have left already."""
    assert not isinstance(step_of(PLAIN, PROTECTED, **changes), steps.CancelDrain)


@pytest.mark.parametrize("reason", ["Underutilized", "Empty"])
def test_no_pod_is_forced_off_to_save_money(reason: str) -> None:
    """Karpenter: with a terminationGracePeriod, drift overrides a protected pod; consolidation does not."""
    assert isinstance(step_of(PROTECTED, reason=reason, deadline=NOW + 30 * MINUTE), steps.CancelDrain)


@pytest.mark.parametrize(
    ("changes", "ago", "cancels"),
    [
        ({}, TAINT_SEEN_WITHIN, True),
        ({}, TAINT_SEEN_WITHIN - timedelta(microseconds=1), False),
        ({"deadline": None}, MINUTE, False),
        ({"reason": "SpotInterrupted"}, MINUTE, False),
        ({"is_final": True}, MINUTE, False),
        ({"tainted_at": None}, MINUTE, False),
    ],
)
def test_a_node_that_lost_its_taint_is_kept_if_pods_would_be_forced_off(
    changes: dict[str, object], ago: timedelta, *, cancels: bool
) -> None:
    """A restored table may hold a drain that was given back since, whose deadline passes soon."""
    fields = {
        "reason": "Underutilized",
        "deadline": NOW + MINUTE,
        "tainted_at": NOW - ago,
        "asked_at": NOW - ago,
        **changes,
    }
    record = a_leaving(**{key: value for key, value in fields.items() if key != "tainted_at"})
    deletion = msgspec.structs.replace(record.deletion, tainted_at=fields["tainted_at"])
    record = msgspec.structs.replace(record, deletion=deletion)
    assert (open_again(record, a_node(), NOW) is not None) == cancels
    assert open_again(record, LEAVING, NOW) is None
    assert open_again(record, a_node(deleted_at=NOW), NOW) is None


def test_a_node_is_left_alone_for_longer_each_time() -> None:
    holds = [hold_for(times) for times in range(200)]
    assert holds[:3] == [FIRST_HOLD, 2 * FIRST_HOLD, 4 * FIRST_HOLD]
    assert holds == sorted(holds)
    assert holds[-1] == LONGEST_HOLD


def test_a_drain_is_cancelled_while_it_is_voluntary_and_its_node_is_tainted_and_runs() -> None:
    """One by drift has no end of its own only without a deadline; a claim that stays has no drain."""
    for record, expected in (
        (a_record(), False),
        (a_leaving(reason="Empty"), True),
        (a_leaving(reason="Underutilized"), True),
        (a_leaving(reason="Drifted"), True),
        (a_leaving(reason="Drifted", deadline=NOW), False),
        (a_leaving(reason="Empty", deadline=NOW), True),
        (a_leaving(reason="Interrupted"), False),
        (a_leaving(reason="Empty", tainted=None), False),
        (a_leaving(reason="Empty", terminated_at=NOW), False),
        (a_leaving(reason="Empty", is_final=True), False),
    ):
        assert may_be_cancelled(record) is expected, record.deletion
        assert is_last_check_due(record) is expected
    begun = a_leaving(reason="Empty", evicted_at=NOW)
    assert (may_be_cancelled(begun), is_last_check_due(begun)) == (True, False)
