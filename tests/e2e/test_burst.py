"""Nodes are removed while a thousand pods come at once."""

from __future__ import annotations

from typing import Final

import pytest

from tests.e2e.judge import price_of_one_plan
from tests.e2e.play import Outcome, Play, Scene, assert_decisions_repeat, play_together
from tests.e2e.report import Report
from tests.e2e.scenarios import disruption, examples
from tests.e2e.scenarios.objects import node_class
from tests.e2e.world import World

POOLS: Final = (node_class(), *examples.pools())
WORKLOAD: Final = tuple(examples.workload("burst"))
PERCENT_OF_ONE_PLAN: Final = 200
"""A burst arrives over seconds, so it is planned in parts: 168 at a load of 13 on two cores. Greedy plans cost 264."""


def thousand(playing: Play) -> None:
    """All constraint kinds, all at once."""
    playing.trigger = "burst"
    playing.apply(*POOLS)
    playing.ready()
    playing.apply(*WORKLOAD)
    playing.wait_until_running(examples.DEPLOYMENTS * examples.REPLICAS)
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


def test_the_burst_costs_what_one_plan_of_all_its_pods_costs(outcomes: dict[str, Outcome], world: World) -> None:
    """A search that was cut short by a clock once left a burst three times as expensive, and no test asked."""
    verdict = outcomes["burst of 1,000 pods"].verdict
    assert verdict is not None
    expected = price_of_one_plan([*POOLS, *WORKLOAD], world.cloud.region.types)
    print(f"the burst costs {verdict.price} nano-dollars an hour, one plan of all its pods {expected}")
    assert 100 * verdict.price <= PERCENT_OF_ONE_PLAN * expected


def test_the_decisions_are_repeated_byte_for_byte(world: World, report: Report, outcomes: dict[str, Outcome]) -> None:
    """What a clock bounded on a busy machine must be repeated elsewhere; simulated runs bound their searches by steps."""
    assert outcomes
    assert_decisions_repeat(world, report)
