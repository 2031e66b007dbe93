"""Judges a NodePool's eviction rate: how many pods consolidation and drift may move in any hour (docs/adr/0131).

A node counts with all its pods from the moment at which its first pod is evicted.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from simulator.checkers.ledger import Ledger
from simulator.record import Event

EVICTIONS_PER_HOUR: Final = "fleetwright.dev/evictions-per-hour"
HOUR: Final = timedelta(minutes=50)
"""Ten minutes less than an hour: the functions count a drain when it begins, and its first eviction may come later."""

_BOUNDED: Final = ("Drifted", "Underutilized")


class _Drain(msgspec.Struct):
    """The evictions from one node since `began`."""

    pool: str
    began: datetime
    evicted: int = 0


class EvictionRateJudge:
    """Counts evictions by consolidation and drift above the eviction rate of their NodePool."""

    name = "evictionRateViolations"

    def __init__(self, ledger: Ledger, report: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._report = report
        self._drains: dict[str, _Drain] = {}

    def see(self, moment: datetime, event: Event) -> None:
        """Judge one event; the ledger holds the world as it was before."""
        if event.event != "podEvicted" or event.fields["by"] not in ("eviction", "forced"):
            return
        pod = self._ledger.pods.get(event.fields["pod"])
        node = None if pod is None or pod.is_leaving else self._ledger.nodes.get(pod.node)
        if node is None or node.disrupted_for not in _BOUNDED:
            return
        drain = self._drains.setdefault(node.instance, _Drain(node.pool, moment))
        drain.evicted += 1
        self._judge(drain, moment)

    def _judge(self, drain: _Drain, now: datetime) -> None:
        metadata = self._ledger.applied.get(("NodePool", "", drain.pool), {}).get("metadata") or {}
        ceiling = str((metadata.get("annotations") or {}).get(EVICTIONS_PER_HOUR, ""))
        # With another text in the annotation the NodePool is invalid, and its nodes are not disrupted voluntarily.
        if not ceiling.isdecimal():
            return
        lately = [one for one in self._drains.values() if one.pool == drain.pool and one.began > now - HOUR]
        evicted = sum(one.evicted for one in lately)
        if evicted > int(ceiling):
            self._report(f"NodePool {drain.pool} had {evicted} pods evicted within an hour, allowed {ceiling}")
