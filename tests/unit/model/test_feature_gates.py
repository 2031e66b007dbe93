"""The functions and the command line read FEATURE_GATES in the same way."""

from __future__ import annotations

import pytest

from core.errors import InvalidInputError
from core.model.feature_gates import GATES, FeatureGates, GivenGates, parse_feature_gates


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", FeatureGates()),
        ("SpotToSpotConsolidation=true", FeatureGates(spot_to_spot_consolidation=True)),
        ("NodeOverlay=1, ReservedCapacity=F,", FeatureGates(node_overlay=True, reserved_capacity=False)),
        ("NodeOverlay = T", FeatureGates(node_overlay=True)),
    ],
)
def test_gates_are_read_as_karpenter_reads_them(text: str, expected: FeatureGates) -> None:
    """In a migration, the same variable is used for both."""
    assert parse_feature_gates(text) == GivenGates(expected)


def test_names_of_other_releases_are_ignored_and_returned() -> None:
    assert parse_feature_gates("Unheard=true,NodeRepair=true") == GivenGates(
        FeatureGates(node_repair=True), unknown=("Unheard",)
    )


@pytest.mark.parametrize("text", ["NodeOverlay", "NodeOverlay=yes", "=,x"])
def test_a_malformed_entry_is_refused(text: str) -> None:
    """A gate that a typo leaves off is hard to find."""
    with pytest.raises(InvalidInputError, match="FEATURE_GATES"):
        parse_feature_gates(text)


def test_every_gate_has_a_name() -> None:
    assert sorted(GATES.values()) == sorted(FeatureGates.__struct_fields__)
