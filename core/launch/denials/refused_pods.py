"""Explains to waiting pods which of their launches EC2 denies or has no capacity for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from core.launch.denials.denial import LaunchDenial
from core.model.plan import PlannedClaim, Unschedulable
from core.reasons.pod import PodReason

REFUSED: Final = (
    "EC2 recently had no capacity for any suitable offering; offerings are retried after some minutes. Allow more instance "
    "types, zones or capacity types in the NodePool."
)


def with_refusals(
    unschedulable: Iterable[Unschedulable], launchable: Iterable[PlannedClaim], denials: Iterable[LaunchDenial]
) -> tuple[Unschedulable, ...]:
    """Return the pods without a place; if only EC2's refusal keeps a pod from a node, that refusal is its reason.

    Of several denials of an EC2NodeClass, one that a person can resolve comes before missing capacity.

    Args:
        unschedulable: Pods without a place.
        launchable: The claims that would be launched for them if EC2 refused nothing.
        denials: The denials that currently prevent launches.
    """
    classes = {pod: claim.node_class.name for claim in launchable for pod in claim.pods}
    first: dict[str, LaunchDenial] = {}
    for denial in sorted(denials, key=lambda found: (found.names_capacity(), found.code)):
        first.setdefault(denial.node_class, denial)
    return tuple(_explained(found, classes, first) for found in unschedulable)


def _explained(found: Unschedulable, classes: Mapping[str, str], denials: Mapping[str, LaunchDenial]) -> Unschedulable:
    if found.pod not in classes:
        return found
    denial = denials.get(classes[found.pod])
    if denial is not None and not denial.names_capacity():
        return msgspec.structs.replace(found, reason=PodReason.LAUNCH_DENIED, message=denial.explanation())
    return msgspec.structs.replace(found, reason=PodReason.NO_OFFERING_AVAILABLE, message=REFUSED)
