"""Objects as the API server writes them."""

from __future__ import annotations

from typing import Any

from core import labels
from core.manifests import assemble, storage
from core.manifests.wire import decoding, resources
from core.manifests.wire.resources import Resource
from core.model.pod import NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim
from core.model.snapshot import Node
from core.model.values.requirements import Requirement

IN_ZONE_A = NodeSelectorTerm((Requirement.one_of(labels.ZONE, "a"),))


def written(resource: Resource, *, meta: dict[str, Any] | None = None, **fields: Any) -> Any:
    return decoding.from_object(resource, {"metadata": {"name": "x", **(meta or {})}, **fields})


def a_node(*, status: dict[str, Any] | None = None, **spec: Any) -> Node:
    return assemble.node(written(resources.NODES, spec=spec, status=status or {}))


def a_volume(*, meta: dict[str, Any] | None = None, **spec: Any) -> PersistentVolume:
    return storage.volume(written(resources.PERSISTENT_VOLUMES, meta=meta, spec=spec))


def a_claim(*, meta: dict[str, Any] | None = None, **spec: Any) -> PersistentVolumeClaim:
    return storage.volume_claim(written(resources.PERSISTENT_VOLUME_CLAIMS, meta=meta, spec=spec))
