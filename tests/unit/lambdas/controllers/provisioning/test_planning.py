"""When pods are planned for: a burst in one plan, and a single pod without delay."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from adapters.ledger import DecisionDraft
from adapters.observation.cluster_reader import UNBOUND
from adapters.ports import ConflictError, DeniedError, JsonObject, Launched, LostReplyError, TransientError
from adapters.run_report import RunReport
from adapters.store import Lease
from core import labels
from core.catalogue.capacity import EFA
from core.disruption.move_history import MoveHistory
from core.ledger.entry import DecisionSummary, LedgerEntry, decode_entry, of_provisioning
from core.ledger.reading import LedgerReader, decided_again, read_decision_key
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion
from core.manifests.wire import resources
from core.model.plan import Command, LaunchOrder, Plan, StoredDrain, Unschedulable
from core.model.pod import Pod
from core.model.snapshot import Options
from core.reasons.code import DecisionKind
from core.reasons.pods import PodReason
from core.scheduling import planner
from core.scheduling.explanation import Diagnosis
from core.scheduling.explanation_text import PodFinding
from core.scheduling.pods import PodGroup
from lambdas.controllers.events import about_pod, warning
from lambdas.controllers.planning import (
    LEAVING_ASKED_MAX,
    PER_RUN,
    REUSED_FOR,
    PendingWork,
    PlanDecision,
    UnschedulableEvents,
    displaces_pods,
    is_unlaunched,
    pending_work,
)
from tests.builders import NOW, a_class_manifest, a_pod, a_stored_target, a_type
from tests.fakes.lab import FakeClock, FakeKubernetes, Lab, a_node_pool, a_pending_pod
from tests.unit.lambdas.controllers.provisioning.bursts import a_burst, kinds_of
from tests.unit.lifecycle.records_for_tests import a_record

# What would be launched is recorded where launches are only observed, and nothing is launched.


OBSERVED = {"annotations": {labels.MODE: labels.OBSERVE}}
HOUR = timedelta(hours=1)


@pytest.fixture
def observed_plans_lab() -> Lab:
    """A pod waits that only an observed NodePool could run, and one for which none of the two has a place."""
    lab = Lab()
    lab.kubernetes.put(a_node_pool(metadata=OBSERVED), a_pending_pod("p"), a_pending_pod("large", cpu="400"))
    return lab


def would_launch(report: RunReport) -> int:
    return sum(decision.kind == DecisionKind.OBSERVE for decision in report.decisions)


def recorded(lab: Lab) -> list[LedgerEntry]:
    entries = [decode_entry(raw) for key, raw in sorted(lab.ledger.objects.items()) if read_decision_key(key)]
    return [entry for entry in entries if entry.is_observed]


def test_launches_of_an_observed_pool_are_recorded_once_and_not_made(observed_plans_lab: Lab) -> None:
    assert would_launch(observed_plans_lab.provision()) == 1
    (entry,) = recorded(observed_plans_lab)
    assert len(entry.parts) == 1
    assert (entry.bindings, entry.refused) == ((), ()), "the plan that is carried out says which pods wait"
    observed_plans_lab.clock.advance(minutes=1)
    observed_plans_lab.kubernetes.put(a_pending_pod("other", cpu="400"))
    assert would_launch(observed_plans_lab.provision()) == 0
    assert len(recorded(observed_plans_lab)) == 1
    assert observed_plans_lab.cloud.instances() == ()


def shadow(lab: Lab, *, until: timedelta = HOUR) -> int:
    """Run `provision` with `mode: shadow`; return how many nodes it would launch."""
    report = RunReport()
    lab.app.shadow_provisioning.run(report, until=lab.clock.now() + until)
    lab.clock.advance(minutes=1)
    return would_launch(report)


def test_a_shadow_plans_while_pods_wait_and_once_more_when_they_wait_no_longer() -> None:
    """Otherwise, a report takes a pod's wait for a minute longer than it was."""
    lab = Lab()
    assert (shadow(lab), len(recorded(lab))) == (0, 0)
    lab.kubernetes.put(a_pending_pod("p"))
    assert (shadow(lab), len(recorded(lab))) == (1, 1)
    lab.kubernetes.drop(resources.PODS, "p", "default")
    assert (shadow(lab), len(recorded(lab))) == (0, 2)
    assert (shadow(lab), len(recorded(lab))) == (0, 2)


@pytest.mark.parametrize(("until", "again"), [(HOUR, 1), (timedelta(0), 0)])
def test_a_shadow_looks_again_soon_while_pods_wait_and_until_its_chain_ends(until: timedelta, again: int) -> None:
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    shadow(lab, until=until)
    assert len(lab.wake_ups.take()) == again


def born(name: str, at: datetime) -> JsonObject:
    return a_pending_pod(name, metadata={"creationTimestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ")})


def arrive(lab: Lab, seconds: int) -> None:
    """From now on, one pod arrives each second, for this many seconds."""
    start, come = lab.clock.now(), set[int]()

    def look(call: str) -> None:
        for number in range(min(seconds, int((lab.clock.now() - start).total_seconds()) + 1)):
            if call == f"list pods {UNBOUND}" and number not in come:
                come.add(number)
                lab.kubernetes.put(born(f"p{number}", lab.clock.now()))

    lab.kubernetes.before_call = look


def waited(lab: Lab) -> timedelta:
    before = lab.clock.now()
    lab.provision({"wakeUp": "PodUnschedulable"})
    return lab.clock.now() - before


def test_a_pod_that_is_already_pending_is_planned_for_at_once(lab: Lab) -> None:
    """When the audit log reports a pod, it is seconds old."""
    lab.kubernetes.put(born("p", lab.clock.now() - timedelta(seconds=2)))
    assert waited(lab) == timedelta(0)
    assert len(lab.claims) == 1


def test_a_single_new_pod_waits_for_the_idle_time_only(lab: Lab) -> None:
    arrive(lab, 1)
    assert waited(lab) == timedelta(seconds=1)
    assert len(lab.claims) == 1


def test_a_burst_is_planned_once_the_scheduler_has_marked_it(lab: Lab) -> None:
    """Otherwise, the pods that it marks last are planned later, onto nodes of their own."""
    start = lab.clock.now()
    for name in ("p0", "p1", "p2"):
        lab.kubernetes.put({**born(name, start), "status": {"phase": "Pending"}})

    def mark(call: str) -> None:
        now = lab.clock.now()
        number = int((now - start).total_seconds())
        if call == f"list pods {UNBOUND}" and number < 3:
            marked = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            body = {"status": {"conditions": [{**marked, "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ")}]}}
            lab.kubernetes.amend(resources.PODS, f"p{number}", body, namespace="default")

    lab.kubernetes.before_call = mark
    assert waited(lab) == timedelta(seconds=2)
    assert sum(len(claim.plan.pods) for claim in lab.claims) == 3


def test_a_burst_is_planned_once_the_scheduler_has_tried_one_of_each_kind(lab: Lab) -> None:
    """It marks about a hundred pods a second, and an equal pod of the same ReplicaSet fails as the first one did."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": True}
    for number in range(5):
        pod = born(f"p{number}", lab.clock.now() - timedelta(seconds=2))
        pod["metadata"]["ownerReferences"] = [owner]
        lab.kubernetes.put(pod if number == 0 else {**pod, "status": {"phase": "Pending"}})
    assert waited(lab) == timedelta(0)
    assert sum(len(claim.plan.pods) for claim in lab.claims) == 5


def test_a_burst_of_several_workloads_does_not_wait_for_each_of_their_marks(lab: Lab) -> None:
    """The scheduler marks 3,000 pods in 25 seconds; a pod that demands no less than one that it marked fails as well."""
    now = lab.clock.now()
    for number in range(5):
        pod = born(f"p{number}", now - timedelta(seconds=2))
        lab.kubernetes.put(pod if number == 0 else {**pod, "status": {"phase": "Pending"}})
    assert waited(lab) == timedelta(0)
    assert sum(len(claim.plan.pods) for claim in lab.claims) == 5


def test_a_pod_that_nobody_has_tried_for_long_holds_up_no_other(lab: Lab) -> None:
    """It belongs to another scheduler, and would cost every plan a second."""
    now = lab.clock.now()
    foreign = {**born("foreign", now - timedelta(seconds=10)), "status": {"phase": "Pending"}}
    foreign["spec"]["schedulerName"] = "other"
    lab.kubernetes.put(foreign)
    lab.kubernetes.put(born("p", now - timedelta(seconds=2)))
    assert waited(lab) == timedelta(0)
    assert [claim.plan.pods for claim in lab.claims] == [("default/p",)]


def test_a_burst_is_planned_once_it_has_arrived(lab: Lab) -> None:
    arrive(lab, 5)
    assert waited(lab) == timedelta(seconds=5)
    assert sum(len(claim.plan.pods) for claim in lab.claims) == 5


def test_a_burst_without_end_is_planned_after_ten_seconds(lab: Lab) -> None:
    arrive(lab, 1000)
    assert waited(lab) == timedelta(seconds=10)
    assert lab.claims


def test_the_setting_turns_batching_off() -> None:
    lab = Lab(batch_idle_seconds=0)
    arrive(lab, 5)
    assert waited(lab) == timedelta(0)


def test_a_clock_behind_the_cluster_costs_one_idle_time(lab: Lab) -> None:
    lab.kubernetes.put(born("p", lab.clock.now() + timedelta(hours=1)))
    assert waited(lab) == timedelta(seconds=1)


def test_no_run_lists_pods_while_another_plans(lab: Lab) -> None:
    """A burst wakes many runs, and listing a large cluster takes seconds."""
    lab.kubernetes.put(born("p", lab.clock.now()))
    lease = lab.app.adapters.leases.acquire("planner", "another", now=lab.clock.now(), for_=timedelta(seconds=30))
    assert lease is not None
    calls: list[str] = []
    lab.kubernetes.before_call = calls.append
    report = lab.provision({"wakeUp": "PodUnschedulable"})
    assert ([decision.reason for decision in report.decisions], calls) == (["PlannerBusy"], [])


def an_owned_pod(name: str, kind: str) -> JsonObject:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": True}
    return a_pending_pod(name, metadata={"ownerReferences": [owner]})


@pytest.mark.parametrize(
    "pod",
    [
        an_owned_pod("p", "DaemonSet"),
        a_pending_pod("p", metadata={"deletionTimestamp": "2026-11-20T00:01:00Z"}),
        {**a_pending_pod("p"), "status": {**a_pending_pod("p")["status"], "nominatedNodeName": "node-1"}},
        a_pending_pod("p", schedulingGates=[{"name": "quota"}]),
    ],
)
def test_a_pod_that_cannot_be_planned_for_is_no_work(lab: Lab, pod: JsonObject) -> None:
    """Otherwise, a DaemonSet's pod on a full node costs a list of the whole cluster each minute."""
    lab.kubernetes.put(pod)
    calls: list[str] = []
    lab.kubernetes.before_call = calls.append
    report = lab.provision()
    assert report.counts["pendingPods"] == 0
    assert "list nodes" not in calls


def test_daemon_pods_do_not_delay_a_burst(lab: Lab) -> None:
    """Each node that joins brings some, while the pods that it was launched for are bound."""
    lab.kubernetes.put(born("p", lab.clock.now() - timedelta(seconds=2)))
    daemon = an_owned_pod("d", "DaemonSet")
    daemon["metadata"]["creationTimestamp"] = lab.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    lab.kubernetes.put(daemon)
    assert waited(lab) == timedelta(0)


def test_a_pod_that_we_nominated_is_work(lab: Lab) -> None:
    """The scheduler may bind it elsewhere or not at all; only the next plan sees that, so there must be one."""
    (ours, others) = (a_pod(name, is_marked_unschedulable=True, nominated_node_name="n") for name in ("a", "b"))
    record = a_record(node_name="n", nominated=("default/a",))
    assert pending_work([ours], [record], NOW, Options()) == PendingWork(marked=1)
    assert pending_work([others], [record], NOW, Options()) == PendingWork()


@pytest.mark.parametrize(("seconds", "marked"), [(9, 0), (10, 1)])
def test_a_member_of_a_group_without_a_verdict_is_work(seconds: int, marked: int) -> None:
    """kube-scheduler says nothing of an incomplete group; where nothing else waited, its pods were never told why they do."""
    since = NOW - timedelta(seconds=seconds)
    member = a_pod("m", pod_group="g", created_at=since, is_marked_unschedulable=False)
    single = a_pod("s", created_at=since, is_marked_unschedulable=False)
    assert pending_work([member], [], NOW, Options()) == PendingWork(marked=marked, unmarked=1 - marked)
    assert pending_work([single], [], NOW, Options()) == PendingWork(unmarked=1)


def test_nothing_is_planned_if_every_pending_pod_has_a_node_in_flight(lab: Lab) -> None:
    """Each verdict of the scheduler wakes a run, and each plan of a burst takes seconds of CPU time."""
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    calls: list[str] = []
    lab.kubernetes.before_call = calls.append
    lab.clock.advance(seconds=1)
    report = lab.provision({"wakeUp": "PodUnschedulable"})
    assert [decision.reason for decision in report.decisions] == ["NodesUnderWay"]
    assert (report.counts["pendingPods"], report.counts["awaitedPods"]) == (1, 1)
    assert calls == [f"list pods {UNBOUND}", "list nodepools"]
    calls.clear()
    lab.provision({"wakeUp": "PodUnschedulable"})
    assert calls == [f"list pods {UNBOUND}"], "hours are read every few minutes"
    lab.kubernetes.put(a_pending_pod("other"))
    lab.provision()
    assert len(calls) > 3


def a_leaving_claim(number: int = 0, **changes: Any) -> ClaimRecord:
    deletion = Deletion(**{"reason": "Empty", "asked_at": NOW, **changes})
    return msgspec.structs.replace(a_record(deletion=deletion), name=f"c{number}", node_name=f"n{number}")


def displaced(*records: ClaimRecord, pods: Iterable[JsonObject] = ()) -> tuple[bool, list[str]]:
    """Whether leaving nodes have pods that must move, and what was asked."""
    lab, calls = Lab(), list[str]()
    lab.kubernetes.put(*pods)
    lab.kubernetes.before_call = calls.append
    return displaces_pods(lab.app.shared.observer, records, NOW), calls


def on_node(name: str, node: str = "n0", **metadata: Any) -> JsonObject:
    pod = a_pending_pod(name, nodeName=node, metadata={"namespace": "default", **metadata})
    return {**pod, "status": {"phase": "Running"}}


DAEMON = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
PROTECTED = {labels.DO_NOT_DISRUPT: "true"}


def test_pods_of_a_leaving_node_must_move() -> None:
    assert displaced(a_leaving_claim(), pods=[on_node("p")]) == (True, ["list pods spec.nodeName=n0"])


def test_daemons_and_pods_of_other_nodes_do_not_move() -> None:
    pods = [on_node("d", ownerReferences=[DAEMON]), on_node("p", "other")]
    assert displaced(a_leaving_claim(), pods=pods) == (False, ["list pods spec.nodeName=n0"])


@pytest.mark.parametrize(("changes", "moves"), [({}, False), ({"reclaimed_at": NOW}, True)])
def test_a_protected_pod_moves_only_if_its_instance_is_reclaimed(changes: dict[str, Any], moves: bool) -> None:
    """Otherwise, the drain waits for it, and a node for it would stand empty."""
    pods = [on_node("p", annotations=PROTECTED)]
    assert displaced(a_leaving_claim(**changes), pods=pods)[0] is moves


def test_a_reclaimed_instance_without_a_pod_that_moves_displaces_none() -> None:
    pods = [on_node("d", ownerReferences=[DAEMON])]
    assert displaced(a_leaving_claim(reclaimed_at=NOW), pods=pods)[0] is False


def test_nodes_that_stay_and_claims_without_a_node_are_not_asked_about() -> None:
    nameless = msgspec.structs.replace(a_leaving_claim(), node_name="")
    assert displaced(a_record(node_name="n0"), nameless, pods=[on_node("p")]) == (False, [])


@pytest.mark.parametrize(("number", "lists"), [(LEAVING_ASKED_MAX, LEAVING_ASKED_MAX), (LEAVING_ASKED_MAX + 1, 0)])
def test_many_leaving_nodes_are_not_asked_about_one_by_one(number: int, lists: int) -> None:
    moved, calls = displaced(*map(a_leaving_claim, range(number)))
    assert (moved, len(calls)) == (lists == 0, lists)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (a_record(ClaimPhase.REQUESTED), True),
        (a_record(ClaimPhase.LAUNCHED), False),
        (a_record(ClaimPhase.REQUESTED, deletion=Deletion(reason="Empty", asked_at=NOW)), False),
    ],
)
def test_a_stored_claim_is_unlaunched_until_it_has_an_instance_or_leaves(record: ClaimRecord, expected: bool) -> None:
    assert is_unlaunched(record) is expected
    assert pending_work([], [record], NOW, Options()) == PendingWork(unlaunched=int(expected))
    assert pending_work([], [record], NOW, Options()).is_any is expected


# Plans are made once for what stays as it is, name EC2's refusals, and are in the ledger before they are carried out.


LARGE = "64"


class World:
    """A cluster in which pods of this size wait, and its decisions."""

    def __init__(self, cpu: str = "1") -> None:
        self.lab = Lab()
        self.lab.kubernetes.put(a_pending_pod("p", cpu=cpu))
        self.decision: PlanDecision = self.lab.app.provisioning.decision
        self.view = self.lab.app.shared.observer.observe()
        self.report = RunReport()

    def plan(self, digest: str = "a", **snapshot: Any) -> tuple[Plan, DecisionDraft]:
        view = msgspec.structs.replace(self.view, snapshot=msgspec.structs.replace(self.view.snapshot, **snapshot))
        decided = self.decision.plan(view, digest, self.report)
        plan, _ = self.decision.explained(decided, decided.plan, (), view, self.report)
        return plan, decided.draft

    def refused(self) -> list[PodReason]:
        return [unplaced.reason for unplaced in self.plan()[0].unschedulable]


def test_a_plan_is_counted_and_made_again_as_long_as_it_launches_nodes() -> None:
    world = World()
    plan, draft = world.plan()
    assert world.report.counts == {"plannedMicrodollars": plan.cost.hourly // 1000}
    assert (bool(draft.id), draft.snapshot, draft.is_observed) == (True, world.view.snapshot, False)
    again, other = world.plan()
    assert (again == plan, again is plan, bool(other.id)) == (True, False, True)


def test_a_plan_that_launches_nothing_is_reused_while_nothing_changes() -> None:
    """Pods that no node can hold wait for days; each plan of a large cluster takes seconds."""
    world = World(LARGE)
    plan, draft = world.plan()
    assert (bool(plan.unschedulable), plan.claims, bool(draft.id)) == (True, (), True)
    assert world.plan() == (plan, DecisionDraft())
    assert world.plan("b")[1].id
    assert world.plan()[1].id
    assert world.plan(stored_target=a_stored_target(StoredDrain("n", 1, 1)))[1].id
    assert world.plan()[1].id
    world.lab.clock.advance(seconds=REUSED_FOR.total_seconds() - 1)
    assert world.plan()[1] == DecisionDraft()
    world.lab.clock.advance(seconds=1)
    assert world.plan()[1].id


def test_a_pod_that_ec2_alone_keeps_from_a_node_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another is too large for every type, whatever EC2 refuses; where it refuses nothing, nothing more is planned."""
    world, large = World(), World(LARGE)
    catalogue = world.view.snapshot.catalogue
    types = tuple(
        msgspec.structs.replace(
            instance_type,
            offerings=tuple(msgspec.structs.replace(offer, available=False) for offer in instance_type.offerings),
        )
        for instance_type in catalogue.default
    )
    refusing = msgspec.structs.replace(catalogue, default=types)
    assert [unplaced.reason for unplaced in world.plan(catalogue=refusing)[0].unschedulable] == [
        PodReason.NO_OFFERING_AVAILABLE
    ]
    assert PodReason.NO_OFFERING_AVAILABLE not in {
        unplaced.reason for unplaced in large.plan(catalogue=refusing)[0].unschedulable
    }
    monkeypatch.setattr(large.decision._observer.open_market, "without_refusals", None)
    large.lab.clock.advance(seconds=REUSED_FOR.total_seconds())
    assert large.refused() != []


def test_a_decision_is_in_the_ledger_with_what_it_launches_binds_and_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    kept: list[tuple[DecisionDraft, DecisionSummary]] = []

    def try_write(draft: DecisionDraft, summary: DecisionSummary, _: RunReport, **__: bool) -> bool:
        kept.append((draft, summary))
        return True

    monkeypatch.setattr(world.lab.app.adapters.ledger, "try_write", try_write)
    decided = world.decision.plan(world.view, "a", world.report)
    record = a_record(plan=decided.plan.claims[0])
    summary = world.decision.keep(decided.draft, [record], decided.plan, world.report)
    assert summary == of_provisioning([record.plan], (), ())
    assert kept == [(decided.draft, summary)]
    assert world.report.decision_id == decided.draft.id


def test_a_decision_gets_its_reasons_after_it_is_stored(lab: Lab) -> None:
    """No launch waits for them; the entry has them once they are found, and repeats to the same bytes."""
    lab.kubernetes.put(a_pending_pod("p"), a_pending_pod("large", cpu=LARGE))
    reader = LedgerReader(lab.ledger.get)
    seen: list[LedgerEntry] = []

    def stored() -> LedgerEntry:
        (key,) = filter(read_decision_key, lab.ledger.objects)
        entry, raw = reader.entry(key)
        documents = reader.documents(entry, raw)
        assert decided_again(entry, reader.snapshot(entry, documents)) == documents.plan
        return entry

    lab.cloud.before_call = lambda call: seen.append(stored()) if call.startswith("launch") else None
    lab.provision()
    (before,), after = seen, stored()
    assert (before.refused, before.is_unexplained) == ((), True)
    assert (after.refused, after.is_unexplained) == ((("default/large", PodReason.NO_OFFERING_FITS),), False)
    assert before.id == after.id


@pytest.mark.parametrize("fails", [False, True])
def test_the_bound_is_proven_last_of_all(*, fails: bool, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a pod nor the next run waits for it, and a proof that fails takes nothing with it."""
    order, proof, leases = list[str](), planner.proven_later, lab.app.adapters.leases
    release = leases.release

    def proven(*arguments: Any) -> int | None:
        order.append("proof")
        if fails:
            raise ArithmeticError
        return proof(*arguments)

    def released(lease: Lease) -> None:
        order.append("release")
        release(lease)

    monkeypatch.setattr(planner, "proven_later", proven)
    monkeypatch.setattr(leases, "release", released)
    lab.cloud.before_call = lambda call: order.append("launch") if call.startswith("launch") else None
    lab.kubernetes.put(*(a_pending_pod(f"p-{number}", cpu="1500m") for number in range(7)))
    counts = lab.provision().counts
    assert (order[0], order[-2:], order.count("proof")) == ("launch", ["release", "proof"], 1)
    assert counts.get("failedImprovements", 0) == fails
    assert (0 if fails else 1) <= counts["boundMicrodollars"] <= counts["plannedMicrodollars"]


def test_a_pod_whose_reason_raises_is_set_aside(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others get their nodes and their reasons."""
    explain = Diagnosis.of

    def raising(self: Diagnosis, pod_group: PodGroup, pod: Pod | None = None) -> PodFinding:
        if pod_group.requests[0] == 65_000:
            raise OverflowError
        return explain(self, pod_group, pod)

    monkeypatch.setattr(Diagnosis, "of", raising)
    lab.kubernetes.put(a_pending_pod("p"), a_pending_pod("odd", cpu="65"), a_pending_pod("large", cpu=LARGE))
    report = lab.provision()
    assert lab.claim.phase is ClaimPhase.LAUNCHED
    reasons = {
        decision.subject: decision.reason
        for decision in report.decisions
        if decision.kind is DecisionKind.UNSCHEDULABLE
    }
    assert reasons == {"default/odd": PodReason.SET_ASIDE, "default/large": PodReason.NO_OFFERING_FITS}
    assert report.counts["setAsideObjects"] == 1


# Launches of a plan: what EC2 refuses, denies or never answers, and what is stored of it.


FAMILY = f"{labels.AWS_GROUP}/instance-family"


SIZE = f"{labels.AWS_GROUP}/instance-size"


def test_a_refused_offering_is_remembered_and_another_found_in_the_same_run(lab: Lab) -> None:
    """Otherwise, pods wait a minute longer for each offering without capacity."""
    lab.cloud.scarce = {
        ("m5.large", zone, c) for zone in ("us-east-1a", "us-east-1b", "us-east-1c") for c in ("spot", "on-demand")
    }
    lab.kubernetes.put(a_pending_pod("p"))
    lab.kubernetes.put(
        a_node_pool(
            template={"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]}
        )
    )
    lab.provision()
    assert lab.claim.machine is not None
    assert lab.claim.machine.offering.instance_type == "m5.xlarge"


def test_without_any_capacity_nothing_is_left_behind_and_the_next_run_tries_again(lab: Lab) -> None:
    """Otherwise, claims without instances use up the NodePool's limits."""
    lab.cloud.scarce = {(t.name, o.zone, o.capacity_type) for t in lab.types for o in t.offerings}
    lab.kubernetes.put(a_pending_pod("p"))
    report = lab.provision()
    assert lab.claims == ()
    assert lab.rows.usage["default"].reserved == {}
    assert "unschedulable" in kinds_of(report)
    lab.cloud.scarce = set()
    lab.clock.advance(minutes=4)
    lab.provision()
    assert lab.claim.phase is ClaimPhase.LAUNCHED


def test_a_lost_reply_causes_no_second_instance(lab: Lab) -> None:
    """CreateFleet may have worked although its reply was lost."""
    lab.kubernetes.put(a_pending_pod("p"))

    def lose(call: str) -> None:
        lab.cloud.after_call = lambda _: None
        raise LostReplyError("ec2:CreateFleet", "timed out")

    lab.cloud.after_call = lose
    lab.provision()
    assert lab.claim.phase is ClaimPhase.REQUESTED
    assert lab.claim.attempts == 1
    lab.tick()
    assert lab.claim.phase is ClaimPhase.LAUNCHED
    assert [instance.instance_id for instance in lab.cloud.instances()] == [lab.claim.instance_id]


def test_a_denied_launch_does_not_stop_the_others(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, one NodePool with a broken class keeps every pod of the cluster waiting."""
    lab.kubernetes.put(
        a_class_manifest("broken", metadata={"generation": 1}),
        a_node_pool(
            "other",
            template={
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "broken"},
                "taints": [{"key": "t", "effect": "NoSchedule"}],
            },
        ),
    )
    lab.kubernetes.put(
        a_pending_pod("p"),
        a_pending_pod(
            "q", tolerations=[{"key": "t", "operator": "Exists"}], nodeSelector={"karpenter.sh/nodepool": "other"}
        ),
    )
    launch = lab.cloud.launch

    def deny(order: LaunchOrder) -> object:
        if order.node_pool == "other":
            raise DeniedError("ec2:CreateFleet", "UnauthorizedOperation")
        return launch(order)

    monkeypatch.setattr(lab.cloud, "launch", deny)
    report = lab.provision()
    assert ("forget", "LaunchDenied") in {(d.kind, d.reason) for d in report.decisions}
    assert [claim.plan.node_pool for claim in lab.claims] == ["default"]


@pytest.mark.parametrize(
    ("allowed", "expected"), [(["dedicated"], "dedicated"), (["dedicated", "default"], "default"), ([], "default")]
)
def test_dedicated_hardware_is_requested_and_labelled(
    allowed: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, pods that may not share a machine do so on a wrongly labelled node, or find no node with the label."""
    either = msgspec.structs.replace(a_type(), labels={**a_type().labels, labels.TENANCY: ("dedicated", "default")})
    lab, orders = Lab(types=(either,)), list[LaunchOrder]()
    requirements = [{"key": labels.TENANCY, "operator": "In", "values": allowed}] if allowed else []
    lab.kubernetes.put(a_node_pool(template={"requirements": requirements}), a_pending_pod("p"))
    launch = lab.cloud.launch

    def listen(order: LaunchOrder) -> object:
        orders.append(order)
        return launch(order)

    monkeypatch.setattr(lab.cloud, "launch", listen)
    lab.provision()
    assert [order.tenancy for order in orders] == [expected]
    assert lab.claim.machine is not None
    assert lab.claim.machine.labels[labels.TENANCY] == expected


@pytest.mark.parametrize(("interfaces", "expected"), [(4, 4), (0, 0)])
def test_a_machine_has_the_efa_resource_only_with_efa_interfaces(
    interfaces: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, pods that request EFA wait for a node that comes up without it."""
    lab = Lab(types=(a_type("p4d.24xlarge", extra={EFA: "4"}),))
    lab.kubernetes.put(a_pending_pod("p"))
    launch = lab.cloud.launch

    def attach(order: LaunchOrder) -> Launched:
        launched = launch(order)
        instances = tuple(msgspec.structs.replace(i, efa_interfaces=interfaces) for i in launched.instances)
        return msgspec.structs.replace(launched, instances=instances)

    monkeypatch.setattr(lab.cloud, "launch", attach)
    lab.provision()
    assert lab.claim.machine is not None
    assert lab.claim.machine.capacity.get(EFA, 0) == expected
    assert lab.claim.machine.allocatable.get(EFA, 0) == expected


def test_launches_beyond_one_runs_bound_are_handed_on() -> None:
    """Otherwise, a large scale-up ends in the function's time-out."""
    lab = Lab(types=(a_type("m5.large"),), launches_per_run=2)
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", cpu="1500m") for n in range(5)))
    lab.provision()
    assert len(lab.cloud.instances()) == 2
    lab.tick(3)  # claims of a shared launch look for an instance of it first, then are launched alone
    assert len(lab.cloud.instances()) == len(lab.claims) == 5
    assert {claim.phase for claim in lab.claims} == {ClaimPhase.LAUNCHED}


def after(calls: int, error: Exception, *, times: int = 1) -> Any:
    """A hook that lets this many writes through, then fails some."""
    seen: list[str] = []

    def hook(call: str) -> None:
        seen.extend([call] * (call == "write"))
        if call == "write" and calls < len(seen) <= calls + times:
            raise error

    return hook


LEASE_AND_REQUEST = 2
"""Writes before the first launch is stored."""


@pytest.mark.parametrize("error", [ConflictError("store", "changed"), TransientError("store", "throttled")])
def test_a_launched_instance_that_could_not_be_stored_is_stored_on_a_fresh_read(lab: Lab, error: Exception) -> None:
    """The run ended with the first of fifteen, and its pods waited a minute."""
    a_burst(lab)
    lab.rows.before_call = after(LEASE_AND_REQUEST, error)
    lab.provision()
    assert [claim.phase for claim in lab.claims] == [ClaimPhase.LAUNCHED] * 4
    assert len(lab.cloud.instances()) == 4


def test_a_claim_that_cannot_be_stored_does_not_stop_the_others(lab: Lab) -> None:
    """`execute` adopts its instance soon, by the token that EC2 knows: there is no second instance."""
    a_burst(lab)
    lab.rows.before_call = after(LEASE_AND_REQUEST, TransientError("store", "throttled"), times=3)
    report = lab.provision()
    assert [claim.phase for claim in lab.claims] == [ClaimPhase.REQUESTED, *[ClaimPhase.LAUNCHED] * 3]
    assert report.counts["portErrors"] == 1
    lab.rows.before_call = lambda _: None
    lab.tick(3)  # claims of a shared launch look for an instance of it first, then are launched alone
    assert {claim.phase for claim in lab.claims} == {ClaimPhase.LAUNCHED}
    assert len(lab.cloud.instances()) == 4


def test_execute_does_not_launch_a_claim_whose_pods_found_another_place(lab: Lab) -> None:
    """The scheduler exchanged their places with others': the node would come up empty."""
    lab.settings = msgspec.structs.replace(lab.settings, launches_per_run=0)
    lab.restart()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    assert lab.claim.phase is ClaimPhase.REQUESTED
    lab.kubernetes.amend(resources.PODS, "p", {"spec": {"nodeName": "elsewhere"}}, "default")
    (report,) = lab.tick()
    assert (lab.claims, lab.cloud.instances()) == ((), ())
    assert "PodsPlacedElsewhere" in [decision.reason for decision in report.decisions]


def test_a_node_pool_with_min_values_for_families_gets_them_from_ec2(monkeypatch: pytest.MonkeyPatch) -> None:
    """EC2 was asked for the 60 cheapest types, all of one family, although the NodePool requires three."""
    cheap = [a_type(f"aa.{n:03}", price=0.1 + n / 10_000, **{FAMILY: "aa"}) for n in range(70)]
    expensive = [a_type(f"{name}.x", price=2.0, **{FAMILY: name}) for name in ("bb", "cc")]
    lab, orders = Lab(types=(*cheap, *expensive)), list[LaunchOrder]()
    demand = {"key": FAMILY, "operator": "Exists", "minValues": 3}
    lab.kubernetes.put(a_node_pool(template={"requirements": [demand]}), a_pending_pod("p"))
    launch = lab.cloud.launch

    def listen(order: LaunchOrder) -> Launched:
        orders.append(order)
        return launch(order)

    monkeypatch.setattr(lab.cloud, "launch", listen)
    lab.provision()
    (order,) = orders
    assert {offering.instance_type.partition(".")[0] for offering in order.offerings} == {"aa", "bb", "cc"}


def test_pods_get_an_event_if_no_request_to_ec2_can_meet_min_values() -> None:
    """Otherwise, they get fewer types than the NodePool requires, or wait without an event."""
    by_family = [a_type(f"f{n:02}.x", **{FAMILY: f"f{n:02}", SIZE: "x"}) for n in range(40)]
    by_size = [a_type(f"f00.s{n:02}", **{FAMILY: "f00", SIZE: f"s{n:02}"}) for n in range(40)]
    lab = Lab(types=(*by_family, *by_size))
    demands = [{"key": key, "operator": "Exists", "minValues": 40} for key in (FAMILY, SIZE)]
    lab.kubernetes.put(a_node_pool(template={"requirements": demands}), a_pending_pod("p"))
    report = lab.provision()
    assert lab.claims == ()
    assert ("unschedulable", "default/p", "MinValuesNotMet") in {
        (d.kind, d.subject, d.reason) for d in report.decisions
    }


def test_a_node_launched_for_moved_pods_counts_against_their_next_move() -> None:
    """Otherwise, consolidation removes the node as soon as it may, forever."""
    lab = Lab()
    command = Command(reason="Underutilized", method="single", nodes=("n",), claims=("c",), savings=1)
    owner = {"kind": "ReplicaSet", "name": "web", "apiVersion": "apps/v1", "uid": "u", "controller": True}
    workload, now = "default/ReplicaSet/web", lab.clock.now()
    lab.app.adapters.stores.moves.write(MoveHistory().after_command("one", command, (workload,), now), now)
    lab.kubernetes.put(a_pending_pod("p", metadata={"ownerReferences": [owner]}), a_pending_pod("other"))
    lab.provision()
    held = lab.app.adapters.stores.moves.read(now).workloads[workload]
    assert held.held_until is not None
    assert held.held_until >= now + timedelta(hours=1)


# Events about pods for which no node comes.


def test_a_run_writes_few_events_and_the_next_runs_write_the_others() -> None:
    """A thousand pods without a place would take a thousand calls, which the pods that have one wait for."""
    clock = FakeClock(NOW)
    kubernetes = FakeKubernetes(clock)
    events = UnschedulableEvents(kubernetes, clock)
    waiting = [Unschedulable(f"default/p{n}", PodReason.NO_NODE_POOL, "no NodePool") for n in range(PER_RUN + 3)]
    written = []
    for _ in range(3):
        events.publish(waiting, "decision")
        written.append(len(kubernetes.names(resources.EVENTS)))
    assert written == [PER_RUN, PER_RUN + 3, PER_RUN + 3]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        pytest.param(DeniedError("kube:create events", "403 the namespace is being terminated"), ["b"], id="refused"),
        pytest.param(TransientError("kube:create events", '500 failed calling webhook "guard"'), ["b"], id="webhook"),
        pytest.param(TransientError("kube:create events", "500"), [], id="overloaded"),
    ],
)
def test_a_refused_event_keeps_no_other_back(error: Exception, told: list[str]) -> None:
    """Whoever deletes a namespace with a waiting pod in it would keep the events of all pods behind it from their owners."""
    clock = FakeClock(NOW)
    kubernetes = FakeKubernetes(clock)
    events = UnschedulableEvents(kubernetes, clock)
    answers = iter([error])

    def refuse_first(_: str) -> None:
        for answer in answers:
            raise answer

    kubernetes.before_call = refuse_first
    events.publish([Unschedulable(f"{n}/p", PodReason.NO_NODE_POOL, "no NodePool") for n in "ab"], "decision")
    written = [kubernetes.raw(resources.EVENTS, name, "b") for name in kubernetes.names(resources.EVENTS)]
    assert [event["involvedObject"]["namespace"] for event in written] == told


def test_a_webhook_that_hangs_does_not_use_up_the_run() -> None:
    """Ten events of 19 seconds each outlasted `provision`, which was cut off in each run; now others follow in later runs."""
    clock = FakeClock(NOW)
    kubernetes = FakeKubernetes(clock)
    events = UnschedulableEvents(kubernetes, clock)
    kubernetes.before_call = lambda _: clock.advance(seconds=19)
    waiting = [Unschedulable(f"default/p{n}", PodReason.NO_NODE_POOL, "no NodePool") for n in range(3)]
    for run in range(1, 4):
        events.publish(waiting, "decision")
        assert clock.now() == NOW + run * timedelta(seconds=19)
    assert len(kubernetes.names(resources.EVENTS)) == 3


def test_events_about_the_longest_names_are_valid_and_distinct() -> None:
    """The API server refuses longer names; a pod may have one of 253 characters."""
    names = ["a" * 240 + ".-"[n % 2] + "b" * 11 + str(n) for n in range(4)]
    events = [warning(about_pod("default", name), "Waits", "why", NOW, identity="why") for name in names]
    written = [str(event["metadata"]["name"]) for event in events]
    assert len(set(written)) == 4
    assert all(
        len(name) <= 253 and re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", name)
        for name in written
    )


def test_a_namespace_with_many_pods_delays_no_event_of_another() -> None:
    clock = FakeClock(NOW)
    kubernetes = FakeKubernetes(clock)
    waiting = [Unschedulable(f"a/p{n}", PodReason.NO_NODE_POOL, "no NodePool") for n in range(10 * PER_RUN)]
    waiting.append(Unschedulable("z/honest", PodReason.NO_NODE_POOL, "no NodePool"))
    UnschedulableEvents(kubernetes, clock).publish(waiting, "decision")
    assert any("honest" in name for name in kubernetes.names(resources.EVENTS))
