"""`fleetwright validate`: prints every problem of every object, with its line."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from datetime import UTC, datetime
from typing import Final

from cli import arguments as shared
from cli.errors import BAD_INPUT, DONE, NEGATIVE
from cli.inputs import builtin_or_given, region_of
from cli.manifests.inventory import Document, refused_version_of, skipped_kinds
from cli.manifests.reading import UnreadableDocument, gather, together
from cli.terminal.output import show
from cli.terminal.style import write_stderr, write_stdout
from cli.validation.examine import examine
from cli.validation.formats import Code, Finding, Severity, as_document, as_github, as_junit, as_lines, as_sarif
from core.api import problems
from core.api.objects import is_ours
from core.api.older_versions import is_old
from core.manifests.wire.resources import BY_KIND

_EPILOG = """examples:
  fleetwright validate -f pools/
  fleetwright validate -f pools/ -o github
  kubectl get nodepools,ec2nodeclasses -o yaml | fleetwright validate -f - -o json
"""
_FORMS: Final = ("table", "json", "yaml", "github", "sarif", "junit")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.epilog = _EPILOG
    shared.add_files(parser)
    parser.add_argument("-o", "--output", choices=_FORMS, default="table", help="form of the answer (default: table)")
    parser.add_argument("--lenient", action="store_true", help="misspelt fields are warnings, not errors")
    shared.add_color(parser)
    shared.add_catalogue(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print every finding; 1 if there is an error, 0 for none or for warnings alone, 2 if a named file cannot be read.

    Raises:
        InputError: If no document can be read, or no object is found.
    """
    given = gather(arguments.files, helm=arguments.helm, kustomize=arguments.kustomize)
    documents = given.documents
    if given.unreadable and not documents:
        raise together([document.error for document in given.unreadable])
    for warning in given.warnings(templates=False):
        write_stderr(f"warning: {warning}")
    shared.refuse_empty(arguments, len(documents))
    _warn_of_unknown(documents)
    classes = [doc.object for doc in documents if _shapes_types(doc)]
    region = region_of(arguments, documents)
    catalogue = builtin_or_given(arguments, region, classes)
    builtin = "" if arguments.catalog else region
    gates = shared.feature_gates(os.environ)
    findings = examine(
        documents,
        given.texts,
        given.repeated,
        catalogue,
        is_lenient=arguments.lenient,
        gates=gates,
        builtin_region=builtin,
        now=datetime.now(UTC).replace(microsecond=0),
    )
    order = {source: position for position, source in enumerate(given.texts)}
    findings += map(_unreadable, given.unreadable)
    findings.sort(key=lambda finding: order.get(finding.document.source, len(order)))
    _show(findings, arguments.output, len(documents))
    if any(document.is_named for document in given.unreadable):
        return BAD_INPUT
    return NEGATIVE if any(finding.severity is Severity.ERROR for finding in findings) else DONE


def _unreadable(problem: UnreadableDocument) -> Finding:
    """Return the finding about a document that cannot be read: the other files, and their findings, stand beside it."""
    error = problem.error
    document = Document(error.source, error.index or 0, {})
    return Finding(
        document=document,
        severity=Severity.ERROR,
        code=Code.UNREADABLE,
        kind="File",
        name=error.source,
        field="",
        message="; ".join(part for part in (error.problem, error.hint) if part),
        line=problem.line,
        column=problem.column,
    )


def _shapes_types(document: Document) -> bool:
    """Whether it is an EC2NodeClass without a fault: its image and kubelet decide what instance types offer."""
    return document.kind == "EC2NodeClass" and not is_old(document.object) and not problems(document.object)


def _show(findings: list[Finding], form: str, objects: int) -> None:
    if form in ("json", "yaml"):
        show(as_document(findings), form, str)
        return
    text = {
        "table": lambda: as_lines(findings, objects=objects),
        "github": lambda: as_github(findings),
        "sarif": lambda: as_sarif(findings),
        "junit": lambda: as_junit(findings, objects=objects),
    }[form]()
    if text:
        write_stdout(text)


def _warn_of_unknown(documents: list[Document]) -> None:
    """Warn in one line about objects that were not checked: kinds that are neither ours nor read here for another purpose."""
    known = (*BY_KIND, "")
    unknown = [
        doc.kind
        for doc in documents
        if doc.kind not in known and not is_ours(doc.object) and not refused_version_of(doc)
    ]
    if unknown:
        write_stderr(f"warning: {skipped_kinds(Counter(unknown))}")
