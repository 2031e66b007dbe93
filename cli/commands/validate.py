"""`fleetwright validate`: every problem of every object, one line each."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import Final

from cli.arguments import add_files
from cli.errors import DONE, NEGATIVE
from cli.inventory import NOTHING_THERE, field_in, kind_read
from cli.output import show
from cli.reading import Document, read
from core.api.objects import JsonObject, is_ours
from core.api.problem import Problem
from core.api.validation import problems
from core.errors import InvalidInputError
from core.manifests.assemble import assemble
from core.manifests.resources import BY_KIND, PODS
from core.manifests.wire import from_object
from core.manifests.workloads import expand
from core.model.catalogue import Catalogue

_EPILOG = """examples:
  fleetwright validate -f pools/
  kubectl get nodepools,ec2nodeclasses -o yaml | fleetwright validate -f - -o json
"""
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""Whether an object can be read does not depend on the time."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.epilog = _EPILOG
    add_files(parser)
    parser.add_argument(
        "-o", "--output", choices=("table", "json", "yaml"), default="table", help="form of the answer (default: table)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print every problem; 1 if there is any, 0 if there is none.

    Raises:
        InputError: If a path or a document cannot be read.
    """
    documents = read(arguments.files)
    _warn_of_unknown(documents)
    found = [(document, problem) for document in documents for problem in _problems(document)]
    if arguments.output == "table":
        for document, problem in found:
            print(_line(document, problem))
    else:
        show(_answer([_entry(document, problem) for document, problem in found]), arguments.output, str)
    return NEGATIVE if found else DONE


def _problems(document: Document) -> tuple[Problem, ...]:
    """All of an object of ours; of another kind that plans read, what would keep it from being read."""
    found = problems(document.object)
    resource = kind_read(document)
    if found or resource is None or is_ours(document.object):
        return found
    try:
        objects = {resource: [from_object(resource, document.object)]}
        for expansion in expand(objects):
            objects = {**objects, PODS: list(expansion.pods[:1])}
    except InvalidInputError as error:
        return (_problem(document, error.field, error.problem),)
    return tuple(
        _problem(document, field_in(document, problem.resource, problem.field), problem.problem)
        for problem in assemble(objects, now=_ANY_TIME, catalogue=Catalogue())[1]
        if not problem.is_warning
    )


def _problem(document: Document, field: str, message: str) -> Problem:
    kind, _, name = document.subject.partition(" ")
    return Problem(kind, name, field, message)


def _warn_of_unknown(documents: list[Document]) -> None:
    """One line that counts what nobody looked at: kinds that are neither ours nor read here for another purpose."""
    if not documents:
        print(f"warning: {NOTHING_THERE}", file=sys.stderr)
    known = (*BY_KIND, "")
    unknown = [doc.kind for doc in documents if doc.kind not in known and not is_ours(doc.object)]
    if unknown:
        counts = ", ".join(f"{kind} {unknown.count(kind)}" for kind in sorted(set(unknown)))
        print(f"warning: skipped {len(unknown)} objects of kinds that are not read here: {counts}", file=sys.stderr)


def _line(document: Document, problem: Problem) -> str:
    return ": ".join((document.source, _place(document), str(problem)))


def _place(document: Document) -> str:
    return f"document {document.index}" + (f", {document.item}" if document.item else "")


def _entry(document: Document, problem: Problem) -> JsonObject:
    return {
        "file": document.source,
        "document": document.index,
        "item": document.item,
        "kind": problem.kind,
        "name": problem.name,
        "field": problem.field,
        "message": problem.message,
    }


def _answer(entries: list[JsonObject]) -> JsonObject:
    return {"apiVersion": "fleetwright.dev/v1", "kind": "Validation", "valid": not entries, "problems": entries}
