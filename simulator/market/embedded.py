"""Reads the built-in market: types and zones, written by `python -m simulator.market.generate`, and the shipped price lists.

Spot has no list prices, so they are modelled: 30 to 45 % of on-demand, fixed for each family and zone.

Most regions' lists are older than AWS's offers. A type that a region sells and its list lacks gets us-east-1's price, scaled by
the regional price of the nearest family of its category. Checked on 276 families of m, c and r from generation 7 on that both
lists have, the estimate is 0.01 % off in the median, 0.8 % at the ninetieth percentile, and 11 % at most.
"""

from __future__ import annotations

import gzip
import hashlib
import re
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
SOURCE_WITH_ESTIMATES: Final = "on-demand list; newer types are estimated, and spot is modelled"
_REFERENCE: Final = "us-east-1"
"""The region with the newest and longest list."""
_FAMILY: Final = re.compile(r"([a-z]+)(\d+)([a-z]*)(-flex)?")
"""Category, generation, attributes (processor first) and variant of a family."""
_NOT_ESTIMATED: Final = frozenset({"dl", "f", "g", "gr", "hpc", "inf", "p", "trn", "u", "vt"})
"""Categories whose regional prices follow no other family's."""

_MICRO: Final = 1000
"""Nano-dollars of a micro-dollar, to which estimates are rounded."""
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
    on_demand = {**_estimates(region), **_prices(region).prices(shapes)}
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


def source_of(region: str) -> str:
    """Return where the region's prices are from, in words."""
    return SOURCE_WITH_ESTIMATES if _estimates(region) else SOURCE


def estimated_types(region: str) -> frozenset[str]:
    """Return the types that the region sells without a listed price, so that theirs is estimated."""
    return frozenset(_estimates(region))


@cache
def _estimates(region: str) -> dict[str, int]:
    """Return prices of the types that a region sells and its list lacks, where a like family has a price in both lists."""
    listed, reference = _prices(region), _prices(_REFERENCE)
    common_families = tuple(sorted(listed.families.keys() & reference.families.keys()))
    of_reference = reference.prices(builtin_shapes())
    estimates: dict[str, int] = {}
    for name in _offers()[region].offered:
        family = name.partition(".")[0]
        like = "" if family in listed.families or name not in of_reference else _nearest_family(family, common_families)
        if like:
            there, here = reference.families[like].per_vcpu, listed.families[like].per_vcpu
            estimates[name] = of_reference[name] * here // there // _MICRO * _MICRO
    return estimates


@cache
def _nearest_family(family: str, families: tuple[str, ...]) -> str:
    """Return the family of the same category, preferably with the same processor, of the nearest generation; or nothing."""
    wanted = _FAMILY.fullmatch(family)
    if wanted is None or wanted[1] in _NOT_ESTIMATED:
        return ""
    ranked = [
        (other[3][:1] != wanted[3][:1], abs(int(other[2]) - int(wanted[2])), name)
        for name in families
        if (other := _FAMILY.fullmatch(name)) is not None and other[1] == wanted[1]
    ]
    return min(ranked)[2] if ranked else ""


@cache
def _prices(region: str) -> PriceList:
    prices = price_list(region)
    if prices is None:
        region_names = ", ".join(regions())
        raise InvalidInputError(f"no prices of {region!r} are built in, only of {region_names}", field="region")
    return prices


@cache
def _offers() -> dict[str, RegionOffers]:
    return msgspec.json.decode(gzip.decompress(OFFERINGS.read_bytes()), type=dict[str, RegionOffers])
