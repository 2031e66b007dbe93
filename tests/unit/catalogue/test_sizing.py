"""What determines a node's size besides its type."""

from __future__ import annotations

from typing import Any

import pytest

from core.catalogue.node_class import read_node_class
from core.catalogue.sizing import sizing_of
from core.errors import InvalidInputError
from core.model.values.sizing_settings import SizingSettings
from tests.unit.catalogue.sized_types import (
    a_class,
    one_type,
)


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
