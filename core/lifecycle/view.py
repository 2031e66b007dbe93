"""Presents a claim's record as the NodeClaim that decisions read."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from core import labels
from core.lifecycle.claims import INITIALIZATION_TIMEOUT, is_late_to_initialize
from core.lifecycle.draining.deletion import reclaimed_at
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.node_claim import (
    CONSOLIDATABLE,
    INITIALIZED,
    INSTANCE_TERMINATING,
    LAUNCHED,
    REGISTERED,
    Condition,
    NodeClaim,
)
from core.model.values import quantity
from core.reasons.claim import ClaimReason


def node_claim(record: ClaimRecord, consolidate_after: timedelta | None, now: datetime) -> NodeClaim:
    """Return the NodeClaim for `record`.

    Args:
        record: The stored claim.
        consolidate_after: The NodePool's consolidateAfter, None for Never: decides the Consolidatable condition.
        now: The moment of the snapshot.
    """
    machine, plan, deletion = record.machine, record.plan, record.deletion
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
        ends_at=reclaimed_at(record),
    )


def requested_claim(record: ClaimRecord, now: datetime) -> NodeClaim:
    """Return a stored claim before its launch as a launching node, with its own pods and without room for others.

    Its pods count in zone, type and capacity type if all its offerings agree on these.
    """
    own = {**record.plan.labels, **_agreed(record)}
    return msgspec.structs.replace(
        node_claim(record, None, now),
        labels=own,
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
    found = {name: Condition("True", changed_at=record.phase_since) for name, holds in reached.items() if holds}
    if record.initialized_at is not None:
        found[INITIALIZED] = Condition("True", changed_at=record.initialized_at)
        quiet_since = record.last_pod_event_at or record.initialized_at
        if consolidate_after is not None and now - quiet_since >= consolidate_after:
            found[CONSOLIDATABLE] = Condition("True", changed_at=quiet_since + consolidate_after)
    if is_late_to_initialize(record, now):
        since = record.phase_since + INITIALIZATION_TIMEOUT
        found[INITIALIZED] = Condition("False", ClaimReason.INITIALIZATION_TIMEOUT, "it does not become ready", since)
    if record.deletion is not None and record.deletion.terminated_at is not None:
        found[INSTANCE_TERMINATING] = Condition("True", changed_at=record.deletion.terminated_at)
    return found
