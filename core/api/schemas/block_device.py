"""Block devices of an EC2NodeClass as users write them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas import fields
from core.api.schemas.base import ApiModel, Rule


def _without_size(ebs: JsonObject) -> list[Location]:
    return [] if "snapshotID" in ebs or "volumeSize" in ebs else [("volumeSize",)]


def _rate_without_snapshot(ebs: JsonObject) -> list[Location]:
    return [("volumeInitializationRate",)] if "volumeInitializationRate" in ebs and not ebs.get("snapshotID") else []


class EbsVolume(ApiModel):
    """`ebs` of a block device."""

    delete_on_termination: bool | None = None
    encrypted: bool | None = None
    iops: fields.Whole | None = None
    kms_key_id: str | None = None
    snapshot_id: str | None = None
    throughput: fields.Whole | None = None
    volume_initialization_rate: Annotated[int, Field(ge=100, le=300)] | None = None
    volume_size: Annotated[str, Field(pattern=fields.VOLUME_SIZE)] | None = None
    volume_type: Literal["standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"] | None = None

    rules = (
        Rule(
            (),
            _without_size,
            "is required where there is no snapshotID",
            "has(self.snapshotID) || has(self.volumeSize)",
            "volumeSize",
        ),
        Rule(
            (),
            _rate_without_snapshot,
            "needs a snapshotID",
            "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
            "volumeInitializationRate",
        ),
    )


class BlockDevice(ApiModel):
    """One entry of `spec.blockDeviceMappings`."""

    device_name: str | None = None
    root_volume: bool = False
    ebs: EbsVolume | None = None
