"""`fleetwright validate`: prints every problem of every object, with its line."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from typing import Final

from cli import arguments as shared
from cli.errors import DONE, NEGATIVE
from cli.inputs import builtin_or_given, region_of
from cli.manifests.documents import RepeatedField
from cli.manifests.inventory import Document, skipped_kinds
from cli.manifests.reading import files_in, parse, read_text
from cli.terminal.output import show
from cli.terminal.style import write_stderr, write_stdout
from cli.validation.examine import examine
from cli.validation.formats import Finding, Severity, as_document, as_github, as_junit, as_lines, as_sarif
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
    """Print every finding; 1 if there is an error, 0 for none or for warnings alone.

    Raises:
        InputError: If a path or a document cannot be read, or no object is found.
    """
    texts = {source: read_text(source) for path in arguments.files for source in files_in(path)}
    repeated: list[RepeatedField] = []
    documents = [document for source, text in texts.items() for document in parse(text, source, repeated)]
    shared.refuse_empty(arguments, len(documents))
    _warn_of_unknown(documents)
    classes = [doc.object for doc in documents if _shapes_types(doc)]
    catalogue = builtin_or_given(arguments, region_of(arguments, documents), classes)
    gates = shared.feature_gates(os.environ)
    findings = examine(documents, texts, repeated, catalogue, is_lenient=arguments.lenient, gates=gates)
    _show(findings, arguments.output, len(documents))
    return NEGATIVE if any(finding.severity is Severity.ERROR for finding in findings) else DONE


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
    unknown = [doc.kind for doc in documents if doc.kind not in known and not is_ours(doc.object)]
    if unknown:
        write_stderr(f"warning: {skipped_kinds(Counter(unknown))}")
