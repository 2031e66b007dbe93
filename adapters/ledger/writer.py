"""Stores decisions before they are carried out: first an entry that names the intended actions, then the actions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec

from adapters.ledger.bases import LedgerBases
from adapters.ports import Clock, ObjectStore, PortError, TransientError
from adapters.run_report import RunReport
from adapters.runtime.observability import CODE, RUNNING
from adapters.runtime.refused_calls import MISSING_PERMISSIONS
from core import codec
from core.ledger.digests import decision_id, digest_of
from core.ledger.entry import SCHEMA_VERSION, LedgerDocuments, LedgerEntry, encode_entry, joined
from core.ledger.object_keys import decision_key, outcome_key
from core.ledger.outcome import DecisionOutcome, encode_outcomes
from core.ledger.summary import DecisionSummary
from core.ledger.written_form import written_form
from core.model.plan import DisruptionPlan, Plan
from core.model.snapshot import Snapshot
from core.reasons.decision import DecisionKind
from core.reasons.run import RunReason
from installation.metric_names import LEDGER_FAILURES

TRIED_AGAIN_AFTER: Final = timedelta(minutes=1)
"""How long writes are skipped after a failure, so that pods do not wait for the bucket's timeout at each decision."""


class SearchBound(msgspec.Struct, frozen=True):
    """The bound that ended the search for a better plan; fields as in `LedgerEntry`."""

    improve_iterations: int | None = None
    elapsed: tuple[int, ...] = ()
    is_greedy: bool = False


class DecisionDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that has an id but is not stored yet; without a ledger it has no id.

    `is_observed`: whether it is only recorded.
    """

    id: str = ""
    function: str = ""
    plan: bytes = b""
    snapshot: Snapshot | None = None
    bound: SearchBound = SearchBound()
    is_observed: bool = False


class LedgerWriter:
    """Stores the decisions of one sandbox.

    Args:
        objects: The bucket; None for no ledger.
    """

    def __init__(self, objects: ObjectStore | None, cluster: str, clock: Clock) -> None:
        self._objects = objects
        self._cluster = cluster
        self._clock = clock
        self._bases: dict[str, LedgerBases] = {}
        self._last_written: dict[tuple[str, bool], DecisionSummary] = {}
        self._failed_at: datetime | None = None

    @property
    def is_kept(self) -> bool:
        """Whether there is a ledger. Without one, nobody reads what only its entries contain."""
        return self._objects is not None

    def draft(
        self,
        function: str,
        snapshot: Snapshot,
        plan: Plan | DisruptionPlan,
        bound: SearchBound,
        *,
        is_observed: bool = False,
    ) -> DecisionDraft:
        """Give a decision its id.

        Args:
            function: The deciding function.
            snapshot: The input of the decision.
            plan: Its result.
            bound: What ended the search.
            is_observed: Whether it is only recorded; such a decision is stored even without news.
        """
        if self._objects is None:
            return DecisionDraft()
        encode = codec.encode_plan if isinstance(plan, Plan) else codec.encode_disruption_plan
        at = snapshot.now.isoformat()
        written = encode(plan)  # type: ignore[arg-type]  # the line above chose by the type
        return DecisionDraft(
            id=decision_id(self._cluster, f"{function} observed" if is_observed else function, at, written),
            function=function,
            plan=written,
            snapshot=snapshot,
            bound=bound,
            is_observed=is_observed,
        )

    def write(self, draft: DecisionDraft, summary: DecisionSummary) -> None:
        """Store the decision; one that begins nothing and only repeats the last refusals is skipped.

        Raises:
            PortError: If it could not be stored.
        """
        if self._objects is None or draft.snapshot is None or self._is_old_news(draft, summary):
            return
        now = self._clock.now()
        if self._failed_at is not None and now - self._failed_at < TRIED_AGAIN_AFTER:
            raise TransientError("ledger", f"could not be written at {self._failed_at:%H:%M:%S}")
        try:
            self._put(self._objects, draft, draft.snapshot, summary)
        except PortError:
            self._failed_at = now
            raise
        self._failed_at = None
        self._last_written[_series(draft)] = summary

    def try_write(self, draft: DecisionDraft, summary: DecisionSummary, report: RunReport) -> bool:
        """Store the decision like `write`; return whether that succeeded, and report a failure."""
        try:
            self.write(draft, summary)
        except PortError as error:
            MISSING_PERMISSIONS.leave_out(error)  # the failure is the cause of an alarm
            report.count(LEDGER_FAILURES)
            report.decide(DecisionKind.SKIP, "ledger", RunReason.LEDGER_NOT_WRITTEN, str(error))
            return False
        return True

    def record_outcomes(self, function: str, outcomes: Sequence[DecisionOutcome]) -> None:
        """Store the outcomes of decisions and instances, with best effort: only the log and reports depend on them."""
        found = [outcome for outcome in outcomes if outcome.decision or outcome.instance is not None]
        if self._objects is None or not found:
            return
        written = encode_outcomes(found)
        key = outcome_key(self._cluster, self._clock.now(), function, digest_of(written)[:10])
        with suppress(PortError):
            self._objects.put(key, written)

    def _is_old_news(self, draft: DecisionDraft, summary: DecisionSummary) -> bool:
        return not summary.parts and not draft.is_observed and self._last_written.get(_series(draft)) == summary

    def _new_refusals(self, draft: DecisionDraft, summary: DecisionSummary) -> tuple[tuple[str, str], ...]:
        """Return the refusals that the last entry did not have: in a minute, few of a thousand nodes change their reason."""
        last = self._last_written.get(_series(draft))
        known = frozenset(last.refused) if last is not None else frozenset()
        return tuple(refusal for refusal in summary.refused if refusal not in known)

    def _put(self, objects: ObjectStore, draft: DecisionDraft, snapshot: Snapshot, summary: DecisionSummary) -> None:
        now = self._clock.now()
        if draft.function not in self._bases:
            self._bases[draft.function] = LedgerBases(objects, self._cluster, draft.function)
        bases, documents = self._bases[draft.function], LedgerDocuments(written_form(snapshot), draft.plan)
        document = joined(documents)
        name, base = bases.for_document(document, now)
        entry = LedgerEntry(
            schema_version=SCHEMA_VERSION,
            id=draft.id,
            at=snapshot.now,
            cluster=self._cluster,
            function=draft.function,
            version=RUNNING,
            code=CODE,
            improve_iterations=draft.bound.improve_iterations,
            elapsed=draft.bound.elapsed,
            is_greedy=draft.bound.is_greedy,
            catalogue=bases.catalogue(snapshot.catalogue, now),
            base=name,
            plan_digest=digest_of(draft.plan),
            what=summary.what,
            reason=summary.reason,
            parts=summary.parts,
            bindings=summary.bindings,
            refused=self._new_refusals(draft, summary),
            is_observed=draft.is_observed,
        )
        written = encode_entry(entry, documents, base)
        objects.put(decision_key(self._cluster, snapshot.now, draft.function, draft.id), written)
        bases.measure(document, len(written), now)


def _series(draft: DecisionDraft) -> tuple[str, bool]:
    """Return the draft's series in the ledger: observed decisions are separate from those that are carried out."""
    return draft.function, draft.is_observed
