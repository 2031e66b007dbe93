"""A claim and what is remembered of earlier launches, for the tests of the gate."""

from __future__ import annotations

from typing import Any

from adapters.ports import RefusedOffering
from adapters.run_report import RunReport
from core.lifecycle.records import ClaimRecord
from core.reasons.code import ClaimReason, Refusal
from core.scheduling import schedule
from lambdas.controllers.launching import Admission, LaunchGate, requested
from tests.builders import NOW, a_class_manifest, a_pod, a_pool, a_snapshot, a_type
from tests.fakes.store import Rows

CALL = "ec2:CreateFleet"


class World:
    """A claim, and the remembered denials."""

    def __init__(self) -> None:
        snapshot = a_snapshot(types=(a_type(),), node_pools=(a_pool("default"),), pods=(a_pod(),))
        (planned,) = schedule(snapshot).claims
        record = requested(planned, "default-1", "token", snapshot, NOW)
        assert isinstance(record, ClaimRecord)
        self.record = record
        self.rows = Rows()
        self.gate = LaunchGate(self.rows.stores().denials, self.rows.stores().unavailable)
        zones = sorted({offering.zone for offering in record.offerings})
        subnets = [{"id": f"subnet-{zone}{n}", "zone": zone} for zone in zones for n in (1, 2)]
        self.node_class = a_class_manifest(metadata={"generation": 1}, status={"subnets": subnets})
        self.first = record.offerings[0]

    def admit(self, now: Any = NOW) -> Admission | Refusal:
        return self.gate.admit(self.record, self.node_class, now)

    def of_another_cluster(self) -> LaunchGate:
        """The gate of a cluster of the same account and region: it has the refused offerings in common, and no denials."""
        return LaunchGate(Rows().stores().denials, self.rows.stores().unavailable)

    def refused_a_while_ago(self) -> None:
        """EC2 had no capacity for anything, and every pause has just ended."""
        self.rows.refused = {offering.key: NOW for offering in self.record.offerings}

    def learn(self, code: str, now: Any = NOW, **more: Any) -> None:
        refused = [RefusedOffering(offering.key, code, **more) for offering in self.record.offerings]
        admission = Admission(self.record.offerings, ())
        self.gate.learn(self.record, self.node_class, admission, refused, CALL, now, RunReport())


def admitted(answer: Admission | Refusal) -> Admission:
    assert isinstance(answer, Admission)
    return answer


def refusal(answer: Admission | Refusal) -> str:
    assert isinstance(answer, Refusal)
    assert answer.reason is ClaimReason.LAUNCH_HELD_BACK
    return answer.message
