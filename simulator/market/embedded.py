"""Reads the built-in market: types and zones, written by `python -m simulator.market.generate`, and the shipped price lists.

Spot has no list prices, so they are modelled: 30 to 45 % of on-demand, fixed for each family and zone.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from adapters.list_prices import FILE, PriceList, listed_regions, price_list
from core.catalogue.document import Market, Shape
from core.errors import InvalidInputError
from core.model.catalogue import Catalogue
from core.model.values.quotas import SizingSettings

DATA: Final = Path(__file__).parent.parent / "data"
TYPES: Final = DATA / "instance-types.json.gz"
OFFERINGS: Final = DATA / "offerings.json.gz"
SOURCE: Final = "on-demand list; spot is modelled"

_SIZING: Final = SizingSettings()
_SPOT_FLOOR_PERMILLE: Final = 300
_SPOT_SPAN_PERMILLE: Final = 151


class RegionOffers(msgspec.Struct, frozen=True, kw_only=True):
    """The instance types that a region sells, by zone.

    Attributes:
        zones: Zone name → zone id.
        offered: Instance type → last letters of the zones that sell it.
    """

    zones: dict[str, str]
    offered: dict[str, str]


def builtin_catalogue(
    region: str, node_classes: Sequence[Mapping[str, Any]] = (), settings: SizingSettings = _SIZING
) -> Catalogue:
    """The catalogue of a region, sized for these EC2NodeClasses and, by default, for AL2023.

    Raises:
        InvalidInputError: If no market of that region is built in.
    """
    if not node_classes and settings is _SIZING:
        return _for_al2023(region)
    return _built(region, node_classes, settings)


@cache
def _for_al2023(region: str) -> Catalogue:
    return _built(region, (), _SIZING)


def _built(region: str, node_classes: Sequence[Mapping[str, Any]], settings: SizingSettings) -> Catalogue:
    from core.catalogue.build import build_catalogue

    return build_catalogue(builtin_shapes(), builtin_market(region), node_classes, settings)


def regions() -> tuple[str, ...]:
    """The regions whose market is built in, sorted."""
    return listed_regions()


def priced_on(region: str) -> str:
    """The date of the region's price list, as 2026-07-20.

    Raises:
        InvalidInputError: If no market of that region is built in.
    """
    return _prices(region).date


def source_bytes() -> tuple[bytes, ...]:
    """The files that the markets are read from, as they are stored."""
    return tuple(path.read_bytes() for path in (TYPES, OFFERINGS, FILE))


@cache
def builtin_shapes() -> tuple[Shape, ...]:
    """Every instance type, by name; `msgspec.to_builtins` gives EC2's own form."""
    return msgspec.json.decode(gzip.decompress(TYPES.read_bytes()), type=tuple[Shape, ...])


@cache
def builtin_market(region: str) -> Market:
    """Return the types that the region sells, with their prices; a type without a listed price cannot be planned with.

    Raises:
        InvalidInputError: If no market of that region is built in.
    """
    shapes = builtin_shapes()
    on_demand = _prices(region).prices(shapes)
    offers = _offers()[region]
    zones = {name[-1]: name for name in offers.zones}
    offered = {name: tuple(zones[letter] for letter in letters) for name, letters in offers.offered.items()}
    spot_capable = {shape.instance_type for shape in shapes if "spot" in shape.supported_usage_classes}
    return Market(
        region=region,
        offered=offered,
        on_demand=on_demand,
        spot={
            name: {zone: _spot(name, zone, price) for zone in offered.get(name, ())}
            for name, price in on_demand.items()
            if name in spot_capable
        },
        zone_ids=offers.zones,
    )


def _spot(name: str, zone: str, on_demand: int) -> int:
    return on_demand * _spot_permille(name.partition(".")[0], zone) // 1000


@cache
def _spot_permille(family: str, zone: str) -> int:
    digest = hashlib.sha256(f"{family}/{zone}".encode()).digest()
    return _SPOT_FLOOR_PERMILLE + int.from_bytes(digest[:4], "big") % _SPOT_SPAN_PERMILLE


@cache
def _prices(region: str) -> PriceList:
    prices = price_list(region)
    if prices is None:
        known = ", ".join(regions())
        raise InvalidInputError(f"no prices of {region!r} are built in, only of {known}", field="region")
    return prices


@cache
def _offers() -> dict[str, RegionOffers]:
    return msgspec.json.decode(gzip.decompress(OFFERINGS.read_bytes()), type=dict[str, RegionOffers])
