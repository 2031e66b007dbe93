"""Finds the objects to which keys belong that their mappings have already. Loaded where a text repeats a key, as few do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from cli.errors import InputError
from cli.manifests.document import LISTS_DEEP_MAX, Document
from cli.manifests.yaml_documents import RepeatedKey
from cli.terminal.output import counted
from core.api.objects import group_and_version
from core.api.problem import path_of
from core.manifests.wire.api_resources import resource_read


class RepeatedField(NamedTuple):
    """A key that a mapping of an object has already.

    Attributes:
        document: The object; the list itself for a key outside its items.
        field: The path of the key in the object.
        line, column: The position of the repetition, from 1.
        is_read: Whether answers may depend on it: it is part of an object of a kind that we read, or says of which kind it is.
    """

    document: Document
    field: str
    line: int
    column: int
    is_read: bool


def repeated_fields(
    whole: Document, objects: Sequence[Document], keys: Iterable[RepeatedKey]
) -> Iterator[RepeatedField]:
    """Yield the repeated keys of a document of a file with those of its objects that have them."""
    by_item = {document.item: document for document in objects}
    for key in keys:
        depths = range(0, min(len(key.path), 2 * LISTS_DEEP_MAX + 3), 2)
        depth = next((depth for depth in depths if path_of(key.path[:depth]) in by_item), 0)
        document, own = by_item.get(path_of(key.path[:depth]), whole), key.path[depth:]
        is_read = len(own) == 1 and own[0] in ("apiVersion", "kind")
        if document.item in by_item:
            group, kind = group_and_version(document.object)[0], document.kind
            is_read |= resource_read(group, kind) is not None
        else:
            is_read |= own[0] == "items"
        yield RepeatedField(document, path_of(own), key.line, key.column, is_read)


def repetition(fields: Sequence[RepeatedField], consequence: str, hint: str = "") -> InputError:
    """Return an error that names the first of these fields."""
    (document, field, line, column, _), more = fields[0], len(fields) - 1
    others = f" (and {counted(more, 'other key')})" if more else ""
    problem = f"{document.subject}: {field}: the same mapping has this key already{others}: {consequence}"
    place = ", ".join(part for part in (document.item, f"line {line}, column {column}") if part)
    return InputError(problem, source=document.source, index=document.index, place=place, hint=hint)
