"""Reasons concerning a function's own run, and failed calls."""

from __future__ import annotations

from core.reasons.code import ReasonCode


class RunReason(ReasonCode):
    """Why work was skipped, or what was repaired."""

    PLANNER_BUSY = ("PlannerBusy", "Another run is planning; this one tries again.")
    NODES_UNDER_WAY = ("NodesUnderWay", "A node is on its way for each pod that waits, so nothing is planned.")
    IMPROVEMENT_FAILED = (
        "ImprovementFailed",
        "The search for cheaper nodes broke down; the plan without it is carried out.",
        "Report the error that the message has: it is a defect.",
    )
    NOTHING_TO_DO = ("NothingToDo", "There was nothing to decide about.")
    LEDGER_NOT_WRITTEN = (
        "LedgerNotWritten",
        "The decision could not be kept in the ledger, so nothing is disrupted voluntarily; launches go on.",
        "Read the message: most often a permission on the bucket.",
    )
    TARGET_NOT_KEPT = (
        "TargetNotKept",
        "The target of the fleet could not be stored, so the next run plans a new one.",
        "Read the message; nothing is lost but time.",
    )
    TIME_SHORT = ("TimeShort", "The run ended before this was done; the next one does it.")
    CANNOT_BE_READ = (
        "CannotBeRead",
        "An object has a field that is not understood, so it is left out or keeps its nodes as they are.",
        "Correct the field that the message names.",
    )
    READ_WITH_RESERVATION = ("Warning", "An object is used, though not all of it is understood.", "Read the message.")
    VALIDATION_FAILED = (
        "ValidationFailed",
        "A NodePool or EC2NodeClass is invalid; its condition says the same.",
        "Correct the field that the message names.",
    )
    LAUNCH_VALIDATED = (
        "LaunchValidated",
        "A new or changed EC2NodeClass was rendered, and EC2 would launch from it; the message names the changed fields.",
    )
    LAUNCH_NOT_VALIDATED = (
        "LaunchNotValidated",
        "EC2 would not launch from a new or changed EC2NodeClass, so it is not ready and its NodePools wait.",
        "Read the message, which is EC2's; the class is asked about again after a minute, later every 15.",
    )
    CATALOGUE_NOT_READ = (
        "NotRead",
        "A part of the market could not be read, so the last one stays in use.",
        "Read the message: most often a permission.",
    )
    QUOTAS_NOT_READ = (
        "QuotasNotRead",
        "EC2's vCPU quotas could not be read: the last count stays in use for half an hour, limits for three; then none bind.",
        "Read the message: most often a permission (servicequotas:ListServiceQuotas, ec2:DescribeInstances).",
    )
    USAGE_RECOUNTED = (
        "UsageRecounted",
        "A NodePool's counters were not the sums of what its claims hold, and were corrected.",
    )
    BREAKER_CLOSED = ("NodePoolBreakerClosed", "A new node of the NodePool is ready, so its breaker closed.")


class FailureReason(ReasonCode):
    """The type of error with which a call or a piece of work failed; the message contains the other side's."""

    TRANSIENT = ("TransientError", "Throttled, timed out, or a fault on the other side; it is tried again.")
    LOST_REPLY = ("LostReplyError", "The request went out and no answer came; it is done again.")
    THROTTLED = ("ThrottledError", "The other side has too much to do; it is tried again later.")
    NOT_FOUND = ("NotFoundError", "The object is not there.")
    CONFLICT = ("ConflictError", "Another writer changed it first; it is checked again.")
    EVICTION_BLOCKED = ("EvictionBlockedError", "The eviction would violate a PodDisruptionBudget.")
    DENIED = (
        "DeniedError",
        "Not allowed, over quota, or asked for something that cannot be.",
        "Compare the function's role and Kubernetes group with the reference of permissions.",
    )
    SEVERAL_BUDGETS = (
        "SeveralBudgetsError",
        "More than one PodDisruptionBudget selects the pod.",
        "Leave one budget that selects the pod.",
    )
    INSUFFICIENT_CAPACITY = ("InsufficientCapacityError", "Nothing could be launched.")
    UNEXPECTED = (
        "UnexpectedError",
        "An error that no call is known to raise; the log has its traceback.",
        "Report it: it is a defect.",
    )
