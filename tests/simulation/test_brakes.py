"""Each brake stops what the table of brakes says, and nothing else, and all goes on when it is released."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import simulator.world
from core import labels
from simulator.record import Event
from simulator.world import Result, World, open_world
from tests.simulation.worlds import assert_lawful, deployment, happened, named, node_pool, play

OFF: dict[str, Any] = {"mode": "run", "alarm": "OK", "shiftedZones": []}
PAUSES = [{"mode": "pause-disruption"}, {"mode": "paus"}, {"alarm": "ALARM"}, {"shiftedZones": ["zone-b"]}]


Acts = dict[float, Callable[[World], None]]


@pytest.fixture
def acting(monkeypatch: pytest.MonkeyPatch) -> Callable[[Acts], None]:
    """Schedules actions on the world, each this many minutes after the start."""

    def arrange(acts: Acts) -> None:
        @contextmanager
        def acted(*arguments: Any, **options: Any) -> Iterator[World]:
            with open_world(*arguments, **options) as world:
                for at, act in acts.items():
                    world.clock.after(timedelta(minutes=at), lambda act=act: act(world))
                yield world

        monkeypatch.setattr(simulator.world, "open_world", acted)

    return arrange


def paused(world: World) -> tuple[str, str]:
    """Status and reason of the NodePool's condition."""
    (pool,) = world.cluster.objects("NodePool")
    (condition,) = [c for c in pool["status"]["conditions"] if c["type"] == "DisruptionPaused"]
    return condition["status"], condition["reason"]


def moments(result: Result, event: str) -> list[int]:
    """Minutes from the start at which such events happened."""
    return [int(minute(occurrence)) for occurrence in happened(result, event)]


def minute(event: Event) -> float:
    """Minutes from the start, which is at midnight."""
    hours, minutes, seconds = event.t.partition("T")[2].rstrip("Z").split(":")
    return 60 * int(hours) + int(minutes) + float(seconds) / 60


def scaled(at: str, replicas: int, name: str = "web") -> dict[str, Any]:
    return {"at": at, "scale": {"kind": "Deployment", "name": name, "replicas": replicas}}


def skips(result: Result) -> set[str]:
    return {told["reason"] for told in result.decisions if told["kind"] == "skip"}


@pytest.mark.ci
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
        by_us = [f for f in happened(result, event) if f.fields.get("by") not in ("nodeLost", "controller")]
        assert [event for event in by_us if 5.5 < minute(event) < 20] == [], event
    assert (result.summary["podsPending"], result.summary["nodesAtEnd"]) == (0, 6)


@pytest.mark.parametrize("brake", [PAUSES[0], {"mode": "stop"}], ids=lambda brake: brake["mode"])
def test_expired_nodes_stay_while_disruption_is_paused(tmp_path: Path, brake: dict[str, Any]) -> None:
    """If this failed, a pause would let nodes go for their age alone."""
    pool = node_pool()
    pool["spec"]["template"]["spec"]["expireAfter"] = "8m"
    steps = [{"at": "5m", "brake": brake}, {"at": "20m", "brake": OFF}]
    result = play(tmp_path, pool, deployment(2, cpu="12"), steps=steps, duration="27m")
    assert min(moments(result, "nodeTainted")) >= 20
    assert_lawful(result)


BREAKER_HALF_OPEN = 35
"""Minutes: three nodes fail to join 15 minutes after their launch at 5, and the first pause is 15 minutes."""


@pytest.mark.ci
@pytest.mark.parametrize(("failing", "at_44", "tried"), [(3, "NoBrakeEngaged", 2), (4, "NodePoolBreakerHalfOpen", 3)])
def test_expired_nodes_stay_while_new_ones_do_not_join(
    tmp_path: Path, acting: Callable[[Acts], None], failing: int, at_44: str, tried: int
) -> None:
    """If this failed, working nodes would go for their age, and their pods wait for nodes that never come.

    Nothing asks for nodes, so the first expiry after the pause tries whether nodes join again.
    """
    pool = node_pool()
    pool["spec"]["template"]["spec"]["expireAfter"] = "25m"
    told: list[tuple[str, str]] = []
    acting({minute: lambda world: told.append(paused(world)) for minute in (15, 30, 44, 59)})
    steps = [{"at": "4m", "boot": {"fail": failing}}, scaled("5m", 5), scaled("18m", 2)]
    result = play(tmp_path, pool, deployment(2, cpu="12"), steps=steps, duration="60m")
    assert told == [
        ("False", "NoBrakeEngaged"),
        ("True", "NodePoolBreakerOpen"),
        ("False" if at_44 == "NoBrakeEngaged" else "True", at_44),
        ("False", "NoBrakeEngaged"),
    ]
    assert len([decision for decision in result.decisions if decision["reason"] == "NodePoolBreakerClosed"]) == 1
    launched = [at for at in moments(result, "instanceLaunched") if at > 5]
    assert launched[0] >= BREAKER_HALF_OPEN
    assert len(launched) == tried
    both = sorted((*happened(result, "nodeTainted"), *happened(result, "nodeJoined")), key=minute)
    after = [event.event for event in both if minute(event) > 5]
    assert after[:2] == ["nodeJoined", "nodeTainted"]
    assert (after.count("nodeJoined"), after.count("nodeTainted")) == (2, 2)
    assert (result.summary["podsPending"], result.summary["nodesAtEnd"]) == (0, 2)
    assert_lawful(result)


THREE_CANARIES_FAILED = 200
"""Minutes: a rollout that stopped is tried again after 30, 60 and 120 (docs/engineering/handbook/drift.md)."""


@pytest.mark.ci
def test_drift_goes_on_when_a_half_open_breaker_sees_a_node_join(tmp_path: Path) -> None:
    """If this failed, one bad hour of an image would keep a pool on its old one for good."""
    steps = [
        {"at": "4m", "boot": {"fail": 3}},
        {"at": "5m", "ami": {"alias": "al2023", "id": "ami-0mended"}},
    ]
    result = play(tmp_path, node_pool(), deployment(3, cpu="12"), steps=steps, duration="5h")
    (closed,) = [decision for decision in result.decisions if decision["reason"] == "NodePoolBreakerClosed"]
    assert closed["kind"] == "release"
    both = sorted((*happened(result, "nodeTainted"), *happened(result, "nodeJoined")), key=minute)
    after = [event.event for event in both if minute(event) > THREE_CANARIES_FAILED]
    assert after[:2] == ["nodeTainted", "nodeJoined"]
    assert (after.count("nodeTainted"), after.count("nodeJoined")) == (3, 3)
    assert result.summary["nodesAtEnd"] == 3
    assert_lawful(result)


@pytest.mark.ci
def test_nothing_goes_while_many_instances_are_unknown_until_they_are_known_again(
    tmp_path: Path, acting: Callable[[Acts], None]
) -> None:
    """If this failed, a lost table and a mistyped tag together would end a fleet, node by node."""
    told: list[tuple[str, str]] = []

    def tagged(world: World, pool: str) -> None:
        for instance in world.account.instances.all()[:3]:
            world.account.instances.tag(instance.id, {labels.NODEPOOL: pool})

    def lose(world: World) -> None:
        world.account.table.lose(None)
        tagged(world, "elsewhere")

    acting(
        {
            21: lose,
            33: lambda world: told.append(paused(world)),
            34: lambda world: tagged(world, "default"),
            40: lambda world: told.append(paused(world)),
        }
    )
    pool = node_pool()
    pool["spec"]["template"]["spec"]["expireAfter"] = "28m"
    result = play(tmp_path, pool, deployment(6, cpu="12"), steps=[scaled("23m", 5)], duration="50m")
    assert told == [("True", "UnknownInstances"), ("False", "NoBrakeEngaged")]
    assert min(moments(result, "nodeTainted")) >= 34
    assert min(moments(result, "instanceTerminated")) >= 34
    assert (result.summary["podsPending"], result.summary["nodesAtEnd"]) == (0, 5)
    assert_lawful(result)


def test_nothing_is_launched_in_a_zone_that_traffic_is_shifted_away_from(tmp_path: Path) -> None:
    """If this failed, pods would be put where their traffic cannot reach them."""
    steps = [{"at": 0, "brake": {"shiftedZones": ["zone-a"]}}, {"at": "12m", "brake": OFF}]
    result = play(tmp_path, node_pool(), deployment(4, cpu="12"), steps=steps, duration="20m")
    launched = [event["zone"] for event in named(result, "instanceLaunched")]
    assert launched[:4] == ["zone-b"] * 4
    assert_lawful(result)


@pytest.mark.ci
def test_a_pool_whose_new_nodes_do_not_join_keeps_its_working_ones(tmp_path: Path) -> None:
    """If this failed, a broken image would go through a whole pool: drift ends working nodes for ones that never come."""
    steps = [
        {"at": "4m", "boot": {"fail": 50}},
        {"at": "5m", "ami": {"alias": "al2023", "id": "ami-0broken"}},
    ]
    result = play(tmp_path, node_pool(), deployment(3, cpu="12"), steps=steps, duration="4h")
    assert result.summary["nodesAtEnd"] >= 3
    assert "RolloutStopped" in {told["reason"] for told in result.decisions}
    assert [told for told in result.decisions if told["kind"] == "brake" and told["reason"] == "NodePoolBreakerOpen"]
    assert named(result, "podEvicted") == []
