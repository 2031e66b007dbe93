"""The part of a node that is not allocatable."""

from __future__ import annotations

import pytest

from core.catalogue.kubelet import KubeletSettings, Threshold
from core.catalogue.overhead import cpu_reserved_millicores, kube_reserved, overhead
from core.catalogue.sizing import Sizing
from tests.unit.catalogue.one_type import shape
from tests.unit.catalogue.sized_types import (
    MIB,
    one_type,
)


@pytest.mark.parametrize(("vcpus", "reserved"), [(1, 60), (2, 70), (4, 80), (8, 90), (16, 110), (96, 310)])
def test_the_kubelet_keeps_less_of_each_further_core(vcpus: int, reserved: int) -> None:
    """Otherwise, reserved CPU differs from what the node's bootstrap sets."""
    assert cpu_reserved_millicores(vcpus * 1000) == reserved


def test_bottlerocket_reserves_memory_for_its_maximum_of_pods() -> None:
    """Bottlerocket's kubelet computes its reservation from max-pods; a lower estimate overbooks the node."""
    shaped = one_type(
        "m5.xlarge", amiFamily="Bottlerocket", amiSelectorTerms=[{"id": "ami-1"}], kubelet={"maxPods": 110}
    )
    assert shaped.capacity["pods"] == 110
    assert shaped.overhead["memory"] == 1565 * MIB
    assert one_type("m5.xlarge").overhead["memory"] == 993 * MIB


def test_the_kubelet_block_replaces_reservations_name_by_name() -> None:
    """Ignoring a user's reservation overbooks every node of the class."""
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
    ("millicores", "reserved"),
    [
        (0, 0), (16, 0), (17, 1), (999, 59), (1000, 60), (1099, 60), (1100, 61), (2000, 70), (2199, 70), (2200, 71),
        (4000, 80), (4399, 80), (4400, 81), (448_000, 1190),
    ],
)  # fmt: skip
def test_each_band_is_rounded_down(millicores: int, reserved: int) -> None:
    """The bands end at 1, 2 and 4 cores."""
    assert cpu_reserved_millicores(millicores) == reserved


def test_every_vcpu_counts_as_a_whole_one() -> None:
    """What 448 vCPUs reserve is 60 + 10 + 10 + 444 * 2.5 millicores."""
    assert kube_reserved(shape(VCpuInfo={"DefaultVCpus": 448}), Sizing())["cpu"] == 1190


@pytest.mark.parametrize(("size", "kept"), [(100, 10), (101, 11), (109, 11), (110, 11), (0, 0)])
def test_a_tenth_of_the_storage_is_kept_rounded_up(size: int, kept: int) -> None:
    """Kubernetes evicts below it."""
    found = overhead(shape(), Sizing(), {"ephemeral-storage": size, "memory": 1})
    assert found["ephemeral-storage"] == 2**30 + kept


def test_only_resources_of_the_node_are_kept_and_only_what_is_not_zero() -> None:
    """A node without a resource cannot lose any of it."""
    kubelet = KubeletSettings(
        kube_reserved=(("cpu", 0), ("pid", 5)),
        system_reserved=(("memory", 7), ("pid", 3)),
        eviction_memory=Threshold(amount=11),
        eviction_storage=Threshold(share_ppm=1_000_000),
    )
    found = overhead(shape(), Sizing(kubelet=kubelet), {"cpu": 2000, "memory": 1, "ephemeral-storage": 50, "pods": 9})
    assert found == {"memory": (11 * 29 + 255) * MIB + 7 + 11, "ephemeral-storage": 2**30}
