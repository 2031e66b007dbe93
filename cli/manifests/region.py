"""Finds the region that manifests name, whose built-in instance types and prices are used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from cli.manifests.document import Document
from core import labels

ZONE: Final = re.compile(r"([a-z]{2}(?:-[a-z]+)+-\d)[a-z]")


def named_region(documents: Iterable[Document]) -> str | None:
    """Return the only region with built-in prices that Nodes and NodePools name; None if they name none or several."""
    named = {region for document in documents for region in _named_in(document)}
    if not named:
        return None
    from simulator.market.embedded import regions

    known = sorted(named & set(regions()))
    return known[0] if len(known) == 1 else None


def _named_in(document: Document) -> Iterator[str]:
    """Return the regions of one object, which may be malformed: `validate` calls this for all objects."""
    if document.kind == "Node":
        yield from _regions(labels.REGION, [_at(document.object, "metadata", "labels", labels.REGION)])
    elif document.kind == "NodePool":
        requirements = _at(document.object, "spec", "template", "spec", "requirements")
        for requirement in requirements if isinstance(requirements, list) else ():
            values = _at(requirement, "values")
            if _at(requirement, "operator") == "In" and isinstance(values, list):
                yield from _regions(_at(requirement, "key"), values)


def _regions(key: Any, values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if key == labels.REGION and isinstance(value, str):
            yield value
        elif key == labels.ZONE and (found := ZONE.fullmatch(str(value))):
            yield found[1]


def _at(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
