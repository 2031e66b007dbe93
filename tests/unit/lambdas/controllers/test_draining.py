"""Evictions that fail in different ways, each for one pod among others."""

from __future__ import annotations

from datetime import timedelta
from threading import Thread
from typing import Any

import msgspec
import pytest

from adapters.messages import work_on_claim
from adapters.observability import DENIED
from adapters.ports import (
    ConflictError,
    DeniedError,
    EvictionBlockedError,
    JsonObject,
    LostReplyError,
    NotFoundError,
    PortError,
    SeveralBudgetsError,
    ThrottledError,
    TransientError,
)
from adapters.run_report import RunReport
from core import labels
from core.brakes import Brake, BrakeKind
from core.lifecycle.deletion import expedited
from core.lifecycle.records import Deletion
from core.lifecycle.steps import Drain, TaintNode
from core.manifests.wire import resources
from core.model.pod import Owner, Pod
from core.model.values.taints import DISRUPTED
from core.reasons.code import TerminationReason
from core.reasons.pods import EvictionReason
from core.reasons.runs import DrainReason
from lambdas.controllers.draining import COUNTED_AFTER, DrainEvents, Draining, Evictor, ForcedDeletions, Surge
from lambdas.controllers.nodes import NodeStateReader
from tests.builders import NOW, a_pod
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.fakes.world import FakeClock, FakeKubernetes
from tests.unit.lifecycle.records_for_tests import a_record

# A consolidation whose node gets a protected pod between the taint and the first eviction.


CAPACITY = {"cpu": "4"}


A_CAP = {"caps": [{"name": "all", "limits": {"cpu": "1"}}]}
A_LIMIT = {"rules": [{"name": "low", "settings": {"limits": {"cpu": "1"}}}]}


def a_calendar(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "costs"}
    return {"apiVersion": "fleetwright.dev/v1alpha1", "kind": "Calendar", "metadata": metadata, "spec": spec}


def drain_cancellation_a_lab(calendar: dict[str, Any] | None = None, **pool: Any) -> Lab:
    """An empty node whose removal has begun, and a protected pod that has just been bound to it."""
    lab = Lab()
    lab.kubernetes.put(a_calendar(caps=[{"name": "all", "limits": {"cpu": "100"}}]), a_pending_pod("p"))
    lab.settle()
    lab.kubernetes.drop(resources.PODS, "p", "default")
    lab.clock.advance(minutes=1)
    lab.kubernetes.put(a_node_pool(**pool), a_calendar(**calendar or {}))
    lab.app.shared.claim_deletion.begin(lab.claim, "Empty", "test", RunReport())
    lab.kubernetes.put(a_pending_pod("late", metadata={"annotations": {labels.DO_NOT_DISRUPT: "true"}}))
    lab.bind("late")
    return lab


def work(lab: Lab) -> RunReport:
    return lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))


def test_the_node_is_restored_and_left_alone_for_a_while() -> None:
    """Otherwise, it stays closed with one pod on it, and its NodePool's limits do not count it."""
    lab = drain_cancellation_a_lab()
    report = work(lab)
    (node,) = lab.kubernetes.names(resources.NODES)
    written = lab.kubernetes.raw(resources.NODES, node)
    assert [(d.kind, d.reason) for d in report.decisions] == [("abandon", "DoNotDisrupt")]
    assert written["spec"]["taints"] == []
    assert labels.EXCLUDE_FROM_BALANCERS not in written["metadata"]["labels"]
    assert lab.claim.deletion is None
    assert lab.claim.reserved["nodes"] == 1
    assert lab.rows.usage["default"].reserved == lab.claim.reserved
    assert lab.rows.usage["default"].disrupting == 0
    assert lab.claim.hold is not None
    assert lab.claim.hold.until > lab.clock.now()


def test_a_node_that_its_kubelet_changes_meanwhile_is_restored_as_well() -> None:
    """A kubelet writes every ten seconds: our taint would stay until `reconcile` finds it, on a node that is kept."""
    lab = drain_cancellation_a_lab()
    (node,) = lab.kubernetes.names(resources.NODES)
    writes = ["first of ours"]

    def before(call: str) -> None:
        if call == "patch nodes" and lab.claim.deletion is None and writes:
            writes.clear()
            lab.kubernetes.amend(resources.NODES, node, {"metadata": {"labels": {"written-by": "kubelet"}}})

    lab.kubernetes.before_call = before
    work(lab)
    written = lab.kubernetes.raw(resources.NODES, node)
    assert not writes
    assert (written["spec"]["taints"], written["metadata"]["labels"]["written-by"]) == ([], "kubelet")


@pytest.mark.parametrize(
    ("pool", "calendar"), [({"limits": {"cpu": "1"}}, {}), ({}, A_CAP), ({}, A_LIMIT)], ids=["pool", "cap", "rule"]
)
def test_without_room_in_the_limits_the_drain_goes_on(pool: dict[str, Any], calendar: dict[str, Any]) -> None:
    """Its replacement may have used the room: neither limits nor caps are ever exceeded."""
    lab = drain_cancellation_a_lab(calendar, **pool)
    assert [d.reason for d in work(lab).decisions] == ["LimitReached"]
    assert lab.claim.deletion is not None
    assert lab.claim.deletion.is_final
    assert [d.reason for d in work(lab).decisions] == []


def test_a_node_that_must_go_keeps_its_drain() -> None:
    """A spot notice may come while a node is being consolidated."""
    lab = drain_cancellation_a_lab()
    report = RunReport()
    lab.app.shared.claim_deletion.begin(lab.claim, "SpotInterrupted", "notice", report)
    assert [d.reason for d in report.decisions] == ["SpotInterrupted"]
    work(lab)
    assert lab.claim.deletion is not None
    assert lab.claim.deletion.reason == "SpotInterrupted"


@pytest.mark.parametrize("minutes", [14, 16])
def test_after_the_hold_it_may_go_again(minutes: int) -> None:
    lab = drain_cancellation_a_lab()
    work(lab)
    lab.kubernetes.drop(resources.PODS, "late", "default")
    lab.clock.advance(minutes=1)
    lab.reconcile()
    lab.clock.advance(minutes=minutes - 1)
    lab.disrupt()
    assert bool(lab.rows.commands) == (minutes > 15)


@pytest.mark.parametrize("made_by_hand", [True, False])
def test_a_node_whose_pool_is_gone_is_kept_only_if_it_was_made_by_hand(made_by_hand: bool) -> None:
    """A NodeClaim of a user needs no NodePool; any other node has to follow its own."""
    lab = drain_cancellation_a_lab()
    annotations = {labels.MADE_BY_HAND: "uid"} if made_by_hand else {}
    plan = msgspec.structs.replace(lab.claim.plan, annotations=annotations)
    lab.app.adapters.stores.claims.change(lab.claim, msgspec.structs.replace(lab.claim, plan=plan))
    lab.kubernetes.drop(resources.NODE_POOLS, "default")
    work(lab)
    assert (lab.claim.deletion is None) is made_by_hand


def a_restored_drain(reason: str = "Underutilized", **template: Any) -> Lab:
    """A working node with a pod that a budget protects; the table is restored to a drain of two days ago, since cancelled."""
    lab = Lab()
    pool = a_node_pool()
    pool["spec"]["template"]["spec"].update(template)
    lab.kubernetes.put(pool)
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    lab.kubernetes.protected.add("default/p")
    lab.app.shared.claim_deletion.begin(lab.claim, reason, "test", RunReport())
    work(lab)
    assert lab.claim.deletion is not None
    assert lab.claim.deletion.tries
    (node,) = lab.kubernetes.names(resources.NODES)
    lab.kubernetes.patch(resources.NODES, node, {"spec": {"taints": []}})
    lab.clock.advance(minutes=2 * 24 * 60)
    return lab


def test_a_drain_of_a_restored_table_does_not_force_pods_off_a_working_node() -> None:
    """Its deadline has passed, so the pod would be deleted within a second, past its budget."""
    lab = a_restored_drain(terminationGracePeriod="1h")
    report = work(lab)
    assert [(decision.kind, decision.reason) for decision in report.decisions] == [("abandon", "TaintRemoved")]
    assert lab.claim.deletion is None
    assert lab.claim.hold is not None
    assert lab.kubernetes.names(resources.PODS) == ["p"]
    work(lab)
    assert lab.kubernetes.names(resources.PODS) == ["p"]


def test_a_drain_that_must_go_on_taints_its_node_again() -> None:
    """If this failed, whoever removes a taint could keep an instance that EC2 is about to take."""
    lab = a_restored_drain(reason="SpotInterrupted")
    work(lab)
    (node,) = lab.kubernetes.names(resources.NODES)
    assert [taint["key"] for taint in lab.kubernetes.raw(resources.NODES, node)["spec"]["taints"]] == [
        labels.DISRUPTED_TAINT
    ]


def a_guard(name: str, **spec: Any) -> JsonObject:
    """A PodDisruptionBudget for the pods of app `late`, of which it counts one."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "late"}}, **spec},
        "status": {"disruptionsAllowed": 0, "expectedPods": 1, "observedGeneration": 1},
    }


def test_a_budget_that_never_lets_its_pod_go_keeps_the_node_and_an_unreadable_one_is_passed_over() -> None:
    lab = drain_cancellation_a_lab()
    lab.kubernetes.put(a_pending_pod("late", metadata={"labels": {"app": "late"}}))
    lab.bind("late")
    lab.kubernetes.put(a_guard("broken", selector={"matchExpressions": [{"key": "a", "operator": "Near"}]}))
    lab.kubernetes.put(a_guard("never", minAvailable=1))
    assert [d.reason for d in work(lab).decisions] == ["PodDisruptionBudget"]
    assert lab.claim.deletion is None


# A drain that a closed budget blocks: reported on the pod and the node, and counted.


def a_blocked_lab() -> Lab:
    """A node whose NodePool is gone, with one pod that a budget keeps."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    lab.kubernetes.protected = {"default/p"}
    lab.kubernetes.drop(resources.NODE_POOLS, "default")
    lab.reconcile()
    lab.execute()
    return lab


def events(lab: Lab) -> list[dict[str, Any]]:
    every = [lab.kubernetes.raw(resources.EVENTS, n, "default") for n in lab.kubernetes.names(resources.EVENTS)]
    return [event for event in every if event["reason"] == "FailedDraining"]


def drain_events_work(lab: Lab, **span: float) -> list[str]:
    lab.clock.advance(**span)
    report = lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    return [decision.reason for decision in report.decisions]


def test_the_reason_is_shown_on_the_pod_and_the_node() -> None:
    """`kubectl describe` of the pod or the node gives the reason; without it, operators must read our log."""
    lab = a_blocked_lab()
    assert drain_events_work(lab, minutes=4) == []
    assert drain_events_work(lab, minutes=1) == ["DrainSlow"]
    assert drain_events_work(lab, minutes=1) == []
    (node,) = lab.kubernetes.names(resources.NODES)
    told = {(e["involvedObject"]["kind"], e["involvedObject"]["name"]): e["message"] for e in events(lab)}
    assert set(told) == {("Pod", "p"), ("Node", node)}
    assert all(
        "a PodDisruptionBudget allows no eviction of its workload's pods" in message for message in told.values()
    )


@pytest.mark.parametrize(
    "members",
    [
        [a_pod("out", annotations={labels.GROUP: "none"}, labels={labels.JOB_SET: "j"})],
        [a_pod("unsized", labels={labels.KUEUE_GROUP: "g"})],
        [a_pod("done", annotations={labels.GROUP: "g"}, phase="Succeeded")],
        [],
    ],
    ids=["taken out", "of an unstated size", "done", "none"],
)
def test_a_drain_that_takes_no_member_of_a_group_says_nothing_of_groups(members: list[Pod]) -> None:
    """Warnings that name no group stood on nodes, claims and pods."""
    assert told_of_groups(Deletion(reason=TerminationReason.SPOT_INTERRUPTED, asked_at=NOW), members) == []


def test_a_drain_tells_the_members_of_groups_alone_and_only_once() -> None:
    """A command has told them of its own drain; one for the same reason without a command has to."""
    member = a_pod("m", annotations={labels.GROUP: "g"})
    out = a_pod("out", annotations={labels.GROUP: "none"}, labels={labels.JOB_SET: "j"})
    unhealthy = Deletion(reason=TerminationReason.UNHEALTHY, asked_at=NOW)
    assert told_of_groups(unhealthy, [out, member]) == ["c", "m", "n"]
    by_command = msgspec.structs.replace(unhealthy, command="1")
    assert told_of_groups(by_command, [out, member]) == []
    record = a_record(deletion=msgspec.structs.replace(by_command, reason="Drifted"))
    interrupted = expedited(record, TerminationReason.SPOT_INTERRUPTED, "", None).deletion
    assert interrupted is not None
    assert told_of_groups(interrupted, [member]) == ["c", "m", "n"]


def told_of_groups(deletion: Deletion, pods: list[Pod]) -> list[str]:
    """The names of the objects that get an event when a node with these pods begins to drain."""
    kubernetes = FakeKubernetes(FakeClock(NOW))
    DrainEvents(kubernetes, FakeClock(NOW)).of_groups(a_record(deletion=deletion), "n", pods)
    written = [kubernetes.raw(resources.EVENTS, name, "default") for name in kubernetes.names(resources.EVENTS)]
    assert all("Group default/g (1 member leaves): it loses them" in event["message"] for event in written)
    return sorted(event["involvedObject"]["name"] for event in written)


def test_blocked_drains_are_counted() -> None:
    lab = a_blocked_lab()
    assert lab.reconcile().counts["drainsBlocked"] == 0
    assert drain_events_work(lab, minutes=15) == ["DrainBlocked"]
    assert lab.reconcile().counts["drainsBlocked"] == 1
    assert drain_events_work(lab, hours=24) == ["DrainAlarming"]
    assert lab.reconcile().counts["drainsBlockedForADay"] == 1


def test_events_that_cannot_be_written_stop_nothing() -> None:
    lab = a_blocked_lab()

    def refuse(call: str) -> None:
        if call == "create events":
            raise TransientError(call, "500")

    lab.kubernetes.before_call = refuse
    assert drain_events_work(lab, minutes=5) == ["DrainSlow"]
    lab.kubernetes.protected = set()
    drain_events_work(lab, minutes=1)
    assert lab.kubernetes.evicted == ["default/p"]


# A Node that stays although it is deleted.


def draining_a_lab() -> Lab:
    """One empty node that is about to go, with a foreign finalizer."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.kubernetes.drop(resources.PODS, "p", "default")
    (node,) = lab.kubernetes.names(resources.NODES)
    lab.kubernetes.amend(resources.NODES, node, {"metadata": {"finalizers": ["example.com/hold"]}})
    lab.kubernetes.drop(resources.NODE_POOLS, "default")
    lab.reconcile()
    return lab


def deletions(lab: Lab) -> list[str]:
    """Records, from now on, each call that deletes a Node."""
    calls: list[str] = []
    lab.kubernetes.before_call = lambda call: calls.append(call) if call == "delete nodes" else None
    return calls


def test_a_foreign_finalizer_is_waited_for_and_reported() -> None:
    """Otherwise, one such node takes 500 calls a minute, and its claim stays forever."""
    lab = draining_a_lab()
    calls = deletions(lab)
    reports = []
    for _ in range(8):
        reports += lab.tick(4, seconds=30)
        lab.reconcile()
    assert calls == ["delete nodes"]
    told = [(d.kind, d.reason) for report in reports for d in report.decisions]
    assert ("terminate", "AwaitingFinalizers") in told
    assert told[-1] == ("forget", "NodeHeldByFinalizers")
    assert lab.claims == ()
    assert lab.cloud.instances() == ()


def test_a_node_goes_when_its_finalizer_is_removed() -> None:
    lab = draining_a_lab()
    lab.tick(10, seconds=5)
    (node,) = lab.kubernetes.names(resources.NODES)
    lab.kubernetes.drop(resources.NODES, node)
    reports = lab.tick(10, seconds=10)
    assert [d.reason for report in reports for d in report.decisions] == ["NodePoolDeleted"]
    assert lab.claims == ()


def test_a_volume_that_is_not_detached_keeps_its_node_and_is_told_of_once_it_has_had_its_time() -> None:
    """The time begins when the last pod has left, which is stored once."""
    lab = draining_a_lab()
    (node,) = lab.kubernetes.names(resources.NODES)
    attached = {"attacher": "ebs.csi.aws.com", "nodeName": node, "source": {"persistentVolumeName": "pv-1"}}
    group = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment"}
    lab.kubernetes.put({**group, "metadata": {"name": "at"}, "spec": attached})
    lab.tick(2)
    assert lab.claim.deletion is not None
    emptied_at = lab.claim.deletion.emptied_at
    assert emptied_at is not None
    lab.clock.advance(minutes=4)
    assert lab.execute(work_on_claim(lab.claim.name, lab.clock.now())).decisions == []
    lab.clock.advance(minutes=1)
    (told,) = lab.execute(work_on_claim(lab.claim.name, lab.clock.now())).decisions
    assert (told.reason, told.message.rpartition(" ")[2]) == ("DrainSlow", f"{emptied_at:%Y-%m-%dT%H:%M:%SZ}")
    assert lab.claim.deletion.emptied_at == emptied_at
    lab.kubernetes.drop(resources.VOLUME_ATTACHMENTS, "at")
    lab.tick()
    assert lab.claim.deletion.terminated_at is not None


def test_consecutive_errors_cause_longer_and_longer_waits() -> None:
    """Otherwise, a failing API server gets twelve requests a minute for each claim."""
    lab = draining_a_lab()

    def fail(call: str) -> None:
        raise TransientError(call, "500")

    lab.kubernetes.before_call = fail
    delays = []
    for _ in range(5):
        lab.execute()
        delays.append(int(lab.work.sent[-1][1].total_seconds()))
    assert delays == [5, 10, 20, 30, 30]


def test_what_follows_in_the_same_run_sees_the_node_with_its_marks() -> None:
    """It is read again after the write: the next write would begin from a Node without the taint, and conflict."""
    lab = draining_a_lab()
    (node,) = lab.kubernetes.names(resources.NODES)
    reader = NodeStateReader(lab.kubernetes, lab.cloud, lab.clock)
    seen = reader.node(node)
    assert seen is not None
    assert DISRUPTED not in seen.node.taints
    draining = Draining(lab.kubernetes, lab.app.adapters.stores.claims, Surge(lab.kubernetes, is_on=False), lab.clock)
    marks = TaintNode(node, {"team": "x"}, {"why": "y"}, (DISRUPTED,))
    record = draining.taint(lab.claim, marks, reader)
    assert record.deletion is not None
    assert record.deletion.tainted_at == lab.clock.now()
    again = reader.node(node)
    assert again is not None
    assert (again.node.taints, again.node.labels["team"], again.node.annotations["why"]) == ((DISRUPTED,), "x", "y")
    lab.clock.advance(minutes=1)
    later = draining.taint(record, marks, reader)
    assert later is record, "terminationGracePeriod counts from the first time"


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
    lab.kubernetes.drop(resources.NODE_POOLS, "default")
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
    assert [tried.attempts for tried in lab.claim.deletion.tries.values()] == [3]
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
    assert [tried.attempts for tried in lab.claim.deletion.tries.values()] == [3]


def test_at_the_deadline_every_pod_is_evicted_before_any_is_forced() -> None:
    """Otherwise, the neighbours of one stuck pod are killed before their budget was asked once."""
    lab = a_lab(terminationGracePeriod="2m")
    lab.kubernetes.refusing = {"default/a": ERRORS[EvictionReason.SERVER_ERROR]}
    lab.clock.advance(minutes=5)
    lab.tick(2)
    assert lab.kubernetes.evicted == ["default/b", "default/c"]
    assert lab.kubernetes.names(resources.PODS) == ["a"]
    lab.clock.advance(minutes=2)
    lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    assert lab.kubernetes.names(resources.PODS) == []


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
    assert lab.kubernetes.names(resources.PODS) == ["a", "b", "c"]
    assert lab.claim.deletion.deadline == deadline + timedelta(minutes=120)
    lab.clock.advance(minutes=10)
    for _ in range(2):
        lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    assert lab.kubernetes.names(resources.PODS) == []


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
    assert lab.kubernetes.names(resources.PODS) == ["a", "b", "c"]
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
    assert lab.kubernetes.names(resources.PODS) == ["a"]
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
    assert lab.kubernetes.names(resources.PODS) == ["a"]


def of_one_workload(lab: Lab, **graces: int) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    for name, grace in graces.items():
        body = {"metadata": {"ownerReferences": [owner]}, "spec": {"terminationGracePeriodSeconds": grace}}
        lab.kubernetes.amend(resources.PODS, name, body, namespace="default")


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
        lab.kubernetes.amend(resources.PODS, name, kept, namespace="default")
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


# Evictions of a workload wait for a second after one of its pods was deleted by force.


DELETION = Deletion(reason=TerminationReason.EXPIRED, asked_at=NOW, tainted_at=NOW)


def of_web(name: str) -> Pod:
    return a_pod(name, owners=(Owner(kind="ReplicaSet", name="web", is_controller=True),))


def test_only_the_workload_waits_and_only_for_a_second() -> None:
    clock = FakeClock(NOW)
    forced = ForcedDeletions(clock)
    forced.note(of_web("a"))
    assert forced.wait(of_web("b")) == COUNTED_AFTER
    assert forced.wait(a_pod("c")) == timedelta(0)
    clock.advance(seconds=1)
    assert forced.wait(of_web("b")) == timedelta(0)


class _Server:
    """An API server in whose call of `delete` something happens before the reply."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.evictor = Evictor(self, FakeClock(NOW))  # type: ignore[arg-type]

    def delete(self, *_: object, **__: object) -> None:
        self.calls.append("delete")
        self.before_reply()

    def evict(self, *_: object, **__: object) -> None:
        self.calls.append("evict")

    def before_reply(self) -> None:
        raise NotImplementedError

    def drain(self, *, force: tuple[Pod, ...] = (), evict: tuple[Pod, ...] = ()) -> None:
        step = Drain(evict=evict, force=tuple((pod, 1) for pod in force))
        self.evictor.carry_out(step, DELETION, "node", RunReport())


class _OtherThread(_Server):
    def before_reply(self) -> None:
        other = Thread(target=lambda: self.drain(evict=(of_web("b"),)))
        other.start()
        other.join()


class _LostReply(_Server):
    def before_reply(self) -> None:
        raise LostReplyError("kube:delete pods", "timed out")


@pytest.mark.parametrize("server", [_OtherThread, _LostReply])
def test_a_deletion_counts_before_its_reply_and_without_one(server: type[_Server]) -> None:
    """Claims of one message are handled in threads, and a lost reply leaves open whether the pod goes."""
    answering = server()
    answering.drain(force=(of_web("a"),), evict=(of_web("c"),))
    assert answering.calls == ["delete"]


# Pods that we cannot read still belong to their owners.


UNREADABLE: tuple[JsonObject, ...] = (
    {"spec": {"containers": "none"}},
    {"spec": {"tolerations": [{"operator": "Like"}]}},
    {"metadata": {"labels": {"app": 5}}},
)
"""The API server rejects this today; a later version may accept it."""


def with_unreadable(odd: JsonObject) -> Lab:
    """One node with one unreadable pod."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    lab.kubernetes.amend(resources.PODS, "p", odd, "default")
    return lab


@pytest.mark.parametrize("odd", UNREADABLE)
def test_its_node_does_not_count_as_empty(odd: JsonObject) -> None:
    """The node was deleted within minutes, and the pod with it."""
    lab = with_unreadable(odd)
    lab.clock.advance(minutes=30)
    report = lab.disrupt()
    lab.tick(5)
    assert (len(lab.claims), lab.claim.deletion) == (1, None)
    assert lab.kubernetes.evicted == []
    assert report.counts.get("commands", 0) == 0


@pytest.mark.parametrize("odd", UNREADABLE)
def test_a_drain_evicts_it_by_its_name_and_waits_for_it(odd: JsonObject) -> None:
    """The instance was ended while it ran."""
    lab = with_unreadable(odd)
    lab.kubernetes.drop(resources.NODE_POOLS, "default")
    lab.reconcile()
    lab.tick(10, seconds=10)
    assert lab.kubernetes.evicted == ["default/p"]
    assert lab.claims == ()
