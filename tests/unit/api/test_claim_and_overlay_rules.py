"""What makes a NodeClaim or a NodeOverlay invalid."""

from __future__ import annotations

from typing import Any

import pytest

from core import api
from tests.unit.api.objects import ABSENT, NODE_CLAIM, NODE_OVERLAY, changed


def fields(obj: dict[str, Any]) -> list[str]:
    return [problem.field for problem in api.problems(obj)]


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("spec.nodeClassRef", ABSENT, "spec.nodeClassRef"),
        ("spec.requirements", ABSENT, "spec.requirements"),
        ("spec.requirements.0.operator", "no", "spec.requirements[0].operator"),
        ("spec.expireAfter", "1hr", "spec.expireAfter"),
        ("spec.terminationGracePeriod", "Never", "spec.terminationGracePeriod"),
        ("spec.taints", [{"key": "a"}], "spec.taints[0].effect"),
        ("spec.resources.requests", {"cpu": "lots"}, "spec.resources.requests.cpu"),
        ("spec.requirements", [{"key": f"k{i}", "operator": "Exists"} for i in range(101)], "spec.requirements"),
    ],
)
def test_a_fault_of_a_claim_is_named_by_its_own_path(path: str, value: Any, field: str) -> None:
    assert fields(changed(NODE_CLAIM, path, value)) == [field]


def test_a_claim_may_require_its_own_pool() -> None:
    own = [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]}]
    assert fields(changed(NODE_CLAIM, "spec.requirements", own)) == []


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("spec.requirements", ABSENT, "spec.requirements"),
        ("spec.requirements", [{"key": "a", "operator": "NotIn"}], "spec.requirements[0].values"),
        ("spec.requirements.0.key", "karpenter.k8s.aws/instance-tenancy", "spec.requirements[0].key"),
        ("spec.price", "cheap", "spec.price"),
        ("spec.price", "-0.1", "spec.price"),
        ("spec.price", 0.1, "spec.price"),
        ("spec.priceAdjustment", "0.1", "spec.priceAdjustment"),
        ("spec.priceAdjustment", "-101%", "spec.priceAdjustment"),
        ("spec.priceAdjustment", "10%", "spec.priceAdjustment"),
        ("spec.capacity", {"cpu": "1"}, "spec.capacity.cpu"),
        ("spec.capacity", {"example.com/device": "x"}, "spec.capacity[example.com/device]"),
        ("spec.weight", 0, "spec.weight"),
        ("spec.weight", 10001, "spec.weight"),
    ],
)
def test_a_fault_of_an_overlay_is_named_by_its_own_path(path: str, value: Any, field: str) -> None:
    known = {"values": ["default"]} if path.endswith("key") else {}
    obj = changed(NODE_OVERLAY, path, value)
    obj["spec"]["requirements"] = [{**entry, **known} for entry in obj["spec"].get("requirements", [])] or None
    assert fields(obj) == [field]


@pytest.mark.parametrize("adjustment", ["+0.1", "-0.5", "+10%", "-10%", "-100%", "+250.5%"])
def test_signed_amounts_and_percentages_adjust_a_price(adjustment: str) -> None:
    assert fields(changed(NODE_OVERLAY, "spec.priceAdjustment", adjustment)) == []


def test_a_price_is_either_set_or_adjusted() -> None:
    both = changed(changed(NODE_OVERLAY, "spec.price", "0.1"), "spec.priceAdjustment", "+0.1")
    assert fields(both) == ["spec.priceAdjustment"]


def test_an_unknown_version_or_kind_of_our_groups_is_a_problem() -> None:
    """A user believes that we obey an object that we silently skip."""
    assert fields({"apiVersion": "karpenter.sh/v9", "kind": "NodePool", "metadata": {"name": "x"}}) == ["apiVersion"]
    assert fields({"apiVersion": "karpenter.sh/v1", "kind": "Nodepool", "metadata": {"name": "x"}}) == ["apiVersion"]


def test_objects_of_other_groups_are_ignored() -> None:
    assert fields({"apiVersion": "v1", "kind": "Pod", "spec": 5}) == []


def test_an_object_without_version_or_kind_is_a_problem() -> None:
    """No other tool reports it either."""
    assert fields({"kind": "NodePool", "metadata": {"name": "x"}}) == ["apiVersion"]
    assert fields({"metadata": {"name": "x"}}) == ["apiVersion", "kind"]
