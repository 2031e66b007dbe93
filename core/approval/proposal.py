"""The row of a command that waits for approval."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final

import msgspec

from core.model.plan import Command

EXPIRES_AFTER: Final = timedelta(days=1)
"""One day, so that a proposal lasts into the next working morning. After that, a command that still pays is proposed again."""

PROPOSALS_MAX: Final = 10
"""The most proposals that may wait at once. Each is planned as if the other proposals' nodes stayed."""


class ProposalVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A person's verdict.

    Attributes:
        by: The unique id of the person's AWS identity (`aws:userid`): IAM lets nobody write under another's.
        at: When, as the person's computer said; nothing depends on it.
    """

    is_approved: bool
    by: str
    at: datetime


class ProposalEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How the wait ended: `reason` is a code of `core.reasons.runs`."""

    reason: str
    message: str
    at: datetime


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A proposed command and its outcome. It keeps its id when it is carried out.

    Attributes:
        decision: Id of its decision in the ledger, empty where none is kept.
        why: Why it waits.
        text: The explanation that was announced.
        announced_at: When the topic took the announcement; None before that.
        verdict: Of one that has ended what decided it; of one that waits what stores read from the verdicts, never the row.
        end: None while it waits.
    """

    id: str
    command: Command
    decision: str = ""
    why: str
    text: str
    proposed_at: datetime
    announced_at: datetime | None = None
    verdict: ProposalVerdict | None = None
    end: ProposalEnd | None = None
    version: int = 0

    @property
    def expires_at(self) -> datetime:
        """When the proposal expires, whatever happens."""
        return self.proposed_at + EXPIRES_AFTER

    @property
    def digest(self) -> str:
        """Return a digest of the id, the date and the command. A verdict applies to exactly this digest."""
        content = msgspec.json.encode((self.id, self.proposed_at, self.command), order="deterministic")
        return blake2b(content, digest_size=16).hexdigest()

    def keeps_nodes(self, now: datetime) -> bool:
        """Whether other commands must not touch its nodes: while it waits, and from a rejection until it expires."""
        return self.end is None or (self.is_rejected and now < self.expires_at)

    @property
    def is_approved(self) -> bool:
        """Whether a person has approved it."""
        return self.verdict is not None and self.verdict.is_approved

    @property
    def is_rejected(self) -> bool:
        """Whether a person has rejected it."""
        return self.verdict is not None and not self.verdict.is_approved


def deciding(verdicts: Iterable[ProposalVerdict]) -> ProposalVerdict | None:
    """Return the verdict that counts: a rejection before any approval, then by the writer's id; None if there is none."""
    return min(verdicts, key=lambda verdict: (verdict.is_approved, verdict.by, verdict.at), default=None)
