"""Reasons why a pod stays without a place."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from core.reasons.code import ReasonCode


class PodReason(ReasonCode):
    """Code of `unschedulable[].reason`, in the order of `diagnosis`: later codes mean that the pod came nearer to a place."""

    NO_NODE_POOL = (
        "NoNodePool",
        "No NodePool may launch nodes for pods: there is none, or none is ready, dynamic and valid.",
        "Create a NodePool, or read the conditions of those that exist.",
    )
    INVALID_POD = (
        "InvalidPod",
        "A field of the pod cannot be read, or selects nodes by a text that no label can have; the message names it.",
        "Correct the field in the pod's template.",
    )
    OPTED_OUT = (
        "OptedOut",
        "The pod asks for nodes without karpenter.sh/nodepool, which no NodePool makes.",
        "Nothing, if another system launches nodes for it; else remove that term from its node affinity.",
    )
    RESTRICTED_LABEL = (
        "RestrictedLabel",
        "The pod selects nodes by a label that users may neither set nor select.",
        "Select by a well-known label or by one of your own.",
    )
    UNSUPPORTED_AFFINITY = (
        "UnsupportedAffinity",
        "Every alternative of the required node affinity uses matchFields or is empty.",
        "Write the affinity with matchExpressions.",
    )
    UNSUPPORTED_RESOURCE_CLAIM = (
        "UnsupportedResourceClaim",
        "The pod has resource claims (DRA), which are not planned for.",
        "Run it on nodes that are there already, or ask for an extended resource of a device plugin.",
    )
    VOLUME_CLAIM_MISSING = (
        "VolumeClaimMissing",
        "A PersistentVolumeClaim that the pod uses does not exist.",
        "Create the claim in the pod's namespace.",
    )
    VOLUME_CLAIM_LOST = (
        "VolumeClaimLost",
        "A PersistentVolumeClaim that the pod uses has lost its volume.",
        "Restore the volume, or replace the claim.",
    )
    VOLUME_CLAIM_TERMINATING = (
        "VolumeClaimTerminating",
        "A PersistentVolumeClaim or volume that the pod uses is being deleted.",
        "Wait for the deletion to end, then create it again.",
    )
    VOLUME_CLAIM_UNBOUND = (
        "VolumeClaimUnbound",
        "A PersistentVolumeClaim has to be bound first and is not.",
        "Check the provisioner of its StorageClass; with volumeBindingMode WaitForFirstConsumer it need not be bound first.",
    )
    VOLUME_MISSING = (
        "VolumeMissing",
        "A claim is bound to a PersistentVolume that does not exist.",
        "Restore the volume, or replace the claim.",
    )
    STORAGE_CLASS_MISSING = (
        "StorageClassMissing",
        "A claim names a StorageClass that does not exist, or none and there is no default.",
        "Create the StorageClass, or make one the default.",
    )
    VOLUMES_DISAGREE = (
        "VolumesDisagree",
        "No node can be where all volumes of the pod are.",
        "Move the volumes into one zone.",
    )
    TAINT_NOT_TOLERATED = (
        "TaintNotTolerated",
        "Every NodePool that could run the pod has a taint that it does not tolerate.",
        "Add a toleration to the pod, or a NodePool without the taint.",
    )
    REQUIREMENT_NOT_MET = (
        "RequirementNotMet",
        "No NodePool has instance types with the labels that the pod demands.",
        "Loosen the pod's node selector or affinity, or the requirements of a NodePool.",
    )
    NO_OFFERING_FITS = (
        "NoOfferingFits",
        "No instance type that the pod may use is large enough for it and the DaemonSets' pods.",
        "Lower the pod's requests, or admit larger instance types in a NodePool.",
    )
    NO_OFFERING_AVAILABLE = (
        "NoOfferingAvailable",
        "Instance types would do, but none of their offerings is available where the pod may run.",
        "Wait: offerings that EC2 refused are tried again after minutes; more zones, types or capacity types help sooner.",
    )
    LAUNCH_DENIED = (
        "LaunchDenied",
        "EC2 denies launches from the EC2NodeClass: a permission, a quota, or something that the class names.",
        "The message has EC2's code and what to do; condition LaunchDenied of NodePool and EC2NodeClass says the same.",
    )
    HOST_PORT_TAKEN = (
        "HostPortTaken",
        "A DaemonSet's pod takes the host port on every node that could be launched.",
        "Give the pod or the DaemonSet another host port.",
    )
    ATTACH_LIMIT = (
        "AttachLimit",
        "No instance type can attach as many volumes as the pod has.",
        "Spread the volumes over more pods, or admit instance types that attach more.",
    )
    LIMIT_REACHED = (
        "LimitReached",
        "A node would do, but the limits of the NodePool leave no room for one.",
        "Raise spec.limits of the NodePool, or wait for other nodes of it to go.",
    )
    QUOTA_REACHED = (
        "QuotaReached",
        "A node would do, but a vCPU quota of EC2 leaves no room for one; the message has its code.",
        "Ask Service Quotas for more, or admit another capacity type or families with a quota of their own in the NodePool.",
    )
    MIN_VALUES_NOT_MET = (
        "MinValuesNotMet",
        "Too few kinds of instance types are left for the minValues of the NodePool.",
        "Lower minValues, or admit more instance types in the NodePool.",
    )
    TOPOLOGY_SPREAD = (
        "TopologySpread",
        "Any place would break a topology spread constraint.",
        "Admit more zones in a NodePool, or raise maxSkew.",
    )
    POD_AFFINITY = (
        "PodAffinity",
        "No place is near the pods that the pod must be near.",
        "Check that those pods run, and where; a zone without capacity for this pod cannot be chosen.",
    )
    POD_ANTI_AFFINITY = (
        "PodAntiAffinity",
        "Any place is too near pods that must be kept apart.",
        "Admit more zones in a NodePool, or prefer the distance instead of requiring it.",
    )


RANK: Final[Mapping[str, int]] = MappingProxyType({code: rank for rank, code in enumerate(PodReason)})
"""Code → how near the pod came to a place."""
