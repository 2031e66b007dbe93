"""Reads the built-in market: one small file per region, written by `python -m simulator.market.generate`."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from core.catalogue.build import build_catalogue
from core.catalogue.market import Market
from core.catalogue.shape import Shape
from core.errors import InvalidInputError
from core.model.catalogue import Catalogue

DATA: Final = Path(__file__).parent.parent / "data"
REGIONS: Final = ("us-east-1",)
SOURCE: Final = "on-demand list; spot is modelled"


class MarketFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file.

    Attributes:
        priced_on: The date of the price list.
        zones: Zone name → zone id.
        types: Descriptions under EC2's own field names.
        offered: Instance type → last letters of the zones that sell it.
        on_demand: Instance type → nano-dollars per hour.
        spot_permille: Family → price of spot as thousandths of on-demand, zone by zone in the order of `zones`.
    """

    region: str
    priced_on: str = ""
    zones: dict[str, str]
    types: tuple[Shape, ...]
    offered: dict[str, str]
    on_demand: dict[str, int]
    spot_permille: dict[str, tuple[int, ...]]


class _Dated(msgspec.Struct, frozen=True):
    """Of the file the date alone, which is read without the types."""

    priced_on: str = ""


def builtin_catalogue(region: str, node_classes: Sequence[Mapping[str, Any]] = ()) -> Catalogue:
    """The catalogue of a region, sized for these EC2NodeClasses and, by default, for AL2023.

    Raises:
        InvalidInputError: If no market of that region is built in.
    """
    return build_catalogue(builtin_shapes(region), builtin_market(region), node_classes)


def priced_on(region: str) -> str:
    """The date of the region's price list, as 2026-07-20.

    Raises:
        InvalidInputError: If no market of that region is built in.
    """
    return msgspec.json.decode(_text(region), type=_Dated).priced_on


def market_bytes(region: str) -> bytes:
    """The region's file as it is stored.

    Raises:
        InvalidInputError: If no market of that region is built in.
    """
    if region not in REGIONS:
        raise InvalidInputError(f"no prices of {region!r} are built in, only of {', '.join(REGIONS)}", field="region")
    return (DATA / f"{region}.market.json.gz").read_bytes()


def builtin_shapes(region: str) -> tuple[Shape, ...]:
    """Every instance type of the region, by name; `msgspec.to_builtins` gives EC2's own form.

    Raises:
        InvalidInputError: If no market of that region is built in.
    """
    return _read(region).types


def builtin_market(region: str) -> Market:
    """What the region sells, and for how much.

    Raises:
        InvalidInputError: If no market of that region is built in.
    """
    held = _read(region)
    zones = {name[-1]: name for name in held.zones}
    spot_capable = {shape.instance_type for shape in held.types if "spot" in shape.supported_usage_classes}
    return Market(
        region=region,
        offered={name: tuple(zones[letter] for letter in letters) for name, letters in held.offered.items()},
        on_demand=held.on_demand,
        spot={name: _spot(held, name) for name in held.on_demand if name in spot_capable},
        zone_ids=held.zones,
    )


def _spot(held: MarketFile, name: str) -> dict[str, int]:
    shares = dict(zip(held.zones, held.spot_permille[name.partition(".")[0]], strict=True))
    offered = held.offered.get(name, "")
    return {zone: held.on_demand[name] * share // 1000 for zone, share in shares.items() if zone[-1] in offered}


@cache
def _read(region: str) -> MarketFile:
    return msgspec.json.decode(_text(region), type=MarketFile)


@cache
def _text(region: str) -> bytes:
    return gzip.decompress(market_bytes(region))
