"""Runs of `provision`: what they plan, wait for, store, and leave to others."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec
import pytest

from adapters.messages import WokenBy, wake_up
from adapters.observation.cluster_reader import UNBOUND
from adapters.ports import JsonObject, TransientError
from adapters.run_report import RunReport
from adapters.store import PLANNER
from core import labels
from core.brakes import Brake, BrakeKind
from core.disruption.target.move_price import settings_digest
from core.launch.denials import DenialScope, LaunchDenial
from core.ledger.reading import LedgerReader, decided_again, read_decision_key
from core.lifecycle.records import ClaimPhase, Deletion
from core.manifests.wire import resources
from core.model.pod import MEMBERS_COME_WITHIN, Pod
from core.model.snapshot import Snapshot
from core.model.values.quotas import QUOTAS
from core.scheduling.explanation import Diagnosis
from core.scheduling.explanation_text import PodFinding
from core.scheduling.pods import PodGroup
from installation.metric_names import LAUNCH_DENIALS, QUOTA_DENIALS
from lambdas.controllers.provisioning import MARGIN, ROOM_CHECKED_EVERY
from tests.builders import NOW, a_pool, a_stored_target
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.unit.lambdas.controllers.provisioning.bursts import a_burst, kinds_of
from tests.unit.lifecycle.records_for_tests import a_plan, a_record


def test_the_intent_is_stored_before_anything_is_launched(lab: Lab) -> None:
    """Otherwise, a crash between the two leaves an instance that looks like a foreign one."""
    lab.kubernetes.put(a_pending_pod("p"))
    seen: list[ClaimPhase] = []
    lab.cloud.before_call = lambda _: seen.extend(claim.phase for claim in lab.rows.claims.values())
    lab.provision()
    assert seen == [ClaimPhase.REQUESTED]
    assert lab.claim.phase is ClaimPhase.LAUNCHED


def test_costly_reasons_of_some_pods_delay_no_launch_for_others(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty pods that nothing can hold, whose reasons take three seconds each: two minutes of a run that has one."""
    explain = Diagnosis.of

    def costly(self: Diagnosis, pod_group: PodGroup, pod: Pod | None = None) -> PodFinding:
        lab.clock.advance(seconds=3)
        return explain(self, pod_group, pod)

    monkeypatch.setattr(Diagnosis, "of", costly)
    lab.kubernetes.put(*(a_pending_pod(f"odd{n}", nodeSelector={"team": f"t{n}"}) for n in range(40)))
    lab.kubernetes.put(a_pending_pod("honest"))
    began = lab.clock.now()
    launched: list[timedelta] = []
    lab.cloud.before_call = lambda _: launched.append(lab.clock.now() - began)
    report = lab.provision()
    assert lab.claim.phase is ClaimPhase.LAUNCHED
    assert max(launched) < timedelta(seconds=45)
    assert "cutOffPlans" not in report.counts, "what is placed is not planned again"


def test_an_idle_cluster_costs_two_reads_and_no_lease(lab: Lab) -> None:
    """It runs every minute."""
    lab.provision()  # that no ProvisioningRequests are served is remembered
    calls: list[str] = []
    lab.kubernetes.before_call = lab.rows.before_call = lab.cloud.before_call = calls.append
    lab.provision()
    assert calls == [f"list pods {UNBOUND}", "read"]


def test_pods_that_the_scheduler_has_not_tried_yet_are_checked_again_soon(lab: Lab) -> None:
    pod = a_pending_pod("p")
    lab.kubernetes.put({**pod, "status": {"phase": "Pending"}})
    lab.provision()
    assert lab.claims == ()
    ((_, delay),) = lab.wake_ups.sent
    assert delay == timedelta(seconds=10)


def test_repeated_runs_of_one_minute_do_not_add_to_those_of_the_next(lab: Lab) -> None:
    """Otherwise, each minute without capacity adds a series of runs, until the function does nothing else."""
    pod = a_pending_pod("p")
    lab.kubernetes.put({**pod, "status": {"phase": "Pending"}})
    due: list[tuple[datetime, JsonObject]] = []
    runs = 0
    for second in range(600):
        lab.clock.advance(seconds=1)
        arrived = [message for at, message in due if at <= lab.clock.now()]
        due = [(at, message) for at, message in due if at > lab.clock.now()]
        for messages in ([()] if second % 60 == 0 else []) + ([arrived] if arrived else []):
            lab.provision(*messages)
            runs += 1
        due += [(lab.clock.now() + delay, message) for message, delay in lab.wake_ups.sent]
        lab.wake_ups.take()
    assert runs in range(60, 72)


def test_an_event_causes_one_more_run_and_no_series(lab: Lab) -> None:
    """Otherwise, every burst of events leaves a series of runs behind."""
    pod = a_pending_pod("p")
    lab.kubernetes.put({**pod, "status": {"phase": "Pending"}})
    lab.provision(wake_up("PodUnschedulable"))
    (message,) = lab.wake_ups.take()
    lab.clock.advance(seconds=10)
    lab.provision(message)
    assert lab.wake_ups.take() == []


def test_pods_of_a_launch_under_way_are_not_planned_again(lab: Lab) -> None:
    """Otherwise, each run launches the same nodes again."""
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    report = lab.provision()
    assert [decision.reason for decision in report.decisions] == ["NodesUnderWay"]
    assert len(lab.cloud.instances()) == 1
    assert lab.claim.name in lab.rows.nominated


def test_a_later_pod_does_not_take_room_that_was_launched_for_others(lab: Lab) -> None:
    """Otherwise, a burst that arrives in parts moves its pods with each part, and launches superfluous nodes."""
    lab.kubernetes.put(a_pending_pod("p", cpu="1500m"))
    lab.provision()
    lab.kubernetes.put(a_pending_pod("a", cpu="1500m"))
    lab.provision()
    assert sorted(claim.plan.pods for claim in lab.claims) == [("default/a",), ("default/p",)]


def test_a_pod_that_lost_its_planned_room_is_planned_for_again() -> None:
    """Otherwise, it waits forever if the scheduler gave its room to another."""
    lab = Lab(bind_pods=False)
    lab.kubernetes.put(a_pending_pod("p", cpu="1500m"))
    lab.provision()
    lab.tick(3)
    lab.boot()
    lab.tick(3)
    assert lab.claim.phase is ClaimPhase.INITIALIZED
    taker = a_pending_pod("taker", cpu="3500m", nodeName=lab.claim.node_name)
    lab.kubernetes.put({**taker, "status": {"phase": "Running"}})
    lab.kubernetes.amend(
        resources.PODS, "p", {"status": {"nominatedNodeName": None}}, "default"
    )  # as the scheduler does
    lab.provision()
    assert len(lab.claims) == 2


def test_a_limit_is_never_overshot(lab: Lab) -> None:
    lab.kubernetes.put(a_node_pool(limits={"cpu": "4"}), *(a_pending_pod(f"p{n}", cpu="1500m") for n in range(4)))
    report = lab.provision()
    assert sum(claim.machine.capacity["cpu"] for claim in lab.claims if claim.machine) <= 4000
    assert "unschedulable" in kinds_of(report)


def test_a_second_planner_leaves_the_work_to_the_first(lab: Lab) -> None:
    """Otherwise, both launch for the same pods."""
    lab.kubernetes.put(a_pending_pod("p"))
    lab.app.adapters.leases.acquire(PLANNER, "other", now=lab.clock.now(), for_=timedelta(minutes=1))
    report = lab.provision()
    assert [decision.reason for decision in report.decisions] == ["PlannerBusy"]
    assert len(lab.wake_ups.sent) == 1
    lab.clock.advance(minutes=2)
    lab.provision()
    assert len(lab.claims) == 1


def test_an_unschedulable_pod_gets_an_event_once_an_hour(lab: Lab) -> None:
    """Otherwise, users see a pod without events, or the cluster's events are flooded."""
    lab.kubernetes.put(a_pending_pod("huge", cpu="500"))
    for _ in range(3):
        report = lab.provision()
        lab.clock.advance(minutes=1)
        lab.restart()
    assert report.counts["unschedulablePods"] == 1
    (event,) = lab.kubernetes.names(resources.EVENTS)
    written = lab.kubernetes.raw(resources.EVENTS, event, "default")
    assert written["involvedObject"]["name"] == "huge"
    assert written["reason"] == "FailedScheduling"


def test_one_unreadable_pool_does_not_keep_the_others_from_working(lab: Lab) -> None:
    """Otherwise, one typing mistake stops the whole cluster."""
    broken = a_node_pool("broken", template={"requirements": [{"key": "a", "operator": "Near", "values": ["b"]}]})
    lab.kubernetes.put(broken, a_pending_pod("p"))
    lab.provision()
    assert [claim.plan.node_pool for claim in lab.claims] == ["default"]


def test_pods_expected_on_a_node_protect_it_from_disruption(lab: Lab) -> None:
    """Otherwise, an empty node is removed just when a pod was assigned to it."""
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.kubernetes.drop(resources.PODS, "p", "default")
    lab.clock.advance(minutes=1)
    lab.kubernetes.put(a_pending_pod("q"))
    lab.provision()
    lab.disrupt()
    assert lab.rows.commands == {}


def test_a_failing_search_for_cheaper_nodes_costs_money_but_no_pods(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, one unforeseen plan leaves every pending pod of the cluster waiting, run after run."""

    def broken(*_: object, **__: object) -> None:
        raise ArithmeticError("two columns are one")

    monkeypatch.setattr("core.scheduling.planner.improved", broken)
    lab.kubernetes.put(a_pending_pod("p"))
    report = lab.provision()
    assert lab.claim.phase is ClaimPhase.LAUNCHED
    assert report.counts["failedImprovements"] == 1
    assert [d.message for d in report.decisions if d.reason == "ImprovementFailed"] == [
        "ArithmeticError: two columns are one"
    ]


@pytest.mark.parametrize("error", [TransientError("kube:list nodes", "throttled"), ValueError("slip")])
def test_a_lease_is_released_after_any_failure(lab: Lab, error: Exception) -> None:
    """A defect, or one throttled call, kept every planner away for a minute."""
    a_burst(lab)

    def fail(call: str) -> None:
        if call == "list nodes":  # under the lease; pods are listed before it is taken, too
            raise error

    lab.kubernetes.before_call = fail
    with pytest.raises(type(error)):
        lab.provision()
    assert lab.app.adapters.leases.acquire(PLANNER, "other", now=lab.clock.now(), for_=timedelta(seconds=1)) is not None


def test_a_run_that_finds_another_planner_is_repeated_only_within_its_minute(lab: Lab) -> None:
    """Each such run caused the next, for as long as the other planned."""
    assert lab.app.adapters.leases.acquire(PLANNER, "other", now=lab.clock.now(), for_=timedelta(hours=1)) is not None
    lab.provision()
    messages = lab.wake_ups.take()
    for _ in range(20):
        lab.clock.advance(seconds=5)
        if not messages:
            break
        lab.provision(*messages)
        messages = lab.wake_ups.take()
    assert messages == []


@pytest.mark.parametrize(("reason", "launched"), [("Underutilized", 0), ("Expired", 1)])
def test_pods_that_consolidation_moves_get_no_further_node(lab: Lab, reason: str, launched: int) -> None:
    """Their command has found room for them; what was launched besides stood empty until it was consolidated, too."""
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    record, now = lab.claim, lab.clock.now()
    leaving = msgspec.structs.replace(record, deletion=Deletion(reason=reason, asked_at=now, tainted_at=now))
    lab.app.adapters.stores.claims.change(record, leaving)
    lab.provision()
    assert len(lab.claims) == 1 + launched


ONE_EXPIRED: Final = 2
"""Claims of two nodes, one of which has expired and whose pod fits on the other."""


def one_expired(settings: str | None = None) -> Lab:
    """Two nodes; one has expired, and with settings, a target of these drains the other later."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p", cpu="3"), a_pending_pod("q", cpu="3"))
    lab.settle()
    first, second = sorted(lab.claims, key=lambda claim: claim.name)
    lab.kubernetes.drop(resources.PODS, "q", "default")
    body = {"spec": {"nodeName": first.node_name}, "status": {"phase": "Running", "conditions": []}}
    lab.kubernetes.amend(resources.PODS, "p", body, namespace="default")
    now = lab.clock.now()
    lab.app.adapters.stores.claims.change(
        first, msgspec.structs.replace(first, deletion=Deletion(reason="Expired", asked_at=now, tainted_at=now))
    )
    if settings is not None:
        lab.app.adapters.targets.write(a_stored_target(second.node_name, made_at=now, settings=settings))
    lab.clock.advance(minutes=1)
    return lab


PRESENT: Final = settings_digest(Snapshot(now=NOW, node_pools=(a_pool("default"),)))


@pytest.mark.parametrize("is_drained_later", [False, True])
def test_pods_of_an_expired_node_go_to_no_node_that_the_target_drains_later(*, is_drained_later: bool) -> None:
    """They moved a second time as soon as consolidation came to that node. The ledger has the target, so a replay agrees."""
    lab = one_expired(PRESENT if is_drained_later else None)
    lab.provision()
    assert len(lab.claims) == ONE_EXPIRED + is_drained_later
    reader = LedgerReader(lab.ledger.get)
    for key in sorted(filter(read_decision_key, lab.ledger.objects)):
        entry, raw = reader.entry(key)
        documents = reader.documents(entry, raw)
        assert decided_again(entry, reader.snapshot(entry, documents)) == documents.plan


def test_a_target_of_other_settings_is_followed_by_no_run_and_closes_no_node() -> None:
    """The expired node's pod got a new node, although a node with room for it stays."""
    lab = one_expired("of other settings")
    lab.provision()
    assert len(lab.claims) == ONE_EXPIRED


@pytest.mark.parametrize("kind", [BrakeKind.PAUSE, BrakeKind.ALARM, BrakeKind.ZONAL_SHIFT])
@pytest.mark.parametrize("pool", ["", "default", "another"])
def test_a_target_closes_no_node_that_a_brake_keeps(kind: BrakeKind, pool: str) -> None:
    lab = one_expired(PRESENT)
    lab.brakes.hold(Brake(kind, "engaged", node_pool=pool), lab.clock.now())
    lab.provision()
    assert len(lab.claims) == ONE_EXPIRED + (pool == "another")


def test_a_run_whose_rounds_are_used_up_asks_for_another_soon(lab: Lab) -> None:
    """Capacity that a third round did not get may be there in ten seconds; the schedule comes in a minute."""
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settings = msgspec.structs.replace(lab.settings, plan_rounds=1)
    lab.restart()
    lab.cloud.scarce = {(t.name, o.zone, o.capacity_type) for t in lab.types for o in t.offerings}
    lab.provision()
    ((message, delay),) = lab.wake_ups.sent
    assert message["wakeUp"] == "EC2 had no capacity"
    assert delay == timedelta(seconds=lab.settings.poll_seconds)


@pytest.mark.parametrize(
    ("code", "counted"), [("InsufficientInstanceCapacity", 0), ("UnauthorizedOperation", 1), ("VcpuLimitExceeded", 1)]
)
def test_a_lack_of_capacity_is_no_refused_call(lab: Lab, code: str, counted: int) -> None:
    """Its alarm says that a permission or quota is missing and ends an update, and nobody can do anything about it."""
    soon = lab.clock.now() + timedelta(minutes=1)
    denial = LaunchDenial(node_class="default", code=code, call="ec2:CreateFleet", until=soon, probing_until=soon)
    lab.rows.denials["default", code] = denial
    lab.kubernetes.put(a_pending_pod("p"))
    report = lab.provision()
    assert report.counts.get(LAUNCH_DENIALS, 0) == counted
    assert len(report.refused) == counted


def calls_in(lab: Lab) -> list[str]:
    """What the next runs ask of the API server, the table and EC2."""
    calls: list[str] = []
    lab.kubernetes.before_call = lab.rows.before_call = lab.cloud.before_call = calls.append
    return calls


def test_a_second_scheduled_run_of_an_idle_cluster_reads_no_claims(lab: Lab) -> None:
    """Nothing has changed since the first has found none; a recorded change ends that."""
    lab.provision()
    reads = []
    lab.app.adapters.stores.claims.all = lambda: reads.append("claims") or ()  # type: ignore[method-assign,func-returns-value]
    lab.clock.advance(minutes=1)
    lab.provision()
    assert reads == []
    lab.rows.changed_at = lab.clock.now()
    lab.provision()
    assert reads == ["claims"]


def test_a_run_with_news_reads_everything_even_if_nothing_waits(lab: Lab) -> None:
    calls = calls_in(lab)
    lab.provision(wake_up("PodUnschedulable"))
    assert len(calls) > 2
    assert lab.rows.changed_at is None, "nothing is planned"


def test_a_claim_that_an_earlier_run_stored_is_handed_over_by_a_scheduled_run(lab: Lab) -> None:
    """The earlier run crashed before it launched it; its pod is gone meanwhile, and nobody else looks."""
    stored = a_record(ClaimPhase.REQUESTED, plan=a_plan(pods=()))
    lab.app.adapters.stores.claims.restore(stored)
    report = lab.provision()
    assert report.counts["handedOver"] == 1
    assert [message["claim"] for message in lab.work.take()] == [stored.name]


def test_a_brake_on_launches_stops_the_run_before_it_plans(lab: Lab) -> None:
    lab.brakes.hold(Brake(BrakeKind.STOP, "engaged"), lab.clock.now())
    lab.kubernetes.put(a_pending_pod("p"))
    report = lab.provision()
    assert (lab.claims, lab.rows.leases) == ((), {})
    ((kind, subject),) = [(decision.kind, decision.subject) for decision in report.decisions]
    assert (kind, subject) == ("skip", "launches")


def test_waiting_pods_are_counted_with_those_whose_node_comes(lab: Lab) -> None:
    lab.kubernetes.put(a_pending_pod("p", cpu="3"))
    lab.provision()
    lab.kubernetes.put(a_pending_pod("q", cpu="3"), a_pending_pod("r", cpu="3"))
    report = lab.provision()
    assert (report.counts["pendingPods"], report.counts["awaitedPods"]) == (3, 1)


def test_a_pod_without_a_verdict_causes_no_further_run_if_others_are_planned(lab: Lab) -> None:
    """The run that launches for the others sees it too, or the event of its verdict comes."""
    other = a_pending_pod("q", schedulerName="slow", metadata={"creationTimestamp": NOW.isoformat()})
    lab.kubernetes.put(a_pending_pod("p"), {**other, "status": {"phase": "Pending"}})
    lab.provision()
    assert lab.wake_ups.take() == []


@pytest.mark.parametrize(("cause", "launched"), [({"wakeUp": "static"}, [2]), (None, [2])])
@pytest.mark.parametrize("gate", [True, False])
def test_static_nodes_are_launched_after_an_event_or_soon_by_the_schedule(
    cause: JsonObject | None, launched: list[int], *, gate: bool
) -> None:
    """`reconcile` says that they are missing; with a dead queue nobody does, and each look lists all nodes."""
    lab = Lab(feature_gates=f"StaticCapacity={str(gate).lower()}")
    lab.kubernetes.put(a_node_pool(replicas=2))
    for number in launched:
        lab.provision(*([cause] if cause else []))
        assert len(lab.claims) == (number if gate else 0)
        lab.clock.advance(minutes=1)


@pytest.mark.parametrize("obstacle", ["brake", "busy", "spaced"])
def test_a_look_that_something_prevents_is_made_by_the_next_run(obstacle: str) -> None:
    lab = Lab(feature_gates="StaticCapacity=true")
    lab.kubernetes.put(a_node_pool(replicas=2))
    now, leases = lab.clock.now(), lab.app.adapters.leases
    if obstacle == "brake":
        lab.brakes.hold(Brake(BrakeKind.STOP, "engaged"), now)
    elif obstacle == "busy":
        leases.acquire(PLANNER, "another", now=now, for_=timedelta(seconds=30))
    else:
        lab.app.provisioning.next_run.planned()
    lab.provision(*([{"wakeUp": "static"}] if obstacle == "spaced" else []))
    assert lab.claims == ()
    if obstacle == "brake":
        lab.brakes.release(BrakeKind.STOP)
    lab.clock.advance(minutes=1)
    lab.provision()
    assert len(lab.claims) == 2
    lab.kubernetes.put(a_node_pool("more", replicas=2))
    for wait, number in ((timedelta(minutes=1), 2), (ROOM_CHECKED_EVERY, 4)):
        lab.clock.advance(seconds=wait.total_seconds())
        lab.provision()
        assert len(lab.claims) == number, "each look lists all nodes"


def test_an_event_without_missing_static_nodes_plans_nothing() -> None:
    lab = Lab(feature_gates="StaticCapacity=true")
    lab.provision({"wakeUp": "static"})
    assert (lab.claims, lab.rows.changed_at) == ((), None)


def test_a_run_of_its_own_chain_does_not_look_for_static_nodes() -> None:
    lab = Lab(feature_gates="StaticCapacity=true")
    lab.kubernetes.put(a_node_pool(replicas=2))
    lab.provision(wake_up("pods wait", lab.clock.now() + timedelta(minutes=1)))
    assert lab.claims == ()


def test_the_instances_are_listed_in_the_first_round_alone(lab: Lab) -> None:
    """Lost rows are restored once in a run; each list of EC2 counts against the account's rate."""
    lab.kubernetes.put(a_pending_pod("p"))
    lab.cloud.scarce = {(t.name, o.zone, o.capacity_type) for t in lab.types for o in t.offerings}
    calls = calls_in(lab)
    lab.provision()
    assert calls.count("list nodes") == lab.settings.plan_rounds
    assert calls.count("instances") == 1


def test_the_first_round_restores_a_lost_row(lab: Lab) -> None:
    """Otherwise, a second node is launched for pods whose first one boots."""
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    name = lab.claim.name
    lab.rows.claims.clear()
    lab.provision()
    assert name in {claim.name for claim in lab.claims}


def test_short_quotas_are_counted_with_the_denials_that_remember_them(lab: Lab) -> None:
    soon = lab.clock.now() + timedelta(minutes=1)
    scope = DenialScope(quotas=(QUOTAS[0].name,), capacity_types=("spot",))
    of_quotas = ("VcpuLimitExceeded", "MaxSpotInstanceCountExceeded")
    for code in (*of_quotas, "UnauthorizedOperation"):
        of = scope if code in of_quotas else DenialScope()
        denial = LaunchDenial(node_class="default", code=code, until=soon, probing_until=soon, scope=of)
        lab.rows.denials["default", code] = denial
    lab.kubernetes.put(a_pending_pod("p"))
    assert lab.provision().counts[QUOTA_DENIALS] == 2


def test_a_changed_cluster_is_recorded_once_for_the_other_functions(lab: Lab) -> None:
    """They skip runs while nothing has changed; a pod that waits for a node that nobody launches is no change."""
    lab.kubernetes.put(a_pending_pod("large", cpu="400"))
    lab.provision()
    first = lab.rows.changed_at
    assert first is not None
    lab.clock.advance(minutes=1)
    lab.provision()
    assert lab.rows.changed_at == first
    lab.kubernetes.put(a_pending_pod("larger", cpu="500"))
    lab.provision()
    assert lab.rows.changed_at == lab.clock.now()


def test_a_pod_that_fits_on_a_node_is_told_and_protects_it(lab: Lab) -> None:
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    lab.kubernetes.put(a_pending_pod("q"))
    report = lab.provision()
    node = lab.claim.node_name
    bound = [(decision.subject, decision.message) for decision in report.decisions if decision.kind == "bind"]
    assert bound == [("default/q", f"expected on {node}")]
    assert node in lab.rows.nominated


@pytest.mark.parametrize(("seconds", "rounds"), [(10, 2), (30, 1)])
def test_no_further_round_begins_close_to_the_deadline(lab: Lab, seconds: float, rounds: int) -> None:
    """A run that is killed half-way reports nothing. Each round asks EC2 once for the one claim."""
    lab.kubernetes.put(a_pending_pod("p", cpu="1"))
    lab.settings = msgspec.structs.replace(lab.settings, plan_rounds=2)
    lab.restart()
    lab.cloud.scarce = {(t.name, o.zone, o.capacity_type) for t in lab.types for o in t.offerings}

    def slowly(call: str) -> None:
        if call == "launch":
            lab.clock.advance(seconds=seconds)

    lab.cloud.before_call = slowly
    calls: list[str] = []
    lab.kubernetes.before_call = calls.append
    report, now = RunReport(), lab.clock.now()
    lab.app.provisioning.run(
        report,
        owner="r",
        deadline=now + timedelta(seconds=30) + MARGIN - timedelta(seconds=1),
        until=now + timedelta(hours=1),
        cause=WokenBy.SCHEDULE,
    )
    assert calls.count("list nodes") == rounds
    assert [message["wakeUp"] for message in lab.wake_ups.take()] == ["EC2 had no capacity"]
    assert "unschedulablePods" in report.counts


def a_member(name: str) -> JsonObject:
    return a_pending_pod(name, cpu="3", metadata={"annotations": {labels.GROUP: "g", labels.GROUP_MINIMUM: "2"}})


@pytest.mark.parametrize("comes_back", [True, False])
def test_starting_nodes_of_a_group_survive_a_moment_without_a_member(lab: Lab, *, comes_back: bool) -> None:
    """All of them were given back, although a controller had deleted one pod to create it again."""
    lab.kubernetes.put(a_member("m-0"), a_member("m-1"))
    lab.provision()
    assert len(lab.claims) == 2
    lab.clock.advance(seconds=50)
    lab.wake_ups.take()
    lab.kubernetes.drop(resources.PODS, "m-1", "default")
    lab.provision()
    noted_at = lab.clock.now()
    assert [(claim.moments.unneeded_at, claim.deletion) for claim in lab.claims] == [(noted_at, None)] * 2
    assert [delay for _, delay in lab.wake_ups.sent] == [MEMBERS_COME_WITHIN]
    lab.clock.advance(seconds=2)
    if comes_back:
        lab.kubernetes.put(a_member("m-1"))
        lab.provision()
        assert [claim.moments.unneeded_at for claim in lab.claims] == [None] * 2
    lab.clock.advance(seconds=43)
    lab.provision()
    assert [claim.deletion is None for claim in lab.claims] == [comes_back] * 2
