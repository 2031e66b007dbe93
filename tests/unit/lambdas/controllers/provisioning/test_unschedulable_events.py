"""Events about pods for which no node comes."""

from __future__ import annotations

from core.manifests.wire import api_resources as kinds
from core.model.plan import Unschedulable
from core.reasons.pod import PodReason
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
