"""Parts of an EC2NodeClass: types, bounds and defaults."""

from __future__ import annotations

from typing import Any

import pytest

from core import api
from core.api.objects import JsonObject
from core.api.older_versions import problems
from core.api.schemas.ec2_node_class import (
    TAGS_MAX,
    AmiTerm,
    BlockDevice,
    EC2NodeClassObject,
    SubnetTerm,
    _no_primary_interface,
    ami_family,
)
from core.api.schemas.fields import examined
from core.api.status import Location
from core.labels import PREFIX_DELEGATION
from tests.unit.api.objects import ABSENT, NODE_CLASS, changed

# Block devices: a volume has a size or a snapshot.


SIZE = ("ebs", "volumeSize")


@pytest.mark.parametrize(
    ("ebs", "faults"),
    [
        ({"volumeSize": "100Gi"}, []),
        ({"snapshotID": "snap-1", "volumeInitializationRate": 100}, []),
        ({}, [SIZE]),
        ({"volumeSize": "0Gi"}, [SIZE]),
        ({"volumeSize": "59001Gi"}, [SIZE]),
        ({"volumeSize": "1.5Gi"}, [SIZE]),
        ({"volumeSize": "1Gi", "volumeInitializationRate": 100}, [("ebs", "volumeInitializationRate")]),
        ({"snapshotID": "snap-1", "volumeInitializationRate": 301}, [("ebs", "volumeInitializationRate")]),
        ({"volumeSize": "1Gi", "volumeType": "gp4"}, [("ebs", "volumeType")]),
    ],
)
def test_a_volume_has_a_size_that_ec2_has(ebs: JsonObject, faults: list[Location]) -> None:
    assert [location for location, _ in examined(BlockDevice, {"ebs": ebs})[1]] == faults


def test_a_device_need_not_say_anything() -> None:
    read, faults = examined(BlockDevice, {})
    assert (faults, read and read.root_volume, read and read.ebs) == ([], False, None)


def ec2_node_class_places(**spec: object) -> list[Location]:
    faults = examined(EC2NodeClassObject, NODE_CLASS | {"spec": NODE_CLASS["spec"] | spec})[1]
    return [location[1:] for location, _ in faults]


def test_defaults_are_karpenters() -> None:
    read, faults = examined(EC2NodeClassObject, NODE_CLASS)
    assert faults == []
    assert read is not None
    options = read.spec.metadata_options
    assert (options.http_endpoint, options.http_protocol_ipv6) == ("enabled", "disabled")
    assert (options.http_tokens, options.http_put_response_hop_limit) == ("required", 1)
    assert (read.spec.detailed_monitoring, read.spec.tags, read.spec.kubelet) == (False, {}, None)


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"subnetSelectorTerms": []}, [("subnetSelectorTerms",)]),
        ({"role": ""}, [("role",)]),
        ({"amiFamily": "Gentoo"}, [("amiFamily",)]),
        ({"metadataOptions": {"httpPutResponseHopLimit": 65}}, [("metadataOptions", "httpPutResponseHopLimit")]),
        ({"connectionTracking": {}}, [("connectionTracking",)]),
        ({"connectionTracking": {"udpTimeout": 29}}, [("connectionTracking", "udpTimeout")]),
        ({"placementGroupSelector": {}}, [("placementGroupSelector",)]),
        ({"placementGroupSelector": {"id": "pg-1", "name": "n"}}, [("placementGroupSelector",)]),
        ({"instanceStorePolicy": "RAID1"}, [("instanceStorePolicy",)]),
        ({"ipPrefixCount": -1}, [("ipPrefixCount",)]),
    ],
)
def test_faults_are_named_by_field(spec: JsonObject, found: list[Location]) -> None:
    assert ec2_node_class_places(**spec) == found


def test_network_interfaces_are_cards_and_devices_of_two_types() -> None:
    interface = {"networkCardIndex": 0, "deviceIndex": -1, "interfaceType": "efa"}
    found = ec2_node_class_places(networkInterfaces=[interface])
    assert found == [("networkInterfaces", 0, "deviceIndex"), ("networkInterfaces", 0, "interfaceType")]


# Rules across the fields of an EC2NodeClass.


EC2_NODE_CLASS_RULES_ALIAS: list[JsonObject] = [{"alias": "al2023@latest"}]
IMAGE: list[JsonObject] = [{"id": "ami-1"}]


def places(**spec: object) -> list[Location]:
    whole = {**NODE_CLASS["spec"], **spec}
    given = {name: value for name, value in whole.items() if value is not None}
    return [location[1:] for location, _ in examined(EC2NodeClassObject, NODE_CLASS | {"spec": given})[1]]


@pytest.mark.parametrize(
    ("spec", "family"),
    [
        ({"amiFamily": "AL2"}, "AL2"),
        ({"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}, "Bottlerocket"),
        ({"amiSelectorTerms": IMAGE}, "Custom"),
        ({"amiFamily": "AL2023", "amiSelectorTerms": [{"alias": "al2@latest"}]}, "AL2023"),
        ({}, "Custom"),
    ],
)
def test_the_family_is_the_one_named_or_that_of_the_alias(spec: JsonObject, family: str) -> None:
    assert ami_family(spec) == family


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"role": None, "instanceProfile": "p"}, []),
        ({"role": None}, [("role",)]),
        ({"instanceProfile": "p"}, [("instanceProfile",)]),
        ({"amiFamily": None, "amiSelectorTerms": EC2_NODE_CLASS_RULES_ALIAS}, []),
        ({"amiFamily": None, "amiSelectorTerms": IMAGE}, [("amiFamily",)]),
        ({"amiFamily": "AL2", "amiSelectorTerms": EC2_NODE_CLASS_RULES_ALIAS}, [("amiFamily",)]),
        (
            {"amiFamily": None, "amiSelectorTerms": [*EC2_NODE_CLASS_RULES_ALIAS, *IMAGE]},
            [("amiSelectorTerms", 0, "alias")],
        ),
        ({"tags": {"team": "a"}}, []),
        ({"tags": {"karpenter.sh/nodepool": "a"}}, [("tags", "karpenter.sh/nodepool")]),
        ({"tags": {"kubernetes.io/cluster/x": "owned"}}, [("tags", "kubernetes.io/cluster/x")]),
    ],
)
def test_ec2_node_class_rules_faults_are_named_by_field(spec: JsonObject, found: list[Location]) -> None:
    assert places(**spec) == found


def test_tags_leave_room_for_ours() -> None:
    """With one more, EC2 refuses every launch."""
    assert places(tags={f"t{n}": "v" for n in range(TAGS_MAX)}) == []
    assert places(tags={f"t{n}": "v" for n in range(TAGS_MAX + 1)}) == [("tags",)]


@pytest.mark.parametrize("card", [0, 1])
@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("kind", ["interface", "efa-only"])
def test_only_an_interface_in_the_first_slot_of_the_first_card_is_primary(card: int, device: int, kind: str) -> None:
    """EC2 launches no instance without one."""
    only = {"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind}
    is_primary = (card, device, kind) == (0, 0, "interface")
    assert (_no_primary_interface({"networkInterfaces": [only]}) == []) is is_primary
    primary = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}
    assert _no_primary_interface({"networkInterfaces": [only, primary]}) == []
    assert _no_primary_interface({}) == []


# Which fields of a selector term go together, by Karpenter's rules for EC2NodeClasses.


TAGS = {"tags": {"a": "b"}}
AMI = {"id": "ami-0123456789abcdef0"}
SUBNET, GROUP, RESERVATION = (
    {"id": f"{kind}-0123456789abcdef0"} for kind in ("subnet", "sg", "cr")
)  # fmt: skip
NAME, ALIAS, SSM = {"name": "n"}, {"alias": "al2023@latest"}, {"ssmParameter": "/a/b"}
OWNER, OPEN = {"ownerID": "111122223333"}, {"instanceMatchCriteria": "open"}


def faults(field: str, *terms: dict[str, Any]) -> list[str]:
    found = problems(changed(changed(NODE_CLASS, "spec.amiFamily", "AL2023"), f"spec.{field}", list(terms)))
    assert all(one.field.startswith(f"spec.{field}") for one in found)
    return sorted(one.field.removeprefix(f"spec.{field}") for one in found)


@pytest.mark.parametrize(
    ("term", "refused"),
    [
        (AMI, []),
        (TAGS | NAME, []),
        (TAGS | NAME | {"owner": "self"}, []),
        (SSM, []),
        (ALIAS, []),
        ({}, [""]),
        ({"owner": "self"}, [""]),
        ({"tags": {"a": ""}}, [".tags.a"]),
        ({"tags": {"": "b"}}, [".tags[]"]),
        *((AMI | other, [".id"]) for other in (TAGS, NAME, {"owner": "self"})),
        (AMI | ALIAS, [".id"]),
        *((ALIAS | other, [".alias"]) for other in (TAGS, NAME, {"owner": "self"})),
        (ALIAS | NAME | AMI, [".alias", ".id"]),
    ],
)
def test_an_image_is_named_in_one_way(term: dict[str, Any], refused: list[str]) -> None:
    assert faults("amiSelectorTerms", term) == [f"[0]{path}" for path in refused]


@pytest.mark.parametrize(
    ("field", "terms", "refused"),
    [
        ("subnetSelectorTerms", [SUBNET | TAGS], ["[0].id"]),
        ("subnetSelectorTerms", [SUBNET | TAGS, SUBNET | TAGS], ["[0].id", "[1].id"]),
        ("subnetSelectorTerms", [SUBNET | TAGS, SUBNET], []),
        ("subnetSelectorTerms", [SUBNET, TAGS], []),
        ("subnetSelectorTerms", [{}], ["[0]"]),
        ("securityGroupSelectorTerms", [GROUP | TAGS], ["[0].id"]),
        ("securityGroupSelectorTerms", [GROUP | NAME], ["[0].id", "[0].name"]),
        ("securityGroupSelectorTerms", [NAME | TAGS], ["[0].name"]),
        ("securityGroupSelectorTerms", [NAME | TAGS, NAME], []),
        ("capacityReservationSelectorTerms", [RESERVATION | TAGS], ["[0].id"]),
        ("capacityReservationSelectorTerms", [RESERVATION | OWNER], ["[0].id"]),
        ("capacityReservationSelectorTerms", [RESERVATION | OPEN], ["[0].id"]),
        ("capacityReservationSelectorTerms", [RESERVATION | OPEN, RESERVATION], []),
        ("capacityReservationSelectorTerms", [TAGS | OWNER | OPEN], []),
        ("capacityReservationSelectorTerms", [OWNER], ["[0]"]),
        ("capacityReservationSelectorTerms", [], []),
    ],
)
def test_a_list_of_which_every_term_mixes_an_id_with_something_else_is_refused(
    field: str, terms: list[dict[str, Any]], refused: list[str]
) -> None:
    """Karpenter's CEL asks `all`, not `any`: one clean term lets the others pass."""
    assert faults(field, *terms) == refused


def test_tags_need_a_key_and_a_value_each() -> None:
    assert [place for place, _ in examined(SubnetTerm, {"tags": {"a": "*", "b": ""}})[1]] == [("tags", "b")]
    assert ("tags", "a") in [place for place, _ in examined(AmiTerm, {"tags": {"a": ""}, "id": "ami-1"})[1]]


# What makes an EC2NodeClass invalid, the kubelet's settings included.


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
        ("spec.enclaveOptions", {}, "spec.enclaveOptions.enabled"),
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
