"""Annotations of NodePools that say how it is disrupted and which nodes it launches."""

from __future__ import annotations

import pytest

from core import labels
from core.api.schemas.tuning import evictions_per_hour, expires_forcefully, largest_node, price_factors


@pytest.mark.parametrize(("value", "forced"), [("Forceful", True), ("Graceful", False), ("", False)])
def test_only_one_word_makes_expiry_end_nodes_against_their_protection(value: str, *, forced: bool) -> None:
    assert expires_forcefully({labels.EXPIRY: value}) is forced
    assert expires_forcefully({}) is False


def test_what_is_not_said_limits_nothing() -> None:
    assert (price_factors({}), largest_node({}), evictions_per_hour({})) == ({}, {}, None)


def test_amounts_are_integers_of_the_core() -> None:
    assert price_factors({labels.PRICE_FACTORS: "m5a=1.2,c5=0.95"}) == {"m5a": 1200, "c5": 950}
    assert largest_node({labels.LARGEST_NODE: "cpu=16,memory=64Gi"}) == {"cpu": 16_000, "memory": 64 * 2**30}
    assert evictions_per_hour({labels.EVICTIONS_PER_HOUR: "0"}) == 0
