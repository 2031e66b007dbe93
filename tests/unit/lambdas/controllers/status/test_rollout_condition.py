"""A NodePool says since when and why its drifted nodes stay, and an event says it once."""

from __future__ import annotations

from datetime import timedelta

from core.disruption.rollouts import FIRST_STOP, Rollout
from core.manifests.wire import api_resources as kinds
from lambdas.controllers.status.rollout_condition import ROLLOUT_STOPPED, rollout_condition
from tests.builders import NOW
from tests.fakes.lab import a_node_pool
from tests.fakes.world import FakeClock, FakeKubernetes

GOING = Rollout(node_pool="default", target="t", started_at=NOW)
STOPPED = GOING.after_failure("node n was not ready", NOW)


def events(kubernetes: FakeKubernetes) -> list[str]:
    return [kubernetes.raw(kinds.EVENTS, name, "default")["message"] for name in kubernetes.names(kinds.EVENTS)]


def test_a_stop_is_told_once_and_stands_in_the_condition_until_it_ends() -> None:
    """Otherwise, somebody waits for new images on nodes that do not go, or gets an event each minute."""
    kubernetes, pool = FakeKubernetes(FakeClock(NOW)), a_node_pool()
    found = rollout_condition(STOPPED, pool, kubernetes, NOW)
    assert (found["type"], found["status"], found["reason"]) == (ROLLOUT_STOPPED, "True", "ReplacementsNotReady")
    assert f"{NOW + FIRST_STOP:%Y-%m-%dT%H:%M:%SZ}: node n was not ready" in found["message"]
    assert events(kubernetes) == [found["message"]]

    told = {**pool, "status": {"conditions": [found]}}
    quiet = FakeKubernetes(FakeClock(NOW))
    assert rollout_condition(STOPPED, told, quiet, NOW + timedelta(minutes=1))["status"] == "True"
    assert events(quiet) == []
    ended = rollout_condition(STOPPED, told, quiet, NOW + FIRST_STOP)
    assert (ended["status"], ended["reason"], events(quiet)) == ("False", "NotStopped", [])
    again = {**pool, "status": {"conditions": [ended]}}
    rollout_condition(STOPPED, again, quiet, NOW + timedelta(minutes=2))
    assert len(events(quiet)) == 1


def test_a_rollout_that_goes_on_tells_nothing() -> None:
    kubernetes = FakeKubernetes(FakeClock(NOW))
    assert rollout_condition(GOING, a_node_pool(), kubernetes, NOW)["status"] == "False"
    assert events(kubernetes) == []
