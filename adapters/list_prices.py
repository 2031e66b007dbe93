"""Reads the on-demand list prices that ship with the code, for regions whose list cannot be read.

`on_demand.tsv` says where its figures come from. Reading takes milliseconds, so nothing reads it at import.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from core.catalogue.document import Shape
from core.model.values.quantity import nanodollars

FILE: Final = Path(__file__).with_name("on_demand.tsv")
_REGION: Final = "@"


class FamilyPrices(msgspec.Struct, frozen=True):
    """Prices of one family, in nano-dollars per hour.

    Attributes:
        per_vcpu: The price of a vCPU, for each size that `sizes` lacks.
    """

    per_vcpu: int
    sizes: dict[str, int]

    def price(self, shape: Shape) -> int:
        """Return the price of a type of this family; a price derived from vCPUs is in whole micro-dollars."""
        listed = self.sizes.get(shape.instance_type.partition(".")[2])
        return _whole_micros(self.per_vcpu * shape.v_cpu_info.default_v_cpus) if listed is None else listed


class PriceList(msgspec.Struct, frozen=True):
    """One region's list.

    Attributes:
        date: When it was published, as 2026-07-20.
    """

    date: str
    families: dict[str, FamilyPrices]

    def prices(self, shapes: Iterable[Shape]) -> dict[str, int]:
        """Return nano-dollars per hour by type, for those whose family is listed."""
        families = ((shape, self.families.get(shape.instance_type.partition(".")[0])) for shape in shapes)
        return {shape.instance_type: family.price(shape) for shape, family in families if family is not None}


def listed_regions() -> tuple[str, ...]:
    """Return the regions that have a list, sorted."""
    return tuple(sorted(line[1:].partition("\t")[0] for line in _lines() if line.startswith(_REGION)))


def price_list(region: str) -> PriceList | None:
    """Return the region's list; None if none is shipped."""
    date, families = "", {}
    for line in _lines():
        if line.startswith(_REGION):
            name, _, day = line[1:].partition("\t")
            if date:
                break
            date = day if name == region else ""
        elif date:
            family, per_vcpu, *rest = line.split("\t")
            sizes = dict(entry.split("=") for entry in " ".join(rest).split())
            families[family] = FamilyPrices(
                nanodollars(per_vcpu), {size: nanodollars(price) for size, price in sizes.items()}
            )
    return PriceList(date, families) if date else None


def _lines() -> Iterator[str]:
    return (line for line in FILE.read_text().splitlines() if not line.startswith("#"))


def _whole_micros(nanos: int) -> int:
    """Round to micro-dollars: list prices have six decimals."""
    return (nanos + 500) // 1000 * 1000
