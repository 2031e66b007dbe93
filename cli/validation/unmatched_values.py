"""Finds requirements of NodePools and NodeOverlays that nothing in the catalogue can meet."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cli.manifests.document import Document
from cli.manifests.region import ZONE
from cli.validation.finding import Code, Finding, Severity, finding_in, nearest
from core import labels
from core.api.objects import kind_of, mapping, sequence
from core.api.problem import Location, path_of
from core.errors import InvalidInputError
from core.model.catalogue import Catalogue
from core.model.values.requirements import INTEGER_OPERATORS, Requirement

_CLOSED: Final[Mapping[str, frozenset[str]]] = {
    labels.ARCH: frozenset({"amd64", "arm64"}),
    labels.OS: frozenset({"linux", "windows"}),
    labels.CAPACITY_TYPE: frozenset(labels.CAPACITY_TYPES),
}
"""Keys whose values do not depend on the catalogue."""

_USUALLY_MEANT: Final = {"x86_64": "amd64", "x86": "amd64", "x64": "amd64", "aarch64": "arm64", "arm": "arm64"}
_REGION: Final = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d")
_ZONE_ID: Final = re.compile(r"[a-z]+\d-az\d")
_PLACES: Final = {"NodePool": ("spec", "template", "spec"), "NodeOverlay": ("spec",)}


class KnownValues:
    """The possible values of node labels, by key, without users' own keys."""

    def __init__(self, catalogue: Catalogue) -> None:
        found: dict[str, set[str]] = {key: set(values) for key, values in _CLOSED.items()}
        for types in (catalogue.default, *(types for _, types in sorted(catalogue.by_node_class.items()))):
            for known in types:
                found.setdefault(labels.INSTANCE_TYPE, set()).add(known.name)
                found.setdefault(labels.ZONE, set()).update(offering.zone for offering in known.offerings)
                for key, values in known.labels.items():
                    if key not in _CLOSED:
                        found.setdefault(key, set()).update(values)
        self._values = {key: frozenset(values) for key, values in found.items()}
        self._regions = {match.group(1) for zone in found.get(labels.ZONE, ()) if (match := ZONE.fullmatch(zone))}

    def of(self, key: str) -> frozenset[str]:
        """Return the values of a label, empty if the catalogue does not have the label."""
        return self._values.get(labels.normalized(key), frozenset())

    def is_elsewhere(self, key: str, value: str) -> bool:
        """Whether the value is a zone of another region than the catalogue's."""
        if labels.normalized(key) != labels.ZONE or _REGION.fullmatch(value) or _ZONE_ID.fullmatch(value):
            return False
        match = ZONE.fullmatch(value)
        return match is None or match.group(1) not in self._regions


def unmatched_values(document: Document, known: KnownValues) -> Iterator[Finding]:
    """Return an error if operator In matches no existing value, a warning for single values that do not exist."""
    place = _PLACES.get(kind_of(document.object))
    if place is None:
        return
    owner: Any = document.object
    for part in place:
        owner = mapping(owner).get(part)
    for index, entry in enumerate(sequence(mapping(owner).get("requirements"))):
        yield from unmatched_entry(document, mapping(entry), (*place, "requirements", index), known)


def unmatched_entry(
    document: Document, entry: Mapping[str, Any], place: Location, known: KnownValues
) -> Iterator[Finding]:
    """Return the findings of one entry: a key with an operator and values."""
    key, operator, values = str(entry.get("key") or ""), entry.get("operator"), sequence(entry.get("values"))
    exist = known.of(key)
    if operator in INTEGER_OPERATORS and len(values) == 1:
        yield from _out_of_bounds(document, (key, str(operator), str(values[0])), (*place, "values"), exist)
    if operator != "In" or not exist:
        return
    lost = [(number, str(value)) for number, value in enumerate(values) if str(value) not in exist]
    leaves_nothing = len(lost) == len(values) and not any(known.is_elsewhere(key, value) for _, value in lost)
    for number, value in lost:
        is_elsewhere = known.is_elsewhere(key, value)
        yield finding_in(
            document,
            Code.MATCHES_NOTHING,
            path_of((*place, "values", number)),
            _message(key, value, is_elsewhere=is_elsewhere),
            severity=Severity.ERROR if leaves_nothing else Severity.WARNING,
            suggestion="" if is_elsewhere else _meant(key, value, exist),
        )


def _out_of_bounds(
    document: Document, bound: tuple[str, str, str], place: Location, exist: frozenset[str]
) -> Iterator[Finding]:
    key, operator, value = bound
    try:
        wanted = Requirement.of(key, operator, [value])
    except InvalidInputError:
        return
    numbers = sorted(int(value) for value in exist if value.isdecimal())
    if numbers and not any(wanted.has(str(number)) for number in numbers):
        text = f"no instance type has such a {wanted.key}: they have {numbers[0]} to {numbers[-1]}"
        yield finding_in(document, Code.MATCHES_NOTHING, path_of(place), text)


def _meant(key: str, value: str, exist: frozenset[str]) -> str:
    if labels.normalized(key) == labels.ZONE:
        return ""
    return _USUALLY_MEANT.get(value, "") or nearest(value, exist)


def _message(key: str, value: str, *, is_elsewhere: bool) -> str:
    if is_elsewhere:
        return f"no zone {value!r} is in the catalogue that was asked; give another with --region or --catalog"
    if labels.normalized(key) == labels.ZONE and _REGION.fullmatch(value):
        return f"{value!r} is a region, not one of its zones, such as {value}a"
    if labels.normalized(key) == labels.ZONE and _ZONE_ID.fullmatch(value):
        return f"{value!r} is the id of a zone: its label is {labels.ZONE_ID}"
    return f"no instance type has {key} {value!r}"
