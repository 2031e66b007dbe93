"""The catalogue as a JSON document, the format of `--catalog` and of storage; optionally gzipped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Annotated, Any, Final, TypeVar

import msgspec

from core import labels
from core.errors import InvalidInputError
from core.model.catalogue import Catalogue, InstanceType, Offering
from core.model.values import quantity, resources
from core.model.values.vcpu_quotas import CODES

_GZIP: Final = b"\x1f\x8b"
DECOMPRESSED_MAX: Final = 256 << 20
"""The most bytes of a document; the largest region's has 8 MB."""
_OWN_KEYS: Final = (labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE)
_Part = TypeVar("_Part", bound=msgspec.Struct)
_PLACE: Final = re.compile(r"(?P<problem>.*?) - at `\$\.?(?P<path>[^`]*)`\Z", re.DOTALL)


class _Offering(msgspec.Struct, rename="camel"):
    zone: str
    capacity_type: str
    price: Decimal
    available: bool = True
    reservation_id: str = ""
    reservation_capacity: int = 0
    reservation_type: str = ""
    interruptible: bool = False


class _InstanceType(msgspec.Struct, rename="camel"):
    name: str
    capacity: dict[str, str | int | float]
    requirements: dict[str, list[str]] = {}
    overhead: dict[str, str | int | float] = {}
    offerings: list[_Offering] = []
    attach_limit: int | None = None


class _Document(msgspec.Struct, rename="camel"):
    instance_types: list[_InstanceType]
    node_classes: dict[str, list[_InstanceType]] = {}


class _Quotas(msgspec.Struct, rename="camel"):
    vcpu_quotas: dict[str, Annotated[int, msgspec.Meta(ge=0)]] = {}


class CatalogueOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """The region of a catalogue and the day of its prices; both may be empty."""

    region: str = ""
    date: str = ""


def origin(raw: bytes) -> CatalogueOrigin:
    """Return the document's origin.

    Raises:
        InvalidInputError: If it cannot be read.
    """
    return _part(raw, CatalogueOrigin)


def vcpu_quotas(raw: bytes) -> dict[str, int]:
    """Return the document's `vcpuQuotas`: quota code → vCPUs that a cluster may run; empty where it has none.

    Raises:
        InvalidInputError: If it cannot be read, or names a code that is not a vCPU quota of EC2.
    """
    found = _part(raw, _Quotas).vcpu_quotas
    for code in sorted(found):
        if code not in CODES:
            problem = f"{code!r} is not a vCPU quota of EC2, use one of {', '.join(sorted(CODES))}"
            raise InvalidInputError(problem, subject="catalogue", field="vcpuQuotas")
    return found


def _part(raw: bytes, part: type[_Part]) -> _Part:
    try:
        return msgspec.json.decode(_unpacked(raw), type=part)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"cannot be read: {error}", subject="catalogue") from error


def decode(raw: bytes) -> Catalogue:
    """Read a catalogue.

    Raises:
        InvalidInputError: If it is not a catalogue, or has an invalid quantity or price; the error names the type and the
            field.
    """
    try:
        document = msgspec.json.decode(_unpacked(raw), type=_Document)
    except msgspec.ValidationError as error:
        match = _PLACE.match(str(error))
        problem, field = (match["problem"], match["path"]) if match else (str(error), "")
        raise InvalidInputError(problem, subject="catalogue", field=field) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"is not JSON: {error}", subject="catalogue") from error
    return Catalogue(
        default=_types(document.instance_types),
        by_node_class={name: _types(found) for name, found in sorted(document.node_classes.items())},
    )


def encode(
    catalogue: Catalogue, origin: CatalogueOrigin | None = None, quotas: Mapping[str, int] | None = None
) -> bytes:
    """Write a catalogue, with its origin and quotas if given; `decode` is the inverse."""
    document: dict[str, Any] = {"instanceTypes": [_written(found) for found in catalogue.default]}
    document |= msgspec.structs.asdict(origin) if origin is not None else {}
    if quotas:
        document["vcpuQuotas"] = dict(quotas)
    if catalogue.by_node_class:
        document["nodeClasses"] = {
            name: [_written(found) for found in types] for name, types in catalogue.by_node_class.items()
        }
    return msgspec.json.encode(document, order="sorted")


def _unpacked(raw: bytes) -> bytes:
    """Decompress a gzipped document; return others unchanged. Raises InvalidInputError."""
    if not raw.startswith(_GZIP):
        return raw
    from core.decompression import of_gzip  # a plan with plain documents does not need it

    return of_gzip(raw, at_most=DECOMPRESSED_MAX, subject="catalogue")


def _types(written: Iterable[_InstanceType]) -> tuple[InstanceType, ...]:
    found: dict[str, InstanceType] = {}
    for entry in written:
        subject = f"instance type {entry.name}"
        if entry.name in found:
            raise InvalidInputError("is listed twice", subject=subject)
        try:
            found[entry.name] = _type(entry)
        except InvalidInputError as error:
            raise error.within(subject=subject) from error
    return tuple(found.values())


def _type(entry: _InstanceType) -> InstanceType:
    return InstanceType(
        name=entry.name,
        labels={
            labels.normalized(key): tuple(values)
            for key, values in sorted(entry.requirements.items())
            if key not in _OWN_KEYS
        },
        capacity=resources.parse(entry.capacity, field="capacity"),
        overhead=resources.parse(entry.overhead, field="overhead"),
        offerings=tuple(
            _offering(offering, entry.name, field=f"offerings[{i}]") for i, offering in enumerate(entry.offerings)
        ),
        attach_limit=entry.attach_limit,
    )


def _offering(entry: _Offering, instance_type: str, *, field: str) -> Offering:
    if not entry.price.is_finite() or entry.price < 0:
        raise InvalidInputError(f"{entry.price} is not a price", field=f"{field}.price")
    if entry.capacity_type not in labels.CAPACITY_TYPES:
        known = ", ".join(labels.CAPACITY_TYPES)
        problem = f"unknown capacity type {entry.capacity_type!r}, use one of {known}"
        raise InvalidInputError(problem, field=f"{field}.capacityType")
    return Offering(
        instance_type=instance_type,
        zone=entry.zone,
        capacity_type=entry.capacity_type,
        price=quantity.nanodollars(str(entry.price)),
        available=entry.available,
        reservation_id=entry.reservation_id,
        reservation_capacity=entry.reservation_capacity,
        reservation_type=entry.reservation_type,
        interruptible=entry.interruptible,
    )


def _written(found: InstanceType) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": found.name,
        "requirements": {key: list(values) for key, values in found.labels.items()},
        "capacity": resources.render(found.capacity),
        "overhead": resources.render(found.overhead),
        "offerings": [_written_offering(offering) for offering in found.offerings],
    }
    if found.attach_limit is not None:
        entry["attachLimit"] = found.attach_limit
    return entry


def _written_offering(offering: Offering) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "zone": offering.zone,
        "capacityType": offering.capacity_type,
        "price": quantity.dollars(offering.price),
        "available": offering.available,
    }
    if offering.reservation_id:
        entry |= {"reservationId": offering.reservation_id, "reservationCapacity": offering.reservation_capacity}
    if offering.reservation_type:
        entry |= {"reservationType": offering.reservation_type, "interruptible": offering.interruptible}
    return entry
