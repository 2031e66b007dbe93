"""Provides a claim's instance: launches one, or adopts one from an earlier launch."""

from __future__ import annotations

from core.lifecycle import steps
from core.lifecycle.records import ClaimRecord
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from lambdas.controllers.launching.launching import Launcher
from lambdas.controllers.nodes.node_state_reader import NodeStateReader
from lambdas.messages import wake_up
from lambdas.observation.observer import Observer
from lambdas.ports import Clock, ConflictError, NotFoundError, Queue
from lambdas.run_report import RunReport
from lambdas.store import ClaimStore


class ClaimLaunch:
    """Launches claims whose pods still wait, within the limits of their NodePools."""

    def __init__(
        self, claims: ClaimStore, launcher: Launcher, observer: Observer, wake_ups: Queue, clock: Clock
    ) -> None:
        self._claims = claims
        self._launcher = launcher
        self._observer = observer
        self._wake_ups = wake_ups
        self._clock = clock

    def launch(self, record: ClaimRecord, reader: NodeStateReader, report: RunReport) -> ClaimRecord | None:
        """Launch the claim's instance; None if the claim is deleted instead, with the reason in the report.

        Before the first attempt: its pods must wait, and its NodePool must have room within its limits. Raises PortError.
        """
        now = self._clock.now()
        if record.awaits_pods and not record.attempts and not reader.unbound_pods(record.plan.pods):
            report.decide(
                DecisionKind.FORGET,
                record.name,
                ClaimReason.PODS_PLACED_ELSEWHERE,
                "none of its pods waits for a node any more",
            )
            self._claims.forget(record)
            return None
        objection = self._limit_in_the_way(record, reader) if not record.attempts else ""
        if objection:
            report.decide(DecisionKind.FORGET, record.name, ClaimReason.LIMIT_REACHED, objection)
            self._claims.forget(record)
            self._wake_ups.send([wake_up("limit reached")])
            return None
        try:
            node_class = self._observer.node_class(record.plan.node_class.name)
        except NotFoundError as error:
            report.decide(DecisionKind.FORGET, record.name, ClaimReason.NODE_CLASS_NOT_FOUND, str(error))
            self._claims.forget(record)
            return None
        catalogue = self._observer.open_market.catalogue([node_class], now)
        launched = self._launcher.launch(record, node_class, catalogue, now, report)
        if launched is None:
            self._wake_ups.send([wake_up("refused launch")])
        return launched

    def _limit_in_the_way(self, record: ClaimRecord, reader: NodeStateReader) -> str:
        """Return the limit of its NodePool that is exceeded by now, empty for none; rows may be lost, or the limit lowered."""
        name = record.plan.node_pool
        limits = {key: limit for key, limit in reader.limits(name).items() if record.reserved.get(key, 0) > 0}
        if not limits:
            return ""
        used = next((usage.reserved for usage in self._claims.usage() if usage.node_pool == name), {})
        over = next((key for key, limit in sorted(limits.items()) if used.get(key, 0) > limit), "")
        return f"NodePool {name} is over its limit of {over} without this claim's instance" if over else ""

    def adopt(
        self, record: ClaimRecord, step: steps.Adopt, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord | None:
        """Store the instance of an earlier launch, whose response was lost, as the claim's.

        Raises:
            ConflictError: If the instance is gone again.
        """
        instance = reader.instance(step.instance_id)
        if instance is None:
            raise ConflictError("ec2:DescribeInstances", f"instance {step.instance_id} is gone again")
        now = self._clock.now()
        node_classes = [self._observer.node_class(record.plan.node_class.name)]
        report.decide(DecisionKind.ADOPT, record.name, ClaimReason.FOUND_BY_TAG, f"instance {step.instance_id}")
        return self._launcher.adopt(record, instance, self._observer.open_market.catalogue(node_classes, now), now)
