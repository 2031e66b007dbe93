"""Each stage of the search can be switched off alone."""

from __future__ import annotations

from pathlib import Path

from benchmarks.cases import Case
from benchmarks.stages import STAGES, measured
from benchmarks.workloads.diverse import diverse
from core.packing.settings import DEFAULT_SETTINGS


def test_each_stage_has_lines_and_settings_without_it() -> None:
    """Otherwise, two rows measure the same search, and a stage seems to earn nothing."""
    without = [stage.without(DEFAULT_SETTINGS) for stage in STAGES]
    assert all(settings != DEFAULT_SETTINGS for settings in without)
    assert len({repr(settings) for settings in without}) == len(STAGES)
    assert all(stage.lines > 5 for stage in STAGES)


def test_a_case_is_measured_with_all_stages_and_without_each(tmp_path: Path) -> None:
    rows = measured(Case(name="small", make=lambda _: diverse(60, 40)), tmp_path)
    assert [row["without"] for row in rows] == ["", *(stage.name for stage in STAGES)]
    assert rows[0]["dearer"] == 0
    assert all(0 < row["lowerBound"] <= row["cost"] for row in rows)
