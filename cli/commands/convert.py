"""`fleetwright convert`: prints objects of older API versions in their current form, as YAML."""

from __future__ import annotations

import argparse
import sys
from functools import partial

import yaml

from cli.arguments import add_files, refuse_empty
from cli.errors import DONE, NEGATIVE, InputError, error_lines
from cli.manifests.inventory import Document, kind_read, refused_version_of
from cli.manifests.reading import read
from cli.terminal.output import escaped_yaml
from cli.terminal.style import write_stderr
from core.api import older_versions, problems
from core.api.objects import identity_problems
from core.api.status import written_defaults
from core.errors import InvalidInputError
from core.manifests.wire import decoding

_EPILOG = """examples:
  fleetwright convert -f old/ > new.yaml
  kubectl get provisioners,awsnodetemplates -o yaml | fleetwright convert -f - | kubectl apply -f -
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.epilog = _EPILOG
    add_files(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print all objects, those of older versions converted.

    Remaining manual steps, and fields that the older forms left to defaults, are printed to stderr.
    If an object cannot be converted, or is invalid in its current form, only the reasons are printed, and the exit code is 1.

    Raises:
        InputError: If a path or a document cannot be read, or an object has no kind or no version.
    """
    documents = read(arguments.files)
    refuse_empty(arguments, len(documents))
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
    sys.stdout.write(escaped_yaml(partial(yaml.safe_dump_all, converted, sort_keys=False, default_flow_style=False)))
    return DONE


def _note_defaults(document: Document) -> None:
    if not older_versions.is_old(document.object):
        return
    if defaults := written_defaults(document.object, older_versions.as_v1(document.object)):
        said = f"note: {document.subject} now says what its version assumed:"
        write_stderr(said, *(f"  {default}" for default in defaults))


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
