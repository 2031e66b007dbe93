"""NodeOverlays: a price or an adjustment, and extended resources alone."""

from __future__ import annotations

import pytest

from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas.base import examined
from core.api.schemas.node_overlay import NodeOverlayObject
from tests.unit.api.objects import NODE_OVERLAY


@pytest.mark.parametrize(
    ("spec", "places"),
    [
        ({"price": "0.05"}, []),
        ({"priceAdjustment": "-10%"}, []),
        ({"capacity": {"example.com/gpu": 2}}, []),
        ({"weight": 10000}, []),
        ({"price": "0.05", "priceAdjustment": "-10%"}, [("priceAdjustment",)]),
        ({"price": "cheap"}, [("price",)]),
        ({"priceAdjustment": "-101%"}, [("priceAdjustment",)]),
        ({"capacity": {"cpu": 2, "pods": 3}}, [("capacity", "cpu"), ("capacity", "pods")]),
        ({"weight": 10001}, [("weight",)]),
        ({"requirements": None}, [("requirements",)]),
    ],
)
def test_faults_are_named_by_field(spec: JsonObject, places: list[Location]) -> None:
    faults = examined(NodeOverlayObject, NODE_OVERLAY | {"spec": NODE_OVERLAY["spec"] | spec})[1]
    assert [location for location, _ in faults] == [("spec", *place) for place in places]
