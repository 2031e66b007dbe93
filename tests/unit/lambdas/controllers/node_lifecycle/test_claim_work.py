from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.lifecycle.draining.disruption_taint import REASON_ANNOTATION
from core.lifecycle.rebuilding import claim_annotations
from core.lifecycle.records import ClaimPhase, CommandPhase
from core.manifests.wire import api_resources as kinds
from core.model.catalogue import OfferingKey
from core.model.values.taints import DISRUPTED
from lambdas.controllers.events.interruption import read_event
from lambdas.controllers.node_lifecycle import claim_work
from lambdas.messages import work_on_claim, work_on_command
from lambdas.ports import DeniedError, TransientError
from lambdas.run_report import RunReport
from lambdas.store import DECIDER
from lambdas.wiring import ENDING_STATES
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod


@pytest.fixture
def lab() -> Lab:
    """One node with one pod on it."""
    found = Lab()
    found.kubernetes.put(a_pending_pod("p"))
    found.settle()
    found.bind("p")
    return found


def taints_of(lab: Lab) -> list[str]:
    (node,) = lab.kubernetes.names(kinds.NODES)
    return [taint["key"] for taint in lab.kubernetes.raw(kinds.NODES, node)["spec"]["taints"]]


def interrupt(lab: Lab, kind: str = "EC2 Spot Instance Interruption Warning", **detail: Any) -> RunReport:
    report = RunReport()
    event = {"source": "aws.ec2", "detail-type": kind, "detail": {"instance-id": lab.claim.instance_id, **detail}}
    lab.app.interruptions.run(event, report)
    return report


def test_a_claim_with_many_steps_is_checked_again_at_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run takes a limited number of steps; the next message must not wait for a node that has already joined."""
    monkeypatch.setattr(claim_work, "MAX_STEPS", 1)
    interrupt(lab)
    lab.work.take()
    lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    ((message, delay),) = lab.work.sent
    assert (message["claim"], delay) == (lab.claim.name, claim_work.SOON)


def test_a_node_carries_what_its_claim_was_launched_from(lab: Lab) -> None:
    """From these annotations a lost row is rebuilt, and drift is found."""
    written = lab.kubernetes.raw(kinds.NODES, lab.claim.node_name)["metadata"]["annotations"]
    wanted = {**lab.claim.plan.annotations, **claim_annotations(lab.claim)}
    assert {key: written.get(key) for key in wanted} == wanted


def test_an_unreadable_message_does_not_fail_the_others(lab: Lab) -> None:
    """Otherwise, one bad message delays nine claims until it reaches the dead-letter queue."""
    interrupt(lab)
    report = RunReport()
    good = lab.work.take()[0]
    records = [
        {"messageId": "bad", "body": "{"},
        {"messageId": "both", "body": '{"claim": "a", "command": "b"}'},
        {"messageId": "good", "body": f'{{"claim": "{good["claim"]}"}}'},
    ]
    lab.app.execution.run(records, report, deadline=lab.clock.now() + timedelta(minutes=1))
    assert report.to_response()["batchItemFailures"] == [{"itemIdentifier": "bad"}, {"itemIdentifier": "both"}]
    assert lab.kubernetes.evicted == ["default/p"]


def test_one_message_twice_is_handled_once(lab: Lab) -> None:
    interrupt(lab)
    (message,) = lab.work.take()
    report = lab.execute(message, message)
    assert [d.subject for d in report.decisions if d.kind == "drain"] == ["default/p"]
    assert len(lab.work.sent) == 1


def test_a_claim_of_two_messages_that_fails_is_tried_again_once(lab: Lab) -> None:
    """Both messages would go on, each with a series of checks of its own, and each failure would double them."""
    interrupt(lab)
    (message,) = lab.work.take()

    def fail(call: str) -> None:
        raise TransientError(f"kube:{call}", "throttled")

    lab.kubernetes.before_call = fail
    report = lab.execute(message, message)
    assert report.counts["portErrors"] == 1
    assert len(lab.work.sent) == 1


def test_of_two_messages_the_one_that_ends_later_counts(lab: Lab) -> None:
    """Otherwise, a series of runs that is about to end replaces the new one of a spot notice, and the drain stops."""
    interrupt(lab)
    lab.tick()
    name, now = lab.claim.name, lab.clock.now()
    lab.work.take()
    longer = work_on_claim(name, now)
    lab.execute(
        work_on_claim(name, now, checked_for=timedelta(seconds=3)),
        longer,
        work_on_claim(name, now, checked_for=timedelta(0)),
    )
    assert [message["until"] for message, _ in lab.work.sent] == [longer["until"]]


def test_a_message_about_a_deleted_claim_is_dropped(lab: Lab) -> None:
    """Messages come late; claims end."""
    report = lab.execute(work_on_claim("long-gone", lab.clock.now()))
    assert report.failed_messages == []
    assert lab.work.sent == []


def test_a_series_of_runs_ends(lab: Lab) -> None:
    """Otherwise, each slow round adds a series, and the queue fills up."""
    lab.kubernetes.protected = {"default/p"}
    interrupt(lab)
    for _ in range(100):
        lab.tick(seconds=5)
    assert lab.work.sent == []
    lab.reconcile()
    assert [message.get("claim") for message, _ in lab.work.sent] == [lab.claim.name]


def test_a_disruption_budget_keeps_a_pod_and_its_node(lab: Lab) -> None:
    """Otherwise, a PodDisruptionBudget has no effect."""
    lab.kubernetes.protected = {"default/p"}
    interrupt(lab)
    reports = lab.tick(3)
    assert {d.reason for report in reports for d in report.decisions} == {"PodDisruptionBudget"}
    assert len(lab.cloud.instances()) == 1
    lab.kubernetes.protected = set()
    lab.tick(5)
    assert lab.claims == ()


def test_an_interrupted_instance_is_drained_at_once_and_its_offering_avoided(lab: Lab) -> None:
    """A spot notice leaves two minutes."""
    offering = lab.claim.machine.offering  # type: ignore[union-attr]  # it is launched
    report = interrupt(lab)
    assert [d.kind for d in report.decisions] == ["interrupt", "terminate"]
    assert [message for message, _ in lab.wake_ups.sent][-1] == {"wakeUp": "SpotInterrupted"}
    assert OfferingKey(offering.instance_type, offering.zone, "spot") in lab.rows.refused
    lab.tick()
    assert lab.kubernetes.evicted == ["default/p"]
    assert labels.DISRUPTED_TAINT in taints_of(lab)


def test_a_notice_is_acted_on_although_the_claim_has_just_changed(lab: Lab) -> None:
    """Otherwise, the two minutes are over before EventBridge delivers it again."""
    changes = lab.rows.stores(lab.brakes).claims.change
    taken = iter([True])

    def before(call: str) -> None:
        if call == "change" and next(taken, False):
            changes(lab.claim, lab.claim)

    lab.rows.before_call = before
    interrupt(lab)
    lab.rows.before_call = lambda _: None
    assert lab.claim.deletion is not None


def test_a_drain_that_a_restored_table_does_not_know_goes_on(lab: Lab) -> None:
    """Found by seed 300010: the node was opened again in its last minute, and pods went to it while others were forced off."""
    lab.kubernetes.protected = {"default/p"}
    before = lab.claim
    interrupt(lab)
    lab.tick(2)
    lab.rows.claims[before.name] = before
    lab.work.take()
    lab.reconcile()
    assert DISRUPTED.key in taints_of(lab)
    (report,) = lab.tick()
    assert [d.reason for d in report.decisions if d.kind == "terminate"] == ["SpotInterrupted"]
    assert lab.claim.deletion is not None


def test_no_pod_is_forced_off_a_node_that_was_opened_meanwhile() -> None:
    """Listing pods may take half a minute; until then another run may have let the node stay."""
    lab = Lab()
    pool = a_node_pool(template={"terminationGracePeriod": "1m", "expireAfter": "1h"})
    lab.kubernetes.put(pool, a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    before = lab.claim
    lab.kubernetes.protected = {"default/p"}
    lab.clock.advance(hours=1)
    lab.reconcile()
    lab.tick(2, seconds=20)

    def restore(call: str) -> None:
        if call == f"list pods spec.nodeName={before.node_name}":
            lab.kubernetes.before_call = lambda _: None
            lab.rows.claims[before.name] = before
            lab.kubernetes.amend(kinds.NODES, before.node_name, {"spec": {"taints": []}})

    lab.kubernetes.before_call = restore
    lab.tick(seconds=20)
    assert lab.kubernetes.names(kinds.PODS) == ["p"]
    assert (lab.claim.deletion, taints_of(lab)) == (None, [])


def test_a_second_notice_changes_nothing(lab: Lab) -> None:
    interrupt(lab)
    before = lab.claim
    interrupt(lab, "EC2 Instance State-change Notification", state="shutting-down")
    assert lab.claim == before


def test_a_repeated_notice_sends_the_message_that_the_first_could_not(lab: Lab) -> None:
    """The claim was stored as terminating, then the queue failed: nothing drained it, and the retry did nothing."""
    lab.work.take()
    sends = lab.work.send
    lab.work.send = failing  # type: ignore[method-assign]
    with pytest.raises(TransientError):
        interrupt(lab)
    assert lab.claim.deletion is not None
    lab.work.send = sends  # type: ignore[method-assign]
    interrupt(lab)
    assert [message.get("claim") for message, _ in lab.work.sent] == [lab.claim.name]


def failing(*_: Any, **__: Any) -> None:
    raise TransientError("sqs:SendMessageBatch", "down")


def test_events_of_foreign_instances_read_no_claims(lab: Lab) -> None:
    """A thousand foreign instances may stop at once."""
    calls: list[str] = []
    lab.rows.before_call = calls.append
    event = an_event("aws.ec2", "EC2 Spot Instance Interruption Warning", **{"instance-id": "i-foreign"})
    lab.app.interruptions.run(event, RunReport())
    assert calls == ["read one"]


@pytest.mark.parametrize("policy", ["ignore", "drain"])
def test_a_rebalance_recommendation_does_what_the_operator_configured(policy: str) -> None:
    lab = Lab(rebalance_policy=policy)
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    interrupt(lab, "EC2 Instance Rebalance Recommendation")
    assert (lab.claim.deletion is not None) == (policy == "drain")


def an_event(source: str, detail_type: str, **detail: Any) -> dict[str, Any]:
    return {"source": source, "detail-type": detail_type, "detail": detail}


STATE = ("aws.ec2", "EC2 Instance State-change Notification")
HEALTH = ("aws.health", "AWS Health Event")
ENTITY = {"affectedEntities": [{"entityValue": "i"}]}


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (an_event(*STATE, **{"instance-id": "i", "state": "Stopping"}), "InstanceStopped"),
        (an_event(*STATE, **{"instance-id": "i", "state": "running"}), None),
        (an_event(*HEALTH, service="EC2", eventTypeCategory="scheduledChange", **ENTITY), "ScheduledChange"),
        (an_event(*HEALTH, service="EC2", eventTypeCategory="issue"), None),
        (an_event("aws.s3", "Object Created"), None),
        ({}, None),
        ([], None),
    ],
)
def test_event_types_are_distinguished(event: Any, kind: str | None) -> None:
    """Otherwise, a scheduled retirement goes unnoticed, or a start is taken for an end."""
    found = read_event(event)
    assert (found.reason if found else None) == kind
    assert found is None or found.instance_ids == ("i",)


@pytest.mark.parametrize("state", ["pending", "running", "stopping", "stopped", "shutting-down", "terminated"])
def test_the_event_rule_matches_the_handled_events(state: str) -> None:
    """Otherwise, each launch wakes a function twice for nothing, or a stopping instance goes unnoticed."""
    acted_on = read_event(an_event(*STATE, **{"instance-id": "i", "state": state})) is not None
    assert acted_on == (state in ENDING_STATES)


def test_an_empty_node_goes_after_its_validation(lab: Lab) -> None:
    lab.kubernetes.drop(kinds.PODS, "p", "default")
    lab.clock.advance(minutes=1)
    lab.disrupt()
    lab.tick(seconds=14)
    assert DISRUPTED.key not in taints_of(lab)
    lab.tick(8)
    assert lab.claims == ()
    assert lab.cloud.instances() == ()
    assert lab.rows.commands == {}
    assert lab.rows.usage["default"].reserved == {}


def test_a_command_that_the_table_refuses_affects_no_other(lab: Lab) -> None:
    """A row may have 400 KB: otherwise, one command that is too large keeps all others of its run from being stored."""
    lab.kubernetes.drop(kinds.PODS, "p", "default")
    lab.clock.advance(minutes=1)

    def refuse(call: str) -> None:
        if call == "write" and DECIDER in lab.rows.leases:
            lab.rows.before_call = lambda _: None
            raise DeniedError("dynamodb:PutItem", "Item size has exceeded the maximum allowed size")

    lab.rows.before_call = refuse
    report = lab.disrupt()
    assert [found.reason for found in report.decisions] == ["CommandRefused"]
    assert (lab.rows.commands, lab.work.sent) == ({}, [])


def test_a_command_is_dropped_when_the_world_has_changed(lab: Lab) -> None:
    """Otherwise, a node goes although pods have been bound to it in the meantime."""
    lab.kubernetes.drop(kinds.PODS, "p", "default")
    lab.clock.advance(minutes=1)
    lab.disrupt()
    lab.kubernetes.put(a_pending_pod("q"))
    lab.bind("q")
    (report,) = lab.tick(seconds=15)
    assert [(d.kind, d.reason) for d in report.decisions] == [("abandon", "ValidationFailed")]
    assert lab.rows.commands == {}
    assert lab.claim.deletion is None


def drift(lab: Lab) -> None:
    """Make the only node drift: its NodePool gets another node label."""
    template = {"expireAfter": "1000h"}
    lab.kubernetes.put(a_node_pool(template=template))
    lab.clock.advance(minutes=1)
    lab.disrupt()
    lab.tick()


def test_a_drifted_node_stays_until_its_replacement_is_initialized(lab: Lab) -> None:
    """Otherwise, pods are evicted and have no place to go."""
    drift(lab)
    (command,) = lab.rows.commands.values()
    assert command.phase is CommandPhase.REPLACING
    assert len(lab.claims) == 2
    assert [claim.deletion for claim in lab.claims] == [None, None]
    lab.tick(3)
    lab.boot()
    lab.tick(4)
    lab.tick(8)
    assert lab.kubernetes.evicted == ["default/p"]
    assert [claim.phase for claim in lab.claims] == [ClaimPhase.INITIALIZED]
    assert command.replacements == (lab.claim.name,)


def test_a_replacement_that_is_ready_wakes_its_command(lab: Lab) -> None:
    """Otherwise, the node that it replaces is paid for until the next check of the command."""
    drift(lab)
    (command,) = lab.rows.commands.values()
    (name,) = command.replacements
    lab.tick(3)
    lab.boot()
    lab.work.take()
    for _ in range(3):
        lab.clock.advance(seconds=20)
        lab.execute({"claim": name})
    assert {"command": command.id} in lab.work.take()


def test_a_replacement_has_room_in_limits_that_its_own_node_fills() -> None:
    """Otherwise, no node of a NodePool at its limit is ever replaced."""
    lab = Lab()
    limits = {"nodes": "1"}
    lab.kubernetes.put(a_node_pool(limits=limits), a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    lab.kubernetes.put(a_node_pool(limits=limits, template={"expireAfter": "1000h"}))
    lab.clock.advance(minutes=1)
    lab.disrupt()
    lab.tick()
    old, new = sorted(lab.claims, key=lambda claim: claim.requested_at)
    assert (old.reserved, old.deletion, new.reserved["nodes"]) == ({}, None, 1)


@pytest.mark.parametrize(("boots", "reason"), [(False, "ReplacementNotReady"), (True, "ReplacementUnused")])
def test_a_replacement_that_does_not_join_in_time_counts_against_its_node_pool(
    lab: Lab, *, boots: bool, reason: str
) -> None:
    """The breaker must not count one that is merely not needed any more."""
    drift(lab)
    (command,) = lab.rows.commands.values()
    (name,) = command.replacements
    claims = lab.app.adapters.stores.claims
    if boots:
        found = claims.get(name)
        assert found is not None
        claims.change(found, msgspec.structs.replace(found, phase=ClaimPhase.INITIALIZED))
        lab.rows.commands[command.id] = msgspec.structs.replace(command, replacements=(name, "gone"))
    lab.clock.advance(minutes=11)
    lab.execute({"command": command.id})
    after = claims.get(name)
    assert lab.rows.commands == {}
    assert after is not None
    assert after.deletion is not None
    assert after.deletion.reason == reason


def test_a_command_that_is_given_up_opens_no_node_that_must_go(lab: Lab) -> None:
    """The command is of a restored table, which does not know that the node was interrupted since."""
    drift(lab)
    (command,) = lab.rows.commands.values()
    (node,) = command.command.nodes
    lab.kubernetes.amend(kinds.NODES, node, {"metadata": {"annotations": {REASON_ANNOTATION: "SpotInterrupted"}}})
    lab.clock.advance(minutes=11)
    lab.execute({"command": command.id})
    assert lab.rows.commands == {}
    assert DISRUPTED.key in taints_of(lab)
    lab.tick()
    (going,) = (claim.deletion for claim in lab.claims if claim.node_name == node)
    assert going is not None
    assert going.reason == "SpotInterrupted"


def test_the_taint_of_a_command_under_way_stays(lab: Lab) -> None:
    """Otherwise, pods are placed on a node that is about to go."""
    drift(lab)
    lab.clock.advance(minutes=1)
    lab.reconcile()
    assert DISRUPTED.key in taints_of(lab)
    assert sorted(claim.is_disrupting for claim in lab.claims) == [False, True]


def test_checks_of_a_command_end_with_their_chain(lab: Lab) -> None:
    """The sweeps begin another chain for a command that is still there; several for ever would fill the queue."""
    drift(lab)
    (command,) = lab.rows.commands.values()
    for minutes, follows in ((10, True), (0, False)):
        lab.work.take()
        lab.execute(work_on_command(command.id, lab.clock.now(), checked_for=timedelta(minutes=minutes)))
        assert bool(lab.work.sent) is follows


def test_pods_of_a_command_in_flight_are_not_planned_again(lab: Lab) -> None:
    """Otherwise, `provision` launches a second node for the pods that a command moves (found on a real control plane)."""
    drift(lab)
    assert {claim.phase for claim in lab.claims} == {ClaimPhase.REQUESTED, ClaimPhase.INITIALIZED}
    report = lab.provision()
    assert [decision.kind for decision in report.decisions] == []
    assert len(lab.claims) == 2


def test_a_command_whose_replacement_cannot_be_launched_frees_its_node(lab: Lab) -> None:
    """Otherwise, the node stays tainted and half used forever."""
    lab.cloud.scarce = {(t.name, o.zone, o.capacity_type) for t in lab.types for o in t.offerings}
    reserved = lab.claim.reserved
    drift(lab)
    lab.tick(4)
    assert lab.rows.commands == {}
    assert lab.claim.deletion is None
    assert lab.claim.reserved == reserved
    assert taints_of(lab) == []


def test_the_limits_are_free_once_the_node_is_tainted(lab: Lab) -> None:
    """Otherwise, a NodePool has more nodes that take pods than its limits allow while the API server is slow."""
    held = lab.claim.reserved
    interrupt(lab)
    assert (lab.claim.reserved, lab.rows.usage["default"].disrupting) == (held, 1)
    lab.wake_ups.sent.clear()
    lab.kubernetes.protected = {"default/p"}
    lab.tick()
    assert DISRUPTED.key in taints_of(lab)
    assert (lab.claim.reserved, lab.rows.usage["default"].reserved) == ({}, {})
    assert [message for message, _ in lab.wake_ups.sent] == [{"wakeUp": "SpotInterrupted"}], "who waits for the limit"


def test_the_grace_period_starts_with_the_taint() -> None:
    """Otherwise, a node that is tainted late has its pods killed in the same second, without one try to evict them."""
    lab = Lab()
    lab.kubernetes.put(a_node_pool(template={"terminationGracePeriod": "1m"}), a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    lab.kubernetes.protected = {"default/p"}
    interrupt(lab)
    lab.clock.advance(minutes=2)
    report = lab.execute()
    assert [decision.reason for decision in report.decisions] == ["PodDisruptionBudget"]
    lab.tick(8)
    assert lab.kubernetes.names(kinds.PODS) == []


def test_a_place_in_the_budgets_is_free_once_the_instance_terminates(lab: Lab) -> None:
    """As in Karpenter: a terminating instance disrupts no more pods."""
    interrupt(lab)
    lab.tick(4)
    assert lab.claims == () or lab.claim.deletion.terminated_at is not None  # type: ignore[union-attr]  # it goes
    assert lab.rows.usage["default"].disrupting == 0
