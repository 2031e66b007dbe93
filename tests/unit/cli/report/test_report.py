"""The report sums up the record, and the page loads nothing from elsewhere."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cli.report import PageContent, render, series
from cli.report.page import bands
from cli.report.series import chains, consolidated, lives, replacements
from simulator.outcome import VIOLATIONS
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
    **dict.fromkeys(VIOLATIONS, 0),
}


Told = list[tuple[datetime, str, dict[str, Any]]]
POOL = {
    "spec": {"disruption": {"budgets": [{"nodes": "0", "schedule": "0 1 * * *", "duration": "1h"}, {"nodes": "10%"}]}}
}


def launched(number: int, claim: str, price: float = 0.1) -> dict[str, Any]:
    return {
        "instance": f"i-{number}",
        "instanceType": "m5.large",
        "zone": "us-east-1a",
        "capacityType": "spot" if number == 1 else "on-demand",
        "price": price,
        "tags": {"karpenter.sh/nodepool": claim.split("-", maxsplit=1)[0]},
    }


def joined(number: int, claim: str) -> dict[str, Any]:
    return {"node": f"n{number}", "nodeClaim": claim, "providerID": f"aws:///us-east-1a/i-{number}"}


def events() -> Told:
    """Node 1 is interrupted; node 2 is replaced by the smaller node 3 of the command `c0ffee`."""
    disrupted = {"node": "n2", "key": "karpenter.sh/disrupted", "reason": "Underutilized"}
    told: list[tuple[int, str, dict[str, Any]]] = [
        (0, "simulationStarted", {}),
        (0, "objectApplied", {"kind": "NodePool", "name": "general", "by": "user", "object": POOL}),
        (5, "objectApplied", {"kind": "Deployment", "name": "p", "by": "user", "object": {"spec": {"replicas": 2}}}),
        (5, "podCreated", {"pod": "a/p", "owner": "ReplicaSet/r"}),
        (5, "podCreated", {"pod": "a/d", "owner": "DaemonSet/agent"}),
        (6, "podCreated", {"pod": "a/lost", "owner": None}),
        (10, "instanceLaunched", launched(1, "general-b1-0")),
        (10, "instanceLaunched", launched(2, "general-b1-1", 0.4)),
        (11, "nodeJoined", joined(1, "general-b1-0")),
        (11, "nodeJoined", joined(2, "general-b1-1")),
        (12, "nodeReady", {"node": "n2"}),
        (12, "podBound", {"pod": "a/p", "node": "n2"}),
        (12, "podBound", {"pod": "a/d", "node": "n2"}),
        (20, "objectApplied", {"kind": "Deployment", "name": "p", "by": "user", "object": {"spec": {"replicas": 1}}}),
        (60, "interruptionNotice", {"instance": "i-1", "kind": "spot", "deadline": ""}),
        (62, "instanceTerminated", {"instance": "i-1", "by": "interruption"}),
        (120, "instanceLaunched", launched(3, "general-c0ffee-0", 0.2)),
        (121, "nodeJoined", joined(3, "general-c0ffee-0")),
        (121, "nodeReady", {"node": "n3"}),
        (122, "nodeTainted", disrupted),
        (123, "podEvicted", {"pod": "a/p", "node": "n2", "by": "eviction"}),
        (124, "instanceTerminated", {"instance": "i-2", "by": "api"}),
        (180, "simulationEnded", {}),
    ]
    return [(START + timedelta(minutes=minutes), event, fields) for minutes, event, fields in told]


def decision(minutes: int, kind: str, subject: str, reason: str = "", message: str = "") -> dict[str, Any]:
    return {
        "at": START + timedelta(minutes=minutes),
        "function": "disrupt",
        "kind": kind,
        "subject": subject,
        "reason": reason,
        "message": message,
    }


DECISIONS = [
    decision(
        7,
        "unschedulable",
        "a/lost",
        "NoOfferingFits",
        "NodePool general: too big; nearest: cpu\nNodePool gpu: <tainted>",
    ),
    decision(119, "disrupt", "n2", "Underutilized", "single, saves 0.2000 USD/h"),
    decision(122, "terminate", "general-b1-1", "Underutilized", "command c0ffee, single"),
]


def test_lines_sum_up_the_events() -> None:
    lines = series.from_events(events(), {"i-2"}, {"i-3"})
    assert max(lines.pending) == 2
    assert lines.pending[-1] == 1
    assert lines.nodes["spot"] == tuple(1 if 10 <= minutes < 62 else 0 for minutes in minutes_of(lines))
    assert (lines.hourly[-1], lines.kept[-1]) == (0.2, 0.4)
    assert lines.spent[-1] == pytest.approx(0.1 * 52 / 60 + 0.4 * 114 / 60 + 0.2)


def minutes_of(lines: series.Series) -> list[float]:
    return [(at - START).total_seconds() / 60 for at in lines.times]


def test_bands_show_windows_and_interruptions() -> None:
    """A window that opens explains more of a cluster's day than any line."""
    found = [(band.kind, (band.start - START).total_seconds() / 60, band.text) for band in bands(events())]
    assert found == [
        ("window", 60, "general: no node may go"),
        ("step", 5, "p: 2"),
        ("step", 20, "p 2 to 1"),
        ("interruption", 60, "1 spot notice"),
    ]
    assert bands(events())[0].end == START + timedelta(hours=2)


def test_a_node_has_a_start_and_an_end() -> None:
    first, second, third = lives(events())
    assert (second.node, second.claim, second.pool, second.reason) == ("n2", "general-b1-1", "general", "Underutilized")
    assert (second.pods, [pod for _, pod in second.evicted]) == (["a/p"], ["a/p"])
    assert second.cost(START) == pytest.approx(0.4 * 114 / 60)
    assert (first.noticed is not None, first.reason, third.ended) == (True, "", None)


def test_a_command_is_one_row_with_its_steps() -> None:
    """Twenty-six removed nodes took a hundred and seventy rows."""
    found = lives(events())
    assert [life.name for life in consolidated(found)] == ["n2"]
    assert [life.name for life in replacements(found, DECISIONS)] == ["n3"]
    rows = {(row.what, row.which): row for row in chains(found, DECISIONS)}
    assert set(rows) == {
        ("unschedulable", "a/lost"),
        ("launch", "n1, n2"),
        ("launch", "n3"),
        ("interruption", "n1"),
        ("disruption", "n2"),
    }
    command = rows["disruption", "n2"]
    assert [word for _, word, _ in command.links] == ["decided", "replaced", "disrupted", "drained", "gone"]
    assert command.why == "saves $0.2000 an hour, 1 pod moved"


def content(**changes: Any) -> PageContent:
    return PageContent(**{"summary": SUMMARY, "events": events(), "decisions": DECISIONS, **changes})


def test_the_page_is_self_contained_and_escapes_its_data() -> None:
    text = render(content(decisions=[*DECISIONS, decision(9, "skip", "<script>alert(1)</script>", "", "a & b")]))
    assert "<script>alert" not in text
    assert "&lt;tainted&gt;" in text
    assert "small &lt;one&gt;" in text
    assert not re.findall(r'(?:src|href)="', text)


def test_data_of_the_page_end_no_script_and_begin_no_comment() -> None:
    """`<!--<script` in the data would swallow the script that draws them."""
    hostile = "x</script><!--<script>"
    happened = [(START, "instanceLaunched", {**launched(9, "c"), "tags": {"karpenter.sh/nodepool": hostile}})]
    text = render(content(events=[*events()[:1], *happened, *events()[1:]]))
    data = text.partition('id="data">')[2].partition("</script>")[0]
    assert "<" not in data
    assert hostile in json.dumps(json.loads(data))


def test_the_page_begins_with_events_and_ends_with_pending_pods() -> None:
    text = render(content())
    assert "Consolidation removed 1 node at Fri 02:02 with 1 eviction" in text
    assert "$0.20 an hour at the end, $0.40 had those nodes stayed." in text
    assert "EC2 took 1 node back" in text
    assert "<td>a/lost</td>" in text
    assert "<code>NoOfferingFits</code> NodePool general: too big; nearest: cpu" in text


def test_a_record_without_nodes_makes_a_page() -> None:
    empty = [(START, "simulationStarted", {}), (START + timedelta(hours=1), "simulationEnded", {})]
    assert "Pods that wait" in render(content(events=empty, decisions=[]))


def test_a_person_can_use_the_page(tmp_path: Path) -> None:
    program = page.browser()
    if program is None:
        pytest.skip("no Chromium on this machine")
    target = tmp_path / "report.html"
    target.write_text(render(content()), encoding="utf-8")
    assert page.problems(page.used(target, program)) == []


def test_a_page_without_working_scripts_is_detected() -> None:
    assert page.problems({}) == ["its script did not run to the end"]
    told = {
        "broken": ["x"], "charts": 3, "painted": False, "all": 0, "readout": "", "overflow": 9,
        "node": {"panel": False, "heading": "", "hash": "", "rows": 0}, "after": {"panel": True, "rows": 0},
        "zoomed": {"hash": "", "button": False}, "whole": {}, "filtered": {"rows": 1, "hash": ""},
    }  # fmt: skip
    assert len(page.problems(told)) == 12


def test_the_browser_that_is_named_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A browser that nobody finds lets the tests of pages be skipped: a name that leads nowhere fails."""
    program = tmp_path / "own-chromium"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv(page.VARIABLE, str(program))
    assert page.browser() == str(program)
    monkeypatch.setenv(page.VARIABLE, str(tmp_path / "absent"))
    with pytest.raises(FileNotFoundError, match="absent"):
        page.browser()
    monkeypatch.delenv(page.VARIABLE)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert page.browser() is None
    program.rename(tmp_path / "google-chrome-stable")
    assert page.browser() == str(tmp_path / "google-chrome-stable")
