"""`consolidate`: what is asked of the core, and what is shown of its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.__main__ import main
from cli.search_time import TimeLimit
from core.model.plan import DisruptionPlan

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What was asked; nothing can go."""
    found: list[dict[str, Any]] = []

    def disrupt(snapshot: Any, **words: Any) -> DisruptionPlan:
        found.append({"options": snapshot.options, **words})
        return DisruptionPlan(now=snapshot.now)

    monkeypatch.setattr("core.disruption.disrupt", disrupt)
    return found


def test_the_core_is_asked_once_with_the_time_that_may_be_used(
    cluster: list[str], asked: list[dict[str, Any]], capsys: Capture
) -> None:
    words = ("--policy", "karpenter", "--ignore-budgets", "--move-price", "0.5", "--moves", "gentle")
    for more, has_clock in (((), True), (("--improve-iterations", "3"), False)):
        assert main(["consolidate", *cluster, *words, *more, "-o", "json"]) == 0
        found = asked.pop()
        assert isinstance(found["out_of_time"], TimeLimit) == has_clock
        assert found["proves_continued"] is True
        options = found["options"]
        assert (options.karpenter_moves_only, options.ignore_budgets) == (True, True)
        assert (options.move_price, options.moves) == (500_000_000, "gentle")
        timing = json.loads(capsys.readouterr().out)["timing"]
        assert timing["solveSeconds"] is None if not has_clock else 0 <= timing["solveSeconds"] < 60
    assert asked == []


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("words", "shows_all"), [((), False), (("--all",), True), (("-o", "wide"), True), (("-o", "wide", "--all"), True)]
)
def test_every_node_that_stays_is_named_where_it_is_asked_for(
    words: tuple[str, ...], shows_all: bool, cluster: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def table(_: Any, *, shows_all: bool = False) -> str:
        return f"all: {shows_all}"

    monkeypatch.setattr("cli.answers.disruption_table.disruption_table", table)
    assert main(["consolidate", *cluster, *words]) == 0
    assert capsys.readouterr().out == f"all: {shows_all}\n"
