"""Taints of nodes and tolerations of pods, by the rules of the Kubernetes scheduler."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core import labels
from core.model.values.quantity import parse_duration

# The annotation `karpenter.sh/do-not-disrupt`: "true", or a duration (on pods as in Karpenter; on nodes our extension).


FOR_EVER = "true"


def is_protected(text: str | None, since: datetime | None, now: datetime) -> bool:
    """Whether the annotation is in force.

    Args:
        text: Its value, None if it is not set. Only "true" and a positive duration have an effect (Karpenter).
        since: The start of a duration; if unknown, the annotation is in force.
        now: The time to check.
    """
    if text is None or text == FOR_EVER:
        return text is not None
    lasting = parse_duration(text)
    if lasting is None or lasting <= timedelta(0):
        return False
    return since is None or now < since + lasting


def protected_until(text: str | None, since: datetime | None) -> datetime | None:
    """Return when a duration ends; None if the annotation has none or its start is unknown."""
    lasting = parse_duration(text) if text is not None and text != FOR_EVER else None
    return since + lasting if lasting is not None and since is not None else None


NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"
TOLERATION_OPERATORS: Final = ("Equal", "Exists", "Lt", "Gt")
"""Lt and Gt compare numbers only with a Kubernetes feature gate. Here they tolerate nothing, as without the gate."""

EFFECTS: Final = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)


class Taint(msgspec.Struct, frozen=True, order=True):
    """A node's taint, which repels pods."""

    key: str
    effect: str
    value: str = ""

    def matches(self, other: Taint) -> bool:
        """Whether both are the same taint: a node has one per key and effect."""
        return (self.key, self.effect) == (other.key, other.effect)

    def written(self) -> dict[str, str]:
        """Return it in Kubernetes' format."""
        body = {"key": self.key, "effect": self.effect}
        return {**body, "value": self.value} if self.value else body

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Toleration(msgspec.Struct, frozen=True, order=True):
    """Permits a pod to ignore a taint. Empty key with Exists matches every key, empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration covers `taint`."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.operator == "Exists":
            return not self.key or self.key == taint.key
        return self.operator == "Equal" and self.key == taint.key and self.value == taint.value


OUTDATED: Final = Taint("fleetwright.dev/outdated", PREFER_NO_SCHEDULE)
"""On nodes that have drifted: pods that a roll-out moves go to nodes that it does not replace, where there is room."""

LEAVING: Final = Taint("fleetwright.dev/leaving", PREFER_NO_SCHEDULE)
"""On nodes that the stored target drains in a later wave: kube-scheduler prefers others for pods that move before.

Plans ignore it: they know the target, and a mark may outlive it for minutes."""

DISRUPTED: Final = Taint(labels.DISRUPTED_TAINT, NO_SCHEDULE)
UNREGISTERED: Final = Taint(labels.UNREGISTERED_TAINT, NO_EXECUTE)

REBOOTING: Final = Taint(labels.REBOOTING_TAINT, NO_SCHEDULE)
"""Karpenter's, on a node that it reboots in place."""

HELD: Final = Taint(labels.UNREGISTERED_TAINT, NO_SCHEDULE)
"""Keeps kube-scheduler off a node that has joined, until the pods that it was launched for are bound to it."""

KNOWN_EPHEMERAL: Final = (
    Taint("node.kubernetes.io/not-ready", NO_SCHEDULE),
    Taint("node.kubernetes.io/not-ready", NO_EXECUTE),
    Taint("node.kubernetes.io/unreachable", NO_SCHEDULE),
    Taint("node.cloudprovider.kubernetes.io/uninitialized", NO_SCHEDULE, "true"),
    UNREGISTERED,
    HELD,
)
"""Temporary taints of a booting node; scheduling ignores them until the node is initialized (Karpenter)."""

READINESS_PREFIX: Final = "readiness.k8s.io/"


def is_ephemeral(taint: Taint) -> bool:
    """Whether the taint only marks a node as not yet ready."""
    return taint.key.startswith(READINESS_PREFIX) or any(taint.matches(ephemeral) for ephemeral in KNOWN_EPHEMERAL)


def first_untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first taint that no toleration covers, of any effect (Karpenter: PreferNoSchedule counts until relaxed)."""
    granted = tuple(tolerations)
    for taint in taints:
        if not any(toleration.tolerates(taint) for toleration in granted):
            return taint
    return None
