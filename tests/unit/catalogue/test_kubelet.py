"""The kubelet settings that affect a node's size."""

from __future__ import annotations

from typing import Any

import pytest

from core.catalogue.kubelet import KubeletSettings, Threshold, expressions, read_kubelet
from core.errors import InvalidInputError
from tests.unit.catalogue.sized_types import (
    one_type,
)


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
