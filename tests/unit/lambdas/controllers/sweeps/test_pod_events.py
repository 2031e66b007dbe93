"""Changes of pods on a node that no event told of."""

from __future__ import annotations

from datetime import timedelta

from core.manifests.wire import api_resources as kinds
from tests.builders import NOW
from tests.fakes.lab import Lab


def test_a_leaving_pod_is_recorded_for_consolidate_after(lab: Lab) -> None:
    lab.reconcile()
    lab.clock.advance(minutes=10)
    lab.kubernetes.drop(kinds.PODS, "p", "default")
    lab.reconcile()
    assert lab.claim.last_pod_event_at == lab.clock.now() > NOW + timedelta(minutes=10)
