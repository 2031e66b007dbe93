"""Writes the contents of a bundle as CycloneDX, for scanners and compliance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from core.version import VERSION
from infra.packaging.bundles import Bundle
from infra.packaging.dependencies import locked

SPECIFICATION: Final = "1.6"
_ENTRY: Final = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+)")


def components(bundle: Bundle) -> Mapping[str, Any]:
    """Return the bill of materials of a bundle: every locked package with its version and its purl."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "version": 1,
        "metadata": {"component": {"type": "application", "name": f"fleetwright-{bundle.name}", "version": VERSION}},
        "components": [_component(entry) for entry in locked(bundle).values()],
    }


def _component(entry: str) -> Mapping[str, Any]:
    entry_match = _ENTRY.match(entry)
    if entry_match is None:
        raise ValueError(f"{entry} is not a pinned requirement")
    name, version = entry_match["name"], entry_match["version"]
    purl = f"pkg:pypi/{name}@{version}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
