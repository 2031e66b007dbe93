"""What makes an EC2NodeClass invalid, the kubelet's settings included."""

from __future__ import annotations

from typing import Any

import pytest

from core import api
from core.api.schemas.ec2_node_class_rules import TAGS_MAX
from core.labels import PREFIX_DELEGATION
from tests.unit.api.objects import ABSENT, NODE_CLASS, changed


def fields(*changes: tuple[str, Any]) -> list[str]:
    obj = NODE_CLASS
    for path, value in changes:
        obj = changed(obj, path, value)
    return [problem.field for problem in api.problems(obj)]


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("spec.role", ABSENT, "spec.role"),
        ("spec.role", "", "spec.role"),
        ("spec.instanceProfile", "nodes", "spec.instanceProfile"),
        ("spec.subnetSelectorTerms", ABSENT, "spec.subnetSelectorTerms"),
        ("spec.subnetSelectorTerms", [], "spec.subnetSelectorTerms"),
        ("spec.subnetSelectorTerms", [{"tags": {"a": "b"}}] * 31, "spec.subnetSelectorTerms"),
        ("spec.subnetSelectorTerms", [{}], "spec.subnetSelectorTerms[0]"),
        ("spec.subnetSelectorTerms", [{"tags": {"a": ""}}], "spec.subnetSelectorTerms[0].tags.a"),
        ("spec.subnetSelectorTerms", [{"id": "net-1"}], "spec.subnetSelectorTerms[0].id"),
        ("spec.subnetSelectorTerms", [{"id": "subnet-1", "tags": {"a": "b"}}], "spec.subnetSelectorTerms[0].id"),
        ("spec.securityGroupSelectorTerms", [{"tags": {"a": "b"}}, {}], "spec.securityGroupSelectorTerms[1]"),
        (
            "spec.securityGroupSelectorTerms",
            [{"name": "nodes", "tags": {"a": "b"}}],
            "spec.securityGroupSelectorTerms[0].name",
        ),
        ("spec.amiSelectorTerms", [], "spec.amiSelectorTerms"),
        ("spec.amiSelectorTerms", [{"alias": "@latest"}], "spec.amiSelectorTerms[0].alias"),
        ("spec.amiSelectorTerms", [{"alias": "ubuntu@latest"}], "spec.amiSelectorTerms[0].alias"),
        ("spec.amiSelectorTerms", [{"alias": "AL2023@latest"}], "spec.amiSelectorTerms[0].alias"),
        ("spec.amiSelectorTerms", [{"alias": "windows2022@v1"}], "spec.amiSelectorTerms[0].alias"),
        ("spec.amiSelectorTerms", [{"alias": "al2023@latest", "name": "x"}], "spec.amiSelectorTerms[0].alias"),
        ("spec.amiFamily", "AL2", "spec.amiFamily"),
        ("spec.amiFamily", "Ubuntu", "spec.amiFamily"),
        ("spec.capacityReservationSelectorTerms", [{"id": "xcr-1"}], "spec.capacityReservationSelectorTerms[0].id"),
        (
            "spec.capacityReservationSelectorTerms",
            [{"ownerID": "123456789012"}],
            "spec.capacityReservationSelectorTerms[0]",
        ),
        ("spec.placementGroupSelector", {}, "spec.placementGroupSelector"),
        ("spec.placementGroupSelector", {"name": "a", "id": "pg-1"}, "spec.placementGroupSelector"),
        ("spec.ipPrefixCount", -1, "spec.ipPrefixCount"),
        ("metadata.annotations", {PREFIX_DELEGATION: "yes"}, f"metadata.annotations[{PREFIX_DELEGATION}]"),
        ("spec.associatePublicIPAddress", "yes", "spec.associatePublicIPAddress"),
        ("spec.instanceStorePolicy", "RAID1", "spec.instanceStorePolicy"),
        ("spec.metadataOptions", {"httpPutResponseHopLimit": 65}, "spec.metadataOptions.httpPutResponseHopLimit"),
        ("spec.metadataOptions", {"httpProtocolIPv6": "on"}, "spec.metadataOptions.httpProtocolIPv6"),
        ("spec.connectionTracking", {}, "spec.connectionTracking"),
        ("spec.connectionTracking", {"udpTimeout": 29}, "spec.connectionTracking.udpTimeout"),
        ("spec.cpuOptions", {"nestedVirtualization": "maybe"}, "spec.cpuOptions.nestedVirtualization"),
        ("spec.tags", {f"tag-{n}": "x" for n in range(TAGS_MAX + 1)}, "spec.tags"),
        ("spec.tags", {"": "x"}, "spec.tags[]"),
        ("spec.tags", {"eks:eks-cluster-name": "x"}, "spec.tags[eks:eks-cluster-name]"),
        ("spec.tags", {"kubernetes.io/cluster/x": "owned"}, "spec.tags[kubernetes.io/cluster/x]"),
        ("spec.tags", {"karpenter.sh/nodeclaim": "x"}, "spec.tags[karpenter.sh/nodeclaim]"),
        ("spec.tags", {"karpenter.sh/nodepool-hash": "x"}, "spec.tags[karpenter.sh/nodepool-hash]"),
        ("spec.tags", {"fleetwright.dev/made-by-hand": "x"}, "spec.tags[fleetwright.dev/made-by-hand]"),
    ],
)
def test_a_fault_is_named_by_its_own_path(path: str, value: Any, field: str) -> None:
    assert fields((path, value)) == [field]


def test_an_alias_stands_alone_and_other_terms_need_a_family() -> None:
    terms = [{"alias": "al2023@latest"}, {"id": "ami-1"}]
    assert fields(("spec.amiSelectorTerms", terms)) == ["spec.amiSelectorTerms[0].alias"]
    assert fields(("spec.amiSelectorTerms", [{"id": "ami-1"}])) == ["spec.amiFamily"]
    assert fields(("spec.amiSelectorTerms", [{"id": "ami-1"}]), ("spec.amiFamily", "AL2")) == []


def test_a_term_with_id_and_other_fields_is_accepted_beside_a_valid_one() -> None:
    """Karpenter accepts such a class and uses the id; refusing it would strand its nodes."""
    terms = [{"id": "subnet-1", "tags": {"a": "b"}}, {"tags": {"a": "b"}}]
    assert fields(("spec.subnetSelectorTerms", terms)) == []


@pytest.mark.parametrize(
    ("device", "part"),
    [
        ({"ebs": {"volumeType": "gp3"}}, ".ebs.volumeSize"),
        ({"ebs": {"volumeSize": "100T"}}, ".ebs.volumeSize"),
        ({"ebs": {"volumeSize": "0Gi"}}, ".ebs.volumeSize"),
        ({"ebs": {"volumeSize": "10Mi"}}, ".ebs.volumeSize"),
        ({"ebs": {"volumeSize": 10}}, ".ebs.volumeSize"),
        ({"ebs": {"volumeSize": "10Gi", "volumeType": "gp9"}}, ".ebs.volumeType"),
        ({"ebs": {"snapshotID": "snap-1", "volumeInitializationRate": 99}}, ".ebs.volumeInitializationRate"),
        ({"ebs": {"volumeSize": "10Gi", "volumeInitializationRate": 100}}, ".ebs.volumeInitializationRate"),
    ],
)
def test_a_bad_block_device_is_named(device: dict[str, Any], part: str) -> None:
    assert fields(("spec.blockDeviceMappings", [device])) == [f"spec.blockDeviceMappings[0]{part}"]


@pytest.mark.parametrize("size", ["1Gi", "59000Gi", "64000G", "58Ti", "18Ti", "64T"])
def test_volumes_may_have_the_largest_size_of_ebs(size: str) -> None:
    assert fields(("spec.blockDeviceMappings", [{"ebs": {"volumeSize": size}}])) == []


def test_one_device_at_most_is_the_root() -> None:
    root = {"rootVolume": True, "ebs": {"volumeSize": "10Gi"}}
    assert fields(("spec.blockDeviceMappings", [root, root])) == ["spec.blockDeviceMappings[1].rootVolume"]


def test_network_interfaces_have_a_primary_one_distinct_places_and_one_efa_a_card() -> None:
    def interface(card: int, device: int, kind: str) -> dict[str, Any]:
        return {"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind}

    primary = interface(0, 0, "interface")
    efa = interface(1, 1, "efa-only")
    assert fields(("spec.networkInterfaces", [primary, efa])) == []
    assert fields(("spec.networkInterfaces", [])) == []
    assert fields(("spec.networkInterfaces", [efa])) == ["spec.networkInterfaces"]
    assert fields(("spec.networkInterfaces", [primary, primary])) == ["spec.networkInterfaces[1]"]
    second = interface(1, 2, "efa-only")
    assert fields(("spec.networkInterfaces", [primary, efa, second])) == ["spec.networkInterfaces[2]"]
    assert fields(("spec.networkInterfaces", [{"deviceIndex": 0, "interfaceType": "efa"}])) == [
        "spec.networkInterfaces[0].networkCardIndex",
        "spec.networkInterfaces[0].interfaceType",
    ]


@pytest.mark.parametrize(
    ("kubelet", "part"),
    [
        ({"notAField": True}, "notAField"),
        ({"logging": {"verbose": 1}}, "logging.verbose"),
        ({"podsPerCore": "ten"}, "podsPerCore"),
        ({"podsPerCore": -1}, "podsPerCore"),
        ({"maxPods": -1}, "maxPods"),
        ({"evictionMaxPodGracePeriod": -1}, "evictionMaxPodGracePeriod"),
        ({"registerWithTaints": []}, "registerWithTaints"),
        ({"imageGCHighThresholdPercent": 101}, "imageGCHighThresholdPercent"),
        ({"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 50}, "imageGCHighThresholdPercent"),
        ({"kubeReserved": {"pods": "1"}}, "kubeReserved.pods"),
        ({"systemReserved": {"cpu": "-1"}}, "systemReserved.cpu"),
        ({"kubeReserved": {"cpu": 1}}, "kubeReserved.cpu"),
        ({"evictionHard": {"memory": "1Gi"}}, "evictionHard.memory"),
        ({"evictionHard": {"memory.available": "101%"}}, "evictionHard[memory.available]"),
        ({"evictionHard": {"memory.available": "-1Gi"}}, "evictionHard[memory.available]"),
        ({"evictionHard": {"memory.available": "much"}}, "evictionHard[memory.available]"),
        ({"evictionSoft": {"pid.available": "5%"}}, "evictionSoft[pid.available]"),
        ({"evictionSoftGracePeriod": {"pid.available": "5m"}}, "evictionSoftGracePeriod[pid.available]"),
        ({"nodeStatusUpdateFrequency": "often"}, "nodeStatusUpdateFrequency"),
    ],
)
def test_kubelet_settings_that_a_family_does_not_know_are_refused(kubelet: dict[str, Any], part: str) -> None:
    assert fields(("spec.kubelet", kubelet)) == [f"spec.kubelet.{part}"]


@pytest.mark.parametrize(
    "kubelet",
    [
        {},
        {"serializeImagePulls": False, "cpuManagerPolicy": "static", "topologyManagerPolicyOptions": {"a": "b"}},
        {"maxPods": "min(110, default_enis * ips_per_eni)"},
        {"kubeReserved": {"cpu": "vcpus * 10"}},
        {"evictionHard": {"memory.available": "5%", "nodefs.available": "10Gi"}},
        {"evictionSoft": {"memory.available": "7.5%"}, "evictionSoftGracePeriod": {"memory.available": "1m30s"}},
        {"imageGCHighThresholdPercent": 80, "imageGCLowThresholdPercent": 60},
        {"clusterDNS": ["10.0.0.1", "10.0.0.2"], "logging": {"flushFrequency": 5, "format": "json"}},
    ],
)
def test_al2023_passes_on_all_settings_of_the_kubelet(kubelet: dict[str, Any]) -> None:
    assert fields(("spec.kubelet", kubelet)) == []


@pytest.mark.parametrize(
    ("family", "kubelet", "part"),
    [
        ("al2", {"serializeImagePulls": False}, "serializeImagePulls"),
        ("al2", {"clusterDNS": ["10.0.0.1", "10.0.0.2"]}, "clusterDNS"),
        ("bottlerocket", {"podsPerCore": 5}, "podsPerCore"),
    ],
)
def test_other_families_pass_on_fewer_settings(family: str, kubelet: dict[str, Any], part: str) -> None:
    alias = ("spec.amiSelectorTerms", [{"alias": f"{family}@latest"}])
    assert fields(alias, ("spec.kubelet", kubelet)) == [f"spec.kubelet.{part}"]
    assert fields(alias, ("spec.amiFamily", "Custom"), ("spec.kubelet", kubelet)) == []


@pytest.mark.parametrize(
    ("is_public", "count", "expected"),
    [(True, 1, []), (True, 2, ["spec.associatePublicIPAddress"]), (False, 2, [])],
)
def test_a_public_address_needs_a_single_interface(is_public: bool, count: int, expected: list[str]) -> None:
    """EC2 would refuse every launch of a class that reports ready."""
    interfaces = [
        {"networkCardIndex": card, "deviceIndex": min(card, 1), "interfaceType": "interface"} for card in range(count)
    ]
    assert fields(("spec.networkInterfaces", interfaces), ("spec.associatePublicIPAddress", is_public)) == expected


def test_as_many_tags_as_ec2_allows_are_valid() -> None:
    """Otherwise, a class that Karpenter launches is refused."""
    assert fields(("spec.tags", {f"tag-{n}": "x" for n in range(TAGS_MAX)})) == []
