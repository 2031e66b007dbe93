"""Annotations of NodePools that say how it is disrupted and which nodes it launches."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from core import labels
from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas.tuning import (
    bad_evictions_per_hour,
    bad_expiry,
    bad_largest_node,
    bad_mode,
    bad_moves,
    bad_prefix_delegation,
    bad_price_factors,
    evictions_per_hour,
    expires_forcefully,
    largest_node,
    price_factors,
)
from core.model.snapshot import BALANCED_MOVES, GENTLE_MOVES, THOROUGH_MOVES


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


@pytest.mark.parametrize(
    ("broken", "name", "good", "bad"),
    [
        (bad_evictions_per_hour, labels.EVICTIONS_PER_HOUR, ["0", "50", "9" * 9], ["", "-1", "1.5", "many", "9" * 10, "5 "]),
        (bad_moves, labels.MOVES, [THOROUGH_MOVES, BALANCED_MOVES, GENTLE_MOVES], ["", "x", f"{BALANCED_MOVES} "]),
        (bad_expiry, labels.EXPIRY, ["WithinBudgets", "Forceful"], ["", "Graceful", "forceful"]),
        (bad_mode, labels.MODE, [labels.OBSERVE], ["", "Act"]),
        (bad_price_factors, labels.PRICE_FACTORS, ["m5a=1.2", "m5a=1.2,m8g=0.85", "m5a=1.2, c5=1"],
         ["", "m5a", "m5a=", "=1.2", "m5a=0", "m5a=1.2,c5=0", "m5a=-1", "m5a=1.2;c5=1", "m5a=0.0001"]),
        (bad_largest_node, labels.LARGEST_NODE, ["cpu=64", "cpu=64,memory=256Gi", "memory=1Gi"],
         ["", "cpu", "cpu=", "gpu=1", "cpu=64;memory=1Gi", "cpu=-1"]),
        (bad_prefix_delegation, labels.PREFIX_DELEGATION, ["true", "false"], ["", "True", "yes"]),
    ],
)  # fmt: skip
def test_each_annotation_has_its_own_values(
    broken: Callable[[JsonObject], list[Location]], name: str, good: list[str], bad: list[str]
) -> None:
    """One that is mistyped would otherwise be ignored, silently."""
    assert broken({}) == broken({"annotations": {"other": "x"}}) == []
    assert [text for text in (*good, *bad) if broken({"annotations": {name: text}})] == bad
    assert broken({"annotations": {name: bad[0]}}) == [("annotations", name)]
