"""The market that the command line and the simulator have built in."""

from __future__ import annotations

import gzip
import time

import pytest

from core import labels
from core.errors import InvalidInputError
from core.model.values.quantity import nanodollars
from simulator.market.embedded import DATA, REGIONS, builtin_catalogue
from simulator.market.generate import generate


def test_the_built_in_market_is_what_its_sources_give() -> None:
    """Somebody edited the file by hand, or forgot to generate it again."""
    built_in = (DATA / "us-east-1.market.json.gz").read_bytes()
    assert gzip.decompress(built_in) == gzip.decompress(generate())  # the bytes of the wrapping differ between Pythons


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


def test_an_unknown_region_says_which_are_known() -> None:
    """A user who passes --region eu-west-1 must learn what to do instead."""
    with pytest.raises(InvalidInputError, match=REGIONS[0]):
        builtin_catalogue("eu-west-1")
