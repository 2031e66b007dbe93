"""Reasons why a pod is not bound to the node that was launched for it, and is left to kube-scheduler or to a later turn."""

from __future__ import annotations

from core.reasons.code import ReasonCode


class BindingReason(ReasonCode):
    """Why our functions do not bind a pod."""

    LEFT_TO_SCHEDULER = (
        "LeftToScheduler",
        "The pod has a volume, a device, a scheduling gate, a pod group or another scheduler, so it is left to the scheduler.",
    )
    UNTOLERATED_TAINT = ("UntoleratedTaint", "The pod does not tolerate a taint of the node.")
    NODE_AFFINITY = ("NodeAffinity", "The pod's node selector or node affinity does not admit the node.")
    NO_ROOM = ("NoRoom", "The node has too little of a resource left: other pods were bound first.")
    HOST_PORT_TAKEN = ("HostPortTaken", "A pod on the node already uses the host port.")
    TOPOLOGY_SPREAD = ("TopologySpread", "The pod's topology spread waits for pods on other nodes.")
    POD_AFFINITY = ("PodAffinity", "The pod waits for the pods that its affinity selects.")
    POD_ANTI_AFFINITY = ("PodAntiAffinity", "The pod's anti-affinity, or that of a running pod, excludes the node.")
    OUTRANKED = ("Outranked", "A waiting pod of higher priority would fit on the node.")
    SMALLER_THAN_PLANNED = (
        "SmallerThanPlanned",
        "The node has less capacity than planned, so kube-scheduler chooses its pods.",
        "Compare the node's allocatable with its NodeClaim; the kubelet's reservations may be larger than assumed.",
    )
    BINDING_REFUSED = (
        "BindingRefused",
        "The API server refused several bindings, so the claim's other pods are left to kube-scheduler.",
        "Read the message: the cause is a webhook, or a missing permission (create on pods/binding).",
    )
    HELD_TOO_LONG = ("HeldTooLong", "The pod could not be bound in time, so the node is opened without it.")
