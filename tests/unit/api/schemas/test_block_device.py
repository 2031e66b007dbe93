"""Block devices: a volume has a size or a snapshot."""

from __future__ import annotations

import pytest

from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas.base import examined
from core.api.schemas.block_device import BlockDevice

SIZE = ("ebs", "volumeSize")


@pytest.mark.parametrize(
    ("ebs", "faults"),
    [
        ({"volumeSize": "100Gi"}, []),
        ({"snapshotID": "snap-1", "volumeInitializationRate": 100}, []),
        ({}, [SIZE]),
        ({"volumeSize": "0Gi"}, [SIZE]),
        ({"volumeSize": "59001Gi"}, [SIZE]),
        ({"volumeSize": "1.5Gi"}, [SIZE]),
        ({"volumeSize": "1Gi", "volumeInitializationRate": 100}, [("ebs", "volumeInitializationRate")]),
        ({"snapshotID": "snap-1", "volumeInitializationRate": 301}, [("ebs", "volumeInitializationRate")]),
        ({"volumeSize": "1Gi", "volumeType": "gp4"}, [("ebs", "volumeType")]),
    ],
)
def test_a_volume_has_a_size_that_ec2_has(ebs: JsonObject, faults: list[Location]) -> None:
    assert [location for location, _ in examined(BlockDevice, {"ebs": ebs})[1]] == faults


def test_a_device_need_not_say_anything() -> None:
    read, faults = examined(BlockDevice, {})
    assert (faults, read and read.root_volume, read and read.ebs) == ([], False, None)
