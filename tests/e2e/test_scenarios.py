"""What the functions do to a real cluster, judged by its scheduler."""

from __future__ import annotations

from tests.e2e.play import assert_lawful, play
from tests.e2e.report import Report
from tests.e2e.scenarios import objects
from tests.e2e.world import World


def test_one_pod_gets_a_node(world: World, report: Report) -> None:
    """If this failed, nothing would work at all."""
    with play(world, report, "one pod") as playing:
        playing.apply(objects.node_class(), objects.node_pool("one"))
        playing.ready("one")
        playing.apply(objects.deployment("one", "web", 1))
        playing.wait_until_running(1)
    assert_lawful(playing.verdict)
    assert playing.verdict is not None
    assert playing.verdict.bound_as_planned == 1
