"""Writes a workload as files, from which every planner reads it: the same bytes for us and for Karpenter."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.workloads.manifests import Workload

PAGE_PODS: Final = 500
"""Pods per page, as in requests to an API server."""

_PODS: Final = "pods"
_CLUSTER: Final = "cluster.json"
_CATALOGUE: Final = "catalog.json"


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a workload."""

    folder: Path

    @property
    def pages(self) -> list[Path]:
        """Pods, as pages of a list."""
        return sorted((self.folder / _PODS).iterdir())

    @property
    def cluster(self) -> Path:
        """Everything else of the cluster."""
        return self.folder / _CLUSTER

    @property
    def catalogue(self) -> Path:
        """The instance types."""
        return self.folder / _CATALOGUE

    @property
    def manifests(self) -> tuple[Path, Path]:
        """The value for `-f`."""
        return self.cluster, self.folder / _PODS

    def digest(self) -> str:
        """A digest of a workload's contents."""
        hasher = hashlib.sha256()
        for path in (self.cluster, self.catalogue, *self.pages):
            hasher.update(path.read_bytes())
        return hasher.hexdigest()[:16]


def written(workload: Workload, folder: Path) -> Files:
    """Write a workload to a folder, replacing an earlier one."""
    pages = folder / _PODS
    pages.mkdir(parents=True, exist_ok=True)
    for old in pages.iterdir():
        old.unlink()
    for start in range(0, len(workload.pods), PAGE_PODS):
        page = workload.pods[start : start + PAGE_PODS]
        _write(pages / f"{start // PAGE_PODS:04d}.json", {"apiVersion": "v1", "kind": "PodList", "items": page})
    _write(folder / _CLUSTER, {"apiVersion": "v1", "kind": "List", "items": list(workload.cluster)})
    _write(folder / _CATALOGUE, workload.catalogue)
    return Files(folder)


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, separators=(",", ":")))
