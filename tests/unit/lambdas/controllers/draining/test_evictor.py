"""Evictions that fail in different ways, each for one pod among others."""

from __future__ import annotations

from datetime import timedelta

import pytest

from adapters.messages import work_on_claim
from adapters.ports import (
    ConflictError,
    DeniedError,
    EvictionBlockedError,
    LostReplyError,
    NotFoundError,
    PortError,
    SeveralBudgetsError,
    ThrottledError,
    TransientError,
)
from adapters.runtime.observability import DENIED
from core.brakes.brake import Brake, BrakeKind
from core.manifests.wire import api_resources as kinds
from core.reasons.drain import DrainReason, EvictionReason
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod

CALL = "kube:create pods/eviction"
PODS = ("default/a", "default/b", "default/c")
WEBHOOK = 'Internal error occurred: failed calling webhook "guard.example.com": timeout'
ERRORS = {
    EvictionReason.POD_DISRUPTION_BUDGET: EvictionBlockedError(CALL, "the disruption budget web needs 2"),
    EvictionReason.SEVERAL_BUDGETS: SeveralBudgetsError(CALL, "more than one PodDisruptionBudget"),
    EvictionReason.THROTTLED: ThrottledError(CALL, "429"),
    EvictionReason.WEBHOOK_FAILED: TransientError(CALL, WEBHOOK),
    EvictionReason.SERVER_ERROR: TransientError(CALL, "500"),
    EvictionReason.NO_REPLY: LostReplyError(CALL, "timed out"),
    EvictionReason.DENIED: DeniedError(CALL, "403"),
}


def a_lab(**template: str) -> Lab:
    """One node with three pods on it; its NodePool is gone."""
    lab = Lab()
    lab.kubernetes.put(a_node_pool(template=template), *(a_pending_pod(key[-1]) for key in PODS))
    lab.settle()
    lab.bind("a", "b", "c")
    lab.kubernetes.drop(kinds.NODE_POOLS, "default")
    lab.reconcile()
    return lab


@pytest.mark.parametrize("answer", list(EvictionReason))
def test_one_pods_error_never_stops_its_neighbours(answer: EvictionReason) -> None:
    """Otherwise, one pod with two budgets, or one failing webhook, keeps its node forever."""
    lab = a_lab()
    lab.kubernetes.refusing = {"default/a": ERRORS[answer]}
    reports = lab.tick(3)
    assert lab.kubernetes.evicted == ["default/b", "default/c"]
    reported = [d.reason for report in reports for d in report.decisions if d.subject == "default/a"]
    assert reported == [answer]
    assert lab.claim.deletion is not None
    assert [found.attempts for found in lab.claim.deletion.tries.values()] == [3]
    lab.kubernetes.refusing = {}
    lab.tick(10, seconds=10)
    assert lab.claims == ()


@pytest.mark.parametrize("error", [NotFoundError(CALL, "404 not found"), ConflictError(CALL, "409 another uid")])
def test_a_pod_that_is_gone_when_it_is_evicted_is_no_objection(error: PortError) -> None:
    """Else a drain would report an error for each pod that ended by itself, and count it as tried in vain."""
    lab = a_lab()
    lab.kubernetes.refusing = {"default/a": error}
    (report,) = lab.tick(1)
    assert lab.kubernetes.evicted == ["default/b", "default/c"]
    assert [d for d in report.decisions if d.subject == "default/a"] == []
    assert lab.claim.deletion is not None
    assert lab.claim.deletion.tries == {}


REFUSAL = 'admission webhook "guard.example.com" denied the request: later'


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ThrottledError(CALL, f"429 {REFUSAL}", timedelta(minutes=1)), id="429"),
        pytest.param(NotFoundError(CALL, f"404 {REFUSAL}"), id="404"),
        pytest.param(ConflictError(CALL, f"409 {REFUSAL}"), id="409"),
        pytest.param(DeniedError(CALL, f"403 {REFUSAL}"), id="403"),
    ],
)
def test_a_webhook_speaks_for_its_pod_alone_whatever_status_it_answers(error: PortError) -> None:
    """A webhook chooses code and delay: its 429 kept all neighbours for a minute, and of its 404 nobody was told."""
    lab = a_lab()
    lab.kubernetes.refusing = {"default/a": error}
    reports = lab.tick(3)
    assert lab.kubernetes.evicted == ["default/b", "default/c"]
    assert [d.reason for report in reports for d in report.decisions if d.subject == "default/a"] == ["WebhookFailed"]
    assert lab.claim.deletion is not None
    assert [found.attempts for found in lab.claim.deletion.tries.values()] == [3]


def test_at_the_deadline_every_pod_is_evicted_before_any_is_forced() -> None:
    """Otherwise, the neighbours of one stuck pod are killed before their budget was asked once."""
    lab = a_lab(terminationGracePeriod="2m")
    lab.kubernetes.refusing = {"default/a": ERRORS[EvictionReason.SERVER_ERROR]}
    lab.clock.advance(minutes=5)
    lab.tick(2)
    assert lab.kubernetes.evicted == ["default/b", "default/c"]
    assert lab.kubernetes.names(kinds.PODS) == ["a"]
    lab.clock.advance(minutes=2)
    lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    assert lab.kubernetes.names(kinds.PODS) == []


def test_the_grace_period_starts_when_the_node_is_tainted() -> None:
    """Otherwise, a node that could not be tainted for two minutes is emptied by force as soon as it is."""
    lab = a_lab(terminationGracePeriod="2m")
    asked_at = lab.clock.now()
    lab.clock.advance(minutes=10)
    lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    deletion = lab.claim.deletion
    assert deletion is not None
    assert deletion.asked_at == asked_at
    assert deletion.deadline == lab.clock.now() + timedelta(minutes=2)


def test_a_brake_stops_the_deadline_too() -> None:
    """If this failed, all pods of all draining nodes would be forced off together, untried, once a brake is released."""
    lab = a_lab(terminationGracePeriod="10m")
    lab.kubernetes.refusing = dict.fromkeys(PODS, ERRORS[EvictionReason.POD_DISRUPTION_BUDGET])
    lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    assert lab.claim.deletion is not None
    deadline = lab.claim.deletion.deadline
    assert deadline is not None
    stop(lab)
    for _ in range(2):
        lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
        lab.clock.advance(minutes=60)
    lab.brakes.release(BrakeKind.STOP)
    for _ in range(2):
        lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    assert lab.kubernetes.names(kinds.PODS) == ["a", "b", "c"]
    assert lab.claim.deletion.deadline == deadline + timedelta(minutes=120)
    lab.clock.advance(minutes=10)
    for _ in range(2):
        lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    assert lab.kubernetes.names(kinds.PODS) == []


def test_a_brake_that_is_released_within_a_check_forces_no_pod_off() -> None:
    """Brakes are read again within a check, after the drain's deadline was compared with them."""
    lab = a_lab(terminationGracePeriod="2m")
    lab.kubernetes.refusing = dict.fromkeys(PODS, ERRORS[EvictionReason.POD_DISRUPTION_BUDGET])
    lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    stop(lab)
    lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    lab.clock.advance(minutes=60)

    def release(call: str) -> None:
        if call.startswith("list pods"):
            lab.brakes.release(BrakeKind.STOP)

    lab.kubernetes.before_call = release
    for _ in range(2):
        lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    assert lab.kubernetes.names(kinds.PODS) == ["a", "b", "c"]
    assert lab.claim.deletion is not None
    assert (lab.claim.deletion.held_at, lab.claim.deletion.held_for) == (None, timedelta(minutes=60))


def test_a_brake_stops_the_escalation_too() -> None:
    """If this failed, every drain would be given up or raise an alarm when a brake is released after a day."""
    lab = a_lab()
    lab.kubernetes.refusing = dict.fromkeys(PODS, ERRORS[EvictionReason.POD_DISRUPTION_BUDGET])
    lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    stop(lab)
    reasons = set()
    for _ in range(3):
        reasons |= {d.reason for d in lab.execute(work_on_claim(lab.claim.name, lab.clock.now())).decisions}
        lab.clock.advance(minutes=24 * 60)
    lab.brakes.release(BrakeKind.STOP)
    for minutes in (0, 4):
        lab.clock.advance(minutes=minutes)
        report = lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
        reasons |= {d.reason for d in report.decisions}
    assert lab.claim.deletion is not None
    assert (lab.claim.deletion.escalation_level, lab.claim.deletion.held_for) == (0, timedelta(days=3))
    assert not reasons & set(DrainReason)
    lab.clock.advance(minutes=1)
    report = lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    assert DrainReason.SLOW in {d.reason for d in report.decisions}


def stop(lab: Lab) -> None:
    lab.brakes.hold(Brake(BrakeKind.STOP, "stopped by a test"), lab.clock.now())


def test_one_pod_that_cannot_be_deleted_keeps_no_other_from_being_forced() -> None:
    lab = a_lab(terminationGracePeriod="2m")
    lab.kubernetes.refusing = dict.fromkeys(PODS, ERRORS[EvictionReason.POD_DISRUPTION_BUDGET])
    lab.tick(2)
    lab.kubernetes.undeletable = {"default/a"}
    lab.clock.advance(minutes=2)
    report = lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    assert lab.kubernetes.names(kinds.PODS) == ["a"]
    assert {d.reason for d in report.decisions} == {"TerminationGracePeriodElapsed", "ServerError"}


def test_a_pod_whose_deletion_hangs_keeps_no_other_from_being_forced_or_evicted() -> None:
    """Each round has ten seconds: a webhook that hangs for one pod took all of them, round after round."""
    lab = a_lab(terminationGracePeriod="2m")
    lab.kubernetes.refusing = dict.fromkeys(PODS, ERRORS[EvictionReason.POD_DISRUPTION_BUDGET])
    lab.tick(2)
    lab.kubernetes.undeletable = {"default/a"}
    lab.kubernetes.before_call = lambda call: lab.clock.advance(seconds=12) if call == "delete pods" else None
    lab.clock.advance(minutes=2)
    for _ in range(4):
        lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    assert lab.kubernetes.names(kinds.PODS) == ["a"]


def of_one_workload(lab: Lab, **graces: int) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    for name, grace in graces.items():
        body = {"metadata": {"ownerReferences": [owner]}, "spec": {"terminationGracePeriodSeconds": grace}}
        lab.kubernetes.amend(kinds.PODS, name, body, namespace="default")


def test_pods_of_a_workload_that_just_lost_one_by_force_are_evicted_a_second_later() -> None:
    """A PodDisruptionBudget counts an eviction at once, a deletion by force later: both together took a pod too many."""
    lab = a_lab(terminationGracePeriod="2m")
    of_one_workload(lab, a=60, b=1)
    lab.kubernetes.refusing = dict.fromkeys(PODS, ERRORS[EvictionReason.POD_DISRUPTION_BUDGET])
    lab.tick(2)
    lab.kubernetes.refusing = {}
    lab.clock.advance(minutes=1)
    report = lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    assert "default/a" in {d.subject for d in report.decisions if d.reason is DrainReason.DEADLINE_REACHED}
    assert lab.kubernetes.evicted == ["default/c"]
    assert report.counts["postponedEvictions"] == 1
    assert lab.work.sent[-1][1] == timedelta(seconds=1)
    lab.tick(seconds=1)
    assert lab.kubernetes.evicted == ["default/c", "default/b"]


def test_a_pod_that_waits_for_its_budgets_status_is_evicted_before_it_is_forced_off() -> None:
    """An outage outlasts the deadline: the round that postponed a pod counted as one that had tried it."""
    lab = a_lab(terminationGracePeriod="2m")
    of_one_workload(lab, a=1, b=1, c=1)
    for name in "bc":
        kept = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}
        lab.kubernetes.amend(kinds.PODS, name, kept, namespace="default")
    lab.kubernetes.refusing = {"default/a": ERRORS[EvictionReason.POD_DISRUPTION_BUDGET]}
    lab.tick(2)
    lab.kubernetes.refusing = {}
    lab.clock.advance(minutes=5)
    for _ in range(3):
        lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
        lab.clock.advance(seconds=1)
    assert lab.kubernetes.evicted == ["default/b", "default/c"]


def test_an_overloaded_server_is_left_alone() -> None:
    """Otherwise, a drain of many pods adds to the reported overload."""
    lab = a_lab()
    busy: PortError = ThrottledError(CALL, "429", timedelta(seconds=40))
    lab.kubernetes.refusing = {"default/a": busy}
    report = lab.execute()
    assert lab.kubernetes.evicted == []
    assert report.counts["postponedEvictions"] == 2
    assert lab.work.sent[-1][1] == timedelta(seconds=40)
    lab.tick(seconds=40)
    assert lab.kubernetes.evicted == ["default/b", "default/c"]


def test_an_eviction_that_the_role_does_not_permit_counts_as_a_denied_call() -> None:
    """Otherwise, drains stop because of a missing permission, and no alarm fires."""
    lab = a_lab()
    lab.kubernetes.refusing = {"default/a": ERRORS[EvictionReason.DENIED]}
    reported = [decision for report in lab.tick(3) for decision in report.decisions if decision.reason in DENIED]
    assert {decision.message.partition(": ")[0] for decision in reported} == {CALL}
