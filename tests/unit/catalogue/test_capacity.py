"""A node's capacity, compared with figures that Karpenter documents for its defaults."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.catalogue.build import build_catalogue
from core.labels import PREFIX_DELEGATION
from core.model.values.sizing_settings import SizingSettings, settings_from
from simulator.market.embedded import builtin_market, builtin_shapes
from tests.unit.catalogue.sized_types import (
    MIB,
    a_class,
    default_types,
    one_type,
)


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
