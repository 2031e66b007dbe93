"""The market that the command line and the simulator have built in."""

from __future__ import annotations

import gzip
import time

import pytest

from core import labels
from core.errors import InvalidInputError
from core.model.values.quantity import nanodollars
from simulator.market.embedded import (
    OFFERINGS,
    TYPES,
    builtin_catalogue,
    builtin_market,
    builtin_shapes,
    priced_on,
    regions,
    source_of,
)
from simulator.market.generate import offers, types


def test_the_built_in_market_is_what_its_sources_give() -> None:
    """Somebody edited a file by hand, or forgot to generate them again."""
    assert gzip.decompress(TYPES.read_bytes()) == types()
    assert gzip.decompress(OFFERINGS.read_bytes()) == offers(builtin_shapes())


def test_the_built_in_catalogue_is_large_priced_and_quick() -> None:
    """The command line waits for it on every start."""
    builtin_catalogue("us-east-1")
    started = time.process_time()
    built = {t.name: t for t in builtin_catalogue("us-east-1").default}
    assert time.process_time() - started < 1.0
    assert len(built) > 1300
    by_offering = {(o.zone, o.capacity_type): o.price for o in built["c5.4xlarge"].offerings}
    assert by_offering["us-east-1a", labels.ON_DEMAND] == nanodollars("0.68")
    for name, instance_type in built.items():
        on_demand = {o.zone: o.price for o in instance_type.offerings if o.capacity_type == labels.ON_DEMAND}
        for offering in instance_type.offerings:
            if offering.capacity_type == labels.SPOT and offering.zone in on_demand:
                assert 0.29 < offering.price / on_demand[offering.zone] < 0.46, name


@pytest.mark.parametrize("region", regions())
def test_every_region_sells_priced_types_in_its_zones(region: str) -> None:
    """A region whose table is empty or mistyped would leave all pods without a node."""
    offerings = [
        offering for instance_type in builtin_catalogue(region).default for offering in instance_type.offerings
    ]
    assert len({offering.instance_type for offering in offerings}) > 140
    assert {offering.zone[:-1] for offering in offerings} == {region}
    assert all(offering.price > 0 for offering in offerings)
    assert priced_on(region) >= "2025-04-04"


def test_an_unknown_region_says_which_are_known() -> None:
    """A user of an isolated region must learn what to do instead."""
    with pytest.raises(InvalidInputError, match=r"'us-iso-east-1'.*eu-west-1"):
        builtin_catalogue("us-iso-east-1")


def test_a_type_that_a_region_sells_and_its_list_lacks_has_an_estimated_price() -> None:
    """Lists of 2025 lack m8i, and a NodePool of current types could be planned in us-east-1 alone."""
    virginia, ireland = builtin_market("us-east-1").on_demand, builtin_market("eu-west-1").on_demand
    assert ireland["m8i.large"] == virginia["m8i.large"] * ireland["m7i.large"] // virginia["m7i.large"] // 1000 * 1000
    assert source_of("eu-west-1") != source_of("us-east-1")
    assert "p6-b300.48xlarge" not in builtin_market("ap-northeast-2").on_demand
