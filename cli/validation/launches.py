"""Finds what keeps nodes from being launched: refused EC2NodeClasses, closed feature gates, objects that exclude others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from cli.manifests.inventory import Document
from cli.validation.formats import Code, Finding, Severity, finding_in
from cli.validation.pools import REQUIREMENTS
from core import api, labels
from core.api.objects import group_and_version, is_ours, kind_of, mapping, name_of, sequence
from core.api.older_versions import problems
from core.api.status import path_of
from core.catalogue.node_class import EC2NodeClass, read_node_class
from core.errors import InvalidInputError
from core.launch.request import user_data_problem
from core.launch.validation import STAND_IN, launch_problems
from core.model.catalogue import Catalogue
from core.model.node_pool import NodePool
from core.model.snapshot import VARIABLE, FeatureGates, NodeOverlay
from core.model.values.requirements import Requirements
from core.pools import agreeing, template_requirements

_T = TypeVar("_T")


def launch_findings(documents: Sequence[Document], catalogue: Catalogue, gates: FeatureGates) -> Iterator[Finding]:
    """Return the findings about launches, which need the whole input."""
    classes = {name_of(doc.object): doc for doc in documents if _is(doc, "EC2NodeClass")}
    read_classes = {
        name: node_class for name, doc in classes.items() if (node_class := _read(doc, read_node_class)) is not None
    }
    for name, node_class in read_classes.items():
        yield from _of_class(classes[name], node_class)
    pools = [(doc, node_pool) for doc in documents if (node_pool := _pool_in(doc)) is not None]
    for document, pool in pools:
        yield from _of_pool(document, pool, read_classes, gates)
    yield from _closed_gates(documents, gates)
    yield from _conflicting_overlays(documents, [pool for _, pool in pools], catalogue)


def _is(document: Document, kind: str) -> bool:
    return (
        is_ours(document.object) and kind_of(document.object) == kind and group_and_version(document.object)[1] == "v1"
    )


def _read(document: Document, read: Callable[[dict[str, object]], _T]) -> _T | None:
    """Return what is read of an object, None if its schema has faults, which are findings of their own."""
    if problems(document.object):
        return None
    try:
        return read(document.object)
    except InvalidInputError:
        return None


def _pool_in(document: Document) -> NodePool | None:
    return _read(document, api.node_pool) if _is(document, "NodePool") else None


def _of_class(document: Document, node_class: EC2NodeClass) -> Iterator[Finding]:
    for problem in launch_problems(node_class):
        severity = Severity.ERROR if problem.is_certain else Severity.WARNING
        place, suggestion = problem.field, problem.suggestion
        yield finding_in(document, Code.INVALID_VALUE, place, problem.problem, severity=severity, suggestion=suggestion)


def _of_pool(
    document: Document, pool: NodePool, classes: Mapping[str, EC2NodeClass], gates: FeatureGates
) -> Iterator[Finding]:
    if pool.replicas is not None and not gates.static_capacity:
        message = f"keeps no nodes while the feature gate StaticCapacity is off ({VARIABLE}=StaticCapacity=true)"
        yield finding_in(document, Code.NO_EFFECT, "spec.replicas", message, severity=Severity.WARNING)
    node_class = classes.get(pool.node_class.name)
    yield from _reserved_only(document, pool, node_class, gates)
    if node_class is not None and (why := user_data_problem(node_class, STAND_IN, pool)):
        yield finding_in(document, Code.INVALID_VALUE, "spec.template", why)


def _reserved_only(
    document: Document, pool: NodePool, node_class: EC2NodeClass | None, gates: FeatureGates
) -> Iterator[Finding]:
    """Return a finding if the NodePool launches into reservations alone, and there are none for it."""
    bought = [r for r in pool.requirements if r.key == labels.CAPACITY_TYPE]
    allowed = [kind for kind in (labels.ON_DEMAND, labels.SPOT) if all(requirement.has(kind) for requirement in bought)]
    if allowed or not all(requirement.has(labels.RESERVED) for requirement in bought):
        return
    if not gates.reserved_capacity:
        message = "allows reserved capacity alone, and the feature gate ReservedCapacity is off: it launches nothing"
    elif node_class is not None and not node_class.spec.capacity_reservation_selector_terms:
        message = (
            f"allows reserved capacity alone, and EC2NodeClass {pool.node_class.name} selects no reservation "
            "(capacityReservationSelectorTerms): it launches nothing"
        )
    else:
        return
    entries = sequence(_at(document.object, REQUIREMENTS))
    indexes = [i for i, entry in enumerate(entries) if mapping(entry).get("key") == labels.CAPACITY_TYPE]
    field = path_of((*REQUIREMENTS, indexes[0])) if indexes else path_of(REQUIREMENTS)
    yield finding_in(document, Code.MATCHES_NOTHING, field, message, severity=Severity.WARNING)


def _closed_gates(documents: Sequence[Document], gates: FeatureGates) -> Iterator[Finding]:
    """Return a warning for each object that counts only with a feature gate which is off."""
    closed = {
        "NodeOverlay": ("NodeOverlay", gates.node_overlay),
        "CapacityBuffer": ("CapacityBuffer", gates.capacity_buffer),
    }
    for document in documents:
        gate, is_open = closed.get(kind_of(document.object), ("", True))
        if not is_open and not problems(document.object):
            message = f"counts only with the feature gate {gate}, which is off ({VARIABLE}={gate}=true)"
            yield finding_in(document, Code.NO_EFFECT, "spec", message, severity=Severity.WARNING)


def _conflicting_overlays(
    documents: Sequence[Document], pools: Sequence[NodePool], catalogue: Catalogue
) -> Iterator[Finding]:
    """Return a warning for each NodeOverlay that another of its weight overrules; it is ignored as a whole."""
    overlays: list[tuple[Document, NodeOverlay]] = []
    for document in documents:
        if is_ours(document.object) and kind_of(document.object) == "NodeOverlay":
            overlay = _read(document, api.node_overlay)
            if overlay is not None:
                overlays.append((document, overlay))
    if len(overlays) < 2:
        return
    offers = [(catalogue.types_for(pool.node_class.name), template_requirements(pool)) for pool in pools]
    kept = agreeing(
        [overlay for _, overlay in overlays], offers or [(catalogue.default, Requirements())], catalogue.label_keys()
    )
    effective = {overlay.name for overlay in kept}
    for document, overlay in overlays:
        if overlay.name not in effective:
            message = "sets the same price or resource of an instance type as another NodeOverlay of its weight: it is ignored"
            yield finding_in(document, Code.NO_EFFECT, "spec.weight", message, severity=Severity.WARNING)


def _at(obj: object, place: Sequence[str]) -> object:
    for part in place:
        obj = mapping(obj).get(part)
    return obj
