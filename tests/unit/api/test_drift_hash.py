"""Hashes change when nodes must be replaced, and only then."""

from __future__ import annotations

from typing import Any

import pytest

from core import api
from core.api.drift_hash import of_template
from core.api.schemas.node_pool import Template
from tests.unit.api.objects import ABSENT, NODE_CLASS, NODE_POOL, changed

TEMPLATE = "spec.template.spec"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.template.metadata.labels.team", "b"),
        ("spec.template.metadata.annotations", {"a": "b"}),
        ("spec.template.metadata.labels.lone", ""),
        (f"{TEMPLATE}.taints", []),
        (f"{TEMPLATE}.startupTaints.0.effect", "NoSchedule"),
        (f"{TEMPLATE}.nodeClassRef.name", "other"),
        (f"{TEMPLATE}.expireAfter", "1h"),
        (f"{TEMPLATE}.expireAfter", "Never"),
        (f"{TEMPLATE}.terminationGracePeriod", "1h"),
    ],
)
def test_a_changed_template_changes_the_hash(path: str, value: Any) -> None:
    """Otherwise, nodes of an outdated template stay forever."""
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
def test_fields_that_do_not_concern_nodes_keep_the_hash(path: str, value: Any) -> None:
    """Otherwise, a raised limit replaces the whole pool."""
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
        ("spec.associatePublicIPAddress", False),
        ("spec.tags", {"batch": ""}),
    ],
)
def test_a_changed_class_changes_the_hash(path: str, value: Any) -> None:
    assert api.node_class(changed(NODE_CLASS, path, value)).spec_hash != api.node_class(NODE_CLASS).spec_hash


@pytest.mark.parametrize("field", ["encrypted", "deleteOnTermination"])
def test_an_explicit_false_of_a_volume_differs_from_no_value(field: str) -> None:
    """The account's default may be true; old nodes would keep volumes that contradict the class."""
    left, forbidden = ([{"ebs": {"volumeSize": "10Gi", **more}}] for more in ({}, {field: False}))
    one, other = (api.node_class(changed(NODE_CLASS, "spec.blockDeviceMappings", way)) for way in (left, forbidden))
    assert one.spec_hash != other.spec_hash


@pytest.mark.parametrize(("size", "same"), [("1024Gi", "1Ti"), ("1000G", "1T")])
def test_another_notation_of_a_volume_size_replaces_no_node(size: str, same: str) -> None:
    """Tidying a manifest must not replace the whole cluster."""
    ways = ([{"ebs": {"volumeSize": written}}] for written in (size, same))
    one, other = (api.node_class(changed(NODE_CLASS, "spec.blockDeviceMappings", way)) for way in ways)
    assert one.spec_hash == other.spec_hash


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
        ("spec.cpuOptions", {}),
        ("spec.networkInterfaces", []),
    ],
)
def test_resolved_and_defaulted_fields_keep_the_hash(path: str, value: Any) -> None:
    assert api.node_class(changed(NODE_CLASS, path, value)).spec_hash == api.node_class(NODE_CLASS).spec_hash


def test_hashes_are_stable_between_releases() -> None:
    """They are stored on nodes: another hash for the same object replaces every node."""
    assert api.node_pool(NODE_POOL).template_hash == "74fd90cab2611f22"
    assert api.node_class(NODE_CLASS).spec_hash == "7ead897523f7be95"


def test_a_hash_is_short_and_names_no_order_of_keys() -> None:
    """It goes into a label, and an API server may give the fields back in another order."""
    written = NODE_POOL["spec"]["template"]
    backwards = dict(reversed(written.items()))
    found = of_template(Template.model_validate(written))
    assert found == of_template(Template.model_validate(backwards))
    assert len(found) <= 63


def test_text_of_any_script_has_the_hash_of_earlier_releases() -> None:
    """It is hashed as UTF-8; written otherwise, each class with an umlaut in a tag would replace its nodes."""
    spoken = changed(NODE_CLASS, "spec.tags", {"owner": "Zo\u00eb", "team": "\u00fc"})
    assert api.node_class(spoken).spec_hash == "292fe9f7338f79bb"
    noted = changed(NODE_POOL, "spec.template.metadata.annotations", {"a": "\u00fc"})
    assert api.node_pool(noted).template_hash == "5e9456e179678ad8"


def test_the_order_of_kubelet_settings_does_not_matter() -> None:
    settings = {"maxPods": 20, "clusterDNS": ["10.0.0.1"]}
    ways = (settings, dict(reversed(settings.items())))
    assert {api.node_class(changed(NODE_CLASS, "spec.kubelet", way)).spec_hash for way in ways} == {"b834d8129957d1ff"}


@pytest.mark.parametrize("device", [{"deviceName": "/dev/xvda"}, {"ebs": {"snapshotID": "snap-1"}}])
def test_a_device_without_a_size_has_a_hash(device: dict[str, Any]) -> None:
    """A volume of a snapshot has the snapshot's size, and a device may have no volume."""
    one = api.node_class(changed(NODE_CLASS, "spec.blockDeviceMappings", [device])).spec_hash
    assert len(one) == 16
    assert one != api.node_class(NODE_CLASS).spec_hash
