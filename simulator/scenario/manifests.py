"""Reads the manifests that a scenario names: files and folders of YAML or JSON, with several documents per file and lists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from core.api.conversion import is_old
from core.api.objects import JsonObject
from core.errors import InvalidInputError
from core.manifests.wire.api_versions import refused_version

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_MERGE: Final = "tag:yaml.org,2002:merge"


class Document(msgspec.Struct, frozen=True):
    """One object and its source."""

    path: Path
    index: int
    object: JsonObject


class _Loader(yaml.SafeLoader):
    """A loader that keeps dates as text and refuses repeated keys: tools differ in which of the values they take."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT002 - PyYAML's signature
        """Construct a mapping. Raises yaml.constructor.ConstructorError for a key that it has twice."""
        known: set[str] = set()
        for key, _ in node.value:
            if key.tag != _MERGE and str(key.value) in known:
                problem = f"its mapping has {key.value!r} already"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            known.add(str(key.value))
        return super().construct_mapping(node, deep)


def read_manifests(path: Path) -> list[Document]:
    """Every object in a file, or in all files below a folder, in the order of their names.

    Raises:
        InvalidInputError: If something cannot be read or is no object; names file and document.
    """
    files = sorted(p for p in path.rglob("*") if p.suffix in _SUFFIXES) if path.is_dir() else [path]
    found = [document for file in files for document in read_documents(file)]
    for document in found:
        if not document.object.get("kind") or not (document.object.get("metadata") or {}).get("name"):
            raise InvalidInputError("has no kind or no name", subject=f"{document.path}, document {document.index + 1}")
        check_version(document.object, f"{document.path}, document {document.index + 1}")
    return found


def check_version(obj: JsonObject, subject: str) -> None:
    """Raise InvalidInputError for a version that the embedded API server does not serve; none at all is the current one."""
    refused = refused_version(obj) if obj.get("apiVersion") else ""
    if is_old(obj):
        refused = f"{obj['apiVersion']} is an older version; `fleetwright convert` writes the object as v1"
    if refused:
        raise InvalidInputError(refused, subject=subject, field="apiVersion")


def read_documents(path: Path) -> list[Document]:
    """Every object in a file.

    Raises:
        InvalidInputError: If the file cannot be read or holds something else.
    """
    try:
        text = path.read_text()
        values = list(yaml.load_all(text, Loader=_Loader))
    except OSError as error:
        raise InvalidInputError(f"cannot be read: {error.strerror or error}", subject=str(path)) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidInputError(_not_yaml(error), subject=str(path)) from error
    found = []
    for index, value in enumerate(values):
        if value is None:
            continue
        if not isinstance(value, dict):
            raise InvalidInputError("is not an object", subject=f"{path}, document {index + 1}")
        found += [Document(path, index, item) for item in _unfolded(value)]
    return found


def _not_yaml(error: Exception) -> str:
    """Describe why a text is not YAML, and where."""
    mark = error.problem_mark or error.context_mark if isinstance(error, yaml.MarkedYAMLError) else None
    if mark is None:
        return f"is not YAML: {error}"
    return f"line {mark.line + 1}, column {mark.column + 1}: is not YAML: {getattr(error, 'problem', '')}"


def _unfolded(value: JsonObject) -> Iterator[JsonObject]:
    if str(value.get("kind", "")).endswith("List") and isinstance(value.get("items"), list):
        for item in value["items"]:
            yield from _unfolded(item)
    else:
        yield value
