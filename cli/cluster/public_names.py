"""Recognizes texts of a cluster's objects that do not identify the cluster."""

from __future__ import annotations

import re
from typing import Final

from core import labels

PUBLIC_DOMAINS: Final = (
    "kubernetes.io",
    "k8s.io",
    "karpenter.sh",
    "karpenter.k8s.aws",
    "eks.amazonaws.com",
    "k8s.aws",
    "fleetwright.dev",
)
_PUBLIC_DRIVERS: Final = (".csi.aws.com", ".csi.eks.amazonaws.com")
_PUBLIC_GROUPS: Final = ("", "apps", "batch", "autoscaling", "policy", "extensions")
_PUBLIC_RESOURCES: Final = (
    *("cpu", "memory", "pods", "ephemeral-storage", "nodes", "storage"),
    *(
        "nvidia.com/",
        "amd.com/",
        "aws.amazon.com/",
        "vpc.amazonaws.com/",
        "habana.ai/",
        "hugepages-",
        "attachable-volumes-",
    ),
)
_IDS: Final = {labels.NODEPOOL, labels.RESERVATION_ID, labels.PLACEMENT_GROUP_ID}
"""Labels that all nodes have, but whose values name objects of the user."""

_PUBLIC_VALUES_OF: Final = (labels.WELL_KNOWN - _IDS) | {
    labels.ZONE_ID,
    *labels.ALIASES,
    "karpenter.sh/initialized",
    "karpenter.sh/registered",
    "karpenter.sh/do-not-disrupt",
}
_PUBLIC_TEXTS: Final = ("default-scheduler", "system-cluster-critical", "system-node-critical", "*")
_TELLS_NOTHING: Final = re.compile(r"-?[0-9]{1,11}(\.[0-9]{1,9})?|true|false|True|False|Unknown|")
"""Longer numbers may be the id of an account, or a hash."""
_FIELD_KEYS: Final = ("metadata.name",)
_PUBLIC_ANNOTATIONS: Final = (
    *(labels.DO_NOT_DISRUPT, labels.POD_DELETION_COST, labels.STEERED, labels.SURGE, labels.MODE, labels.MOVES),
    *(labels.NODEPOOL_HASH_VERSION, labels.NODECLASS_HASH_VERSION, labels.TERMINATION_TIMESTAMP, labels.EXPIRY),
    *(labels.MIN_VALUES_RELAXED, labels.PRICE_FACTORS, labels.LARGEST_NODE, labels.EVICTIONS_PER_HOUR),
    labels.PREFIX_DELEGATION,
    *("pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"),
    *("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"),
)
"""Annotations that decisions read, and whose values are numbers, times, fixed words or instance types."""


def is_public_key(key: str) -> bool:
    """Whether a key of a label or annotation, or a finalizer, is common to all clusters."""
    domain = key.partition("/")[0] if "/" in key else ""
    return key in _FIELD_KEYS or any(domain == known or domain.endswith(f".{known}") for known in PUBLIC_DOMAINS)


def has_public_values(key: str) -> bool:
    """Whether all values of a label are defined by Kubernetes or AWS."""
    return labels.normalized(key) in _PUBLIC_VALUES_OF


def has_public_text(annotation: str) -> bool:
    """Whether the value of an annotation may be shown."""
    return annotation in _PUBLIC_ANNOTATIONS


def is_public_text(text: str) -> bool:
    """Whether a text in the place of a name is not a user's name, or one that every cluster has."""
    return bool(_TELLS_NOTHING.fullmatch(text)) or text in _PUBLIC_TEXTS


def is_public_resource(resource: str) -> bool:
    """Whether a container resource is common to all clusters."""
    return resource.startswith(_PUBLIC_RESOURCES)


def is_public_driver(driver: str) -> bool:
    """Whether a CSI driver or provisioner of volumes is AWS' or Kubernetes' own."""
    return driver.endswith(_PUBLIC_DRIVERS) or is_public_key(driver)


def is_public_group(api_version: str) -> bool:
    """Whether an API group, with or without its version, is Kubernetes', Karpenter's or ours."""
    group = api_version.partition("/")[0] if "/" in api_version or "." in api_version else ""
    return group in _PUBLIC_GROUPS or is_public_key(f"{group}/")
