"""What a pod is to a decision: pending, reschedulable, evictable or drainable; verdicts for equal pods; rules between pods.

Applies kube-scheduler's verdict on one pod to pods that it has not tried yet.

The scheduler tries the pods of a burst one by one, about a hundred a second, and marks those that fit nowhere. Its verdict on a
pod holds for two others behind it in the queue:

- an equal pod of the same controller, whatever the rules of the two are;
- a pod that demands no less, if the first has no rule about other pods, ports or volumes: each node that would take the second
  would have taken the first. A default spread that must hold is such a rule, and any pod without spreads of its own may have
  it: Services and controllers, which decide that, are not listed before there is something to plan.

A pod with a nominated node implies nothing: the scheduler makes room for it by preemption. See
docs/engineering/handbook/planning.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from core import labels
from core.errors import InvalidInputError
from core.model.node_pool import CalendarRule, CalendarSettings, CalendarWindow
from core.model.plan import WaitingPod
from core.model.pod import DO_NOT_SCHEDULE, SCHEDULE_ANYWAY, LabelSelector, Owner, Pod, PodSpec, TopologySpread
from core.model.snapshot import Options, Snapshot
from core.model.values.quantity import dollars, in_calendar, parse_duration
from core.model.values.requirements import Requirement, is_label_key, shown
from core.model.values.taints import DISRUPTED, FOR_EVER

# Classifies a pod: the only place that decides which pods wait for a node and which move when their node goes.
#
# Each predicate is Karpenter's of that name (`IsProvisionable`, `IsReschedulable`, `IsEvictable`, `IsWaitingEviction`).
# "yes" and "no" in the table hold whatever else is true of the pod; an empty cell decides nothing.
#
# | the pod                                             | pending | reschedulable | evictable | drainable |
# | --------------------------------------------------- | ------- | ------------- | --------- | --------- |
# | is bound to a node                                  | no      |               |           |           |
# | is nominated for a node (preemption makes it room)  | no      |               |           |           |
# | has scheduling gates                                | no      |               |           |           |
# | is not marked unschedulable, in a live cluster      | no      |               |           |           |
# | belongs to a DaemonSet                              | no      | no            |           |           |
# | is the mirror of a static pod                       | no      | no            | no        | no        |
# | has finished (Failed, Succeeded)                    | no      | no            | no        | no        |
# | is being deleted                                    | no      | no            | no        |           |
# | … by a StatefulSet, which waits for its end         | no      | yes           | no        |           |
# | … and is past its end by more than `STUCK_AFTER`    | no      |               | no        | no        |
# | tolerates the disrupted taint                       |         |               | no        | no        |
# | has karpenter.sh/do-not-disrupt in force            |         |               | no        |           |
#
# `scheduler_verdict` says which pods that the scheduler has not tried count as marked.
# Karpenter counts a finished or deleted pod as pending while it is marked; no node is launched for one here.
# `disruption_budgets` decides whether a PodDisruptionBudget lets an evictable pod go.


STUCK_AFTER: Final = timedelta(minutes=1)
"""How long after its grace period a pod no longer blocks its node (Karpenter)."""


def is_pending(pod: Pod, *, requires_mark: bool) -> bool:
    """Whether the pod waits for a node.

    Args:
        pod: The pod.
        requires_mark: Whether the scheduler must have marked it unschedulable first.
    """
    unbound = not pod.node_name and not pod.nominated_node_name and not pod.is_gated
    waits = unbound and pod.phase == "Pending" and not pod.is_terminating
    movable = waits and not (pod.owners and (pod.is_daemon or pod.is_static))
    return movable and (pod.is_marked_unschedulable or not requires_mark)


# Pods that may wait. Until it is time to launch for their deadline, they get room that is there, or spot nodes.


START_MARGIN: Final = timedelta(minutes=30)
"""How long before its deadline a node is bought for a pod at any price. It covers five minutes for which a plan is reused, a
minute until the next run, one instance that does not join within fifteen minutes, and two boots; a test draws failures."""

SPOT, ROOM = "spot", "room"
WAITS_FOR: Final = (SPOT, ROOM)


class Patience(NamedTuple):
    """What a pod that may wait says.

    Attributes:
        deadline: When it must have a node.
        takes_spot: Whether spot nodes may be bought for it before.
    """

    deadline: datetime
    takes_spot: bool

    @property
    def launch_at(self) -> datetime:
        """From when a node is bought for it at any price."""
        return self.deadline - START_MARGIN


def patience_of(annotations: Mapping[str, str], created_at: datetime | None) -> Patience | None:
    """Return what annotations say about waiting; None if the pod may not wait.

    Raises:
        InvalidInputError: If an annotation is malformed; its name is the field.
    """
    written, kind = annotations.get(labels.START_BEFORE), annotations.get(labels.WAITS_FOR, SPOT)
    if written is None:
        return None
    if kind not in WAITS_FOR:
        raise InvalidInputError(f"{kind!r} is neither {SPOT} nor {ROOM}", field=labels.WAITS_FOR)
    after = parse_duration(written)
    if after is not None and after > timedelta(0):
        return None if created_at is None else Patience(in_calendar(created_at + after), kind == SPOT)
    try:
        deadline = datetime.fromisoformat(written)
    except ValueError as error:
        message = f"{written!r} is neither a time such as 2026-12-01T06:00:00Z nor a duration such as 8h"
        raise InvalidInputError(message, field=labels.START_BEFORE) from error
    if deadline.tzinfo is None:
        raise InvalidInputError(f"{written!r} has no time zone, such as Z", field=labels.START_BEFORE)
    return Patience(in_calendar(deadline).astimezone(UTC), kind == SPOT)


def may_wait(pod: Pod, now: datetime) -> Patience | None:
    """Return what a pod says that needs no node yet; None for one whose time has come, or that has run on a node.

    A pod with a malformed annotation does not wait: `validate` reports it.
    """
    if labels.START_BEFORE not in pod.annotations or pod.node_name:
        return None
    try:
        patience = patience_of(pod.annotations, pod.created_at)
    except InvalidInputError:
        return None
    return patience if patience is not None and now < patience.launch_at else None


def why_waits(waiting: WaitingPod) -> str:
    """Return the sentence about a pod that waits: for what, until when, why then, and what it would cost at once."""
    taken = "room or a spot node" if waiting.takes_spot else "room on a node that runs"
    return (
        f"it may wait for {taken}: a node is bought at any price from {waiting.launch_at:%Y-%m-%dT%H:%M:%SZ} on, "
        f"{START_MARGIN // timedelta(minutes=1)} minutes before it must start ({waiting.deadline:%Y-%m-%dT%H:%M:%SZ}); "
        f"at once it would cost ${dollars(waiting.at_once):.4f} an hour"
    )


# Annotations whose values say nothing: decisions go on as without them, so people must be told.


def unread_values(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the annotations of a pod that cannot be read, each with what is wrong and what follows."""
    for key, check in _SYNTAX.items():
        if key in annotations and (problem := check(annotations[key])):
            yield key, f"{shown(annotations[key])} {problem}"
    try:
        patience_of(annotations, None)
    except InvalidInputError as error:
        yield error.field, f"{error.problem}: the pod does not wait"


def stated_members(text: str) -> int:
    """Return a number of members that an annotation states; -1 if it is none."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
    return int(text) or -1 if is_number else -1


def int32(text: str) -> int | None:
    """Return the number; None for a text that is not a 32-bit number. Python reads no number of thousands of digits."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    number = int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _INT32_DIGITS_MAX else _INT32
    return number if -_INT32 <= number < _INT32 else None


_DIGITS_MAX: Final = 6
_INT32: Final = 2**31
_INT32_DIGITS_MAX: Final = 100
"""Leading zeros count."""


def _size_fault(text: str) -> str:
    no_number = f"is not a whole number from 1 to {10**_DIGITS_MAX - 1}: nothing is bought for the group"
    return no_number if stated_members(text) == -1 else ""


def _topology_fault(text: str) -> str:
    return "" if is_label_key(text) else "cannot be the key of a label: no node has one, so the group waits"


def _protection_fault(text: str) -> str:
    lasting = parse_duration(text)
    is_read = text in (FOR_EVER, "false") or (lasting is not None and lasting > timedelta(0))
    return "" if is_read else 'is neither "true" nor a duration such as 10m: it protects nothing'


def _cost_fault(text: str) -> str:
    return "is not a 32-bit number: it counts as 0" if int32(text) is None else ""


def _fault_of_words(consequence: str, *words: str) -> Callable[[str], str]:
    problem = f"is neither {' nor '.join(words)}: {consequence}"
    return lambda text: "" if text in words else problem


_SYNTAX: Final[Mapping[str, Callable[[str], str]]] = {
    labels.DO_NOT_DISRUPT: _protection_fault,
    labels.DISRUPTION_COST: _cost_fault,
    labels.POD_DELETION_COST: _cost_fault,
    labels.SURGE: _fault_of_words("its Deployment is not restarted", "true", "false"),
    labels.GROUP_MINIMUM: _size_fault,
    labels.KUEUE_GROUP_COUNT: _size_fault,
    labels.LEADER_WORKER_SIZE: _size_fault,
    labels.GROUP_TOPOLOGY: _topology_fault,
    labels.KUEUE_TOPOLOGY: _topology_fault,
    labels.GROUP_DISRUPTION: _fault_of_words("its members stay together while they run", "single", "all"),
}
"""Annotation of pods → what is wrong with a value, empty for one that is read."""

OF_PODS_ALONE: Final = (
    *(labels.DO_NOT_DISRUPT, labels.DISRUPTION_COST, labels.SURGE, labels.START_BEFORE, labels.WAITS_FOR),
    *(labels.GROUP, labels.GROUP_MINIMUM, labels.GROUP_TOPOLOGY, labels.GROUP_DISRUPTION),
)
"""Annotations that are read of pods, and of no workload."""


_GROUP_LABELS: Final = frozenset(labels.GROUP_LABELS)
_GROUP_NOTES: Final = frozenset({labels.GROUP, labels.VOLCANO_GROUP})


NO_GROUP: Final = "none"
"""Value of our annotation that takes a pod out of every group."""


def names_group(pod: Pod) -> bool:
    """Whether a pod has any mark of a group that starts together (`core.gangs`).

    Nearly no pod has one, and clusters have a hundred thousand pods.
    """
    is_marked = not _GROUP_LABELS.isdisjoint(pod.labels) or not _GROUP_NOTES.isdisjoint(pod.annotations)
    return is_marked or bool(pod.spec.pod_group)


def is_to_come(pod: Pod) -> bool:
    """Whether a pod stands for a member of a group that its controller has still to create."""
    return pod.annotations.get(labels.MEMBER_TO_COME) == "true"


COMING_MAX: Final = 10_000
"""The most members to come of all groups of one namespace, and the most places of its ProvisioningRequests: each becomes a pod
of the plan, and its author writes no more than a number."""


def beyond_bound(groups: Iterable[tuple[datetime, str, str, str, int]]) -> frozenset[tuple[str, str, str]]:
    """Return the keys of groups that do not fit within `COMING_MAX` beside the older ones of their namespace.

    `groups`: creation time, key, and the number of members to come.
    """
    coming: Counter[str] = Counter()
    late = set()
    for _, namespace, source, name, number in sorted(groups):
        if coming[namespace] + number > COMING_MAX:
            late.add((namespace, source, name))
        else:
            coming[namespace] += number
    return frozenset(late)


def is_reschedulable(pod: Pod) -> bool:
    """Whether the pod, or its successor, needs a new place when its node goes."""
    lives = pod.is_active or (pod.is_stateful and pod.is_terminating and not pod.is_terminal)
    return lives and not pod.is_daemon and not pod.is_static


def reschedulable(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Return those of the pods that need a new place when their node goes."""
    return tuple(pod for pod in pods if is_reschedulable(pod))


def successor(pod: Pod) -> Pod:
    """Return the pod that needs the place when this one goes: of its controller's present template, under the same key.

    Its generic ephemeral volumes are new, since those of the pod go with it (`VolumeIndex.needs`).
    """
    coming = pod.successor
    return pod if coming is None else msgspec.structs.replace(pod, labels=coming.labels, spec=coming.spec)


def is_evictable(pod: Pod, now: datetime) -> bool:
    """Whether a drain evicts the pod through the eviction API; budgets are a separate question."""
    return pod.is_active and not pod.is_static and not _tolerates_drain(pod) and not pod.blocks_disruption(now)


def is_drainable(pod: Pod, now: datetime) -> bool:
    """Whether the pod must have left before its node goes."""
    if pod.is_terminal or pod.is_static or _tolerates_drain(pod):
        return False
    return pod.deleted_at is None or now < pod.deleted_at + STUCK_AFTER


def _tolerates_drain(pod: Pod) -> bool:
    return any(toleration.tolerates(DISRUPTED) for toleration in pod.spec.tolerations)


SPECS_MAX: Final = 100
"""The most specs that others are compared with: thousands of pods that select different nodes would be compared in pairs."""

_Signature = tuple[str, Owner, frozenset[tuple[str, str]], bytes]
"""Namespace, controller, labels and spec: the scheduler cannot tell pods apart that have all of them in common."""


def mark_untried_pods(pods: Iterable[Pod], options: Options) -> tuple[Pod, ...]:
    """Return the pods in their order; mark an untried one unschedulable if the scheduler's verdict on another implies it.

    Args:
        pods: Pods of any phase.
        options: They have the default spreads, which pods without their own may have.
    """
    pods = tuple(pods)
    reported = [pod for pod in pods if is_pending(pod, requires_mark=True)]
    if not reported:
        return pods
    verdicts = _Verdicts(reported, may_have_defaults=options.requires_default_spreads)
    return tuple(_marked(pod) if _is_untried(pod) and verdicts.imply(pod) else pod for pod in pods)


class _Verdicts:
    """What the pods that the scheduler could not place say about others."""

    def __init__(self, reported: Sequence[Pod], *, may_have_defaults: bool) -> None:
        self._may_have_defaults = may_have_defaults
        self._specs: list[PodSpec] = []
        self._known: dict[int, bool] = {}
        self._contents: dict[int, bytes] = {}
        self._signatures = {self._signature(pod) for pod in reported} - {None}
        for spec in {self._content(pod.spec): pod.spec for pod in reported}.values():
            self._add_spec(spec)

    def imply(self, pod: Pod) -> bool:
        """Whether the scheduler cannot place the pod, either."""
        return self._fails(pod.spec) or self._signature(pod) in self._signatures

    def _signature(self, pod: Pod) -> _Signature | None:
        """Return what the pod has in common with its equals; None for a pod without a controller, which has none."""
        owner = next((owner for owner in pod.owners if owner.is_controller), None)
        if owner is None:
            return None
        return pod.namespace, owner, frozenset(pod.labels.items()), self._content(pod.spec)

    def _content(self, spec: PodSpec) -> bytes:
        """Return bytes that equal specs have in common; remembered by identity, as the pods of a workload share the spec."""
        content = self._contents.get(id(spec))
        if content is None:
            content = self._contents[id(spec)] = msgspec.json.encode(spec, order="sorted")
        return content

    def _add_spec(self, spec: PodSpec) -> None:
        """Keep only the least demanding specs; of those that cannot be compared, at most `SPECS_MAX`."""
        has_default = self._may_have_defaults and not spec.spreads
        if len(self._specs) >= SPECS_MAX or has_default or not _depends_on_nodes_alone(spec):
            return
        if not any(_demands_no_less(spec, other) for other in self._specs):
            self._specs = [other for other in self._specs if not _demands_no_less(other, spec)]
            self._specs.append(spec)

    def _fails(self, spec: PodSpec) -> bool:
        """Whether it demands no less than a pod that failed."""
        fails = self._known.get(id(spec))
        if fails is None:
            fails = self._known[id(spec)] = any(_demands_no_less(spec, other) for other in self._specs)
        return fails


def _depends_on_nodes_alone(spec: PodSpec) -> bool:
    """Whether a node's labels, taints and free resources alone decide if it takes the pod."""
    spreads = any(spread.when_unsatisfiable == DO_NOT_SCHEDULE for spread in spec.spreads)
    rules = (spec.affinity, spec.anti_affinity, spec.host_ports, spec.volumes, spec.resource_claims)
    in_group = spec.workload or spec.pod_group
    return not spreads and not any(rules) and not in_group and not spec.problem


def _demands_no_less(spec: PodSpec, other: PodSpec) -> bool:
    """Whether each node that would take a pod with the spec would take one with the other, and neither preempts more."""
    return (
        (spec.scheduler_name, spec.priority, spec.priority_class)
        == (other.scheduler_name, other.priority, other.priority_class)
        and all(spec.requests.get(resource, 0) >= amount for resource, amount in other.requests.items())
        and all(requirement in spec.node_selector for requirement in other.node_selector)
        and other.required_terms in ((), spec.required_terms)
        and all(toleration in other.tolerations for toleration in spec.tolerations)
    )


def _is_untried(pod: Pod) -> bool:
    return not pod.is_marked_unschedulable and is_pending(pod, requires_mark=False)


def _marked(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, is_marked_unschedulable=True)


# Reads rules between pods as kube-scheduler does. The planner and our own binding ask here, so that both read them alike.


SPREADS_COUNT_TERMINATING: Final = False
"""A spread skips pods whose deletion has begun (podtopologyspread/common.go, countPodsMatchSelector)."""

AFFINITIES_COUNT_TERMINATING: Final = True
"""Affinity and anti-affinity, both ways, count pods until they are gone (interpodaffinity/filtering.go asks nothing else)."""

SYSTEM_SPREADS: Final = (
    TopologySpread(labels.HOSTNAME, 3, SCHEDULE_ANYWAY),
    TopologySpread(labels.ZONE, 5, SCHEDULE_ANYWAY),
)
"""Spreads of pods without their own, unless configured otherwise (podtopologyspread/plugin.go, `defaultingType: System`)."""


def spread_selector(spread: TopologySpread, pod_labels: Mapping[str, str]) -> LabelSelector | None:
    """Return what a constraint of a pod with these labels selects, None for nothing.

    An empty selector selects nothing (podtopologyspread/common.go), unless `matchLabelKeys` add to it.
    """
    selector = with_label_keys(spread.selector, pod_labels, spread.match_label_keys)
    return selector if selector is not None and selector.requirements else None


def with_label_keys(
    selector: LabelSelector | None, pod_labels: Mapping[str, str], same: Collection[str], other: Collection[str] = ()
) -> LabelSelector | None:
    """Return the selector narrowed to the pod's own values of the keys `same`, and to other values of the keys `other`."""
    if selector is None or not (same or other):
        return selector
    added = [Requirement(key, False, (pod_labels[key],)) for key in sorted(set(same)) if key in pod_labels]
    added += [Requirement(key, True, (pod_labels[key],)) for key in sorted(set(other)) if key in pod_labels]
    return LabelSelector(tuple(sorted({*selector.requirements, *added}))) if added else selector


# How many pods NodePools gain and lose in the slots of a day, and when pods leave again each week.
#
# Nodes that a ramp filled empty over an hour or so. Consolidation in the middle of it moves pods of which many leave minutes
# later, and moves the others again. So nodes with pods stay until a recurring fall is over; empty ones go at once.


PODS, CPU, MEMORY = "pods", "cpu", "memory"
RESOURCES: Final = (PODS, CPU, MEMORY)


class PodLife(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that got a node of a NodePool: from when to when it was there, and how long it waited as far as snapshots show."""

    pool: str
    created_at: datetime
    gone_at: datetime | None
    requests: dict[str, int]
    waited: timedelta


class PodLives:
    """`see` snapshots in order of time, then read `lives`. Pods of DaemonSets come with nodes and are left out."""

    def __init__(self) -> None:
        self._present: dict[str, PodLife] = {}
        self._ended: list[PodLife] = []

    def see(self, snapshot: Snapshot) -> None:
        """Take the pods of the next snapshot."""
        pools = {node.name: node.labels.get(labels.NODEPOOL, "") for node in snapshot.nodes}
        bound = {
            pod.uid or pod.key: pod
            for pod in snapshot.pods
            if pod.is_active and not pod.is_daemon and pools.get(pod.node_name)
        }
        for key in sorted(self._present.keys() - bound.keys()):
            self._ended.append(msgspec.structs.replace(self._present.pop(key), gone_at=snapshot.now))
        for key, pod in bound.items():
            if key in self._present:
                continue
            created = pod.created_at or snapshot.now
            self._present[key] = PodLife(
                pool=pools[pod.node_name],
                created_at=created,
                gone_at=None,
                requests={PODS: 1, **{name: pod.spec.requests.get(name, 0) for name in (CPU, MEMORY)}},
                waited=max(timedelta(0), (pod.started_at or snapshot.now) - created),
            )

    @property
    def lives(self) -> tuple[PodLife, ...]:
        """The pods so far, in the order of their creation."""
        return tuple(sorted((*self._ended, *self._present.values()), key=lambda life: (life.created_at, life.pool)))


class SlotGrowth(msgspec.Struct, frozen=True, array_like=True):
    """By how much a NodePool grew in one slot of a day.

    Attributes:
        slot: Its number from midnight.
        pods, cpu, memory: By how much it grew at most.
        waited: The median wait of the pods that came, in seconds.
        pods_after, cpu_after, memory_after: By how much it had grown in the end; negative if it became smaller.
        cpu_most, memory_most: The largest requests of one of the pods that came.

    Rows of earlier releases end after `waited`.
    """

    slot: int
    pods: int
    cpu: int
    memory: int
    waited: int
    pods_after: int | None = None
    cpu_after: int | None = None
    memory_after: int | None = None
    cpu_most: int | None = None
    memory_most: int | None = None

    def in_the_end(self) -> dict[str, int]:
        """Return by how much it had grown in the end; without a record, as if all that came had stayed."""
        ends = {PODS: (self.pods_after, self.pods), CPU: (self.cpu_after, self.cpu)}
        ends[MEMORY] = (self.memory_after, self.memory)
        return {name: most if after is None else after for name, (after, most) in ends.items()}

    def largest_requests(self) -> dict[str, int]:
        """Return the largest requests of a pod that came; without a record, the mean."""
        largest = {CPU: (self.cpu_most, self.cpu), MEMORY: (self.memory_most, self.memory)}
        pods = max(1, self.pods)
        return {name: -(-grown // pods) if most is None else most for name, (most, grown) in largest.items()}


Growths = Mapping[str, Mapping[str, Sequence[SlotGrowth]]]
"""Date (ISO) → NodePool → its slots with growth."""


# Falls that recur.


Departures = Mapping[str, Mapping[str, Mapping[int, int]]]
"""Date (ISO) → NodePool → half hour of the day → how many more pods left in it than came, negative if more came."""

PART: Final = timedelta(minutes=30)
"""Falls begin and end with half hours: the minutes in which pods leave differ from day to day."""

PARTS_A_DAY: Final = timedelta(days=1) // PART
_PARTS_A_WEEK: Final = 7 * PARTS_A_DAY

CALM_MAX: Final = 1
"""So many half hours without a fall do not end one: else pods that leave all evening would be many short falls."""

LONGEST_FALL: Final = timedelta(hours=2)
"""Pods that leave for longer than this are no fall, and those of one day are no longer together: nodes would be kept for too
long."""

PODS_MIN: Final = 3
"""A fall by fewer pods keeps no nodes."""

SETTLES_IN: Final = timedelta(minutes=10)
"""How long nodes with pods stay after a fall: its last pods have just left, so some nodes wait for consolidateAfter yet. Those
that do not would be emptied first, with more pods on them."""


def with_departures(
    recorded: Departures,
    lives: Iterable[PodLife],
    since: datetime,
    until: datetime,
    shown: Callable[[datetime], datetime],
) -> dict[str, dict[str, dict[int, int]]]:
    """Return what is recorded with how many more pods left than came from a moment until before another, by `shown` clocks."""
    both = {day: {pool: dict(parts) for pool, parts in pools.items()} for day, pools in recorded.items()}
    for life in lives:
        for moment, sign in ((life.created_at, -1), (life.gone_at, 1)):
            if moment is not None and since <= moment < until:
                wall = shown(moment)
                parts = both.setdefault(wall.date().isoformat(), {}).setdefault(life.pool, {})
                part = timedelta(hours=wall.hour, minutes=wall.minute) // PART
                parts[part] = parts.get(part, 0) + sign
    return both


def emptiest_pools(pools: Mapping[str, Mapping[int, int]], most: int) -> dict[str, dict[int, int]]:
    """Return the NodePools of a day that most pods left, without half hours in which as many came as left."""
    names = sorted(pools, key=lambda name: (-sum(max(0, pods) for pods in pools[name].values()), name))[:most]
    return {name: {part: pods for part, pods in sorted(pools[name].items()) if pods} for name in sorted(names)}


class Fall(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of a NodePool that leave at the same time of some weekdays.

    Attributes:
        weekdays: Those on which it begins, from 0, Monday.
        starts: When it begins, from the wall clock's midnight.
        pods: By how many pods the NodePool becomes smaller, on the median day.
    """

    pool: str
    weekdays: tuple[int, ...]
    starts: timedelta
    lasts: timedelta
    pods: int


def recurring_falls(recorded: Departures, dates: Sequence[date], days_min: int) -> tuple[Fall, ...]:
    """Return the falls that recur on these days: half hours in which pods mostly left, as long as they follow each other."""
    falls: list[Fall] = []
    for pool in sorted({pool for pools in recorded.values() for pool in pools}):
        by_day = {day: recorded.get(day.isoformat(), {}).get(pool, {}) for day in dates}
        alike: dict[_Run, dict[int, list[int]]] = defaultdict(dict)
        for weekday, runs in sorted(_kept_runs(by_day, days_min).items()):
            for run, totals in runs.items():
                alike[run][weekday] = totals
        for (first, parts), by_weekday in sorted(alike.items()):
            pods = _median([total for totals in by_weekday.values() for total in totals])
            starts, lasts = first * PART, parts * PART
            falls.append(Fall(pool=pool, weekdays=tuple(sorted(by_weekday)), starts=starts, lasts=lasts, pods=pods))
    return tuple(falls)


_Run = tuple[int, int]
"""The first half hour of its day, and how many half hours follow each other."""


def _kept_runs(by_day: Mapping[date, Mapping[int, int]], days_min: int) -> dict[int, dict[_Run, list[int]]]:
    """Return weekday → its falls, with how many pods left on each day: the largest that are short enough together."""
    kept: dict[int, dict[_Run, list[int]]] = defaultdict(dict)
    for first, parts in _runs(_falling(by_day, days_min)):
        weekday, start = divmod(first, PARTS_A_DAY)
        totals = [_left_in(by_day, day, start, parts) for day in by_day if day.weekday() == weekday]
        if parts * PART <= LONGEST_FALL and _median(totals) >= PODS_MIN:
            kept[weekday][start, parts] = totals
    for runs in kept.values():
        lasting = timedelta(0)
        for run in sorted(runs, key=lambda run: (-_median(runs[run]), run)):
            if lasting + run[1] * PART > LONGEST_FALL:
                del runs[run]
            else:
                lasting += run[1] * PART
    return kept


def _falling(by_day: Mapping[date, Mapping[int, int]], days_min: int) -> set[int]:
    """Return the half hours of the week in which pods left on most days."""
    present, fell = Counter(day.weekday() for day in by_day), Counter[int]()
    for day, parts in by_day.items():
        fell.update(day.weekday() * PARTS_A_DAY + part for part, pods in parts.items() if pods > 0)
    days = {part: present[part // PARTS_A_DAY] for part in fell}
    return {part for part in fell if days[part] >= days_min and 2 * fell[part] > days[part]}


def _runs(falling: Container[int]) -> Iterator[_Run]:
    """Yield the first half hour of the week and the length of each fall; Sunday's last is followed by Monday's first."""
    steps = range(CALM_MAX + 1, 0, -1)
    for first in range(_PARTS_A_WEEK):
        if first not in falling or any((first - step) % _PARTS_A_WEEK in falling for step in steps):
            continue
        last = first
        while step := next((step for step in steps if (last + step) % _PARTS_A_WEEK in falling), 0):
            last += step
        yield first, last + 1 - first


def _left_in(by_day: Mapping[date, Mapping[int, int]], day: date, start: int, parts: int) -> int:
    total = 0
    for days, part in (divmod(start + number, PARTS_A_DAY) for number in range(parts)):
        total += by_day.get(day + timedelta(days=days), {}).get(part, 0)
    return total


def _median(totals: Sequence[int]) -> int:
    return sorted(totals)[len(totals) // 2]


def fall_rule(fall: Fall, time_zone: str, valid_until: str) -> CalendarRule:
    """Return the rule that keeps the NodePool's nodes with pods until the fall is over, and they have settled."""
    minutes = fall.starts // timedelta(minutes=1)
    days = ",".join(str((weekday + 1) % 7) for weekday in fall.weekdays)
    return CalendarRule(
        name=f"forecast/{fall.pods} pods leave",
        time_zone=time_zone,
        windows=(
            CalendarWindow(schedule=f"{minutes % 60} {minutes // 60} * * {days}", duration=fall.lasts + SETTLES_IN),
        ),
        valid_until=valid_until,
        settings=CalendarSettings(keeps_occupied=True),
    )
