"""Detects whether Karpenter's own controller runs in the cluster, which launches a node for every NodeClaim."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from adapters.ports import Clock, Kubernetes
from core.manifests.wire.api_resources import LEASES

LEASE: Final = "karpenter-leader-election"
"""Name of Karpenter's leader election lease, in any namespace."""

HELD_FOR: Final = timedelta(minutes=1)
"""A lease that was not renewed for this long is free: Karpenter renews it every few seconds."""

ASKED_EVERY: Final = timedelta(seconds=30)


class KarpenterPresence:
    """Reads the lease, at most once per interval."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._asked_at: datetime | None = None
        self._namespace = ""

    def is_there(self) -> bool:
        """Whether Karpenter's lease is held. Raises PortError."""
        return bool(self.namespace())

    def namespace(self) -> str:
        """Return the namespace in which Karpenter's lease is held, empty if it is not held. Raises PortError."""
        now = self._clock.now()
        if self._asked_at is None or now - self._asked_at >= ASKED_EVERY:
            leases = self._kubernetes.list(LEASES, fields=f"metadata.name={LEASE}").items
            current = (lease for lease in leases if _is_held(lease, now))
            self._namespace = min(
                (str(lease["metadata"].get("namespace") or "default") for lease in current), default=""
            )
            self._asked_at = now
        return self._namespace


def _is_held(lease: dict[str, Any], now: datetime) -> bool:
    spec = lease.get("spec") or {}
    if not spec.get("holderIdentity"):
        return False
    try:
        renewed = datetime.fromisoformat(str(spec.get("renewTime")))
    except ValueError:
        return True
    return renewed.tzinfo is None or now - renewed < HELD_FOR
