"""A NodeClaim: one request for one node, from the decision to its removal."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from core import labels
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint

LAUNCHED: Final = "Launched"
REGISTERED: Final = "Registered"
INITIALIZED: Final = "Initialized"
CONSOLIDATABLE: Final = "Consolidatable"
DRIFTED: Final = "Drifted"
INSTANCE_TERMINATING: Final = "InstanceTerminating"
DISRUPTION_REASON: Final = "DisruptionReason"

READY: Final = "Ready"


class ObjectRef(msgspec.Struct, frozen=True, order=True):
    """A reference to a cluster-scoped object by group, kind and name."""

    group: str
    kind: str
    name: str


class Condition(msgspec.Struct, frozen=True, order=True):
    """A status condition; `status` is True, False or Unknown."""

    status: str
    reason: str = ""
    message: str = ""
    changed_at: datetime | None = None


class Hold(msgspec.Struct, frozen=True):
    """Exempts a node from voluntary disruption for a while, because its drain was cancelled.

    `reason` is a code of `blocked[]`.
    """

    until: datetime
    reason: str
    message: str


class NodeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim. `name` identifies it; `provider_id` is empty until its instance exists.

    Attributes:
        resources: The requests that it was launched for, of pods and DaemonSets.
        expire_after: Age at which it is replaced, None for never.
        termination_grace_period: How long draining may take before pods are forced off, None for no limit.
        last_pod_event_at: When a pod last arrived or left; consolidateAfter counts from then.
        hold: Why and until when it is exempt from voluntary disruption, None if it is not.
        ends_at: When EC2 takes its instance, whatever protects its pods; None if that is not announced.
    """

    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    resources: dict[str, int] = {}
    node_class: ObjectRef | None = None
    expire_after: timedelta | None = None
    termination_grace_period: timedelta | None = None
    created_at: datetime | None = None
    deleted_at: datetime | None = None
    provider_id: str = ""
    node_name: str = ""
    image_id: str = ""
    subnet_id: str = ""
    security_groups: tuple[str, ...] = ()
    capacity: dict[str, int] = {}
    allocatable: dict[str, int] = {}
    conditions: dict[str, Condition] = {}
    last_pod_event_at: datetime | None = None
    hold: Hold | None = None
    ends_at: datetime | None = None

    @property
    def node_pool(self) -> str:
        """Name of its NodePool, empty for a claim without one."""
        return self.labels.get(labels.NODEPOOL, "")

    @property
    def idle_since(self) -> datetime | None:
        """The moment from which consolidateAfter counts: a pod last arrived or left, or else it was initialized."""
        initialized = self.conditions.get(INITIALIZED)
        started = initialized.changed_at if initialized is not None else None
        return self.last_pod_event_at or started or self.created_at

    def is_true(self, condition: str) -> bool:
        """Whether the named condition is True."""
        found = self.conditions.get(condition)
        return found is not None and found.status == "True"
