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


BOUNDS = ("Gt", "Gte", "Lt", "Lte")


@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists", "DoesNotExist", *BOUNDS])
@pytest.mark.parametrize("values", [None, [], ["1"], ["spot"], ["other"], ["1", "2"]])
@pytest.mark.parametrize("key", ["team", CAPACITY])
def test_every_operator_with_every_number_of_values(operator: str, values: list[str] | None, key: str) -> None:
    """Restated: In needs a value, bounds one number, and a known key as many known values as minValues asks for."""
    entry = {"key": key, "operator": operator} | ({} if values is None else {"values": values})
    count, known = len(values or []), (values or []).count("spot")
    is_lost = (operator == "In" and count == 0) or (operator in BOUNDS and values != ["1"])
    is_known = operator == "In" and key == CAPACITY and count > 0
    for least in (0, 1, 2):
        given = entry | ({"minValues": least} if least else {})
        wrong = {"values"} if is_lost or (is_known and known < max(least, 1)) else set()
        wrong |= {"minValues"} if operator == "In" and count < least else set()
        for model in (PoolRequirement, ClaimRequirement):
            assert {str(location[0]) for location in faults(model, given)} == wrong
    overlay = is_lost or (is_known and not known) or (operator == "NotIn" and count == 0)
    assert set(faults(OverlayRequirement, entry)) == ({("values",)} if overlay else set())


@pytest.mark.parametrize(("number", "found"), [(2**31 - 1, []), (2**63 - 1, []), (2**63, [("values",)])])
def test_a_bound_is_a_number_of_64_bits(number: int, found: list[Location]) -> None:
    entry = {"key": "team", "operator": "Lt", "values": [str(number)]}
    assert [faults(model, entry) for model in EVERYWHERE] == [found] * 3
