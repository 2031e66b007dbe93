"""Prices of NodePools whose nodes run on dedicated hardware."""

from __future__ import annotations

import msgspec

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.node_pool import NodePool
from core.model.values.quantity import PPM
from core.pools.pool_template import template_requirements


def is_dedicated(pool: NodePool) -> bool:
    """Whether the NodePool excludes shared hardware."""
    tenancy = template_requirements(pool).get(labels.TENANCY)
    return tenancy is not None and not tenancy.has(labels.SHARED_TENANCY)


def surcharged(found: InstanceType, ppm: int) -> InstanceType:
    """Return the type at prices that are higher by these millionths; places in reservations stay paid for."""
    return msgspec.structs.replace(found, offerings=tuple(_surcharged(one, ppm) for one in found.offerings))


def _surcharged(offering: Offering, ppm: int) -> Offering:
    if offering.capacity_type == labels.RESERVED:
        return offering
    return msgspec.structs.replace(offering, price=offering.price * (PPM + ppm) // PPM)
