"""What makes a NodePool invalid, field by field, and that everything else is valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import core.api
from core import api
from tests.defaults import defaults_of, listed
from tests.unit.api.objects import ABSENT, NODE_CLAIM, NODE_OVERLAY, NODE_POOL, changed

# What makes a NodeClaim or a NodeOverlay invalid.


def claim_and_overlay_rules_fields(obj: dict[str, Any]) -> list[str]:
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
    assert claim_and_overlay_rules_fields(changed(NODE_CLAIM, path, value)) == [field]


def test_a_claim_may_require_its_own_pool() -> None:
    own = [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]}]
    assert claim_and_overlay_rules_fields(changed(NODE_CLAIM, "spec.requirements", own)) == []


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
    assert claim_and_overlay_rules_fields(obj) == [field]


@pytest.mark.parametrize("adjustment", ["+0.1", "-0.5", "+10%", "-10%", "-100%", "+250.5%"])
def test_signed_amounts_and_percentages_adjust_a_price(adjustment: str) -> None:
    assert claim_and_overlay_rules_fields(changed(NODE_OVERLAY, "spec.priceAdjustment", adjustment)) == []


def test_a_price_is_either_set_or_adjusted() -> None:
    both = changed(changed(NODE_OVERLAY, "spec.price", "0.1"), "spec.priceAdjustment", "+0.1")
    assert claim_and_overlay_rules_fields(both) == ["spec.priceAdjustment"]


def test_an_unknown_version_or_kind_of_our_groups_is_a_problem() -> None:
    """A user believes that we obey an object that we silently skip."""
    assert claim_and_overlay_rules_fields(
        {"apiVersion": "karpenter.sh/v9", "kind": "NodePool", "metadata": {"name": "x"}}
    ) == ["apiVersion"]
    assert claim_and_overlay_rules_fields(
        {"apiVersion": "karpenter.sh/v1", "kind": "Nodepool", "metadata": {"name": "x"}}
    ) == ["apiVersion"]


def test_objects_of_other_groups_are_ignored() -> None:
    assert claim_and_overlay_rules_fields({"apiVersion": "v1", "kind": "Pod", "spec": 5}) == []


# The defaults of all fields of `core.api` are those of a table, so that one that changes by mistake is noticed.
#
# Most objects of most tests set the fields that matter to them; hardly any would miss a default.


TABLE = Path(__file__).with_name("defaults.txt")


def test_every_default_is_the_one_in_the_table() -> None:
    """A field that is new, or whose default changes on purpose, changes its line in `defaults.txt`, too."""
    assert defaults_of(core.api) == listed(TABLE)


TEMPLATE = "spec.template.spec"
REQUIREMENT = f"{TEMPLATE}.requirements.0"

LONG = "x" * 63


def fields(path: str, value: Any) -> list[str]:
    return [problem.field for problem in api.problems(changed(NODE_POOL, path, value))]


def a_requirement(**parts: Any) -> list[dict[str, Any]]:
    return [{"key": "example.com/size", **parts}]


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("spec", ABSENT, "spec"),
        ("metadata", {}, "metadata.name"),
        ("metadata.name", "Upper", "metadata.name"),
        ("spec.template", ABSENT, "spec.template"),
        (TEMPLATE, ABSENT, TEMPLATE),
        (f"{TEMPLATE}.requirements", ABSENT, f"{TEMPLATE}.requirements"),
        (f"{TEMPLATE}.requirements", {}, f"{TEMPLATE}.requirements"),
        (f"{TEMPLATE}.nodeClassRef", ABSENT, f"{TEMPLATE}.nodeClassRef"),
        (f"{TEMPLATE}.nodeClassRef.name", ABSENT, f"{TEMPLATE}.nodeClassRef.name"),
        (f"{TEMPLATE}.nodeClassRef.kind", "", f"{TEMPLATE}.nodeClassRef.kind"),
        (f"{TEMPLATE}.nodeClassRef.group", "", f"{TEMPLATE}.nodeClassRef.group"),
        (f"{TEMPLATE}.nodeClassRef.group", "karpenter.k8s.aws/v1", f"{TEMPLATE}.nodeClassRef.group"),
        (f"{TEMPLATE}.expireAfter", "1d", f"{TEMPLATE}.expireAfter"),
        (f"{TEMPLATE}.expireAfter", "-1s", f"{TEMPLATE}.expireAfter"),
        (f"{TEMPLATE}.terminationGracePeriod", "Never", f"{TEMPLATE}.terminationGracePeriod"),
        ("spec.weight", 0, "spec.weight"),
        ("spec.weight", 101, "spec.weight"),
        ("spec.weight", "5", "spec.weight"),
        ("spec.weight", True, "spec.weight"),
        ("spec.limits.cpu", "ten", "spec.limits.cpu"),
        ("spec.limits.cpu", 1.5, "spec.limits.cpu"),
        ("spec.limits.cpu", "-1", "spec.limits.cpu"),
        ("spec.disruption.consolidationPolicy", "WhenUnderutilized", "spec.disruption.consolidationPolicy"),
        ("spec.disruption.consolidateAfter", "never", "spec.disruption.consolidateAfter"),
    ],
)
def test_a_fault_is_named_by_its_own_path(path: str, value: Any, field: str) -> None:
    assert fields(path, value) == [field]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{TEMPLATE}.expireAfter", "Never"),
        (f"{TEMPLATE}.expireAfter", "1h30m5s"),
        (f"{TEMPLATE}.terminationGracePeriod", "24h"),
        (f"{TEMPLATE}.requirements", []),
        ("spec.weight", 100),
        ("spec.weight", None),
        ("spec.limits.cpu", 100),
        ("spec.limits.memory", "1e3"),
        ("spec.disruption", ABSENT),
        ("spec.disruption.consolidateAfter", ABSENT),
        ("spec.disruption.consolidationPolicy", "Balanced"),
        ("spec.disruption.budgets", []),
        ("spec.colour", "red"),
        ("spec.template.spec.kubelet", {"maxPods": 3}),
    ],
)
def test_pools_that_the_api_server_accepts_are_valid(path: str, value: Any) -> None:
    assert fields(path, value) == []


@pytest.mark.parametrize(
    ("requirement", "part"),
    [
        ({"operator": "Exists", "key": "a/b/c"}, "key"),
        ({"operator": "Exists", "key": "Example.com/size"}, "key"),
        ({"operator": "Exists", "key": f"example.com/{LONG}x"}, "key"),
        ({"operator": "Exists", "key": ABSENT}, "key"),
        ({"operator": "Exists", "key": "karpenter.sh/nodepool"}, "key"),
        ({"operator": "Exists", "key": "karpenter.sh/registered"}, "key"),
        ({"operator": "Exists", "key": "sub.karpenter.sh/x"}, "key"),
        ({"operator": "Exists", "key": "karpenter.k8s.aws/unheard-of"}, "key"),
        ({"operator": "Exists", "key": "kubernetes.io/hostname"}, "key"),
        ({"operator": "Equals", "values": ["a"]}, "operator"),
        ({"operator": ABSENT}, "operator"),
        ({"operator": "In", "values": []}, "values"),
        ({"operator": "In"}, "values"),
        ({"operator": "In", "values": [5]}, "values[0]"),
        ({"operator": "In", "values": ["a", "b c"]}, "values[1]"),
        ({"operator": "Gt", "values": []}, "values"),
        ({"operator": "Lt", "values": ["1", "2"]}, "values"),
        ({"operator": "Gte", "values": ["1.5"]}, "values"),
        ({"operator": "Lte", "values": ["many"]}, "values"),
        ({"operator": "Gt", "values": ["9" * 30]}, "values"),
        ({"operator": "Exists", "minValues": 0}, "minValues"),
        ({"operator": "Exists", "minValues": 51}, "minValues"),
        ({"operator": "In", "values": ["a"], "minValues": 2}, "minValues"),
        ({"operator": "In", "values": ["moon"], "key": "karpenter.sh/capacity-type"}, "values"),
        ({"operator": "In", "values": ["moon"], "key": "karpenter.k8s.aws/instance-tenancy"}, "values"),
    ],
)
def test_a_bad_requirement_is_named_by_place_and_part(requirement: dict[str, Any], part: str) -> None:
    entry = {key: value for key, value in {"key": "example.com/size", **requirement}.items() if value is not ABSENT}
    assert fields(REQUIREMENT, entry) == [f"{TEMPLATE}.requirements[0].{part}"]


@pytest.mark.parametrize(
    "requirement",
    [
        {"operator": "NotIn", "values": []},
        {"operator": "NotIn", "values": ["a"], "minValues": 5},
        {"operator": "Gt", "values": ["0"]},
        {"operator": "In", "values": ["a", "b"], "minValues": 2},
        {"operator": "In", "values": ["spot", "moon"], "key": "karpenter.sh/capacity-type"},
        {"operator": "In", "values": ["arm64"], "key": "beta.kubernetes.io/arch"},
        {"operator": "Exists", "key": "karpenter.k8s.aws/instance-family"},
        {"operator": "Exists", "key": "karpenter.k8s.aws/placement-group-id"},
        {"operator": "Exists", "key": "node.kubernetes.io/instance-type"},
    ],
)
def test_requirements_that_karpenter_accepts_are_valid(requirement: dict[str, Any]) -> None:
    assert fields(f"{TEMPLATE}.requirements", a_requirement(**requirement)) == []


def test_a_requirement_with_fewer_values_than_min_values_is_refused() -> None:
    entry = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "moon"], "minValues": 2}
    assert fields(REQUIREMENT, entry) == [f"{TEMPLATE}.requirements[0].values"]


def test_more_than_a_hundred_requirements_are_too_many() -> None:
    many = [{"key": f"k{i}", "operator": "Exists"} for i in range(101)]
    assert fields(f"{TEMPLATE}.requirements", many) == [f"{TEMPLATE}.requirements"]


@pytest.mark.parametrize(
    ("labels", "key"),
    [
        ({"kubernetes.io/hostname": "x"}, "[kubernetes.io/hostname]"),
        ({"karpenter.sh/nodepool": "x"}, "[karpenter.sh/nodepool]"),
        ({"sub.karpenter.sh/x": "x"}, "[sub.karpenter.sh/x]"),
        ({"karpenter.k8s.aws/unheard-of": "x"}, "[karpenter.k8s.aws/unheard-of]"),
        ({"a/b/c": "x"}, "[a/b/c]"),
        ({"team": "b c"}, ".team"),
        ({"team": LONG + "x"}, ".team"),
        ({"team": 5}, ".team"),
        ({f"k{i}": "v" for i in range(101)}, ""),
    ],
)
def test_a_template_label_that_users_may_not_set_is_named(labels: dict[str, Any], key: str) -> None:
    assert fields("spec.template.metadata.labels", labels) == [f"spec.template.metadata.labels{key}"]


@pytest.mark.parametrize("key", ["sub.kubernetes.io/custom", "karpenter.sh/capacity-type", "example.com/team", "team"])
def test_other_template_labels_are_free(key: str) -> None:
    assert fields("spec.template.metadata.labels", {key: "spot"}) == []


@pytest.mark.parametrize(
    ("taint", "part"),
    [
        ({"effect": "NoSchedule"}, ".key"),
        ({"key": "", "effect": "NoSchedule"}, ".key"),
        ({"key": "a/b/c", "effect": "NoSchedule"}, ".key"),
        ({"key": f"a.b/{LONG}x", "effect": "NoSchedule"}, ".key"),
        ({"key": "a", "value": "???", "effect": "NoSchedule"}, ".value"),
        ({"key": "a"}, ".effect"),
        ({"key": "a", "effect": "Never"}, ".effect"),
        ({"key": "s", "effect": "NoExecute"}, ""),
    ],
)
def test_a_bad_taint_is_named_by_place_and_part(taint: dict[str, Any], part: str) -> None:
    """The last is a startup taint of the same key and effect: on the node, both would be one taint."""
    expected = f"{TEMPLATE}.startupTaints[0]" if not part else f"{TEMPLATE}.taints[0]{part}"
    assert fields(f"{TEMPLATE}.taints", [taint]) == [expected]


def test_one_key_may_taint_with_two_effects() -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]
    assert fields(f"{TEMPLATE}.taints", taints) == []


@pytest.mark.parametrize(
    ("budget", "part"),
    [
        ({"nodes": "-10%"}, "nodes"),
        ({"nodes": "-1"}, "nodes"),
        ({"nodes": "101%"}, "nodes"),
        ({"nodes": "1000%"}, "nodes"),
        ({"nodes": 10}, "nodes"),
        ({"nodes": "1", "schedule": "@daily"}, "duration"),
        ({"nodes": "1", "duration": "1h"}, "schedule"),
        ({"nodes": "1", "schedule": "*", "duration": "1h"}, "schedule"),
        ({"nodes": "1", "schedule": "@fortnightly", "duration": "1h"}, "schedule"),
        ({"nodes": "1", "schedule": "@daily", "duration": "30s"}, "duration"),
        ({"nodes": "1", "schedule": "@daily", "duration": "-1h"}, "duration"),
        ({"nodes": "1", "reasons": ["Expired"]}, "reasons[0]"),
        ({"nodes": "1", "reasons": ["Empty", "Empty"]}, "reasons[1]"),
    ],
)
def test_a_bad_budget_is_named_by_its_place_in_the_list(budget: dict[str, Any], part: str) -> None:
    assert fields("spec.disruption.budgets", [{"nodes": "1"}, budget]) == [f"spec.disruption.budgets[1].{part}"]


@pytest.mark.parametrize(
    "budget",
    [
        {},
        {"nodes": "0"},
        {"nodes": "100%", "reasons": ["Underutilized", "Empty", "Drifted"]},
        {"nodes": "10", "schedule": "@annually", "duration": "20m"},
        {"nodes": "10", "schedule": "0 9 * * 1-5", "duration": "8h30m0s"},
    ],
)
def test_budgets_that_karpenter_accepts_are_valid(budget: dict[str, Any]) -> None:
    assert fields("spec.disruption.budgets", [budget]) == []


def test_more_than_fifty_budgets_are_too_many() -> None:
    assert fields("spec.disruption.budgets", [{"nodes": "1"}] * 51) == ["spec.disruption.budgets"]


def test_a_static_pool_has_no_weight_and_no_limit_but_nodes() -> None:
    static = changed(changed(NODE_POOL, "spec.replicas", 3), "spec.weight", 5)
    assert [p.field for p in api.problems(static)] == ["spec.weight", "spec.limits.cpu"]
    negative = changed(changed(NODE_POOL, "spec.replicas", -1), "spec.limits", ABSENT)
    assert [p.field for p in api.problems(negative)] == ["spec.replicas"]
    sound = changed(changed(NODE_POOL, "spec.replicas", 0), "spec.limits", {"nodes": "5"})
    assert api.problems(sound) == ()


def test_every_fault_is_reported_not_only_the_first() -> None:
    """Otherwise, a user who corrects one fault at a time runs us once for each."""
    broken = changed(NODE_POOL, "spec.weight", 0)
    broken = changed(broken, f"{TEMPLATE}.nodeClassRef.name", ABSENT)
    broken = changed(
        broken, f"{TEMPLATE}.requirements", [{"key": "a", "operator": "no"}, {"key": "b", "operator": "In"}]
    )
    broken = changed(broken, "spec.template.metadata.labels", {"kubernetes.io/hostname": "x"})
    assert {p.field for p in api.problems(broken)} == {
        "spec.weight",
        f"{TEMPLATE}.nodeClassRef.name",
        f"{TEMPLATE}.requirements[0].operator",
        f"{TEMPLATE}.requirements[1].values",
        "spec.template.metadata.labels[kubernetes.io/hostname]",
    }


def test_a_number_out_of_bounds_is_reported_with_its_bound() -> None:
    """The author of a manifest sees nothing but the message."""
    found = [problem.message for problem in api.problems(changed(NODE_POOL, "spec.weight", 101))]
    assert any("at most 100" in message for message in found), found


@pytest.mark.parametrize("field", ["apiVersion", "kind"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, "must be text"),
        (["Pod"], "must be text"),
        ({"a": 1}, "must be text"),
        ("", "is required"),
        (None, "is required"),
    ],
)
@pytest.mark.parametrize("whole", [NODE_POOL, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}])
def test_what_an_object_is_must_be_told_in_text(whole: dict[str, Any], field: str, value: Any, message: str) -> None:
    """`plan` refuses such an object, so `validate` may not call it valid."""
    found = api.problems({**whole, field: value})
    assert [(problem.field, problem.message) for problem in found] == [(field, message)]
    assert found[0].kind == ("object" if field == "kind" else whole["kind"])
