"""Workloads on the wire."""

from __future__ import annotations

import msgspec

from core.manifests.wire.workloads import Job, ReplicationController, WireWorkload


def test_missing_fields_have_kubernetes_defaults() -> None:
    found = msgspec.convert({"metadata": {"name": "web"}}, WireWorkload)
    rolling = found.spec.strategy.rolling_update
    assert (found.spec.replicas, found.spec.strategy.type) == (1, "RollingUpdate")
    assert (rolling.max_surge, rolling.max_unavailable) == ("25%", "25%")
    assert msgspec.convert({"metadata": {"name": "j"}}, Job).spec.suspend is False


def test_a_replication_controllers_selector_is_a_plain_mapping() -> None:
    spec = {"selector": {"app": "web"}}
    assert msgspec.convert({"metadata": {}, "spec": spec}, ReplicationController).spec.selector == {"app": "web"}
