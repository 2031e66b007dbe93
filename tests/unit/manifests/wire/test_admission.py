"""Kinds that change, count or refuse pods: what is written is read, and what is left out has no effect."""

from __future__ import annotations

from typing import Any

from core.manifests.wire import decoding, resources
from core.manifests.wire.admission import (
    LimitRange,
    LimitRangeItem,
    Overhead,
    ResourceQuota,
    ResourceQuotaSpec,
    RuntimeClass,
    RuntimeScheduling,
    ScopeExpression,
)
from core.manifests.wire.resources import Resource

METADATA = {"name": "x", "namespace": "shop"}


def read(resource: Resource, **fields: Any) -> Any:
    return decoding.from_object(resource, {"metadata": METADATA, **fields})


def test_a_limit_range_has_defaults_and_bounds_of_each_type() -> None:
    written = {
        "type": "Container",
        "default": {"cpu": "1"},
        "defaultRequest": {"cpu": "500m"},
        "min": {"cpu": "100m"},
        "max": {"cpu": "2"},
        "maxLimitRequestRatio": {"cpu": "4"},
    }
    found = read(resources.LIMIT_RANGES, spec={"limits": [written, {"type": "Pod"}]})
    assert isinstance(found, LimitRange)
    assert found.spec.limits == (
        LimitRangeItem(
            type="Container",
            default={"cpu": "1"},
            default_request={"cpu": "500m"},
            min={"cpu": "100m"},
            max={"cpu": "2"},
            max_limit_request_ratio={"cpu": "4"},
        ),
        LimitRangeItem(type="Pod"),
    )
    assert read(resources.LIMIT_RANGES).spec.limits == ()


def test_a_runtime_class_has_overhead_and_chooses_nodes() -> None:
    toleration = {"key": "sandbox", "operator": "Exists"}
    found = read(
        resources.RUNTIME_CLASSES,
        handler="kata",
        overhead={"podFixed": {"memory": "120Mi"}},
        scheduling={"nodeSelector": {"sandbox": "kata"}, "tolerations": [toleration]},
    )
    assert isinstance(found, RuntimeClass)
    assert found.overhead == Overhead(pod_fixed={"memory": "120Mi"})
    assert found.scheduling.node_selector == {"sandbox": "kata"}
    assert [(each.key, each.operator) for each in found.scheduling.tolerations] == [("sandbox", "Exists")]
    bare = read(resources.RUNTIME_CLASSES, handler="runc")
    assert (bare.overhead, bare.scheduling) == (Overhead(), RuntimeScheduling())


def test_a_quota_counts_pods_of_its_scopes() -> None:
    expression = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    found = read(
        resources.RESOURCE_QUOTAS,
        spec={
            "hard": {"pods": "3"},
            "scopes": ["BestEffort"],
            "scopeSelector": {"matchExpressions": [expression, {"scopeName": "Terminating"}]},
        },
        status={"hard": {"pods": "2"}, "used": {"pods": "1"}},
    )
    assert isinstance(found, ResourceQuota)
    assert (found.spec.hard, found.spec.scopes) == ({"pods": "3"}, ("BestEffort",))
    assert found.spec.scope_selector.match_expressions == (
        ScopeExpression(scope_name="PriorityClass", operator="In", values=("high",)),
        ScopeExpression(scope_name="Terminating", operator="Exists"),
    )
    assert (found.status.hard, found.status.used) == ({"pods": "2"}, {"pods": "1"})
    assert read(resources.RESOURCE_QUOTAS).spec == ResourceQuotaSpec()
