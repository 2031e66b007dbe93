"""A spot notice with two minutes left, and an announced date days ahead: what is planned, recorded and waited for."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from adapters.messages import work_on_claim
from adapters.ports import DeniedError, PortError, TransientError
from adapters.run_report import RunReport
from core import labels
from core.brakes import Brake, BrakeKind
from core.lifecycle.commands import BEGINS_BEFORE, DUE_BEFORE, SPREAD
from core.lifecycle.draining import RESTARTED_FOR
from core.lifecycle.records import ClaimRecord
from core.manifests.wire import resources
from lambdas.controllers.interruption import read_event
from tests.builders import NOW
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod

SPOT = "EC2 Spot Instance Interruption Warning"
REBALANCE = "EC2 Instance Rebalance Recommendation"
DAY = timedelta(days=1)


@pytest.fixture
def lab() -> Lab:
    """One node with one pod on it; the response to recommendations is `drain`."""
    lab = Lab(rebalance_policy="drain")
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    lab.work.take()
    return lab


def notice(lab: Lab, kind: str = SPOT, *, late: timedelta = timedelta(0)) -> None:
    """EC2's event about the oldest claim, delivered this long after it was written."""
    event = {
        "source": "aws.ec2",
        "detail-type": kind,
        "time": (lab.clock.now() - late).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "detail": {"instance-id": lab.claims[0].instance_id},
    }
    lab.app.interruptions.run(event, RunReport())


def announce(lab: Lab, start: datetime, **detail: Any) -> RunReport:
    """AWS Health's event about the only claim."""
    report = RunReport()
    written = {
        "service": "EC2",
        "eventTypeCategory": "scheduledChange",
        "startTime": start.strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "affectedEntities": [{"entityValue": lab.claim.instance_id}],
        **detail,
    }
    event = {"source": "aws.health", "detail-type": "AWS Health Event", "detail": written}
    lab.app.interruptions.run(event, report)
    return report


def make_scarce(lab: Lab) -> None:
    lab.cloud.scarce |= {
        (instance_type.name, offering.zone, offering.capacity_type)
        for instance_type in lab.types
        for offering in instance_type.offerings
    }


def noted(lab: Lab) -> tuple[str, ...] | None:
    deletion = lab.claims[0].deletion
    assert deletion is not None
    return deletion.replacements


def test_the_pod_stays_until_its_new_node_is_initialized(lab: Lab) -> None:
    """Otherwise, the pod is down for as long as a node takes to boot."""
    notice(lab)
    lab.tick()
    lab.provision()
    (old, new) = lab.claims
    assert noted(lab) == (new.name,)
    assert labels.DISRUPTED_TAINT in [
        taint["key"] for taint in lab.kubernetes.raw(resources.NODES, old.node_name)["spec"]["taints"]
    ]
    lab.tick(4)
    assert lab.kubernetes.evicted == []
    lab.boot()
    lab.tick(5)
    assert lab.kubernetes.evicted == ["default/p"]


def test_its_pods_are_planned_once(lab: Lab) -> None:
    """Otherwise, each run of the planner launches another node for them."""
    notice(lab)
    lab.tick()
    for _ in range(3):
        lab.provision()
        lab.tick()
    assert len(lab.claims) == 2
    assert noted(lab) == (lab.claims[1].name,)


def test_without_capacity_it_stays_as_long_as_its_grace_permits(lab: Lab) -> None:
    make_scarce(lab)
    notice(lab)
    begun = lab.clock.now()
    while not lab.kubernetes.evicted and lab.clock.now() < begun + timedelta(minutes=3):
        lab.provision()
        lab.tick()
    assert timedelta(seconds=70) <= lab.clock.now() - begun <= timedelta(seconds=85)


def test_a_failed_replacement_does_not_count(lab: Lab) -> None:
    """Its row is gone or terminating: the pod waits for the next one."""
    notice(lab)
    lab.tick()
    lab.provision()
    lab.app.shared.claim_deletion.begin(lab.claims[1], "InstanceGone", "test", RunReport())
    lab.tick(3)
    assert lab.kubernetes.evicted == []


def test_a_replacement_that_is_gone_does_not_count(lab: Lab) -> None:
    """EC2 had no capacity for it, and its row was dropped."""
    notice(lab)
    lab.tick()
    lab.provision()
    lab.app.adapters.stores.claims.forget(lab.claims[1])
    lab.tick(3)
    assert lab.kubernetes.evicted == []
    assert lab.claims[0].deletion is not None


@pytest.mark.parametrize("late", [timedelta(seconds=80), timedelta(minutes=9)])
def test_a_late_notice_is_acted_on_at_once(lab: Lab, late: timedelta) -> None:
    notice(lab, late=late)
    lab.tick()
    assert lab.kubernetes.evicted == ["default/p"]


def test_pods_that_fit_elsewhere_leave_once_that_is_known(lab: Lab) -> None:
    """The plan shows that no new node is needed."""
    lab.kubernetes.put(a_pending_pod("q", cpu="3500m"))
    lab.provision()
    lab.boot()
    lab.tick(4)
    lab.kubernetes.drop(resources.PODS, "q", "default")
    notice(lab)
    lab.provision()
    assert noted(lab) == ()
    lab.tick()
    assert lab.kubernetes.evicted == ["default/p"]


def test_a_recommendation_waits_longer_until_a_notice_follows(lab: Lab) -> None:
    make_scarce(lab)
    notice(lab, REBALANCE)
    lab.tick(30)
    assert lab.kubernetes.evicted == []
    notice(lab)
    lab.tick(12)
    assert lab.kubernetes.evicted == []
    lab.tick(5)
    assert lab.kubernetes.evicted == ["default/p"]


def test_a_plan_is_recorded_although_the_claim_has_just_changed(lab: Lab) -> None:
    """The node is tainted while its pods are planned."""
    notice(lab)
    claims, leaving = lab.app.adapters.claims, lab.claim.name
    change, meets_another = claims.change, iter([True])

    def changed(before: ClaimRecord, after: ClaimRecord) -> ClaimRecord:
        if before.name == leaving and next(meets_another, False):
            change(before, before)
        return change(before, after)

    claims.change = changed  # type: ignore[method-assign] - the drain writes between our reading and writing
    lab.provision()
    assert not next(meets_another, False)
    assert noted(lab) == (lab.claims[1].name,)


def test_a_future_date_is_stored_and_the_earliest_counts(lab: Lab) -> None:
    for days, expected in ((14, 14), (20, 14), (14, 14), (10, 10)):
        announce(lab, NOW + days * DAY)
        assert (lab.claim.retires_at, lab.claim.deletion) == (NOW + expected * DAY, None)
    assert lab.reconcile().counts.get("scheduledChangesBlocked") is None
    assert lab.claim.deletion is None


@pytest.mark.parametrize("remaining", [timedelta(hours=-1), DUE_BEFORE])
def test_a_near_or_past_date_is_acted_on_at_once(lab: Lab, remaining: timedelta) -> None:
    report = announce(lab, lab.clock.now() + remaining)
    assert [d.reason for d in report.decisions] == ["ScheduledChange", "ScheduledChangeDue", "ScheduledChangeDue"]
    assert lab.claim.deletion is not None


def test_a_cancelled_or_completed_event_is_ignored(lab: Lab) -> None:
    announce(lab, lab.clock.now(), statusCode="closed")
    assert (lab.claim.retires_at, lab.claim.deletion) == (None, None)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("Sat, 04 Jun 2022 05:01:10 GMT", "2022-06-04T05:01:10+00:00"),
        ("2022-06-04T05:01:10Z", "2022-06-04T05:01:10+00:00"),
        ("2022-06-04T07:01:10+02:00", "2022-06-04T05:01:10+00:00"),
        ("soon", None),
        (None, None),
        (7, None),
    ],
)
def test_both_date_formats_are_read(written: Any, expected: str | None) -> None:
    detail = {"service": "EC2", "eventTypeCategory": "scheduledChange", "startTime": written}
    interruption = read_event({"source": "aws.health", "detail-type": "AWS Health Event", "detail": detail})
    assert interruption is not None
    assert (interruption.ends_at.isoformat() if interruption.ends_at else None) == expected


def near(lab: Lab) -> None:
    """A date for which the claim may go now, but need not."""
    announce(lab, lab.clock.now() + BEGINS_BEFORE - SPREAD)


def test_days_before_its_date_it_goes_within_the_budgets(lab: Lab) -> None:
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [{"nodes": "0"}]}))
    near(lab)
    assert lab.reconcile().counts["scheduledChangesBlocked"] == 1
    assert lab.claim.deletion is None
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [{"nodes": "1"}]}))
    lab.reconcile()
    assert lab.claim.deletion is not None
    assert (lab.claim.deletion.reason, lab.claim.is_disrupting) == ("ScheduledChange", True)


def test_a_pod_or_a_brake_may_keep_it_until_the_last_hours(lab: Lab) -> None:
    near(lab)
    protected = {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: "true"}}}
    lab.kubernetes.amend(resources.PODS, "p", protected, namespace="default")
    report = lab.reconcile()
    assert [d.reason for d in report.decisions if d.subject == lab.claim.name] == ["ScheduledChangeBlocked"]
    lab.kubernetes.amend(resources.PODS, "p", {"metadata": {"annotations": None}}, namespace="default")
    lab.brakes.hold(Brake(BrakeKind.PAUSE, "test"), lab.clock.now())
    lab.reconcile()
    assert lab.claim.deletion is None
    lab.clock.advance(days=2)
    lab.reconcile()
    assert lab.claim.deletion is not None
    assert lab.claim.deletion.reason == "ScheduledChangeDue"


def test_a_voluntary_disruption_becomes_mandatory_in_the_last_hours(lab: Lab) -> None:
    """Otherwise, a brake or a protected pod keeps the node beyond its date."""
    near(lab)
    lab.reconcile()
    lab.clock.advance(days=2)
    lab.reconcile()
    assert lab.claim.deletion is not None
    assert lab.claim.deletion.reason == "ScheduledChangeDue"


# A single replica whose budget never allows its eviction, on a node that must go.


def an_owner(kind: str, name: str) -> list[dict[str, Any]]:
    return [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}]


def a_lab(*, is_on: bool = True, opts_in: bool = True, status: dict[str, Any] | None = None, **spec: Any) -> Lab:
    """One node, whose NodePool is gone, with the only pod of a Deployment; the Deployment's spec by keyword."""
    lab = Lab(surge_restarts=is_on)
    metadata = {"namespace": "default", "name": "web", "generation": 1}
    settled = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1}
    lab.kubernetes.put(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": 1, **spec}}
        | {"status": settled | (status or {})},
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"namespace": "default", "name": "web-1", "ownerReferences": an_owner("Deployment", "web")},
        },
    )
    marks = {"annotations": {labels.SURGE: "true"}} if opts_in else {}
    lab.kubernetes.put(a_pending_pod("p", metadata={"ownerReferences": an_owner("ReplicaSet", "web-1"), **marks}))
    lab.settle()
    lab.bind("p")
    lab.kubernetes.protected = {"default/p"}
    lab.kubernetes.drop(resources.NODE_POOLS, "default")
    lab.reconcile()
    return lab


def reasons(lab: Lab, looks: int) -> list[str]:
    reasons_told = []
    for _ in range(looks):
        lab.clock.advance(seconds=10)
        report = lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
        reasons_told += [decision.reason for decision in report.decisions if decision.subject == "default/p"]
    return reasons_told


def restarted_for(lab: Lab) -> str | None:
    spec = lab.kubernetes.raw(resources.DEPLOYMENTS, "web", "default")["spec"]
    marks: dict[str, str] = spec.get("template", {}).get("metadata", {}).get("annotations", {})
    return marks.get(RESTARTED_FOR)


def test_its_deployment_is_restarted_once() -> None:
    """Otherwise, the drain waits forever, or each run takes the workload down again."""
    lab = a_lab()
    assert reasons(lab, 1) == ["PodDisruptionBudget"]
    assert restarted_for(lab) is None
    assert reasons(lab, 1) == ["SurgeRestart"]
    assert restarted_for(lab) == lab.claim.name
    assert "SurgeRestart" not in reasons(lab, 10)


@pytest.mark.parametrize(
    "changes",
    [
        {"replicas": 2},
        {"paused": True},
        {"strategy": {"type": "Recreate"}},
        {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}},
        {"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "100%"}}},
        {"status": {"observedGeneration": 0}},
        {"status": {"replicas": 2}},
    ],
    ids=str,
)
def test_a_deployment_that_stops_old_pods_first_is_left_alone(changes: dict[str, Any]) -> None:
    """A restart that stops the old pod first is the very outage that the budget forbids."""
    lab = a_lab(**changes)
    assert reasons(lab, 2) == ["PodDisruptionBudget", "SurgeRefused"]
    assert restarted_for(lab) is None


@pytest.mark.parametrize("changes", [{"is_on": False}, {"opts_in": False}])
def test_a_workload_that_did_not_opt_in_is_not_restarted(changes: dict[str, bool]) -> None:
    lab = a_lab(**changes)
    assert reasons(lab, 4) == ["PodDisruptionBudget"]
    assert restarted_for(lab) is None


def test_a_pod_without_a_deployment_gets_an_event() -> None:
    lab = a_lab()
    lab.kubernetes.drop(resources.REPLICA_SETS, "web-1", "default")
    assert reasons(lab, 2) == ["PodDisruptionBudget", "SurgeRefused"]


def test_a_pod_of_another_controller_restarts_no_deployment_of_that_name() -> None:
    """A Rollout also owns ReplicaSets: a Deployment of its name would be restarted, and the pod stays."""
    lab = a_lab()
    lab.kubernetes.amend(
        resources.REPLICA_SETS, "web-1", {"metadata": {"ownerReferences": an_owner("Rollout", "web")}}, "default"
    )
    assert reasons(lab, 2) == ["PodDisruptionBudget", "SurgeRefused"]
    assert restarted_for(lab) is None


def test_a_replica_set_that_a_deployment_does_not_control_restarts_nothing() -> None:
    lab = a_lab()
    owners = [an_owner("Deployment", "web")[0] | {"controller": False}]
    lab.kubernetes.amend(resources.REPLICA_SETS, "web-1", {"metadata": {"ownerReferences": owners}}, "default")
    assert reasons(lab, 2) == ["PodDisruptionBudget", "SurgeRefused"]
    assert restarted_for(lab) is None


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DeniedError("kube:patch deployments", "403"), "SurgeDenied"),
        (TransientError("kube:patch deployments", "500"), "SurgeFailed"),
    ],
)
def test_a_restart_that_is_denied_or_fails_stops_no_drain(error: PortError, reason: str) -> None:
    """Without the permission an operator must act; after a failure the next round tries again."""
    lab = a_lab()
    reasons(lab, 1)

    def fail(call: str) -> None:
        if call == "patch deployments":
            raise error

    lab.kubernetes.before_call = fail
    assert reasons(lab, 1) == [reason]
    assert restarted_for(lab) is None
    lab.kubernetes.before_call = lambda _: None
    assert "SurgeRestart" in reasons(lab, 3)
