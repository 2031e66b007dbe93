"""Groups of pods on a Kubernetes whose own scheduler starts them together: all get nodes, or none is bought."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import gathered_report, opened_world
from tests.e2e.parts import builds
from tests.e2e.play import Outcome, Scene, assert_decisions_repeat, play_together
from tests.e2e.scenarios import groups

if TYPE_CHECKING:
    from tests.e2e.report import Report
    from tests.e2e.world import World

SCENES: dict[str, Scene] = {
    groups.INCOMPLETE: groups.incomplete,
    groups.JOB_SET: groups.job_set,
    groups.LEADER_WORKER_SET: groups.leader_worker_set,
}
ALONE: dict[str, Scene] = {groups.COMPLETE: groups.native}
"""What is played before there is any node."""


@pytest.fixture(scope="module")
def world(pytestconfig: pytest.Config) -> Iterator[World]:
    """A world of its own, whose kube-scheduler, controllers and API server know PodGroups."""
    if builds.release() != "1.37":
        pytest.skip("only the module of 1.37 has the gate GenericWorkload as it is read here")
    with opened_world(pytestconfig, starts_groups=True) as started:
        yield started


@pytest.fixture(scope="module")
def report(world: World, pytestconfig: pytest.Config) -> Iterator[Report]:
    """What this world shows."""
    with gathered_report(world, pytestconfig) as collected:
        yield collected


@pytest.fixture(scope="module")
def outcomes(world: World, report: Report) -> dict[str, Outcome]:
    """One scene in a cluster without nodes, then the others at once."""
    return play_together(world, report, ALONE) | play_together(world, report, SCENES)


@pytest.mark.parametrize("name", [*ALONE, *SCENES])
def test_a_group_starts_whole_or_not_at_all(outcomes: dict[str, Outcome], name: str) -> None:
    """If this failed, a group would wait for ever in an empty cluster, or machines would be bought for a part of one."""
    outcomes[name].assert_lawful()


def test_the_decisions_are_repeated_byte_for_byte(world: World, report: Report, outcomes: dict[str, Outcome]) -> None:
    """A replay reads the groups' objects from the ledger, and would otherwise decide about single pods."""
    assert outcomes
    assert_decisions_repeat(world, report)
