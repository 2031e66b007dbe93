"""What the functions do by polling alone, without events about pending pods."""

from __future__ import annotations

from functools import partial

import pytest

from tests.e2e.play import Outcome, Scene, play_together
from tests.e2e.report import Report
from tests.e2e.scenarios import examples, groups
from tests.e2e.world import World

SCENES: dict[str, Scene] = {
    "examples": partial(examples.all_examples, apart=5),
    "zonal volumes": examples.volumes_in_zones,
    groups.JOB_SET: groups.job_set,
    groups.LEADER_WORKER_SET: groups.leader_worker_set,
}


@pytest.fixture(scope="module")
def outcomes(world: World, report: Report) -> dict[str, Outcome]:
    """All of them, played at once."""
    return play_together(world, report, SCENES, audit=False)


@pytest.mark.parametrize("name", SCENES)
def test_scene(outcomes: dict[str, Outcome], name: str) -> None:
    """If this failed, real parts and simulated ones would differ."""
    outcomes[name].assert_lawful()
