"""Whether a Deployment may be restarted so that its only pod moves without an outage."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core.lifecycle.draining.surge import RESTARTED_FOR, is_restarted, objection, restart
from core.manifests.wire.workloads import WireWorkload

SAFE = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def a_deployment(status: dict[str, Any] | None = None, **spec: Any) -> WireWorkload:
    fields = {"replicas": 1, "strategy": SAFE, **spec}
    counts = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, **(status or {})}
    metadata = {"name": "web", "generation": 1, "resourceVersion": "7"}
    return msgspec.convert({"metadata": metadata, "spec": fields, "status": counts}, WireWorkload)


def test_a_single_replica_with_a_safe_rollout_is_restarted() -> None:
    assert objection(a_deployment()) == ""
    for surge, unavailable in (("25%", "25%"), ("1%", "99%"), ("100%", "0%"), (2, 0)):
        rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
        # Kubernetes rounds surge up and unavailability down.
        assert objection(a_deployment(strategy={"type": "RollingUpdate", "rollingUpdate": rolling})) == ""


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"replicas": 2}, "2 replicas"),
        ({"paused": True}, "paused"),
        ({"strategy": {"type": "Recreate"}}, "no new pod before"),
        ({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}, "no new pod before"),
        ({"strategy": {"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": 1}}}, "no new pod before"),
        ({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "100%"}}}, "stops the old pod"),
        ({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}}, "stops the old pod"),
        ({"status": {"updatedReplicas": 0}}, "in progress"),
        ({"status": {"observedGeneration": 0}}, "in progress"),
    ],
)
def test_other_deployments_are_not(changes: dict[str, Any], why: str) -> None:
    assert why in objection(a_deployment(**changes))


def test_the_patch_is_for_the_version_that_was_read_and_for_one_drain() -> None:
    patch = restart(a_deployment(), "claim-1")
    assert patch["metadata"] == {"resourceVersion": "7"}
    marked = a_deployment(template={"metadata": {"annotations": {RESTARTED_FOR: "claim-1"}}})
    assert patch["spec"]["template"]["metadata"]["annotations"] == {RESTARTED_FOR: "claim-1"}
    assert (is_restarted(marked, "claim-1"), is_restarted(marked, "claim-2")) == (True, False)
