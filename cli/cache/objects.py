"""Reads Karpenter's objects through `core.api`, and caches the result: loading pydantic's models takes longer than a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from cli.cache.store import Store
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource
from core.model.node_claim import NodeClaim
from core.model.node_pool import NodeClass, NodePool
from core.model.overlay import NodeOverlay


class _Readings(msgspec.Struct, frozen=True, kw_only=True):
    """The results of reading one input's objects, each kind in the order of its objects."""

    node_pools: tuple[NodePool, ...]
    node_classes: tuple[NodeClass, ...]
    node_claims: tuple[NodeClaim, ...]
    node_overlays: tuple[NodeOverlay, ...]


_FIELDS: Final[Mapping[str, Resource]] = {
    "node_pools": kinds.NODE_POOLS,
    "node_classes": kinds.EC2_NODE_CLASSES,
    "node_claims": kinds.NODE_CLAIMS,
    "node_overlays": kinds.NODE_OVERLAYS,
}


class KeptReaders:
    """The readers of `core.api` for these objects, cached in the store."""

    def __init__(self, store: Store, objects: Mapping[Resource, Sequence[Any]]) -> None:
        self._store = store
        self._objects = {name: objects.get(resource, ()) for name, resource in _FIELDS.items()}
        self._key = store.key("objects", {name: list(found) for name, found in self._objects.items()})
        self._kept = self._read_kept()
        self._read: dict[int, Any] = {}

    def node_pool(self, obj: Any) -> NodePool:
        """Read a NodePool. Raises InvalidInputError."""
        return cast("NodePool", self._answer("node_pool", obj))

    def node_class(self, obj: Any) -> NodeClass:
        """Read an EC2NodeClass. Raises InvalidInputError."""
        return cast("NodeClass", self._answer("node_class", obj))

    def node_claim(self, obj: Any) -> NodeClaim:
        """Read a NodeClaim. Raises InvalidInputError."""
        return cast("NodeClaim", self._answer("node_claim", obj))

    def node_overlay(self, obj: Any) -> NodeOverlay:
        """Read a NodeOverlay. Raises InvalidInputError."""
        return cast("NodeOverlay", self._answer("node_overlay", obj))

    def keep(self) -> None:
        """Store the results, unless an object was refused: its message is created by reading it again."""
        if not self._read or any(id(obj) not in self._read for found in self._objects.values() for obj in found):
            return
        readings = {name: tuple(self._read[id(obj)] for obj in found) for name, found in self._objects.items()}
        self._store.put(self._key, msgspec.msgpack.encode(_Readings(**readings)))

    def _answer(self, function: str, obj: Any) -> Any:
        if id(obj) in self._kept:
            return self._kept[id(obj)]
        from core import api

        found = getattr(api, function)(obj)
        self._read[id(obj)] = found
        return found

    def _read_kept(self) -> dict[int, Any]:
        raw = self._store.get(self._key)
        if raw is None:
            return {}
        try:
            readings = msgspec.msgpack.decode(raw, type=_Readings)
        except msgspec.MsgspecError:
            return {}
        pairs = [(self._objects[name], getattr(readings, name)) for name in _FIELDS]
        return {id(obj): reading for given, kept in pairs for obj, reading in zip(given, kept, strict=True)}
