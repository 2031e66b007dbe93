"""The part of a node that is not allocatable."""

from __future__ import annotations

import pytest

from core.catalogue.overhead import cpu_reserved_millicores
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
