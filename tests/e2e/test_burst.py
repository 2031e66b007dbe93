"""Nodes are removed while a thousand pods come at once."""

from __future__ import annotations

import pytest

from tests.e2e.play import Outcome, Play, Scene, play_together
from tests.e2e.report import Report
from tests.e2e.scenarios import burst, disruption
from tests.e2e.scenarios.objects import node_class
from tests.e2e.world import World


def thousand(playing: Play) -> None:
    """All constraint kinds, all at once."""
    playing.trigger = "burst"
    playing.apply(node_class(), *burst.pools())
    playing.ready()
    playing.apply(*burst.workload("burst"))
    playing.wait_until_running(burst.DEPLOYMENTS * burst.REPLICAS)
    playing.wait_until_none_is_empty()


SCENES: dict[str, Scene] = {
    "burst of 1,000 pods": thousand,
    "emptiness": disruption.empty,
    "consolidation under budgets": disruption.underutilized,
    "NodePool deleted": disruption.pool_deleted,
    "NodeClaim deleted": disruption.claim_deleted,
    "terminationGracePeriod": disruption.forced,
}


@pytest.fixture(scope="module")
def outcomes(world: World, report: Report) -> dict[str, Outcome]:
    """All scenes, played at once."""
    return play_together(world, report, SCENES)


@pytest.mark.parametrize("name", SCENES)
def test_under_load(outcomes: dict[str, Outcome], name: str) -> None:
    """If this failed, a burst would leave pods waiting and nodes that nobody needs, or nodes would not go while one is on."""
    outcomes[name].assert_lawful()


def test_the_burst_is_bound_as_planned(outcomes: dict[str, Outcome]) -> None:
    """Nine pods of ten went elsewhere, onto nodes that were launched for others, and everything else was well."""
    outcomes["burst of 1,000 pods"].assert_as_planned()
