"""Shows commands that wait for approval: as data, and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from cli.terminal import output
from cli.terminal.output import rfc3339
from core.approval.proposal import Proposal
from core.ledger.summary import command_sentence
from core.model.values.quantity import dollars

WAITS = "waits"
APPROVED = "approved"
REJECTED = "rejected"
ENDED = "ended"


def proposal_document(proposal: Proposal, now: datetime) -> dict[str, Any]:
    """Return one proposal; `state`: waits, approved (and begins within a minute), rejected or ended."""
    verdict, end = proposal.verdict, proposal.end
    is_over = end is not None or now >= proposal.expires_at
    return {
        "id": proposal.id,
        "state": ENDED if is_over else _said(proposal),
        "what": command_sentence(proposal.command),
        "reason": proposal.command.reason,
        "why": proposal.why,
        "nodes": list(proposal.command.nodes),
        "moves": len(proposal.command.moves),
        "savings": dollars(proposal.command.savings),
        "decision": proposal.decision or None,
        "proposedAt": rfc3339(proposal.proposed_at),
        "expiresAt": rfc3339(proposal.expires_at),
        "text": proposal.text,
        "verdict": None
        if verdict is None
        else {"approved": verdict.is_approved, "by": verdict.by, "at": rfc3339(verdict.at)},
        "end": None if end is None else {"reason": end.reason, "message": end.message, "at": rfc3339(end.at)},
    }


def proposals_table(proposals: Sequence[dict[str, Any]]) -> str:
    """Format proposals for people."""
    rows = [
        (
            found["id"],
            found["what"],
            found["reason"],
            found["moves"],
            found["savings"],
            _state(found),
            found["expiresAt"][5:16].replace("T", " "),
        )
        for found in proposals
    ]
    headings = ("PROPOSAL", "WHAT", "WHY", "MOVES", "SAVES $/H", "STATE", "EXPIRES")
    return output.table(headings, rows)


def _state(found: dict[str, Any]) -> str:
    if found["end"] is not None:
        return f"{found['end']['reason']}: {found['end']['message']}"
    if found["state"] == WAITS:
        return f"waits: {found['why']}"
    return "expired" if found["state"] == ENDED else f"{found['state']} by {found['verdict']['by']}"


def _said(proposal: Proposal) -> str:
    """Return what a person has said about a proposal that is not over."""
    return APPROVED if proposal.is_approved else REJECTED if proposal.is_rejected else WAITS
