"""Requirements of NodePools, NodeClaims and NodeOverlays."""

from __future__ import annotations

import pytest

from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas.base import ApiModel, examined
from core.api.schemas.requirement import ClaimRequirement, OverlayRequirement, PoolRequirement

CAPACITY, POOL = "karpenter.sh/capacity-type", "karpenter.sh/nodepool"
TENANCY = "karpenter.k8s.aws/instance-tenancy"
EVERYWHERE = (PoolRequirement, ClaimRequirement, OverlayRequirement)


def faults(model: type[ApiModel], entry: JsonObject) -> list[Location]:
    return [location for location, _ in examined(model, entry)[1]]


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ({"key": "team", "operator": "Exists"}, []),
        ({"key": "team", "operator": "In", "values": ["a"]}, []),
        ({"key": "team", "operator": "In"}, [("values",)]),
        ({"key": "team", "operator": "Gt", "values": ["0"]}, []),
        ({"key": "team", "operator": "Gte", "values": ["1.5"]}, [("values",)]),
        ({"key": "team", "operator": "Lt", "values": ["1", "2"]}, [("values",)]),
        ({"key": "team", "operator": "Lt", "values": [str(2**63)]}, [("values",)]),
        ({"key": "team", "operator": "Near", "values": ["1"]}, [("operator",)]),
        ({"key": "a/b/c", "operator": "Exists"}, [("key",)]),
        ({"key": "kubernetes.io/hostname", "operator": "Exists"}, [("key",)]),
        ({"key": CAPACITY, "operator": "In", "values": ["on-demand", "other"]}, []),
        ({"key": CAPACITY, "operator": "In", "values": ["other"]}, [("values",)]),
        ({"operator": "Exists"}, [("key",)]),
    ],
)
@pytest.mark.parametrize("model", EVERYWHERE)
def test_what_holds_everywhere(model: type[ApiModel], entry: JsonObject, found: list[Location]) -> None:
    assert faults(model, entry) == found


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ({"key": POOL, "operator": "Exists"}, [[("key",)], [], []]),
        ({"key": "team", "operator": "NotIn"}, [[], [], [("values",)]]),
        ({"key": TENANCY, "operator": "Exists"}, [[], [], [("key",)]]),
        ({"key": "team", "operator": "In", "values": ["a"], "minValues": 2}, [[("minValues",)], [("minValues",)], []]),
        ({"key": "team", "operator": "Exists", "minValues": 0}, [[("minValues",)], [("minValues",)], []]),
        (
            {"key": CAPACITY, "operator": "In", "values": ["spot", "x"], "minValues": 2},
            [[("values",)], [("values",)], []],
        ),
    ],
)
def test_what_differs_between_pools_claims_and_overlays(entry: JsonObject, found: list[list[Location]]) -> None:
    assert [faults(model, entry) for model in EVERYWHERE] == found
