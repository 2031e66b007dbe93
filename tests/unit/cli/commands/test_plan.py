"""`plan`: what is asked of the core, and what is shown of its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.__main__ import main
from cli.arguments import TimeLimit
from core.model.plan import Plan
from core.scheduling import schedule

Capture = pytest.CaptureFixture[str]


def test_the_core_is_asked_once_with_the_time_that_may_be_used(
    cluster: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def noted(snapshot: Any, time_limit: Any) -> Plan:
        asked.append(time_limit)
        return Plan(now=snapshot.now)

    monkeypatch.setattr("core.scheduling.planner.schedule", noted)
    for words, has_clock in (((), True), (("--improve-iterations", "3"), False)):
        assert main(["plan", *cluster, *words, "-o", "json"]) == 0
        assert isinstance(asked.pop(), TimeLimit) == has_clock
        timing = json.loads(capsys.readouterr().out)["timing"]
        assert timing["solveSeconds"] is None if not has_clock else 0 <= timing["solveSeconds"] < 60
    assert asked == []


def test_a_namespace_and_all_choose_what_is_shown(
    cluster: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole: list[Plan] = []

    def noted(snapshot: Any, time_limit: Any) -> Plan:
        whole.append(schedule(snapshot, time_limit))
        return whole[-1]

    monkeypatch.setattr("core.scheduling.planner.schedule", noted)
    monkeypatch.setattr("cli.answers.simulation.OneNamespace.plan", lambda _, plan: Plan(now=plan.now))
    words = ("plan", *cluster, "--improve-iterations", "0")
    assert main([*words, "-o", "json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["unschedulable"]) == len(whole[0].unschedulable) == 1
    assert main([*words, "-n", "shop", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["unschedulable"] == []
    monkeypatch.setattr("cli.answers.plan.plan_table", lambda _, *, shows_all=False: f"all: {shows_all}")
    for more in ((), ("--all",)):
        assert main([*words, *more]) == 1
        assert capsys.readouterr().out == f"all: {bool(more)}\n"
