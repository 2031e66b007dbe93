"""NodePools: what a field may be, and which fields exclude each other."""

from __future__ import annotations

import pytest

from core.api.problem import Location
from core.api.schemas.base import examined
from core.api.schemas.node_pool import NodePoolObject
from tests.unit.api.objects import ABSENT, NODE_POOL, changed

BUDGETS = "spec.disruption.budgets"
FIRST: Location = ("spec", "disruption", "budgets", 0)
LABELS = "spec.template.metadata.labels"


def places(path: str, value: object) -> list[Location]:
    return [location for location, _ in examined(NodePoolObject, changed(NODE_POOL, path, value))[1]]


def test_a_pool_without_a_policy_has_karpenters() -> None:
    read, faults = examined(NodePoolObject, changed(NODE_POOL, "spec.disruption", ABSENT))
    assert faults == []
    assert read is not None
    policy = read.spec.disruption
    assert (policy.consolidate_after, policy.consolidation_policy) == ("0s", "WhenEmptyOrUnderutilized")
    assert [(budget.nodes, budget.reasons, budget.schedule) for budget in policy.budgets] == [("10%", None, None)]


@pytest.mark.parametrize(
    ("budget", "found"),
    [
        ({"nodes": "0", "schedule": "@daily", "duration": "8h"}, []),
        ({"schedule": "@daily"}, [(*FIRST, "duration")]),
        ({"duration": "8h"}, [(*FIRST, "schedule")]),
        ({"nodes": "110%"}, [(*FIRST, "nodes")]),
        ({"reasons": ["Empty", "Drifted", "Empty"]}, [(*FIRST, "reasons", 2)]),
        ({"reasons": ["Expired"]}, [(*FIRST, "reasons", 0)]),
    ],
)
def test_a_budget_has_both_ends_of_its_window_and_each_reason_once(
    budget: dict[str, object], found: list[Location]
) -> None:
    assert places(BUDGETS, [budget]) == found


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        ("spec.weight", 101, ("spec", "weight")),
        ("spec.limits", {"cpu": "-1"}, ("spec", "limits", "cpu")),
        ("spec.disruption.consolidateAfter", "soon", ("spec", "disruption", "consolidateAfter")),
        ("spec.template", ABSENT, ("spec", "template")),
        (LABELS, {"karpenter.sh/nodepool": "x"}, (*LABELS.split("."), "karpenter.sh/nodepool")),
        (LABELS, {"a/b/c": "x"}, (*LABELS.split("."), "a/b/c")),
        (
            "metadata.annotations",
            {"fleetwright.dev/moves": "wild"},
            ("metadata", "annotations", "fleetwright.dev/moves"),
        ),
    ],
)
def test_faults_are_named_by_field(path: str, value: object, place: Location) -> None:
    assert places(path, value) == [place]


def test_a_static_pool_has_no_weight_and_limits_only_its_nodes() -> None:
    pool = changed(changed(NODE_POOL, "spec.replicas", 3), "spec.weight", 5)
    found = [location for location, _ in examined(NodePoolObject, pool)[1]]
    assert found == [("spec", "weight"), ("spec", "limits", "cpu")]
