"""Both kinds of orphans: instances without a claim that knows them, and claims whose instance is gone."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from core.lifecycle.claims import INSTANCE_CHECK_AFTER
from core.lifecycle.records import ClaimRecord
from core.model.snapshot import Snapshot
from lambdas.controllers.claim_work import ClaimWork
from lambdas.controllers.launching import OWNED_TAG, Launcher
from lambdas.decisions import Outcome
from lambdas.messages import work_on_claim
from lambdas.observer import Observer
from lambdas.ports import Clock, CloudProvider, ConflictError, Instance, NotFoundError, Queue
from lambdas.view import View

GRACE: Final = timedelta(minutes=1)
"""A younger instance is left alone: the reply that tells of it may still be on its way."""


class Orphans:
    """Adopts or terminates. Instances must have been listed before the claims were read: then a missing claim is truly gone."""

    def __init__(
        self,
        cloud: CloudProvider,
        launcher: Launcher,
        claim_work: ClaimWork,
        observer: Observer,
        work: Queue,
        clock: Clock,
    ) -> None:
        self._cloud = cloud
        self._launcher = launcher
        self._claim_work = claim_work
        self._observer = observer
        self._work = work
        self._clock = clock

    def settle(self, instances: Iterable[Instance], view: View, outcome: Outcome) -> None:
        """Bring instances and claims together again."""
        present = {found.instance_id: found for found in instances}
        for instance in sorted(present.values(), key=lambda found: found.instance_id):
            if instance.is_alive and OWNED_TAG in instance.tags:
                self._settle_instance(instance, view, outcome)
        for record in view.claims.values():
            if self._is_lost(record, present.keys(), view.snapshot):
                message = f"instance {record.instance_id} is gone and its node is not ready"
                self._claim_work.begin_termination(record, "InstanceGone", message, outcome)
                self._work.send([work_on_claim(record.name, self._clock.now())])

    def _settle_instance(self, instance: Instance, view: View, outcome: Outcome) -> None:
        record = view.claims.get(instance.tags[OWNED_TAG])
        if record is not None and record.instance_id == instance.instance_id:
            return
        if record is not None and record.machine is None:
            self._adopt(record, instance, view, outcome)
            return
        if self._clock.now() - instance.launched_at < GRACE:
            return
        reason = "Duplicate" if record is not None else "NoClaim"
        outcome.decide("terminate", instance.instance_id, reason, f"tagged for {instance.tags[OWNED_TAG]}")
        self._cloud.terminate([instance.instance_id])

    def _adopt(self, record: ClaimRecord, instance: Instance, view: View, outcome: Outcome) -> None:
        now = self._clock.now()
        node_class = view.node_classes.get(record.plan.node_class.name)
        try:
            catalogue = self._observer.catalogue([node_class] if node_class else [], now)
            self._launcher.adopt(record, instance, catalogue, now)
        except (ConflictError, NotFoundError):
            return
        outcome.decide("adopt", record.name, "FoundByTag", f"instance {instance.instance_id}")
        self._work.send([work_on_claim(record.name, now)])

    def _is_lost(self, record: ClaimRecord, present: Iterable[str], snapshot: Snapshot) -> bool:
        """Whether EC2 has the instance no more and the node shows it (Karpenter asks both)."""
        if record.machine is None or record.deletion is not None or record.instance_id in present:
            return False
        if self._clock.now() - record.phase_since < INSTANCE_CHECK_AFTER:
            return False
        node = next((found for found in snapshot.nodes if found.provider_id == record.provider_id), None)
        return node is None or not node.is_ready
