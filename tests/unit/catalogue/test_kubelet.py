"""The kubelet settings that affect a node's size."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core import labels
from core.catalogue.kubelet import KubeletSettings, Sizing, Threshold, expressions, read_kubelet, sizing_of
from core.catalogue.node_class import NetworkInterface, PlacementGroup, read_node_class
from core.catalogue.node_memory import written_group
from core.errors import InvalidInputError
from core.model.values.quotas import SizingSettings
from tests.unit.catalogue.sized_types import a_class, one_type


def test_reservations_given_as_expressions_are_ignored() -> None:
    """Karpenter's feature gate for expressions is off by default; sizes must agree with that."""
    assert one_type("m5.large", kubelet={"kubeReserved": {"cpu": "vcpus * 10"}}) == one_type("m5.large")


@pytest.mark.parametrize(
    ("threshold", "capacity", "kept"),
    [
        (Threshold(), 100, 0), (Threshold(7), 100, 7), (Threshold(7), 0, 7), (Threshold(share_ppm=0), 100, 0),
        (Threshold(share_ppm=50_000), 100, 5), (Threshold(share_ppm=50_000), 101, 6), (Threshold(share_ppm=1), 1, 1),
        (Threshold(share_ppm=999_999), 10, 10), (Threshold(share_ppm=1_000_000), 10, 0),
    ],
)  # fmt: skip
def test_a_threshold_is_an_amount_or_a_share_rounded_up(threshold: Threshold, capacity: int, kept: int) -> None:
    """A share of exactly 100 % turns the threshold off (Kubernetes)."""
    assert threshold.of(capacity) == kept


@pytest.mark.parametrize(
    ("block", "read"),
    [
        ({}, {}),
        ({"maxPods": 0}, {"max_pods": 0}),
        ({"maxPods": "vcpus * 10"}, {}),
        ({"podsPerCore": 0}, {}),
        ({"podsPerCore": 3}, {"pods_per_core": 3}),
        (
            {"kubeReserved": {"memory": "1Gi", "cpu": "0", "ephemeral-storage": "vcpus * 10", "pid": "9"}},
            {"kube_reserved": (("cpu", 0), ("memory", 2**30), ("pid", 9))},
        ),
        ({"systemReserved": {"cpu": "vcpus", "memory": "1"}}, {"system_reserved": (("memory", 1),)}),
        ({"evictionHard": {"memory.available": "100Mi"}}, {"eviction_memory": Threshold(100 * 2**20)}),
        ({"evictionHard": {"nodefs.available": "1.5%"}}, {"eviction_storage": Threshold(share_ppm=15_000)}),
        ({"evictionHard": {"imagefs.available": "1.5%"}}, {}),
        ({"evictionSoft": {"memory.available": "1Gi"}}, {}),
    ],
)
def test_each_setting_is_read_and_expressions_are_left_out(block: dict[str, Any], read: dict[str, Any]) -> None:
    assert read_kubelet(block) == KubeletSettings(**read)


@pytest.mark.parametrize("value", [-1, True, 1.5, [3], {"a": 1}])
@pytest.mark.parametrize("name", ["maxPods", "podsPerCore"])
def test_a_count_is_a_whole_number_of_zero_or_more(name: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match="not a whole number of zero or more"):
        read_kubelet({name: value})


@pytest.mark.parametrize(
    ("block", "named"),
    [
        ({}, ()),
        ({"maxPods": 5, "kubeReserved": {"cpu": "1"}}, ()),
        ({"maxPods": "vcpus"}, ("maxPods",)),
        (
            {
                "systemReserved": {"memory": "1Gi", "cpu": "vcpus"},
                "kubeReserved": {"pid": "y", "cpu": "x", "memory": "1"},
            },
            ("kubeReserved.cpu", "kubeReserved.pid", "systemReserved.cpu"),
        ),
        ({"maxPods": "vcpus", "kubeReserved": {"cpu": "x"}}, ("maxPods", "kubeReserved.cpu")),
    ],
)
def test_expressions_are_named(block: dict[str, Any], named: tuple[str, ...]) -> None:
    """No kubelet understands them: nodes of the class would not start."""
    assert expressions(block) == named


# What determines a node's size besides its type.


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, 20 * 2**30),
        ({"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi"}}]}, 100 * 2**30),
        (
            {
                "blockDeviceMappings": [
                    {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "8Gi"}},
                    {"deviceName": "/dev/xvdz", "rootVolume": True, "ebs": {"volumeSize": "50G"}},
                ]
            },
            50 * 10**9,
        ),
        ({"instanceStorePolicy": "RAID0"}, 75 * 10**9),
        ({"amiFamily": "Bottlerocket", "amiSelectorTerms": [{"id": "ami-1"}]}, 20 * 2**30),
    ],
)
def test_ephemeral_storage_is_that_of_the_volume_pods_live_on(spec: dict[str, Any], expected: int) -> None:
    """Otherwise, pods asking for scratch space would be evicted, or never placed."""
    assert one_type("m5d.large", **spec).capacity["ephemeral-storage"] == expected


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"kubelet": {"maxPods": -1}}, r"spec\.kubelet\.maxPods"),
        ({"kubelet": {"podsPerCore": True}}, r"spec\.kubelet\.podsPerCore"),
        ({"kubelet": {"kubeReserved": "1Gi"}}, r"spec\.kubelet\.kubeReserved"),
        ({"kubelet": {"kubeReserved": {"gpu": "1"}}}, r"spec\.kubelet\.kubeReserved"),
        ({"kubelet": {"systemReserved": {"cpu": "-1"}}}, r"spec\.kubelet\.systemReserved\.cpu"),
        ({"kubelet": {"evictionHard": {"memory.available": "x%"}}}, r"spec\.kubelet\.evictionHard"),
        ({"kubelet": {"evictionHard": {"memory.available": "9" * 300 + "%"}}}, r"spec\.kubelet\.evictionHard"),
        ({"kubelet": {"evictionHard": {"nodefs.available": "NaN%"}}}, r"spec\.kubelet\.evictionHard"),
        ({"kubelet": {"evictionHard": {"nodefs.available": "-1%"}}}, r"spec\.kubelet\.evictionHard"),
        ({"blockDeviceMappings": [{"ebs": {"volumeSize": "big"}}]}, r"spec\.blockDeviceMappings"),
        ({"subnetSelectorTerms": "all"}, r"spec\.subnetSelectorTerms"),
    ],
)
def test_a_class_that_cannot_be_sized_is_named_with_its_field(spec: dict[str, Any], field: str) -> None:
    """Its NodePools launch nothing; the user must learn why."""
    with pytest.raises(InvalidInputError, match=rf"EC2NodeClass c: {field}"):
        sizing_of(read_node_class(a_class(**spec)), SizingSettings())


def test_a_custom_image_uses_its_last_volume_for_pods() -> None:
    """The image's device for pods is unknown; Karpenter assumes the last."""
    devices = [
        {"deviceName": "/dev/a", "ebs": {"volumeSize": "5Gi"}},
        {"deviceName": "/dev/b", "ebs": {"volumeSize": "7Gi"}},
    ]
    custom = {"amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-1"}]}
    assert one_type("m5.large", blockDeviceMappings=devices, **custom).capacity["ephemeral-storage"] == 7 * 2**30
    assert one_type("m5.large", **custom).capacity["ephemeral-storage"] == 20 * 2**30


XVDA, OTHER = "/dev/xvda", "/dev/xvdz"
EFA_ONLY = NetworkInterface(network_card_index=1, device_index=2, interface_type="efa-only")


def device(name: str, size: str | None = None, *, is_root: bool = False) -> dict[str, Any]:
    return {"deviceName": name, "rootVolume": is_root, "ebs": {} if size is None else {"volumeSize": size}}


@pytest.mark.parametrize(
    ("family", "devices", "gib"),
    [
        ("AL2023", [], 20),
        ("AL2023", [device(OTHER, "7Gi")], 20),  # a further volume is not the one pods live on
        ("AL2023", [device(OTHER, "7Gi"), device(XVDA, "9Gi")], 9),
        ("AL2023", [device(XVDA, "9Gi"), device(OTHER, "7Gi")], 9),
        ("AL2023", [device(XVDA)], 20),  # the size is the snapshot's
        ("AL2023", [{"deviceName": XVDA}], 20),
        ("AL2023", [device(XVDA, "9Gi"), device(OTHER, is_root=True)], 9),
        ("AL2023", [device(XVDA, "9Gi"), device(OTHER, "7Gi", is_root=True)], 7),
        ("Bottlerocket", [device(XVDA, "9Gi")], 20),
        ("Bottlerocket", [device("/dev/xvdb", "9Gi")], 9),
        ("Windows2022", [device(XVDA, "9Gi")], 50),
        ("Windows2022", [device("/dev/sda1", "9Gi")], 9),
        ("Custom", [], 20),
        ("Custom", [device(XVDA, "9Gi"), device(OTHER, "7Gi"), device("/dev/xvdc", "5Gi")], 5),  # the last one (Karpenter)
        ("Custom", [device(XVDA, "9Gi"), device(OTHER)], 20),
        ("Custom", [device(XVDA, "9Gi", is_root=True), device(OTHER, "7Gi")], 9),
    ],
)  # fmt: skip
def test_pods_live_on_the_root_volume_else_on_the_device_of_the_family(
    family: str, devices: list[dict[str, Any]], gib: int
) -> None:
    """Each family mounts another device for them; Custom has none of its own."""
    assert sizing(amiFamily=family, blockDeviceMappings=devices).ephemeral_bytes == gib * 2**30


@pytest.mark.parametrize(
    ("family", "devices", "volumes"),
    [
        ("AL2023", 0, 1),
        ("Bottlerocket", 0, 2),
        ("Custom", 0, 1),
        ("AL2023", 3, 3),
        ("Bottlerocket", 1, 1),
        ("Custom", 2, 2),
    ],
)
def test_a_nodes_own_volumes_are_those_of_the_class_else_of_the_family(family: str, devices: int, volumes: int) -> None:
    """A node has at least one: Custom names none."""
    mappings = [device(f"/dev/xvd{number}") for number in range(devices)]
    assert sizing(amiFamily=family, blockDeviceMappings=mappings).root_volumes == volumes


@pytest.mark.parametrize(
    ("spec", "changed"),
    [
        ({"instanceStorePolicy": "RAID0"}, {"uses_instance_store": True}),
        ({"cpuOptions": {"nestedVirtualization": "enabled"}}, {"nested_virtualization": True}),
        ({"cpuOptions": {"nestedVirtualization": "disabled"}}, {}),
        ({"cpuOptions": {}}, {}),
        ({"enclaveOptions": {"enabled": True}}, {"enclaves": True}),
        ({"enclaveOptions": {"enabled": False}}, {}),
        ({"connectionTracking": {}}, {"needs_nitro": True}),
        ({"kubelet": {"maxPods": 5}}, {"kubelet": KubeletSettings(max_pods=5)}),
        (
            {"networkInterfaces": [{"networkCardIndex": 1, "deviceIndex": 2, "interfaceType": "efa-only"}]},
            {
                "interfaces": (NetworkInterface(network_card_index=1, device_index=2, interface_type="efa-only"),),
                "efa_only_interfaces": 1,
            },
        ),
        ({"role": "r", "tags": {"a": "b"}, "userData": "x"}, {}),
    ],
)
def test_each_setting_changes_its_part_of_the_sizing_and_no_other(
    spec: dict[str, Any], changed: dict[str, Any]
) -> None:
    """Classes whose nodes have the same size share one list of types."""
    assert sizing(**spec) == msgspec.structs.replace(sizing(), **changed)
    assert sizing(amiFamily="AL2023") == Sizing()


def test_the_status_and_annotations_of_a_class_count_too() -> None:
    """Zones, the placement group, prefixes and the memory that nodes reported."""
    group = {"id": "pg-1", "name": "g", "strategy": "spread"}
    annotations = {
        labels.PREFIX_DELEGATION: "true",
        labels.PLACEMENT_GROUP: written_group(group),
        labels.NODE_MEMORY: '{"images":"e3b0c44298fc","mib":{"m5.large":7000,"c5.large":3000}}',
    }
    status = {"subnets": [{"id": "s-2", "zone": "b"}, {"id": "s-1", "zone": "a"}, {"id": "s-3", "zone": "b"}]}
    manifest = {"metadata": {"annotations": annotations}, "status": status}
    spec = {"amiFamily": "AL2023", "placementGroupSelector": {"name": "g"}}
    settings = SizingSettings(reserved_enis=3)
    assert sizing_of(read_node_class({**manifest, "spec": spec}), settings) == Sizing(
        zones=("a", "b"),
        delegates_prefixes=True,
        placement_group=PlacementGroup(id="pg-1", name="g", strategy="spread"),
        discovered=(("c5.large", 3000), ("m5.large", 7000)),
        settings=settings,
    )


def sizing(**spec: Any) -> Sizing:
    return sizing_of(read_node_class({"spec": {"amiFamily": "AL2023", **spec}}), SizingSettings())
