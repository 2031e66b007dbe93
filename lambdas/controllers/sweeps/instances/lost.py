"""Removes claims whose instance is gone."""

from __future__ import annotations

from collections.abc import Container
from datetime import datetime

from adapters.ports import CloudProvider
from core.lifecycle.facts import INSTANCE_CHECK_AFTER
from core.lifecycle.records import ClaimRecord
from core.model.snapshot import Snapshot
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from installation.metric_names import LOST_INSTANCES_HELD
from lambdas.controllers.launching.failed_starts import FailedStarts
from lambdas.controllers.sweeps.claim_terminator import ClaimTerminator
from lambdas.controllers.sweeps.instances.unknown import SHARE_PERCENT
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep


class LostInstances(Sweep):
    """Terminates a claim once its node is not Ready either (Karpenter checks both) and EC2 does not find the instance by id.

    A list may be incomplete; if a zone is disconnected, no node in it is Ready. Only a share of the claims is therefore removed
    in a round (docs/adr/0024): a real end is also reported by EC2's events and the Node object, which do not wait.
    """

    name = "lostInstances"
    is_urgent = True

    def __init__(self, cloud: CloudProvider, terminator: ClaimTerminator, failed_starts: FailedStarts) -> None:
        self._cloud = cloud
        self._terminator = terminator
        self._failed_starts = failed_starts

    def run(self, round_: ReconcileRound) -> None:
        """Remove the claims whose instance EC2 neither lists nor finds."""
        view, present = round_.view, {found.instance_id for found in round_.instances}
        now = round_.clock.now()
        missing = [record for record in view.claims.values() if _is_lost(record, present, view.snapshot, now)]
        if not missing:
            return
        alive = {found.instance_id for found in self._cloud.instances([record.instance_id for record in missing])}
        lost = [record for record in missing if record.instance_id not in alive]

        def terminate(record: ClaimRecord) -> None:
            message = f"instance {record.instance_id} is gone and its node is not ready"
            reason, message = self._failed_starts.explain_loss(record, message, round_.report)
            self._terminator.begin(record.name, reason, message, round_.report)

        may_go = max(1, len(view.claims) * SHARE_PERCENT // 100)
        round_.each(lost[:may_go], terminate, subject=lambda record: record.name)
        if len(lost) > may_go:
            later, first = len(lost) - may_go, lost[may_go]
            message = (
                f"EC2 no longer lists the instances of {len(lost)} of {len(view.claims)} claims, such as {first.instance_id}; "
                f"{may_go} are removed per round, the others later: check that region, account and permissions are right"
            )
            round_.report.count(LOST_INSTANCES_HELD, later)
            round_.report.decide(DecisionKind.SKIP, first.name, ClaimReason.MANY_INSTANCES_GONE, message)


def _is_lost(record: ClaimRecord, present: Container[str], snapshot: Snapshot, now: datetime) -> bool:
    if record.machine is None or record.deletion is not None or record.instance_id in present:
        return False
    if now - record.phase_since < INSTANCE_CHECK_AFTER:
        return False
    node = next((found for found in snapshot.nodes if found.provider_id == record.provider_id), None)
    return node is None or not node.is_ready
