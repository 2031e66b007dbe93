"""Writes the built-in market from the EC2 data that moto ships and our table of list prices.

    python -m simulator.market.generate

Same inputs, same bytes. Spot has no list prices, so it is modelled: 30 to 45 % of on-demand, fixed for each family and zone.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable
from importlib.resources import files
from typing import Any, Final

import msgspec

from core.catalogue.shape import Shape, read_shape
from core.model.values.quantity import nanodollars
from simulator.market.embedded import DATA, MarketFile

REGION: Final = "us-east-1"
ZONES: Final = {
    "us-east-1a": "use1-az6",
    "us-east-1b": "use1-az1",
    "us-east-1c": "use1-az2",
    "us-east-1d": "use1-az4",
    "us-east-1f": "use1-az5",
}
"""us-east-1e is left out: it sells no current types."""

_SPOT_FLOOR_PERMILLE: Final = 300
_SPOT_SPAN_PERMILLE: Final = 151


def generate() -> bytes:
    """The file, compressed."""
    shapes = tuple(shape for shape in _shapes() if shape.can_run_nodes)
    table = (DATA / f"{REGION}.on-demand.tsv").read_text()
    prices = on_demand_prices(table, shapes)
    offered = _offered({shape.instance_type for shape in shapes})
    held = MarketFile(
        region=REGION,
        priced_on=_date_in(table),
        zones=ZONES,
        types=shapes,
        offered=offered,
        on_demand=dict(sorted(prices.items())),
        spot_permille={family: _spot_shares(family) for family in sorted({n.partition(".")[0] for n in prices})},
    )
    return gzip.compress(msgspec.json.encode(held), mtime=0)


def _date_in(table: str) -> str:
    """The date in the table's first line."""
    return next(word for word in table.split("\n", 1)[0].replace(",", "").split() if word[:4].isdecimal())


def on_demand_prices(table: str, shapes: Iterable[Shape]) -> dict[str, int]:
    """Nano-dollars per hour of each type whose family is in the table: its own price, else the family's rate per vCPU."""
    rates: dict[str, tuple[str, dict[str, str]]] = {}
    for line in table.splitlines():
        if line.startswith("#"):
            continue
        family, rate, *rest = line.split("\t")
        rates[family] = (rate, dict(entry.split("=") for entry in " ".join(rest).split()))
    prices = {}
    for shape in shapes:
        family, _, size = shape.instance_type.partition(".")
        if family not in rates:
            continue
        rate, exceptions = rates[family]
        by_rate = nanodollars(rate) * shape.v_cpu_info.default_v_cpus
        prices[shape.instance_type] = nanodollars(exceptions[size]) if size in exceptions else _whole_micros(by_rate)
    return prices


def _shapes() -> Iterable[Shape]:
    described = _moto_resource("instance_types.json.gz")
    return (read_shape(described[name]) for name in sorted(described))


def _offered(names: set[str]) -> dict[str, str]:
    letters: dict[str, set[str]] = {}
    for row in _moto_resource("instance_type_offerings", "availability-zone", f"{REGION}.json.gz"):
        if row["Location"] in ZONES and row["InstanceType"] in names:
            letters.setdefault(row["InstanceType"], set()).add(row["Location"][-1])
    return {name: "".join(sorted(letters[name])) for name in sorted(letters)}


def _spot_shares(family: str) -> tuple[int, ...]:
    digests = (hashlib.sha256(f"{family}/{zone}".encode()).digest() for zone in ZONES)
    return tuple(_SPOT_FLOOR_PERMILLE + int.from_bytes(d[:4], "big") % _SPOT_SPAN_PERMILLE for d in digests)


def _whole_micros(nanos: int) -> int:
    """List prices have six decimals."""
    return (nanos + 500) // 1000 * 1000


def _moto_resource(*path: str) -> Any:
    return json.loads(gzip.decompress(files("moto.ec2").joinpath("resources", *path).read_bytes()))


def main() -> None:
    """Write the file in place."""
    (DATA / f"{REGION}.market.json.gz").write_bytes(generate())


if __name__ == "__main__":
    main()
