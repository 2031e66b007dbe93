"""Finds dangling references: a NodePool whose EC2NodeClass is not in the input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cli.manifests.document import Document
from cli.validation.finding import Code, Finding, Severity, finding_in, nearest
from core import labels
from core.api import conversion
from core.api.objects import group_and_version, kind_of, mapping, name_of
from core.errors import InvalidInputError

_FIELD: Final = "spec.template.spec.nodeClassRef.name"


def dangling_references(documents: Sequence[Document]) -> Iterator[Finding]:
    """Return an error if the input has other EC2NodeClasses; otherwise a warning, since they may be elsewhere."""
    present = {name_of(doc.object) for doc in documents if doc.kind in ("EC2NodeClass", "AWSNodeTemplate")}
    for document in documents:
        wanted = _class_of(document)
        if wanted and wanted not in present:
            yield finding_in(
                document,
                Code.NOT_FOUND,
                _FIELD,
                f"there is no EC2NodeClass {wanted!r} in the input; without it the NodePool launches nothing",
                severity=Severity.ERROR if present else Severity.WARNING,
                suggestion=nearest(wanted, present),
            )


def repeated_objects(documents: Sequence[Document]) -> Iterator[Finding]:
    """Return a warning for each repetition of kind, namespace and name in a file; variants belong in separate files."""
    first: dict[tuple[str, ...], Document] = {}
    for document in documents:
        if not document.name:
            continue
        group = group_and_version(document.object)[0]
        known = first.setdefault((document.source, group, document.kind, document.namespace, document.name), document)
        if known is not document:
            message = f"is given in document {known.index + 1} already; the last one counts"
            yield finding_in(document, Code.DUPLICATE, "metadata.name", message, severity=Severity.WARNING)


def _class_of(document: Document) -> str:
    """Return the EC2NodeClass that a NodePool names, empty for other objects."""
    if group_and_version(document.object)[0] != labels.CORE_GROUP or kind_of(document.object) != "NodePool":
        return ""
    try:
        pool = conversion.as_v1(document.object)
    except InvalidInputError:
        return ""
    spec = mapping(mapping(mapping(pool.get("spec")).get("template")).get("spec"))
    reference = mapping(spec.get("nodeClassRef"))
    return str(reference.get("name") or "") if reference.get("kind", "EC2NodeClass") == "EC2NodeClass" else ""
