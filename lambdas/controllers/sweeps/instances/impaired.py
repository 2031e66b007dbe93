"""Replaces instances that fail EC2's status checks."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from adapters.observation.cluster_state import ClusterState
from adapters.ports import CloudProvider, Impairment
from core import labels
from core.disruption.conditions.expiration import objections
from core.lifecycle.records import ClaimRecord
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from core.reasons.termination import TerminationReason
from lambdas.controllers.budget_places import BudgetPlaces
from lambdas.controllers.sweeps.claim_terminator import ClaimTerminator
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep

IMPAIRED_FOR: Final = timedelta(minutes=5)
"""How long a check must fail: EC2 itself recovers many hosts within minutes.

Karpenter waits two minutes, then forces the pods off.
"""


class ImpairedInstances(Sweep):
    """Replaces impaired instances like node repair: within the NodePools' budgets and the pods' rules (docs/adr/0034).

    Pods are evicted normally, since many failed checks are false alarms.
    """

    name = "impairedInstances"

    def __init__(self, cloud: CloudProvider, terminator: ClaimTerminator) -> None:
        self._cloud = cloud
        self._terminator = terminator

    def run(self, round_: ReconcileRound) -> None:
        """Remove the claims whose instance has failed a check for long."""
        view, now = round_.view, round_.clock.now()
        claims = {record.instance_id: record for record in view.claims.values() if record.deletion is None}
        ours = [found for found in self._cloud.impaired() if found.instance_id in claims] if claims else []
        round_.report.count("impairedInstances", len({found.instance_id for found in ours}))
        due = [
            found
            for found in ours
            if now - found.since >= IMPAIRED_FOR and not _is_left_alone(claims[found.instance_id], now)
        ]
        if not due:
            return
        names = {claims[found.instance_id].name for found in due}
        # An instance that fails a check is rarely Ready: the places that such nodes use up must not keep them all.
        places = BudgetPlaces(view, TerminationReason.UNHEALTHY, round_.clock, together=names)
        kept = {**objections(view.snapshot, names), **_protected(view)}

        def replace(found: Impairment) -> None:
            name = claims[found.instance_id].name
            message = (
                f"instance {found.instance_id} fails EC2's {found.check} status check since {found.since:%H:%M} UTC"
            )
            why = kept.get(name, "")
            if not why and not self._terminator.begin_within(
                name, TerminationReason.UNHEALTHY, message, places.now, round_.report
            ):
                why = "its NodePool's budgets have no place"
            if why:
                round_.report.decide(DecisionKind.SKIP, name, ClaimReason.UNHEALTHY_BUT_BLOCKED, f"{message}; {why}")

        round_.each(due, replace, subject=lambda found: found.instance_id)


def _is_left_alone(record: ClaimRecord, now: datetime) -> bool:
    """Whether a command already replaces it, or it is exempt because its last drain was cancelled."""
    return record.is_disrupting or (record.hold is not None and now < record.hold.until)


def _protected(view: ClusterState) -> dict[str, str]:
    """Return claim → why its node is left for a person to find the cause, as in node repair."""
    nodes = {node.name for node in view.snapshot.nodes if node.blocks_disruption(view.snapshot.now)}
    found = [record for record in view.claims.values() if record.node_name in nodes]
    return {record.name: f"node {record.node_name} has {labels.DO_NOT_DISRUPT}" for record in found}
