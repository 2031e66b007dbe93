"""Reads what the kustomizations of a folder say about the files beside them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from cli.manifests.documents import documents
from cli.manifests.foreign import KUSTOMIZATIONS

_PATCHES: Final = ("patches", "patchesJson6902", "replacements", "transformers", "configurations", "generators")
"""Fields of a kustomization whose files are no objects of a cluster; entries are a path or have `path`."""


class Kustomizations:
    """What the kustomizations of the folders say about the files beside them.

    Attributes:
        folders: Folders with a kustomization that no other of the input includes.
        patches: Files that are patches or settings, not objects.
    """

    def __init__(self, files: Collection[Path], root: Path) -> None:
        folders = sorted({file.parent for file in files} | {root})
        self.patches: set[Path] = set()
        self.folders: list[Path] = []
        included: set[Path] = set()
        for folder in folders:
            file = next((folder / name for name in KUSTOMIZATIONS if (folder / name).is_file()), None)
            if file is None:
                continue
            self.folders.append(folder)
            try:
                content = _read(file)
            except (yaml.YAMLError, OSError, ValueError):
                continue
            self.patches |= {_resolved(folder / path) for path in _patch_files(content)}
            included |= {_resolved(folder / path) for path in _included(content)}
        self.folders = [folder for folder in self.folders if _resolved(folder) not in included]

    def leaves_out(self, file: Path) -> bool:
        """Whether a file is a patch, or in a folder of patches that a kustomization names."""
        return bool(self.patches) and _resolved(file) in self.patches


def _resolved(path: Path) -> Path:
    return path.resolve()


def _read(file: Path) -> dict[str, Any]:
    content = next(iter(documents(file.read_text(encoding="utf-8-sig"), [])), None)
    return content if isinstance(content, dict) else {}


def _patch_files(content: Mapping[str, Any]) -> Iterator[str]:
    for entry in _entries(content, "patchesStrategicMerge"):
        if isinstance(entry, str) and "\n" not in entry:
            yield entry
    for field in _PATCHES:
        for entry in _entries(content, field):
            path = entry.get("path") if isinstance(entry, dict) else entry
            if isinstance(path, str) and "\n" not in path:
                yield path
    openapi = content.get("openapi")
    if isinstance(openapi, dict) and isinstance(openapi.get("path"), str):
        yield openapi["path"]
    for chart in _entries(content, "helmCharts"):
        if isinstance(chart, dict) and isinstance(chart.get("valuesFile"), str):
            yield chart["valuesFile"]
    for field in ("configMapGenerator", "secretGenerator"):
        for generator in _entries(content, field):
            files = generator.get("files") if isinstance(generator, dict) else None
            yield from (str(file).rpartition("=")[2] for file in files or ())


def _included(content: Mapping[str, Any]) -> Iterator[str]:
    for field in ("resources", "bases", "components"):
        yield from (entry for entry in _entries(content, field) if isinstance(entry, str))


def _entries(content: Mapping[str, Any], field: str) -> list[Any]:
    entries = content.get(field)
    return entries if isinstance(entries, list) else []
