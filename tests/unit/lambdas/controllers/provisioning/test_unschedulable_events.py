"""Events about pods for which no node comes."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from adapters.ports import DeniedError, TransientError
from core.manifests.wire import api_resources as kinds
from core.model.plan import Unschedulable
from core.reasons.pod import PodReason
from lambdas.controllers.kube_events import about_pod, warning
from lambdas.controllers.provisioning.unschedulable_events import PER_RUN, UnschedulableEvents
from tests.builders import NOW
from tests.fakes.lab import FakeClock, FakeKubernetes


def test_a_run_writes_few_events_and_the_next_runs_write_the_others() -> None:
    """A thousand pods without a place would take a thousand calls, which the pods that have one wait for."""
    clock = FakeClock(NOW)
    kubernetes = FakeKubernetes(clock)
    events = UnschedulableEvents(kubernetes, clock)
    waiting = [Unschedulable(f"default/p{n}", PodReason.NO_NODE_POOL, "no NodePool") for n in range(PER_RUN + 3)]
    written = []
    for _ in range(3):
        events.publish(waiting, "decision")
        written.append(len(kubernetes.names(kinds.EVENTS)))
    assert written == [PER_RUN, PER_RUN + 3, PER_RUN + 3]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        pytest.param(DeniedError("kube:create events", "403 the namespace is being terminated"), ["b"], id="refused"),
        pytest.param(TransientError("kube:create events", '500 failed calling webhook "guard"'), ["b"], id="webhook"),
        pytest.param(TransientError("kube:create events", "500"), [], id="overloaded"),
    ],
)
def test_a_refused_event_keeps_no_other_back(error: Exception, told: list[str]) -> None:
    """Whoever deletes a namespace with a waiting pod in it would keep the events of all pods behind it from their owners."""
    clock = FakeClock(NOW)
    kubernetes = FakeKubernetes(clock)
    events = UnschedulableEvents(kubernetes, clock)
    answers = iter([error])

    def refuse_first(_: str) -> None:
        for answer in answers:
            raise answer

    kubernetes.before_call = refuse_first
    events.publish([Unschedulable(f"{n}/p", PodReason.NO_NODE_POOL, "no NodePool") for n in "ab"], "decision")
    written = [kubernetes.raw(kinds.EVENTS, name, "b") for name in kubernetes.names(kinds.EVENTS)]
    assert [event["involvedObject"]["namespace"] for event in written] == told


def test_a_webhook_that_hangs_does_not_use_up_the_run() -> None:
    """Ten events of 19 seconds each outlasted `provision`, which was cut off in each run; now others follow in later runs."""
    clock = FakeClock(NOW)
    kubernetes = FakeKubernetes(clock)
    events = UnschedulableEvents(kubernetes, clock)
    kubernetes.before_call = lambda _: clock.advance(seconds=19)
    waiting = [Unschedulable(f"default/p{n}", PodReason.NO_NODE_POOL, "no NodePool") for n in range(3)]
    for run in range(1, 4):
        events.publish(waiting, "decision")
        assert clock.now() == NOW + run * timedelta(seconds=19)
    assert len(kubernetes.names(kinds.EVENTS)) == 3


def test_events_about_the_longest_names_are_valid_and_distinct() -> None:
    """The API server refuses longer names; a pod may have one of 253 characters."""
    names = ["a" * 240 + ".-"[n % 2] + "b" * 11 + str(n) for n in range(4)]
    events = [warning(about_pod("default", name), "Waits", "why", NOW, identity="why") for name in names]
    written = [str(event["metadata"]["name"]) for event in events]
    assert len(set(written)) == 4
    assert all(
        len(name) <= 253 and re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", name)
        for name in written
    )
