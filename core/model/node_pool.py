"""NodePool, Calendar and EC2NodeClass in the form that decisions read; `core.api` has the users' form and its validation."""

from __future__ import annotations

from collections.abc import Mapping
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


# Calendars: what holds for a NodePool at which time. `core.calendars` says what holds at a moment.


LEAVE: Final = "Leave"
GRACE_PERIOD: Final = "TerminationGracePeriod"
FORCE: Final = "Force"


class CalendarWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A recurring window, or one that opens once, on the wall clock of its rule's zone.

    Attributes:
        schedule: Cron of its openings, empty for a window that opens once.
        start: The opening of a window that opens once: the wall clock's date and time, written as if it were UTC.
        duration: How long it stays open, by the wall clock.
    """

    schedule: str = ""
    start: datetime | None = None
    duration: timedelta


class WarmRoom(msgspec.Struct, frozen=True, kw_only=True):
    """Room that is kept free: how many pods, each with these requests.

    Attributes:
        evidence: Of a forecast, what the room is for, in a sentence.
        refill: Whether room that pods took is made again while the rule holds; without it, pods that come use the room up.
    """

    pods: int
    requests: dict[str, int] = {}
    evidence: str = ""
    refill: bool = True


class CalendarSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule sets while it holds; None leaves a setting as it is.

    Attributes:
        closed: Whether the NodePool launches nothing and empties.
        lead_time: How long before the opening the NodePool launches again, or before its windows the warm room is launched.
        pods_that_stay: What becomes of closed nodes whose pods may not be evicted: LEAVE, GRACE_PERIOD or FORCE.
        force_after: With FORCE, how long after the closing the nodes go regardless of budgets and pods.
        limits, requirements: These replace the NodePool's for the resources and labels that they name.
        budgets: They replace the NodePool's.
        keeps_occupied: Whether consolidation removes empty nodes only; forecasts alone set it.
    """

    closed: bool | None = None
    lead_time: timedelta | None = None
    pods_that_stay: str | None = None
    force_after: timedelta | None = None
    limits: dict[str, int] | None = None
    weight: int | None = None
    requirements: tuple[Requirement, ...] | None = None
    budgets: tuple[Budget, ...] | None = None
    keeps_occupied: bool | None = None
    warm: WarmRoom | None = None


class CalendarRule(msgspec.Struct, frozen=True, kw_only=True):
    """Settings, and when they hold.

    Attributes:
        name: `Calendar/rule`.
        windows: When it holds; without windows always.
        is_outside: Whether it holds outside the windows instead.
        except_dates: Dates (ISO) on whose days no window opens; a rule without windows does not hold on them.
        valid_from, valid_until: The first and the last date on which it may hold, empty for no bound.
    """

    name: str
    time_zone: str
    settings: CalendarSettings
    windows: tuple[CalendarWindow, ...] = ()
    is_outside: bool = False
    except_dates: tuple[str, ...] = ()
    valid_from: str = ""
    valid_until: str = ""


DAY: Final = "Day"
MONTH: Final = "Month"
TELL: Final = "Tell"
HOLD_BACK: Final = "HoldBack"
NO_ON_DEMAND_FALLBACK: Final = "NoOnDemandFallback"


class CapAction(msgspec.Struct, frozen=True, kw_only=True):
    """What happens from a percentage of a period's amount on, by the forecast of its end."""

    percent: int
    do: tuple[str, ...]


class Cap(msgspec.Struct, frozen=True, kw_only=True):
    """The most that nodes for some pods may take at a time (`core.scheduling.constraints.caps`), or cost in a period.

    Attributes:
        name: `Calendar/cap`.
        namespaces, pod_labels: The pods: those of these namespaces, with all of these labels. Empty: of all, with any.
        limits: Resource → the most of it, as in a NodePool's limits. Of NodePools at a moment, those that follow from what is
            left of periods are included (`core.spending`).
        periods: `DAY` or `MONTH` → the most that nodes may cost in one, in nano-dollars.
        time_zone: By whose clocks days and months begin.
        ahead: For how long a launch must be paid for; None: for the length of the period.
        actions: By percentage.
        engaged: The actions that the forecast has reached; of NodePools at a moment alone.
    """

    name: str
    namespaces: tuple[str, ...] = ()
    pod_labels: dict[str, str] = {}
    limits: dict[str, int] = {}
    periods: dict[str, int] = {}
    time_zone: str = "UTC"
    ahead: timedelta | None = None
    actions: tuple[CapAction, ...] = ()
    engaged: tuple[str, ...] = ()

    @property
    def is_for_all_pods(self) -> bool:
        """Whether it counts nodes whatever pods they are for, so that NodePools share it as a group's limits."""
        return not self.namespaces and not self.pod_labels

    def selects(self, namespace: str, labels_of_pod: Mapping[str, str]) -> bool:
        """Whether it counts a pod."""
        return (not self.namespaces or namespace in self.namespaces) and (
            self.pod_labels.items() <= labels_of_pod.items()
        )


class Calendar(msgspec.Struct, frozen=True, kw_only=True):
    """Rules and caps for the NodePools that it names or whose labels it selects; for all if it does neither."""

    name: str
    node_pools: tuple[str, ...] = ()
    match_labels: dict[str, str] = {}
    rules: tuple[CalendarRule, ...] = ()
    caps: tuple[Cap, ...] = ()


class WrittenSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a NodePool says itself about the settings that calendars replace."""

    limits: dict[str, int] = {}
    weight: int = 0
    requirements: tuple[Requirement, ...] = ()
    budgets: tuple[Budget, ...] = ()


class PoolHours(msgspec.Struct, frozen=True, kw_only=True):
    """What calendars say about a NodePool at the snapshot's time.

    Attributes:
        rules: The rules that hold, in the order in which they apply.
        overruled: Settings of rules that a later rule replaces.
        closed_by: The rule that closes it, empty while it is open.
        opens_at: When it opens, None if it is open or never opens.
        is_waking: Whether it is closed, but launches already: its opening is no further away than the lead time.
        pods_that_stay: As in the rule that closes it.
        force_at: When its nodes go regardless of budgets and pods.
        is_forced: Whether that time has come.
        changes_at: The next moment at which anything of this may differ, None if there is none.
        warm: The room that is kept free on its nodes.
        warm_since, warm_opens: From when on it is kept, and when its window opens; None if the rule has no windows.
        occupied_until: Until when consolidation removes empty nodes only, since pods of others leave; None if it does not.
        written: The NodePool's own settings; nodes drift by its own requirements alone.
    """

    rules: tuple[str, ...] = ()
    overruled: tuple[str, ...] = ()
    closed_by: str = ""
    opens_at: datetime | None = None
    is_waking: bool = False
    pods_that_stay: str = LEAVE
    force_at: datetime | None = None
    is_forced: bool = False
    changes_at: datetime | None = None
    warm: WarmRoom | None = None
    warm_since: datetime | None = None
    warm_opens: datetime | None = None
    occupied_until: datetime | None = None
    written: WrittenSettings = WrittenSettings()


GROUP_COUNTER: Final = "shared/"
"""Begins the name of the counter of a group that shares limits, or of a cap; no NodePool can have such a name."""


class NodePool(msgspec.Struct, frozen=True, kw_only=True):
    """A pool of nodes and its rules.

    Attributes:
        labels, annotations, taints, startup_taints, requirements: The template's.
        limits: Upper bounds on the pool's capacity; `nodes` counts claims.
        replicas: Set for a static pool.
        is_ready: Condition Ready; None if the status does not state it, which the CLI treats as ready.
        own_annotations, own_labels: The pool's own annotations, hashes among them, and its own labels.
        calendar: The rules in its annotation `fleetwright.dev/calendar`.
        hours: What calendars say now; limits, weight, requirements and budgets already follow it.
        price_factors: Instance family → factor on its price in decisions, in thousandths; other families have the factor one.
        largest_node: CPU and memory of the largest node; only a pod that needs more may exceed them.
        shared_limits: Group → upper bounds on the capacity of all NodePools that name this group, together. A cap of a Calendar
            that counts all pods is such a group.
        caps: The caps of Calendars that count its nodes by the pods that they are for.
        saving_caps: The caps, those for all pods included, whose forecast engages actions.
        evictions_per_hour: How many of its pods consolidation and drift may evict in any hour, None for any number.
        expires_forcefully: Whether its nodes go at their expireAfter regardless of budgets and pods.
        unknown_fields: Paths of fields in its template that this version does not know and that no annotation lets it ignore.
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
    own_labels: dict[str, str] = {}
    calendar: Calendar | None = None
    hours: PoolHours | None = None
    price_factors: dict[str, int] = {}
    largest_node: dict[str, int] = {}
    shared_limits: dict[str, dict[str, int]] = {}
    caps: tuple[Cap, ...] = ()
    saving_caps: tuple[Cap, ...] = ()
    evictions_per_hour: int | None = None
    expires_forcefully: bool = False
    template_hash: str = ""
    unknown_fields: tuple[str, ...] = ()
    problem: str = ""

    @property
    def is_static(self) -> bool:
        """Whether it keeps a fixed number of nodes, regardless of pods."""
        return self.replicas is not None

    @property
    def is_closed(self) -> bool:
        """Whether it is outside its hours: it launches nothing, and its nodes empty. A pool that wakes is not."""
        return self.hours is not None and bool(self.hours.closed_by) and not self.hours.is_waking

    @property
    def written_requirements(self) -> tuple[Requirement, ...]:
        """The requirements of the NodePool itself, whatever calendars add for new nodes."""
        return self.requirements if self.hours is None else self.hours.written.requirements

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
        reservation_places: Id of a capacity reservation → how many nodes of this cluster it can hold, where that is known.
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
    reservation_places: dict[str, int] = {}
    placement_group: str = ""
    addresses_per_node: int = 1
    zone_ids: dict[str, str] = {}
    own_annotations: dict[str, str] = {}
    spec_hash: str = ""
    unknown_fields: tuple[str, ...] = ()
    problem: str = ""
