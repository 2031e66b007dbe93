"""Commands about manifests: `validate` finds problems, `convert` rewrites older versions, `crds` prints the definitions."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime
from functools import partial
from typing import Final

import msgspec
import yaml

from cli import arguments as shared
from cli.errors import BAD_INPUT, DONE, NEGATIVE, InputError, error_lines
from cli.inputs import builtin_or_given, region_of
from cli.manifests.documents import ManifestDumper
from cli.manifests.inventory import Document, is_missing, kind_read, refused_version_of, skipped_kinds
from cli.manifests.reading import UnreadableDocument, gather, read, together
from cli.terminal.output import escaped_yaml, show
from cli.terminal.style import write_stderr, write_stdout
from cli.validation.examine import examine
from cli.validation.formats import Code, Finding, Severity, as_document, as_github, as_junit, as_lines, as_sarif
from core.api import older_versions, problems
from core.api.objects import JsonObject, identity_problems, is_ours
from core.api.status import written_defaults
from core.errors import InvalidInputError
from core.manifests.wire import decoding
from core.manifests.wire.resources import BY_KIND

# `validate`

_VALIDATE_EXAMPLES = """examples:
  fleetwright validate -f pools/
  fleetwright validate -f pools/ -o github
  kubectl get nodepools,ec2nodeclasses -o yaml | fleetwright validate -f - -o json
"""
_FORMS: Final = ("table", "json", "yaml", "github", "sarif", "junit")


def configure_validate(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.epilog = _VALIDATE_EXAMPLES
    shared.add_files(parser)
    parser.add_argument("-o", "--output", choices=_FORMS, default="table", help="form of the answer (default: table)")
    parser.add_argument("--lenient", action="store_true", help="misspelt fields are warnings, not errors")
    shared.add_color(parser)
    shared.add_clock(parser)
    shared.add_catalogue(parser)


def run_validate(arguments: argparse.Namespace) -> int:
    """Print every finding; 1 if there is an error, 0 for none or for warnings alone, 2 if a named file cannot be read.

    Raises:
        InputError: If no document can be read, or no object is found.
    """
    gathered = gather(arguments.files, helm=arguments.helm, kustomize=arguments.kustomize)
    documents = gathered.documents
    if gathered.unreadable and not documents:
        raise together([problem.error for problem in gathered.problems()])
    for warning in gathered.warnings(templates=False):
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
        gathered.texts,
        gathered.repeated,
        catalogue,
        is_lenient=arguments.lenient,
        gates=gates,
        builtin_region=builtin,
        now=arguments.now or datetime.now(UTC).replace(microsecond=0),
    )
    findings = [_of_completed(finding, gathered.completed) for finding in findings]
    order = {source: position for position, source in enumerate(gathered.texts)}
    findings += map(_unreadable, gathered.problems())
    findings.sort(key=lambda finding: order.get(finding.document.source, len(order)))
    _show(findings, arguments.output, len(documents))
    if any(document.is_named for document in gathered.unreadable):
        return BAD_INPUT
    return NEGATIVE if any(finding.severity is Severity.ERROR for finding in findings) else DONE


def _of_completed(finding: Finding, completed: Collection[str]) -> Finding:
    """Return a finding; what is missing is a warning where a kustomization may add it."""
    if finding.document.source not in completed or not is_missing(finding.message):
        return finding
    message = f"{finding.message}; a kustomization lists the file and may add it: --kustomize examines what it makes"
    return msgspec.structs.replace(finding, message=message, severity=Severity.WARNING)


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
    return (
        document.kind == "EC2NodeClass" and not older_versions.is_old(document.object) and not problems(document.object)
    )


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
    known_kinds = (*BY_KIND, "")
    unknown = [
        doc.kind
        for doc in documents
        if doc.kind not in known_kinds and not is_ours(doc.object) and not refused_version_of(doc)
    ]
    if unknown:
        write_stderr(f"warning: {skipped_kinds(Counter(unknown))}")


# `convert`


_CONVERT_EXAMPLES = """examples:
  fleetwright convert -f old/ > new.yaml
  kubectl get provisioners,awsnodetemplates -o yaml | fleetwright convert -f - | kubectl apply -f -
"""


def configure_convert(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.epilog = _CONVERT_EXAMPLES
    shared.add_files(parser)


def run_convert(arguments: argparse.Namespace) -> int:
    """Print all objects, those of older versions converted.

    Remaining manual steps, and fields that the older forms left to defaults, are printed to stderr.
    If an object cannot be converted, or is invalid in its current form, only the reasons are printed, and the exit code is 1.

    Raises:
        InputError: If a path or a document cannot be read, or an object has no kind or no version.
    """
    documents = read(arguments.files)
    shared.refuse_empty(arguments, len(documents))
    for document in documents:
        for field, problem in identity_problems(document.object):
            raise document.error(f"{field}: {problem}")
    refusals = [refusal for document in documents if (refusal := _refusal(document)) is not None]
    for refusal in refusals:
        write_stderr(*error_lines(refusal))
    if refusals:
        return NEGATIVE
    converted = older_versions.all_as_v1(document.object for document in documents)
    for obj in converted:
        for remark in older_versions.remarks(obj):
            write_stderr(f"warning: {obj['kind']} {obj['metadata'].get('name', '')}: {remark}")
    for document in documents:
        _note_defaults(document)
    dump = partial(yaml.dump_all, converted, Dumper=ManifestDumper, sort_keys=False, default_flow_style=False)
    sys.stdout.write(escaped_yaml(dump))
    return DONE


def _note_defaults(document: Document) -> None:
    if not older_versions.is_old(document.object):
        return
    if defaults := written_defaults(document.object, older_versions.as_v1(document.object)):
        heading = f"note: {document.subject} now says what its version assumed:"
        write_stderr(heading, *(f"  {default}" for default in defaults))


def _refusal(document: Document) -> InputError | None:
    if refused := refused_version_of(document):
        return document.error(f"apiVersion: {refused}")
    resource = kind_read(document)
    try:
        if resource is not None:
            decoding.from_object(resource, document.object)
    except InvalidInputError as error:
        return document.error(str(error))
    fault = next(iter(problems(document.object)), None)
    return document.error(f"{fault.field}: {fault.message}") if fault is not None else None


# `crds`


LINE_WIDTH = 128

_CRDS_EXAMPLES = """examples:
  fleetwright crds | kubectl apply --server-side -f -
  kubectl get crd nodepools.karpenter.sh
"""


def configure_crds(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""
    parser.epilog = _CRDS_EXAMPLES


def run_crds(arguments: argparse.Namespace) -> int:  # noqa: ARG001 - every command has it
    """Print all definitions, one document each."""
    from core.api.crds import definitions

    sys.stdout.write("---\n".join(as_yaml(definition) for definition in definitions()))
    return DONE


def as_yaml(definition: JsonObject) -> str:
    """Return one definition as a YAML document, always with the same text."""
    return yaml.dump(
        definition,
        Dumper=_WithoutAliases,
        sort_keys=False,
        allow_unicode=True,
        width=LINE_WIDTH,
        default_flow_style=False,
    )


class _WithoutAliases(yaml.SafeDumper):
    """Writes repeated parts in full: anchors are hard to follow in a definition."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - of none
        """Return True: no object gets an anchor."""
        return True
