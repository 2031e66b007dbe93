"""The replay of decisions must not pass where nothing was repeated."""

from __future__ import annotations

import pytest

from tests.replay import is_held, summarised


@pytest.mark.parametrize(
    ("decisions", "equal", "expected"), [(1000, 1000, True), (999, 999, False), (1001, 1000, False), (0, 0, False)]
)
def test_all_decisions_are_the_same_and_they_are_many(decisions: int, equal: int, expected: bool) -> None:
    assert is_held({"decisions": decisions, "equal": equal}, 1000) is expected


def test_figures_are_kept_for_each_python() -> None:
    found = {"a": {"python": "3.11.7", "equal": 1}, "b": {"python": "3.13.5", "equal": 2}}
    assert [figures["equal"] for figures in summarised(found)["pythons"].values()] == [1, 2]
