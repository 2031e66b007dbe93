"""Taints: a node has one for each key and effect."""

from __future__ import annotations

import pytest

from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas.base import examined
from core.api.schemas.taint import TAINT_RULES, TaintEntry

ONE, OTHER = {"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("taint", "faults"),
    [
        (ONE, []),
        (ONE | {"value": ""}, []),
        (ONE | {"value": "a b"}, [("value",)]),
        (ONE | {"effect": "Never"}, [("effect",)]),
        ({"key": ""}, [("key",), ("effect",)]),
    ],
)
def test_faults_are_named_by_field(taint: JsonObject, faults: list[Location]) -> None:
    assert [location for location, _ in examined(TaintEntry, taint)[1]] == faults


@pytest.mark.parametrize(
    ("template", "places"),
    [
        ({}, []),
        ({"taints": [ONE, OTHER]}, []),
        ({"taints": [ONE, ONE | {"value": "v"}]}, [("taints", 1)]),
        ({"taints": [ONE], "startupTaints": [OTHER, ONE]}, [("startupTaints", 1)]),
    ],
)
def test_a_taint_that_another_list_has_too_is_a_repetition(template: JsonObject, places: list[Location]) -> None:
    (rule,) = TAINT_RULES
    assert list(rule.broken(template)) == places
