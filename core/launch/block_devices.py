"""Renders the volumes that a node is launched with."""

from __future__ import annotations

from typing import Any, Final

from core.ami_families.family import AmiFamily
from core.catalogue.node_class import BlockDevice, Ebs
from core.catalogue.sizing import volume_bytes

_GIB: Final = 2**30


def block_device_mappings(devices: tuple[BlockDevice, ...], family: AmiFamily) -> list[dict[str, Any]]:
    """Return the class's own volumes, else the family's: gp3, encrypted.

    Raises:
        InvalidInputError: If a size is no quantity.
    """
    if devices:
        return [_mapping(device) for device in devices]
    return [
        {"DeviceName": device, "Ebs": {"VolumeSize": size, "VolumeType": "gp3", "Encrypted": True}}
        for device, size in family.default_volumes
    ]


def _mapping(device: BlockDevice) -> dict[str, Any]:
    mapping: dict[str, Any] = {"DeviceName": device.device_name}
    if device.ebs is not None:
        mapping["Ebs"] = _ebs(device.ebs, volume_bytes(device))
    return mapping


def _ebs(ebs: Ebs, size: int | None) -> dict[str, Any]:
    """Include only fields that are set: EC2 has its own defaults, and zero is not one of them.

    Sizes are whole GiB, rounded up.
    """
    fields: dict[str, Any] = {
        "DeleteOnTermination": ebs.delete_on_termination,
        "Encrypted": ebs.encrypted,
        "Iops": ebs.iops or None,
        "KmsKeyId": ebs.kms_key_id or None,
        "SnapshotId": ebs.snapshot_id or None,
        "Throughput": ebs.throughput or None,
        "VolumeInitializationRate": ebs.volume_initialization_rate or None,
        "VolumeSize": None if size is None else -(-size // _GIB),
        "VolumeType": ebs.volume_type or None,
    }
    return {name: value for name, value in fields.items() if value is not None}
