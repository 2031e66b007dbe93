"""The report adds the record up and shows it without loading anything."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cli.report import Story, render, series
from tests import page

START = datetime(2026, 11, 20, tzinfo=UTC)
SUMMARY: dict[str, Any] = {
    "scenario": "small <one>",
    "wallSeconds": 1.5,
    "podsCreated": 2,
    "podsScheduled": 1,
    "podsPending": 1,
    "podsUnschedulable": {"NoOfferingFits": 1},
    "pendingSeconds": {"p50": 52.0, "p99": 97.0, "max": 97.0},
    "nodesLaunched": 1,
    "nodesAtEnd": 0,
    "instanceHours": 2.0,
    "dollars": 0.2,
    "evictions": 0,
    **dict.fromkeys(
        (
            "budgetViolations",
            "podDisruptionBudgetViolations",
            "doNotDisruptViolations",
            "doubleLaunches",
            "orphanedInstances",
            "limitViolations",
        ),
        0,
    ),
}


def events() -> list[tuple[datetime, str, dict[str, Any]]]:
    launched = {
        "instance": "i-1",
        "instanceType": "m5.large",
        "zone": "us-east-1a",
        "capacityType": "spot",
        "price": 0.1,
    }
    told: list[tuple[int, str, dict[str, Any]]] = [
        (0, "simulationStarted", {}),
        (5, "podCreated", {"pod": "a/p", "owner": "ReplicaSet/r"}),
        (5, "podCreated", {"pod": "a/d", "owner": "DaemonSet/agent"}),
        (6, "podCreated", {"pod": "a/lost", "owner": None}),
        (10, "instanceLaunched", launched),
        (12, "podBound", {"pod": "a/p", "node": "n"}),
        (60, "interruptionNotice", {"instance": "i-1", "kind": "spot", "deadline": ""}),
        (130, "instanceTerminated", {"instance": "i-1", "by": "interruption"}),
        (180, "simulationEnded", {}),
    ]
    return [(START + timedelta(minutes=minutes), event, fields) for minutes, event, fields in told]


def test_lines_add_up_what_happened() -> None:
    lines = series.from_events(events())
    assert max(lines.pending) == 2
    assert lines.pending[-1] == 1
    assert lines.instances == {"m5.large": tuple(1 if 10 <= minutes < 130 else 0 for minutes in minutes_of(lines))}
    assert lines.hourly[-1] == 0
    assert lines.spent[-1] == pytest.approx(0.2)
    assert [marker.kind for marker in lines.markers] == ["interruption"]


def minutes_of(lines: series.Series) -> list[float]:
    return [(at - START).total_seconds() / 60 for at in lines.times]


def test_small_types_are_gathered() -> None:
    launches = [
        (
            START + timedelta(minutes=i),
            "instanceLaunched",
            {"instance": f"i-{i}", "instanceType": f"t{i}", "price": 0.1},
        )
        for i in range(12)
    ]
    lines = series.from_events(launches)
    assert list(lines.instances)[-1] == series.OTHER_TYPES
    assert sum(values[-1] for values in lines.instances.values()) == 12


def test_the_page_stands_alone_and_escapes_what_it_shows() -> None:
    decisions = [
        {"at": START, "kind": "launch", "subject": "<script>alert(1)</script>", "reason": "", "message": "a & b"}
    ]
    text = render(Story(summary=SUMMARY, events=events(), decisions=decisions))
    assert "<script>alert" not in text
    assert "small &lt;one&gt;" in text
    assert not re.findall(r'(?:src|href)="', text)
    assert "NoOfferingFits" in text


def test_a_person_sees_charts_and_decisions(tmp_path: Path) -> None:
    program = page.browser()
    if program is None:
        pytest.skip("no Chromium on this machine")
    target = tmp_path / "report.html"
    target.write_text(
        render(
            Story(summary=SUMMARY, events=events(), decisions=[{"at": START, "kind": "launch", "subject": "general-0"}])
        )
    )
    assert page.problems(page.rendered(target, program)) == []


def test_an_empty_page_is_noticed() -> None:
    assert len(page.problems("<html></html>")) == 3
