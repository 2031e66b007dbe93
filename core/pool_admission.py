"""What a NodePool may launch now: types of its classes, pools that are only observed, and quotas that are nearly used up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

import msgspec

from core import labels
from core.model.catalogue import InstanceType
from core.model.node_pool import NodePool
from core.model.snapshot import Snapshot
from core.model.values.quotas import QUOTAS, QuotaReading, VcpuQuota, quota_of
from core.model.values.requirements import Requirements
from core.pools import template_requirements

# Selects the instance types that requirements admit, for callers with few requirements and no planner.


def admitted_types(
    types: Iterable[InstanceType], required: Requirements, keys: frozenset[str]
) -> tuple[InstanceType, ...]:
    """Return the types that may carry the labels as required, and have an available offering in zone and capacity type.

    Args:
        types: The types to choose from.
        required: The requirements; those on labels that no type has are ignored.
        keys: The labels of instance types (`Catalogue.label_keys`): a type without one of them does not meet a requirement on
            it.
    """
    demanded = [key for key, requirement in required.items() if key in keys and not requirement.tolerates_absence]
    return tuple(
        instance_type
        for instance_type in types
        if all(key in instance_type.labels for key in demanded)
        and instance_type.requirements(required).conflict(required) is None
    )


# NodePools whose decisions are only recorded, and the snapshot in which these decisions are made.


def observed_pools(snapshot: Snapshot) -> frozenset[str]:
    """Return the names of the NodePools that are only observed."""
    return frozenset(pool.name for pool in snapshot.node_pools if pool.is_observed)


def as_acting(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with every NodePool acting: decisions on it are those that observed NodePools would carry out."""
    if not observed_pools(snapshot):
        return snapshot
    return msgspec.structs.replace(snapshot, node_pools=tuple(map(_acting, snapshot.node_pools)))


def _acting(pool: NodePool) -> NodePool:
    unmarked = {key: value for key, value in pool.own_annotations.items() if key != labels.MODE}
    return msgspec.structs.replace(pool, own_annotations=unmarked)


_GENERATION: Final = "0123456789"


def short_quotas(pool: NodePool, reading: QuotaReading, now: datetime) -> tuple[str, ...]:
    """Return each short quota with its code and numbers, for people; none if the reading is old."""
    return tuple(_short(template_requirements(pool), reading)) if reading.is_fresh(now) else ()


def _short(requirements: Requirements, reading: QuotaReading) -> Iterator[str]:
    named = set[str]()
    for quota in QUOTAS:
        for capacity_type in (labels.SPOT, labels.ON_DEMAND):
            code = quota.code(capacity_type)
            if code not in named and reading.is_short(code) and _admits(requirements, quota, capacity_type):
                named.add(code)
                numbers = f"{reading.used_of(code)} of {reading.limits[code]} vCPUs run in the account"
                yield f"{quota.described(capacity_type)}: {numbers}"


def _admits(requirements: Requirements, quota: VcpuQuota, capacity_type: str) -> bool:
    """Whether nodes under these requirements may count in a quota, judging by type, family and category."""
    allowed = requirements.get(labels.CAPACITY_TYPE)
    if allowed is not None and not allowed.has(capacity_type):
        return False
    for key in (labels.INSTANCE_TYPE, f"{labels.AWS_GROUP}/instance-family"):
        named = requirements.get(key)
        if named is not None and named.is_finite:
            return any(quota_of(value) == quota for value in named.values)
    category = requirements.get(f"{labels.AWS_GROUP}/instance-category")
    return category is None or any(category.has(family.rstrip(_GENERATION)) for family in quota.families)
