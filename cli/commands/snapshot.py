"""`fleetwright snapshot`: writes a cluster as one document that every command accepts with -f."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cli import arguments as shared
from cli.arguments import add_cluster
from cli.errors import DONE, InputError
from cli.terminal.style import takes_every_character

if TYPE_CHECKING:
    from cli.manifests.inventory import Document

_EXAMPLES: Final = """examples:
  fleetwright snapshot > cluster.json
  fleetwright snapshot --compress > cluster.json.zst
  fleetwright snapshot --context prod --anonymize --to cluster.json.zst
  fleetwright snapshot -f cluster/ > cluster.json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    shared.add_files(parser, is_required=False)
    add_cluster(parser)
    parser.add_argument(
        "--anonymize",
        action="store_true",
        help="your names become pseudonyms; otherwise the plan stays the same",
    )
    parser.add_argument(
        "--compress", action="store_true", help="compress with Zstandard, which -f of every command recognizes"
    )
    parser.add_argument(
        "--to",
        metavar="FILE",
        type=Path,
        help="write there instead of standard output; compressed where it ends in .zst",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the document."""
    import json

    from cli.cluster.live import read_live
    from cli.manifests.reading import read
    from cli.terminal.style import progress

    if arguments.compress and arguments.to is None and sys.stdout.isatty():
        raise InputError(
            "compressed bytes are not for a terminal", hint="redirect them (> cluster.json.zst), or --to FILE"
        )
    with progress("reading"):
        documents = read(arguments.files) if arguments.files else read_live(arguments.context)
    items = _items(documents)
    shared.refuse_empty(arguments, len(items))
    if arguments.anonymize:
        from cli.cluster.names import Pseudonyms

        pseudonyms = Pseudonyms(items)
        items = _sorted([pseudonyms.of(item) for item in items])
    document = {"apiVersion": "v1", "kind": "List", "items": items}
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=not takes_every_character())
    _write(f"{text}\n", arguments.to, compress=arguments.compress)
    return DONE


def _items(documents: list[Document]) -> list[dict[str, Any]]:
    """Return the parts of the objects that decisions read, in canonical order. Of repeated objects, the last one counts."""
    from cli.cluster.names import lean, without_user_data
    from cli.manifests.inventory import kind_read
    from core.errors import InvalidInputError

    by_resource = {}
    for document in documents:
        resource = kind_read(document)
        if resource is None:
            continue
        try:
            by_resource[resource, document.namespace if resource.namespaced else "", document.name] = lean(
                resource, document.object
            )
        except InvalidInputError as error:
            raise document.error(str(error)) from error
    return _sorted(without_user_data(list(by_resource.values())))


def _sorted(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def place(item: dict[str, Any]) -> tuple[str, str, str, str]:
        metadata = item["metadata"]
        return item["kind"], item["apiVersion"], metadata.get("namespace", ""), metadata["name"]

    return sorted(items, key=place)


def _write(text: str, to: Path | None, *, compress: bool) -> None:
    if to is None and not compress:
        sys.stdout.write(text)
        return
    from core.ledger.compression import compressed

    raw = text.encode()
    if compress or (to is not None and to.suffix == ".zst"):
        raw = compressed(raw)
    if to is None:
        sys.stdout.buffer.write(raw)
        return
    try:
        to.write_bytes(raw)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", source=str(to)) from error
