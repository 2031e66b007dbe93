"""The parts of the page: its figures, its rows and its data say what the record says."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from cli.report import render
from cli.report.comparison import Comparison
from cli.report.page import ROWS_MAX
from cli.report.page_data import NODES_MAX, PODS_NAMED_MAX
from simulator.outcome.summary import VIOLATIONS
from tests.unit.cli.report.test_report import DECISIONS, START, SUMMARY, content, decision, events, launched


def tiles(text: str) -> dict[str, str]:
    found = re.findall(r'<div class="tile( bad)?"><dt>([^<]*)</dt><dd>(.*?)</dd></div>', text)
    return {name: f"{'BAD ' if bad else ''}{re.sub('<[^>]*>', '', value)}" for bad, name, value in found}


def data_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    return found


def test_the_figures_are_those_of_the_summary() -> None:
    assert tiles(render(content())) == {
        "Pods placed": "1 of 2 1 waits at the end",
        "Wait for a node": "52 s 99 in 100 at most 97 s",
        "Nodes": "1 launched; 0 run at the end",
        "Spent": "$0.20 $0.100 a node and hour",
        "At the end": "$0.20/h $0.40/h without consolidation",
        "Evictions": "0 by the eviction API or forced",
        "Violations": "✓ 0 found by independent checkers",
    }
    broken = {**SUMMARY, VIOLATIONS[0]: 2, VIOLATIONS[1]: 1, "podsPending": 2, "instanceHours": 0.0, "dollars": 0.0}
    found = tiles(render(content(summary=broken)))
    assert found["Violations"] == "BAD ✗ 3 found by independent checkers"
    assert found["Pods placed"].endswith("2 wait at the end")
    assert found["Spent"] == "$0.00 $0.000 a node and hour"


def test_the_heading_has_the_period_and_how_long_it_took() -> None:
    text = re.sub("<[^>]*>", " ", render(content()))
    assert "Fri 20 Nov 2026 00:00 to Fri 20 Nov 03:00 UTC. 3 hours of virtual time, simulated in 1.5 s by" in text
    for days, hours in ((2, "48"), (2 + 1 / 1000, "48.02")):
        text = render(content(events=[*events(), (START + timedelta(days=days), "simulationEnded", {})]))
        assert f" UTC. {hours} hours of virtual time" in text


def test_a_row_has_its_steps_its_nodes_and_its_reason() -> None:
    text = render(content())
    (row,) = re.findall(r'<tr class="disruption".*?</tr>', text)
    assert f'data-t="{(START + timedelta(minutes=119)).timestamp():.0f}" data-nodes="n2"' in row
    assert "<summary>decided → replaced → disrupted → drained → gone</summary>" in row
    assert "<li><time>02:02:00</time> <b>disrupted</b> no new pods come</li>" in row
    assert "<code>Underutilized</code> saves $0.2000 an hour" in row
    assert "<code></code>" not in text
    (lost,) = re.findall(r'<tr class="unschedulable".*?</tr>', text)
    assert "<details>" not in lost
    (batch,) = re.findall(r'<tr class="launch".*?</tr>', text)[:1]
    assert '<span class="name">n1</span>, <span class="name">n2</span>' in batch


@pytest.mark.parametrize(("more", "left_out"), [(0, 0), (3, 3)])
def test_rows_beyond_the_most_are_counted(more: int, left_out: int) -> None:
    own = len(re.findall("<tr class=", render(content())))
    skips = [decision(150, "skip", f"a/{number}") for number in range(ROWS_MAX - own + more)]
    text = render(content(decisions=[*DECISIONS, *skips]))
    assert len(re.findall("<tr class=", text)) == ROWS_MAX
    assert ("later rows are left out here" in text) is bool(left_out)
    assert not left_out or f"<p>{left_out} later rows are left out here.</p>" in text


def waiting(count: int) -> list[Any]:
    created = [(START, "podCreated", {"pod": f"w/{number:03}", "owner": None}) for number in range(count)]
    return [*events()[:1], *created, *events()[1:]]


def test_pods_that_wait_are_named_with_the_last_reason_or_none() -> None:
    text = render(content())
    assert "<tr><td>a/lost</td><td>Fri 00:06</td><td><code>NoOfferingFits</code> NodePool general: too big" in text
    assert "<details><summary>every NodePool</summary><ul><li>NodePool gpu: &lt;tainted&gt;</li></ul></details>" in text
    unknown = render(content(decisions=[]))
    assert "<td>no function has said why yet</td>" in unknown
    last = decision(9, "unschedulable", "a/lost", "LimitReached", "full")
    assert "<code>LimitReached</code> full</td>" in render(content(decisions=[*DECISIONS, last]))
    assert "a/d</td>" not in text  # a DaemonSet's pod waits for no node
    owners: list[dict[str, Any]] = [{}, {"owner": ""}, {"owner": "Job/x"}, {"owner": "DaemonSet/x"}]
    created = [(START, "podCreated", {"pod": f"w/{number}", **owner}) for number, owner in enumerate(owners)]
    text = render(content(events=[*events()[:1], *created, *events()[1:]]))
    assert re.findall(r"<tr><td>(w/.)</td>", text) == ["w/0", "w/1", "w/2"]


@pytest.mark.parametrize("more", [0, 2])
def test_of_many_pods_that_wait_the_first_are_named(more: int) -> None:
    text = render(content(events=waiting(PODS_NAMED_MAX - 1 + more)))  # a/lost waits, too
    assert len(re.findall(r"<tr><td>(?:w|a)/", text)) == PODS_NAMED_MAX
    assert (f"<p>And {more} more.</p>" in text) is bool(more)


def test_the_data_have_the_lines_the_bands_and_the_nodes() -> None:
    data = data_of(render(content()))
    start = round(START.timestamp())
    assert (data["start"], data["end"]) == (start, start + 180 * 60)
    assert len(data["t"]) == len(data["pending"]) == len(data["hourly"]) == len(data["spent"])
    assert data["bands"][0] == {
        "from": start + 3600,
        "to": start + 7200,
        "kind": "window",
        "text": "general: no node may go",
    }
    second = data["lives"][1]
    assert second == {
        "name": "n2",
        "claim": "general-b1-1",
        "pool": "general",
        "type": "m5.large",
        "zone": "us-east-1a",
        "capacity": "on-demand",
        "price": 0.4,
        "cost": round(0.4 * 114 / 60, 4),
        "reason": "Underutilized",
        "pods": ["a/p"],
        "podCount": 1,
        "evicted": 1,
        "launched": start + 600,
        "joined": start + 660,
        "ready": start + 720,
        "disrupted": start + 122 * 60,
        "ended": start + 124 * 60,
    }
    assert "noticed" in data["lives"][0]
    assert "ended" not in data["lives"][2]
    assert "karpenter" not in data


def test_a_comparison_is_read_off_at_the_times_of_the_lines() -> None:
    half = 500_000_000
    found = Comparison(karpenter=((START, half),), minimum=((START + timedelta(minutes=61), half // 2),))
    data = data_of(render(content(comparison=found)))
    assert set(data["karpenter"]) == {0.5}
    assert set(data["minimum"]) == {None, 0.25}


def test_no_more_nodes_are_drawn_than_a_page_holds() -> None:
    more = [(START, "instanceLaunched", launched(number, "x-0")) for number in range(9, 10 + NODES_MAX)]
    assert len(data_of(render(content(events=[*events()[:1], *more, *events()[1:]])))["lives"]) == NODES_MAX
