"""Reads manifests from files, folders and standard input: YAML or JSON, with several documents per file and lists."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from cli.errors import InputError
from cli.manifests.documents import RepeatedKey, documents
from cli.manifests.inventory import LISTS_DEEP_MAX, STANDARD_INPUT, Document
from cli.terminal.style import write_stderr
from core.errors import InvalidInputError

if TYPE_CHECKING:
    from cli.manifests.documents import RepeatedField

SUFFIXES: Final = (".yaml", ".yml", ".json")
BYTES_MAX: Final = 1 << 30
"""The most bytes of one file, unpacked: the objects of 5,000 nodes and 200,000 pods have less."""

_PACKED: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""How gzip and Zstandard begin."""
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""How UTF-16 begins, which Windows PowerShell writes for `kubectl get … > cluster.yaml`. kubectl reads it, too."""


def read(paths: Sequence[str]) -> list[Document]:
    """Read every object of these files, folders (recursively, in sorted order) or `-`.

    Raises:
        InputError: If a path is missing or a document cannot be read; it names file, document and place.
    """
    return [document for path in paths for source in files_in(path) for document in parse(read_text(source), source)]


def read_text(path: str) -> str:
    """Return the text of one file or of standard input.

    Raises:
        InputError: If it cannot be read, or is neither UTF-8 nor UTF-16 with a byte order mark.
    """
    try:
        if path == STANDARD_INPUT:
            raw = sys.stdin.buffer.read(BYTES_MAX + 1)
        else:
            with Path(path).open("rb") as file:
                raw = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", source=path) from error
    if raw.startswith(_PACKED):
        raw = _decompressed(raw, path)
    if len(raw) > BYTES_MAX:
        raise InputError(f"is larger than {BYTES_MAX >> 20} MiB", source=path, hint="give it in several files")
    encoding, name = ("utf-16", "UTF-16") if raw.startswith(_UTF_16) else ("utf-8-sig", "UTF-8")
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(f"is not {name} text (byte {error.start})", source=path) from error


def _decompressed(raw: bytes, source: str) -> bytes:
    from cli.manifests.decompression import decompressed  # most input is not packed

    try:
        return decompressed(raw)
    except InvalidInputError as error:
        raise InputError(error.problem, source=source) from error


def parse(text: str, source: str, repeated: list[RepeatedField] | None = None) -> list[Document]:
    """Return the objects in a text; errors call it `source`. The last value of a repeated key counts.

    Args:
        text: The YAML or JSON.
        source: The file's name.
        repeated: Where to add the keys that mappings repeat. Without it they are refused in objects of kinds that we read, as
            tools differ in which of the values they take; those of other kinds are a warning, one per text.

    Raises:
        InputError: If a document cannot be read or is not an object, or repeats a key.
    """
    found: list[Document] = []
    keys: list[RepeatedKey] = []
    noted: list[RepeatedField] = []
    for index, value in enumerate(_values(text, source, keys)):
        if value is None:
            continue
        if not isinstance(value, dict):
            raise InputError(f"is a {_name_of(value)}, not an object with a kind", source=source, index=index)
        document = Document(source, index, value)
        objects = [*_unfolded(document, depth=0)]
        found += objects
        if keys:
            from cli.manifests.documents import repeated_fields, repetition

            noted += repeated_fields(document, objects, keys)
            keys.clear()
            refused = [field for field in noted if field.is_read]
            if refused and repeated is None:
                raise repetition(refused, "readers differ in which of the two they take", hint="delete one of the two")
    if repeated is not None:
        repeated += noted
    elif noted:
        from cli.manifests.documents import repetition

        write_stderr(f"warning: {repetition(noted, 'the last one counts')}")
    return found


def files_in(path: str) -> list[str]:
    """Return the files of a path: itself, or a folder's files at any depth, in sorted order.

    Raises:
        InputError: If there is no such file or folder.
    """
    if path == STANDARD_INPUT:
        return [path]
    root = Path(path)
    if not root.exists():
        raise InputError("there is no such file or folder", source=path, hint="- reads standard input")
    if not root.is_dir():
        return [path]
    inside = (file for file in root.rglob("*") if _is_manifest(file) and file.is_file())
    return [str(file) for file in sorted(inside)]


def _is_manifest(file: Path) -> bool:
    """Whether a file of a folder is read: by its suffix, also below that of a packed file."""
    *_, below, last = ("", "", *(suffix.lower() for suffix in file.suffixes))
    return last in SUFFIXES or last == ".zst" or (last == ".gz" and below in SUFFIXES)


def _values(text: str, source: str, repeated: list[RepeatedKey]) -> Iterator[Any]:
    if text.lstrip()[:1] in ("{", "["):
        from json import JSONDecodeError  # most manifests are YAML

        from cli.manifests.documents import json_documents

        is_json = source.lower().endswith(".json")
        try:
            for value, keys in json_documents(text):
                repeated += keys
                yield value
        except JSONDecodeError as error:
            if is_json:
                place = f"line {error.lineno}, column {error.colno}"
                raise InputError(f"is not JSON: {error.msg}", source=source, place=place) from error
        except (ValueError, RecursionError) as error:
            if is_json:
                raise InputError(f"is not JSON: {error}", source=source) from error
        else:
            return
    yield from _yaml_values(text, source, repeated)


def _yaml_values(text: str, source: str, repeated: list[RepeatedKey]) -> Iterator[Any]:
    index = 0
    try:
        for index, value in enumerate(documents(text, repeated)):
            yield value
            index += 1  # noqa: PLW2901 - from here on the next document is being read
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise InputError(f"is not YAML: {error.problem}", source=source, index=index, place=place) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"is not YAML: {error}", source=source, index=index) from error


def _unfolded(document: Document, *, depth: int) -> Iterator[Document]:
    items = document.object.get("items")
    if items is None and (document.kind == "List" or (document.kind.endswith("List") and "items" in document.object)):
        return  # Go writes a list without entries as null
    if not document.kind.endswith("List") or not isinstance(items, list) or depth > LISTS_DEEP_MAX:
        yield document
        return
    inner_kind = document.kind.removesuffix("List")
    for position, item in enumerate(items):
        path = f"{document.item}.items[{position}]".lstrip(".")
        if not isinstance(item, dict):
            problem = f"is a {_name_of(item)}, not an object"
            raise InputError(problem, source=document.source, index=document.index, place=path)
        if inner_kind and "kind" not in item:
            item = {"apiVersion": document.object.get("apiVersion", "v1"), "kind": inner_kind, **item}  # noqa: PLW2901 - items of a typed list have no kind
        yield from _unfolded(Document(document.source, document.index, item, path), depth=depth + 1)


def _name_of(value: object) -> str:
    names = {list: "list", str: "text", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), type(value).__name__)
