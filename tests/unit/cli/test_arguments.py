"""The options of a plan, from arguments and environment."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

import pytest

from cli.arguments import add_decision, feature_gates, moment, options_of
from cli.errors import InputError
from core.model.feature_gates import FeatureGates
from core.model.snapshot import Options


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_decision(parser)
    return parser.parse_args(list(arguments))


def test_without_arguments_karpenters_defaults_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan on the command line must equal the plan in the cluster."""
    monkeypatch.delenv("FEATURE_GATES", raising=False)
    assert options_of(parsed()) == Options()


def test_policies_seed_and_bounds_reach_the_planner() -> None:
    """An option without effect is worse than none."""
    arguments = parsed(
        "--preference-policy", "Ignore", "--min-values-policy", "BestEffort", "--seed", "7", "--improve-iterations", "9"
    )
    found = options_of(arguments)
    assert (found.preference_policy, found.min_values_policy, found.seed) == ("Ignore", "BestEffort", 7)
    assert found.improve_iterations == 9


def test_a_time_budget_of_zero_gives_the_greedy_plan() -> None:
    """Zero means no search at all."""
    assert options_of(parsed("--time-budget", "0")).improve_iterations == 0


def test_an_unknown_gate_is_reported_with_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Karpenter ignores it silently, so a typo leaves a gate off."""
    given = {"FEATURE_GATES": "SpotToSpotConsolidaton=true,NodeOverlay=true"}
    assert feature_gates(given) == FeatureGates(node_overlay=True)
    assert "'SpotToSpotConsolidaton' in this release, did you mean SpotToSpotConsolidation?" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["NodeOverlay", "NodeOverlay=yes", "=,x"])
def test_a_malformed_gate_is_refused(text: str) -> None:
    """A gate that a typo leaves off is hard to find."""
    with pytest.raises(InputError, match="FEATURE_GATES"):
        feature_gates({"FEATURE_GATES": text})


def test_the_time_zone_is_utc() -> None:
    """Budget windows are in UTC."""
    assert moment("2026-11-20T01:00:00+01:00") == datetime(2026, 11, 20, tzinfo=UTC)
    assert moment("2026-11-20T00:00:00Z").tzinfo is UTC
