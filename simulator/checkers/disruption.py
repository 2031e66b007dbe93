"""Judges of budgets and PodDisruptionBudgets, and what judges know of the world: the record alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, time, timedelta
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any, Final

import msgspec

from core.model.values.quantity import parse_duration
from core.pools import charges_of
from simulator.record import Event

# Computes when a budget's window is open, by cron in UTC as Kubernetes projects read it: the judges' own implementation.
#
# An expression has five fields, or is a macro such as `@daily`. A day must match both day fields; if neither starts with a
# plain star (`*/2` is not plain), either is enough.


_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_BOUNDS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES: Final = {name: number for number, name in enumerate(_MONTHS, start=1)} | {
    name: number for number, name in enumerate(_WEEKDAYS)
}


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A cron expression as the values that each field allows."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def has_day(self, day: datetime) -> bool:
        """Whether it fires at all on this day."""
        if day.month not in self.months:
            return False
        by_day = day.day in self.days
        by_weekday = (day.weekday() + 1) % 7 in self.weekdays
        return by_day and by_weekday if self.any_day or self.any_weekday else by_day or by_weekday


@lru_cache(maxsize=256)
def read(expression: str) -> Schedule:
    """Read an expression.

    Raises:
        ValueError: If the expression is invalid.
    """
    fields = _MACROS.get(expression.strip().lower(), expression).lower().split()
    if len(fields) != len(_BOUNDS):
        raise ValueError(f"{expression!r} has {len(fields)} fields, not five")
    sets = [_values(field, *bounds) for field, bounds in zip(fields, _BOUNDS, strict=True)]
    return Schedule(
        minutes=sets[0],
        hours=sets[1],
        days=sets[2],
        months=sets[3],
        weekdays=frozenset(value % 7 for value in sets[4]),
        any_day=fields[2] in ("*", "?"),
        any_weekday=fields[4] in ("*", "?"),
    )


@lru_cache(maxsize=65536)
def is_open(expression: str, lasting: timedelta, now: datetime) -> bool:
    """Whether the schedule fired within the last `lasting`, the present moment included."""
    schedule = read(expression)
    opens_after = now - lasting
    day = datetime.combine(now.date(), time(), UTC)
    while day + timedelta(days=1) > opens_after:
        if schedule.has_day(day):
            for hour in sorted(schedule.hours, reverse=True):
                for minute in sorted(schedule.minutes, reverse=True):
                    fired = day + timedelta(hours=hour, minutes=minute)
                    if opens_after < fired <= now:
                        return True
        day -= timedelta(days=1)
    return False


def _values(field: str, low: int, high: int) -> frozenset[int]:
    values: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        if span in ("*", "?"):
            first, last = low, high
        elif "-" in span:
            first, last = (_number(end) for end in span.split("-", 1))
        else:
            first = _number(span)
            last = high if step else first
        if not low <= first <= last <= high:
            raise ValueError(f"{part!r} is outside {low}-{high}")
        values.update(range(first, last + 1, int(step or 1)))
    return frozenset(values)


def _number(text: str) -> int:
    return _NAMES[text] if text in _NAMES else int(text)


# What the record says about pods, nodes and instances.


POOL: Final = "karpenter.sh/nodepool"
CLAIM: Final = "karpenter.sh/nodeclaim"
LAUNCH: Final = "fleetwright.dev/launch"
AppliedObject = Mapping[str, Any]
"""An applied object; read-only for checkers."""


def claim_of(tags: Mapping[str, str]) -> str:
    """Return the claim that an instance's tags name, empty if none: instances of a shared launch have its name first."""
    claim = tags.get(CLAIM, "")
    return "" if claim == tags.get(LAUNCH) else claim


class PodFacts(msgspec.Struct, kw_only=True):
    """One pod.

    Attributes:
        group: `namespace/name` of the group with which it starts, empty for none.
        minimum: How many start together as the pod says it; None where a PodGroup says it.
    """

    namespace: str
    group: str = ""
    minimum: int | None = None
    owner: str
    labels: dict[str, str]
    annotations: dict[str, str]
    grace_seconds: int
    created_at: datetime
    node: str = ""
    bound_at: datetime | None = None
    is_ready: bool = False
    is_finished: bool = False
    is_leaving: bool = False


class NodeFacts(msgspec.Struct, kw_only=True):
    """One node; `disrupted_for` is the reason on its taint, None while it carries none."""

    pool: str
    instance: str
    is_initialized: bool = False
    disrupted_for: str | None = None
    disrupted_at: datetime | None = None


class InstanceFacts(msgspec.Struct, kw_only=True):
    """One instance.

    Attributes:
        grace: Its NodePool's terminationGracePeriod at its launch.
        claim: The last claim that its tags named.
        launch: The shared launch; empty if the claim was launched alone.
        price: In dollars an hour, at its launch.
        charges: Cap → the share that it counts of the instance, in millionths.
    """

    instance_type: str
    pool: str
    token: str
    launched_at: datetime
    grace: str = ""
    claim: str = ""
    launch: str = ""
    price: float = 0.0
    charges: dict[str, int] = {}
    ended_at: datetime | None = None


# Places in a NodePool's count of leaving nodes, derived from the record.


_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class Writer(msgspec.Struct, frozen=True):
    """The function that writes a claim's row.

    Attributes:
        since: When the function started; everything that it read is from this time or later.
        asked: When it made the writing call, before its retries and delays.
    """

    since: datetime
    asked: datetime


class Place(msgspec.Struct, kw_only=True):
    """A place in a NodePool's count of leaving nodes, taken by a claim (docs/engineering/handbook/draining.md).

    Attributes:
        since: When the function that took it started.
        asked: When that function made the call.
        at: When the place was taken.
        number: How many nodes of the NodePool were leaving then, including this one.
        total: How many nodes the NodePool had then.
    """

    pool: str
    since: datetime
    asked: datetime
    at: datetime
    number: int = 0
    total: int = 0


class Places:
    """The places by instance, derived from rows of claims and taints of nodes."""

    def __init__(self, nodes: Mapping[str, NodeFacts], instances: Mapping[str, InstanceFacts]) -> None:
        self._nodes = nodes
        self._instances = instances
        self._holders: dict[str, tuple[str, str]] = {}
        self._taken: dict[str, Place] = {}
        self._latest: list[Place] = []

    def claim_written(self, now: datetime, writer: Writer | None, name: str, row: Mapping[str, Any] | None) -> None:
        """Take a change of a claim's row. `writer` is None if no function wrote it: the row was lost or restored."""
        before = self._holders.pop(name, None)
        holder = None
        if row is not None and row.get("is_disrupting"):
            holder = row["plan"]["node_pool"], (row.get("machine") or {}).get("instance_id", "")
            self._holders[name] = holder
        if before is not None and holder is None:
            self._taken.pop(before[1], None)
        elif before is None and holder is not None and writer is not None:
            self._latest = [place for place in self._latest if place.at == now]
            place = self._taken[holder[1]] = Place(pool=holder[0], since=writer.since, asked=writer.asked, at=now)
            self._latest.append(place)
        # A transaction writes its rows one by one at the same moment: all of its places count the nodes after the last row.
        for place in self._latest:
            if place.at == now:
                place.number, place.total = self.count(place.pool, place.since)

    def of(self, instance: str) -> Place | None:
        """Return the place that the instance's claim holds, None if no function took one."""
        return self._taken.get(instance)

    def count(self, pool: str, since: datetime) -> tuple[int, int]:
        """Return how many initialized nodes of the NodePool are leaving, and how many it has or had at `since`."""
        holding = {instance for of_pool, instance in self._holders.values() if of_pool == pool}
        # An uninitialized node does not count (Karpenter).
        nodes = [node for node in self._nodes.values() if node.pool == pool and node.is_initialized]
        alive = [node for node in nodes if self._ended(node.instance) is None]
        ended = [moment for node in nodes if (moment := self._ended(node.instance)) is not None]
        going = sum(node.instance in holding or bool(node.disrupted_for) for node in alive)
        return going, len(alive) + sum(moment >= since for moment in ended)

    def _ended(self, instance: str) -> datetime | None:
        """Return when the instance ended, None if it runs; long ago for an unknown instance."""
        facts = self._instances.get(instance)
        return facts.ended_at if facts is not None else _LONG_AGO


DISRUPTED: Final = "karpenter.sh/disrupted"
INITIALIZED: Final = "karpenter.sh/initialized"

_GRACE: Final = 30
"""The default grace period of pods, in seconds."""


class Ledger:
    """Pods, nodes, instances, and the objects that users applied.

    Attributes:
        whole_groups: The groups of which at some time as many members as start together had a node, or were done.
    """

    def __init__(self) -> None:
        self.pods: dict[str, PodFacts] = {}
        self.nodes: dict[str, NodeFacts] = {}
        self.instances: dict[str, InstanceFacts] = {}
        self.places = Places(self.nodes, self.instances)
        self.applied: dict[tuple[str, str, str], AppliedObject] = {}
        self.whole_groups: set[str] = set()
        self._graces: dict[str, str] = {}
        self._handlers: dict[str, Callable[[datetime, Mapping[str, Any]], None]] = {
            "podCreated": self._pod_created,
            "podBound": self._pod_bound,
            "podReady": lambda _, f: self._set_ready(f["pod"], ready=True),
            "podUnready": lambda _, f: self._set_ready(f["pod"], ready=False),
            "podFinished": self._pod_finished,
            "podEvicted": self._pod_leaving,
            "podDeleted": lambda _, f: self._drop(self.pods, f["pod"]),
            "nodeJoined": self._node_joined,
            "nodeTainted": self._node_tainted,
            "nodeUntainted": self._node_untainted,
            "nodeDeleted": lambda _, f: self._drop(self.nodes, f["node"]),
            "objectApplied": self._object_applied,
            "objectDeleted": lambda _, f: self._drop(self.applied, (f["kind"], f["namespace"], f["name"])),
            "instanceLaunched": self._instance_launched,
            "instanceTagged": self._instance_tagged,
            "instanceTerminated": self._instance_terminated,
        }

    def see(self, moment: datetime, event: Event) -> None:
        """Update from one event."""
        handler = self._handlers.get(event.event)
        if handler is not None:
            handler(moment, event.fields)

    def spec_of(self, kind: str, name: str, namespace: str = "") -> AppliedObject:
        """The spec of an object that was applied, empty where there is none."""
        return self.applied.get((kind, namespace, name), {}).get("spec") or {}

    def of_kind(self, kind: str) -> Iterator[AppliedObject]:
        """The objects of a kind, by name."""
        for key in sorted(self.applied):
            if key[0] == kind:
                yield self.applied[key]

    def pods_on(self, node: str) -> Iterator[tuple[str, PodFacts]]:
        """The pods that run on a node."""
        return ((name, pod) for name, pod in self.pods.items() if pod.node == node and not pod.is_finished)

    def running(self, since: datetime) -> int:
        """How many instances ran at `since` or later."""
        return sum(facts.ended_at is None or facts.ended_at >= since for facts in self.instances.values())

    def leaving_pods(self) -> int:
        """How many pods run on nodes with the disrupted taint."""
        leaving = {name for name, node in self.nodes.items() if node.disrupted_for is not None}
        return sum(pod.node in leaving and not pod.is_finished for pod in self.pods.values())

    def node_of(self, instance: str) -> tuple[str, NodeFacts] | None:
        """The node that runs on an instance, with its name."""
        return next(((name, node) for name, node in self.nodes.items() if node.instance == instance), None)

    def _pod_created(self, moment: datetime, fields: Mapping[str, Any]) -> None:
        metadata, spec = fields["object"]["metadata"], fields["object"].get("spec") or {}
        self.pods[fields["pod"]] = PodFacts(
            namespace=metadata.get("namespace", "default"),
            owner=fields["owner"],
            labels=dict(metadata.get("labels") or {}),
            annotations=dict(metadata.get("annotations") or {}),
            grace_seconds=spec.get("terminationGracePeriodSeconds", _GRACE),
            created_at=moment,
            **_group_of(metadata, spec),
        )

    def members(self, group: str) -> tuple[int, int, int]:
        """How many of a group exist, how many of them have a node or are done, and how many start together."""
        pods = [pod for pod in self.pods.values() if pod.group == group and not pod.is_leaving]
        namespace, _, name = group.partition("/")
        policy = self.spec_of("PodGroup", name, namespace)
        gang = (policy.get("schedulingPolicy") or {}).get("gang") or {}
        stated = [pod.minimum for pod in pods if pod.minimum is not None]
        written = str(gang.get("minCount") or policy.get("minMember") or 0)
        minimum = max(stated, default=int(written))
        return len(pods), sum(bool(pod.node) or pod.is_finished for pod in pods), minimum

    def _pod_bound(self, moment: datetime, fields: Mapping[str, Any]) -> None:
        pod = self.pods.get(fields["pod"])
        if pod is not None:
            pod.node, pod.bound_at = fields["node"], moment
            if pod.group:
                _, placed, minimum = self.members(pod.group)
                self.whole_groups |= {pod.group} if placed >= minimum else set()

    def _set_ready(self, name: str, *, ready: bool) -> None:
        if name in self.pods:
            self.pods[name].is_ready = ready

    def _pod_finished(self, _: datetime, fields: Mapping[str, Any]) -> None:
        pod = self.pods.get(fields["pod"])
        if pod is not None:
            pod.is_finished, pod.is_ready = True, False

    def _pod_leaving(self, _: datetime, fields: Mapping[str, Any]) -> None:
        if fields["pod"] in self.pods:
            self.pods[fields["pod"]].is_leaving = True

    def _node_joined(self, _: datetime, fields: Mapping[str, Any]) -> None:
        node_labels = (fields["object"]["metadata"].get("labels")) or {}
        instance = str(fields["providerID"]).rpartition("/")[2]
        known_instance = self.instances.get(instance)
        pool = node_labels.get(POOL) or (known_instance.pool if known_instance is not None else "")
        self.nodes[fields["node"]] = NodeFacts(pool=pool, instance=instance)

    def _node_tainted(self, moment: datetime, fields: Mapping[str, Any]) -> None:
        node = self.nodes.get(fields["node"])
        if node is not None and fields["key"] == DISRUPTED:
            node.disrupted_for, node.disrupted_at = fields.get("reason") or "", moment

    def _node_untainted(self, _: datetime, fields: Mapping[str, Any]) -> None:
        node = self.nodes.get(fields["node"])
        if node is not None and fields["key"] == DISRUPTED:
            node.disrupted_for = node.disrupted_at = None

    def _object_applied(self, _: datetime, fields: Mapping[str, Any]) -> None:
        if fields["kind"] == "Node":
            node, metadata = self.nodes.get(fields["name"]), fields["object"]["metadata"]
            if node is not None:
                node.is_initialized = (metadata.get("labels") or {}).get(INITIALIZED) == "true"
            return
        self.applied[fields["kind"], fields["namespace"], fields["name"]] = fields["object"]
        if fields["kind"] == "NodePool":
            # Kept after the NodePool's deletion: an instance that is launching then still gets this grace period.
            template = (fields["object"].get("spec") or {}).get("template") or {}
            self._graces[fields["name"]] = str((template.get("spec") or {}).get("terminationGracePeriod") or "")

    def _instance_launched(self, moment: datetime, fields: Mapping[str, Any]) -> None:
        self.instances[fields["instance"]] = self.launched(moment, fields)

    def launched(self, moment: datetime, fields: Mapping[str, Any]) -> InstanceFacts:
        """Return the instance of a launch, by the fields of its event."""
        return InstanceFacts(
            instance_type=fields["instanceType"],
            pool=fields["tags"].get(POOL, ""),
            token=fields["clientToken"],
            launched_at=moment,
            claim=claim_of(fields["tags"]),
            launch=fields["tags"].get(LAUNCH, ""),
            price=fields.get("price", 0.0),
            charges=charges_of(fields["tags"]),
            grace=self._graces.get(fields["tags"].get(POOL, ""), ""),
        )

    def _instance_tagged(self, _: datetime, fields: Mapping[str, Any]) -> None:
        instance = self.instances.get(fields["instance"])
        if instance is not None:
            instance.claim = claim_of(fields["tags"]) or instance.claim
            instance.pool = fields["tags"].get(POOL, instance.pool)

    def _instance_terminated(self, moment: datetime, fields: Mapping[str, Any]) -> None:
        if fields["instance"] in self.instances:
            self.instances[fields["instance"]].ended_at = moment

    @staticmethod
    def _drop(rows: dict[Any, Any], key: Any) -> None:
        rows.pop(key, None)


def _group_of(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a pod's facts that say with which group it starts."""
    notes, marks = metadata.get("annotations") or {}, metadata.get("labels") or {}
    ways = (
        (notes.get("fleetwright.dev/group"), notes.get("fleetwright.dev/group-minimum", "0")),
        (marks.get("kueue.x-k8s.io/pod-group-name"), notes.get("kueue.x-k8s.io/pod-group-total-count", "0")),
        (marks.get("scheduling.x-k8s.io/pod-group"), None),
        ((spec.get("schedulingGroup") or {}).get("podGroupName"), None),
    )
    name, least = next(((name, least) for name, least in ways if name), ("", None))
    if not name or name == "none":
        return {}
    minimum = int(least) if least is not None and least.isdecimal() else None
    return {"group": f"{metadata.get('namespace', 'default')}/{name}", "minimum": minimum}


# Label selectors (Kubernetes), for the judges.


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether the selector matches these labels; none at all matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions") or ())


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator = expression["key"], expression["operator"]
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    listed = labels.get(key) in (expression.get("values") or ())
    return listed if operator == "In" else not listed


# Defines which disruptions are voluntary, and the guarantees of Karpenter's API for these.


REASONS: Final = ("Empty", "Drifted", "Underutilized", "Expired", "Unhealthy")
SKEW_MAX: Final = timedelta(seconds=1)
"""The maximum difference between two machines' clocks: a deadline may have passed for one and not for the other."""

DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"


def is_voluntary(node: NodeFacts | None) -> bool:
    """Return whether the disruption of this node is voluntary."""
    return node is not None and node.disrupted_for in REASONS


def is_protected(pod: PodFacts, now: datetime) -> bool:
    """Whether the pod's annotation protects it from disruption now: `true`, or a duration since its start."""
    text = pod.annotations.get(DO_NOT_DISRUPT, "")
    if text == "true":
        return True
    lasting = parse_duration(text) if text else None
    if lasting is None or pod.bound_at is None:
        return False
    return now < pod.bound_at + lasting - SKEW_MAX


def time_is_up(ledger: Ledger, node: NodeFacts, pod: PodFacts, now: datetime) -> bool:
    """Whether terminationGracePeriod, as it was at the launch, allows the pod to be forced out now, whatever protects it."""
    instance = ledger.instances.get(node.instance)
    grace = parse_duration(instance.grace) if instance is not None and instance.grace else None
    if grace is None or node.disrupted_at is None:
        return False
    return now >= node.disrupted_at + grace - timedelta(seconds=pod.grace_seconds) - SKEW_MAX


# Judges NodePool budgets: when a node takes its place among the leaving ones (docs/engineering/handbook/draining.md), budgets
# must admit it.


READ_BEFORE: Final = timedelta(seconds=2)
"""How long before the call that takes a place the function may have read the budgets: retries after conflicts take time."""

_DEFAULT: Final = ({"nodes": "10%"},)


class BudgetJudge:
    """Counts voluntary disruptions, expiry included, that a budget forbids."""

    name = "budgetViolations"

    def __init__(self, ledger: Ledger, report: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._report = report

    def see(self, moment: datetime, event: Event) -> None:
        """Judge one event; the ledger holds the world as it was before."""
        fields = event.fields
        if event.event == "nodeTainted" and fields["key"] == DISRUPTED and fields.get("reason") in REASONS:
            self._begins(fields["node"], fields["reason"], moment)

    def _begins(self, name: str, reason: str, now: datetime) -> None:
        node = self._ledger.nodes.get(name)
        if node is None or not node.pool or not node.is_initialized or is_voluntary(node):
            return
        place = self._ledger.places.of(node.instance)
        if place is None:
            # No function took a place for the node, so the budgets must admit it now.
            going, total = self._ledger.places.count(node.pool, now)
            place = Place(pool=node.pool, since=now, asked=now, at=now, number=going + 1, total=total)
        tops = [self._allowed(node.pool, reason, place.total, moment) for moment in _moments(place)]
        top = max(place.number if number is None else number for number in tops)
        if place.number > top:
            self._report(
                f"{name} goes ({reason}) as number {place.number} of {place.total} in NodePool {node.pool}, allowed {top}, "
                f"since {place.at:%H:%M:%S}"
            )

    def _allowed(self, pool: str, reason: str, total: int, now: datetime) -> int | None:
        """Return how many nodes may leave at once for this reason; None if unlimited, as for a deleted NodePool."""
        if ("NodePool", "", pool) not in self._ledger.applied:
            return None
        spec = self._ledger.spec_of("NodePool", pool)
        budgets = (spec.get("disruption") or {}).get("budgets")
        limits = [
            _budget_amount(str(budget.get("nodes", "0")), total)
            for budget in (_DEFAULT if budgets is None else budgets)
            if _concerns(budget, reason) and _is_open(budget, now)
        ]
        return min(limits, default=None)


def _moments(place: Place) -> Iterator[datetime]:
    """Return the minutes in which the budgets for a place may have been read: from just before its call to its transaction."""
    moment = place.asked - READ_BEFORE - SKEW_MAX
    while moment < place.at + SKEW_MAX:
        yield moment
        moment = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
    yield place.at + SKEW_MAX


def _concerns(budget: Mapping[str, Any], reason: str) -> bool:
    return budget.get("reasons") is None or reason in budget["reasons"]


def _is_open(budget: Mapping[str, Any], now: datetime) -> bool:
    if not budget.get("schedule"):
        return True
    lasting = parse_duration(str(budget.get("duration") or "")) or timedelta(0)
    return is_open(budget["schedule"], lasting, now)


def _budget_amount(text: str, total: int) -> int:
    if text.endswith("%"):
        return ceil(Fraction(text[:-1]) * total / 100)
    return int(text)


# Judges PodDisruptionBudgets: voluntary disruption removes no healthy pod that a budget needs (Kubernetes, eviction).


_BY_PROGRAM = ("eviction", "forced")


class PodDisruptionBudgetJudge:
    """Counts evictions and forced deletions that leave fewer healthy pods than a budget requires."""

    name = "podDisruptionBudgetViolations"

    def __init__(self, ledger: Ledger, report: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._report = report

    def see(self, moment: datetime, event: Event) -> None:
        """Judge one event; the ledger holds the world as it was before."""
        if event.event == "podEvicted" and event.fields["by"] in _BY_PROGRAM:
            self._leaves(event.fields["pod"], event.fields["by"], moment)

    def _leaves(self, name: str, by: str, now: datetime) -> None:
        pod = self._ledger.pods.get(name)
        if pod is None or not pod.is_ready or pod.is_leaving:
            return
        node = self._ledger.nodes.get(pod.node)
        if by == "forced" and node is not None and time_is_up(self._ledger, node, pod, now):
            return
        for problem in self._problems(pod):
            self._report(f"{name} goes, {problem}")

    def forbids(self, pod: PodFacts) -> bool:
        """Whether some budget needs this pod where it is."""
        return any(True for _ in self._problems(pod))

    def _problems(self, pod: PodFacts) -> Iterator[str]:
        for budget in self._ledger.of_kind("PodDisruptionBudget"):
            if budget["metadata"].get("namespace", "default") == pod.namespace:
                yield from self._problem(budget, pod)

    def _problem(self, budget: AppliedObject, pod: PodFacts) -> Iterator[str]:
        spec = budget.get("spec") or {}
        if not selects(spec.get("selector"), pod.labels):
            return
        covered = [
            p
            for p in self._ledger.pods.values()
            if p.namespace == pod.namespace and not p.is_finished and selects(spec.get("selector"), p.labels)
        ]
        healthy = sum(1 for p in covered if p.is_ready and not p.is_leaving)
        wanted = self._wanted(spec, covered)
        if healthy - 1 < wanted:
            yield f"{budget['metadata']['name']} wants {wanted} healthy pods and has {healthy}"

    def _wanted(self, spec: AppliedObject, covered: Iterable[PodFacts]) -> int:
        expected = self._expected(covered)
        if spec.get("maxUnavailable") is not None:
            return max(0, expected - _amount(spec["maxUnavailable"], expected))
        return _amount(spec.get("minAvailable", 0), expected)

    def _expected(self, covered: Iterable[PodFacts]) -> int:
        """Return the expected number of pods: the replicas of controllers, plus one for each pod without such a controller."""
        total, counted = 0, set()
        for pod in covered:
            kind, _, name = self._scaled(pod)
            replicas = self._ledger.spec_of(kind, name, pod.namespace).get("replicas") if kind else None
            if replicas is None:
                total += 1
            elif (kind, name) not in counted:
                counted.add((kind, name))
                total += replicas
        return total

    def _scaled(self, pod: PodFacts) -> tuple[str, str, str]:
        """Return the controller that sets the number of these pods: for a ReplicaSet its Deployment, as in Kubernetes."""
        kind, slash, name = pod.owner.partition("/")
        replica_set = self._ledger.applied.get((kind, pod.namespace, name), {}) if kind == "ReplicaSet" else {}
        for owner in replica_set.get("metadata", {}).get("ownerReferences") or ():
            if owner.get("kind") == "Deployment" and owner.get("controller"):
                return owner["kind"], slash, owner["name"]
        return kind, slash, name


def _amount(written: Any, of: int) -> int:
    if isinstance(written, str) and written.endswith("%"):
        return ceil(Fraction(written[:-1]) * of / 100)
    return int(written)
