"""An EC2NodeClass (`karpenter.k8s.aws/v1`) for sizing and launching, with the CRD's defaults.

`core.api` validates for users. Here a field of the wrong type raises an error that names it, and unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from core import labels
from core.ami_families.family import AmiFamily
from core.ami_families.registry import family_of
from core.errors import InvalidInputError

RAID0: Final = "RAID0"
EFA_ONLY: Final = "efa-only"
DEFAULT_RESERVATION: Final = "default"
CAPACITY_BLOCK: Final = "capacity-block"
ACTIVE: Final = "active"
EXPIRING: Final = "expiring"
SCHEDULED: Final = "scheduled"
UNPAID: Final = "payment-pending"
DELAYED: Final = "delayed"
UPCOMING: Final = (SCHEDULED, UNPAID, DELAYED)
"""EC2's states of capacity reservations that have not begun and still may."""


class _Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Common form: camelCase on the wire, unknown fields ignored."""


class SelectorTerm(_Wire, frozen=True, kw_only=True):
    """One term of a selector; which fields apply depends on what it selects."""

    tags: dict[str, str] = {}
    id: str = ""
    name: str = ""
    owner: str = ""
    alias: str = ""
    ssm_parameter: str = ""


class ReservationTerm(_Wire, frozen=True, kw_only=True):
    """One term of `capacityReservationSelectorTerms`."""

    tags: dict[str, str] = {}
    id: str = ""
    owner_id: str = msgspec.field(name="ownerID", default="")
    instance_match_criteria: str = ""


class Ebs(_Wire, frozen=True, kw_only=True):
    """`blockDeviceMappings[].ebs`."""

    delete_on_termination: bool | None = None
    encrypted: bool | None = None
    iops: int = 0
    kms_key_id: str = msgspec.field(name="kmsKeyID", default="")
    snapshot_id: str = msgspec.field(name="snapshotID", default="")
    throughput: int = 0
    volume_initialization_rate: int = 0
    volume_size: str | int | None = None
    volume_type: str = ""


class BlockDevice(_Wire, frozen=True, kw_only=True):
    """One entry of `blockDeviceMappings`."""

    device_name: str = ""
    root_volume: bool = False
    ebs: Ebs | None = None


class NetworkInterface(_Wire, frozen=True, kw_only=True):
    """One entry of `networkInterfaces`."""

    network_card_index: int = 0
    device_index: int = 0
    interface_type: str = "interface"


class MetadataOptions(_Wire, frozen=True, kw_only=True):
    """`metadataOptions` with the CRD's defaults, field by field."""

    http_endpoint: str = "enabled"
    http_protocol_ipv6: str = msgspec.field(name="httpProtocolIPv6", default="disabled")
    http_put_response_hop_limit: int = 1
    http_tokens: str = "required"


class ConnectionTracking(_Wire, frozen=True, kw_only=True):
    """`connectionTracking`, in seconds; zero: not set."""

    tcp_established_timeout: int = 0
    udp_stream_timeout: int = 0
    udp_timeout: int = 0


class CpuOptions(_Wire, frozen=True, kw_only=True):
    """`cpuOptions`."""

    nested_virtualization: str = ""


class EnclaveOptions(_Wire, frozen=True, kw_only=True):
    """`enclaveOptions`: whether nodes have Nitro Enclaves."""

    enabled: bool = False


class PlacementGroupSelector(_Wire, frozen=True, kw_only=True):
    """`placementGroupSelector`: exactly one of the two fields is set."""

    name: str = ""
    id: str = ""


class PlacementGroup(_Wire, frozen=True, kw_only=True):
    """The placement group to which the selector resolves.

    Attributes:
        strategy: `cluster`, `spread` or `partition`.
        partitions: How many a group of strategy `partition` has.
    """

    id: str
    name: str = ""
    strategy: str = ""
    partitions: int = 0


class NodeClassSpec(_Wire, frozen=True, kw_only=True):
    """`spec`. `kubelet` is an untyped mapping: AL2023 passes all of it through."""

    subnet_selector_terms: tuple[SelectorTerm, ...] = ()
    security_group_selector_terms: tuple[SelectorTerm, ...] = ()
    ami_selector_terms: tuple[SelectorTerm, ...] = ()
    capacity_reservation_selector_terms: tuple[ReservationTerm, ...] = ()
    ami_family: str = ""
    associate_public_ip_address: bool | None = msgspec.field(name="associatePublicIPAddress", default=None)
    ip_prefix_count: int = 0
    user_data: str = ""
    role: str = ""
    instance_profile: str = ""
    tags: dict[str, str] = {}
    kubelet: dict[str, Any] = {}
    block_device_mappings: tuple[BlockDevice, ...] = ()
    instance_store_policy: str = ""
    network_interfaces: tuple[NetworkInterface, ...] = ()
    detailed_monitoring: bool = False
    metadata_options: MetadataOptions = MetadataOptions()
    connection_tracking: ConnectionTracking | None = None
    context: str = ""
    cpu_options: CpuOptions | None = None
    enclave_options: EnclaveOptions | None = None
    placement_group_selector: PlacementGroupSelector | None = None

    @property
    def has_enclaves(self) -> bool:
        """Whether its nodes are launched with Nitro Enclaves."""
        return self.enclave_options is not None and self.enclave_options.enabled

    @property
    def efa_only_interfaces(self) -> int:
        """How many of its network interfaces carry EFA traffic only."""
        return sum(interface.interface_type == EFA_ONLY for interface in self.network_interfaces)


class AmiRequirement(_Wire, frozen=True, kw_only=True):
    """A requirement that an AMI puts on instance types, as written in the status."""

    key: str
    operator: str = "In"
    values: tuple[str, ...] = ()


class Ami(_Wire, frozen=True, kw_only=True):
    """One entry of `status.amis`."""

    id: str
    name: str = ""
    requirements: tuple[AmiRequirement, ...] = ()


class Subnet(_Wire, frozen=True, kw_only=True):
    """One entry of `status.subnets`."""

    id: str
    zone: str
    zone_id: str = msgspec.field(name="zoneID", default="")


class SecurityGroup(_Wire, frozen=True, kw_only=True):
    """One entry of `status.securityGroups`."""

    id: str
    name: str = ""


class CapacityReservation(_Wire, frozen=True, kw_only=True):
    """One entry of `status.capacityReservations`, or of those that have not begun.

    Attributes:
        state: `active`, or `expiring` for a capacity block near its end, into which nothing is launched. EC2's state for one
            that has not begun (`core.catalogue.reservations`).
        start_time: When it begins, empty if it has.
        places: The most instances of this cluster that it can hold, including those that it holds. It comes from an annotation
            (`labels.RESERVATION_PLACES`), not the status. None: unknown.
    """

    id: str
    instance_type: str = ""
    availability_zone: str = ""
    owner_id: str = msgspec.field(name="ownerID", default="")
    instance_match_criteria: str = ""
    reservation_type: str = DEFAULT_RESERVATION
    interruptible: bool = False
    state: str = ACTIVE
    start_time: str = ""
    end_time: str = ""
    places: int | None = None


class AddressReading(_Wire, frozen=True, kw_only=True):
    """The subnets of the class that had few free addresses (`core.catalogue.free_addresses`).

    Attributes:
        read_at: When EC2 was asked.
        per_node: How many addresses of its subnet a node takes at launch.
        free: Subnet id → its free addresses; a subnet with plenty is missing.
    """

    read_at: Annotated[datetime, msgspec.Meta(tz=True)]
    per_node: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)] = 1
    free: dict[str, Annotated[int, msgspec.Meta(ge=0, le=1 << 32)]] = {}


class NodeClassStatus(_Wire, frozen=True, kw_only=True):
    """`status`: the resolved parts of the class.

    Attributes:
        placement_group: It comes from an annotation (`labels.PLACEMENT_GROUP`), not the status.
        subnet_addresses: The same (`labels.SUBNET_ADDRESSES`).
    """

    subnets: tuple[Subnet, ...] = ()
    security_groups: tuple[SecurityGroup, ...] = ()
    amis: tuple[Ami, ...] = ()
    capacity_reservations: tuple[CapacityReservation, ...] = ()
    instance_profile: str = ""
    placement_group: PlacementGroup | None = None
    subnet_addresses: AddressReading | None = None


class Metadata(_Wire, frozen=True, kw_only=True):
    """`metadata`."""

    name: str = ""
    uid: str = ""
    annotations: dict[str, str] = {}


class EC2NodeClass(_Wire, frozen=True, kw_only=True):
    """The whole object."""

    metadata: Metadata = Metadata()
    spec: NodeClassSpec = NodeClassSpec()
    status: NodeClassStatus = NodeClassStatus()

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    @property
    def family(self) -> AmiFamily:
        """`spec.amiFamily`, else the alias' family, else Custom; one that is unknown counts as Custom."""
        return family_of(self.spec.ami_family, self.alias)

    @property
    def delegates_prefixes(self) -> bool:
        """Whether the VPC CNI gives its nodes prefixes of addresses, by the annotation `labels.PREFIX_DELEGATION`."""
        return self.metadata.annotations.get(labels.PREFIX_DELEGATION) == "true"

    @property
    def alias(self) -> str:
        """The alias that selects its images, such as `al2023@latest`; empty without one."""
        return next((term.alias for term in self.spec.ami_selector_terms if term.alias), "")

    @property
    def zones(self) -> tuple[str, ...]:
        """Zones of its resolved subnets, in order; empty if none is resolved yet."""
        return tuple(sorted({subnet.zone for subnet in self.status.subnets}))


def without_path(role: str) -> str:
    """Return the name of a role, which a class may write with its path: `Nodes` of `team/Nodes`. Calls of IAM refuse paths."""
    return role.rpartition("/")[2]


def has_address_reading(manifest: Mapping[str, Any]) -> bool:
    """Whether a manifest says that a subnet had few addresses."""
    written, status = (manifest.get("metadata") or {}).get("annotations") or {}, manifest.get("status")
    return labels.SUBNET_ADDRESSES in written or (isinstance(status, Mapping) and "subnetAddresses" in status)


def read_node_class(manifest: Mapping[str, Any]) -> EC2NodeClass:
    """Read an EC2NodeClass manifest of version v1.

    Raises:
        InvalidInputError: If a field has the wrong type.
    """
    name = str((manifest.get("metadata") or {}).get("name") or "?")
    kept = {key: _without_nulls(manifest.get(key) or {}) for key in ("metadata", "spec", "status")}
    try:
        return msgspec.convert(kept, EC2NodeClass)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$.")
        raise InvalidInputError(problem, subject=f"EC2NodeClass {name}", field=where.rstrip("`")) from error


def _without_nulls(value: Any) -> Any:
    """Remove nulls: to the API server, a null field is not set."""
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value
