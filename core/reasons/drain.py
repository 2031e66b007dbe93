"""Reasons why a pod stays on a draining node, and results of the drain."""

from __future__ import annotations

from core.reasons.code import ReasonCode


class EvictionReason(ReasonCode):
    """Why a pod was not evicted."""

    POD_DISRUPTION_BUDGET = (
        "PodDisruptionBudget",
        "A PodDisruptionBudget lets no pod of its application go.",
        "Give the workload a replica to spare, or loosen the budget.",
    )
    SEVERAL_BUDGETS = (
        "SeveralPodDisruptionBudgets",
        "More than one PodDisruptionBudget selects it, which Kubernetes' eviction API refuses.",
        "Leave one budget that selects the pod.",
    )
    THROTTLED = ("Throttled", "The API server has too much to do.")
    WEBHOOK_FAILED = (
        "WebhookFailed",
        "An admission webhook fails or refuses.",
        "Repair the webhook that the message names, or exempt evictions from it.",
    )
    SERVER_ERROR = ("ServerError", "The API server answers with an error.")
    NO_REPLY = ("NoReply", "The API server does not answer.")
    DENIED = (
        "Denied",
        "The API server does not permit it.",
        "Compare the function's Kubernetes group with the reference.",
    )


class HeldPodReason(ReasonCode):
    """Why a pod that must leave has not been evicted, or has not gone yet."""

    DO_NOT_DISRUPT = (
        "DoNotDisrupt",
        "The pod carries karpenter.sh/do-not-disrupt.",
        "Remove the annotation when the work that it protects is done.",
    )
    TERMINATING = ("Terminating", "The pod is being deleted and has not ended yet.")
    NOT_ASKED = ("NotAsked", "Pods of an earlier tier have to leave first.")


class DrainReason(ReasonCode):
    """Results of a drain."""

    SLOW = ("DrainSlow", "No pod has left the node for 5 minutes; its pods' events say why.")
    BLOCKED = (
        "DrainBlocked",
        "No pod has left the node for 15 minutes.",
        "Read the message: it names the pod that stays.",
    )
    LASTING = (
        "DrainLasting",
        "No pod has left the node for an hour; it is given back where it may stay.",
        "Read the message: it names the pod that stays.",
    )
    ALARMING = (
        "DrainAlarming",
        "No pod has left the node for a day, and it must go.",
        "Move or delete the pod that the message names; only a person can.",
    )
    NO_ROOM_TO_GIVE_BACK = (
        "LimitReached",
        "The drain cannot be given back: the NodePool is gone, invalid, or its limits have no room any more.",
    )
    DEADLINE_REACHED = (
        "TerminationGracePeriodElapsed",
        "The time of the node is up, so the pod was deleted without asking any budget.",
    )
    SURGE_RESTART = ("SurgeRestart", "The pod's Deployment is restarted, so that its new pod is up elsewhere first.")
    SURGE_REFUSED = (
        "SurgeRefused",
        "The pod's Deployment is not restarted, although its owner allows it; the message says why.",
        "Use the strategy RollingUpdate with maxSurge of 1 and maxUnavailable 0.",
    )
    SURGE_DENIED = (
        "SurgeDenied",
        "The API server does not permit the restart of the pod's Deployment.",
        "Compare the function's Kubernetes group with the reference.",
    )
    SURGE_FAILED = ("SurgeFailed", "The pod's Deployment could not be restarted; it is tried again.")
