"""Determines whether there is anything to plan, and whether more pods are about to arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from adapters.observation.expected_pods import awaits_pods
from adapters.observation.observer import Observer
from adapters.ports import Clock
from core.lifecycle.draining.deletion import reclaimed_at
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.pod import Pod
from core.model.snapshot import Options
from core.pods.disposition import is_pending, is_reschedulable
from core.pods.scheduler_verdict import mark_untried_pods
from installation.settings import Settings

LEAVING_ASKED_MAX: Final = 5
"""The most leaving nodes whose pods are listed by node: for more, the full observation is as cheap."""

LISTS_MAX: Final = 30
"""A bound on lists that no batch reaches: the time limit ends it earlier."""

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)

WHOLE_SECONDS: Final = timedelta(seconds=1)
"""Kubernetes truncates creation times to whole seconds, so a pod may be this much younger than it seems."""


class PendingWork(msgspec.Struct, frozen=True, kw_only=True):
    """The work to plan for, in counts.

    Attributes:
        marked: Pending pods that the scheduler cannot place: reported, or implied by other verdicts (`mark_untried_pods`).
        unmarked: Pending pods that it has not tried yet.
        unlaunched: Claims that are stored but not launched.
        awaited: Pending pods whose node is being launched (`expected_pods.awaits_pods`); they are not planned again.
    """

    marked: int = 0
    unmarked: int = 0
    unlaunched: int = 0
    awaited: int = 0

    @property
    def is_any(self) -> bool:
        """Whether there is something to plan for now."""
        return bool(self.marked or self.unlaunched)


class PodBatcher:
    """Waits for a burst to arrive before it is planned, so that its pods are packed together (Karpenter's batch durations).

    The wait counts from the pods' creation times, so a pod older than the idle time is planned at once, as are most pods that
    the audit log reports. A burst is complete once no pod was created for the idle time and kube-scheduler has tried one of
    each kind; marking all takes it seconds. If it lags, the wait continues while new pods arrive or further ones are marked.
    """

    def __init__(
        self, observer: Observer, settings: Settings, clock: Clock, pause: Callable[[timedelta], None]
    ) -> None:
        self._observer = observer
        self._options = settings.options()
        self._idle = timedelta(seconds=settings.batch_idle_seconds)
        self._at_most = timedelta(seconds=settings.batch_max_seconds)
        self._clock = clock
        self._pause = pause

    def pods(self, latest: datetime) -> tuple[Pod, ...]:
        """Return the unbound pods, once no new one arrives: at the latest `batch_max_seconds` from now, and by `latest`."""
        pods = self._observer.unbound_pods()
        end = min(latest, self._clock.now() + self._at_most)
        for _ in range(LISTS_MAX):
            left = end - self._clock.now()
            if left <= timedelta(0) or self._have_arrived(pods):
                break
            self._pause(min(self._idle, left))
            known = _arrived(pods)
            pods = self._observer.unbound_pods()
            if _arrived(pods) <= known:
                break
        return pods

    def _have_arrived(self, pods: Sequence[Pod]) -> bool:
        """Whether the scheduler has tried one of each kind, and no pod came within the idle time.

        A pod that it has not tried for as long as a batch may take is ignored: it may belong to another scheduler.
        """
        waiting = [pod for pod in mark_untried_pods(pods, self._options) if is_pending(pod, requires_mark=False)]
        now = self._clock.now()
        untried = [pod for pod in waiting if not pod.is_marked_unschedulable]
        if any(now - _waits_since(pod) < self._at_most for pod in untried):
            return False
        if all(now - _waits_since(pod) >= self._idle for pod in waiting):
            return True
        newest = max(pod.created_at or _LONG_AGO for pod in waiting)
        return now - newest >= self._idle + WHOLE_SECONDS


def pending_work(pods: Iterable[Pod], records: Iterable[ClaimRecord], now: datetime, options: Options) -> PendingWork:
    """Count what there is to plan for.

    A pod that we nominated for a claim's node counts as not nominated: kube-scheduler made no room for it by preemption, and
    the next plan decides whether it is still expected there (`expected_pods`).
    """
    records = tuple(records)
    ours = {(pod, record.node_name) for record in records for pod in record.nominated}
    expected = {pod for record in records if awaits_pods(record, now) for pod in record.plan.pods}
    marked = unmarked = awaited = 0
    for pod in mark_untried_pods(pods, options):
        if pod.key in expected:
            awaited += is_pending(msgspec.structs.replace(pod, nominated_node_name=""), requires_mark=False)
            continue
        is_ours = bool(pod.nominated_node_name) and (pod.key, pod.nominated_node_name) in ours
        found = msgspec.structs.replace(pod, nominated_node_name="") if is_ours else pod
        if is_pending(found, requires_mark=True):
            marked += 1
        elif is_pending(found, requires_mark=False):
            unmarked += 1
    unlaunched = sum(map(is_unlaunched, records))
    return PendingWork(marked=marked, unmarked=unmarked, unlaunched=unlaunched, awaited=awaited)


def displaces_pods(observer: Observer, records: Iterable[ClaimRecord], now: datetime) -> bool:
    """Whether leaving nodes still have pods that must move; True without a check if many nodes leave."""
    leaving = {record.node_name: record for record in records if record.deletion is not None and record.node_name}
    if len(leaving) > LEAVING_ASKED_MAX:
        return True
    return any(
        is_reschedulable(pod) and (reclaimed_at(leaving[node]) is not None or not pod.blocks_disruption(now))
        for node in sorted(leaving)
        for pod in observer.pods_on(node)
    )


def is_unlaunched(record: ClaimRecord) -> bool:
    """Whether a claim is stored and not launched yet."""
    return record.phase is ClaimPhase.REQUESTED and record.deletion is None


def _arrived(pods: Iterable[Pod]) -> frozenset[tuple[str, datetime | None]]:
    """Return the pending pods, each with the time of the scheduler's mark."""
    return frozenset((pod.uid, pod.unschedulable_since) for pod in pods if is_pending(pod, requires_mark=False))


def _waits_since(pod: Pod) -> datetime:
    moments = (pod.created_at, pod.unschedulable_since)
    return max((moment for moment in moments if moment is not None), default=_LONG_AGO)
