"""A claim's record as a NodeClaim object (`karpenter.sh/v1`): a pure function of the record, so no further state is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from core import labels
from core.api.objects import JsonObject
from core.lifecycle.draining.cancellation import LASTING, is_voluntary
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion
from core.model import node_claim as conditions
from core.model.node_claim import Condition
from core.model.plan import PlannedClaim
from core.model.values import resources
from core.model.values.taints import Taint
from core.reasons.claim import ClaimReason

NEVER: Final = "Never"
DRAINED: Final = "Drained"
CONSISTENT: Final = "ConsistentStateFound"
_IN_READY: Final = (conditions.LAUNCHED, conditions.REGISTERED, conditions.INITIALIZED)
"""The conditions that Ready summarizes (Karpenter)."""

_GENERATION: Final = 1
"""The spec of a NodeClaim never changes."""


class Mirrored(msgspec.Struct, frozen=True, kw_only=True):
    """The desired NodeClaim of one claim. Equal values need no write.

    Attributes:
        status: Without conditions.
        is_leaving: Whether the object is to be deleted. A deletion cannot be revoked, so this waits until the claim's removal
            is final.
    """

    labels: dict[str, str]
    status: JsonObject
    conditions: dict[str, Condition]
    is_leaving: bool

    def written_conditions(self) -> list[JsonObject]:
        """Return `status.conditions`, by type."""
        return [_written(kind, found) for kind, found in sorted(self.conditions.items())]


def mirrored(record: ClaimRecord, found: Mapping[str, Condition] | None = None) -> Mirrored:
    """Return the desired NodeClaim; `found` are conditions that the record does not have, and take precedence over its own."""
    machine = record.machine
    by_kind = _conditions(record) | dict(found or {})
    by_kind[conditions.READY] = _ready(by_kind)
    status = {
        "nodeName": record.node_name,
        "providerID": record.provider_id,
        "imageID": machine.image_id if machine else "",
        "capacity": resources.render(machine.capacity) if machine else {},
        "allocatable": resources.render(machine.allocatable) if machine else {},
    }
    return Mirrored(
        labels=dict(sorted(record.labels.items())),
        status={name: value for name, value in status.items() if value},
        conditions=by_kind,
        is_leaving=record.deletion is not None and not _may_stay(record.deletion),
    )


def new_object(record: ClaimRecord) -> JsonObject:
    """The object to create, without its status. Its spec is the original request and never changes (Karpenter)."""
    plan = record.plan
    return {
        "metadata": {
            "name": record.name,
            "labels": dict(sorted(record.labels.items())),
            "annotations": dict(sorted({**plan.annotations, labels.CLAIM: record.name}.items())),
            "finalizers": [labels.TERMINATION_FINALIZER],
        },
        "spec": _spec(plan),
    }


def is_mirror(obj: JsonObject) -> bool:
    """Whether we wrote a NodeClaim of the cluster as the mirror of a claim."""
    metadata = obj.get("metadata") or {}
    return bool((metadata.get("annotations") or {}).get(labels.CLAIM) == metadata.get("name"))


def _spec(plan: PlannedClaim) -> JsonObject:
    spec: JsonObject = {
        "nodeClassRef": {"group": plan.node_class.group, "kind": plan.node_class.kind, "name": plan.node_class.name},
        "requirements": [entry for requirement in plan.requirements for entry in requirement.to_manifest()],
        "resources": {"requests": resources.render(plan.resources)},
        "expireAfter": _duration(plan.expire_after) if plan.expire_after is not None else NEVER,
    }
    if plan.termination_grace_period is not None:
        spec["terminationGracePeriod"] = _duration(plan.termination_grace_period)
    if plan.taints:
        spec["taints"] = _taints(plan.taints)
    if plan.startup_taints:
        spec["startupTaints"] = _taints(plan.startup_taints)
    return spec


def _conditions(record: ClaimRecord) -> dict[str, Condition]:
    """Return Launched, Registered and Initialized always; other conditions only if they apply."""
    moments = record.moments
    reached = (
        (conditions.LAUNCHED, record.machine is not None, moments.launched_at, "its instance is not launched yet"),
        (conditions.REGISTERED, record.is_registered, moments.seen_at, "its node has not joined the cluster yet"),
        (
            conditions.INITIALIZED,
            record.phase is ClaimPhase.INITIALIZED,
            record.initialized_at,
            record.message or "its node is not ready for pods yet",
        ),
    )
    by_kind = {
        kind: Condition("True", kind, "", since or record.phase_since)
        if holds
        else Condition("Unknown", "AwaitingReconciliation", missing, record.requested_at)
        for kind, holds, since, missing in reached
    }
    if record.phase is ClaimPhase.INITIALIZED:
        by_kind[CONSISTENT] = _consistent(record)
    if record.deletion is not None:
        by_kind |= _leaving(record.deletion)
    return by_kind


def _consistent(record: ClaimRecord) -> Condition:
    if record.reason == ClaimReason.FAILED_CONSISTENCY_CHECK:
        return Condition("False", record.reason, record.message, record.initialized_at)
    return Condition("True", CONSISTENT, "", record.initialized_at)


def _leaving(deletion: Deletion) -> dict[str, Condition]:
    by_kind = {conditions.DISRUPTION_REASON: Condition("True", deletion.reason, deletion.message, deletion.asked_at)}
    if deletion.terminated_at is not None:
        by_kind[DRAINED] = Condition("True", DRAINED, "", deletion.terminated_at)
        by_kind[conditions.INSTANCE_TERMINATING] = Condition(
            "True", conditions.INSTANCE_TERMINATING, "", deletion.terminated_at
        )
    elif deletion.tainted_at is not None:
        by_kind[DRAINED] = Condition("Unknown", "Draining", "pods are leaving its node", deletion.tainted_at)
    return by_kind


def _ready(by_kind: Mapping[str, Condition]) -> Condition:
    """Return Ready: the worst of the conditions that it summarizes, with its cause; the latest time if all are True."""
    parts = [(kind, by_kind[kind]) for kind in _IN_READY]
    for status, reason in (("False", "UnhealthyDependents"), ("Unknown", "ReconcilingDependents")):
        worse = next(((kind, found) for kind, found in parts if found.status == status), None)
        if worse is not None:
            kind, found = worse
            return Condition(status, reason, f"{kind}={status}: {found.message}", found.changed_at)
    return Condition("True", conditions.READY, "", by_kind[conditions.INITIALIZED].changed_at)


def _may_stay(deletion: Deletion) -> bool:
    """Whether its drain may still be cancelled (`core.lifecycle.draining.cancellation`)."""
    if not is_voluntary(deletion) or deletion.is_final or deletion.terminated_at is not None:
        return False
    return deletion.reason not in LASTING or deletion.deadline is None


def _written(kind: str, found: Condition) -> JsonObject:
    since = found.changed_at or datetime.fromtimestamp(0, UTC)
    return {
        "type": kind,
        "status": found.status,
        "reason": found.reason or kind,
        "message": found.message,
        "lastTransitionTime": since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "observedGeneration": _GENERATION,
    }


def _taints(taints: Iterable[Taint]) -> list[JsonObject]:
    return [
        {"key": taint.key, "effect": taint.effect, **({"value": taint.value} if taint.value else {})}
        for taint in taints
    ]


def _duration(span: timedelta) -> str:
    """Format a duration in hours if whole, else in seconds: the schema takes no fractions."""
    seconds = int(span.total_seconds())
    return f"{seconds // 3600}h" if seconds % 3600 == 0 else f"{seconds}s"
