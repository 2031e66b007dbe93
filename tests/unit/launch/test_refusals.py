"""What EC2, a kubelet or our own rendering refuses is known before the first launch."""

from __future__ import annotations

from typing import Any

import pytest

from core.catalogue.node_class import read_node_class
from core.launch.refusals import first_certain, launch_problems
from tests.builders import a_class_manifest


def problems_of(**spec: Any) -> list[tuple[str, bool]]:
    manifest = a_class_manifest()
    manifest["spec"] = {**manifest["spec"], **spec}
    return [(found.field, found.is_certain) for found in launch_problems(read_node_class(manifest))]


def a_volume(name: str = "/dev/xvda", **ebs: Any) -> dict[str, Any]:
    return {"deviceName": name, "ebs": {"volumeSize": "100Gi", **ebs}}


def test_an_ordinary_class_has_no_problem() -> None:
    """Nor has one with volumes, tags and reservations within EC2's bounds."""
    assert problems_of() == []
    gp3 = a_volume(volumeType="gp3", iops=4000, throughput=500, encrypted=True, kmsKeyID="alias/k")
    kubelet = {"systemReserved": {"cpu": "100m"}, "evictionHard": {"memory.available": "5%"}}
    assert problems_of(blockDeviceMappings=[gp3, a_volume("/dev/xvdb")], tags={"team": "web"}, kubelet=kubelet) == []


@pytest.mark.parametrize(
    ("family", "user_data"),
    [
        ("Bottlerocket", "settings: {kubernetes: {}}"),
        ("AL2023", "MIME-Version: 1.0\nContent-Type: multipart/mixed\n\nx"),
        ("AL2023", "x" * 17_000),
        ("Custom", "x" * 16_385),
    ],
)
def test_user_data_that_cannot_be_rendered(family: str, user_data: str) -> None:
    """The text is not TOML, its archive has no boundary, or it is longer than EC2 takes."""
    assert problems_of(amiFamily=family, amiSelectorTerms=[{"id": "ami-1"}], userData=user_data) == [
        ("spec.userData", True)
    ]


@pytest.mark.parametrize(
    ("kubelet", "field"),
    [
        ({"systemReserved": {"cpu": "half"}}, "spec.kubelet.systemReserved.cpu"),
        ({"kubeReserved": {"memory": "1Gb"}}, "spec.kubelet.kubeReserved.memory"),
        ({"evictionHard": {"memory.available": "little"}}, "spec.kubelet.evictionHard.memory.available"),
        (
            {"evictionSoftGracePeriod": {"memory.available": "soon"}},
            "spec.kubelet.evictionSoftGracePeriod.memory.available",
        ),
    ],
)
def test_a_kubelet_that_would_not_start(kubelet: dict[str, Any], field: str) -> None:
    """The node would never join."""
    assert (field, True) in problems_of(kubelet=kubelet)


@pytest.mark.parametrize(
    ("volume", "field", "certain"),
    [
        (a_volume(kmsKeyID="alias/k"), "ebs.kmsKeyID", True),
        (a_volume(kmsKeyID="alias/k", encrypted=False), "ebs.kmsKeyID", True),
        (a_volume(volumeType="gp3", iops=100), "ebs.iops", True),
        (a_volume(volumeType="gp3", volumeSize="1Ti", iops=99_000), "ebs.iops", False),
        (a_volume(volumeType="io1", iops=6_000), "ebs.iops", False),
        (a_volume(volumeType="gp3", throughput=900), "ebs.throughput", False),
        (a_volume(volumeType="gp3", throughput=10), "ebs.throughput", True),
        (a_volume(volumeType="st1", volumeSize="20Gi"), "ebs.volumeSize", True),
        (a_volume(volumeType="gp2", volumeSize="20Ti"), "ebs.volumeSize", False),
        (a_volume(volumeType="st1", volumeSize="200Gi") | {"rootVolume": True}, "ebs.volumeType", True),
    ],
)
def test_a_volume_that_ec2_refuses(volume: dict[str, Any], field: str, *, certain: bool) -> None:
    """A lower bound never falls; AWS raises upper ones now and then, so these are warnings."""
    assert problems_of(blockDeviceMappings=[volume]) == [(f"spec.blockDeviceMappings[0].{field}", certain)]


def test_a_device_is_mapped_once() -> None:
    """EC2: InvalidBlockDeviceMapping."""
    found = problems_of(blockDeviceMappings=[a_volume(), a_volume("/dev/xvdb"), a_volume()])
    assert found == [("spec.blockDeviceMappings[2].deviceName", True)]


@pytest.mark.parametrize(
    ("tags", "field"),
    [
        ({"aws:team": "web"}, "spec.tags.aws:team"),
        ({"AWS:team": "web"}, "spec.tags.AWS:team"),
        ({"k" * 129: "v"}, f"spec.tags.{'k' * 129}"),
        ({"k": "v" * 257}, "spec.tags.k"),
    ],
)
def test_tags_that_ec2_refuses(tags: dict[str, str], field: str) -> None:
    """EC2 User Guide, tag restrictions."""
    assert problems_of(tags=tags) == [(field, True)]


def test_an_address_that_is_none_is_a_warning_where_the_kubelet_ignores_it() -> None:
    """It logs the address and goes on without it."""
    manifest = a_class_manifest()
    manifest["spec"]["kubelet"] = {"clusterDNS": ["10.100.0.10", "dns"]}
    found = launch_problems(read_node_class(manifest))
    assert [problem.field for problem in found] == ["spec.kubelet.clusterDNS[1]"]
    assert first_certain(found) is None
