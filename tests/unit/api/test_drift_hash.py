"""Hashes change when nodes must be replaced, and only then."""

from __future__ import annotations

from typing import Any

import pytest

from core import api
from tests.unit.api.objects import ABSENT, NODE_CLASS, NODE_POOL, changed

TEMPLATE = "spec.template.spec"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.template.metadata.labels.team", "b"),
        ("spec.template.metadata.annotations", {"a": "b"}),
        (f"{TEMPLATE}.taints", []),
        (f"{TEMPLATE}.startupTaints.0.effect", "NoSchedule"),
        (f"{TEMPLATE}.nodeClassRef.name", "other"),
        (f"{TEMPLATE}.expireAfter", "1h"),
        (f"{TEMPLATE}.expireAfter", "Never"),
        (f"{TEMPLATE}.terminationGracePeriod", "1h"),
    ],
)
def test_a_changed_template_changes_the_hash(path: str, value: Any) -> None:
    """If not, nodes of an outdated template would stay for ever."""
    assert api.node_pool(changed(NODE_POOL, path, value)).template_hash != api.node_pool(NODE_POOL).template_hash


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{TEMPLATE}.requirements", []),
        ("spec.weight", 9),
        ("spec.limits", ABSENT),
        ("spec.disruption", ABSENT),
        ("metadata.name", "other"),
        (f"{TEMPLATE}.expireAfter", "720h"),
        (f"{TEMPLATE}.expireAfter", "43200m"),
        (f"{TEMPLATE}.unknown", "x"),
    ],
)
def test_what_needs_no_new_nodes_keeps_the_hash(path: str, value: Any) -> None:
    """If not, a raised limit would replace the whole pool."""
    assert api.node_pool(changed(NODE_POOL, path, value)).template_hash == api.node_pool(NODE_POOL).template_hash


def test_the_order_of_taints_does_not_matter() -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]
    one, other = (api.node_pool(changed(NODE_POOL, f"{TEMPLATE}.taints", order)) for order in (taints, taints[::-1]))
    assert one.template_hash == other.template_hash


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.role", "other"),
        ("spec.userData", "#!/bin/sh"),
        ("spec.tags", {"a": "b"}),
        ("spec.kubelet", {"maxPods": 20}),
        ("spec.amiFamily", "Custom"),
        ("spec.blockDeviceMappings", [{"ebs": {"volumeSize": "10Gi"}}]),
        ("spec.metadataOptions", {"httpTokens": "optional"}),
        ("spec.detailedMonitoring", True),
        ("spec.placementGroupSelector", {"name": "x"}),
        ("spec.associatePublicIPAddress", True),
        ("spec.context", "x"),
    ],
)
def test_a_changed_class_changes_the_hash(path: str, value: Any) -> None:
    assert api.node_class(changed(NODE_CLASS, path, value)).spec_hash != api.node_class(NODE_CLASS).spec_hash


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.subnetSelectorTerms", [{"id": "subnet-1"}]),
        ("spec.securityGroupSelectorTerms", [{"id": "sg-1"}]),
        ("spec.amiSelectorTerms", [{"alias": "al2023@v20240625"}]),
        ("spec.amiFamily", "AL2023"),
        ("spec.ipPrefixCount", 2),
        ("spec.detailedMonitoring", False),
        ("spec.metadataOptions", {"httpPutResponseHopLimit": 1}),
        ("spec.tags", {}),
    ],
)
def test_what_is_resolved_or_defaulted_keeps_the_hash(path: str, value: Any) -> None:
    assert api.node_class(changed(NODE_CLASS, path, value)).spec_hash == api.node_class(NODE_CLASS).spec_hash


def test_hashes_are_the_same_tomorrow() -> None:
    """They are stored on nodes: another number for the same object would replace every node there is."""
    assert api.node_pool(NODE_POOL).template_hash == "95a6cb5298dbe736"
    assert api.node_class(NODE_CLASS).spec_hash == "34f7a4fc0407126f"
