"""Reasons concerning a disruption command."""

from __future__ import annotations

from core.reasons.code import ReasonCode


class CommandReason(ReasonCode):
    """Why a command is abandoned, postponed or not begun."""

    CANDIDATES_GONE = ("CandidatesGone", "Its nodes are gone already.")
    STALE = (
        "Stale",
        "It could not be checked again in time.",
        "If it happens often, look at the duration of `execute`.",
    )
    TIMEOUT = ("Timeout", "Its replacements were not ready in time.", "Read why the replacements did not join.")
    REPLACEMENT_LOST = ("ReplacementLost", "A replacement could not be launched or is gone.")
    VALIDATION_FAILED = (
        "ValidationFailed",
        "Checked again before it starts, it no longer holds; the message says why.",
    )
    FAILED_BEFORE = (
        "FailedBefore",
        "The same command did not hold a while ago when it was checked again; it is put off, for longer each time.",
    )
    BUDGET_SPENT = ("BudgetSpent", "Other nodes have taken the last places in the NodePools' budgets.")
    LIMIT_REACHED = (
        "LimitReached",
        "The limits of a NodePool leave no room for its replacements.",
        "Raise spec.limits of the NodePool: a replacement runs beside the node that goes for a while.",
    )
    COMMAND_PENDING = ("CommandPending", "Another command is to be checked again first.")
    ALREADY_DECIDED = ("AlreadyDecided", "An earlier try of this run stored it.")
    AWAITS_APPROVAL = (
        "AwaitsApproval",
        "It waits until a person approves it.",
        "`fleetwright approve ID --cluster NAME`; without approval it lapses after a day.",
    )
    APPROVED = ("Approved", "A person approved it.")
    REJECTED = ("Rejected", "A person rejected it; its nodes are left alone until it would have expired.")
    PROPOSAL_LAPSED = (
        "ProposalLapsed",
        "It waited for approval and no longer holds; the message says why.",
        "Nothing: what holds now is proposed again.",
    )
    APPROVAL_EXPIRED = (
        "ApprovalExpired",
        "Nobody approved it within a day; it is proposed again if it still holds.",
        "Approve or reject it, or raise the bounds of `approveAbove*`.",
    )
    COMMAND_REFUSED = ("CommandRefused", "It could not be stored: the table says why.")
