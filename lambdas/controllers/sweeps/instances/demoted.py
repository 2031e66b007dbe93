"""Relabels instances whose capacity reservation has ended: they keep running at the on-demand price."""

from __future__ import annotations

from functools import partial

import msgspec

from adapters.observation.instance_description import offering_of
from adapters.observation.observer import Observer
from adapters.ports import Instance, JsonObject, Kubernetes
from adapters.store import ClaimStore
from core import labels
from core.lifecycle.records import ClaimRecord, Machine
from core.manifests.wire import api_resources as kinds
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from lambdas.controllers.status.status_writer import tolerate_gone
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep


class DemotedInstances(Sweep):
    """Changes the claims and nodes of such instances to on-demand (Karpenter). Nothing is replaced."""

    name = "demotedInstances"
    is_urgent = True

    def __init__(self, kubernetes: Kubernetes, claims: ClaimStore, observer: Observer) -> None:
        self._kubernetes = kubernetes
        self._claims = claims
        self._observer = observer

    def run(self, round_: ReconcileRound) -> None:
        """Relabel the claims whose instance is listed as on-demand."""
        reserved = {
            record.instance_id: record
            for record in round_.view.claims.values()
            if record.machine is not None and record.machine.offering.capacity_type == labels.RESERVED
        }
        if not reserved:
            return
        found = [i for i in round_.instances if i.instance_id in reserved and i.capacity_type == labels.ON_DEMAND]

        def demote(instance: Instance) -> None:
            record = reserved[instance.instance_id]
            self._demote(record, instance, round_)
            message = f"instance {instance.instance_id} is on-demand now"
            round_.report.decide(DecisionKind.RELABEL, record.name, ClaimReason.RESERVATION_ENDED, message)

        round_.each(found, demote, subject=lambda instance: instance.instance_id)

    def _demote(self, record: ClaimRecord, instance: Instance, round_: ReconcileRound) -> None:
        """Relabel the node, then the claim: while the claim is still reserved, the next round repeats both."""
        if record.machine is None:
            return
        if record.node_name:
            dropped: JsonObject = dict.fromkeys(labels.RESERVATION_LABELS)
            body = {"metadata": {"labels": {**dropped, labels.CAPACITY_TYPE: labels.ON_DEMAND}}}
            tolerate_gone(partial(self._kubernetes.patch, kinds.NODES, record.node_name, body))
        machine = self._on_demand(record.machine, instance, record.plan.node_class.name, round_)
        self._claims.change(record, msgspec.structs.replace(record, machine=machine))

    def _on_demand(self, machine: Machine, instance: Instance, class_name: str, round_: ReconcileRound) -> Machine:
        node_class = round_.view.node_classes.get(class_name)
        market = self._observer.open_market.catalogue([node_class] if node_class else [], round_.clock.now())
        types = (found for found in market.types_for(class_name) if found.name == instance.instance_type)
        kept = {key: value for key, value in machine.labels.items() if key not in labels.RESERVATION_LABELS}
        return msgspec.structs.replace(
            machine,
            offering=offering_of(instance, next(types, None)),
            labels={**kept, labels.CAPACITY_TYPE: labels.ON_DEMAND},
        )
