"""NodePools that are only observed have a brake, for as long as their annotation says so."""

from __future__ import annotations

from adapters.run_report import RunReport
from core import labels
from core.brakes.brake import Brake, BrakeKind
from core.model.node_pool import NodePool
from lambdas.controllers.maintenance.observed_pools import ObservedPoolBrakes
from tests.builders import NOW, a_pool, a_snapshot
from tests.fakes.brakes import FakeBrakes
from tests.fakes.world import FakeClock


def observed(name: str) -> NodePool:
    return a_pool(name, own_annotations={labels.MODE: labels.OBSERVE})


class World:
    """The brakes, and what one round changes."""

    def __init__(self) -> None:
        self.clock = FakeClock(NOW)
        self.brakes = FakeBrakes(self.clock)
        self.forgotten = 0
        self.brakes.forget_reading = self._forget  # type: ignore[method-assign]

    def _forget(self) -> None:
        self.forgotten += 1

    def follow(self, *pools: NodePool) -> list[tuple[str, str, str]]:
        report = RunReport()
        ObservedPoolBrakes(self.brakes, self.brakes, self.clock).follow(a_snapshot(node_pools=pools), report)
        return [(one.kind, one.subject, one.reason) for one in report.decisions]

    def held(self) -> list[str]:
        return [brake.node_pool for brake in self.brakes.held() if brake.kind is BrakeKind.OBSERVED]


def test_a_brake_comes_and_goes_with_the_annotation() -> None:
    world = World()
    assert world.follow(observed("b"), observed("a"), a_pool("acts")) == [
        ("brake", "a", BrakeKind.OBSERVED),
        ("brake", "b", BrakeKind.OBSERVED),
    ]
    assert world.held() == ["a", "b"]
    assert world.brakes.held()[0].message == f"NodePool a is only observed: its annotation {labels.MODE} says so"
    assert world.follow(observed("a"), observed("b")) == []
    assert world.follow(observed("b")) == [("release", "a", BrakeKind.OBSERVED)]
    assert (world.held(), world.forgotten) == (["b"], 2)


def test_brakes_of_other_kinds_are_left_alone() -> None:
    world = World()
    world.brakes.hold(Brake(BrakeKind.PAUSE, "a person", node_pool="a"), NOW)
    assert (world.follow(a_pool("a")), world.forgotten) == ([], 0)
    assert len(world.brakes.held()) == 1
