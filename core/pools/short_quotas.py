"""Says which of EC2's vCPU quotas are nearly used up, of those that the nodes of a NodePool count in."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from core import labels
from core.model.node_pool import NodePool
from core.model.values.quota_reading import USED_FRESH_FOR, QuotaReading
from core.model.values.requirements import Requirements
from core.model.values.vcpu_quotas import QUOTAS, VcpuQuota, quota_of
from core.pools.pool_template import template_requirements

SHORT_PERCENT: Final = 90
"""From this share on a quota is short: a raise takes Service Quotas hours to days."""


def short_quotas(pool: NodePool, reading: QuotaReading, now: datetime) -> tuple[str, ...]:
    """Return each short quota with its code and numbers, for people; none where the reading is old."""
    return () if now - reading.used_read_at > USED_FRESH_FOR else tuple(_short(template_requirements(pool), reading))


def _short(requirements: Requirements, reading: QuotaReading) -> Iterator[str]:
    for quota in QUOTAS:
        for capacity_type in (labels.SPOT, labels.ON_DEMAND):
            code = quota.code(capacity_type)
            limit = reading.limits.get(code, 0)
            used = sum(own.get(code, 0) for own in reading.used.values())
            is_short = limit > 0 and used * 100 >= limit * SHORT_PERCENT
            if is_short and _admits(requirements, quota, capacity_type):
                yield f"{quota.described(capacity_type)}: {used} of {limit} vCPUs run in the account"


def _admits(requirements: Requirements, quota: VcpuQuota, capacity_type: str) -> bool:
    """Whether nodes under these requirements may count in a quota, as far as type, family and category tell."""
    allowed = requirements.get(labels.CAPACITY_TYPE)
    if allowed is not None and not allowed.has(capacity_type):
        return False
    for key in (labels.INSTANCE_TYPE, f"{labels.AWS_GROUP}/instance-family"):
        named = requirements.get(key)
        if named is not None and named.is_finite:
            return any(quota_of(value) == quota for value in named.values)
    category = requirements.get(f"{labels.AWS_GROUP}/instance-category")
    return category is None or any(category.has(family) for family in quota.families)
