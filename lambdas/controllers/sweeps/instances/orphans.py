"""Both kinds of orphans: instances without a claim that knows them, and claims whose instance is gone."""

from __future__ import annotations

from collections.abc import Container
from datetime import timedelta
from typing import Final

from core.lifecycle.claims import INSTANCE_CHECK_AFTER
from core.lifecycle.records import ClaimRecord
from core.model.snapshot import Snapshot
from lambdas.controllers.launching import OWNED_TAG, Launcher
from lambdas.controllers.sweeps.letting_go import LettingGo
from lambdas.controllers.sweeps.sweep import EACH_ROUND, Round
from lambdas.messages import work_on_claim
from lambdas.observer import Observer
from lambdas.ports import Clock, CloudProvider, ConflictError, Instance, NotFoundError, Queue

GRACE: Final = timedelta(minutes=1)
"""A younger instance is left alone: the reply that tells of it may still be on its way."""


class Orphans:
    """Adopts or terminates."""

    name: Final = "orphans"
    every: timedelta = EACH_ROUND
    is_urgent: Final = True

    def __init__(
        self,
        cloud: CloudProvider,
        launcher: Launcher,
        letting_go: LettingGo,
        observer: Observer,
        work: Queue,
        clock: Clock,
    ) -> None:
        self._cloud = cloud
        self._launcher = launcher
        self._letting_go = letting_go
        self._observer = observer
        self._work = work
        self._clock = clock

    def run(self, round_: Round) -> None:
        """Bring instances and claims together again."""
        view, instances = round_.view, sorted(round_.instances, key=lambda found: found.instance_id)
        owned = [found for found in instances if found.is_alive and OWNED_TAG in found.tags]
        round_.each(owned, lambda found: self._settle(found, round_), subject=lambda found: found.instance_id)
        present = {found.instance_id for found in instances}
        lost = [record for record in view.claims.values() if self._is_lost(record, present, view.snapshot)]

        def let_go(record: ClaimRecord) -> None:
            message = f"instance {record.instance_id} is gone and its node is not ready"
            self._letting_go.begin(record.name, "InstanceGone", message, round_.outcome)

        round_.each(lost, let_go, subject=lambda record: record.name)

    def _settle(self, instance: Instance, round_: Round) -> None:
        record = round_.view.claims.get(instance.tags[OWNED_TAG])
        if record is not None and record.instance_id == instance.instance_id:
            return
        if record is not None and record.machine is None:
            self._adopt(record, instance, round_)
            return
        if self._clock.now() - instance.launched_at < GRACE:
            return
        reason = "Duplicate" if record is not None else "NoClaim"
        round_.outcome.decide("terminate", instance.instance_id, reason, f"tagged for {instance.tags[OWNED_TAG]}")
        self._cloud.terminate([instance.instance_id])

    def _adopt(self, record: ClaimRecord, instance: Instance, round_: Round) -> None:
        now = self._clock.now()
        node_class = round_.view.node_classes.get(record.plan.node_class.name)
        try:
            catalogue = self._observer.catalogue([node_class] if node_class else [], now)
            self._launcher.adopt(record, instance, catalogue, now)
        except (ConflictError, NotFoundError):
            return
        round_.outcome.decide("adopt", record.name, "FoundByTag", f"instance {instance.instance_id}")
        self._work.send([work_on_claim(record.name, now)])

    def _is_lost(self, record: ClaimRecord, present: Container[str], snapshot: Snapshot) -> bool:
        """Whether EC2 has the instance no more and the node shows it (Karpenter asks both)."""
        if record.machine is None or record.deletion is not None or record.instance_id in present:
            return False
        if self._clock.now() - record.phase_since < INSTANCE_CHECK_AFTER:
            return False
        node = next((found for found in snapshot.nodes if found.provider_id == record.provider_id), None)
        return node is None or not node.is_ready
