"""Kinds that change, count or refuse pods: what is written is read, and what is left out has no effect."""

from __future__ import annotations

from typing import Any

import msgspec

from core.manifests.wire import decoding, resources
from core.manifests.wire.admission import (
    HorizontalPodAutoscaler,
    LimitRange,
    LimitRangeItem,
    Overhead,
    ResourceQuota,
    ResourceQuotaSpec,
    RuntimeClass,
    RuntimeScheduling,
    ScaledObject,
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


def test_a_quantity_may_be_a_number() -> None:
    """YAML has `cpu: 2` as one; the API server takes both."""
    quota = msgspec.convert({"metadata": METADATA, "spec": {"hard": {"requests.cpu": 2, "pods": "3"}}}, ResourceQuota)
    assert quota.spec.hard == {"requests.cpu": 2, "pods": "3"}


def test_an_autoscaler_has_at_least_one_replica_by_default_and_kedas_none() -> None:
    horizontal = msgspec.convert({"metadata": METADATA}, HorizontalPodAutoscaler).spec
    keda = msgspec.convert({"metadata": METADATA, "spec": {"scaleTargetRef": {"name": "web"}}}, ScaledObject).spec
    assert (horizontal.min_replicas, horizontal.max_replicas) == (1, None)
    assert (keda.min_replica_count, keda.max_replica_count) == (0, 100)
    assert (keda.scale_target_ref.kind, keda.scale_target_ref.name) == ("Deployment", "web")
