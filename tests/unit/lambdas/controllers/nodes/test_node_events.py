"""Events about a node's problem: on the node, and on the first pods that wait for it."""

from __future__ import annotations

from typing import Any

from adapters.run_report import RunReport
from core.lifecycle.steps import ReportNode
from core.manifests.wire import api_resources as kinds
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from lambdas.controllers.nodes.node_events import PODS_WITH_EVENT_MAX, NodeEvents
from tests.builders import NOW, a_pod
from tests.fakes.world import FakeClock, FakeKubernetes

STEP = ReportNode("n", ClaimReason.INITIALIZATION_TIMEOUT, "it waits for its CNI")


class World:
    def __init__(self) -> None:
        clock = FakeClock(NOW)
        self.kubernetes, self.report = FakeKubernetes(clock), RunReport()
        self.events = NodeEvents(self.kubernetes, clock)

    def written(self) -> list[dict[str, Any]]:
        return [self.kubernetes.raw(kinds.EVENTS, name, "default") for name in self.kubernetes.names(kinds.EVENTS)]

    def about(self) -> list[tuple[str, str]]:
        return sorted((one["involvedObject"]["kind"], one["involvedObject"]["name"]) for one in self.written())

    def forget(self, claim: str, message: str, reason: ClaimReason = ClaimReason.LAUNCH_DENIED) -> None:
        self.report.decide(DecisionKind.FORGET, claim, reason, message)

    def not_launched(self) -> list[tuple[str, str]]:
        self.events.not_launched("mine", self.report.decisions)
        return [(one["reason"], one["message"]) for one in self.written()]


def test_the_node_and_each_waiting_pod_get_the_reason() -> None:
    world = World()
    world.events.publish(STEP, [a_pod("a"), a_pod("b")])
    assert world.about() == [("Node", "n"), ("Pod", "a"), ("Pod", "b")]
    assert {(one["type"], one["reason"], one["message"]) for one in world.written()} == {
        ("Warning", "InitializationTimeout", "it waits for its CNI")
    }
    uids = [one["involvedObject"].get("uid") for one in world.written() if one["involvedObject"]["kind"] == "Pod"]
    assert sorted(uids) == ["uid-a", "uid-b"]


def test_of_many_pods_some_get_an_event() -> None:
    world = World()
    world.events.publish(STEP, [a_pod(f"p{number}") for number in range(PODS_WITH_EVENT_MAX + 1)])
    assert len(world.about()) == 1 + PODS_WITH_EVENT_MAX


def test_the_same_report_is_written_once() -> None:
    world = World()
    for _ in range(2):
        world.events.publish(STEP, [])
    assert world.about() == [("Node", "n")]


class TestANodeClaimThatIsNotLaunched:
    """Its object goes with its claim, so the event is all that is left of the reason."""

    def test_gets_the_last_reason(self) -> None:
        world = World()
        world.forget("another", "not about it")
        world.forget("mine", "the first")
        world.forget("mine", "the last")
        world.forget("another", "nor this")
        clause = ClaimReason.LAUNCH_DENIED.clause
        assert world.not_launched() == [("LaunchDenied", f"{clause}: the last")]
        assert world.about() == [("NodeClaim", "mine")]

    def test_without_a_message_gets_the_meaning_of_the_reason(self) -> None:
        world = World()
        world.forget("mine", "", ClaimReason.LAUNCH_TIMEOUT)
        assert world.not_launched() == [("LaunchTimeout", ClaimReason.LAUNCH_TIMEOUT.meaning)]

    def test_that_was_launched_gets_none(self) -> None:
        world = World()
        world.report.decide(DecisionKind.LAUNCH, "mine", ClaimReason.LAUNCHED, "i-1")
        assert world.not_launched() == []
