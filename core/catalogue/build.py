"""Builds the catalogue from shapes, market and node classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from core import labels
from core.catalogue.capacity import attach_limit, capacity
from core.catalogue.discovered.placement_group import group_labels
from core.catalogue.market import Market
from core.catalogue.node_class import read_node_class
from core.catalogue.overhead import overhead
from core.catalogue.shape import Shape
from core.catalogue.sizing import Sizing, sizing_of
from core.catalogue.type_labels import type_labels
from core.errors import InvalidInputError
from core.model.catalogue import Catalogue, InstanceType, Offering
from core.model.values.sizing_settings import SizingSettings

SIZINGS_KEPT: Final = 16
DEFAULTS: Final = SizingSettings()
BY_DEFAULT: Final = Sizing()


class CatalogueBuilder:
    """Builds catalogues from one market and caches them: most changes of a class change no size."""

    def __init__(self, shapes: Iterable[Shape], market: Market, settings: SizingSettings = DEFAULTS) -> None:
        self._shapes = sorted(shapes, key=lambda shape: shape.instance_type)
        self._market = market
        self._settings = settings
        self._built: dict[Sizing, tuple[InstanceType, ...]] = {}

    def catalogue(self, node_classes: Sequence[Mapping[str, Any]]) -> Catalogue:
        """Return default types, and types as each EC2NodeClass manifest shapes them.

        An unreadable class gets no types, so nothing is launched for it; validation reports what is wrong. Classes that size
        nodes alike share one tuple.
        """
        default = Sizing(settings=self._settings)
        by_class = {_name(manifest): self._sizing(manifest) for manifest in node_classes}
        wanted = dict.fromkeys((default, *(sizing for sizing in by_class.values() if sizing is not None)))
        built = {sizing: self._types(sizing) for sizing in wanted}
        others = [(sizing, types) for sizing, types in self._built.items() if sizing not in built]
        self._built = {**built, **dict(others[:SIZINGS_KEPT])}
        types = {name: () if sizing is None else built[sizing] for name, sizing in sorted(by_class.items())}
        return Catalogue(built[default], types)

    def _types(self, sizing: Sizing) -> tuple[InstanceType, ...]:
        known = self._built.get(sizing)
        if known is not None:
            return known
        if not sizing.discovered:
            return instance_types(self._shapes, self._market, sizing)
        return self._as_discovered(sizing)

    def _as_discovered(self, sizing: Sizing) -> tuple[InstanceType, ...]:
        """Return the types of a sizing with discovered memory; types without it are shared with the plain sizing."""
        plain = msgspec.structs.replace(sizing, discovered=())
        self._built[plain] = estimated = self._types(plain)
        shown = {name for name, _ in sizing.discovered}
        seen = instance_types((s for s in self._shapes if s.instance_type in shown), self._market, sizing)
        by_name = {found.name: found for found in seen}
        return tuple(by_name.get(found.name, found) for found in estimated)

    def _sizing(self, manifest: Mapping[str, Any]) -> Sizing | None:
        try:
            return sizing_of(read_node_class(manifest), self._settings)
        except InvalidInputError:
            return None


def build_catalogue(
    shapes: Iterable[Shape],
    market: Market,
    node_classes: Sequence[Mapping[str, Any]] = (),
    settings: SizingSettings = DEFAULTS,
) -> Catalogue:
    """The catalogue of a region for these EC2NodeClass manifests, built once."""
    return CatalogueBuilder(shapes, market, settings).catalogue(node_classes)


def instance_types(shapes: Iterable[Shape], market: Market, sizing: Sizing = BY_DEFAULT) -> tuple[InstanceType, ...]:
    """Return the types that can run nodes and are sold in the region, by name."""
    kept = (s for s in shapes if s.can_run_nodes and market.offered.get(s.instance_type))
    return tuple(_instance_type(shape, market, sizing) for shape in sorted(kept, key=lambda s: s.instance_type))


def is_compatible(shape: Shape, sizing: Sizing) -> bool:
    """Whether the class's settings work on this type at all (Karpenter, NodeClass compatibility)."""
    if not sizing.family.boots(shape.instance_type, shape.architecture):
        return False
    if sizing.needs_nitro and shape.hypervisor != "nitro":
        return False
    if sizing.nested_virtualization and "nested-virtualization" not in shape.processor_info.supported_features:
        return False
    group = sizing.placement_group
    if group is not None and group.strategy not in shape.placement_group_info.supported_strategies:
        return False
    return _interfaces_fit(shape, sizing)


def _name(manifest: Mapping[str, Any]) -> str:
    return str((manifest.get("metadata") or {}).get("name") or "")


def _instance_type(shape: Shape, market: Market, sizing: Sizing) -> InstanceType:
    size = capacity(shape, sizing)
    placed = {} if sizing.placement_group is None else group_labels(sizing.placement_group)
    return InstanceType(
        name=shape.instance_type,
        labels=type_labels(shape, sizing.family, market.region) | placed,
        capacity=size,
        overhead=overhead(shape, sizing, size),
        offerings=_offerings(shape, market, sizing),
        attach_limit=attach_limit(shape, sizing),
    )


def _offerings(shape: Shape, market: Market, sizing: Sizing) -> tuple[Offering, ...]:
    """Return one offering per priced zone and capacity type; unavailable if the class cannot launch it or spot is unlisted."""
    compatible, name = is_compatible(shape, sizing), shape.instance_type
    found = []
    for zone in sorted(market.offered[name]):
        available = compatible and (not sizing.zones or zone in sizing.zones)
        for capacity_type in (labels.ON_DEMAND, labels.SPOT):
            if capacity_type not in shape.supported_usage_classes:
                continue
            spot = capacity_type == labels.SPOT
            price = market.spot_price(name, zone) if spot else market.on_demand.get(name)
            if price is not None:
                is_listed = not spot or market.lists_spot(name, zone)
                found.append(Offering(name, zone, capacity_type, price, available and is_listed))
    return tuple(found)


def _interfaces_fit(shape: Shape, sizing: Sizing) -> bool:
    if not sizing.interfaces:
        return True
    network = shape.network_info
    cards = {card.network_card_index: card.maximum_network_interfaces for card in network.network_cards}
    if network.ena_support == "unsupported" or not cards:
        return False
    efa = network.efa_info.maximum_efa_interfaces if network.efa_info else 0
    fits = all(i.device_index < cards.get(i.network_card_index, 0) for i in sizing.interfaces)
    return fits and sizing.efa_only_interfaces <= efa
