"""The properties of a Kubernetes Node that decisions read."""

from __future__ import annotations

from datetime import datetime

import msgspec

from core import labels
from core.model.values.protection import is_protected
from core.model.values.taints import Taint


class NodeCondition(msgspec.Struct, frozen=True):
    """One entry of a node's `status.conditions`: its status, and since when."""

    type: str
    status: str
    changed_at: datetime | None = None


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One node, managed by us or not.

    Attributes:
        is_ready: Condition Ready is True.
        ready_changed_at: When that condition last changed, None where unknown.
        conditions: All of them, by type.
        finalizers: Its finalizers: a deleted node exists until all are removed.
        unreadable: Field and problem if it cannot be read as a whole; its free room is then unknown.
        attach_limits: CSI driver → how many volumes it may attach (CSINode), only for drivers that state a limit.
    """

    name: str
    uid: str = ""
    provider_id: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    capacity: dict[str, int] = {}
    allocatable: dict[str, int] = {}
    created_at: datetime | None = None
    deleted_at: datetime | None = None
    finalizers: tuple[str, ...] = ()
    is_ready: bool = False
    ready_changed_at: datetime | None = None
    conditions: tuple[NodeCondition, ...] = ()
    attach_limits: dict[str, int] = {}
    unreadable: str = ""

    def blocks_disruption(self, now: datetime) -> bool:
        """Whether its `karpenter.sh/do-not-disrupt` annotation is in force: "true", or a duration since it was created."""
        return is_protected(self.annotations.get(labels.DO_NOT_DISRUPT), self.created_at, now)
