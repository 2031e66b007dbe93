"""Turns planned claims into records, and requests their instances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from adapters.ports import (
    JsonObject,
)
from adapters.run_report import RunReport
from adapters.store import ClaimStore
from core.lifecycle.launching.shared_launch import share_launches
from core.lifecycle.launching.subnet_assignment import with_subnets
from core.lifecycle.records import ClaimRecord
from core.model.catalogue import Catalogue
from core.model.plan import PlannedClaim
from core.model.snapshot import Snapshot
from core.reasons.refusal import Refusal
from lambdas.controllers.launching.claim_record import requested
from lambdas.controllers.launching.launch_answer_writer import LaunchAnswerWriter
from lambdas.controllers.launching.launch_requests import LaunchRequests
from lambdas.controllers.launching.launch_tokens import LaunchTokens


class Launcher:
    """Turns planned claims into records, and records into instances."""

    def __init__(self, requests: LaunchRequests, claims: ClaimStore, *, cluster: str) -> None:
        self._requests = requests
        self._claims = claims
        self._tokens = LaunchTokens(cluster)
        self.answer_writer = LaunchAnswerWriter(claims, self._tokens)

    def record(self, planned: PlannedClaim, name: str, snapshot: Snapshot, now: datetime) -> ClaimRecord | Refusal:
        """Return the record to store before the launch, or why nothing can be launched."""
        return requested(planned, name, self._tokens.of(name, 0, planned.made_by_hand), snapshot, now)

    def shared(self, records: Iterable[ClaimRecord], snapshot: Snapshot, *, at_most: int) -> list[ClaimRecord]:
        """Return the claims of a plan with their subnets, those of one shape sharing launches, before any of them is stored."""
        placed = with_subnets(records, snapshot)
        return share_launches(placed, self._tokens.of_shared, at_most=at_most)

    def launch(
        self,
        records: Sequence[ClaimRecord],
        node_class: JsonObject,
        catalogue: Catalogue,
        now: datetime,
        report: RunReport,
    ) -> dict[str, ClaimRecord]:
        """Request one claim, or the claims that share a launch, and store EC2's answer for each as `settle`.

        Returns:
            The claims that are not deleted, by name. Of several, one whose answer cannot be stored stays as it was requested.

        Raises:
            PortError: If the request cannot be stored, or the answer for a single claim.
        """
        answer = self._requests.ask(records, node_class, catalogue, now, report)
        if len(records) == 1:
            settled = self.answer_writer.settle(records[0], answer, catalogue, now, report)
            return {} if settled is None else {settled.name: settled}
        found = self.answer_writer.settle_each(records, answer, catalogue, now, report)
        stored = {record.name: record for record in records if record.name not in found.refused}
        return stored | {claim.name: claim for claim in found.launched}

    def alone(self, record: ClaimRecord) -> ClaimRecord:
        """Store that the claim no longer shares its launch, which was not requested yet. Raises PortError."""
        return self._claims.change(
            record, msgspec.structs.replace(record, token=self._tokens.of(record.name, 0), shares=1, share=0, first="")
        )

    def joined(self, record: ClaimRecord, first: ClaimRecord) -> ClaimRecord:
        """Store the token of the launch's first claim: a run may have ended while it gave all a new one. Raises PortError."""
        if record.token == first.token:
            return record
        return self._claims.change(record, msgspec.structs.replace(record, token=first.token))
