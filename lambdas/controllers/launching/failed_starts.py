"""Learns why EC2 ended an instance whose node never joined, so that launches avoid the cause.

CreateFleet succeeds for such an instance. Without the reason, the next one would be launched at once and end in the same way.
"""

from __future__ import annotations

from adapters.observation.observer import Observer
from adapters.observation.stores import Stores
from adapters.ports import Clock, CloudProvider, JsonObject, NotFoundError, PortError
from adapters.run_report import RunReport
from core import api, labels
from core.errors import InvalidInputError
from core.launch.denials.codes import Remembered
from core.launch.denials.denial import DeniedLaunch, revision_of
from core.launch.denials.instance_ends import rule_of_end, termination_reason
from core.launch.placement import is_confined
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.catalogue import Offering
from core.model.values.instance_end import InstanceEnd
from core.reasons.claim import ClaimReason
from core.reasons.termination import TerminationReason
from lambdas.controllers.launching.denial_memory import DenialMemory, could_not

CALL = "ec2:CreateFleet"
"""The action that a denial names: the one that launched the instance."""


class FailedStarts:
    """Reads the ends of instances, and stores their meaning for further launches."""

    def __init__(self, cloud: CloudProvider, stores: Stores, observer: Observer, clock: Clock) -> None:
        self._cloud = cloud
        self._denials = stores.denials
        self._unavailable = stores.unavailable
        self._memory = DenialMemory(stores.denials)
        self._observer = observer
        self._clock = clock

    def learn(self, record: ClaimRecord, report: RunReport) -> InstanceEnd | None:
        """Store and return why the claim's instance ended; None if EC2 no longer knows the instance.

        Raises:
            ConflictError: If EC2 still describes it as running: its answers may be some seconds old.
            PortError: If EC2 or the API server does not answer.
        """
        end = self._cloud.end_of(record.instance_id)
        rule = rule_of_end(end.code) if end is not None else None
        if end is None or rule is None or record.machine is None:
            return end
        node_class = self._node_class(record)
        if node_class is None:
            return end  # the reason does not apply to another version of the class
        now, offering = self._clock.now(), record.machine.offering
        confined = is_confined(record.plan.requirements, node_class)
        if rule.remembered is Remembered.OFFERINGS and not confined:
            self._avoid(offering, report)
        denied = DeniedLaunch(
            node_class=record.plan.node_class.name,
            code=end.code,
            call=CALL,
            message=f"the instance ended while it started: {end.message or end.code}",
            offerings=(offering.key,),
            node_pool=record.plan.node_pool,
            revision=revision_of(node_class),
            is_confined=confined,
        )
        self._memory.add(denied, now, report)
        return end

    def explain_loss(self, record: ClaimRecord, message: str, report: RunReport) -> tuple[TerminationReason, str]:
        """Return reason and message for a claim whose instance is gone, with EC2's reason if its node never joined.

        Raises as `learn`.
        """
        end = self.learn(record, report) if record.phase is ClaimPhase.LAUNCHED else None
        if end is None:
            return TerminationReason.INSTANCE_GONE, message
        return termination_reason(end) or TerminationReason.INSTANCE_GONE, f"{message}: {end.said}"

    def disprove(self, record: ClaimRecord, report: RunReport) -> None:
        """Drop the denials that the claim's launch tested, since its node has joined. A denial after the launch stays."""
        try:
            known = self._denials.all()
        except PortError as error:
            could_not("denials that a node disproves", error, report)
            return
        for denial in known:
            is_tried = denial.node_class == record.plan.node_class.name and denial.code in record.tries
            if is_tried and (denial.denied_at is None or denial.denied_at <= record.phase_since):
                self._memory.drop(denial, ClaimReason.NODE_JOINED, report)

    def _node_class(self, record: ClaimRecord) -> JsonObject | None:
        """Return the EC2NodeClass from which the instance was launched, None if it is gone or has changed since."""
        try:
            manifest = self._observer.node_class(record.plan.node_class.name)
            spec_hash = api.node_class(manifest).spec_hash
        except (NotFoundError, InvalidInputError):
            return None
        launched_from = record.plan.annotations.get(labels.NODECLASS_HASH, spec_hash)
        return manifest if launched_from == spec_hash else None

    def _avoid(self, offering: Offering, report: RunReport) -> None:
        try:
            self._unavailable.mark([offering.key], self._clock.now())
        except PortError as error:
            could_not(offering.instance_type, error, report)
