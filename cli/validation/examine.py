"""Collects all findings about all objects, in the order of the input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from cli.manifests.document import Document
from cli.manifests.inventory import field_in, kind_read, refused_version_of
from cli.manifests.positions import Positions
from cli.manifests.repeated_fields import RepeatedField
from cli.validation.class_values import refused_values
from cli.validation.finding import Code, Finding, Severity, finding_in
from cli.validation.node_labels import label_findings, provided_labels
from cli.validation.pod_template import template_findings
from cli.validation.pool_demands import ANY_TIME, empty_pools, idle_limits
from cli.validation.references import dangling_references, repeated_objects
from cli.validation.suggestions import probably_meant
from cli.validation.unknown_fields import unknown_fields
from cli.validation.unmatched_values import KnownValues, unmatched_values
from core.api import conversion
from core.api.objects import group_and_version, is_ours, kind_of, mapping, sequence
from core.api.validation import problems
from core.disruption.budgets.cron import Schedule
from core.errors import InvalidInputError
from core.manifests.assemble import assemble
from core.manifests.wire.api_resources import PODS
from core.manifests.wire.api_versions import read_versions
from core.manifests.wire.decoding import from_object
from core.manifests.workloads import expand
from core.model.catalogue import Catalogue


def examine(
    documents: Sequence[Document],
    texts: Mapping[str, str],
    repeated: Iterable[RepeatedField],
    catalogue: Catalogue,
    *,
    is_lenient: bool,
) -> list[Finding]:
    """Return all findings, those of a file in the order of its lines.

    Args:
        documents: The objects.
        texts: Source → its text, for lines and columns.
        repeated: The keys that mappings repeat.
        catalogue: The catalogue against which requirements are checked.
        is_lenient: Whether unknown fields are warnings.
    """
    of_all = _of_all(documents)
    positions = {source: Positions(text) for source, text in texts.items()}
    examined = _Examination(catalogue, provided_labels(documents), is_lenient)
    found = [*map(_repeated_key, repeated)]
    for document in documents:
        own = [*examined.of_one(document), *of_all.get(id(document), ())]
        found += [_placed(finding, positions) for finding in own]
    order = {source: position for position, source in enumerate(texts)}
    return sorted(found, key=lambda finding: _place(finding, order))


def _place(finding: Finding, order: Mapping[str, int]) -> tuple[int, int, int, int]:
    source, index = finding.document.source, finding.document.index
    return order.get(source, len(order)), index, finding.line or 0, finding.column or 0


def _repeated_key(repeated: RepeatedField) -> Finding:
    """Return the finding about a repeated key: an error where answers may depend on which of the values counts."""
    message = "the same mapping has this key already; readers differ in which of the two they take"
    severity = Severity.ERROR if repeated.is_read else Severity.WARNING
    found = finding_in(repeated.document, Code.DUPLICATE, repeated.field, message, severity=severity)
    return msgspec.structs.replace(found, line=repeated.line, column=repeated.column)


def _of_all(documents: Sequence[Document]) -> dict[int, list[Finding]]:
    """Return findings that need the whole input, by the identity of their document."""
    found: dict[int, list[Finding]] = {}
    for finding in (*dangling_references(documents), *repeated_objects(documents)):
        found.setdefault(id(finding.document), []).append(finding)
    return found


class _Examination:
    """The checks of every document."""

    def __init__(self, catalogue: Catalogue, provided: frozenset[str], is_lenient: bool) -> None:
        self._catalogue = catalogue
        self._known = KnownValues(catalogue)
        self._provided = provided
        self._is_lenient = is_lenient

    def of_one(self, document: Document) -> Iterator[Finding]:
        """Return the findings of one document; of several about one field, the first counts."""
        if conversion.is_old(document.object):
            yield finding_in(document, Code.OLD_VERSION, "apiVersion", _old(document), severity=Severity.WARNING)
        lost = list(unmatched_values(document, self._known))
        closer = {one.field.rpartition("[")[0] for one in lost if one.severity is Severity.ERROR}
        faults = [fault for fault in _faults(document) if fault.field not in closer]
        yield from faults
        yield from unknown_fields(document, is_lenient=self._is_lenient)
        broken = {fault.field for fault in faults}
        more = [*_bad_schedules(document), *lost, *self._of_labels_and_values(document)]
        if not any(one.code is Code.MATCHES_NOTHING for one in more):
            more += empty_pools(document, self._catalogue)
        yield from (finding for finding in more if finding.field not in broken)

    def _of_labels_and_values(self, document: Document) -> Iterator[Finding]:
        yield from label_findings(document, self._known, self._provided)
        yield from idle_limits(document, self._catalogue)
        yield from refused_values(document)
        yield from template_findings(document)


def _faults(document: Document) -> Iterable[Finding]:
    """Return violations of Karpenter's schemas and rules; for other kinds, problems that prevent reading them."""
    if (refused := refused_version_of(document)) and (versions := read_versions(document.kind)):
        return [finding_in(document, Code.INVALID_VALUE, "apiVersion", refused, suggestion=versions[0])]
    found = problems(document.object)
    if found:
        return [
            finding_in(
                document,
                Code.INVALID_VALUE,
                p.field,
                p.message,
                suggestion=probably_meant(document, p.field),
                subject=(p.kind, p.name),
            )
            for p in found
        ]
    resource = kind_read(document)
    if resource is None or is_ours(document.object):
        return []
    try:
        objects: dict[Any, Any] = {resource: [from_object(resource, document.object)]}
        for expansion in expand(objects):
            objects = {**objects, PODS: list(expansion.pods[:1])}
    except InvalidInputError as error:
        return [finding_in(document, Code.INVALID_VALUE, error.field, error.problem)]
    return [
        finding_in(document, Code.INVALID_VALUE, field_in(document, p.resource, p.field), p.problem)
        for p in assemble(objects, now=ANY_TIME, catalogue=Catalogue())[1]
        if not p.is_warning
    ]


def _bad_schedules(document: Document) -> Iterator[Finding]:
    """Return invalid schedules: the API server's pattern allows `0 25 * * *`, which the parser of budgets refuses."""
    if not is_ours(document.object) or kind_of(document.object) != "NodePool":
        return
    disruption = mapping(mapping(document.object.get("spec")).get("disruption"))
    for index, budget in enumerate(sequence(disruption.get("budgets"))):
        schedule = mapping(budget).get("schedule")
        if not isinstance(schedule, str):
            continue
        try:
            Schedule.parse(schedule)
        except InvalidInputError as error:
            field = f"spec.disruption.budgets[{index}].schedule"
            message = f"{error.problem}; the budget would let no node go, at any time"
            yield finding_in(document, Code.INVALID_CRON, field, message)


def _old(document: Document) -> str:
    version = group_and_version(document.object)[1]
    return f"{version} is an older version; `fleetwright convert` writes the object as v1"


def _placed(finding: Finding, positions: Mapping[str, Positions]) -> Finding:
    document = finding.document
    path = ".".join(part for part in (document.item, finding.field) if part)
    place = positions[document.source].of(document.index, path) if document.source in positions else None
    return finding if place is None else msgspec.structs.replace(finding, line=place[0], column=place[1])
