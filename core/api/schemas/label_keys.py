"""Decides which label keys users may set or require (Karpenter's restricted domains, with the AWS provider's list)."""

from __future__ import annotations

from typing import Final

from core import labels

RESTRICTED: Final = "is a restricted label: its domain belongs to the provisioner"

_FREE_IN_CORE: Final = frozenset({labels.CAPACITY_TYPE, labels.NODEPOOL})
_FREE_IN_AWS: Final = frozenset(key for key in labels.WELL_KNOWN if key.startswith(f"{labels.AWS_GROUP}/")) | {
    labels.NODECLASS
}
_NOT_IN_OVERLAYS: Final = {
    labels.PLACEMENT_GROUP_ID,
    labels.PLACEMENT_GROUP_PARTITION,
    labels.RESERVATION_ID,
    labels.RESERVATION_TYPE,
    labels.RESERVATION_INTERRUPTIBLE,
    f"{labels.AWS_GROUP}/instance-tenancy",
}


def cel_is_free(key: str, *, for_overlay: bool = False) -> str:
    """The opposite of `is_restricted` for the API server: an expression over `key`, itself one."""
    of_aws = _FREE_IN_AWS - _NOT_IN_OVERLAYS if for_overlay else _FREE_IN_AWS
    domain = f"{key}.split('/')[0]"
    return (
        f"{key} != '{labels.HOSTNAME}'"
        f" && (!{domain}.endsWith('{labels.CORE_GROUP}') || {key} in {sorted(_FREE_IN_CORE)})"
        f" && (!{domain}.endsWith('{labels.AWS_GROUP}') || {key} in {sorted(of_aws)})"
    )


def is_restricted(key: str, *, for_overlay: bool = False) -> bool:
    """Whether users may not use this key in NodePools and NodeClaims, or in NodeOverlays."""
    if key == labels.HOSTNAME:
        return True
    domain = key.partition("/")[0]
    if domain.endswith(labels.CORE_GROUP):
        return key not in _FREE_IN_CORE
    if domain.endswith(labels.AWS_GROUP):
        return key not in _FREE_IN_AWS or (for_overlay and key in _NOT_IN_OVERLAYS)
    return False
