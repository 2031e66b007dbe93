"""NodePool and EC2NodeClass in the form that decisions read; `core.api` has the users' form and its validation."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from core import labels
from core.model.plan import ObjectRef
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint

WHEN_EMPTY: Final = "WhenEmpty"
WHEN_EMPTY_OR_UNDERUTILIZED: Final = "WhenEmptyOrUnderutilized"
BALANCED: Final = "Balanced"


PER_MILLE: Final = 1000
"""The neutral price factor."""


class Budget(msgspec.Struct, frozen=True, order=True):
    """How many nodes of the pool may go at once.

    Attributes:
        nodes: A number or a percentage, as written.
        reasons: Which reasons it limits; None for all, empty for none.
        schedule, duration: When it is in force; without them always. Cron in UTC.
    """

    nodes: str
    reasons: tuple[str, ...] | None = None
    schedule: str | None = None
    duration: timedelta | None = None


class Disruption(msgspec.Struct, frozen=True, kw_only=True):
    """The disruption policy. `consolidate_after` None means Never."""

    policy: str = WHEN_EMPTY_OR_UNDERUTILIZED
    consolidate_after: timedelta | None = timedelta(0)
    budgets: tuple[Budget, ...] = (Budget("10%"),)


class NodePool(msgspec.Struct, frozen=True, kw_only=True):
    """A pool of nodes and its rules.

    Attributes:
        labels, annotations, taints, startup_taints, requirements: The template's.
        limits: Upper bounds on the pool's capacity; `nodes` counts claims.
        replicas: Set for a static pool.
        is_ready: Condition Ready; None if the status does not state it, which the CLI treats as ready.
        own_annotations: The pool's own annotations, hashes among them.
        price_factors: Instance family → factor on its price in decisions, in thousandths; other families have the factor one.
        largest_node: CPU and memory of the largest node; only a pod that needs more may exceed them.
        evictions_per_hour: How many of its pods consolidation and drift may evict in any hour, None for any number.
        expires_forcefully: Whether its nodes go at their expireAfter regardless of budgets and pods.
        problem: Why it is invalid (a message naming the field), empty for a valid pool. The nodes of an invalid pool are not
            disrupted.
    """

    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    node_class: ObjectRef = ObjectRef("", "", "")
    expire_after: timedelta | None = None
    termination_grace_period: timedelta | None = None
    limits: dict[str, int] = {}
    weight: int = 0
    replicas: int | None = None
    disruption: Disruption = Disruption()
    created_at: datetime | None = None
    deleted_at: datetime | None = None
    is_ready: bool | None = None
    own_annotations: dict[str, str] = {}
    price_factors: dict[str, int] = {}
    largest_node: dict[str, int] = {}
    evictions_per_hour: int | None = None
    expires_forcefully: bool = False
    template_hash: str = ""
    problem: str = ""

    @property
    def is_static(self) -> bool:
        """Whether it keeps a fixed number of nodes, regardless of pods."""
        return self.replicas is not None

    @property
    def is_observed(self) -> bool:
        """Whether its decisions are only recorded, so that nothing is launched or terminated for it."""
        return self.own_annotations.get(labels.MODE) == labels.OBSERVE


class RolloutGate(msgspec.Struct, frozen=True):
    """How many nodes of a NodePool drift may replace now, in addition to the limits of budgets.

    `allowed` nodes with pods may go; `message` says why not more, and `until` until when, if time alone ends that.
    """

    allowed: int
    message: str
    is_stopped: bool = False
    is_settling: bool = False
    until: datetime | None = None


class NodeClass(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an EC2NodeClass that decisions depend on; `core.launch` renders the whole of it.

    Attributes:
        amis: Resolved images, the preferred one first: (image id, requirements that an instance type must meet).
        subnets: (subnet id, zone).
        reservations: Ids of capacity reservations, also of those that take no instances yet or any more; None where unknown.
        reservation_begins: Id of a capacity reservation that had not begun at the last reading → when it begins.
        reservation_ends: Id of a capacity reservation → when its nodes have to leave it, or become on-demand ones.
        placement_group: Id of the group that it launches into, empty if it selects none or the group is unknown.
        addresses_per_node: How many addresses of its subnet a node takes at launch; known while a subnet has few.
        zone_ids: Zone id → zone, of the subnets.
        own_annotations: Hash annotations, for drift.
        spec_hash: Hash of the spec, for drift.
        unknown_fields: Paths of fields in its spec that this version does not know and that no annotation tells it to ignore.
    """

    name: str
    uid: str = ""
    deleted_at: datetime | None = None
    is_ready: bool | None = None
    amis: tuple[tuple[str, tuple[Requirement, ...]], ...] = ()
    security_groups: tuple[str, ...] = ()
    subnets: tuple[tuple[str, str], ...] = ()
    reservations: tuple[str, ...] | None = None
    reservation_begins: dict[str, datetime] = {}
    reservation_ends: dict[str, datetime] = {}
    placement_group: str = ""
    addresses_per_node: int = 1
    zone_ids: dict[str, str] = {}
    own_annotations: dict[str, str] = {}
    spec_hash: str = ""
    unknown_fields: tuple[str, ...] = ()
    problem: str = ""
