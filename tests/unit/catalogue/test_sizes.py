"""Sizes of nodes, against figures that Karpenter documents for its defaults."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from core import labels
from core.catalogue.build import build_catalogue, instance_types
from core.catalogue.node_class import read_node_class
from core.catalogue.overhead import cpu_reserved_millicores
from core.catalogue.sizing import Settings, settings_from, sizing_of
from core.errors import InvalidInputError
from core.model.catalogue import InstanceType
from simulator.market.embedded import builtin_market, builtin_shapes

MIB = 2**20
REGION = "us-east-1"


@cache
def default_types() -> dict[str, InstanceType]:
    return {t.name: t for t in instance_types(builtin_shapes(REGION), builtin_market(REGION))}


def a_class(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "c"}, "spec": {"amiSelectorTerms": [{"alias": "al2023@latest"}], **spec}}


def one_type(name: str, settings: Settings | None = None, /, **spec: Any) -> InstanceType:
    shapes = [shape for shape in builtin_shapes(REGION) if shape.instance_type == name]
    built = build_catalogue(shapes, builtin_market(REGION), [a_class(**spec)], settings or Settings())
    return built.types_for("c")[0]


@pytest.mark.parametrize(
    ("name", "cpu", "memory_mib", "pods"),
    [
        ("m5.large", 1930, 6903, 29),
        ("t3.medium", None, 3246, 17),
        ("m6g.large", None, 6844, None),
        ("g4dn.8xlarge", 31850, 120248, 58),
        ("m5.metal", 95690, 355262, 737),
        ("p4d.24xlarge", None, 1082712, None),
        ("trn1.32xlarge", None, 481894, 247),
        ("a1.medium", 940, 1392, 8),
    ],
)
def test_a_node_offers_what_karpenter_says_it_offers(
    name: str, cpu: int | None, memory_mib: int, pods: int | None
) -> None:
    """If this fails, pods are planned onto nodes that turn out too small, or nodes stay half empty."""
    left = default_types()[name].allocatable()
    assert left["memory"] // MIB == memory_mib
    assert cpu is None or left["cpu"] == cpu
    assert pods is None or left["pods"] == pods


def test_devices_are_counted() -> None:
    """A GPU or Neuron pod would never find its node."""
    assert default_types()["p4d.24xlarge"].capacity["nvidia.com/gpu"] == 8
    assert default_types()["p4d.24xlarge"].capacity["vpc.amazonaws.com/efa"] == 4
    trn1 = default_types()["trn1.32xlarge"].capacity
    assert (trn1["aws.amazon.com/neuron"], trn1["aws.amazon.com/neuroncore"], trn1["vpc.amazonaws.com/efa"]) == (
        16,
        32,
        8,
    )
    assert "nvidia.com/gpu" not in default_types()["m5.large"].capacity


@pytest.mark.parametrize(("vcpus", "reserved"), [(1, 60), (2, 70), (4, 80), (8, 90), (16, 110), (96, 310)])
def test_the_kubelet_keeps_less_of_each_further_core(vcpus: int, reserved: int) -> None:
    """CPU kept back would differ from what the node's bootstrap sets."""
    assert cpu_reserved_millicores(vcpus * 1000) == reserved


def test_reserved_interfaces_lower_the_pod_count_but_not_the_memory_reservation() -> None:
    """With custom CNI networking, pods would be planned onto addresses that are not there."""
    settings = settings_from(vm_memory_overhead_percent="0.075", reserved_enis=1)
    assert one_type("t3.large").capacity["pods"] == 35
    reserved = one_type("t3.large", settings)
    assert reserved.capacity["pods"] == 24
    assert reserved.overhead["memory"] == (640 + 100) * MIB


def test_bottlerocket_reserves_memory_by_the_pods_it_admits() -> None:
    """Bottlerocket's kubelet computes its reservation from max-pods; a lower guess overbooks the node."""
    shaped = one_type(
        "m5.xlarge", amiFamily="Bottlerocket", amiSelectorTerms=[{"id": "ami-1"}], kubelet={"maxPods": 110}
    )
    assert shaped.capacity["pods"] == 110
    assert shaped.overhead["memory"] == 1565 * MIB
    assert one_type("m5.xlarge").overhead["memory"] == 993 * MIB


def test_pods_per_core_and_max_pods_bound_the_pod_count() -> None:
    """The kubelet would refuse pods that were planned onto the node."""
    assert one_type("m5.xlarge", kubelet={"podsPerCore": 2}).capacity["pods"] == 8
    assert one_type("m5.xlarge", kubelet={"maxPods": 500}).capacity["pods"] == 500
    assert one_type("m5.xlarge", kubelet={"maxPods": "max(10, vcpus)"}).capacity["pods"] == 58


def test_an_efa_only_interface_takes_a_pod_interface_away() -> None:
    """Its slot on the first card has no addresses for pods."""
    interfaces = [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
    ]
    assert one_type("m6idn.32xlarge").capacity["pods"] == 394
    assert one_type("m6idn.32xlarge", networkInterfaces=interfaces).capacity["pods"] == 345


def test_the_kubelet_block_replaces_reservations_name_by_name() -> None:
    """A user's reservation that is ignored overbooks every node of the class."""
    block = {
        "kubeReserved": {"cpu": "200m"},
        "systemReserved": {"memory": "100Mi"},
        "evictionHard": {"memory.available": "5%", "nodefs.available": "100%"},
        "evictionSoft": {"memory.available": "50%"},
    }
    shaped, plain = one_type("m5.large", kubelet=block), one_type("m5.large")
    assert shaped.overhead["cpu"] == 200
    five_percent = -(-plain.capacity["memory"] * 5 // 100)
    assert shaped.overhead["memory"] == plain.overhead["memory"] + five_percent
    assert shaped.overhead["ephemeral-storage"] == 2**30


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
    """Pods asking for scratch space would be evicted, or never placed."""
    assert one_type("m5d.large", **spec).capacity["ephemeral-storage"] == expected


def test_volumes_that_a_node_can_take_leave_out_its_own() -> None:
    """A StatefulSet's pods would be planned onto nodes that cannot attach their volumes."""
    assert one_type("m5.large").attach_limit == 25
    assert one_type("p4d.24xlarge").attach_limit == 27


def test_labels_describe_the_machine() -> None:
    """NodePools and pods select on these."""
    found = {key.removeprefix(f"{labels.AWS_GROUP}/"): v for key, v in default_types()["g5.48xlarge"].labels.items()}
    assert found["instance-gpu-name"] == ("a10g",)
    assert found["instance-gpu-count"] == ("8",)
    assert found["instance-category"] == ("g",)
    assert found["instance-generation"] == ("5",)
    assert found["instance-size"] == ("48xlarge",)
    assert found["instance-local-nvme"] == ("7600",)
    assert found[labels.ARCH] == ("amd64",)
    assert default_types()["c7g.large"].labels[labels.ARCH] == ("arm64",)
    assert default_types()["u7i-12tb.224xlarge"].labels[f"{labels.AWS_GROUP}/instance-category"] == ("u",)
    assert default_types()["c7i-flex.large"].labels[f"{labels.AWS_GROUP}/instance-capability-flex"] == ("true",)
    inferentia = default_types()["inf2.xlarge"].labels
    assert inferentia[f"{labels.AWS_GROUP}/instance-accelerator-name"] == ("inferentia2",)
    assert inferentia[f"{labels.AWS_GROUP}/instance-accelerator-manufacturer"] == ("aws",)


@pytest.mark.parametrize(
    ("name", "limit"), [("m5.large", 9), ("c5.18xlarge", 107), ("p4d.24xlarge", None), ("t3.large", 0)]
)
def test_pods_with_security_groups_of_their_own_are_counted(name: str, limit: int | None) -> None:
    """Such pods ask for a branch interface each, and would find no node."""
    found = default_types()[name].capacity.get("vpc.amazonaws.com/pod-eni", 0)
    assert found == limit if limit is not None else found > 0


@pytest.mark.parametrize(
    ("name", "mbps"),
    [
        ("m5.large", ("750",)),
        ("c6in.32xlarge", ("200000",)),
        ("p4d.24xlarge", ("400000",)),
        ("c5n.18xlarge", ("100000",)),
        ("m4.large", None),
    ],
)
def test_network_bandwidth_is_the_speed_that_lasts(name: str, mbps: tuple[str, ...] | None) -> None:
    """A NodePool that asks for bandwidth would get burstable machines, or twice what a machine has."""
    assert default_types()[name].labels.get(f"{labels.AWS_GROUP}/instance-network-bandwidth") == mbps


@pytest.mark.parametrize("share", ["7.5%", "1.5", "-0.1", "NaN", ""])
def test_a_memory_overhead_that_is_no_share_is_refused(share: str) -> None:
    """75 instead of 0.075 would leave nodes without memory, and every pod unschedulable."""
    with pytest.raises(InvalidInputError, match="VM_MEMORY_OVERHEAD_PERCENT"):
        settings_from(vm_memory_overhead_percent=share, reserved_enis=0)


def test_windows_nodes_admit_a_fixed_number_of_pods_and_count_addresses() -> None:
    """Windows pods ask for an address each; without the resource they find no node."""
    shaped = one_type("t3.large", amiSelectorTerms=[{"alias": "windows2022@latest"}])
    assert shaped.capacity["pods"] == 110
    assert shaped.overhead["memory"] == (1465 + 100) * MIB
    assert shaped.capacity["ephemeral-storage"] == 50 * 2**30
    assert shaped.capacity["vpc.amazonaws.com/PrivateIPv4Address"] == 11
    assert shaped.labels[labels.OS] == ("windows",)
    assert shaped.labels[labels.WINDOWS_BUILD] == ("10.0.20348",)
    assert labels.OS not in one_type("c7g.large", amiSelectorTerms=[{"alias": "windows2022@latest"}]).labels


def test_interfaces_that_are_all_set_aside_leave_no_pods() -> None:
    """A negative count would go through every sum."""
    assert one_type("t3.nano", Settings(reserved_enis=9)).capacity["pods"] == 0


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"kubelet": {"maxPods": -1}}, r"spec\.kubelet\.maxPods"),
        ({"kubelet": {"podsPerCore": True}}, r"spec\.kubelet\.podsPerCore"),
        ({"kubelet": {"kubeReserved": "1Gi"}}, r"spec\.kubelet\.kubeReserved"),
        ({"kubelet": {"kubeReserved": {"gpu": "1"}}}, r"spec\.kubelet\.kubeReserved"),
        ({"kubelet": {"systemReserved": {"cpu": "-1"}}}, r"spec\.kubelet\.systemReserved\.cpu"),
        ({"kubelet": {"evictionHard": {"memory.available": "x%"}}}, r"spec\.kubelet\.evictionHard"),
        ({"blockDeviceMappings": [{"ebs": {"volumeSize": "big"}}]}, r"spec\.blockDeviceMappings"),
        ({"subnetSelectorTerms": "all"}, r"spec\.subnetSelectorTerms"),
    ],
)
def test_a_class_that_cannot_be_sized_names_itself_and_the_field(spec: dict[str, Any], field: str) -> None:
    """Its NodePools launch nothing; the user must learn why."""
    with pytest.raises(InvalidInputError, match=rf"EC2NodeClass c: {field}"):
        sizing_of(read_node_class(a_class(**spec)), Settings())


def test_reservations_by_expression_count_for_nothing() -> None:
    """Karpenter's gate for expressions is off by default; sizes must agree with its default."""
    assert one_type("m5.large", kubelet={"kubeReserved": {"cpu": "vcpus * 10"}}) == one_type("m5.large")


def test_nulls_mean_not_set() -> None:
    """Manifests written by tools carry nulls; the API server drops them."""
    assert one_type("m5.large", kubelet=None, blockDeviceMappings=None, userData=None) == one_type("m5.large")


def test_a_custom_image_lives_on_its_last_volume() -> None:
    """Nobody knows which device a custom image puts pods on; Karpenter takes the last."""
    devices = [
        {"deviceName": "/dev/a", "ebs": {"volumeSize": "5Gi"}},
        {"deviceName": "/dev/b", "ebs": {"volumeSize": "7Gi"}},
    ]
    custom = {"amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-1"}]}
    assert one_type("m5.large", blockDeviceMappings=devices, **custom).capacity["ephemeral-storage"] == 7 * 2**30
    assert one_type("m5.large", **custom).capacity["ephemeral-storage"] == 20 * 2**30
