"""The next step of a claim, from its request to a working node."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.catalogue.free_addresses import written_reading
from core.catalogue.node_class import AddressReading
from core.lifecycle import steps
from core.lifecycle.binding import SEEN_WITHIN, SETTLES_WITHIN
from core.lifecycle.claims import (
    BOOT_AT_LEAST,
    BOOT_RECHECKED,
    BOOT_RECHECKED_FOR,
    COUNTED_FOR,
    INITIALIZATION_TIMEOUT,
    LAUNCH_TIMEOUT,
    REGISTRATION_TIMEOUT,
    addresses_left,
    held_places,
    is_late_to_initialize,
    may_have_joined,
    needs_instance,
    next_claim_step,
    node_claim,
    requested_claim,
    shortfall,
)
from core.lifecycle.draining import REASON_ANNOTATION
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion, Moments
from core.lifecycle.registration import registration_of
from core.lifecycle.steps import INSTANCE_CHECK_AFTER, ClaimFacts
from core.model.catalogue import Offering
from core.model.plan import CONSOLIDATABLE, INITIALIZED, INSTANCE_TERMINATING, LAUNCHED, REGISTERED, Hold, NodeClaim
from core.model.pod import Owner, Pod
from core.model.snapshot import Node
from core.model.values.requirements import Requirement
from core.model.values.taints import DISRUPTED, HELD, Taint
from core.reasons.code import ClaimReason
from tests.builders import NOW, a_class_manifest, a_pod
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


# Whether a node has the resources of its type.


@pytest.mark.parametrize(
    ("expected", "has", "told"),
    [
        (2000, 1800, ""),
        (2000, 1799, "node n has 1799m of cpu where 2 was expected"),
        (0, 0, ""),
    ],
)
def test_nine_tenths_of_a_requested_resource_are_enough(expected: int, has: int, told: str) -> None:
    record = a_record()
    assert record.machine is not None
    machine = msgspec.structs.replace(record.machine, capacity={"cpu": expected, "memory": 2**30})
    record = msgspec.structs.replace(record, machine=machine, plan=a_plan(resources={"cpu": 1000}))
    assert shortfall(record, a_node(capacity={"cpu": has})) == told


def test_what_was_not_requested_may_be_short() -> None:
    record = a_record()
    assert record.machine is not None
    machine = msgspec.structs.replace(record.machine, capacity={"cpu": 4000, "memory": 2**30, "pods": 9})
    record = msgspec.structs.replace(record, machine=machine, plan=a_plan(resources={"cpu": 0, "memory": 1}))
    assert shortfall(record, a_node(capacity={"memory": 2**20})) == "node n has 1Mi of memory where 1Gi was expected"


def test_a_claim_whose_instance_is_not_known_misses_nothing() -> None:
    record = a_record(machine=None)
    assert shortfall(record, a_node(capacity={"cpu": 1})) == ""


# Addresses that launches in flight take.


READ_AT = NOW - timedelta(minutes=4)
SUBNETS = [
    {"id": "subnet-1", "zone": "zone-a"},
    {"id": "subnet-2", "zone": "zone-a"},
    {"id": "subnet-3", "zone": "zone-b"},
]


def a_class(name: str = "default", per_node: int = 1, read_at: Any = READ_AT, **free: int) -> dict[str, Any]:
    known = {key.replace("_", "-"): amount for key, amount in free.items()}
    text = written_reading(AddressReading(read_at=read_at, per_node=per_node, free=known), "")
    manifest = a_class_manifest(name, metadata={"annotations": {labels.SUBNET_ADDRESSES: text}})
    return {**manifest, "status": {"subnets": SUBNETS}}


def launched(subnet: str, ago: timedelta) -> ClaimRecord:
    record = a_record(ClaimPhase.LAUNCHED, moments=Moments(launched_at=NOW - ago))
    assert record.machine is not None
    return msgspec.structs.replace(record, machine=msgspec.structs.replace(record.machine, subnet_id=subnet))


def requested(*zones: str, **changes: Any) -> ClaimRecord:
    offerings = tuple(Offering("m5.large", zone, labels.SPOT, 1) for zone in zones)
    return a_record(ClaimPhase.REQUESTED, offerings=offerings, **changes)


@pytest.mark.parametrize(
    ("record", "left"),
    [
        (launched("subnet-1", timedelta(minutes=3)), {"subnet-1": 4, "subnet-2": 9}),
        (launched("subnet-1", timedelta(minutes=5)), {"subnet-1": 5, "subnet-2": 9}),
        (launched("subnet-9", timedelta(minutes=3)), {"subnet-1": 5, "subnet-2": 9}),
        (requested("zone-a"), {"subnet-1": 5, "subnet-2": 8}),
        (requested("zone-a", "zone-b"), {"subnet-1": 5, "subnet-2": 8}),
        (requested("zone-b"), {"subnet-1": 5, "subnet-2": 9}),
        (requested("zone-a", subnets={"zone-a": "subnet-1"}), {"subnet-1": 4, "subnet-2": 9}),
        (requested("zone-a", subnets={"zone-a": "subnet-gone"}), {"subnet-1": 5, "subnet-2": 8}),
        (requested("zone-b", subnets={"zone-a": "subnet-1"}), {"subnet-1": 5, "subnet-2": 9}),
        (requested("zone-a", deletion=Deletion(reason="Empty", asked_at=NOW)), {"subnet-1": 5, "subnet-2": 9}),
    ],
)
def test_a_claim_counts_until_a_reading_has_seen_its_instance(record: ClaimRecord, left: dict[str, int]) -> None:
    """The subnet of zone-b has plenty; a claim without an instance counts in its subnet, by default where most is left."""
    assert addresses_left([a_class(subnet_1=5, subnet_2=9)], [record], NOW) == left


def test_a_reading_that_did_not_change_was_not_stored_again() -> None:
    """So the time of the stored one says little about instances that have run for a while."""
    old = a_class(read_at=NOW - timedelta(hours=2), subnet_1=5)
    assert addresses_left([old], [launched("subnet-1", COUNTED_FOR - timedelta(seconds=1))], NOW) == {"subnet-1": 4}
    assert addresses_left([old], [launched("subnet-1", COUNTED_FOR)], NOW) == {"subnet-1": 5}


def test_an_instance_that_was_only_found_counts_from_then_on() -> None:
    """Its launch was answered, but the answer was lost before it was stored."""
    launched_claim = msgspec.structs.replace(launched("subnet-1", timedelta(0)), moments=Moments())
    assert addresses_left([a_class(subnet_1=5)], [launched_claim], NOW) == {"subnet-1": 4}


def test_classes_share_their_subnets_and_the_latest_reading_counts() -> None:
    """Each claim takes what a node of its own class takes."""
    classes = [a_class("other", read_at=READ_AT - timedelta(minutes=1), subnet_1=70), a_class(per_node=17, subnet_1=60)]
    assert addresses_left(classes, [launched("subnet-1", timedelta(minutes=1))], NOW) == {"subnet-1": 43}
    assert addresses_left(classes[::-1], [], NOW) == {"subnet-1": 60}


def test_a_class_says_nothing_about_subnets_that_it_does_not_select() -> None:
    """Whoever may annotate one class cannot close another's subnets."""
    forged = a_class("other", read_at=NOW, subnet_9=0)
    selects = {**a_class_manifest(), "status": {"subnets": [{"id": "subnet-9", "zone": "zone-a"}]}}
    assert addresses_left([forged, selects], [], NOW) == {}


def test_an_instance_of_a_class_without_a_reading_takes_an_address() -> None:
    """Its class may be gone, or was resolved before the subnet had few."""
    reading = a_class("other", subnet_1=5)
    assert addresses_left([reading], [launched("subnet-1", timedelta(minutes=1))], NOW) == {"subnet-1": 4}
    assert addresses_left([reading], [requested("zone-a")], NOW) == {"subnet-1": 5}


def test_nothing_is_counted_where_all_subnets_have_plenty() -> None:
    assert addresses_left([a_class_manifest()], [requested("zone-a")], NOW) == {}


def test_a_class_that_cannot_be_read_is_left_out() -> None:
    """It launches nothing, and its validation says why."""
    wrong = {**a_class(subnet_1=5), "spec": {"subnetSelectorTerms": 1}}
    assert addresses_left([wrong], [], NOW) == {}


def test_of_several_subnets_with_few_the_one_with_most_is_counted_ties_by_id() -> None:
    """Claims one after the other: each counts where the launch would take its address."""
    claims = [msgspec.structs.replace(requested("zone-a"), name=name) for name in ("a", "b", "c")]
    node_class = a_class(subnet_1=4, subnet_2=5)
    assert addresses_left([node_class], claims[:1], NOW) == {"subnet-1": 4, "subnet-2": 4}
    assert addresses_left([node_class], claims[:2], NOW) == {"subnet-1": 4, "subnet-2": 3}
    assert addresses_left([node_class], claims, NOW) == {"subnet-1": 3, "subnet-2": 3}


def test_a_claim_without_an_offering_counts_in_the_zones_of_its_plan() -> None:
    """It is about to ask for them."""
    planned = a_record(ClaimPhase.REQUESTED, plan=a_plan(zones=("zone-b",)))
    assert addresses_left([a_class(subnet_3=4)], [planned], NOW) == {"subnet-3": 3}
    assert addresses_left([a_class(subnet_1=4, subnet_2=4)], [planned], NOW) == {"subnet-1": 4, "subnet-2": 4}


# Who holds places in reservations.


def test_claims_hold_places_from_the_moment_that_they_are_stored() -> None:
    offering = Offering("m5.large", "us-east-1a", labels.RESERVED, 1, True, "cr-1", 2, "default")
    other = msgspec.structs.replace(offering, reservation_id="cr-2")
    waiting = a_record(ClaimPhase.REQUESTED, offerings=(offering, other))
    running = a_record()
    assert running.machine is not None
    running = msgspec.structs.replace(running, machine=msgspec.structs.replace(running.machine, offering=offering))
    assert held_places([waiting, running, a_record()]) == {"cr-1": 2, "cr-2": 1}


# A claim's record as decisions read it.


HOUR = timedelta(hours=1)


RUNNING = a_pod("p", node_name="n", phase="Running")


def test_a_claim_shows_its_conditions() -> None:
    reached = {
        phase: {
            name for name in (LAUNCHED, REGISTERED, INITIALIZED) if node_claim(a_record(phase), None, NOW).is_true(name)
        }
        for phase in ClaimPhase
    }
    assert reached == {
        ClaimPhase.REQUESTED: set(),
        ClaimPhase.LAUNCHED: {LAUNCHED},
        ClaimPhase.REGISTERED: {LAUNCHED, REGISTERED},
        ClaimPhase.INITIALIZED: {LAUNCHED, REGISTERED, INITIALIZED},
    }


def test_a_node_is_consolidatable_once_no_pod_has_come_or_gone_for_long_enough() -> None:
    """Otherwise, nodes go while a rollout still moves pods, or never."""
    record = a_record(initialized_at=NOW - 2 * HOUR, last_pod_event_at=NOW - HOUR / 2)
    assert not node_claim(record, HOUR, NOW).is_true(CONSOLIDATABLE)
    assert node_claim(record, HOUR / 2, NOW).is_true(CONSOLIDATABLE)
    assert not node_claim(record, None, NOW).is_true(CONSOLIDATABLE), "consolidateAfter: Never"


def test_without_a_pod_event_the_time_counts_from_initialization() -> None:
    record = a_record(initialized_at=NOW - HOUR)
    assert node_claim(record, HOUR, NOW).is_true(CONSOLIDATABLE)
    assert not node_claim(record, 2 * HOUR, NOW).is_true(CONSOLIDATABLE)


def test_a_terminating_claim_is_marked() -> None:
    """Otherwise, budgets count it as staying, and the planner places pods on it."""
    record = a_record(deletion=Deletion(reason="Empty", asked_at=NOW, terminated_at=NOW))
    seen = node_claim(record, None, NOW)
    assert seen.deleted_at == NOW
    assert seen.is_true(INSTANCE_TERMINATING)


@pytest.mark.parametrize(
    ("grace", "reason", "leaves_for", "stay"),
    [
        (HOUR, "Drifted", "", True),
        (HOUR, "", "Drifted", True),
        (HOUR, "SpotInterrupted", "Drifted", False),
        (HOUR, "", "Underutilized", False),
        (HOUR, "", "", False),
        (None, "Expired", "", False),
    ],
)
def test_members_of_groups_stay_on_a_claim_that_drifts_or_expires_under_a_bound(
    grace: timedelta | None, reason: str, leaves_for: str, stay: bool
) -> None:
    """Whoever asks during the drain is told what the events said when it began."""
    deletion = Deletion(reason=reason, asked_at=NOW) if reason else None
    record = a_record(plan=a_plan(termination_grace_period=grace), deletion=deletion)
    assert node_claim(record, None, NOW, leaves_for).lets_groups_end == stay


def test_every_field_comes_from_the_record() -> None:
    """A field that is lost here is lost for every decision: a node that was given back would be drained again."""
    plan = a_plan(
        annotations={"a": "b"},
        taints=(Taint("a", "NoSchedule"),),
        startup_taints=(Taint("b", "NoSchedule"),),
        requirements=(Requirement.one_of("a", "b"),),
        expire_after=HOUR,
        termination_grace_period=HOUR,
    )
    record = a_record(
        plan=plan,
        deletion=Deletion(reason="Expired", asked_at=NOW, reclaimed_at=NOW + HOUR),
        hold=Hold(NOW + HOUR, "DrainBlocked", ""),
        last_pod_event_at=NOW,
    )
    record = msgspec.structs.replace(record, moments=msgspec.structs.replace(record.moments, unneeded_at=NOW))
    assert record.machine is not None
    of_ec2 = {"image_id": "ami-1", "subnet_id": "subnet-1", "security_groups": ("sg-1",)}
    sizes = {"capacity": {"cpu": 2000}, "allocatable": {"cpu": 1900}}
    record = msgspec.structs.replace(record, machine=msgspec.structs.replace(record.machine, **of_ec2, **sizes))
    seen, empty = node_claim(record, HOUR, NOW), NodeClaim(name="")
    assert [name for name in NodeClaim.__struct_fields__ if getattr(seen, name) == getattr(empty, name)] == []


def test_a_claim_before_its_launch_is_a_node_without_room_for_others() -> None:
    """Its labels are what all its offerings agree on; what it holds of limits is its size, without the node itself."""
    offerings = tuple(Offering("m5.large", zone, labels.SPOT, 1) for zone in ("a", "b"))
    record = a_record(
        ClaimPhase.REQUESTED,
        offerings=offerings,
        reserved={"cpu": 2000, "memory": 5, "nodes": 1},
        plan=a_plan(resources={"cpu": 1000}),
    )
    seen = requested_claim(record, NOW)
    assert (seen.capacity, seen.allocatable) == ({"cpu": 2000, "memory": 5}, {"cpu": 1000})
    assert (seen.provider_id, seen.node_name) == ("requested:///c", "c")
    agreed = {labels.INSTANCE_TYPE: "m5.large", labels.CAPACITY_TYPE: labels.SPOT}
    assert seen.labels == {**record.plan.labels, **agreed}


def test_the_end_is_announced_only_where_ec2_takes_the_instance() -> None:
    """An expired node waits for pods that may not be disrupted: nothing is launched for them."""
    ends = {
        reason: node_claim(
            a_record(deletion=Deletion(reason=reason, asked_at=NOW, ends_at=NOW + HOUR)), None, NOW
        ).ends_at
        for reason in ("SpotInterrupted", "CapacityBlockEnds", "RebalanceRecommended", "Expired")
    }
    assert ends == {
        "SpotInterrupted": NOW + HOUR,
        "CapacityBlockEnds": NOW + HOUR,
        "RebalanceRecommended": None,
        "Expired": None,
    }


def test_a_late_node_says_since_when_it_is_late() -> None:
    """From the end of its time on, not from its beginning."""
    late = a_record(ClaimPhase.REGISTERED, age=INITIALIZATION_TIMEOUT + HOUR)
    condition = node_claim(late, None, NOW).conditions[INITIALIZED]
    assert (condition.status, condition.reason, condition.changed_at) == ("False", "InitializationTimeout", NOW - HOUR)
    young = a_record(ClaimPhase.REGISTERED, age=INITIALIZATION_TIMEOUT - HOUR / 60)
    assert INITIALIZED not in node_claim(young, None, NOW).conditions
