"""Every finding of every object of the input, in the input's order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from cli.inventory import field_in, kind_read
from cli.reading import Document
from cli.validation.finding import Code, Finding, Severity, finding_in
from cli.validation.positions import Positions
from cli.validation.references import dangling_references
from cli.validation.unknown_fields import unknown_fields
from cli.validation.unmatched_values import KnownValues, unmatched_values
from core.api import conversion
from core.api.objects import group_and_version, is_ours, kind_of, mapping, sequence
from core.api.validation import problems
from core.disruption.budgets.cron import Schedule
from core.errors import InvalidInputError
from core.manifests.assemble import assemble
from core.manifests.wire.api_resources import PODS
from core.manifests.wire.decoding import from_object
from core.manifests.workloads import expand
from core.model.catalogue import Catalogue

_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""Whether an object can be read does not depend on the time."""


def examine(
    documents: Sequence[Document], texts: Mapping[str, str], known: KnownValues, *, is_lenient: bool
) -> list[Finding]:
    """Every finding.

    Args:
        documents: The objects.
        texts: Source → its text, for lines and columns.
        known: What requirements are held against.
        is_lenient: Unknown fields are warnings.
    """
    dangling = {id(finding.document): finding for finding in dangling_references(documents)}
    positions = {source: Positions(text) for source, text in texts.items()}
    found: list[Finding] = []
    for document in documents:
        own = list(_of_one(document, known, is_lenient=is_lenient))
        if id(document) in dangling:
            own.append(dangling[id(document)])
        found += [_placed(finding, positions) for finding in own]
    return found


def _of_one(document: Document, known: KnownValues, *, is_lenient: bool) -> Iterator[Finding]:
    if conversion.is_old(document.object):
        yield finding_in(document, Code.OLD_VERSION, "apiVersion", _old(document), severity=Severity.WARNING)
    faults = list(_faults(document))
    yield from faults
    yield from unknown_fields(document, is_lenient=is_lenient)
    broken = {fault.field for fault in faults}
    yield from (cron for cron in _bad_schedules(document) if cron.field not in broken)
    yield from (lost for lost in unmatched_values(document, known) if lost.field not in broken)


def _faults(document: Document) -> Iterable[Finding]:
    """What Karpenter's schemas and rules refuse; for other kinds what would keep a plan from reading them."""
    found = problems(document.object)
    if found:
        return [finding_in(document, Code.INVALID_VALUE, p.field, p.message, subject=(p.kind, p.name)) for p in found]
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
        for p in assemble(objects, now=_ANY_TIME, catalogue=Catalogue())[1]
        if not p.is_warning
    ]


def _bad_schedules(document: Document) -> Iterator[Finding]:
    """The API server's pattern lets `0 25 * * *` pass; the parser that decides about budgets does not."""
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
