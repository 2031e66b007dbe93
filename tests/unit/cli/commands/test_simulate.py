"""`simulate` and its timeline."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cli.__main__ import main
from cli.answers.simulation import LINES_MAX, timeline
from cli.commands import simulate
from cli.schemas.periods import ANSWERS
from simulator.checkers.pods import Violation
from simulator.outcome import VIOLATIONS
from simulator.record import Event
from simulator.world import Result
from tests.builders import NOW

SCENARIO = """
apiVersion: fleetwright.dev/v1
kind: Scenario
metadata: {name: still}
spec: {start: "2026-11-20T00:00:00Z", duration: 1m, seed: 1, catalog: catalog.json, manifests: []}
"""
CATALOG = {
    "instanceTypes": [
        {
            "name": "m5.large",
            "requirements": {"kubernetes.io/arch": ["amd64"], "kubernetes.io/os": ["linux"]},
            "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"},
            "offerings": [{"zone": "us-east-1a", "capacityType": "on-demand", "price": 0.096}],
        }
    ]
}


def an_event(minute: int, name: str, **fields: Any) -> Event:
    return Event((NOW + timedelta(minutes=minute)).isoformat(), name, fields)


def test_the_timeline_shows_events_and_totals() -> None:
    """A person sees at once when pods waited and what it cost."""
    events = [
        an_event(0, "simulationStarted"),
        an_event(0, "podCreated", pod="a/b"),
        an_event(1, "instanceLaunched", instance="i-1", price=0.5),
        an_event(3, "podBound", pod="a/b", node="n"),
        an_event(5, "instanceTerminated", instance="i-1"),
    ]
    lines = [line.split(maxsplit=5) for line in timeline(events).splitlines()]
    assert lines[1:] == [
        ["11-20", "00:00", "1", "0", "0.0000", "1 pod created"],
        ["11-20", "00:01", "1", "1", "0.5000", "1 launched"],
        ["11-20", "00:03", "1", "1", "0.5000", "1 bound"],
        ["11-20", "00:05", "0", "0", "0.0000", "1 terminated"],
    ]
    assert timeline([]) == "nothing happened"


def test_two_days_fit_on_a_screen() -> None:
    """Three thousand lines are too many to read."""
    events = [an_event(minute, "podCreated", pod=f"a/{minute}") for minute in range(0, 2880, 3)]
    assert len(timeline(events).splitlines()) <= LINES_MAX + 2


def test_a_scenario_is_played_and_its_files_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One run gives summary, record and page, and standard output has nothing else."""
    (tmp_path / "s.yaml").write_text(SCENARIO)
    (tmp_path / "catalog.json").write_text(json.dumps(CATALOG))
    page, record = tmp_path / "out" / "page.html", tmp_path / "out" / "record.jsonl"
    arguments = ["simulate", str(tmp_path / "s.yaml"), "--report", str(page), "--record", str(record), "-o", "json"]
    assert main(arguments) == 0
    told = capsys.readouterr().out
    msgspec.json.decode(told, type=ANSWERS["simulate"])
    summary = json.loads(told)
    assert (summary["kind"], summary["virtualSeconds"], summary["orphanedInstances"]) == ("SimulationSummary", 60, 0)
    events = [json.loads(line)["event"] for line in record.read_text().splitlines()]
    assert (events[0], events[-1]) == ("simulationStarted", "simulationEnded")
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("broken", [None, *VIOLATIONS])
def test_any_rule_that_was_broken_makes_the_answer_negative(
    broken: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """CI reads the exit code alone."""
    (tmp_path / "s.yaml").write_text(SCENARIO)
    (tmp_path / "catalog.json").write_text(json.dumps(CATALOG))
    summary = {"kind": "SimulationSummary", **{law: int(law == broken) for law in VIOLATIONS}}
    result = Result(summary=summary, events=(), decisions=(), violations=(), warnings=(), failures=())
    monkeypatch.setattr("simulator.world.run", lambda *_, **__: result)
    assert main(["simulate", str(tmp_path / "s.yaml"), "-o", "json"]) == int(broken is not None)
    assert json.loads(capsys.readouterr().out) == summary


@pytest.mark.parametrize("content", [None, "kind: Scenario\nspec: {duration: soon}", "["])
def test_an_unreadable_scenario_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    """It is neither an internal error nor an empty run."""
    path = tmp_path / "s.yaml"
    if content is not None:
        path.write_text(content)
    assert main(["simulate", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert str(path) in captured.err


def test_a_comparison_without_a_page_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its lines would be drawn nowhere, after minutes of work."""
    (tmp_path / "s.yaml").write_text(SCENARIO)
    assert main(["simulate", str(tmp_path / "s.yaml"), "--compare"]) == 2
    assert "--report" in capsys.readouterr().err


def test_a_scenario_without_decisions_has_a_page_without_comparison(tmp_path: Path) -> None:
    """A still cluster decides nothing, so there is nothing to play."""
    (tmp_path / "s.yaml").write_text(SCENARIO)
    (tmp_path / "catalog.json").write_text(json.dumps(CATALOG))
    page = tmp_path / "page.html"
    assert main(["simulate", str(tmp_path / "s.yaml"), "--report", str(page), "--compare"]) == 0
    assert '"minimum":' not in page.read_text()


@pytest.mark.parametrize(
    ("count", "more"), [(19, ""), (20, ""), (21, "violation: and 1 more"), (25, "violation: and 5 more")]
)
def test_what_went_wrong_is_told_beside_the_answer(count: int, more: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Twenty violations, and how many more; the first failure alone, for it has a traceback."""
    result = Result(
        summary={},
        events=(),
        decisions=(),
        violations=tuple(Violation(NOW, "budget", f"n{number}") for number in range(count)),
        warnings=("has no effect",),
        failures=("the first\n::error::its message", "the second"),
    )
    simulate._complain(result)
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if line.startswith("violation")]
    told = [f"violation: {NOW:%Y-%m-%dT%H:%M:%SZ} budget: n{number}" for number in range(min(count, 20))]
    assert lines == [*told, *filter(None, [more])]
    assert "warning: has no effect" in captured.err
    assert "2 invocations failed; the first:\n| the first\n| ::error::its message\n" in captured.err
    assert "the second" not in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("option", ["--ledger", "--record", "--report"])
def test_folders_are_made_and_what_cannot_be_made_ends_before_the_simulation(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SCENARIO)
    (tmp_path / "catalog.json").write_text(json.dumps(CATALOG))
    target = tmp_path / "new" / "deeper" / "x"
    for _ in range(2):  # again: what is there already is used
        assert main(["simulate", str(scenario), option, str(target)]) == 0
        assert target.exists()
    capsys.readouterr()
    assert main(["simulate", str(scenario), option, str(tmp_path / "file" / "x")]) == 2
    captured = capsys.readouterr()
    assert f"{tmp_path / 'file' / 'x'}: cannot be" in captured.err
    assert captured.out == ""
