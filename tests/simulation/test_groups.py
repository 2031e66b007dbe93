"""Where EC2 has too little capacity in each zone for a group, nothing of it is bought: judged from the world's side."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from core import labels
from simulator.run import Result
from tests.builders import a_class_manifest
from tests.simulation.worlds import ZONES, assert_lawful, deployment, named, node_pool, play


def group(name: str, size: int) -> dict[str, Any]:
    """A Deployment whose pods start together in one zone; each fills a node."""
    found = deployment(size, name, cpu="12")
    notes = {labels.GROUP: name, labels.GROUP_MINIMUM: str(size), labels.GROUP_TOPOLOGY: labels.ZONE}
    found["spec"]["template"]["metadata"]["annotations"] = notes
    return found


def large_nodes() -> dict[str, Any]:
    """A NodePool of one size, on demand: a group's request has one capacity in each zone."""
    found = node_pool()
    found["spec"]["template"]["spec"]["requirements"] = [
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [labels.ON_DEMAND]},
        {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["test.large"]},
    ]
    return found


def capacity(**left: int) -> list[dict[str, Any]]:
    """How many instances each zone has, by the last part of its name."""
    return [{"at": "0s", "capacity": {"zone": zone, "available": count}} for zone, count in left.items()]


def numbers_running(result: Result) -> set[int]:
    """The numbers of instances that ran at any time."""
    running, found = 0, {0}
    at = None
    for event in result.events:
        if event.event in ("instanceLaunched", "instanceTerminated"):
            if at is not None and event.t != at:
                found.add(running)
            running += 1 if event.event == "instanceLaunched" else -1
            at = event.t
    return found | {running}


def test_a_group_goes_where_all_of_it_can_be_launched(tmp_path: Path) -> None:
    """The first zone would give three of four: EC2 launches none there."""
    left = capacity(**{ZONES[0]: 3, ZONES[1]: 4})
    result = play(tmp_path, a_class_manifest(), large_nodes(), group("g", 4), steps=left, duration="12m")
    assert_lawful(result)
    assert numbers_running(result) == {0, 4}
    assert {event["zone"] for event in named(result, "instanceLaunched")} == {ZONES[1]}
    assert result.summary["podsPending"] == 0


def test_a_group_for_which_no_zone_has_capacity_costs_nothing(tmp_path: Path) -> None:
    left = capacity(**dict.fromkeys(ZONES, 3))
    result = play(tmp_path, a_class_manifest(), large_nodes(), group("g", 4), steps=left, duration="12m")
    assert_lawful(result)
    assert named(result, "instanceLaunched") == []
    assert result.summary["podsPending"] == 4


@pytest.mark.parametrize("seed", range(3))
def test_no_group_is_half_bought_whatever_is_left(tmp_path: Path, seed: int) -> None:
    draw = Random(seed)  # noqa: S311 - a world is drawn, no secret
    left = capacity(**{zone: draw.randint(0, 8) for zone in ZONES})
    left.append({"at": "6m", "capacity": {"zone": draw.choice(ZONES), "available": draw.randint(3, 8)}})
    objects = (a_class_manifest(), large_nodes(), group("three", 3), group("five", 5))
    result = play(tmp_path, *objects, steps=left, duration="15m", seed=seed)
    assert_lawful(result)
    assert numbers_running(result) <= {0, 3, 5, 8}
