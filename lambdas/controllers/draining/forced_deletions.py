"""Remembers which workloads just lost pods by force, so that evictions do not count on a budget's status of before.

The API server admits an eviction by the status of the pod's PodDisruptionBudget, and charges it there at once. A deletion by
force counts only when the disruption controller has seen it, usually within 0.1 seconds (docs/adr/0025).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from adapters.ports import Clock
from core.model.pod import Pod

COUNTED_AFTER: Final = timedelta(seconds=1)
"""How long after a deletion by force the other pods of the workload are not evicted."""


class ForcedDeletions:
    """The workloads that lost pods by force within `COUNTED_AFTER`; threads that handle claims of one message share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._last: dict[str, datetime] = {}

    def note(self, pod: Pod) -> None:
        """Note a deletion, before the call and after it: other threads evict meanwhile, and it may happen at any moment."""
        now = self._clock.now()
        with self._lock:
            self._last = {workload: at for workload, at in self._last.items() if at + COUNTED_AFTER > now}
            self._last[pod.workload] = now

    def wait(self, pod: Pod) -> timedelta:
        """Return in what time the pod may be evicted; zero or less for now."""
        with self._lock:
            last = self._last.get(pod.workload)
        return timedelta(0) if last is None else last + COUNTED_AFTER - self._clock.now()
