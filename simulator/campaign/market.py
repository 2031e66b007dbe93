"""EC2's market in a campaign: a dozen real types in three zones, few enough that planning is fast."""

from __future__ import annotations

from functools import cache
from typing import Final

import msgspec

from core.model.catalogue import InstanceType
from simulator.aws.region import Region, builtin_region

ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")
TYPES: Final = frozenset(
    f"{family}.{size}" for family in ("m6i", "m7g", "c6i", "r6i") for size in ("large", "xlarge", "2xlarge", "4xlarge")
)
ARCHITECTURES: Final = ("amd64", "arm64")


@cache
def campaign_region(*, described: bool) -> Region:
    """The region of a campaign's worlds.

    Args:
        described: Whether EC2 describes its types, so that the functions read the market themselves; else they get a catalogue.
    """
    whole = builtin_region()
    types = tuple(_in_zones(found) for found in whole.types if found.name in TYPES)
    shapes = tuple(shape for shape in whole.shapes if shape.instance_type in TYPES) if described else ()
    ids = {zone: whole.zone_ids[zone] for zone in ZONES}
    return Region(types=types, zone_ids=ids, shapes=shapes, name=whole.name, is_recorded=whole.is_recorded)


def _in_zones(found: InstanceType) -> InstanceType:
    offerings = tuple(offering for offering in found.offerings if offering.zone in ZONES)
    return msgspec.structs.replace(found, offerings=offerings)
