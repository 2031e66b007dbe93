"""Writes the built-in instance types, and which zones sell them, from the EC2 data that moto ships.

    python -m simulator.market.generate

Same inputs, same bytes.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, Final

import msgspec
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

from adapters.list_prices import listed_regions, price_list
from core.catalogue.document import Shape, read_shape
from simulator.market.embedded import OFFERINGS, TYPES, RegionOffers

_WITHOUT_CURRENT_TYPES: Final = ("us-east-1e",)


def types() -> bytes:
    """Every type that can run nodes, by name."""
    described = _moto_resource("instance_types.json.gz")
    return msgspec.json.encode([s for name in sorted(described) if (s := read_shape(described[name])).can_run_nodes])


def offers(shapes: Iterable[Shape]) -> bytes:
    """Region → what it sells, for every region with a price list."""
    shape_by_type = {shape.instance_type: shape for shape in shapes}
    return msgspec.json.encode({region: _region_offers(region, shape_by_type) for region in listed_regions()})


def _region_offers(region: str, shapes: Mapping[str, Shape]) -> RegionOffers:
    """Return a region's offers. moto records no zones of some regions: there, every zone sells all that has a price."""
    zone_ids = {zone.name: zone.zone_id for zone in RegionsAndZonesBackend.zones[region]}
    zones = {name: zone_id for name, zone_id in sorted(zone_ids.items()) if name not in _WITHOUT_CURRENT_TYPES}
    letters: dict[str, set[str]] = {}
    try:
        rows = _moto_resource("instance_type_offerings", "availability-zone", f"{region}.json.gz")
    except FileNotFoundError:
        listed = price_list(region)
        priced = {} if listed is None else listed.prices(shapes.values())
        letters = {name: {zone[-1] for zone in zones} for name in priced}
    else:
        for row in rows:
            if row["Location"] in zones and row["InstanceType"] in shapes:
                letters.setdefault(row["InstanceType"], set()).add(row["Location"][-1])
    return RegionOffers(zones=zones, offered={name: "".join(sorted(letters[name])) for name in sorted(letters)})


def _moto_resource(*path: str) -> Any:
    return json.loads(gzip.decompress(files("moto.ec2").joinpath("resources", *path).read_bytes()))


def main() -> None:
    """Write the files in place."""
    described = types()
    TYPES.write_bytes(gzip.compress(described, mtime=0))
    OFFERINGS.write_bytes(gzip.compress(offers(msgspec.json.decode(described, type=list[Shape])), mtime=0))


if __name__ == "__main__":
    main()
