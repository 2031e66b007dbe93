"""Without other rules, a period is simulated as it was recorded."""

from __future__ import annotations

from core.counterfactual.simulated_period import SimulationRules
from tests.builders import a_snapshot


def test_rules_change_no_snapshot_by_default() -> None:
    """Otherwise, every comparison with the recorded period is wrong."""
    snapshot = a_snapshot()
    assert SimulationRules().change(snapshot) is snapshot
