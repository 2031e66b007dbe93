"""Checks that the API server answers, and that the CustomResourceDefinitions are installed with all fields of this release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from cli.doctor.account import Account
from cli.doctor.cluster_api import DEFINITIONS
from cli.doctor.finding import OK, PROBLEM, AccountFinding
from core.api import crds
from core.api.objects import mapping, sequence

APPLIES: Final = "fleetwright crds | kubectl apply --server-side -f -"
REPLACES: Final = "fleetwright crds | kubectl apply --server-side --force-conflicts -f -"

FIELDS_MAX: Final = 3
"""The most fields that a line names."""

_KUBELET: Final = "spec.kubelet."
"""Karpenter's definition has fourteen of kubelet's fields, ours all: a definition with fewer works."""

_NOT_RELEVANT: Final = ("apiVersion", "kind", "metadata", "status")
"""Parts of an object whose fields a definition does not drop, or that users do not write."""


def api_server(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether the API server answers these credentials; whether it answers the functions is what `endpoint` says."""
    return AccountFinding(name, OK, f"it answers, and is {account.api.version()}")


def definitions(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether each definition is there, serves and stores our version, and keeps every field that this release reads."""
    ours = {str(definition["metadata"]["name"]): definition for definition in crds.definitions()}
    asked = {known: account.api.find(DEFINITIONS, known) for known in ours}
    present = {known: found for known, found in asked.items() if found is not None}
    if missing := [known for known in ours if known not in present]:
        return AccountFinding(name, PROBLEM, f"the cluster has no {', '.join(missing)}", APPLIES)
    problems = [f"{known} {problem}" for known, found in present.items() for problem in _problems(ours[known], found)]
    if problems:
        return AccountFinding(name, PROBLEM, "; ".join(problems), REPLACES)
    fewer = sum(len(_dropped(ours[known], found, of_kubelet=True)) for known, found in present.items())
    fields = f"all but {fewer} of spec.kubelet, as Karpenter's lack" if fewer else "every field of this release"
    return AccountFinding(name, OK, f"all {len(ours)} are installed, with {fields}")


def _problems(ours: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with an installed definition."""
    wanted = ours["spec"]["versions"][0]
    versions = {str(version["name"]): version for version in found.get("spec", {}).get("versions", ())}
    version = versions.get(wanted["name"], {})
    if not version.get("served"):
        yield f"does not serve {wanted['name']}, only {', '.join(versions) or 'nothing'}"
        return
    if not version.get("storage"):
        stored = [label for label, other in versions.items() if other.get("storage")]
        yield f"stores {', '.join(stored)}, so {wanted['name']} depends on another program's conversion"
    conditions = {str(seen["type"]): seen for seen in sequence(mapping(found.get("status")).get("conditions"))}
    established = conditions.get("Established", {})
    if established.get("status", "True") != "True":
        yield f"is not established: {established.get('message') or established.get('reason', '')}"
    if "status" not in mapping(version.get("subresources")):
        yield "has no subresource status, so no condition can be written"
    dropped = _dropped(ours, found, of_kubelet=False)
    if dropped:
        more = f" and {len(dropped) - FIELDS_MAX} more" if len(dropped) > FIELDS_MAX else ""
        yield f"drops {', '.join(dropped[:FIELDS_MAX])}{more}, which this release reads"


def _dropped(ours: Mapping[str, Any], found: Mapping[str, Any], *, of_kubelet: bool) -> list[str]:
    """Return the fields of our version that an installed definition drops, of the kubelet or all others."""
    wanted = ours["spec"]["versions"][0]
    versions = {str(version["name"]): version for version in found["spec"]["versions"]}
    paths = _dropped_paths(_schema(wanted), _schema(versions[wanted["name"]]))
    return [path for path in paths if path.startswith(_KUBELET) == of_kubelet]


def _schema(version: Mapping[str, Any]) -> dict[str, Any]:
    schema = mapping(mapping(version.get("schema")).get("openAPIV3Schema"))
    known = {key: value for key, value in mapping(schema.get("properties")).items() if key not in _NOT_RELEVANT}
    return {**schema, "properties": known}


def _dropped_paths(ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the paths of fields that an API server with their schema removes from objects without a word."""
    if theirs.get("x-kubernetes-preserve-unknown-fields"):
        return
    fields, rest = mapping(theirs.get("properties")), theirs.get("additionalProperties")
    for key, schema in mapping(ours.get("properties")).items():
        where = f"{path}.{key}" if path else key
        if key in fields:
            yield from _dropped_paths(schema, fields[key], where)
        elif not rest:
            yield where
    for part, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(ours.get(part), dict) and isinstance(theirs.get(part), dict):
            yield from _dropped_paths(ours[part], theirs[part], path + mark)
