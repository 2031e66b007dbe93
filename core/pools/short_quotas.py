"""Finds the vCPU quotas of a NodePool's instance types that are nearly used up."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from core import labels
from core.model.node_pool import NodePool
from core.model.values.quota_reading import QuotaReading
from core.model.values.requirements import Requirements
from core.model.values.vcpu_quotas import QUOTAS, VcpuQuota, quota_of
from core.pools.pool_template import template_requirements

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
