"""NodePools: what a field may be, and which fields exclude each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from core import labels
from core.api.objects import JsonObject
from core.api.schemas.fields import ApiModel, examined
from core.api.schemas.node_pool import (
    EXPIRE_AFTER,
    TAINT_RULES,
    ClaimRequirement,
    NodeClaimObject,
    NodeOverlayObject,
    NodePoolObject,
    OverlayRequirement,
    PoolRequirement,
    TaintEntry,
    bad_evictions_per_hour,
    bad_expiry,
    bad_largest_node,
    bad_mode,
    bad_moves,
    bad_prefix_delegation,
    bad_price_factors,
    bad_shared_limits,
    cel_is_free,
    evictions_per_hour,
    expires_forcefully,
    is_restricted,
    largest_node,
    price_factors,
    shared_limits,
)
from core.api.status import Location
from core.model.snapshot import BALANCED_MOVES, GENTLE_MOVES, THOROUGH_MOVES
from core.model.values.quantity import HOURLY, nanodollars
from tests.unit.api.objects import ABSENT, NODE_CLAIM, NODE_OVERLAY, NODE_POOL, changed

# Which label keys users may set or require.


@pytest.mark.parametrize(
    ("key", "of_pools", "of_overlays"),
    [
        ("team", False, False),
        ("example.com/team", False, False),
        ("kubernetes.io/hostname", True, True),
        ("karpenter.sh/capacity-type", False, False),
        ("karpenter.sh/initialized", True, True),
        ("sub.karpenter.sh/any", True, True),
        ("karpenter.k8s.aws/instance-family", False, False),
        ("karpenter.k8s.aws/unknown", True, True),
        ("karpenter.k8s.aws/instance-tenancy", False, True),
        ("karpenter.k8s.aws/capacity-reservation-id", False, True),
    ],
)
def test_domains_of_the_provisioner_are_its_own_but_for_labels_of_types(
    key: str, of_pools: bool, of_overlays: bool
) -> None:
    assert is_restricted(key) is of_pools
    assert is_restricted(key, for_overlay=True) is of_overlays


def test_the_api_server_is_told_the_same_keys() -> None:
    assert "karpenter.k8s.aws/instance-tenancy" in cel_is_free("key")
    assert "karpenter.k8s.aws/instance-tenancy" not in cel_is_free("key", for_overlay=True)


# NodeClaims, and what templates of NodePools share with them.


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


# NodeOverlays: a price or an adjustment, and extended resources alone.


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
def test_node_overlay_faults_are_named_by_field(spec: JsonObject, places: list[Location]) -> None:
    faults = examined(NodeOverlayObject, NODE_OVERLAY | {"spec": NODE_OVERLAY["spec"] | spec})[1]
    assert [location for location, _ in faults] == [("spec", *place) for place in places]


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
def test_node_pool_faults_are_named_by_field(path: str, value: object, place: Location) -> None:
    assert places(path, value) == [place]


# Requirements of NodePools, NodeClaims and NodeOverlays.


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


# Taints: a node has one for each key and effect.


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
def test_taint_faults_are_named_by_field(taint: JsonObject, faults: list[Location]) -> None:
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


# Annotations of NodePools that say how it is disrupted and which nodes it launches.


@pytest.mark.parametrize(("value", "forced"), [("Forceful", True), ("Graceful", False), ("", False)])
def test_only_one_word_makes_expiry_end_nodes_against_their_protection(value: str, *, forced: bool) -> None:
    assert expires_forcefully({labels.EXPIRY: value}) is forced
    assert expires_forcefully({}) is False


def test_what_is_not_said_limits_nothing() -> None:
    assert (price_factors({}), largest_node({}), evictions_per_hour({})) == ({}, {}, None)


def test_amounts_are_integers_of_the_core() -> None:
    assert price_factors({labels.PRICE_FACTORS: "m5a=1.2,c5=0.95"}) == {"m5a": 1200, "c5": 950}
    assert largest_node({labels.LARGEST_NODE: "cpu=16,memory=64Gi"}) == {"cpu": 16_000, "memory": 64 * 2**30}
    assert evictions_per_hour({labels.EVICTIONS_PER_HOUR: "0"}) == 0
    text = "team-a:dollars-per-hour=1.5, team-a:cpu=4,all:nodes=0"
    limits = {"team-a": {HOURLY: nanodollars(1.5), "cpu": 4_000}, "all": {"nodes": 0}}
    assert shared_limits({labels.SHARED_LIMITS: text}) == limits


@pytest.mark.parametrize(
    ("broken", "name", "good", "bad"),
    [
        (bad_evictions_per_hour, labels.EVICTIONS_PER_HOUR, ["0", "50", "9" * 9], ["", "-1", "1.5", "many", "9" * 10, "5 "]),
        (bad_moves, labels.MOVES, [THOROUGH_MOVES, BALANCED_MOVES, GENTLE_MOVES], ["", "x", f"{BALANCED_MOVES} "]),
        (bad_expiry, labels.EXPIRY, ["WithinBudgets", "Forceful"], ["", "Graceful", "forceful"]),
        (bad_mode, labels.MODE, [labels.OBSERVE], ["", "Act"]),
        (bad_price_factors, labels.PRICE_FACTORS, ["m5a=1.2", "m5a=1.2,m8g=0.85", "m5a=1.2, c5=1"],
         ["", "m5a", "m5a=", "=1.2", "m5a=0", "m5a=1.2,c5=0", "m5a=-1", "m5a=1.2;c5=1", "m5a=0.0001"]),
        (bad_largest_node, labels.LARGEST_NODE, ["cpu=64", "cpu=64,memory=256Gi", "memory=1Gi"],
         ["", "cpu", "cpu=", "gpu=1", "cpu=64;memory=1Gi", "cpu=-1"]),
        (bad_shared_limits, labels.SHARED_LIMITS, ["a:cpu=4", f"a:{HOURLY}=1.5", "a:cpu=4, b.c:nvidia.com/gpu=2"],
         ["", "cpu=4", "a:cpu", "a:cpu=x", "a:cpu=-1", "A:cpu=1", "a:cpu=1,", "a:cpu=1,a:cpu=2", "a:=1",
          "a:cpu=1,b:cpu=1,c:cpu=1,d:cpu=1,e:cpu=1"]),
        (bad_prefix_delegation, labels.PREFIX_DELEGATION, ["true", "false"], ["", "True", "yes"]),
    ],
)  # fmt: skip
def test_each_annotation_has_its_own_values(
    broken: Callable[[JsonObject], list[Location]], name: str, good: list[str], bad: list[str]
) -> None:
    """One that is mistyped would otherwise be ignored, silently."""
    assert broken({}) == broken({"annotations": {"other": "x"}}) == []
    assert [text for text in (*good, *bad) if broken({"annotations": {name: text}})] == bad
    assert broken({"annotations": {name: bad[0]}}) == [("annotations", name)]
