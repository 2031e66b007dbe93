"""Checks the labels that pods and NodePools require of nodes against those that nodes have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from cli.manifests.document import Document
from cli.validation.finding import Code, Finding, Severity, finding_in
from cli.validation.label_keys import nearest_label
from cli.validation.unmatched_values import KnownValues, unmatched_entry
from cli.validation.workload_places import TEMPLATES
from core import labels
from core.api.conversion import is_old
from core.api.objects import is_ours, kind_of, mapping, sequence
from core.api.problem import Location, path_of

REQUIREMENTS: Final = ("spec", "template", "spec", "requirements")
_FORMER_KEYS: Final = {"karpenter.sh/provisioner-name": labels.NODEPOOL}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def provided_labels(documents: Sequence[Document]) -> frozenset[str]:
    """Return the keys that NodePools and Nodes of the input give to nodes."""
    found: set[str] = set()
    for document in documents:
        obj = document.object
        if kind_of(obj) == "Node":
            found |= mapping(mapping(obj.get("metadata")).get("labels")).keys()
        elif is_ours(obj):
            template = mapping(mapping(obj.get("spec")).get("template"))
            found |= mapping(mapping(template.get("metadata")).get("labels")).keys()
            required = sequence(mapping(template.get("spec")).get("requirements"))
            found |= {str(mapping(entry).get("key")) for entry in required}
    return frozenset(found)


def label_findings(document: Document, known: KnownValues, provided: frozenset[str]) -> Iterator[Finding]:
    """Return warnings for keys with almost the spelling of a node label, and for values that no node has."""
    if kind_of(document.object) == "NodePool" and is_ours(document.object) and not is_old(document.object):
        for index, entry in enumerate(sequence(_at(document.object, REQUIREMENTS))):
            yield from _of_key(document, mapping(entry), (*REQUIREMENTS, index, "key"), known, frozenset())
    place = () if document.kind == "Pod" else TEMPLATES.get(document.kind)
    if place is None or is_ours(document.object):
        return
    spec = mapping(_at(document.object, (*place, "spec")))
    for entry, at, key_at in _demands(spec, (*place, "spec")):
        yield from _of_key(document, entry, key_at, known, provided)
        for found in unmatched_entry(document, entry, at, known):
            field = path_of(key_at) if at == key_at else found.field
            yield msgspec.structs.replace(found, severity=Severity.WARNING, field=field)
    for key, at in _topology_keys(spec, (*place, "spec")):
        meant = nearest_label(key, provided)
        if meant:
            message = f"no node carries the label {key}, so the rule cannot be met"
            yield finding_in(
                document, Code.NO_EFFECT, path_of(at), message, severity=Severity.WARNING, suggestion=meant
            )


def _of_key(
    document: Document, entry: Mapping[str, Any], at: Location, known: KnownValues, provided: frozenset[str]
) -> Iterator[Finding]:
    key = str(entry.get("key") or "")
    if key in _FORMER_KEYS:
        message = "is a label of an older version, which nodes do not have"
        code, meant = Code.OLD_VERSION, _FORMER_KEYS[key]
    else:
        message = "is a label of your own, which no instance type has"
        code, meant = Code.NO_EFFECT, nearest_label(key, provided)
        is_bare = "/" not in key
        values = {str(value) for value in sequence(entry.get("values"))}
        if is_bare and not values & known.of(meant):
            meant = ""  # a short key with other values is a user's own label
    if meant:
        yield finding_in(document, code, path_of(at), message, severity=Severity.WARNING, suggestion=meant)


def _demands(spec: Mapping[str, Any], at: Location) -> Iterator[tuple[Mapping[str, Any], Location, Location]]:
    """Yield a pod's requirements on its node: (key with operator and values, its field, the field of its key)."""
    for key, value in mapping(spec.get("nodeSelector")).items():
        place = (*at, "nodeSelector", str(key))
        yield {"key": key, "operator": "In", "values": [value]}, place, place
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    within = (*at, "affinity", "nodeAffinity")
    terms = [
        (term, (*within, _REQUIRED, "nodeSelectorTerms", index))
        for index, term in enumerate(sequence(mapping(affinity.get(_REQUIRED)).get("nodeSelectorTerms")))
    ]
    terms += [
        (mapping(term).get("preference"), (*within, _PREFERRED, index, "preference"))
        for index, term in enumerate(sequence(affinity.get(_PREFERRED)))
    ]
    for term, place in terms:
        for index, entry in enumerate(sequence(mapping(term).get("matchExpressions"))):
            where = (*place, "matchExpressions", index)
            yield mapping(entry), where, (*where, "key")


def _topology_keys(spec: Mapping[str, Any], at: Location) -> Iterator[tuple[str, Location]]:
    for index, spread in enumerate(sequence(spec.get("topologySpreadConstraints"))):
        yield str(mapping(spread).get("topologyKey") or ""), (*at, "topologySpreadConstraints", index, "topologyKey")
    for kind in ("podAffinity", "podAntiAffinity"):
        for index, term in enumerate(sequence(mapping(mapping(spec.get("affinity")).get(kind)).get(_REQUIRED))):
            place = (*at, "affinity", kind, _REQUIRED, index, "topologyKey")
            yield str(mapping(term).get("topologyKey") or ""), place


def _at(obj: Any, place: Location) -> Any:
    for part in place:
        obj = mapping(obj).get(str(part))
    return obj
