"""The interface of a side to the measurement."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Protocol

from tests.e2e.parts.admin import Admin
from tests.e2e.peer.figures import Footprint


class Side(Protocol):
    """A running control plane with one provisioner on it, ready for pods.

    Attributes:
        name: For the report.
    """

    name: str

    @property
    def admin(self) -> Admin:
        """The cluster's administrator."""
        ...

    def apply_pools(self, pools: Iterable[dict[str, Any]]) -> None:
        """Apply the NodePools in this side's form; returns when they can be used."""
        ...

    def claims(self) -> list[datetime]:
        """Return the creation time of each present claim."""
        ...

    def claim_moments(self) -> list[dict[str, float]]:
        """Seconds from each claim's first pod to its moments; empty where a side keeps none."""
        ...

    def evictions(self) -> int:
        """Return the number of pods evicted by the eviction API so far."""
        ...

    def footprint(self) -> Footprint:
        """What this side took so far."""
        ...

    def failures(self) -> list[str]:
        """What went wrong, a sentence each."""
        ...
