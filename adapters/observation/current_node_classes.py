"""Provides EC2NodeClasses whose status matches their current spec.

After an edit and until `reconcile` has resolved the class again, its status names images, subnets and security groups of the
old spec, and nodes of the new hash would be launched from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from adapters.ports import JsonObject, PortError
from core import api
from core.api.status import is_stale
from core.errors import InvalidInputError
from core.launch.denials.denial import revision_of
from core.model.node_pool import NodePool

KEPT_FOR: Final = timedelta(minutes=1)
"""How long this sandbox's own resolution of a class is used; `reconcile` writes it into the status after a round or two."""

_STALE: Final = "the spec has changed since it was resolved"

Resolve = Callable[[JsonObject, Sequence[NodePool]], JsonObject]
"""Returns the status of a class with these NodePools (`CloudProvider.resolve`)."""


class CurrentNodeClasses:
    """Resolves edited classes itself if it may, and treats the others as not ready.

    Args:
        resolve: Looks up the status of a class and raises PortError; None for functions that may not.
    """

    def __init__(self, resolve: Resolve | None = None) -> None:
        self._resolve = resolve
        self._known: dict[tuple[str, str], tuple[datetime, JsonObject]] = {}

    @property
    def resolves(self) -> bool:
        """Whether edited classes are resolved here."""
        return self._resolve is not None

    def all(
        self, manifests: Iterable[JsonObject], now: datetime, node_pools: Sequence[JsonObject] = ()
    ) -> tuple[JsonObject, ...]:
        """Return the classes, each with a status of its current spec, or not ready; `node_pools` are those of the cluster."""
        return tuple(
            self._current(manifest, now, node_pools) if is_stale(manifest) else manifest for manifest in manifests
        )

    def _current(self, manifest: JsonObject, now: datetime, node_pools: Sequence[JsonObject]) -> JsonObject:
        key = (str(manifest["metadata"].get("name", "")), revision_of(manifest))
        known = self._known.get(key)
        if known is not None and now < known[0] + KEPT_FOR:
            return {**manifest, "status": known[1]}
        try:
            pools = _pools_of(key[0], node_pools)
            status = self._resolve(manifest, pools) if self._resolve is not None else _not_ready()
        except PortError:
            return {**manifest, "status": _not_ready()}
        self._known[key] = now, status
        return {**manifest, "status": status}


CURRENT_ONLY: Final = CurrentNodeClasses()
"""For functions that do not resolve classes."""


def _pools_of(node_class: str, manifests: Iterable[JsonObject]) -> list[NodePool]:
    """Return the NodePools of a class, without unreadable ones, which launch nothing."""
    found = []
    for manifest in manifests:
        with suppress(InvalidInputError):
            found.append(api.node_pool(manifest))
    return [pool for pool in found if pool.node_class.name == node_class]


def _not_ready() -> JsonObject:
    return {"conditions": [{"type": "Ready", "status": "False", "reason": "Stale", "message": _STALE}]}
