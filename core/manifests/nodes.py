"""Translates Nodes and their CSINodes from wire to model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from core.errors import InvalidInputError
from core.manifests.wire.cluster import CsiNode, WireNode
from core.model.node import Node, NodeCondition
from core.model.values import resources
from core.model.values.taints import EFFECTS, NO_SCHEDULE, Taint

_CORDONED: Final = Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE)


def node(written: WireNode, attach_limits: Mapping[str, int] | None = None) -> Node:
    """Translate a node. A cordoned node gets Kubernetes' taint even if it lacks it.

    Raises:
        InvalidInputError: If a quantity or a taint cannot be understood.
    """
    if written.unreadable:
        raise InvalidInputError(written.unreadable)
    status = written.status
    return msgspec.structs.replace(
        _node(written),
        taints=_taints(written),
        capacity=resources.parse(status.capacity, field="status.capacity"),
        allocatable=resources.parse(status.allocatable or status.capacity, field="status.allocatable"),
        attach_limits=dict(attach_limits or {}),
    )


def unreadable_node(written: WireNode, error: InvalidInputError) -> Node:
    """Translate a node for which `node` raised: it keeps its pods and has room for no more."""
    fault = ": ".join(part for part in (error.field, error.problem) if part)
    known = tuple(
        Taint(taint.key, taint.effect, taint.value) for taint in written.spec.taints if taint.effect in EFFECTS
    )
    return msgspec.structs.replace(_node(written), taints=(*known, _CORDONED), unreadable=fault)


def _node(written: WireNode) -> Node:
    metadata = written.metadata
    ready = next((condition for condition in written.status.conditions if condition.type == "Ready"), None)
    return Node(
        name=metadata.name,
        uid=metadata.uid,
        provider_id=written.spec.provider_id,
        labels=metadata.labels,
        annotations=metadata.annotations,
        created_at=metadata.creation_timestamp,
        deleted_at=metadata.deletion_timestamp,
        finalizers=metadata.finalizers,
        is_ready=ready is not None and ready.status == "True",
        ready_changed_at=ready.last_transition_time if ready is not None else None,
        conditions=tuple(
            NodeCondition(condition.type, condition.status, condition.last_transition_time)
            for condition in sorted(written.status.conditions, key=lambda condition: condition.type)
        ),
    )


def attach_limits(written: CsiNode) -> dict[str, int]:
    """Return CSI driver → how many volumes the node may attach, for drivers that state a limit."""
    return {
        driver.name: driver.allocatable.count
        for driver in sorted(written.spec.drivers, key=lambda driver: driver.name)
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def _taints(written: WireNode) -> tuple[Taint, ...]:
    found = []
    for i, taint in enumerate(written.spec.taints):
        if taint.effect not in EFFECTS:
            problem = f"unknown effect {taint.effect!r}, use one of {', '.join(EFFECTS)}"
            raise InvalidInputError(problem, field=f"spec.taints[{i}].effect")
        found.append(Taint(taint.key, taint.effect, taint.value))
    if written.spec.unschedulable and not any(taint.key == _CORDONED.key for taint in found):
        found.append(_CORDONED)
    return tuple(found)
