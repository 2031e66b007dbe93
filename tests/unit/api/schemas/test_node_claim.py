"""NodeClaims, and what templates of NodePools share with them."""

from __future__ import annotations

import pytest

from core.api.problem import Location
from core.api.schemas.base import examined
from core.api.schemas.node_claim import EXPIRE_AFTER, NodeClaimObject
from tests.unit.api.objects import ABSENT, NODE_CLAIM, changed

CLASS = "spec.nodeClassRef"


def test_defaults_are_karpenters() -> None:
    read, faults = examined(NodeClaimObject, NODE_CLAIM)
    assert faults == []
    assert read is not None
    assert (read.spec.expire_after, read.spec.termination_grace_period) == (EXPIRE_AFTER, None)
    assert (read.spec.taints, read.spec.startup_taints, read.spec.resources.requests) == ([], [], {})


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (CLASS, ABSENT, ("spec", "nodeClassRef")),
        (f"{CLASS}.name", "", ("spec", "nodeClassRef", "name")),
        (f"{CLASS}.group", "karpenter.k8s.aws/v1", ("spec", "nodeClassRef", "group")),
        ("spec.requirements", ABSENT, ("spec", "requirements")),
        ("spec.expireAfter", "30d", ("spec", "expireAfter")),
        ("spec.terminationGracePeriod", "Never", ("spec", "terminationGracePeriod")),
        ("spec.resources.requests.cpu", "lots", ("spec", "resources", "requests", "cpu")),
        ("spec.taints", [{"key": "a"}], ("spec", "taints", 0, "effect")),
    ],
)
def test_faults_are_named_by_field(path: str, value: object, place: Location) -> None:
    assert [location for location, _ in examined(NodeClaimObject, changed(NODE_CLAIM, path, value))[1]] == [place]
