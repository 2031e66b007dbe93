"""Acts on notices about instances whose claims are not in the table: the claim is rebuilt from the instance's tags first.

`reconcile` rebuilds claims too, but without the notice: a spot instance would end before its pods are evicted.
"""

from __future__ import annotations

from datetime import timedelta

from core.reasons.decision import DecisionKind
from lambdas.controllers.events.interruption import Interruption, Interruptions
from lambdas.controllers.sweeps.instances.rebuilding import Rebuilding
from lambdas.controllers.sweeps.instances.unclaimed import untracked
from lambdas.messages import InstanceNotice
from lambdas.observation.observer import Observer
from lambdas.ports import Clock, CloudProvider
from lambdas.run_report import RunReport
from lambdas.store import ClaimStore


class UnclaimedInterruptions:
    """Rebuilds the claim of one instance, and removes it according to the notice."""

    def __init__(
        self,
        cloud: CloudProvider,
        observer: Observer,
        claims: ClaimStore,
        rebuilding: Rebuilding,
        interruptions: Interruptions,
        clock: Clock,
    ) -> None:
        self._cloud = cloud
        self._observer = observer
        self._claims = claims
        self._rebuilding = rebuilding
        self._interruptions = interruptions
        self._clock = clock

    def act(self, notice: InstanceNotice, report: RunReport) -> None:
        """Rebuild the claim unless it exists by now, and act on the notice. Raises PortError; all steps can be repeated."""
        record = self._claims.of_instance(notice.instance_id)
        if record is None:
            self._rebuild(notice, report)
            record = self._claims.of_instance(notice.instance_id)
        if record is not None:
            interruption = Interruption(notice.reason, (notice.instance_id,), notice.ends_at)
            self._interruptions.act(record, interruption, report)

    def _rebuild(self, notice: InstanceNotice, report: RunReport) -> None:
        """Store a claim for the instance; if that is impossible, report why and leave it to `reconcile`."""
        # Instances are read before claims: a claim that is missing then is really gone.
        instances = self._cloud.instances([notice.instance_id])
        view = self._observer.observe_without_pods()
        for record in view.claims.values():
            if record.instance_id == notice.instance_id:
                self._claims.index(record)
        found = untracked(instances, view, self._clock.now(), min_age=timedelta(0))
        for instance, claim in found.awaited:
            self._rebuilding.adopt(instance, claim, view, report)
        for stranger in found.strangers:
            if stranger.problem:
                report.decide(DecisionKind.SKIP, notice.instance_id, notice.reason, stranger.problem)
            else:
                self._rebuilding.rebuild(stranger, view, report)
