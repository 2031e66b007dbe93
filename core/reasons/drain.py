"""Reasons why a pod stays on a draining node, and results of the drain."""

from __future__ import annotations

from core.reasons.code import ReasonCode


class EvictionReason(ReasonCode):
    """Why a pod was not evicted."""

    POD_DISRUPTION_BUDGET = (
        "PodDisruptionBudget",
        "A PodDisruptionBudget allows no eviction of its workload's pods.",
        "Give the workload a spare replica, or loosen the budget.",
    )
    SEVERAL_BUDGETS = (
        "SeveralPodDisruptionBudgets",
        "More than one PodDisruptionBudget selects it, which Kubernetes' eviction API refuses.",
        "Keep only one budget that selects the pod.",
    )
    THROTTLED = ("Throttled", "The API server is overloaded.")
    WEBHOOK_FAILED = (
        "WebhookFailed",
        "An admission webhook fails or refuses the request.",
        "Repair the webhook that the message names, or exempt evictions from it.",
    )
    SERVER_ERROR = ("ServerError", "The API server returned an error.")
    NO_REPLY = ("NoReply", "The API server does not answer.")
    DENIED = (
        "Denied",
        "The API server denied the request.",
        "Compare the permissions of the function's Kubernetes group with docs/reference/permissions.md.",
    )


class HeldPodReason(ReasonCode):
    """Why a pod that must leave has not been evicted, or has not gone yet."""

    DO_NOT_DISRUPT = (
        "DoNotDisrupt",
        "The pod has the annotation karpenter.sh/do-not-disrupt.",
        "Remove the annotation when the protected work is done.",
    )
    TERMINATING = ("Terminating", "The pod is being deleted but has not ended yet.")
    NOT_ASKED = ("NotAsked", "Pods of an earlier tier have to leave first.")


class DrainReason(ReasonCode):
    """Results of a drain."""

    SLOW = ("DrainSlow", "No pod has left the node for 5 minutes; the events of its pods say why.")
    BLOCKED = (
        "DrainBlocked",
        "No pod has left the node for 15 minutes.",
        "Read the message: it names the pod or volume that blocks the drain.",
    )
    LASTING = (
        "DrainLasting",
        "No pod has left the node for an hour; the drain is cancelled if the node may stay.",
        "Read the message: it names the pod or volume that blocks the drain.",
    )
    ALARMING = (
        "DrainAlarming",
        "No pod has left the node for a day, and the node must be removed.",
        "Move or delete the pod that the message names, or detach the volume.",
    )
    NO_ROOM_TO_GIVE_BACK = (
        "LimitReached",
        "The drain cannot be cancelled: the NodePool is gone or invalid, or its limits have no room for the node.",
    )
    DEADLINE_REACHED = (
        "TerminationGracePeriodElapsed",
        "The node's terminationGracePeriod has elapsed, so the pod was deleted regardless of budgets.",
    )
    SURGE_RESTART = (
        "SurgeRestart",
        "The pod's Deployment is restarted, so that its new pod starts on another node first.",
    )
    SURGE_REFUSED = (
        "SurgeRefused",
        "The pod's Deployment is not restarted, although its owner allows it; the message says why.",
        "Use the strategy RollingUpdate with maxSurge 1 and maxUnavailable 0.",
    )
    SURGE_DENIED = (
        "SurgeDenied",
        "The API server denied the restart of the pod's Deployment.",
        "Compare the permissions of the function's Kubernetes group with docs/reference/permissions.md.",
    )
    SURGE_FAILED = ("SurgeFailed", "The pod's Deployment could not be restarted; the restart is retried.")
