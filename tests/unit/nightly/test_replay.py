"""The replay of decisions must not pass where nothing was repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replay import PARTS, in_parts, is_held, summarised


@pytest.mark.parametrize(
    ("decisions", "equal", "expected"), [(1000, 1000, True), (999, 999, False), (1001, 1000, False), (0, 0, False)]
)
def test_all_decisions_are_the_same_and_they_are_many(decisions: int, equal: int, expected: bool) -> None:
    assert is_held({"decisions": decisions, "equal": equal}, 1000) is expected


def test_figures_are_kept_for_each_python() -> None:
    found = {"a": {"python": "3.11.7", "equal": 1}, "b": {"python": "3.13.5", "equal": 2}}
    assert [figures["equal"] for figures in summarised(found)["pythons"].values()] == [1, 2]


def test_ledgers_are_joined_without_losing_a_decision(tmp_path: Path) -> None:
    """Worlds of two seeds may decide the same at the same time: the names are equal then, what was seen is not."""
    for seed in range(PARTS + 2):
        for key in ("decisions/simulated/2026/11/20/000000Z-disrupt-7f3a", f"bases/simulated/{seed % PARTS}"):
            file = tmp_path / "kept" / f"seed-{seed}" / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"of {seed}")
    parts = in_parts(tmp_path / "kept", tmp_path / "parts")
    assert len(parts) == PARTS
    decisions = [file.read_text() for part in parts for file in part.glob("decisions/**/*-disrupt-*")]
    assert sorted(decisions) == [f"of {seed}" for seed in range(PARTS + 2)]
