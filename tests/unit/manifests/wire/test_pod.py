"""Pods on the wire: a hundred thousand fit in a function's memory, with every field that a decision needs."""

from __future__ import annotations

from typing import Any

import msgspec

from core import labels
from core.manifests.wire.pod import SHARED_MAX, Job, ReplicationController, WirePod, WireWorkload, shared


def a_pod(name: str = "p", *, node: str = "", **metadata: Any) -> WirePod:
    conditions = [
        {"type": "PodScheduled", "status": "True" if node else "False", "lastTransitionTime": "2026-11-20T00:00:00Z"},
        {"type": "Initialized", "status": "True"},
    ]
    spec = {"containers": [{"name": "c"}], "nodeName": node, "volumes": [{"name": "tmp", "emptyDir": {}}]}
    return msgspec.convert(
        {"metadata": {"name": name, **metadata}, "spec": spec, "status": {"conditions": conditions}}, WirePod
    )


def test_pods_of_a_workload_share_their_equal_parts() -> None:
    one, two = a_pod("a", node="n", labels={"app": "web"}), a_pod("b", node="m", labels={"app": "web"})
    assert one.spec is two.spec
    assert one.metadata.labels is two.metadata.labels
    assert (one.node_name, two.node_name) == ("n", "m")


def test_only_fields_that_decisions_need_are_kept() -> None:
    found = a_pod(annotations={labels.DO_NOT_DISRUPT: "true", "note": "long"}, resourceVersion="7")
    assert found.metadata.annotations == {labels.DO_NOT_DISRUPT: "true"}
    assert (found.metadata.resource_version, found.spec.volumes) == ("", ())
    assert [condition.type for condition in found.status.conditions] == ["PodScheduled"]


def test_the_time_of_waiting_is_kept_until_a_pod_is_bound() -> None:
    waiting = a_pod().status.condition("PodScheduled")
    assert waiting is not None
    assert waiting.last_transition_time is not None
    assert a_pod(node="n").status.condition("PodScheduled") is None


# Values with the same content are one object, in bounded memory.


def test_equal_values_are_one_object() -> None:
    first = shared({"app": "web"})
    assert shared({"app": "web"}) is first


def test_values_of_different_types_stay_apart() -> None:
    """Otherwise, a tuple would become a list with the same content."""
    assert shared(["app"]) == ["app"]
    assert shared(("app",)) == ("app",)


def test_what_is_kept_is_bounded() -> None:
    """Otherwise, a sandbox that observes many clusters in turn would run out of memory."""
    first = {"kept": "first"}
    shared(first)
    for number in range(SHARED_MAX):
        shared({"kept": str(number)})
    assert shared({"kept": "first"}) is not first


# Workloads on the wire.


def test_missing_fields_have_kubernetes_defaults() -> None:
    found = msgspec.convert({"metadata": {"name": "web"}}, WireWorkload)
    rolling = found.spec.strategy.rolling_update
    assert (found.spec.replicas, found.spec.strategy.type) == (1, "RollingUpdate")
    assert (rolling.max_surge, rolling.max_unavailable) == ("25%", "25%")
    assert msgspec.convert({"metadata": {"name": "j"}}, Job).spec.suspend is False


def test_a_replication_controllers_selector_is_a_plain_mapping() -> None:
    spec = {"selector": {"app": "web"}}
    assert msgspec.convert({"metadata": {}, "spec": spec}, ReplicationController).spec.selector == {"app": "web"}
