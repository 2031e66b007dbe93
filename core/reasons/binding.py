"""Reasons why a pod is not bound to the node that was launched for it, and is left to kube-scheduler or to a later turn."""

from __future__ import annotations

from core.reasons.code import ReasonCode


class BindingReason(ReasonCode):
    """Why our functions do not bind a pod."""

    LEFT_TO_SCHEDULER = (
        "LeftToScheduler",
        "The pod has a volume, a device, a gate, a group or a scheduler of its own, so kube-scheduler binds it.",
    )
    UNTOLERATED_TAINT = ("UntoleratedTaint", "The pod does not tolerate a taint of the node.")
    NODE_AFFINITY = ("NodeAffinity", "The pod's node selector or node affinity does not admit the node.")
    NO_ROOM = ("NoRoom", "The node has too little left of a resource, as other pods came first.")
    HOST_PORT_TAKEN = ("HostPortTaken", "A pod of the node has the host port.")
    TOPOLOGY_SPREAD = ("TopologySpread", "The pod's topology spread waits for pods of other nodes.")
    POD_AFFINITY = ("PodAffinity", "The pod waits for the pods that it has an affinity to.")
    POD_ANTI_AFFINITY = ("PodAntiAffinity", "The pod's anti-affinity, or that of a pod that runs, closes the node.")
    OUTRANKED = ("Outranked", "A pod of a higher priority waits that would fit on the node.")
    SMALLER_THAN_PLANNED = (
        "SmallerThanPlanned",
        "The node offers less than was planned for it, so kube-scheduler chooses its pods.",
        "Compare the node's allocatable with its NodeClaim; the kubelet's reservations may be larger than assumed.",
    )
    BINDING_REFUSED = (
        "BindingRefused",
        "The API server refused several bindings, so the claim's other pods are left to kube-scheduler.",
        "Read the message: a webhook, or a missing permission (create on pods/binding).",
    )
    HELD_TOO_LONG = ("HeldTooLong", "The pod's turn did not come in time, so the node is opened without it.")
