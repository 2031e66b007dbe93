"""Reasons concerning a disruption command."""

from __future__ import annotations

from core.reasons.code import ReasonCode


class CommandReason(ReasonCode):
    """Why a command is abandoned, postponed or not begun."""

    CANDIDATES_GONE = ("CandidatesGone", "Its nodes are already gone.")
    STALE = (
        "Stale",
        "It could not be validated in time.",
        "If this happens often, check the duration of `execute`.",
    )
    TIMEOUT = ("Timeout", "Its replacements were not ready in time.", "Find out why the replacements did not join.")
    REPLACEMENT_LOST = ("ReplacementLost", "A replacement could not be launched or is gone.")
    VALIDATION_FAILED = (
        "ValidationFailed",
        "It no longer holds when validated before its start; the message says why.",
    )
    LEFT_OUT = (
        "LeftOut",
        "A node of it may no longer go, so its other nodes go without this one; the message says why.",
    )
    FAILED_BEFORE = (
        "FailedBefore",
        "The same command recently failed validation; it is postponed, longer each time.",
    )
    BUDGET_SPENT = ("BudgetSpent", "Other nodes have used up the NodePools' budgets.")
    LIMIT_REACHED = (
        "LimitReached",
        "The limits of a NodePool leave no room for its replacements.",
        "Raise spec.limits of the NodePool: a replacement runs beside the old node for a while.",
    )
    COMMAND_PENDING = ("CommandPending", "Another command has to be validated first.")
    ALREADY_DECIDED = ("AlreadyDecided", "An earlier attempt of this run stored it.")
    AWAITS_APPROVAL = (
        "AwaitsApproval",
        "It waits for a person's approval.",
        "Run `fleetwright approve ID --cluster NAME`; without approval it lapses after a day.",
    )
    APPROVED = ("Approved", "A person approved it.")
    REJECTED = ("Rejected", "A person rejected it; its nodes are not proposed again until it would have expired.")
    PROPOSAL_LAPSED = (
        "ProposalLapsed",
        "It waited for approval and no longer holds; the message says why.",
        "Nothing: commands that hold now are proposed again.",
    )
    APPROVAL_EXPIRED = (
        "ApprovalExpired",
        "It did not begin within a day, without approval or with closed budgets; it is proposed again if it still holds.",
        "Approve or reject it, or raise the bounds of `approveAbove*`.",
    )
    COMMAND_REFUSED = ("CommandRefused", "It has too many pods: the table stores no row of this size.")
