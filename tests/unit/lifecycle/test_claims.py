"""The next step of a claim, from its request to a working node."""

from datetime import timedelta

import msgspec
import pytest

from core.lifecycle import steps
from core.lifecycle.binding.eligibility import SEEN_WITHIN, SETTLES_WITHIN
from core.lifecycle.claims import (
    BOOT_AT_LEAST,
    BOOT_RECHECKED,
    BOOT_RECHECKED_FOR,
    INITIALIZATION_TIMEOUT,
    LAUNCH_TIMEOUT,
    REGISTRATION_TIMEOUT,
    is_late_to_initialize,
    may_have_joined,
    needs_instance,
    next_claim_step,
)
from core.lifecycle.draining.disruption_taint import REASON_ANNOTATION
from core.lifecycle.facts import INSTANCE_CHECK_AFTER, ClaimFacts
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion, Moments
from core.lifecycle.registration import registration_of
from core.model.node import Node
from core.model.pod import Owner, Pod
from core.model.values.taints import DISRUPTED, HELD
from core.reasons.claim import ClaimReason
from tests.builders import NOW, a_pod
from tests.unit.lifecycle.records_for_tests import a_node, a_plan, a_record

MINUTE = timedelta(minutes=1)
SMALL = "node n has 1 of cpu where 2 was expected"


def test_a_requested_claim_is_launched() -> None:
    """Otherwise, pods wait forever."""
    assert next_claim_step(a_record(ClaimPhase.REQUESTED), ClaimFacts(), NOW) == steps.Launch()


def test_an_instance_with_the_claims_tag_is_adopted_and_not_launched_again() -> None:
    """Otherwise, a crash after CreateFleet costs a second instance."""
    record = a_record(ClaimPhase.REQUESTED, attempts=1)
    assert needs_instance(record, None, NOW)
    assert next_claim_step(record, ClaimFacts(tagged_instance="i-7"), NOW) == steps.Adopt("i-7")


def test_before_a_throttled_launch_is_given_up_its_instance_is_looked_for() -> None:
    """An attempt of the SDK before the throttled one may have launched it; until then, the same token returns it."""
    failed = {"attempts": 0, "reason": ClaimReason.LAUNCH_FAILED}
    record = a_record(ClaimPhase.REQUESTED, age=5 * MINUTE, **failed)
    assert needs_instance(record, None, NOW)
    assert next_claim_step(record, ClaimFacts(tagged_instance="i-7"), NOW) == steps.Adopt("i-7")
    assert not needs_instance(a_record(ClaimPhase.REQUESTED, age=4 * MINUTE, **failed), None, NOW)
    assert not needs_instance(a_record(ClaimPhase.REQUESTED, age=5 * MINUTE, attempts=0), None, NOW)


def test_a_launch_that_never_happened_is_given_up() -> None:
    """No offering is at fault: if EC2 had refused one, the claim would have been deleted at once."""
    record = a_record(ClaimPhase.REQUESTED, age=5 * MINUTE)
    assert next_claim_step(record, ClaimFacts(), NOW) == steps.Forget("LaunchTimeout")


@pytest.mark.parametrize(("age", "delay"), [(0, 15), (10, 5), (11, 1), (15, 1), (74, 1), (80, 6), (600, 30)])
def test_a_booting_instance_is_checked_rarely_then_often_then_rarely(age: int, delay: int) -> None:
    """Otherwise, nodes stand idle, or the queue is full of checks of instances that cannot have booted yet."""
    record = a_record(ClaimPhase.LAUNCHED, age=timedelta(seconds=age))
    step = next_claim_step(record, ClaimFacts(is_instance_gone=False), NOW)
    assert isinstance(step, steps.Wait)
    assert step.delay == timedelta(seconds=delay)


def test_an_instance_that_does_not_join_is_replaced_after_a_quarter_of_an_hour() -> None:
    """Otherwise, one failed boot keeps its pods waiting forever."""
    step = next_claim_step(a_record(ClaimPhase.LAUNCHED, age=15 * MINUTE), ClaimFacts(), NOW)
    assert isinstance(step, steps.BeginTermination)
    assert step.reason == "RegistrationTimeout"


def test_an_instance_that_died_booting_is_not_waited_for() -> None:
    record = a_record(ClaimPhase.LAUNCHED, age=3 * MINUTE)
    step = next_claim_step(record, ClaimFacts(is_instance_gone=True), NOW)
    assert isinstance(step, steps.BeginTermination)
    assert step.reason == "InstanceGone"


def test_a_young_instance_that_ec2_does_not_list_yet_is_waited_for() -> None:
    """EC2's lists are eventually consistent: a new instance may be missing."""
    step = next_claim_step(a_record(ClaimPhase.LAUNCHED, age=MINUTE), ClaimFacts(is_instance_gone=True), NOW)
    assert isinstance(step, steps.Wait)


def test_two_nodes_with_one_provider_id_match_no_claim() -> None:
    """Otherwise, the wrong node gets the claim's labels."""
    facts = ClaimFacts(nodes=(a_node(), a_node(name="other")))
    assert isinstance(next_claim_step(a_record(ClaimPhase.LAUNCHED, age=MINUTE), facts, NOW), steps.Wait)


def test_a_working_node_is_left_alone() -> None:
    assert next_claim_step(a_record(), ClaimFacts(nodes=(a_node(),)), NOW) == steps.NoStep()


def test_deleting_a_node_object_terminates_its_instance() -> None:
    """Otherwise, `kubectl delete node` leaves an instance that is paid for and unused."""
    for nodes in ((), (a_node(deleted_at=NOW),)):
        step = next_claim_step(a_record(), ClaimFacts(nodes=nodes, is_instance_gone=False), NOW)
        assert isinstance(step, steps.BeginTermination)
        assert step.reason == "NodeDeleted"


@pytest.mark.parametrize(
    ("written", "deletion", "resumes"),
    [
        pytest.param("SpotInterrupted", None, True, id="row older than the notice"),
        pytest.param("SpotInterrupted", Deletion(reason="Drifted", asked_at=NOW), True, id="row still says drift"),
        pytest.param("SpotInterrupted", Deletion(reason="NodeDeleted", asked_at=NOW), False, id="must go anyway"),
        pytest.param("Drifted", None, False, id="could stay"),
        pytest.param(
            "SpotInterrupted", Deletion(reason="Drifted", asked_at=NOW, terminated_at=NOW), False, id="has gone"
        ),
    ],
)
def test_a_node_that_must_go_goes_whatever_its_row_has_lost(
    written: str, deletion: Deletion | None, *, resumes: bool
) -> None:
    """A restored table knows nothing of a spot notice: its node would be opened to pods in its last minute."""
    node = a_node(taints=(DISRUPTED,), annotations={REASON_ANNOTATION: written})
    step = next_claim_step(a_record(deletion=deletion), ClaimFacts(nodes=(node,)), NOW)
    assert isinstance(step, steps.BeginTermination) == resumes
    assert not isinstance(step, steps.BeginTermination) or step.reason == written


def test_only_an_instance_can_have_joined_unseen() -> None:
    """Every node would be listed for a claim that was never launched."""
    leaving = Deletion(reason="Expired", asked_at=NOW)
    assert may_have_joined(a_record(ClaimPhase.LAUNCHED, deletion=leaving), NOW)
    assert may_have_joined(a_record(ClaimPhase.LAUNCHED, age=INSTANCE_CHECK_AFTER), NOW)
    assert not may_have_joined(a_record(ClaimPhase.LAUNCHED), NOW)
    assert not may_have_joined(a_record(ClaimPhase.REQUESTED, deletion=leaving), NOW)
    assert not may_have_joined(a_record(ClaimPhase.REGISTERED, deletion=leaving), NOW)


@pytest.mark.parametrize(
    ("since_noted", "usable_for", "binds"),
    [
        (timedelta(0), timedelta(0), False),
        (SEEN_WITHIN, timedelta(0), False),
        (SETTLES_WITHIN, timedelta(0), True),
        (timedelta(0), SEEN_WITHIN, True),
    ],
)
def test_a_usable_node_takes_pods_once_its_kubelet_has_seen_it(
    since_noted: timedelta, usable_for: timedelta, binds: bool
) -> None:
    """A moment in the row may be from another clock; what the asking sandbox has known for a second is not."""
    record = a_record(ClaimPhase.REGISTERED, moments=Moments(usable_at=NOW - since_noted))
    facts = ClaimFacts(nodes=(msgspec.structs.replace(a_node(), taints=(HELD,)),), usable_for=usable_for)
    step = next_claim_step(record, facts, NOW, binds=True)
    assert isinstance(step, steps.BindPods if binds else steps.Wait)


def test_a_node_whose_pods_are_bound_opens_by_the_moment_in_its_row() -> None:
    """kube-scheduler must have seen the bindings, however long the node has been usable."""
    moments = Moments(usable_at=NOW - MINUTE, bound_at=NOW - SEEN_WITHIN)
    record = a_record(ClaimPhase.REGISTERED, moments=moments, is_bound=True)
    facts = ClaimFacts(nodes=(msgspec.structs.replace(a_node(), taints=(HELD,)),), usable_for=MINUTE)
    assert isinstance(next_claim_step(record, facts, NOW, binds=True), steps.Wait)


TICK = timedelta(microseconds=1)


@pytest.mark.parametrize(("early", "is_due"), [(TICK, False), (timedelta(0), True), (-TICK, True)])
def test_limits_hold_at_their_very_moment(early: timedelta, is_due: bool) -> None:
    """A row says both times exactly, so that both sides of a limit occur; what is due at it must not wait another round."""
    checked = a_record(ClaimPhase.LAUNCHED, age=INSTANCE_CHECK_AFTER - early)
    assert needs_instance(checked, None, NOW) == is_due
    gone = next_claim_step(checked, ClaimFacts(is_instance_gone=True), NOW)
    assert isinstance(gone, steps.BeginTermination) == is_due
    late = a_record(ClaimPhase.REGISTERED, age=INITIALIZATION_TIMEOUT - early)
    assert is_late_to_initialize(late, NOW) == is_due
    never = next_claim_step(
        a_record(ClaimPhase.LAUNCHED, age=REGISTRATION_TIMEOUT - early), ClaimFacts(is_instance_gone=False), NOW
    )
    assert isinstance(never, steps.BeginTermination) == is_due
    unasked = next_claim_step(a_record(ClaimPhase.REQUESTED, age=LAUNCH_TIMEOUT - early), ClaimFacts(), NOW)
    assert unasked == (steps.Forget(ClaimReason.LAUNCH_TIMEOUT) if is_due else steps.Launch())
    booting = a_record(ClaimPhase.LAUNCHED, age=BOOT_AT_LEAST + BOOT_RECHECKED_FOR - early)
    checks = next_claim_step(booting, ClaimFacts(is_instance_gone=False), NOW)
    assert isinstance(checks, steps.Wait)
    assert (checks.delay > BOOT_RECHECKED) == is_due


@pytest.mark.parametrize(
    ("nodes", "phase", "told"),
    [
        ((), ClaimPhase.LAUNCHED, "the node has not joined yet"),
        ((a_node(), a_node(name="o")), ClaimPhase.LAUNCHED, "several nodes have this provider id"),
        ((a_node(), a_node(name="o")), ClaimPhase.REGISTERED, "several nodes have this provider id"),
        ((), ClaimPhase.REGISTERED, "node n was deleted"),
    ],
)
def test_one_node_is_not_several(nodes: tuple[Node, ...], phase: ClaimPhase, told: str) -> None:
    step = next_claim_step(a_record(phase, age=MINUTE), ClaimFacts(nodes=nodes, is_instance_gone=False), NOW)
    assert isinstance(step, steps.Wait | steps.BeginTermination)
    assert (step.reason if isinstance(step, steps.Wait) else step.message) == told


@pytest.mark.parametrize(
    ("said", "reports"),
    [
        ({}, True),
        ({"reason": ClaimReason.FAILED_CONSISTENCY_CHECK, "message": "another resource"}, True),
        ({"reason": ClaimReason.INITIALIZATION_TIMEOUT, "message": SMALL}, True),
        ({"reason": ClaimReason.FAILED_CONSISTENCY_CHECK, "message": SMALL}, False),
    ],
)
def test_a_node_that_is_smaller_than_planned_is_reported_once(said: dict[str, str], *, reports: bool) -> None:
    """Each check would write the same events again; a shortage of something else is news."""
    record = a_record(**said)
    assert record.machine is not None
    machine = msgspec.structs.replace(record.machine, capacity={"cpu": 2000})
    record = msgspec.structs.replace(record, machine=machine)
    step = next_claim_step(record, ClaimFacts(nodes=(a_node(capacity={"cpu": 1000}),)), NOW)
    report = steps.ReportNode("n", ClaimReason.FAILED_CONSISTENCY_CHECK, SMALL)
    assert step == (report if reports else steps.NoStep())
    whole = ClaimFacts(nodes=(a_node(capacity={"cpu": 2000}),))
    assert next_claim_step(record, whole, NOW) == steps.NoStep()


@pytest.mark.parametrize(
    ("pod", "stays"),
    [
        (a_pod("runs", phase="Running"), True),
        (a_pod("starts", phase="Pending"), True),
        (a_pod("done", phase="Succeeded"), False),
        (a_pod("failed", phase="Failed"), False),
        (a_pod("leaves", phase="Running", deleted_at=NOW), False),
        (a_pod("daemon", phase="Running", owners=(Owner("DaemonSet", "d"),)), False),
        (a_pod("static", phase="Running", owners=(Owner("Node", "n"),)), False),
    ],
    ids=lambda value: value.name if isinstance(value, Pod) else "",
)
def test_a_node_that_never_became_ready_stays_only_for_pods_that_work(pod: Pod, *, stays: bool) -> None:
    """One that only a finished pod or an agent is left on is replaced."""
    late = a_record(
        ClaimPhase.REGISTERED, age=INITIALIZATION_TIMEOUT, reason=ClaimReason.INITIALIZATION_TIMEOUT, message="said"
    )
    facts = ClaimFacts(nodes=(a_node(is_ready=False),), pods=(pod,))
    step = next_claim_step(late, facts, NOW)
    assert isinstance(step, steps.BeginTermination) is not stays


LEAVING = Deletion(reason="Expired", asked_at=NOW)
ENDED = Deletion(reason="Expired", asked_at=NOW, terminated_at=NOW)
OLD = INSTANCE_CHECK_AFTER


@pytest.mark.parametrize(
    ("record", "node", "needed"),
    [
        (a_record(ClaimPhase.REQUESTED), None, False),
        (a_record(ClaimPhase.REQUESTED, attempts=1), None, True),
        (a_record(ClaimPhase.REQUESTED, deletion=LEAVING), None, True),
        (a_record(deletion=LEAVING), a_node(), False),
        (a_record(deletion=LEAVING), a_node(is_ready=False), True),
        (a_record(deletion=LEAVING), None, True),
        (a_record(deletion=ENDED), a_node(), True),
        (a_record(ClaimPhase.LAUNCHED, age=OLD), a_node(), False),
        (a_record(ClaimPhase.LAUNCHED, age=OLD), None, True),
        (a_record(ClaimPhase.LAUNCHED), None, False),
        (a_record(ClaimPhase.REGISTERED), None, True),
        (a_record(ClaimPhase.REGISTERED), a_node(is_ready=False), False),
        (a_record(), None, True),
        (a_record(), a_node(), False),
    ],
)
def test_the_instance_is_looked_up_only_where_the_next_step_depends_on_it(
    record: ClaimRecord, node: Node | None, *, needed: bool
) -> None:
    """Each call is slow, and counts towards EC2's limit: one a check of each node would be throttled."""
    assert needs_instance(record, node, NOW) is needed


@pytest.mark.parametrize(
    ("phase", "changes", "is_late"),
    [
        (ClaimPhase.REGISTERED, {}, True),
        (ClaimPhase.REGISTERED, {"deletion": LEAVING}, False),
        (ClaimPhase.LAUNCHED, {}, False),
        (ClaimPhase.INITIALIZED, {}, False),
    ],
)
def test_only_a_node_that_has_joined_and_stays_is_late(
    phase: ClaimPhase, changes: dict[str, Deletion], *, is_late: bool
) -> None:
    record = a_record(phase, age=2 * INITIALIZATION_TIMEOUT, **changes)
    assert is_late_to_initialize(record, NOW) is is_late


def test_a_node_is_looked_for_only_for_a_claim_that_has_none() -> None:
    """Of one that has joined and is gone, the name is known."""
    assert not may_have_joined(a_record(age=OLD, node_name=""), NOW)
    assert may_have_joined(a_record(age=OLD, node_name="", deletion=LEAVING), NOW)


@pytest.mark.parametrize("binds", [False, True])
def test_a_node_that_was_made_again_is_registered_again(*, binds: bool) -> None:
    """Its kubelet has lost our labels; whether it is held depends on who binds pods."""
    record = a_record(age=MINUTE)
    again = a_node(booting=True)
    assert next_claim_step(record, ClaimFacts(nodes=(again,)), NOW, binds=binds) == registration_of(
        record, again, binds=binds
    )


@pytest.mark.parametrize("binds", [False, True])
def test_a_node_that_joins_is_registered(*, binds: bool) -> None:
    record, joined = a_record(ClaimPhase.LAUNCHED, age=MINUTE), a_node(booting=True)
    step = next_claim_step(record, ClaimFacts(nodes=(joined,)), NOW, binds=binds)
    assert step == registration_of(record, joined, binds=binds)


@pytest.mark.parametrize(
    ("is_gone", "reason", "message"),
    [(True, "InstanceGone", "instance i-1 is gone"), (False, "NodeDeleted", "node n was deleted")],
)
def test_a_node_that_is_gone_goes_with_its_instance_or_was_deleted(is_gone: bool, reason: str, message: str) -> None:
    """Where EC2 took the instance, its offering may be short; a person who deletes a Node means it."""
    step = next_claim_step(a_record(), ClaimFacts(is_instance_gone=is_gone), NOW)
    assert step == steps.BeginTermination(reason, message)


def test_a_late_node_is_reported_with_its_pods_before_it_goes() -> None:
    late = a_record(ClaimPhase.REGISTERED, age=INITIALIZATION_TIMEOUT)
    message = "node n is not ready for pods in 15 minutes: the node is not ready"
    facts = ClaimFacts(nodes=(a_node(is_ready=False),))
    assert next_claim_step(late, facts, NOW) == steps.ReportNode(
        "n", ClaimReason.INITIALIZATION_TIMEOUT, message, ("default/p",)
    )
    told = msgspec.structs.replace(late, reason=ClaimReason.INITIALIZATION_TIMEOUT, message=message)
    assert next_claim_step(told, facts, NOW) == steps.BeginTermination("InitializationTimeout", message)
    runs, done = a_pod("runs", phase="Running"), a_pod("done", phase="Succeeded")
    for pods in ((runs, done), (done, runs)):
        kept = next_claim_step(told, ClaimFacts(nodes=(a_node(is_ready=False),), pods=pods), NOW)
        assert isinstance(kept, steps.Wait)


def test_a_held_node_without_planned_pods_opens_as_one_whose_pods_are_bound() -> None:
    """No turn comes for it; it would be held for ever."""
    held = msgspec.structs.replace(a_node(), taints=(HELD,))
    bare = a_record(ClaimPhase.REGISTERED, plan=a_plan(pods=()))
    assert next_claim_step(bare, ClaimFacts(nodes=(held,)), NOW, binds=True) == steps.MarkInitialized("n")
    planned = a_record(ClaimPhase.REGISTERED)
    assert next_claim_step(planned, ClaimFacts(nodes=(held,)), NOW, binds=True) == steps.NoteUsable("n")
