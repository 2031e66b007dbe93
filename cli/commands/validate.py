"""`fleetwright validate`: every problem of every object, one line each."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from cli.errors import DONE, NEGATIVE
from cli.reading import Document, read
from core.api.problem import Problem
from core.api.validation import problems

_EPILOG = """examples:
  fleetwright validate -f pools/
  kubectl get nodepools,ec2nodeclasses -o yaml | fleetwright validate -f - -o json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "-f", "--filename", dest="paths", metavar="PATH", action="append", required=True,
        help="file, folder (walked recursively) or - for standard input; repeatable",
    )  # fmt: skip
    parser.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table", help="form of the answer")


def run(arguments: argparse.Namespace) -> int:
    """Print every problem; 1 if there is any, 0 if there is none.

    Raises:
        InputError: If a path or a document cannot be read.
    """
    found = [(document, problem) for document in read(arguments.paths) for problem in problems(document.object)]
    if arguments.output == "table":
        for document, problem in found:
            print(_line(document, problem))
    else:
        _print_structured([_entry(document, problem) for document, problem in found], arguments.output)
    return NEGATIVE if found else DONE


def _line(document: Document, problem: Problem) -> str:
    return ": ".join((document.source, _place(document), str(problem)))


def _place(document: Document) -> str:
    return f"document {document.index}" + (f", {document.item}" if document.item else "")


def _entry(document: Document, problem: Problem) -> dict[str, Any]:
    return {
        "file": document.source,
        "document": document.index,
        "item": document.item,
        "kind": problem.kind,
        "name": problem.name,
        "field": problem.field,
        "message": problem.message,
    }


def _print_structured(entries: list[dict[str, Any]], form: str) -> None:
    answer = {
        "apiVersion": "fleetwright.dev/v1",
        "kind": "Validation",
        "valid": not entries,
        "problems": entries,
    }
    if form == "json":
        print(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        import yaml

        yaml.safe_dump(answer, sys.stdout, sort_keys=False, allow_unicode=True)
