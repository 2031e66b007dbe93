"""The eviction cost of a pod, which orders nodes and decides which of them are empty."""

from __future__ import annotations

import pytest

from core import labels
from core.disruption.candidates.eviction_cost import UNIT, eviction_cost, reschedule_cost
from tests.builders import a_pod


@pytest.mark.parametrize(
    ("written", "priority", "expected"),
    [
        ("", 0, UNIT),
        ("100", 0, UNIT + 100),
        ("-100", 0, UNIT - 100),
        ("-5", 0, UNIT - 5),
        ("+5", 0, UNIT + 5),
        ("--5", 0, UNIT),
        ("much", 0, UNIT),
        ("2147483647", 0, 10 * UNIT),
        ("-2147483648", 0, -10 * UNIT),
        ("-2147483649", 0, UNIT),
        ("2147483648", 0, UNIT),
        ("", 1000, UNIT + 4000),
        ("", 2_000_000_000, 10 * UNIT),
        ("", -2_000_000_000, -10 * UNIT),
    ],
)
def test_cost(written: str, priority: int, expected: int) -> None:
    """Karpenter: 1 + deletion cost / 2^27 + priority / 2^25, within ten."""
    assert eviction_cost(a_pod(annotations={labels.POD_DELETION_COST: written}, priority=priority)) == expected


def test_a_node_whose_pods_have_no_eviction_cost_is_empty() -> None:
    cheap = a_pod(priority=-2_000_000_000)
    assert reschedule_cost([cheap, cheap]) == UNIT
    assert reschedule_cost([cheap, a_pod()]) == 2 * UNIT
