"""The bill of materials of the command line, as CycloneDX: for scanners and compliance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import metadata
from typing import Any

from infra.packaging.sbom import SPECIFICATION
from infra.release.requirements import closure, entries, version_of
from infra.release.version import Version


def of_command_line(wanted: Sequence[str], version: Version) -> Mapping[str, Any]:
    """Return the bill of what the wheel asks for and of all that needs: name, version, purl and license of each package.

    The bundles of functions hold their own bills (`infra.packaging.sbom`).
    """
    locked = entries()
    package_url = f"pkg:pypi/fleetwright-eks@{version.of_python}"
    components = [_component(name, version_of(locked[name])) for name in closure(wanted)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": package_url,
                "name": "fleetwright-eks",
                "version": version.of_python,
                "purl": package_url,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": package_url, "dependsOn": [component["bom-ref"] for component in components]}],
    }


def _component(name: str, version: str) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{version}"
    component: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    expressions = metadata(name).get_all("License-Expression")
    return {**component, "licenses": [{"expression": expressions[0]}]} if expressions else component
