"""A thousand pods at once."""

from __future__ import annotations

from tests.e2e.play import Play, play_together
from tests.e2e.report import Report
from tests.e2e.scenarios import burst
from tests.e2e.scenarios.objects import node_class
from tests.e2e.world import World


def scene(playing: Play) -> None:
    """All constraint kinds, all at once."""
    playing.apply(node_class(), *burst.pools())
    playing.ready()
    playing.apply(*burst.workload("burst"))
    playing.wait_until_running(burst.DEPLOYMENTS * burst.REPLICAS)
    playing.wait_until_none_is_empty()


def test_a_burst_of_a_thousand_pods(world: World, report: Report) -> None:
    """If this failed, a burst would leave pods waiting, or nodes that nobody needed."""
    outcome = play_together(world, report, {"burst of 1,000 pods": scene})["burst of 1,000 pods"]
    print(outcome.elsewhere[:20])
    outcome.assert_lawful()
