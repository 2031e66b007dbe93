"""`provision` with `mode: shadow`: records what would be launched for waiting pods."""

from __future__ import annotations

from datetime import datetime, timedelta

from adapters.messages import wake_up
from adapters.observation.observer import Observer
from adapters.ports import Clock, Queue
from adapters.run_report import RunReport
from core.pods.disposition import is_pending
from installation.settings import Settings
from lambdas.controllers.provisioning.observed_plans import ObservedPlans


class ShadowProvisioning:
    """Plans for each new state of the cluster in which pods wait, and runs again soon while they do."""

    def __init__(
        self, observer: Observer, plans: ObservedPlans, wake_ups: Queue, settings: Settings, clock: Clock
    ) -> None:
        self._observer = observer
        self._plans = plans
        self._wake_ups = wake_ups
        self._settings = settings
        self._clock = clock
        self._had_waited = False

    def run(self, report: RunReport, *, until: datetime) -> None:
        """Record one plan. `until`: a further run is requested only if it comes by then. Raises PortError."""
        waiting = [pod for pod in self._observer.unbound_pods() if is_pending(pod, requires_mark=False)]
        report.count("pendingPods", len(waiting))
        has_ended, self._had_waited = self._had_waited and not waiting, bool(waiting)
        if not waiting and not has_ended:
            return
        # Also recorded when the last pod stops waiting: otherwise its wait would seem up to a minute longer.
        self._plans.record(self._observer.observe().snapshot, report)
        delay = timedelta(seconds=self._settings.poll_seconds)
        if waiting and self._clock.now() + delay <= until:
            self._wake_ups.send([wake_up("pods wait", until)], delay=delay)
