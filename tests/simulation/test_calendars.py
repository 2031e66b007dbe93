"""A cluster sleeps at zero nodes outside its hours, and is warm when they begin."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from simulator.record import Event
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play

PODS = 12
CLOSES, WAKES, OPENS = (f"2026-11-20T{clock}:00Z" for clock in ("00:20", "01:10", "01:20"))


def hours(**settings: Any) -> dict[str, Any]:
    """The Calendar of a short night, on clocks that show an hour more."""
    window = {"start": "2026-11-20T01:20", "end": "2026-11-20T02:20"}
    rule = {"name": "night", "windows": [window], "settings": {"closed": True, "leadTime": "10m", **settings}}
    return {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Calendar",
        "metadata": {"name": "office"},
        "spec": {"timeZone": "Europe/Berlin", "rules": [rule]},
    }


def at(event: Event) -> datetime:
    return datetime.fromisoformat(event.t)


def times(events: tuple[Event, ...], name: str) -> list[datetime]:
    return [at(event) for event in events if event.event == name]


def test_a_cluster_sleeps_and_is_warm_before_the_first_user(tmp_path: Path) -> None:
    closes, wakes, opens = map(datetime.fromisoformat, (CLOSES, WAKES, OPENS))
    result = play(tmp_path, node_pool(), deployment(PODS), hours(), duration="90m", nodeBootSeconds=40)
    launches, ends = times(result.events, "instanceLaunched"), times(result.events, "instanceTerminated")
    evening, morning = [one for one in launches if one < closes], [one for one in launches if one > closes]
    assert len(evening) + len(morning) == len(launches)
    assert evening
    assert all(one >= wakes for one in morning)
    assert len([one for one in ends if closes <= one < wakes]) == len(evening)
    ready = [one for one in times(result.events, "podReady") if one > closes]
    assert len(ready) == PODS
    assert max(ready) < opens
    assert max(ready) - wakes <= timedelta(seconds=40 + 30 + 60)  # boot, half a minute, and the run of the minute
    reasons = [fields["object"]["message"] for fields in named(result, "objectApplied") if fields["kind"] == "Event"]
    told = [message for message in reasons if message.startswith("OutsideHours")]
    assert told
    assert f"until {OPENS}" in told[0]
    assert_lawful(result)


def test_a_protected_pod_keeps_its_node_until_the_configured_end(tmp_path: Path) -> None:
    protected = deployment(1, "notebook")
    annotations = {"karpenter.sh/do-not-disrupt": "true"}
    protected["spec"]["template"]["metadata"]["annotations"] = annotations
    calendar = hours(podsThatStay="Force", forceAfter="15m")
    result = play(tmp_path, node_pool(), protected, calendar, duration="65m", nodeBootSeconds=40)
    closes = datetime.fromisoformat(CLOSES)
    (end,) = times(result.events, "instanceTerminated")
    assert closes + timedelta(minutes=15) <= end <= closes + timedelta(minutes=35)
    assert times(result.events, "instanceLaunched")[1:] == []
