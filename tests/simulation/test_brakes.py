"""Each brake stops what the table of brakes says, and nothing else, and all goes on when it is released."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulator.record import Event
from simulator.run import Result
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play

OFF: dict[str, Any] = {"mode": "run", "alarm": "OK", "shiftedZones": []}
PAUSES = [{"mode": "pause-disruption"}, {"mode": "paus"}, {"alarm": "ALARM"}, {"shiftedZones": ["zone-b"]}]


def moments(result: Result, event: str) -> list[int]:
    """Minutes from the start at which such events happened."""
    return [int(minute(found)) for found in result.events if found.event == event]


def minute(found: Event) -> float:
    """Minutes from the start, which is at midnight."""
    hours, minutes, seconds = found.t.partition("T")[2].rstrip("Z").split(":")
    return 60 * int(hours) + int(minutes) + float(seconds) / 60


def scaled(at: str, replicas: int, name: str = "web") -> dict[str, Any]:
    return {"at": at, "scale": {"kind": "Deployment", "name": name, "replicas": replicas}}


def skips(result: Result) -> set[str]:
    return {told["reason"] for told in result.decisions if told["kind"] == "skip"}


@pytest.mark.parametrize("brake", PAUSES, ids=lambda brake: "-".join(map(str, brake.values())))
def test_a_pause_keeps_empty_nodes_and_gives_pods_new_ones_until_it_ends(tmp_path: Path, brake: dict[str, Any]) -> None:
    """If this failed, the switch that an operator pulls in an outage would not hold, or would keep pods without nodes."""
    steps = [
        {"at": "5m", "brake": brake},
        scaled("6m", 0),
        scaled("12m", 6, "late"),
        {"at": "20m", "brake": OFF},
        scaled("22m", 3, "late"),
    ]
    result = play(
        tmp_path, node_pool(), deployment(4, cpu="12"), deployment(0, "late", "12"), steps=steps, duration="35m"
    )
    assert len(moments(result, "nodeJoined")) == 6
    assert min(moments(result, "nodeTainted")) >= 20
    assert min(moments(result, "instanceTerminated")) >= 20
    assert (result.summary["podsScheduled"], result.summary["podsPending"]) == (10, 0)
    assert result.summary["nodesAtEnd"] == 3
    assert skips(result) & {"KillSwitchPause", "BrakeUnreadable", "AlarmActive", "ZonalShift"}
    assert_lawful(result)


def test_stop_stops_launches_and_interruptions_too_until_it_ends(tmp_path: Path) -> None:
    """If this failed, nobody could take their hands off the cluster for good."""
    steps = [
        {"at": "5m", "brake": {"mode": "stop"}},
        scaled("6m", 6),
        {"at": "8m", "interrupt": {"fraction": 0.5}},
        {"at": "20m", "brake": OFF},
    ]
    result = play(tmp_path, node_pool(), deployment(4, cpu="12"), steps=steps, duration="35m")
    for event in ("instanceLaunched", "nodeTainted", "podEvicted"):
        by_us = [f for f in result.events if f.event == event and f.fields.get("by") not in ("nodeLost", "controller")]
        assert [found for found in by_us if 5.5 < minute(found) < 20] == [], event
    assert (result.summary["podsPending"], result.summary["nodesAtEnd"]) == (0, 6)


def test_expired_nodes_stay_while_disruption_is_paused(tmp_path: Path) -> None:
    """If this failed, a pause would let nodes go for their age alone."""
    pool = node_pool()
    pool["spec"]["template"]["spec"]["expireAfter"] = "8m"
    steps = [{"at": "5m", "brake": {"mode": "pause-disruption"}}, {"at": "20m", "brake": OFF}]
    result = play(tmp_path, pool, deployment(2, cpu="12"), steps=steps, duration="27m")
    assert min(moments(result, "nodeTainted")) >= 20
    assert_lawful(result)


def test_nothing_is_launched_in_a_zone_that_traffic_is_shifted_away_from(tmp_path: Path) -> None:
    """If this failed, pods would be put where their traffic cannot reach them."""
    steps = [{"at": 0, "brake": {"shiftedZones": ["zone-a"]}}, {"at": "12m", "brake": OFF}]
    result = play(tmp_path, node_pool(), deployment(4, cpu="12"), steps=steps, duration="20m")
    launched = [found["zone"] for found in named(result, "instanceLaunched")]
    assert launched[:4] == ["zone-b"] * 4
    assert_lawful(result)


def test_a_pool_whose_new_nodes_do_not_join_keeps_its_working_ones(tmp_path: Path) -> None:
    """If this failed, a broken image would go through a whole pool: drift ends working nodes for ones that never come."""
    steps = [
        {"at": "4m", "boot": {"fail": 50}},
        {"at": "5m", "ami": {"alias": "al2023", "id": "ami-0broken"}},
    ]
    result = play(tmp_path, node_pool(), deployment(3, cpu="12"), steps=steps, duration="2h")
    assert result.summary["nodesAtEnd"] >= 3
    assert [told for told in result.decisions if told["kind"] == "brake" and told["reason"] == "NodePoolBreakerOpen"]
    assert named(result, "podEvicted") == []
