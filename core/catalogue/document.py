"""The catalogue as a JSON document, the format of `--catalog` and of storage; optionally gzipped."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from typing import Annotated, Any, Final, TypeVar

import msgspec

from core import labels
from core.errors import InvalidInputError
from core.model.catalogue import Catalogue, InstanceType, Offering
from core.model.values import quantity
from core.model.values.quotas import CODES

_GZIP: Final = b"\x1f\x8b"
DECOMPRESSED_MAX: Final = 256 << 20
"""The most bytes of a document; the largest region's has 8 MB."""
_OWN_KEYS: Final = (labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE)
_Part = TypeVar("_Part", bound=msgspec.Struct)
_PLACE: Final = re.compile(r"(?P<problem>.*?) - at `\$\.?(?P<path>[^`]*)`\Z", re.DOTALL)


class _Offering(msgspec.Struct, rename="camel"):
    zone: str
    capacity_type: str
    price: Decimal
    available: bool = True
    reservation_id: str = ""
    reservation_capacity: int = 0
    reservation_type: str = ""
    interruptible: bool = False


class _InstanceType(msgspec.Struct, rename="camel"):
    name: str
    capacity: dict[str, str | int | float]
    requirements: dict[str, list[str]] = {}
    overhead: dict[str, str | int | float] = {}
    offerings: list[_Offering] = []
    attach_limit: int | None = None


class _Document(msgspec.Struct, rename="camel"):
    instance_types: list[_InstanceType]
    node_classes: dict[str, list[_InstanceType]] = {}


class _Quotas(msgspec.Struct, rename="camel"):
    vcpu_quotas: dict[str, Annotated[int, msgspec.Meta(ge=0)]] = {}


class CatalogueOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """The region of a catalogue and the day of its prices; both may be empty."""

    region: str = ""
    date: str = ""


def origin(raw: bytes) -> CatalogueOrigin:
    """Return the document's origin.

    Raises:
        InvalidInputError: If it cannot be read.
    """
    return _part(raw, CatalogueOrigin)


def vcpu_quotas(raw: bytes) -> dict[str, int]:
    """Return the document's `vcpuQuotas`: quota code → vCPUs that a cluster may run; empty where it has none.

    Raises:
        InvalidInputError: If it cannot be read, or names a code that is not a vCPU quota of EC2.
    """
    quotas = _part(raw, _Quotas).vcpu_quotas
    for code in sorted(quotas):
        if code not in CODES:
            problem = f"{code!r} is not a vCPU quota of EC2, use one of {', '.join(sorted(CODES))}"
            raise InvalidInputError(problem, subject="catalogue", field="vcpuQuotas")
    return quotas


def _part(raw: bytes, part: type[_Part]) -> _Part:
    try:
        return msgspec.json.decode(_unpacked(raw), type=part)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"cannot be read: {error}", subject="catalogue") from error


def decode(raw: bytes) -> Catalogue:
    """Read a catalogue.

    Raises:
        InvalidInputError: If it is not a catalogue, or has an invalid quantity or price; the error names the type and the
            field.
    """
    try:
        document = msgspec.json.decode(_unpacked(raw), type=_Document)
    except msgspec.ValidationError as error:
        match = _PLACE.match(str(error))
        problem, field = (match["problem"], match["path"]) if match else (str(error), "")
        raise InvalidInputError(problem, subject="catalogue", field=field) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"is not JSON: {error}", subject="catalogue") from error
    return Catalogue(
        default=_types(document.instance_types),
        by_node_class={name: _types(class_types) for name, class_types in sorted(document.node_classes.items())},
    )


def encode(
    catalogue: Catalogue, origin: CatalogueOrigin | None = None, quotas: Mapping[str, int] | None = None
) -> bytes:
    """Write a catalogue, with its origin and quotas if given; `decode` is the inverse."""
    document: dict[str, Any] = {"instanceTypes": [_written(instance_type) for instance_type in catalogue.default]}
    document |= msgspec.structs.asdict(origin) if origin is not None else {}
    if quotas:
        document["vcpuQuotas"] = dict(quotas)
    if catalogue.by_node_class:
        document["nodeClasses"] = {
            name: [_written(instance_type) for instance_type in types]
            for name, types in catalogue.by_node_class.items()
        }
    return msgspec.json.encode(document, order="sorted")


def _unpacked(raw: bytes) -> bytes:
    """Decompress a gzipped document; return others unchanged. Raises InvalidInputError."""
    if not raw.startswith(_GZIP):
        return raw
    from core.decompression import of_gzip  # a plan with plain documents does not need it

    return of_gzip(raw, at_most=DECOMPRESSED_MAX, subject="catalogue")


def _types(written: Iterable[_InstanceType]) -> tuple[InstanceType, ...]:
    by_name: dict[str, InstanceType] = {}
    for entry in written:
        subject = f"instance type {entry.name}"
        if entry.name in by_name:
            raise InvalidInputError("is listed twice", subject=subject)
        try:
            by_name[entry.name] = _type(entry)
        except InvalidInputError as error:
            raise error.within(subject=subject) from error
    return tuple(by_name.values())


def _type(entry: _InstanceType) -> InstanceType:
    return InstanceType(
        name=entry.name,
        labels={
            labels.normalized(key): tuple(values)
            for key, values in sorted(entry.requirements.items())
            if key not in _OWN_KEYS
        },
        capacity=quantity.parse_resources(entry.capacity, field="capacity"),
        overhead=quantity.parse_resources(entry.overhead, field="overhead"),
        offerings=tuple(
            _offering(offering, entry.name, field=f"offerings[{i}]") for i, offering in enumerate(entry.offerings)
        ),
        attach_limit=entry.attach_limit,
    )


def _offering(entry: _Offering, instance_type: str, *, field: str) -> Offering:
    if not entry.price.is_finite() or entry.price < 0:
        raise InvalidInputError(f"{entry.price} is not a price", field=f"{field}.price")
    if entry.capacity_type not in labels.CAPACITY_TYPES:
        allowed = ", ".join(labels.CAPACITY_TYPES)
        problem = f"unknown capacity type {entry.capacity_type!r}, use one of {allowed}"
        raise InvalidInputError(problem, field=f"{field}.capacityType")
    return Offering(
        instance_type=instance_type,
        zone=entry.zone,
        capacity_type=entry.capacity_type,
        price=quantity.nanodollars(str(entry.price)),
        available=entry.available,
        reservation_id=entry.reservation_id,
        reservation_capacity=entry.reservation_capacity,
        reservation_type=entry.reservation_type,
        interruptible=entry.interruptible,
    )


def _written(instance_type: InstanceType) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": instance_type.name,
        "requirements": {key: list(values) for key, values in instance_type.labels.items()},
        "capacity": quantity.render_resources(instance_type.capacity),
        "overhead": quantity.render_resources(instance_type.overhead),
        "offerings": [_written_offering(offering) for offering in instance_type.offerings],
    }
    if instance_type.attach_limit is not None:
        entry["attachLimit"] = instance_type.attach_limit
    return entry


def _written_offering(offering: Offering) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "zone": offering.zone,
        "capacityType": offering.capacity_type,
        "price": quantity.dollars(offering.price),
        "available": offering.available,
    }
    if offering.reservation_id:
        entry |= {"reservationId": offering.reservation_id, "reservationCapacity": offering.reservation_capacity}
    if offering.reservation_type:
        entry |= {"reservationType": offering.reservation_type, "interruptible": offering.interruptible}
    return entry


# The market of a region: which type is sold in which zone, and at which price.


PRICE_BAND: Final = 4
"""An on-demand price that differs by more than this factor from a list is read again before it is believed."""

SPOT_BAND: Final = 50
"""The same for a spot price and the on-demand price of its type."""


class Market(msgspec.Struct, frozen=True, kw_only=True):
    """One region's offers. Prices are nano-dollars per hour for Linux.

    Attributes:
        offered: Instance type → zones that sell it.
        on_demand: Instance type → price, the same in every zone.
        spot: Instance type → zone → price. None: no spot prices were ever read, and on-demand prices stand in for them
            (Karpenter, before its first update); a zone that is missing has no spot market.
        unlisted_spot: Instance type → zones whose spot price the last reading no longer listed. Nodes that run there
        keep their last price; nothing is launched there. zone_ids: Zone name → zone id, if known.
    """

    region: str
    offered: dict[str, tuple[str, ...]] = {}
    on_demand: dict[str, int] = {}
    spot: dict[str, dict[str, int]] | None = None
    unlisted_spot: dict[str, tuple[str, ...]] = {}
    zone_ids: dict[str, str] = {}

    def doubtful_types(self, reference_prices: Mapping[str, int]) -> tuple[str, ...]:
        """Return the types with a price that no list and no market is likely to have had, by name.

        Args:
            reference_prices: On-demand prices that are known otherwise: they change by less than `PRICE_BAND`.
        """
        names = sorted({*self.on_demand, *(self.spot or {})})
        return tuple(name for name in names if self._is_doubtful(name, reference_prices.get(name)))

    def _is_doubtful(self, name: str, reference: int | None) -> bool:
        listed = self.on_demand.get(name, reference)
        if listed is None:
            return False
        if reference is not None and not reference <= listed * PRICE_BAND <= reference * PRICE_BAND * PRICE_BAND:
            return True
        prices = (self.spot or {}).get(name, {}).values()
        return any(not listed <= price * SPOT_BAND <= listed * SPOT_BAND * SPOT_BAND for price in prices)

    def without_prices(self, names: Collection[str]) -> Market:
        """Return the market without the prices of these types."""
        spot = None if self.spot is None else {name: zones for name, zones in self.spot.items() if name not in names}
        on_demand = {name: price for name, price in self.on_demand.items() if name not in names}
        return msgspec.structs.replace(self, on_demand=on_demand, spot=spot)

    def spot_price(self, instance_type: str, zone: str) -> int | None:
        """Return the last spot price, None where spot was never sold."""
        if self.spot is None:
            return self.on_demand.get(instance_type)
        return self.spot.get(instance_type, {}).get(zone)

    def lists_spot(self, instance_type: str, zone: str) -> bool:
        """Return whether the last reading had this spot price; True also before the first."""
        return zone not in self.unlisted_spot.get(instance_type, ())


# EC2's description of an instance type (`DescribeInstanceTypes`), reduced to what we read.
#
# Field names on the wire are EC2's own, so a description decodes into a `Shape` and a `Shape` encodes into a description.


ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
"""EC2's name of an architecture to Kubernetes' name."""


class _Wire(msgspec.Struct, frozen=True, kw_only=True, rename="pascal", omit_defaults=True):
    """Base of the wire formats: unknown fields are ignored, fields at their default are omitted."""


class Processor(_Wire, frozen=True, kw_only=True):
    """`ProcessorInfo`."""

    manufacturer: str = ""
    supported_architectures: tuple[str, ...] = ()
    supported_features: tuple[str, ...] = ()
    sustained_clock_speed_in_ghz: float = 0.0


class VCpus(_Wire, frozen=True, kw_only=True):
    """`VCpuInfo`."""

    default_v_cpus: int


class MemoryInfo(_Wire, frozen=True, kw_only=True):
    """`MemoryInfo`, of a type or of one GPU."""

    size_in_mib: int = msgspec.field(name="SizeInMiB")


class NetworkCard(_Wire, frozen=True, kw_only=True):
    """One entry of `NetworkInfo.NetworkCards`."""

    network_card_index: int = 0
    maximum_network_interfaces: int = 0
    baseline_bandwidth_in_gbps: float = 0.0


class Efa(_Wire, frozen=True, kw_only=True):
    """`NetworkInfo.EfaInfo`."""

    maximum_efa_interfaces: int = 0


class NetworkInfo(_Wire, frozen=True, kw_only=True):
    """`NetworkInfo`."""

    default_network_card_index: int = 0
    maximum_network_interfaces: int = 0
    ipv4_addresses_per_interface: int = 0
    ena_support: str = ""
    encryption_in_transit_supported: bool = False
    network_performance: str = ""
    efa_info: Efa | None = None
    network_cards: tuple[NetworkCard, ...] = ()

    @property
    def default_card(self) -> NetworkCard:
        """The card that pods' addresses come from; on types with several cards only its interfaces count."""
        for card in self.network_cards:
            if card.network_card_index == self.default_network_card_index:
                return card
        return NetworkCard(maximum_network_interfaces=self.maximum_network_interfaces)


class InstanceStorage(_Wire, frozen=True, kw_only=True):
    """`InstanceStorageInfo`; sizes are decimal gigabytes."""

    total_size_in_gb: int = msgspec.field(name="TotalSizeInGB", default=0)
    nvme_support: str = "unsupported"


class EbsBandwidth(_Wire, frozen=True, kw_only=True):
    """`EbsInfo.EbsOptimizedInfo`."""

    maximum_bandwidth_in_mbps: int = 0


class EbsInfo(_Wire, frozen=True, kw_only=True):
    """`EbsInfo`. A `shared` attachment limit is shared with network interfaces. Some old types take no encrypted volumes."""

    ebs_optimized_support: str = ""
    encryption_support: str = "supported"
    ebs_optimized_info: EbsBandwidth | None = None
    attachment_limit_type: str = ""
    maximum_ebs_attachments: int = 0


class Gpu(_Wire, frozen=True, kw_only=True):
    """One entry of `GpuInfo.Gpus`; the memory is that of one GPU."""

    name: str = ""
    manufacturer: str = ""
    count: int = 0
    memory_info: MemoryInfo | None = None


class Gpus(_Wire, frozen=True, kw_only=True):
    """`GpuInfo`."""

    gpus: tuple[Gpu, ...] = ()


class Accelerator(_Wire, frozen=True, kw_only=True):
    """One entry of `InferenceAcceleratorInfo.Accelerators`."""

    name: str = ""
    manufacturer: str = ""
    count: int = 0


class Accelerators(_Wire, frozen=True, kw_only=True):
    """`InferenceAcceleratorInfo`."""

    accelerators: tuple[Accelerator, ...] = ()


class NeuronCores(_Wire, frozen=True, kw_only=True):
    """`NeuronDevices[].CoreInfo`."""

    count: int = 0


class NeuronDevice(_Wire, frozen=True, kw_only=True):
    """One entry of `NeuronInfo.NeuronDevices`."""

    name: str = ""
    count: int = 0
    core_info: NeuronCores | None = None


class Neuron(_Wire, frozen=True, kw_only=True):
    """`NeuronInfo`."""

    neuron_devices: tuple[NeuronDevice, ...] = ()


class PlacementGroupInfo(_Wire, frozen=True, kw_only=True):
    """`PlacementGroupInfo`."""

    supported_strategies: tuple[str, ...] = ()


class Shape(_Wire, frozen=True, kw_only=True):
    """One instance type as EC2 describes it."""

    instance_type: str
    processor_info: Processor
    v_cpu_info: VCpus
    memory_info: MemoryInfo
    network_info: NetworkInfo
    supported_usage_classes: tuple[str, ...] = ()
    supported_virtualization_types: tuple[str, ...] = ()
    hypervisor: str = ""
    bare_metal: bool = False
    ebs_info: EbsInfo = EbsInfo()
    instance_storage_info: InstanceStorage | None = None
    gpu_info: Gpus | None = None
    inference_accelerator_info: Accelerators | None = None
    neuron_info: Neuron | None = None
    nitro_enclaves_support: str = ""
    placement_group_info: PlacementGroupInfo = PlacementGroupInfo()

    @property
    def architecture(self) -> str:
        """The first architecture that Kubernetes has a name for, or empty (macOS types)."""
        supported = (ARCHITECTURES.get(name, "") for name in self.processor_info.supported_architectures)
        return next((name for name in supported if name), "")

    @property
    def can_run_nodes(self) -> bool:
        """Whether it can run EKS nodes: hardware virtualisation, amd64 or arm64 (Karpenter's filter)."""
        return bool(self.architecture) and "hvm" in self.supported_virtualization_types


def read_shape(description: Mapping[str, Any]) -> Shape:
    """Trim one entry of DescribeInstanceTypes.

    Raises:
        InvalidInputError: If the description lacks a field that sizes a node.
    """
    try:
        return msgspec.convert({k: v for k, v in description.items() if v is not None}, Shape)
    except msgspec.ValidationError as error:
        raise InvalidInputError(str(error), subject=f"instance type {description.get('InstanceType', '?')}") from error


# Estimates the price of an instance type from its size, for types that no price list has.
#
# Estimates order types as EC2's own lists do, smaller before larger, and none with accelerators before one without; they are
# not prices. The rates are the least-squares line through the general, compute and memory families' list prices in us-east-1
# (m7i, c7i, r7i), within a tenth for these; every accelerator counts as the cheapest one that EC2 offers.


_NANODOLLARS_A_VCPU: Final = 39_000_000
_NANODOLLARS_A_GIB: Final = 2_900_000
_NANODOLLARS_AN_ACCELERATOR: Final = 400_000_000
_MIB_A_GIB: Final = 1024
_PERMILLE: Final = 1000
_LEVELS: Final = (("cn-", 10_000),)
"""Begin of a region's name → thousandths of the estimate: China's prices are in yuan (m5.large 1.013 in cn-north-1)."""


def estimated_prices(shapes: Iterable[Shape], listed: Mapping[str, int], *, region: str) -> dict[str, int]:
    """Return nano-dollars per hour of each type: the listed price, else an estimate scaled to the listed prices.

    Prices of regions differ by more than half: without the scale, an unlisted type would look cheap in an expensive
    region. Where none is listed the region's currency counts, which spot prices have, too.
    """
    estimates = {shape.instance_type: estimated_price(shape) for shape in shapes}
    levels = sorted(listed[name] * _PERMILLE // estimate for name, estimate in estimates.items() if name in listed)
    level = levels[len(levels) // 2] if levels else _level(region)
    return {name: listed.get(name, estimate * level // _PERMILLE) for name, estimate in estimates.items()}


def _level(region: str) -> int:
    return next((level for prefix, level in _LEVELS if region.startswith(prefix)), _PERMILLE)


def estimated_price(shape: Shape) -> int:
    """Nano-dollars per hour on demand."""
    of_size = shape.v_cpu_info.default_v_cpus * _NANODOLLARS_A_VCPU
    of_memory = shape.memory_info.size_in_mib * _NANODOLLARS_A_GIB // _MIB_A_GIB
    return of_size + of_memory + _accelerators(shape) * _NANODOLLARS_AN_ACCELERATOR


def _accelerators(shape: Shape) -> int:
    gpus = shape.gpu_info.gpus if shape.gpu_info is not None else ()
    others = shape.inference_accelerator_info.accelerators if shape.inference_accelerator_info is not None else ()
    neurons = shape.neuron_info.neuron_devices if shape.neuron_info is not None else ()
    return (
        sum(accelerator.count for accelerator in gpus)
        + sum(accelerator.count for accelerator in others)
        + sum(n.count for n in neurons)
    )
