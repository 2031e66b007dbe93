"""Replaces names by pseudonyms in the same order, since ties are broken by name, so that plans differ only in names.

The market that a decision reads stays unchanged: zones, instance types, architectures, capacity types, quantities, times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from cli.cluster.named_fields import ACCOUNT
from cli.cluster.object_renaming import ObjectRenaming, Rename
from core.api.objects import JsonObject

_AWS_ID: Final = re.compile(r"(subnet|sg|ami|cr|pg|snap)-[0-9a-z]+")


class Pseudonyms:
    """Replaces names in the objects of one cluster, the same name everywhere by the same pseudonym."""

    def __init__(self, objects: Iterable[JsonObject]) -> None:
        namespaces, names = set[str](), set[str]()
        collect = ObjectRenaming(_noted(namespaces), _noted(names))
        for obj in objects:
            collect.object(obj)
        # `namespace/name` is the form in which pods are compared.
        self._namespaces = _ranked("ns", sorted(namespaces, key=lambda name: f"{name}/"))
        self._names = _ranked("n", sorted(names))
        self._renaming = ObjectRenaming(self._namespaces.__getitem__, self._names.__getitem__)

    def of(self, obj: JsonObject) -> JsonObject:
        """Return the object with pseudonyms."""
        return self._renaming.object(obj)

    @property
    def names(self) -> Mapping[str, str]:
        """Name → pseudonym."""
        return self._names

    @property
    def namespaces(self) -> Mapping[str, str]:
        """Namespace → pseudonym."""
        return self._namespaces


def _ranked(prefix: str, names: list[str]) -> dict[str, str]:
    """Return pseudonyms of equal width, so that they sort like the names; ids of AWS keep their form."""
    width = len(str(len(names)))
    found = {}
    for rank, name in enumerate(names):
        if name.startswith("aws:///"):
            found[name] = f"{name.rpartition('/')[0]}/i-{rank:017x}"
        elif aws_id := _AWS_ID.fullmatch(name):
            found[name] = f"{aws_id[1]}-{rank:017x}"
        elif ACCOUNT.fullmatch(name):
            found[name] = f"{rank:012d}"
        else:
            found[name] = f"{prefix}{rank:0{width}d}"
    return found


def _noted(found: set[str]) -> Rename:
    """Collect the names without renaming."""

    def note(name: str) -> str:
        found.add(name)
        return name

    return note
