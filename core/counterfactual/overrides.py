"""Other NodePools, budgets and prices in recorded snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TypeVar

import msgspec

from core import labels
from core.labels import HASH_VERSION
from core.model.catalogue import Catalogue
from core.model.node_pool import NodePool
from core.model.snapshot import NodeOverlay, PodDisruptionBudget, Snapshot

T = TypeVar("T")


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """Objects that replace the recorded ones of the same name, or are added.

    Attributes:
        catalogue: Other types and prices; None: as recorded.
    """

    node_pools: tuple[NodePool, ...] = ()
    overlays: tuple[NodeOverlay, ...] = ()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    catalogue: Catalogue | None = None

    def applied_to(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the overrides."""
        return msgspec.structs.replace(
            snapshot,
            node_pools=_replaced(snapshot.node_pools, map(_as_live, self.node_pools), lambda pool: pool.name),
            overlays=_replaced(snapshot.overlays, self.overlays, lambda overlay: overlay.name),
            budgets=_replaced(snapshot.budgets, self.budgets, lambda budget: f"{budget.namespace}/{budget.name}"),
            catalogue=snapshot.catalogue if self.catalogue is None else self.catalogue,
        )


def _replaced(recorded: Iterable[T], overrides: Iterable[T], name: Callable[[T], str]) -> tuple[T, ...]:
    by_key = {name(obj): obj for obj in recorded} | {name(obj): obj for obj in overrides}
    return tuple(by_key[key] for key in sorted(by_key))


def _as_live(pool: NodePool) -> NodePool:
    """Return the pool with its template hash, so that nodes of the recorded pool drift if the template differs."""
    hashes = {labels.NODEPOOL_HASH: pool.template_hash, labels.NODEPOOL_HASH_VERSION: HASH_VERSION}
    stamped = {**pool.own_annotations, **(hashes if pool.template_hash else {})}
    return msgspec.structs.replace(pool, own_annotations=stamped, is_ready=True)


# The proven minimum cost of a fleet, beside its cost.


class ProvenMinimum(msgspec.Struct, frozen=True, kw_only=True):
    """The proven minimum of a fleet, over the part of a period for which one is proven.

    Attributes:
        cost: Nano-dollars that any fleet for the pods must have cost.
        spent: Nano-dollars that the fleet cost in the same time.
        over: The length of that time.
    """

    cost: int
    spent: int
    over: timedelta
