"""The worlds of the latency table: the same draws for every variant, and scenarios that can be read."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from benchmarks.latency import BURSTS, VARIANTS, percentiles, scenario, silences
from simulator.scenario import read_scenario


@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_a_variant_changes_its_own_part_of_a_world_alone(tmp_path: Path, variant: str) -> None:
    """Otherwise, the table would compare worlds, and not ways to be woken."""
    settings, replaced = VARIANTS[variant]
    usual, other = tmp_path / "usual", tmp_path / "other"
    usual.mkdir()
    other.mkdir()
    one, two = read_scenario(scenario(usual, 7, {}, {})), read_scenario(scenario(other, 7, settings, replaced))
    assert [step.at for step in one.steps] == [step.at for step in two.steps]
    assert (usual / "burst-1.yaml").read_text() == (other / "burst-1.yaml").read_text()
    assert (one.settings == two.settings) is not bool(settings)
    assert (one.aws == two.aws) is not bool(replaced)


def test_bursts_do_not_come_with_the_schedule(tmp_path: Path) -> None:
    """Pods that come on whole minutes hide what the log costs: the schedule runs then, too."""
    steps = read_scenario(scenario(tmp_path, 3, {}, {})).steps
    assert len(steps) == BURSTS
    assert any(step.at.total_seconds() % 60 for step in steps)


def test_silences_stay_within_what_is_known_of_aws() -> None:
    drawn = [silences(Random(seed)) for seed in range(50)]  # noqa: S311 - draws of a world
    lags = {one["auditLogLag"]["p50"] for one in drawn}
    assert len(lags) > 2
    assert all(int(one["auditLogLag"]["p99"].removesuffix("s")) <= 180 for one in drawn)
    assert all(25 <= int(one["boot"]["p50"].removesuffix("s")) <= 180 for one in drawn)


def test_percentiles_are_values_that_were_seen() -> None:
    assert percentiles([5.0, 1.0, 9.0]) == {"p50": 5.0, "p99": 5.0}
    assert percentiles([float(number) for number in range(1, 201)]) == {"p50": 100.0, "p99": 198.0}
