"""Instance types of a NodePool, at the prices that its decisions use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from core import labels
from core.identity_cache import ByIdentity
from core.model.catalogue import InstanceType
from core.model.node_pool import PER_MILLE, NodePool
from core.model.overlay import NodeOverlay
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirements
from core.pools.overlays import agreeing, overlaid
from core.pools.pool_template import template_requirements

SNAPSHOTS_REMEMBERED: Final = 4
POOLS_REMEMBERED: Final = 16
TYPES_REMEMBERED: Final = 2_000


class PoolTypes:
    """The types that each NodePool of a snapshot may launch: the catalogue after feature gates, NodeOverlays and price changes.

    Launches and disruption use it too, so a node has the same price when it is launched and when it is replaced.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._keys = snapshot.catalogue.label_keys()
        self._pools = {pool.name: pool for pool in snapshot.node_pools}
        self._known: dict[str, tuple[InstanceType, ...]] = {}
        self._by_name: dict[tuple[str, str], dict[str, InstanceType]] = {}
        self._classes: dict[str, tuple[InstanceType, ...]] = {}
        self._agreeing: tuple[NodeOverlay, ...] | None = None

    def of(self, pool: str, node_class: str = "") -> tuple[InstanceType, ...]:
        """Return the types of a NodePool by name; if it is gone or has another EC2NodeClass, the catalogue's for that class."""
        known = self._pools.get(pool)
        if known is None or (node_class and known.node_class.name != node_class):
            return self._of_class(node_class)
        if pool not in self._known:
            self._known[pool] = self._compute(self._pools[pool])
        return self._known[pool]

    def by_name(self, pool: str, node_class: str = "") -> Mapping[str, InstanceType]:
        """Return the types of `of`, by name."""
        known = self._by_name.get((pool, node_class))
        if known is None:
            known = self._by_name[pool, node_class] = {one.name: one for one in self.of(pool, node_class)}
        return known

    def _compute(self, pool: NodePool) -> tuple[InstanceType, ...]:
        types = self._bare(pool)
        if self._snapshot.options.feature_gates.node_overlay:
            types = _overlaid_for(self._overlays(), template_requirements(pool), self._keys).of(types)
        surcharge, factors = self._snapshot.options.dedicated_ppm, pool.price_factors
        if surcharge:
            from core.pools.dedicated import is_dedicated, surcharged  # most installations have no such terms

            types = tuple(surcharged(one, surcharge) for one in types) if is_dedicated(pool) else types
        if not factors:
            return types
        return tuple(_weighed(one, factors.get(one.name.partition(".")[0], PER_MILLE)) for one in types)

    def _bare(self, pool: NodePool) -> tuple[InstanceType, ...]:
        return self._of_class(pool.node_class.name)

    def _of_class(self, node_class: str) -> tuple[InstanceType, ...]:
        types = self._snapshot.catalogue.types_for(node_class)
        if self._snapshot.options.feature_gates.reserved_capacity:
            return types
        if node_class not in self._classes:
            self._classes[node_class] = tuple(_unreserved(one) for one in types)
        return self._classes[node_class]

    def _overlays(self) -> tuple[NodeOverlay, ...]:
        """The effective overlays, determined over all NodePools together."""
        if self._agreeing is None:
            pools = self._snapshot.node_pools
            offers = ((self._bare(pool), template_requirements(pool)) for pool in pools)
            self._agreeing = agreeing(self._snapshot.overlays, offers, self._keys)
        return self._agreeing


class _Overlaid:
    """Types under NodeOverlays for one NodePool, each computed once and cached across snapshots.

    A catalogue with thousands of offerings takes a third of a second.
    """

    def __init__(self, overlays: tuple[NodeOverlay, ...], template: Requirements, keys: frozenset[str]) -> None:
        self.subject = overlays, template, keys
        self._one = ByIdentity(self._compute, size=TYPES_REMEMBERED)

    def of(self, types: Iterable[InstanceType]) -> tuple[InstanceType, ...]:
        """The types with the overlays that apply to the NodePool."""
        return tuple(map(self._one, types))

    def _compute(self, one: InstanceType) -> InstanceType:
        return overlaid((one,), *self.subject)[0]


_overlaid: list[_Overlaid] = []


def _overlaid_for(overlays: tuple[NodeOverlay, ...], template: Requirements, keys: frozenset[str]) -> _Overlaid:
    subject = overlays, template, keys
    found = next((known for known in _overlaid if known.subject == subject), None)
    if found is None:
        found = _Overlaid(*subject)
        _overlaid.insert(0, found)
        del _overlaid[POOLS_REMEMBERED:]
    return found


pool_types: Final = ByIdentity(PoolTypes, size=SNAPSHOTS_REMEMBERED)
"""The types of a snapshot's NodePools."""


def _weighed(instance_type: InstanceType, factor: int) -> InstanceType:
    if factor == PER_MILLE:
        return instance_type
    offerings = tuple(msgspec.structs.replace(o, price=o.price * factor // PER_MILLE) for o in instance_type.offerings)
    return msgspec.structs.replace(instance_type, offerings=offerings)


def _unreserved(instance_type: InstanceType) -> InstanceType:
    kept = tuple(o for o in instance_type.offerings if o.capacity_type != labels.RESERVED)
    return (
        msgspec.structs.replace(instance_type, offerings=kept)
        if len(kept) < len(instance_type.offerings)
        else instance_type
    )
