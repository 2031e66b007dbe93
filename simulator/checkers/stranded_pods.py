"""Judges disruption commands: each pod of their nodes must find a place.

Expiry does not count: like Karpenter's, it makes no plan. A pod whose NodePool is at its limits does not count, either: another
pod has taken the planned place, which Kubernetes does not reserve, and no further node may be launched.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from simulator.checkers.ledger import Ledger
from simulator.checkers.limits import CapacityOf, exceeded
from simulator.record import Event

PENDING_MAX: Final = timedelta(minutes=20)
"""How long the successor of an evicted pod may wait: a launch that never joins takes 15 minutes, and is then repeated."""

_PLANNED: Final = ("Empty", "Drifted", "Underutilized")
_FOLLOWS_WITHIN: Final = timedelta(minutes=5)
"""How long after an eviction a controller's next pod counts as the successor: some controllers wait for the old pod's end."""


class _Eviction(msgspec.Struct):
    pod: str
    reason: str
    at: datetime
    pool: str
    instance_type: str


class StrandedPodsJudge:
    """Counts successors of pods that a disruption command evicted which wait too long for a node that could be launched."""

    name = "evictionsWithoutPlace"

    def __init__(self, ledger: Ledger, report: Callable[[str], None], capacity_of: CapacityOf) -> None:
        self._ledger = ledger
        self._report = report
        self._capacity_of = capacity_of
        self._evicted: dict[str, list[_Eviction]] = {}
        self._waiting: dict[str, tuple[datetime, _Eviction]] = {}

    def see(self, moment: datetime, event: Event) -> None:
        """Judge one event; the ledger holds the world as it was before."""
        fields = event.fields
        if event.event == "podEvicted" and fields["by"] in ("eviction", "forced"):
            self._leaves(fields["pod"], moment)
        elif event.event == "podCreated":
            self._comes(fields["pod"], f"{fields['object']['metadata'].get('namespace')}/{fields['owner']}", moment)
        elif event.event == "podBound" and fields["pod"] in self._waiting:
            self._end(fields["pod"], moment)
        elif event.event == "podDeleted":
            self._waiting.pop(fields["pod"], None)

    def has_waiting(self) -> bool:
        """Whether the successor of an evicted pod has no node yet."""
        return bool(self._waiting)

    def finish(self, now: datetime) -> None:
        """Judge those that still wait."""
        for pod in sorted(self._waiting):
            self._end(pod, now)

    def _leaves(self, name: str, now: datetime) -> None:
        pod = self._ledger.pods.get(name)
        if pod is None or pod.is_leaving:
            return
        node = self._ledger.nodes.get(pod.node)
        if node is not None and node.disrupted_for in _PLANNED:
            instance = self._ledger.instances.get(node.instance)
            type_ = instance.instance_type if instance is not None else ""
            eviction = _Eviction(name, node.disrupted_for or "", now, node.pool, type_)
            self._evicted.setdefault(f"{pod.namespace}/{pod.owner}", []).append(eviction)

    def _comes(self, name: str, owner: str, now: datetime) -> None:
        due = self._evicted.get(owner)
        if due:
            eviction = due.pop(0)
            if now - eviction.at <= _FOLLOWS_WITHIN:
                self._waiting[name] = (now, eviction)

    def _end(self, name: str, now: datetime) -> None:
        since, eviction = self._waiting.pop(name)
        if now - since > PENDING_MAX and not self._is_at_limit(eviction):
            waited = round((now - since).total_seconds() / 60)
            self._report(f"{name} waited {waited} minutes: it follows {eviction.pod}, evicted for {eviction.reason}")

    def _is_at_limit(self, eviction: _Eviction) -> bool:
        """Whether limits forbid another node like the one that the pod left."""
        if not eviction.instance_type:
            return False
        return bool(exceeded(self._ledger, self._capacity_of, eviction.pool, eviction.instance_type))
