"""Chooses the next step of one claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from core import labels
from core.catalogue.free_addresses import reading_of
from core.catalogue.node_class import AddressReading, EC2NodeClass, has_address_reading, read_node_class
from core.errors import InvalidInputError
from core.lifecycle.binding import SEEN_WITHIN, SETTLES_WITHIN, is_held
from core.lifecycle.deletion import is_voluntary, reclaimed_at
from core.lifecycle.draining import must_leave_for, next_termination_step
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.lifecycle.registration import STARTED, registration_of, waits_for, was_recreated
from core.lifecycle.steps import (
    ASKED_FOR,
    INSTANCE_CHECK_AFTER,
    Adopt,
    BeginTermination,
    BindPods,
    ClaimFacts,
    ClaimStep,
    Forget,
    Launch,
    MarkInitialized,
    NoStep,
    NoteUsable,
    ReportNode,
    Wait,
    may_be_asked_for,
    may_be_unlisted,
    recheck_after,
)
from core.model.plan import (
    CONSOLIDATABLE,
    INITIALIZED,
    INSTANCE_TERMINATING,
    LAUNCHED,
    REGISTERED,
    Condition,
    NodeClaim,
)
from core.model.pod import Pod
from core.model.snapshot import Node
from core.model.values import quantity
from core.reasons.code import GROUPS_END_FIRST, ClaimReason, TerminationReason

# Checks that a node has the capacity that was planned for it (Karpenter, consistency checks).


AT_LEAST_PERCENT: Final = 90
"""Share of the expected capacity; memory is estimated before the first boot, so slightly less is no finding (Karpenter)."""


def shortfall(record: ClaimRecord, node: Node) -> str:
    """Return the requested resources that the node has too little of, empty if it has enough.

    Only the requests of the claim's pods are compared (Karpenter). Pods that were planned for the missing capacity find no
    room.
    """
    expected = record.machine.capacity if record.machine is not None else {}
    missing = [
        name
        for name, amount in sorted(record.plan.resources.items())
        if amount > 0 and node.capacity.get(name, 0) * 100 < expected.get(name, 0) * AT_LEAST_PERCENT
    ]
    lacking = (
        f"{quantity.render_resources({name: node.capacity.get(name, 0)})[name]} of {name} where "
        f"{quantity.render_resources({name: expected[name]})[name]} was expected"
        for name in missing
    )
    return f"node {node.name} has {', '.join(lacking)}" if missing else ""


LAUNCH_TIMEOUT: Final = timedelta(minutes=5)
REGISTRATION_TIMEOUT: Final = timedelta(minutes=15)
"""Karpenter's liveness limits."""

INITIALIZATION_TIMEOUT: Final = timedelta(minutes=15)
"""Additional time after the limit for joining. Karpenter has no such limit: it keeps a node that never becomes ready."""

BOOT_AT_LEAST: Final = timedelta(seconds=15)
"""The shortest time in which an instance boots."""

CHECKED_TOGETHER: Final = timedelta(seconds=5)
"""Claims with less than this left of `BOOT_AT_LEAST` are checked as often as those that have passed it.

Claims of a plan are launched within seconds of each other. If each waited until its own moment, their common message would
become one for each.
"""

BOOT_RECHECKED: Final = timedelta(seconds=1)
BOOT_RECHECKED_FOR: Final = timedelta(minutes=1)
"""How long, from the shortest boot time on, claims are checked every second, since pods wait for the nodes.

Afterwards `recheck_after` decides.
"""


def next_claim_step(record: ClaimRecord, facts: ClaimFacts, now: datetime, *, binds: bool = False) -> ClaimStep:
    """Return the next step of a claim; the same record and facts give the same step.

    `binds`: whether our functions bind pods.
    """
    resumed = _resume(record, facts.node)
    if resumed is not None:
        return resumed
    if record.deletion is not None:
        return next_termination_step(record, facts, now)
    if record.phase is ClaimPhase.REQUESTED:
        return _launch(record, facts, now)
    if record.phase is ClaimPhase.LAUNCHED:
        return _register(record, facts, now, binds=binds)
    node = facts.node
    if node is None:
        return _without_node(record, facts, now)
    if node.deleted_at is not None:
        return BeginTermination(TerminationReason.NODE_DELETED, f"node {node.name} is being deleted")
    if was_recreated(record, node):
        return registration_of(record, node, binds=binds)
    if record.phase is ClaimPhase.REGISTERED:
        return _initialize(record, node, facts, now)
    return inconsistency(record, node) or NoStep()


def inconsistency(record: ClaimRecord, node: Node) -> ReportNode | None:
    """Return a report that a working node is smaller than planned, None if there is nothing new to report."""
    lacking = shortfall(record, node)
    if not lacking or (record.reason, record.message) == (ClaimReason.FAILED_CONSISTENCY_CHECK, lacking):
        return None
    return ReportNode(node.name, ClaimReason.FAILED_CONSISTENCY_CHECK, lacking)


def needs_instance(record: ClaimRecord, node: Node | None, now: datetime) -> bool:
    """Whether the claim's instance must be looked up in EC2 before its next step.

    The call is slow, so it is made only if needed. A throttled launch gets its instance, if an attempt of the SDK before the
    throttled one launched it, with the next request; only before the claim is given up is it looked for.
    """
    if record.machine is None:
        is_last = record.reason == ClaimReason.LAUNCH_FAILED and now - record.requested_at >= LAUNCH_TIMEOUT
        return record.deletion is not None or record.attempts > 0 or is_last
    if record.deletion is not None:
        return record.deletion.terminated_at is not None or node is None or not node.is_ready
    if record.phase is ClaimPhase.LAUNCHED:
        return node is None and now - record.phase_since >= INSTANCE_CHECK_AFTER
    return node is None


def is_late_to_initialize(record: ClaimRecord, now: datetime) -> bool:
    """Whether the node joined long ago and is still not ready.

    Its pods are planned elsewhere, and the node is removed if empty.
    """
    overdue = now - record.phase_since >= INITIALIZATION_TIMEOUT
    return record.phase is ClaimPhase.REGISTERED and record.deletion is None and overdue


def _keeps(pod: Pod) -> bool:
    """Whether this pod keeps a node that never became ready."""
    return pod.is_active and not pod.is_daemon and not pod.is_static


def may_have_joined(record: ClaimRecord, now: datetime) -> bool:
    """Whether to search for the node of a claim without a node name before its instance is terminated.

    A row restored from a copy of the table may be older than the node.
    """
    is_late = record.phase is ClaimPhase.LAUNCHED and now - record.phase_since >= INSTANCE_CHECK_AFTER
    return record.machine is not None and not record.node_name and (is_late or record.deletion is not None)


def _resume(record: ClaimRecord, node: Node | None) -> BeginTermination | None:
    """Resume a removal that the claim's row has lost: the table was restored, and the node still records the reason."""
    reason = must_leave_for(node) if node is not None else None
    if node is None or reason is None:
        return None
    if record.deletion is not None and (not is_voluntary(record.deletion) or record.deletion.terminated_at is not None):
        return None
    return BeginTermination(
        reason, f"node {node.name} is marked as leaving for {reason}, which its claim does not know"
    )


def _launch(record: ClaimRecord, facts: ClaimFacts, now: datetime) -> ClaimStep:
    if facts.tagged_instance:
        return Adopt(facts.tagged_instance)
    if now - record.requested_at < LAUNCH_TIMEOUT:
        return Launch()
    unclear_at = record.moments.unclear_at
    if unclear_at is not None and may_be_unlisted(unclear_at, now):
        return Wait(recheck_after(unclear_at, now), "an instance of its last request may not be listed yet")
    if may_be_asked_for(record, now):
        return Wait(ASKED_FOR, "another run may be asking EC2 for its instance")
    return Forget(ClaimReason.LAUNCH_TIMEOUT)


def _register(record: ClaimRecord, facts: ClaimFacts, now: datetime, *, binds: bool) -> ClaimStep:
    if facts.node is not None:
        return registration_of(record, facts.node, binds=binds)
    age = now - record.phase_since
    if facts.is_instance_gone and age >= INSTANCE_CHECK_AFTER:
        return BeginTermination(
            TerminationReason.INSTANCE_GONE, f"instance {record.instance_id} ended before it joined"
        )
    if age >= REGISTRATION_TIMEOUT:
        return BeginTermination(
            TerminationReason.REGISTRATION_TIMEOUT, f"instance {record.instance_id} did not join in 15 minutes"
        )
    if len(facts.nodes) > 1:
        return Wait(recheck_after(record.phase_since, now), "several nodes have this provider id")
    if BOOT_AT_LEAST - age >= CHECKED_TOGETHER:
        return Wait(BOOT_AT_LEAST - age, "the instance is booting")
    since = record.phase_since + BOOT_AT_LEAST
    return Wait(_boot_recheck(since, now), "the node has not joined yet")


def _without_node(record: ClaimRecord, facts: ClaimFacts, now: datetime) -> ClaimStep:
    if len(facts.nodes) > 1:
        return Wait(recheck_after(record.phase_since, now), "several nodes have this provider id")
    if facts.is_instance_gone:
        return BeginTermination(TerminationReason.INSTANCE_GONE, f"instance {record.instance_id} is gone")
    return BeginTermination(TerminationReason.NODE_DELETED, f"node {record.node_name} was deleted")


def _initialize(record: ClaimRecord, node: Node, facts: ClaimFacts, now: datetime) -> ClaimStep:
    missing = waits_for(record, node)
    if missing == STARTED:
        return _open(record, node, facts.usable_for, now)
    if is_late_to_initialize(record, now):
        message = f"node {node.name} is not ready for pods in 15 minutes: {missing}"
        if record.reason != ClaimReason.INITIALIZATION_TIMEOUT:
            return ReportNode(node.name, ClaimReason.INITIALIZATION_TIMEOUT, message, record.plan.pods)
        if not any(_keeps(pod) for pod in facts.pods):
            return BeginTermination(TerminationReason.INITIALIZATION_TIMEOUT, message)
    return Wait(_boot_recheck(record.phase_since, now), missing)


def _open(record: ClaimRecord, node: Node, usable_for: timedelta, now: datetime) -> ClaimStep:
    """Open a started node to pods: if the scheduler is kept off it, first to those that it was launched for."""
    if not is_held(node):
        return MarkInitialized(node.name)
    is_over = record.is_bound or not record.plan.pods
    if not is_over and record.moments.usable_at is None:
        return NoteUsable(node.name)
    since = record.moments.bound_at if is_over else record.moments.usable_at
    is_settled = since is None or now - since >= SETTLES_WITHIN or (usable_for >= SEEN_WITHIN and not is_over)
    if not is_settled:
        return Wait(SEEN_WITHIN, "what was written to the node may not have been seen by all who must know it")
    return MarkInitialized(node.name) if is_over else BindPods(node.name)


def _boot_recheck(since: datetime, now: datetime) -> timedelta:
    """Return when to check again for a node that may join at any moment."""
    return BOOT_RECHECKED if now - since < BOOT_RECHECKED_FOR else recheck_after(since, now)


# Counts the addresses of subnets that launches in flight take beside what EC2 reported last.


COUNTED_FOR: Final = timedelta(minutes=10)
"""How long a launched claim counts at most: twice the period of readings. A reading with the same numbers is not stored."""


def addresses_left(
    node_classes: Iterable[Mapping[str, Any]], records: Iterable[ClaimRecord], now: datetime
) -> dict[str, int]:
    """Return subnet id → free addresses, of subnets with few: as last read, less the claims launched since.

    `node_classes` are manifests with their status. A claim without an instance counts in every zone in which it may get one:
    in its subnet there, or in the one with the most left if it has none.
    """
    readable = map(_readable, filter(has_address_reading, node_classes))
    classes = {node_class.name: node_class for node_class in readable if node_class is not None}
    readings = {name: reading for name in sorted(classes) if (reading := reading_of(classes[name])) is not None}
    latest: dict[str, AddressReading] = {}
    for name, reading in sorted(readings.items(), key=lambda item: item[1].read_at):
        subnets = {subnet.id for subnet in classes[name].status.subnets}
        latest |= {subnet: reading for subnet in reading.free if subnet in subnets}
    addresses = {subnet: latest[subnet].free[subnet] for subnet in sorted(latest)}
    for record in sorted(records, key=lambda record: record.name) if addresses else ():
        name = record.plan.node_class.name
        per_node = readings[name].per_node if name in readings else 1
        for subnet in _subnets_of(record, classes.get(name), latest, addresses, now):
            addresses[subnet] -= per_node
    return addresses


def _readable(manifest: Mapping[str, Any]) -> EC2NodeClass | None:
    try:
        return read_node_class(manifest)
    except InvalidInputError:
        return None  # the class launches nothing, and its validation explains why


def _subnets_of(
    record: ClaimRecord,
    node_class: EC2NodeClass | None,
    latest: Mapping[str, AddressReading],
    addresses: Mapping[str, int],
    now: datetime,
) -> list[str]:
    """Return the subnets in which a claim takes addresses that no reading counts."""
    machine = record.machine
    if machine is not None:
        reading = latest.get(machine.subnet_id)
        launched_at = record.moments.launched_at or record.phase_since  # an adopted launch has no moment of its own
        is_uncounted = reading is not None and launched_at > max(reading.read_at, now - COUNTED_FOR)
        return [machine.subnet_id] if is_uncounted else []
    if record.deletion is not None or node_class is None:
        return []
    zones = {offering.zone for offering in record.offerings} or set(record.plan.zones)
    return [subnet for zone in sorted(zones) for subnet in _subnet_in(zone, record, node_class, addresses)]


def _subnet_in(zone: str, record: ClaimRecord, node_class: EC2NodeClass, addresses: Mapping[str, int]) -> list[str]:
    """Return the claim's subnet in the zone, by default the one with the most addresses left; none if one has plenty."""
    subnets = [subnet.id for subnet in node_class.status.subnets if subnet.zone == zone]
    if not subnets or any(subnet not in addresses for subnet in subnets):
        return []
    chosen = record.subnets.get(zone)
    return [chosen] if chosen in subnets else [max(subnets, key=lambda subnet: (addresses[subnet], subnet))]


# Counts the places in capacity reservations that claims hold or are being launched into.


def held_places(records: Iterable[ClaimRecord]) -> dict[str, int]:
    """Return reservation id → how many claims hold a place; a claim that may still become any of several counts in each.

    A leaving claim holds its place until its record is dropped: its instance may still run.
    """
    taken: Counter[str] = Counter()
    for record in records:
        offerings = (record.machine.offering,) if record.machine is not None else record.offerings
        taken.update({offering.reservation_id for offering in offerings if offering.reservation_id})
    return dict(sorted(taken.items()))


# Presents a claim's record as the NodeClaim that decisions read.


def node_claim(
    record: ClaimRecord, consolidate_after: timedelta | None, now: datetime, leaves_for: str = ""
) -> NodeClaim:
    """Return the NodeClaim for `record`.

    Args:
        record: The stored claim.
        consolidate_after: The NodePool's consolidateAfter, None for Never: decides the Consolidatable condition.
        now: The moment of the snapshot.
        leaves_for: The reason of the command that removes it; its deletion may have another by now.
    """
    machine, plan, deletion = record.machine, record.plan, record.deletion
    leaves_for = deletion.reason if deletion is not None else leaves_for
    return NodeClaim(
        name=record.name,
        uid=record.name,
        labels=record.labels,
        annotations=plan.annotations,
        taints=plan.taints,
        startup_taints=plan.startup_taints,
        requirements=plan.requirements,
        resources=plan.resources,
        node_class=plan.node_class,
        expire_after=plan.expire_after,
        termination_grace_period=plan.termination_grace_period,
        created_at=record.requested_at,
        deleted_at=deletion.asked_at if deletion else None,
        provider_id=record.provider_id,
        node_name=record.node_name,
        image_id=machine.image_id if machine else "",
        subnet_id=machine.subnet_id if machine else "",
        security_groups=machine.security_groups if machine else (),
        capacity=machine.capacity if machine else {},
        allocatable=machine.allocatable if machine else {},
        conditions=_conditions(record, consolidate_after, now),
        last_pod_event_at=record.last_pod_event_at,
        hold=record.hold,
        unneeded_at=record.moments.unneeded_at,
        ends_at=reclaimed_at(record),
        lets_groups_end=plan.termination_grace_period is not None and leaves_for in GROUPS_END_FIRST,
    )


def requested_claim(record: ClaimRecord, now: datetime) -> NodeClaim:
    """Return a stored claim before its launch as a launching node, with its own pods and without room for others.

    Its pods count in zone, type and capacity type if all its offerings agree on these.
    """
    claim_labels = {**record.plan.labels, **_agreed(record)}
    return msgspec.structs.replace(
        node_claim(record, None, now),
        labels=claim_labels,
        provider_id=f"requested:///{record.name}",
        node_name=record.name,
        capacity={name: amount for name, amount in record.reserved.items() if name != quantity.NODES},
        allocatable=record.plan.resources,
    )


def _agreed(record: ClaimRecord) -> dict[str, str]:
    """Return the labels for which all offerings have the same value."""
    offered = (
        (labels.ZONE, {offering.zone for offering in record.offerings}),
        (labels.INSTANCE_TYPE, {offering.instance_type for offering in record.offerings}),
        (labels.CAPACITY_TYPE, {offering.capacity_type for offering in record.offerings}),
    )
    required = {r.key: r.values[0] for r in record.plan.requirements if r.is_finite and len(r.values) == 1}
    return required | {key: min(values) for key, values in offered if len(values) == 1}


def _conditions(record: ClaimRecord, consolidate_after: timedelta | None, now: datetime) -> dict[str, Condition]:
    reached = {
        LAUNCHED: record.machine is not None,
        REGISTERED: record.is_registered,
        INITIALIZED: record.phase is ClaimPhase.INITIALIZED,
    }
    reached_at = {name: Condition("True", changed_at=record.phase_since) for name, holds in reached.items() if holds}
    if record.initialized_at is not None:
        reached_at[INITIALIZED] = Condition("True", changed_at=record.initialized_at)
        quiet_since = record.last_pod_event_at or record.initialized_at
        if consolidate_after is not None and now - quiet_since >= consolidate_after:
            reached_at[CONSOLIDATABLE] = Condition("True", changed_at=quiet_since + consolidate_after)
    if is_late_to_initialize(record, now):
        since = record.phase_since + INITIALIZATION_TIMEOUT
        reached_at[INITIALIZED] = Condition(
            "False", ClaimReason.INITIALIZATION_TIMEOUT, "it does not become ready", since
        )
    if record.deletion is not None and record.deletion.terminated_at is not None:
        reached_at[INSTANCE_TERMINATING] = Condition("True", changed_at=record.deletion.terminated_at)
    return reached_at
