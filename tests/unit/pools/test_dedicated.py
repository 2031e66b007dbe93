"""Dedicated hardware costs more than the catalogue says."""

from __future__ import annotations

from core import labels
from core.model.node_pool import NodePool
from core.model.snapshot import Options
from core.model.values.requirements import Requirement
from core.pools.dedicated import is_dedicated
from core.pools.pool_types import pool_types
from tests.builders import a_pool, a_snapshot, a_type

DEDICATED = Requirement.one_of(labels.TENANCY, "dedicated")
SURCHARGE = Options(dedicated_ppm=62_500)
TYPE = a_type(price=0.1, zones=("us-east-1a",), capacity_types=(labels.ON_DEMAND, labels.RESERVED))


def prices(pool: NodePool, options: Options = SURCHARGE) -> dict[str, int]:
    snapshot = a_snapshot(types=(TYPE,), node_pools=(pool,), options=options)
    (found,) = pool_types(snapshot).of("default")
    return {one.capacity_type: one.price for one in found.offerings}


def test_nodes_of_a_pool_for_dedicated_hardware_alone_cost_more() -> None:
    """Places in reservations are paid for, whatever hardware they are on."""
    assert prices(a_pool("default", DEDICATED)) == {"on-demand": 106_250_000, "reserved": 0}


def test_a_pool_that_admits_shared_hardware_is_launched_on_it() -> None:
    either = Requirement.one_of(labels.TENANCY, "dedicated", "default")
    for pool in (a_pool("default"), a_pool("default", either)):
        assert not is_dedicated(pool)
        assert prices(pool)["on-demand"] == 100_000_000


def test_without_a_surcharge_the_types_are_the_catalogues_own() -> None:
    snapshot = a_snapshot(types=(TYPE,), node_pools=(a_pool("default", DEDICATED),))
    assert pool_types(snapshot).of("default") is snapshot.catalogue.default
