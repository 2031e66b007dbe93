"""Pods that wait for a node: whether there is anything to plan, and whether more are just coming."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from core.lifecycle.records import ClaimPhase, ClaimRecord
from lambdas.observation.observer import Observer
from lambdas.ports import Clock
from lambdas.settings import Settings

LEAVING_ASKED: Final = 5
"""So many nodes that leave are asked for their pods one by one: more cost as much as the look that they would spare."""

LOOKS_MAX: Final = 30
"""More looks than a batch ever takes: the clock ends it before."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """What would make a plan worth its while, in counts.

    Attributes:
        marked: Pods that the scheduler has given up on.
        unmarked: Pods that it has not looked at yet.
        unlaunched: Claims stored and not launched.
    """

    marked: int = 0
    unmarked: int = 0
    unlaunched: int = 0

    @property
    def is_work(self) -> bool:
        """Whether there is something to plan for."""
        return bool(self.marked or self.unlaunched)


class Batch:
    """Lets a burst arrive before it is planned, so that its pods are packed together (Karpenter's batch durations).

    The first look goes by the pods' own times, so a pod that is older than the idle time, as pods are when the audit log
    tells of them, is planned for at once. Only while new pods come in between looks is there a wait.
    """

    def __init__(
        self, observer: Observer, settings: Settings, clock: Clock, pause: Callable[[timedelta], None]
    ) -> None:
        self._observer = observer
        self._idle = timedelta(seconds=settings.batch_idle_seconds)
        self._at_most = timedelta(seconds=settings.batch_max_seconds)
        self._clock = clock
        self._pause = pause

    def pods(self, latest: datetime) -> tuple[Any, ...]:
        """The unbound pods, once no new one comes to wait: at the latest `batch_max_seconds` from now, and by `latest`."""
        pods = self._observer.unbound_pods()
        end = min(latest, self._clock.now() + self._at_most)
        newest = max((_waits_since(pod) for pod in pods if _waits(pod)), default=None)
        if newest is None or self._clock.now() - newest >= self._idle:
            return pods
        for _ in range(LOOKS_MAX):
            left = end - self._clock.now()
            if left <= timedelta(0):
                break
            self._pause(min(self._idle, left))
            known = {pod.metadata.uid for pod in pods if _waits(pod)}
            pods = self._observer.unbound_pods()
            if all(pod.metadata.uid in known for pod in pods if _waits(pod)):
                break
        return pods


def waiting(pods: Iterable[Any], records: Iterable[ClaimRecord]) -> Waiting:
    """Count what there is to plan for; `pods` are unbound, and decoded from the wire."""
    marked = unmarked = 0
    for pod in pods:
        if _is_marked(pod):
            marked += 1
        elif _waits(pod):
            unmarked += 1
    return Waiting(marked=marked, unmarked=unmarked, unlaunched=sum(map(is_unlaunched, records)))


def displaces_pods(observer: Observer, records: Iterable[ClaimRecord]) -> bool:
    """Whether nodes that are leaving still have pods that must move; where many leave it is taken for granted."""
    leaving = sorted({record.node_name for record in records if record.deletion is not None and record.node_name})
    return len(leaving) > LEAVING_ASKED or any(_must_move(pod) for node in leaving for pod in observer.pods_on(node))


def is_unlaunched(record: ClaimRecord) -> bool:
    """Whether a claim is stored that nobody has launched yet."""
    return record.phase is ClaimPhase.REQUESTED and record.deletion is None


def _is_marked(pod: Any) -> bool:
    scheduled = pod.status.condition("PodScheduled")
    return scheduled is not None and scheduled.reason == "Unschedulable"


def _waits(pod: Any) -> bool:
    return not pod.node_name and not pod.spec.scheduling_gates and pod.status.phase == "Pending"


def _waits_since(pod: Any) -> datetime:
    scheduled = pod.status.condition("PodScheduled")
    moments = [pod.metadata.creation_timestamp, scheduled.last_transition_time if scheduled is not None else None]
    return max((moment for moment in moments if moment is not None), default=datetime.min.replace(tzinfo=UTC))


def _must_move(pod: Any) -> bool:
    owned_by_daemon = any(owner.kind in ("DaemonSet", "Node") for owner in pod.metadata.owner_references)
    return pod.status.phase in ("Pending", "Running") and not owned_by_daemon
