"""Why a pod stays without a place: a closed list, from which the table in the documentation is written."""

from __future__ import annotations

from typing import Final

NO_NODE_POOL: Final = "NoNodePool"
INVALID_POD: Final = "InvalidPod"
OPTED_OUT: Final = "OptedOut"
RESTRICTED_LABEL: Final = "RestrictedLabel"
UNSUPPORTED_AFFINITY: Final = "UnsupportedAffinity"
UNSUPPORTED_RESOURCE_CLAIM: Final = "UnsupportedResourceClaim"
VOLUME_CLAIM_MISSING: Final = "VolumeClaimMissing"
VOLUME_CLAIM_LOST: Final = "VolumeClaimLost"
VOLUME_CLAIM_TERMINATING: Final = "VolumeClaimTerminating"
VOLUME_CLAIM_UNBOUND: Final = "VolumeClaimUnbound"
VOLUME_MISSING: Final = "VolumeMissing"
STORAGE_CLASS_MISSING: Final = "StorageClassMissing"
VOLUMES_DISAGREE: Final = "VolumesDisagree"
TAINT_NOT_TOLERATED: Final = "TaintNotTolerated"
REQUIREMENT_NOT_MET: Final = "RequirementNotMet"
NO_OFFERING_FITS: Final = "NoOfferingFits"
NO_OFFERING_AVAILABLE: Final = "NoOfferingAvailable"
HOST_PORT_TAKEN: Final = "HostPortTaken"
ATTACH_LIMIT: Final = "AttachLimit"
LIMIT_REACHED: Final = "LimitReached"
MIN_VALUES_NOT_MET: Final = "MinValuesNotMet"
TOPOLOGY_SPREAD: Final = "TopologySpread"
POD_AFFINITY: Final = "PodAffinity"
POD_ANTI_AFFINITY: Final = "PodAntiAffinity"

MEANINGS: Final = {
    NO_NODE_POOL: "No NodePool may launch nodes for pods: there is none, or none is ready, dynamic and valid.",
    INVALID_POD: "A field of the pod cannot be read, or selects nodes by a text that no label can have; the message names it.",
    OPTED_OUT: "The pod asks for nodes without karpenter.sh/nodepool, which no NodePool makes.",
    RESTRICTED_LABEL: "The pod selects nodes by a label that users may neither set nor select.",
    UNSUPPORTED_AFFINITY: "Every alternative of the required node affinity uses matchFields or is empty.",
    UNSUPPORTED_RESOURCE_CLAIM: "The pod has resource claims (DRA), which are not planned for.",
    VOLUME_CLAIM_MISSING: "A PersistentVolumeClaim that the pod uses does not exist.",
    VOLUME_CLAIM_LOST: "A PersistentVolumeClaim that the pod uses has lost its volume.",
    VOLUME_CLAIM_TERMINATING: "A PersistentVolumeClaim or volume that the pod uses is being deleted.",
    VOLUME_CLAIM_UNBOUND: "A PersistentVolumeClaim has to be bound first and is not.",
    VOLUME_MISSING: "A claim is bound to a PersistentVolume that does not exist.",
    STORAGE_CLASS_MISSING: "A claim names a StorageClass that does not exist, or none and there is no default.",
    VOLUMES_DISAGREE: "No node can be where all volumes of the pod are.",
    TAINT_NOT_TOLERATED: "The pod tolerates the taints of no NodePool that is open to it otherwise.",
    REQUIREMENT_NOT_MET: "No NodePool has instance types with the labels that the pod demands.",
    NO_OFFERING_FITS: "No instance type that the pod may use is large enough for it and the DaemonSets' pods.",
    NO_OFFERING_AVAILABLE: "Instance types would do, but none of their offerings is available where the pod may run.",
    HOST_PORT_TAKEN: "A DaemonSet's pod takes the host port on every node that could be launched.",
    ATTACH_LIMIT: "No instance type can attach as many volumes as the pod has.",
    LIMIT_REACHED: "A node would do, but the limits of the NodePool leave no room for one.",
    MIN_VALUES_NOT_MET: "Too few kinds of instance types are left for the minValues of the NodePool.",
    TOPOLOGY_SPREAD: "Any place would break a topology spread constraint.",
    POD_AFFINITY: "No place is near the pods that the pod must be near.",
    POD_ANTI_AFFINITY: "Any place is too near pods that must be kept apart.",
}
"""Every code and what it means, in the order of `diagnosis`: the later, the nearer the pod came to a place."""

RANK: Final = {code: rank for rank, code in enumerate(MEANINGS)}
