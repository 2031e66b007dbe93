"""Objects as the API server writes them."""

from __future__ import annotations

from typing import Any

from core import labels
from core.manifests import nodes, storage
from core.manifests.wire import api_resources as kinds
from core.manifests.wire import decoding as wire
from core.manifests.wire.api_resources import Resource
from core.model.node import Node
from core.model.pod import NodeSelectorTerm
from core.model.storage import PersistentVolume, PersistentVolumeClaim
from core.model.values.requirements import Requirement

IN_ZONE_A = NodeSelectorTerm((Requirement.one_of(labels.ZONE, "a"),))


def written(resource: Resource, *, meta: dict[str, Any] | None = None, **fields: Any) -> Any:
    return wire.from_object(resource, {"metadata": {"name": "x", **(meta or {})}, **fields})


def a_node(*, status: dict[str, Any] | None = None, **spec: Any) -> Node:
    return nodes.node(written(kinds.NODES, spec=spec, status=status or {}))


def a_volume(*, meta: dict[str, Any] | None = None, **spec: Any) -> PersistentVolume:
    return storage.volume(written(kinds.PERSISTENT_VOLUMES, meta=meta, spec=spec))


def a_claim(*, meta: dict[str, Any] | None = None, **spec: Any) -> PersistentVolumeClaim:
    return storage.volume_claim(written(kinds.PERSISTENT_VOLUME_CLAIMS, meta=meta, spec=spec))
