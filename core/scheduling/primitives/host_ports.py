"""Host ports: two pods cannot open the same one on one node."""

from __future__ import annotations

from collections.abc import Iterable

from core.model.pod import HostPort


def conflict(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    """Whether any wanted port is taken."""
    in_use = tuple(taken)
    return any(port.conflicts(other) for port in wanted for other in in_use)
