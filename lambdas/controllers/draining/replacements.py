"""Tracks the replacements that the pods of a leaving node wait for: the planner stores them, the drain reads them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from adapters.observation.cluster_state import ClusterState
from adapters.ports import ConflictError
from adapters.run_report import RunReport
from adapters.store import ClaimStore, Requested
from core.lifecycle.draining.replacing import awaits_replacements, replacements
from core.lifecycle.facts import ClaimFacts
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.plan import Plan
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind

ATTEMPTS: Final = 2
"""Attempts to write: while the pods are planned, the node is tainted and the taint stored, so one conflict is expected."""


class Replacing:
    """Maintains `Deletion.replacements`. A lost write only skips the wait: the node is drained when its time is up."""

    def __init__(self, claims: ClaimStore) -> None:
        self._claims = claims

    def note(
        self, plan: Plan, requested: Requested, refused: Collection[str], view: ClusterState, report: RunReport
    ) -> None:
        """Store the replacements that were planned for pods that must move.

        Args:
            plan: The plan of this run.
            requested: Its claims.
            refused: Names of the claims that EC2 refused.
            view: The observation that the plan was made from.
            report: Receives what could not be stored.
        """
        if not view.displaced:
            return
        stored = [record for record in requested.accepted if record.name not in refused]
        lost = [*requested.refused, *(record for record in requested.accepted if record.name in refused)]
        unplaced = {found.pod for found in plan.unschedulable} | {pod for record in lost for pod in record.plan.pods}
        records = (*view.claims.values(), *stored)
        for name, pods in view.displaced.items():
            self._write(name, replacements(pods, records, plan.bindings, unplaced), report)

    def with_replacements(self, record: ClaimRecord, facts: ClaimFacts) -> ClaimFacts:
        """Return the facts, completed with whether all replacements are ready; that is read only if the drain waits."""
        deletion = record.deletion
        if deletion is None or deletion.tainted_at is None or not awaits_replacements(record):
            return facts
        names = deletion.replacements
        is_ready = names is not None and all(self._is_ready(name) for name in names)
        return msgspec.structs.replace(facts, has_replacements=is_ready)

    def _is_ready(self, name: str) -> bool:
        found = self._claims.get(name)
        return found is not None and found.phase is ClaimPhase.INITIALIZED and found.deletion is None

    def _write(self, name: str, planned: tuple[str, ...] | None, report: RunReport) -> None:
        for _ in range(ATTEMPTS):
            record = self._claims.get(name)
            if record is None or record.deletion is None or not awaits_replacements(record):
                return
            if record.deletion.replacements == planned:
                return
            deletion = msgspec.structs.replace(record.deletion, replacements=planned)
            try:
                self._claims.change(record, msgspec.structs.replace(record, deletion=deletion))
            except ConflictError:
                continue
            return
        report.decide(
            DecisionKind.SKIP,
            name,
            ClaimReason.REPLACEMENTS_NOT_NOTED,
            "its claim was changed meanwhile; the next plan notes them",
        )
