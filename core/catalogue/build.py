"""Builds the catalogue from shapes, market and node classes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from core import labels
from core.ami_families.family import AmiFamily
from core.catalogue.capacity import attach_limit, capacity, interface_pods, pod_count
from core.catalogue.document import Market, NetworkInfo, Shape
from core.catalogue.kubelet import Sizing, sizing_of
from core.catalogue.node_class import read_node_class
from core.catalogue.node_memory import group_labels
from core.errors import InvalidInputError
from core.model.catalogue import Catalogue, InstanceType, Offering
from core.model.values import quantity
from core.model.values.quantity import MIB
from core.model.values.quotas import SizingSettings

# Computes the part of a node that pods cannot use: the reservations of kubelet and system, and the eviction threshold.


_CPU_BANDS: Final = ((1000, 600), (1000, 100), (2000, 50), (None, 25))
"""Width in millicores and share reserved of it in parts per ten thousand: EKS' own bootstrap formula."""

_MEMORY_PER_POD_MIB: Final = 11
_MEMORY_BASE_MIB: Final = 255
_STORAGE_RESERVED: Final = 2**30
_EVICTION_MEMORY: Final = 100 * MIB


def overhead(shape: Shape, sizing: Sizing, capacity: dict[str, int]) -> dict[str, int]:
    """Return the sum of kubeReserved, systemReserved and eviction threshold per resource, for the resources of the node."""
    total = quantity.add(
        kube_reserved(shape, sizing), dict(sizing.kubelet.system_reserved), _eviction_threshold(sizing, capacity)
    )
    return {name: amount for name, amount in sorted(total.items()) if name in capacity and amount}


def kube_reserved(shape: Shape, sizing: Sizing) -> dict[str, int]:
    """Return the kubelet's reservations; the class's own values replace the defaults name by name."""
    if sizing.family.eni_limited_memory_overhead:
        pods = interface_pods(shape, sizing, reserved_enis=0)
    else:
        pods = pod_count(shape, sizing)
    defaults = {
        quantity.CPU: cpu_reserved_millicores(shape.v_cpu_info.default_v_cpus * 1000),
        quantity.MEMORY: (_MEMORY_PER_POD_MIB * pods + _MEMORY_BASE_MIB) * MIB,
        quantity.EPHEMERAL_STORAGE: _STORAGE_RESERVED,
    }
    return defaults | dict(sizing.kubelet.kube_reserved)


def cpu_reserved_millicores(millicores: int) -> int:
    """6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest, each band rounded down."""
    reserved, remaining_cpu = 0, millicores
    for width, share in _CPU_BANDS:
        band = remaining_cpu if width is None else min(remaining_cpu, width)
        reserved += band * share // 10_000
        remaining_cpu -= band
    return reserved


def _eviction_threshold(sizing: Sizing, capacity: dict[str, int]) -> dict[str, int]:
    """The hard thresholds: 100 MiB of memory and a tenth of the storage unless set. Soft ones never count (Karpenter)."""
    memory, storage = sizing.kubelet.eviction_memory, sizing.kubelet.eviction_storage
    size = capacity[quantity.EPHEMERAL_STORAGE]
    return {
        quantity.MEMORY: _EVICTION_MEMORY if memory is None else memory.of(capacity[quantity.MEMORY]),
        quantity.EPHEMERAL_STORAGE: -(-size // 10) if storage is None else storage.of(size),
    }


# The labels that a node carries because of its instance type (`karpenter.k8s.aws/instance-*` and Kubernetes' own).


_NAME: Final = re.compile(r"(^[a-z]+)(-[0-9]+tb)?([0-9]+).*\.")
"""Category, memory size (high-memory types) and generation, parsed from the name like Karpenter does."""

_SPEED: Final = re.compile(r"(?P<burst>Up to )?(?:(?P<cards>\d+)x )?(?P<gbps>[\d.]+) Gigabit\Z")


def type_labels(shape: Shape, family: AmiFamily, region: str) -> dict[str, tuple[str, ...]]:
    """Every label but name, zone and capacity type; one that does not apply is left out."""
    single = {
        labels.ARCH: shape.architecture,
        labels.OS: _operating_system(shape, family),
        labels.WINDOWS_BUILD: family.windows_build,
        labels.REGION: region,
        **{
            f"{labels.AWS_GROUP}/instance-{suffix}": value
            for part in (_name_labels(shape), _size(shape), _bandwidth(shape), _gpu(shape), _accelerator(shape))
            for suffix, value in part.items()
        },
    }
    values: dict[str, tuple[str, ...]] = {key: (value,) for key, value in single.items() if value}
    values[f"{labels.AWS_GROUP}/instance-hypervisor"] = (shape.hypervisor,)
    values[labels.TENANCY] = ("dedicated", "default")
    return dict(sorted(values.items()))


def _operating_system(shape: Shape, family: AmiFamily) -> str:
    return family.operating_system if shape.architecture in family.architectures else ""


def _name_labels(shape: Shape) -> dict[str, str]:
    family, _, size = shape.instance_type.partition(".")
    match = _NAME.match(shape.instance_type)
    return {
        "family": family,
        "size": size,
        "category": match.group(1) if match else "",
        "generation": match.group(3) if match else "",
        "capability-flex": "true" if "-flex" in family else "false",
    }


def _size(shape: Shape) -> dict[str, str]:
    store = shape.instance_storage_info
    return {
        "cpu": str(shape.v_cpu_info.default_v_cpus),
        "cpu-manufacturer": _kebab(shape.processor_info.manufacturer),
        "cpu-sustained-clock-speed-mhz": str(round(shape.processor_info.sustained_clock_speed_in_ghz * 1000)),
        "memory": str(shape.memory_info.size_in_mib),
        "local-nvme": str(store.total_size_in_gb) if store and store.nvme_support != "unsupported" else "",
        "encryption-in-transit-supported": str(shape.network_info.encryption_in_transit_supported).lower(),
    }


def _bandwidth(shape: Shape) -> dict[str, str]:
    """Return bandwidths in Mbps; the network's is the sustained one."""
    ebs, network = shape.ebs_info, _network_mbps(shape.network_info)
    optimized = ebs.ebs_optimized_info if ebs.ebs_optimized_support == "default" else None
    return {
        "ebs-bandwidth": str(optimized.maximum_bandwidth_in_mbps) if optimized else "",
        "network-bandwidth": str(network) if network else "",
    }


def _network_mbps(network: NetworkInfo) -> int:
    """Return EC2's figure; for `Up to …` the baseline of all cards; None if EC2 gives no figure (old types)."""
    stated = _SPEED.match(network.network_performance)
    if stated is None:
        return 0
    if stated.group("burst"):
        return sum(round(card.baseline_bandwidth_in_gbps * 1000) for card in network.network_cards)
    return int(stated.group("cards") or 1) * round(float(stated.group("gbps")) * 1000)


def _gpu(shape: Shape) -> dict[str, str]:
    """Return the labels of GPUs; none if they are of several kinds."""
    gpus = shape.gpu_info.gpus if shape.gpu_info else ()
    if len(gpus) != 1:
        return {}
    (gpu,) = gpus
    return {
        "gpu-name": _kebab(gpu.name),
        "gpu-manufacturer": _kebab(gpu.manufacturer),
        "gpu-count": str(gpu.count),
        "gpu-memory": str(gpu.memory_info.size_in_mib) if gpu.memory_info else "",
    }


def _accelerator(shape: Shape) -> dict[str, str]:
    """Neuron devices where EC2 describes them, else inference accelerators; only where all are of one kind."""
    neuron = shape.neuron_info.neuron_devices if shape.neuron_info else ()
    if shape.neuron_info:
        if len(neuron) != 1:
            return {}
        return _accelerator_labels(neuron[0].name, "aws", neuron[0].count)
    inference = shape.inference_accelerator_info.accelerators if shape.inference_accelerator_info else ()
    if len(inference) != 1:
        return {}
    return _accelerator_labels(inference[0].name, inference[0].manufacturer, inference[0].count)


def _accelerator_labels(name: str, manufacturer: str, count: int) -> dict[str, str]:
    return {
        "accelerator-name": _kebab(name),
        "accelerator-manufacturer": _kebab(manufacturer),
        "accelerator-count": str(count),
    }


def _kebab(text: str) -> str:
    return text.lower().replace(" ", "-")


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
        built = self._built.get(sizing)
        if built is not None:
            return built
        if not sizing.discovered:
            return instance_types(self._shapes, self._market, sizing)
        return self._as_discovered(sizing)

    def _as_discovered(self, sizing: Sizing) -> tuple[InstanceType, ...]:
        """Return the types of a sizing with discovered memory; types without it are shared with the plain sizing."""
        plain = msgspec.structs.replace(sizing, discovered=())
        self._built[plain] = estimated = self._types(plain)
        shown = {name for name, _ in sizing.discovered}
        seen = instance_types((s for s in self._shapes if s.instance_type in shown), self._market, sizing)
        by_name = {instance_type.name: instance_type for instance_type in seen}
        return tuple(by_name.get(instance_type.name, instance_type) for instance_type in estimated)

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
    if sizing.encrypts and shape.ebs_info.encryption_support == "unsupported":
        return False
    if sizing.nested_virtualization and "nested-virtualization" not in shape.processor_info.supported_features:
        return False
    if sizing.enclaves and shape.nitro_enclaves_support != "supported":
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
    offerings = []
    for zone in sorted(market.offered[name]):
        available = compatible and (not sizing.zones or zone in sizing.zones)
        for capacity_type in (labels.ON_DEMAND, labels.SPOT):
            if capacity_type not in shape.supported_usage_classes:
                continue
            spot = capacity_type == labels.SPOT
            price = market.spot_price(name, zone) if spot else market.on_demand.get(name)
            if price is not None:
                is_listed = not spot or market.lists_spot(name, zone)
                offerings.append(Offering(name, zone, capacity_type, price, available and is_listed))
    return tuple(offerings)


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


# A region's instance types and prices as last read from AWS, from which catalogues are built.


PRICES_STALE_AFTER: Final = timedelta(hours=3)
"""Three missed hourly readings."""

SHAPES_STALE_AFTER: Final = timedelta(hours=36)
"""Three missed readings of instance types and zones."""


class StalePart(msgspec.Struct, frozen=True):
    """A part of the market that is so old that it may mislead plans.

    Attributes:
        name: The part, as condition reasons name it.
        explanation: Which part it is, and when it was last read.
    """

    name: str
    explanation: str


class MarketFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One region's shapes and market.

    Attributes:
        shapes_read_at: When types and zones were last read; AWS announces new types days apart.
        prices_read_at: When prices were last read; spot prices move within hours.
        prices_are_estimates: Whether on-demand prices could never be read, and are estimated from sizes.
        problems: What the last reading failed to read; earlier values stay in use.
        author: The cluster that read the market last; empty in readings older than this field.
    """

    shapes: tuple[Shape, ...]
    market: Market
    shapes_read_at: datetime
    prices_read_at: datetime
    prices_are_estimates: bool = False
    problems: tuple[str, ...] = ()
    author: str = ""

    def builder(self, settings: SizingSettings = DEFAULTS) -> CatalogueBuilder:
        """Builds catalogues for EC2NodeClass manifests from these facts."""
        return CatalogueBuilder(self.shapes, self.market, settings)

    def stale_parts(self, now: datetime) -> tuple[StalePart, ...]:
        """Return the parts that are so old that they may mislead plans, prices first; none if all parts are current."""
        parts = (
            ("Prices", "prices", self.prices_read_at, PRICES_STALE_AFTER),
            ("InstanceTypes", "instance types and zones", self.shapes_read_at, SHAPES_STALE_AFTER),
        )
        return tuple(
            StalePart(name, f"{what} were last read at {read_at:%Y-%m-%d %H:%M} UTC")
            for name, what, read_at, limit in parts
            if now - read_at >= limit
        )
