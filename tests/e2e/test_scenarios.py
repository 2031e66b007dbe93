"""What the functions do to a real cluster, judged by its scheduler: scenes side by side, by polling alone."""

from __future__ import annotations

from functools import partial

import pytest

from tests.e2e.play import Outcome, Scene, play_together
from tests.e2e.report import Report
from tests.e2e.scenarios import disruption, examples, volumes
from tests.e2e.world import World

SCENES: dict[str, Scene] = {
    "examples": partial(examples.scene, apart=5),
    "zonal volumes": volumes.scene,
    "emptiness": disruption.empty,
    "consolidation under budgets": disruption.underutilized,
    "NodePool deleted": disruption.pool_deleted,
    "terminationGracePeriod": disruption.forced,
}


@pytest.fixture(scope="module")
def outcomes(world: World, report: Report) -> dict[str, Outcome]:
    """All scenes, played at once."""
    return play_together(world, report, SCENES, audit=False)


@pytest.mark.parametrize("name", SCENES)
def test_scene(outcomes: dict[str, Outcome], name: str) -> None:
    """If this failed, real parts would not do with the functions what the simulated ones do."""
    outcomes[name].assert_lawful()
