"""Volumes that a node is launched with."""

from __future__ import annotations

from tests.builders import a_type
from tests.unit.launch.orders import (
    a_node_class,
    rendered,
    template_data,
)


def test_a_custom_image_brings_its_own_volumes() -> None:
    """Otherwise, EC2 attaches volumes that the image does not expect."""
    custom = a_node_class({"amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-x86"}]})
    assert "BlockDeviceMappings" not in template_data(rendered(a_type("m5.large"), node_class=custom))


def test_a_volume_of_a_snapshot_has_the_snapshots_size() -> None:
    """EC2 takes the size from the snapshot where none is given; a size of ours would be refused or change the volume."""
    device = {"deviceName": "/dev/xvda", "ebs": {"snapshotID": "snap-1"}}
    of_snapshot = a_node_class({"blockDeviceMappings": [device]})
    (mapping,) = template_data(rendered(a_type("m5.large"), node_class=of_snapshot))["BlockDeviceMappings"]
    assert mapping["Ebs"]["SnapshotId"] == "snap-1"
    assert "VolumeSize" not in mapping["Ebs"]


def test_a_volume_has_what_the_class_says_and_nothing_else() -> None:
    """EC2 has its own defaults, and refuses zero and empty texts; a size is rounded up to whole GiB."""
    only = {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi"}}
    full = {
        "deviceName": "/dev/xvdb",
        "ebs": {
            "volumeSize": "1G",
            "volumeType": "gp3",
            "iops": 3000,
            "throughput": 250,
            "volumeInitializationRate": 300,
            "kmsKeyID": "key",
            "snapshotID": "snap-1",
            "encrypted": True,
            "deleteOnTermination": False,
        },
    }
    node_class = a_node_class({"blockDeviceMappings": [only, full, {"deviceName": "/dev/xvdc"}]})
    assert template_data(rendered(a_type("m5.large"), node_class=node_class))["BlockDeviceMappings"] == [
        {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 20}},
        {
            "DeviceName": "/dev/xvdb",
            "Ebs": {
                "VolumeSize": 1,
                "VolumeType": "gp3",
                "Iops": 3000,
                "Throughput": 250,
                "VolumeInitializationRate": 300,
                "KmsKeyId": "key",
                "SnapshotId": "snap-1",
                "Encrypted": True,
                "DeleteOnTermination": False,
            },
        },
        {"DeviceName": "/dev/xvdc"},
    ]
