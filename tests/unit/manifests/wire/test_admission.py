"""The kinds by which a cluster changes, counts or refuses pods, with the defaults of their APIs."""

from __future__ import annotations

import msgspec

from core.manifests.wire.admission import (
    HorizontalPodAutoscaler,
    LimitRange,
    ResourceQuota,
    RuntimeClass,
    ScaledObject,
)

METADATA = {"name": "x", "namespace": "shop"}


def test_an_entry_of_a_limit_range_has_what_it_states_alone() -> None:
    entry = {"type": "Container", "defaultRequest": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "4"}}
    found = msgspec.convert({"metadata": METADATA, "spec": {"limits": [entry]}}, LimitRange)
    (item,) = found.spec.limits
    assert (item.type, item.default_request, item.max_limit_request_ratio) == (
        "Container",
        {"cpu": "2"},
        {"cpu": "4"},
    )
    assert (item.default, item.min, item.max) == ({}, {}, {})


def test_a_quantity_may_be_a_number() -> None:
    """YAML has `cpu: 2` as one; the API server takes both."""
    quota = msgspec.convert({"metadata": METADATA, "spec": {"hard": {"requests.cpu": 2, "pods": "3"}}}, ResourceQuota)
    assert quota.spec.hard == {"requests.cpu": 2, "pods": "3"}


def test_a_runtime_class_needs_nothing_and_runs_anywhere_unless_it_says_so() -> None:
    found = msgspec.convert({"metadata": METADATA, "handler": "runc"}, RuntimeClass)
    assert (found.overhead.pod_fixed, found.scheduling.node_selector, found.scheduling.tolerations) == ({}, {}, ())


def test_a_scope_of_a_quota_asks_for_presence_unless_it_has_an_operator() -> None:
    scopes = {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass"}]}}
    found = msgspec.convert({"metadata": METADATA, "spec": scopes}, ResourceQuota)
    assert [(scope.operator, scope.values) for scope in found.spec.scope_selector.match_expressions] == [("Exists", ())]


def test_an_autoscaler_has_at_least_one_replica_by_default_and_kedas_none() -> None:
    horizontal = msgspec.convert({"metadata": METADATA}, HorizontalPodAutoscaler).spec
    keda = msgspec.convert({"metadata": METADATA, "spec": {"scaleTargetRef": {"name": "web"}}}, ScaledObject).spec
    assert (horizontal.min_replicas, horizontal.max_replicas) == (1, None)
    assert (keda.min_replica_count, keda.max_replica_count) == (0, 100)
    assert (keda.scale_target_ref.kind, keda.scale_target_ref.name) == ("Deployment", "web")
