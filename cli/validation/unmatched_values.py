"""Finds requirements of NodePools and NodeOverlays that nothing in the catalogue can meet."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cli.reading import Document
from cli.validation.finding import Code, Finding, Severity, finding_in, nearest
from core import labels
from core.api.objects import kind_of, mapping, sequence
from core.api.problem import path_of
from core.model.catalogue import Catalogue

_CLOSED: Final[Mapping[str, frozenset[str]]] = {
    labels.ARCH: frozenset({"amd64", "arm64"}),
    labels.OS: frozenset({"linux", "windows"}),
}
"""Keys whose values do not depend on the catalogue (karpenter.sh/capacity-type has a rule of its own)."""

_USUALLY_MEANT: Final = {"x86_64": "amd64", "x86": "amd64", "x64": "amd64", "aarch64": "arm64", "arm": "arm64"}
_ZONE: Final = re.compile(r"([a-z]{2}(?:-[a-z]+)+-\d)[a-z]")
_PLACES: Final = {"NodePool": ("spec", "template", "spec"), "NodeOverlay": ("spec",)}


class KnownValues:
    """The values that labels of nodes can have, by key; keys of the user's own are not among them."""

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
        self._regions = {match.group(1) for zone in found.get(labels.ZONE, ()) if (match := _ZONE.fullmatch(zone))}

    def of(self, key: str) -> frozenset[str]:
        """The values of a label, empty where the catalogue does not know the label."""
        return self._values.get(labels.normalized(key), frozenset())

    def is_elsewhere(self, key: str, value: str) -> bool:
        """Whether the value is a zone of a region that the catalogue is not about."""
        match = _ZONE.fullmatch(value)
        return labels.normalized(key) == labels.ZONE and (match is None or match.group(1) not in self._regions)


def unmatched_values(document: Document, known: KnownValues) -> Iterator[Finding]:
    """An error where operator In leaves nothing that exists, a warning for single values among others that do."""
    place = _PLACES.get(kind_of(document.object))
    if place is None:
        return
    owner: Any = document.object
    for part in place:
        owner = mapping(owner).get(part)
    for index, entry in enumerate(sequence(mapping(owner).get("requirements"))):
        key, values = str(mapping(entry).get("key") or ""), sequence(mapping(entry).get("values"))
        exist = known.of(key)
        if mapping(entry).get("operator") != "In" or not exist:
            continue
        lost = [(number, str(value)) for number, value in enumerate(values) if str(value) not in exist]
        leaves_nothing = len(lost) == len(values) and not any(known.is_elsewhere(key, value) for _, value in lost)
        for number, value in lost:
            is_elsewhere = known.is_elsewhere(key, value)
            yield finding_in(
                document,
                Code.MATCHES_NOTHING,
                path_of((*place, "requirements", index, "values", number)),
                _message(key, value, is_elsewhere=is_elsewhere),
                severity=Severity.ERROR if leaves_nothing else Severity.WARNING,
                suggestion="" if is_elsewhere else _USUALLY_MEANT.get(value, "") or nearest(value, exist),
            )


def _message(key: str, value: str, *, is_elsewhere: bool) -> str:
    if is_elsewhere:
        return f"no zone {value!r} is in the catalogue that was asked; give another with --region or --catalog"
    return f"no instance type has {key} {value!r}"
