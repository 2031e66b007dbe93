"""A node's capacity, compared with figures that Karpenter documents for its defaults."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.ami_families.registry import FAMILIES
from core.catalogue.build import build_catalogue
from core.catalogue.capacity import attach_limit, branch_interfaces, capacity
from core.catalogue.kubelet import KubeletSettings, Sizing
from core.catalogue.node_class import NetworkInterface
from core.labels import PREFIX_DELEGATION
from core.model.values.quotas import SizingSettings, settings_from
from simulator.market.embedded import builtin_market, builtin_shapes
from tests.unit.catalogue.one_type import shape
from tests.unit.catalogue.sized_types import MIB, a_class, default_types, one_type

# Pods with their own security groups.


@pytest.mark.parametrize(
    ("name", "limit"), [("m5.large", 9), ("c5.18xlarge", 107), ("p4d.24xlarge", None), ("t3.large", 0)]
)
def test_pods_with_their_own_security_groups_are_counted(name: str, limit: int | None) -> None:
    """Such pods request a branch interface each, and would find no node without it."""
    found = default_types()[name].capacity.get("vpc.amazonaws.com/pod-eni", 0)
    assert found == limit if limit is not None else found > 0


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("i4i.large", 9),
        ("c9g.large", 9),
        ("c9gd.48xlarge", 98),
        ("hpc7g.4xlarge", 118),
        ("m8idb.metal-48xl", 98),
        ("r8in.96xlarge", 98),
        ("dl1.24xlarge", 62),
        ("g4ad.xlarge", 12),
        ("c7i-flex.large", 3),
        ("i3.metal", 120),
        ("t3.large", 0),
        ("x1.16xlarge", 0),
        ("c9g.nano", 0),
    ],
)
def test_branch_interfaces_are_those_of_the_controller(name: str, limit: int) -> None:
    """From the table in Karpenter 1.15.2: types of 2026, and types for which the table before it had another figure."""
    assert branch_interfaces(name) == limit


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
def test_a_node_has_the_capacity_that_karpenter_documents(
    name: str, cpu: int | None, memory_mib: int, pods: int | None
) -> None:
    """Otherwise, pods are planned onto nodes that turn out too small, or nodes stay half empty."""
    left = default_types()[name].allocatable()
    assert left["memory"] // MIB == memory_mib
    assert cpu is None or left["cpu"] == cpu
    assert pods is None or left["pods"] == pods


def test_devices_are_counted() -> None:
    """Otherwise, a GPU or Neuron pod would never find its node."""
    assert default_types()["p4d.24xlarge"].capacity["nvidia.com/gpu"] == 8
    assert default_types()["p4d.24xlarge"].capacity["vpc.amazonaws.com/efa"] == 4
    trn1 = default_types()["trn1.32xlarge"].capacity
    assert (trn1["aws.amazon.com/neuron"], trn1["aws.amazon.com/neuroncore"], trn1["vpc.amazonaws.com/efa"]) == (
        16,
        32,
        8,
    )
    assert "nvidia.com/gpu" not in default_types()["m5.large"].capacity


def test_reserved_interfaces_lower_the_pod_count_but_not_the_memory_reservation() -> None:
    """Otherwise, with custom CNI networking, pods would be planned onto addresses that are not there."""
    settings = settings_from(vm_memory_overhead_percent="0.075", reserved_enis=1)
    assert one_type("t3.large").capacity["pods"] == 35
    reserved = one_type("t3.large", settings)
    assert reserved.capacity["pods"] == 24
    assert reserved.overhead["memory"] == (640 + 100) * MIB


def test_pods_per_core_and_max_pods_bound_the_pod_count() -> None:
    """Otherwise, the kubelet would refuse pods that were planned onto the node."""
    assert one_type("m5.xlarge", kubelet={"podsPerCore": 2}).capacity["pods"] == 8
    assert one_type("m5.xlarge", kubelet={"maxPods": 500}).capacity["pods"] == 500
    assert one_type("m5.xlarge", kubelet={"maxPods": "max(10, vcpus)"}).capacity["pods"] == 58


def with_prefixes(name: str, settings: SizingSettings | None = None, **spec: Any) -> int:
    """Pods of a type in a class that says that its nodes get prefixes."""
    delegating = {**a_class(**spec), "metadata": {"name": "c", "annotations": {PREFIX_DELEGATION: "true"}}}
    shapes = [shape for shape in builtin_shapes() if shape.instance_type == name]
    built = build_catalogue(shapes, builtin_market("us-east-1"), [delegating], settings or SizingSettings())
    return built.types_for("c")[0].capacity["pods"]


@pytest.mark.parametrize(
    ("name", "without", "prefixes"),
    [
        ("t3.nano", 4, 34),  # two interfaces with an address each besides their own
        ("t3.small", 11, 110),  # 9 prefixes hold 146 pods, and EKS recommends 110 at most
        ("m5.large", 29, 110),
        ("m5.8xlarge", 234, 250),
        ("m5.metal", 737, 250),
        ("m4.large", 20, 20),  # not on Nitro: EC2 gives it no prefixes
    ],
)
def test_prefixes_multiply_the_pods_of_a_node_up_to_what_eks_recommends(name: str, without: int, prefixes: int) -> None:
    """By single addresses, a node of 2 vCPUs is full at 29 pods, whatever they ask for."""
    assert one_type(name).capacity["pods"] == without
    assert with_prefixes(name) == prefixes


def test_the_classs_own_bounds_hold_with_prefixes() -> None:
    assert with_prefixes("m5.large", kubelet={"maxPods": 60}) == 60
    assert with_prefixes("m5.large", kubelet={"podsPerCore": 20}) == 40
    assert with_prefixes("t3.nano", SizingSettings(reserved_enis=1)) == 18
    assert with_prefixes("m5.large", amiSelectorTerms=[{"alias": "windows2022@latest"}]) == 110


def test_an_efa_only_interface_takes_a_pod_interface_away() -> None:
    """Its slot on the first card has no addresses for pods."""
    interfaces = [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
    ]
    assert one_type("m6idn.32xlarge").capacity["pods"] == 394
    assert one_type("m6idn.32xlarge", networkInterfaces=interfaces).capacity["pods"] == 345


def test_a_nodes_own_volumes_do_not_count_for_pods() -> None:
    """Otherwise, a StatefulSet's pods would be planned onto nodes that cannot attach their volumes."""
    assert one_type("m5.large").attach_limit == 25
    assert one_type("p4d.24xlarge").attach_limit == 27


def test_windows_nodes_admit_a_fixed_number_of_pods_and_count_addresses() -> None:
    """Each Windows pod requests an address; without the resource it finds no node."""
    shaped = one_type("t3.large", amiSelectorTerms=[{"alias": "windows2022@latest"}])
    assert shaped.capacity["pods"] == 110
    assert shaped.overhead["memory"] == (1465 + 100) * MIB
    assert shaped.capacity["ephemeral-storage"] == 50 * 2**30
    assert shaped.capacity["vpc.amazonaws.com/PrivateIPv4Address"] == 11
    assert shaped.labels[labels.OS] == ("windows",)
    assert shaped.labels[labels.WINDOWS_BUILD] == ("10.0.20348",)
    assert labels.OS not in one_type("c7g.large", amiSelectorTerms=[{"alias": "windows2022@latest"}]).labels


def test_a_node_whose_interfaces_are_all_reserved_has_no_pods() -> None:
    """Otherwise, a negative count enters every sum."""
    assert one_type("t3.nano", SizingSettings(reserved_enis=9)).capacity["pods"] == 0


def sized(sizing: Sizing | None = None, **changes: Any) -> dict[str, int]:
    return capacity(shape(**changes), sizing or Sizing())


SOLD = 8192
"""MiB of the type, as EC2 sells it."""


@pytest.mark.parametrize(
    ("shown", "counts"),
    [
        (0, 7577), (SOLD // 2 - 1, 7577), (SOLD // 2, SOLD // 2), (SOLD - 1, SOLD - 1), (SOLD, SOLD), (SOLD + 1, 7577),
    ],
)  # fmt: skip
def test_a_report_counts_from_half_of_the_sold_memory_up_to_all_of_it(shown: int, counts: int) -> None:
    """Below and above, the node is faulty."""
    assert sized(Sizing(discovered=(("m5.large", shown), ("m5.xlarge", 5000))))["memory"] == counts * MIB
    assert sized(Sizing(discovered=(("m5.xlarge", 5000),)))["memory"] == 7577 * MIB


def test_arm_firmware_takes_64_mebibytes_before_the_share_of_the_hypervisor() -> None:
    """The share is rounded up: 7.5 % of 8128 MiB are 609.6 MiB."""
    assert sized(ProcessorInfo={"SupportedArchitectures": ["arm64"]})["memory"] == (8128 - 610) * MIB
    assert sized(ProcessorInfo={"SupportedArchitectures": ["x86_64", "arm64"]})["memory"] == 7577 * MIB


@pytest.mark.parametrize(
    ("vcpus", "addresses", "pods"), [(30, 250, 110), (31, 250, 250), (30, 2, 50), (31, 2, 50), (31, 1, 0)]
)
def test_prefixes_hold_at_most_110_pods_up_to_30_vcpus_and_250_above(vcpus: int, addresses: int, pods: int) -> None:
    """Three interfaces; one address of each is its own, and two pods need none."""
    network = {"MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": addresses}
    changes = {"VCpuInfo": {"DefaultVCpus": vcpus}, "NetworkInfo": network}
    assert sized(Sizing(delegates_prefixes=True), **changes)["pods"] == pods
    assert sized(**changes)["pods"] == (3 * (addresses - 1) + 2 if addresses > 1 else 0)


def test_only_nitro_machines_and_bare_metal_have_prefixes() -> None:
    found = [
        sized(Sizing(delegates_prefixes=True), Hypervisor=hypervisor, BareMetal=metal)["pods"]
        for hypervisor in ("nitro", "xen", "")
        for metal in (True, False)
    ]
    assert found == [110, 110, 110, 29, 110, 29]


def test_windows_nodes_have_no_prefixes_and_no_pods_per_core_of_bottlerocket() -> None:
    """Each family passes on to its kubelet what it can."""
    per_core = KubeletSettings(pods_per_core=3)
    counts = {
        f.name: sized(Sizing(family=f, kubelet=per_core, delegates_prefixes=True))["pods"] for f in FAMILIES.values()
    }
    assert counts == {
        "AL2": 6, "AL2023": 6, "Bottlerocket": 110, "Custom": 6, "Windows2019": 6, "Windows2022": 6, "Windows2025": 6,
    }  # fmt: skip
    windows = sized(Sizing(family=FAMILIES["Windows2022"], delegates_prefixes=True), VCpuInfo={"DefaultVCpus": 48})
    assert windows["pods"] == 110


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("architecture", ["x86_64", "arm64"])
def test_only_windows_nodes_offer_addresses_one_by_one(family: str, architecture: str) -> None:
    """All but the first of an interface, and only on machines that Windows boots on."""
    found = sized(Sizing(family=FAMILIES[family]), ProcessorInfo={"SupportedArchitectures": [architecture]})
    offers = family.startswith("Windows") and architecture == "x86_64"
    assert found.get("vpc.amazonaws.com/PrivateIPv4Address") == (9 if offers else None)


def test_an_efa_only_interface_takes_a_slot_of_pods_only_on_the_first_card() -> None:
    def pods(*interfaces: tuple[int, str]) -> int:
        given = tuple(NetworkInterface(network_card_index=card, interface_type=kind) for card, kind in interfaces)
        return sized(Sizing(interfaces=given, efa_only_interfaces=1))["pods"]

    assert pods((0, "interface"), (1, "efa-only")) == pods((0, "interface"), (0, "interface")) == 3 * 9 + 2
    assert pods((0, "interface"), (0, "efa-only")) == 2 * 9 + 2


@pytest.mark.parametrize(("given", "efa_only", "counts"), [(False, 0, 4), (True, 0, None), (True, 2, 2)])
def test_efa_interfaces_are_those_of_the_class_else_all_of_the_type(
    given: bool, efa_only: int, counts: int | None
) -> None:
    """Where the class lists interfaces, a node has no others."""
    network = {"MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": 9, "EfaInfo": {"MaximumEfaInterfaces": 4}}
    sizing = Sizing(interfaces=(NetworkInterface(),) if given else (), efa_only_interfaces=efa_only)
    assert sized(sizing, NetworkInfo=network).get("vpc.amazonaws.com/efa") == counts
    assert "vpc.amazonaws.com/efa" not in sized()


@pytest.mark.parametrize(
    ("kind", "interfaces", "volumes", "limit"),
    [
        ("shared", 1, 1, 27), ("shared", 2, 1, 26), ("shared", 3, 2, 25), ("dedicated", 3, 1, 27), ("dedicated", 1, 30, 0),
    ],
)  # fmt: skip
def test_where_interfaces_share_the_limit_of_volumes_the_second_one_counts(
    kind: str, interfaces: int, volumes: int, limit: int
) -> None:
    """A machine with one interface never gets a second one."""
    ebs = {"MaximumEbsAttachments": 28, "AttachmentLimitType": kind}
    network = {"MaximumNetworkInterfaces": interfaces, "Ipv4AddressesPerInterface": 10}
    assert attach_limit(shape(EbsInfo=ebs, NetworkInfo=network), Sizing(root_volumes=volumes)) == limit


def test_a_type_whose_limit_of_volumes_is_unknown_has_none() -> None:
    assert attach_limit(shape(), Sizing()) is None


@pytest.mark.parametrize("store", [None, {"TotalSizeInGB": 0}, {"TotalSizeInGB": 75}])
@pytest.mark.parametrize("is_used", [False, True])
def test_the_instance_store_holds_pods_storage_where_the_class_says_so_and_the_type_has_one(
    store: dict[str, int] | None, *, is_used: bool
) -> None:
    found = sized(Sizing(uses_instance_store=is_used, ephemeral_bytes=5), InstanceStorageInfo=store)
    assert found["ephemeral-storage"] == (75 * 10**9 if is_used and store == {"TotalSizeInGB": 75} else 5)


def test_devices_of_one_maker_add_up_and_unknown_makers_are_left_out() -> None:
    gpus = [
        {"Manufacturer": "NVIDIA", "Count": 2}, {"Manufacturer": "NVIDIA", "Count": 3}, {"Manufacturer": "AMD", "Count": 1},
        {"Manufacturer": "Habana", "Count": 8}, {"Manufacturer": "Other", "Count": 5},
    ]  # fmt: skip
    found = sized(GpuInfo={"Gpus": gpus})
    known = {"nvidia.com/gpu": 5, "amd.com/gpu": 1, "habana.ai/gaudi": 8}
    assert found == sized() | known


@pytest.mark.parametrize(("core", "cores"), [(None, None), ({"Count": 2}, 6)])
def test_a_neuron_device_has_the_cores_that_ec2_names(core: dict[str, int] | None, cores: int | None) -> None:
    """Devices of the type are alike; those of a type that names no cores are counted all the same."""
    found = sized(NeuronInfo={"NeuronDevices": [{"Count": 3, "CoreInfo": core}]})
    assert (found["aws.amazon.com/neuron"], found.get("aws.amazon.com/neuroncore")) == (3, cores)
    assert "aws.amazon.com/neuron" not in sized(NeuronInfo={"NeuronDevices": []})
