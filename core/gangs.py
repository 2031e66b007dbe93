"""Groups of pods that start together, read from whatever way they are written in: one notion for all decisions.

| written as | members | minimum |
| --- | --- | --- |
| `schedulingGroup` with a PodGroup (Kubernetes 1.36 and later) | pods that name it | `gang.minCount` |
| `workloadRef` with a Workload (1.35) | pods that name its group and key | `gang.minCount` |
| Volcano's and the coscheduling plugin's PodGroups | pods that name it | `minMember` |
| Kueue's groups of plain pods | pods with the label | the total count |
| our annotation `fleetwright.dev/group` | pods with the annotation | `fleetwright.dev/group-minimum` |
| LeaderWorkerSet | one leader and its workers | the size |
| JobSet | the pods of all its Jobs; of one Job, if each has a domain of its own | all of them |
| ProvisioningRequest | places for pods that come later (`core.provisioning_requests`) | all of them |

The first row that is true of a pod names its group, and says the minimum. A JobSet or LeaderWorkerSet adds the pods that its
controller has not created yet: some come only once the first runs, so who waits for all waits for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, NamedTuple

import msgspec

from core import labels
from core.model.pod import GroupObject, GroupSource, MemberTemplate, Pod
from core.model.snapshot import Snapshot
from core.model.values.requirements import shown
from core.pods import COMING_MAX, NO_GROUP, beyond_bound, names_group, stated_members
from core.reasons.code import Refusal
from core.reasons.groups import (
    GroupMissing,
    MembersAbsent,
    MembersNameDomains,
    MembersStateSizes,
    MembersUnlike,
    MinimumTooHigh,
    Saying,
    SizeInvalid,
    SizeMissing,
    SizesDiffer,
    TooManyToCome,
)
from core.reasons.runs import GroupFate, GroupLeaves

EFA: Final = "vpc.amazonaws.com/efa"
"""The resource of an EFA interface, whose traffic does not leave a zone."""

_OF_OBJECTS: Final = (GroupSource.POD_GROUP, GroupSource.WORKLOAD, GroupSource.VOLCANO, GroupSource.COSCHEDULING)
"""Ways of writing that say the minimum in an object."""
_BY_OWNER: Final = (GroupSource.LEADER_WORKER_SET, GroupSource.JOB_SET)
_NATIVE: Final = (GroupSource.POD_GROUP, GroupSource.WORKLOAD)
_KINDS: Final = {
    GroupSource.VOLCANO: "Volcano PodGroup",
    GroupSource.COSCHEDULING: "coscheduling PodGroup",
    GroupSource.KUEUE: "Kueue pod group",
    GroupSource.ANNOTATION: "annotated group",
}
"""What messages call a group whose source is no kind of object."""

_LATE: Final = datetime.max.replace(tzinfo=UTC)

GangKey = tuple[str, GroupSource, str]
"""Namespace, way of writing, name."""


class Gang(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A group of pods that start together.

    Attributes:
        name: `namespace/name`.
        pods: Its members that exist and have not failed, the oldest first.
        coming: Members that its controller has still to create.
        minimum: How many must have a place before any gets a new node.
        total: How many members it has once all exist.
        promised: Members whose launch is in progress although they do not exist yet.
        topology_keys: Node labels. All members need the same value of each.
        places: The values of the first of them that it may have, the preferred one first; empty text for nodes that are there
            and do not have the label. Without any, whatever nodes have and NodePools offer.
        disrupts_all: Whether members stop together.
        moves_alone: Whether its owner says that one member may move while the others run.
        ending: Members that are deleted and still on their nodes; others take their part, and count in its sizes.
        refusal: Why nothing is bought for it whatever there is room for; None if nothing prevents it.
    """

    name: str
    source: GroupSource
    pods: tuple[Pod, ...]
    coming: tuple[Pod, ...] = ()
    minimum: int
    total: int
    created_at: datetime | None = None
    priority: int = 0
    promised: int = 0
    topology_keys: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    disrupts_all: bool = False
    moves_alone: bool = False
    ending: tuple[Pod, ...] = ()
    refusal: Refusal | None = None

    @property
    def identity(self) -> str:
        """What tells it from every other group: objects of different kinds may share a name."""
        return f"{self.source}/{self.name}"

    @property
    def runs(self) -> bool:
        """Whether as many members as must start together have a node, or are done."""
        return _have_begun(self.pods) >= self.minimum

    @property
    def has_run(self) -> bool:
        """Whether it runs, or did until members were deleted that are still on their nodes."""
        return _have_begun((*self.pods, *self.ending)) >= self.minimum

    @cached_property
    def settled(self) -> tuple[Pod, ...]:
        """Members that have a node, are promised one, or are done."""
        return tuple(pod for pod in self.pods if is_settled(pod))

    @cached_property
    def waiting(self) -> tuple[Pod, ...]:
        """Members that may be planned for: neither settled nor gated."""
        return tuple(pod for pod in self.pods if not is_settled(pod) and not pod.is_gated)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """`namespace/name` of its waiting and coming members."""
        return tuple([pod.key for pod in (*self.waiting, *self.coming)])

    @property
    def needed(self) -> int:
        """How many of the waiting and coming members must find a place."""
        return max(0, self.minimum - len(self.settled) - self.promised)

    @property
    def rank(self) -> tuple[int, datetime, str]:
        """Its turn among groups and pods: the highest priority first, then the oldest."""
        return -self.priority, self.created_at or _LATE, self.name


def _have_begun(pods: Iterable[Pod]) -> int:
    """Return how many pods have a node, or are done."""
    return sum(bool(pod.node_name) or pod.is_terminal for pod in pods)


def is_settled(pod: Pod) -> bool:
    """Whether a member has a node, is promised one by preemption, or is done."""
    return bool(pod.node_name or pod.nominated_node_name) or pod.is_terminal


class _Spelling(msgspec.Struct, frozen=True):
    """What a pod says about one group of its own: `minimum` is None where an object says it."""

    source: GroupSource
    name: str
    minimum: int | None = None
    owner: str = ""


class _Member(NamedTuple):
    """A pod, the ways in which it names its group, and the topology keys that its annotations name."""

    pod: Pod
    spellings: tuple[_Spelling, ...]
    topology_keys: tuple[str, ...]


def gangs_of(snapshot: Snapshot) -> tuple[Gang, ...]:
    """Return the groups of the snapshot's pods, by name; pods that Kubernetes starts one by one are in none."""
    members: dict[GangKey, list[_Member]] = {}
    last: _Member | None = None
    together: list[_Member] = []
    ending: list[Pod] = []
    for pod in filter(names_group, snapshot.pods):
        if _is_over(pod):
            ending += [pod] if pod.node_name and not pod.is_terminal else []
            continue
        # Members mostly follow each other and are written alike: comparing takes a tenth of the time of reading.
        if last is not None and _is_written_like(pod, last.pod):
            last = _Member(pod, last.spellings, last.topology_keys)
        else:
            last = _Member(pod, tuple(_spellings(pod)), _own_keys(pod))
            first = last.spellings[0] if last.spellings else None
            together = [] if first is None else members.setdefault((pod.namespace, first.source, first.name), [])
        together.append(last)
    requested = tuple(_requested_rooms(snapshot)) if snapshot.provisioning_requests else ()
    if not members:
        return requested
    objects = {(obj.namespace, obj.source, obj.name): obj for obj in snapshot.group_objects}
    going = _by_group(ending)
    readings = {key: _Reading(snapshot, objects, key, members[key], going.get(key, ())) for key in sorted(members)}
    late = beyond_bound((reading.created_at() or _LATE, *key, reading.to_come()) for key, reading in readings.items())
    gangs = (reading.gang(is_late=key in late) for key, reading in readings.items())
    return (*(gang for gang in gangs if gang is not None), *requested)


def _requested_rooms(snapshot: Snapshot) -> Iterator[Gang]:
    """Yield the places that ProvisioningRequests still look for, each request as a group."""
    from core import provisioning_requests as rules  # most clusters have none

    late = rules.late_requests(snapshot)
    for request in sorted(snapshot.provisioning_requests, key=lambda request: (request.namespace, request.name)):
        if not rules.is_open(request) or rules.obstacle_to(request, snapshot, late) is not None:
            continue
        places, value = rules.places_to_come(request, snapshot), rules.own_value(request)
        coming = tuple(pod for pod in places if pod.key not in snapshot.requested_members)
        if request.provisioning_class == rules.CHECK_CAPACITY:
            where: tuple[str, ...] = ("",)
        else:
            where = (value,) if rules.own_nodes(request, snapshot) else ("", value)
        keys = dict.fromkeys(key for pod in places for key in _topology_keys_of(pod))
        yield Gang(
            name=f"{request.namespace}/{request.name}",
            source=GroupSource.PROVISIONING_REQUEST,
            pods=(),
            coming=coming,
            promised=len(places) - len(coming),
            minimum=len(places),
            total=len(places),
            created_at=request.created_at,
            priority=max((pod.spec.priority for pod in places), default=0),
            topology_keys=(labels.PROVISIONING_REQUEST, *keys),
            places=where,
        )


def _by_group(pods: Iterable[Pod]) -> dict[GangKey, tuple[Pod, ...]]:
    """Return the group that each pod names first → its pods."""
    named: dict[GangKey, list[Pod]] = {}
    for pod in pods:
        spelling = next(_spellings(pod), None)
        if spelling is not None:
            named.setdefault((pod.namespace, spelling.source, spelling.name), []).append(pod)
    return {key: tuple(of_group) for key, of_group in named.items()}


def _is_written_like(pod: Pod, other: Pod) -> bool:
    """Whether two pods say the same about a group of one namespace."""
    return (
        pod.namespace == other.namespace
        and pod.annotations == other.annotations
        and pod.labels == other.labels
        and (
            pod.spec is other.spec
            or (pod.spec.pod_group, pod.spec.workload) == (other.spec.pod_group, other.spec.workload)
        )
    )


def _is_over(pod: Pod) -> bool:
    """Whether a successor takes the member's part: it failed, or it goes. One that succeeded has done its part."""
    return pod.phase == "Failed" or pod.is_terminating


def _spellings(pod: Pod) -> Iterator[_Spelling]:
    """Yield the ways in which a pod names a group, those that state a minimum first."""
    notes, marks = pod.annotations, pod.labels
    group_name = notes.get(labels.GROUP, "")
    if group_name == NO_GROUP:
        return
    if pod.spec.pod_group:
        source = GroupSource.WORKLOAD if pod.spec.workload else GroupSource.POD_GROUP
        yield _Spelling(source, pod.spec.pod_group)
    if marks.get(labels.LEADER_WORKER_SET):
        # Volcano's group of such pods repeats what the LeaderWorkerSet says, without its template.
        name = f"{marks[labels.LEADER_WORKER_SET]}-{marks.get(labels.LEADER_WORKER_GROUP, '0')}"
        size = _number(notes.get(labels.LEADER_WORKER_SIZE))
        yield _Spelling(GroupSource.LEADER_WORKER_SET, name, size, marks[labels.LEADER_WORKER_SET])
    if notes.get(labels.VOLCANO_GROUP):
        yield _Spelling(GroupSource.VOLCANO, notes[labels.VOLCANO_GROUP])
    if marks.get(labels.COSCHEDULING_GROUP):
        yield _Spelling(GroupSource.COSCHEDULING, marks[labels.COSCHEDULING_GROUP])
    count = _number(notes.get(labels.KUEUE_GROUP_COUNT))
    if marks.get(labels.KUEUE_GROUP) and count is not None:
        yield _Spelling(GroupSource.KUEUE, marks[labels.KUEUE_GROUP], count)
    if group_name:
        yield _Spelling(GroupSource.ANNOTATION, group_name, _number(notes.get(labels.GROUP_MINIMUM)))
    if marks.get(labels.JOB_SET):
        yield _job_set(pod)


def _job_set(pod: Pod) -> _Spelling:
    """Return a JobSet's group; each of its Jobs is one where every Job has a topology domain of its own."""
    name = pod.labels[labels.JOB_SET]
    if labels.JOB_SET_TOPOLOGY in pod.annotations:
        part, job = pod.labels.get(labels.JOB_SET_PART, ""), pod.labels.get(labels.JOB_SET_JOB, "0")
        return _Spelling(GroupSource.JOB_SET, f"{name}-{part}-{job}", None, name)
    return _Spelling(GroupSource.JOB_SET, name, None, name)


def _number(text: str | None) -> int | None:
    """Return a count that an annotation states; None if it states none, -1 if it is no number of members."""
    return None if text is None else stated_members(text)


class _Reading:
    """Reads one group from its members and its object."""

    def __init__(
        self,
        snapshot: Snapshot,
        objects: Mapping[GangKey, GroupObject],
        key: GangKey,
        members: list[_Member],
        ending: tuple[Pod, ...],
    ) -> None:
        self._snapshot = snapshot
        self._ending = ending
        self._objects = objects
        self._namespace, self._source, self._name = key
        self._members = sorted(members, key=lambda member: (member.pod.created_at or _LATE, member.pod.name))
        self._pods = [member.pod for member in self._members]
        self._own_keys = tuple({id(member.topology_keys): member.topology_keys for member in self._members}.values())
        self._spellings = self._members[0].spellings
        # The first member of each way in which members are written: mostly all are written alike.
        self._ways = {id(member.spellings): member for member in reversed(self._members)}
        self._object = self._object_of(self._spellings[0])
        owner = next((s for s in self._spellings if s.source in _BY_OWNER), None)
        self._owner = None if owner is None else self._object_of(owner)

    def gang(self, *, is_late: bool = False) -> Gang | None:
        """Return the group; None if its object asks for nothing of all members together.

        `is_late`: whether its members to come are beyond the bound of its namespace.
        """
        keys = self._topology_keys()
        minimum = self._minimum
        disrupts_all = self._disrupts_all()
        is_loose = self._object is not None and self._object.minimum == 0
        if is_loose and not keys and not disrupts_all:
            return None
        mistake, promised = self._mistake, self._promised()
        coming = () if is_late or mistake is not None else self._coming()
        total = max(len(self._pods) + len(coming), self._stated_total or 0)
        refusal = mistake or self._absence(minimum, len(coming), promised)
        if is_late:
            refusal = TooManyToCome(self._namespace, COMING_MAX)
        return Gang(
            name=f"{self._namespace}/{self._name}",
            source=self._source,
            pods=tuple(self._pods),
            coming=coming,
            minimum=minimum,
            total=max(total, minimum),
            promised=promised,
            created_at=self.created_at(),
            priority=self._priority(),
            topology_keys=keys,
            disrupts_all=disrupts_all,
            moves_alone=self._pods[0].annotations.get(labels.GROUP_DISRUPTION) == "single",
            ending=self._ending,
            refusal=refusal,
        )

    def _object_of(self, spelling: _Spelling) -> GroupObject | None:
        name = spelling.owner or spelling.name
        if spelling.source is GroupSource.WORKLOAD:
            name = "/".join(name.split("/")[:2])
        return self._objects.get((self._namespace, spelling.source, name))

    @cached_property
    def _parts(self) -> tuple[tuple[MemberTemplate, int], ...]:
        """Return the templates that make this group's pods, each with how many."""
        if self._owner is None:
            return ()
        templates = self._owner.templates
        if self._owner.source is GroupSource.LEADER_WORKER_SET:
            return tuple((template, template.pods) for template in templates)
        first = self._pods[0]
        if labels.JOB_SET_TOPOLOGY in first.annotations:
            part = first.labels.get(labels.JOB_SET_PART)
            return tuple((template, template.pods) for template in templates if template.part == part)
        if self._owner.starts_in_order:
            # Later parts wait until the earlier ones are ready, which may take hours: each part that has begun counts.
            begun = {pod.labels.get(labels.JOB_SET_PART) for pod in self._pods}
            templates = tuple(template for template in templates if template.part in begun)
        return tuple((template, template.pods * template.jobs) for template in templates)

    @cached_property
    def _stated_total(self) -> int | None:
        """Return how many members the owner or an annotation says there will be."""
        if parts := self._parts:
            return sum(pods for _, pods in parts)
        counts = [s.minimum for s in self._spellings if s.source in (GroupSource.KUEUE, *_BY_OWNER) and s.minimum]
        return max(counts, default=None)

    @cached_property
    def _minimum(self) -> int:
        first = self._spellings[0]
        if self._object is not None and first.source in _OF_OBJECTS:
            return self._object.minimum or 0
        if first.minimum is not None:
            return max(1, first.minimum)
        return self._stated_total or len(self._pods)

    def _topology_keys(self) -> tuple[str, ...]:
        """Return the keys that the objects and the members name, and the zone for EFA; each once."""
        keys = [*(self._object.topology_keys if self._object is not None else ())]
        for own_keys in self._own_keys:
            keys += own_keys
        keys += [labels.ZONE] if any(EFA in pod.spec.requests for pod in self._pods) else []
        return tuple(key for key in dict.fromkeys(keys) if key != labels.HOSTNAME)

    def _disrupts_all(self) -> bool:
        stated = self._pods[0].annotations.get(labels.GROUP_DISRUPTION)
        if stated is not None:
            return stated == "all"
        # LeaderWorkerSet and JobSet restart the whole group when one member fails, by default.
        is_owned = self._spellings[0].source in _BY_OWNER
        return is_owned or (self._object is not None and self._object.disrupts_all)

    def to_come(self) -> int:
        """Return how many members to come are planned for; none of a group with a mistake, since nothing is bought for it."""
        return 0 if self._mistake is not None else self._lacks()

    def _lacks(self) -> int:
        """Return how many members its owner has still to create."""
        return sum(max(0, pods - self._there(template)) for template, pods in self._parts)

    def _there(self, template: MemberTemplate) -> int:
        return sum(_is_part(pod, template.part) for pod in self._pods)

    def created_at(self) -> datetime | None:
        """Return when the group was created: its object, or else its oldest member."""
        if self._object is not None and self._object.created_at is not None:
            return self._object.created_at
        return self._pods[0].created_at

    def _priority(self) -> int:
        if self._object is not None and self._object.priority is not None:
            return self._object.priority
        return max(pod.spec.priority for pod in self._pods)

    def _coming(self) -> tuple[Pod, ...]:
        """Return pods in place of the members that the owner has not created, with the marks of the group's first one."""
        first, created_at = self._pods[0], self.created_at()
        requested = self._snapshot.requested_members
        absent = ((name, template) for name, template in self._absent() if self._key_of(name) not in requested)
        return tuple(_member(first, template, name, created_at) for name, template in absent)

    def _absent(self) -> Iterator[tuple[str, MemberTemplate]]:
        """Yield a name and the template of each member that its owner has not created."""
        for template, pods in self._parts:
            for number in range(self._there(template) + 1, pods + 1):
                yield f"{self._source.lower()}-{self._name}-{template.part}-to-come-{number}", template

    def _key_of(self, name: str) -> str:
        return f"{self._namespace}/{name}"

    @cached_property
    def _mistake(self) -> Refusal | None:
        """Return a mistake for which nothing is bought."""
        total = max(len(self._pods) + self._lacks() - self._promised(), self._stated_total or 0)
        return self._refusal(self._minimum, total)

    def _refusal(self, minimum: int, total: int) -> Refusal | None:
        """Return a mistake of a group that has this size in the end."""
        name = f"{_KINDS.get(self._source, self._source)} {self._namespace}/{self._name}"
        if self._spellings[0].source in _OF_OBJECTS and self._object is None:
            return GroupMissing(name)
        if (unread := self._unread_size(name)) is not None:
            return unread
        if self._source is GroupSource.ANNOTATION and self._spellings[0].minimum is None:
            return SizeMissing(name, self._pods[0].key)
        if (stated := self._stated_total) is not None and minimum > max(stated, total):
            return MinimumTooHigh(name, minimum, stated)
        return self._contradiction(name, minimum)

    def _contradiction(self, name: str, minimum: int) -> Refusal | None:
        """Return where what is written about a group cannot all be true."""
        others = [s for s in self._spellings[1:] if s.source not in _BY_OWNER or s.minimum is not None]
        for other in others:
            theirs = self._minimum_of(other)
            if theirs is not None and theirs != minimum and other.source is not GroupSource.LEADER_WORKER_SET:
                kind = _KINDS.get(other.source, other.source)
                return SizesDiffer(name, minimum, f"{kind} {other.name}", theirs)
        if len({s.minimum for s in self._spellings_of_all() if s.minimum is not None}) > 1:
            return MembersStateSizes(name, self._sayings(self._stated_by))
        if len(set(self._own_keys)) > 1:
            return MembersNameDomains(name, self._sayings(lambda member: ", ".join(member.topology_keys) or "none"))
        if self._source in _NATIVE:
            kinds = {(pod.spec.priority, pod.spec.scheduler_name) for pod in self._pods}
            if len(kinds) > 1:
                return MembersUnlike(name, self._sayings(_priority_and_scheduler))
        return None

    def _unread_size(self, name: str) -> Refusal | None:
        """Return the first annotation with a size that is no number of members."""
        for member in self._ways.values():
            for spelling in member.spellings:
                if spelling.minimum == -1:
                    key, pod = _SIZE_NOTES[spelling.source], member.pod
                    return SizeInvalid(name, pod.key, key, shown(pod.annotations[key]))
        return None

    def _stated_by(self, member: _Member) -> str:
        """Return what a member says of this group's size, empty if it says nothing."""
        first = self._spellings[0]
        sizes = (s.minimum for s in member.spellings if (s.source, s.name) == (first.source, first.name))
        return next((str(size) for size in sizes if size is not None), "")

    def _sayings(self, said_by: Callable[[_Member], str]) -> tuple[Saying, ...]:
        """Return what members say, each value with those who do."""
        pairs = [(said_by(member), member.pod.key) for member in self._members]
        members: dict[str, list[str]] = {}
        for value, key in sorted(pairs):
            if value:
                members.setdefault(value, []).append(key)
        return tuple(Saying(value, keys[0], len(keys) - 1) for value, keys in members.items())

    def _spellings_of_all(self) -> Iterator[_Spelling]:
        """Yield what each member says about this group; those that were made before a change say something else."""
        first = self._spellings[0]
        for member in self._ways.values():
            yield from (s for s in member.spellings if (s.source, s.name) == (first.source, first.name))

    def _minimum_of(self, spelling: _Spelling) -> int | None:
        """Return the minimum that one way of writing states; None if it states none."""
        group_object = self._object_of(spelling) if spelling.source in _OF_OBJECTS else None
        return group_object.minimum if group_object is not None else spelling.minimum

    def _promised(self) -> int:
        """Return how many members are launched for although they do not exist yet."""
        requested = self._snapshot.requested_members
        return sum(self._key_of(name) in requested for name, _ in self._absent()) if requested else 0

    def _absence(self, minimum: int, coming: int, promised: int) -> Refusal | None:
        """Return which members do not exist, or may not be planned for; None if enough do."""
        gated = sum(pod.is_gated and not is_settled(pod) for pod in self._pods)
        ready = len(self._pods) - gated + coming + promised
        if ready >= minimum:
            return None
        missing = minimum - len(self._pods) - coming - promised
        return MembersAbsent(ready, minimum, missing, gated, self.created_at())


_SIZE_NOTES: Final = {
    GroupSource.KUEUE: labels.KUEUE_GROUP_COUNT,
    GroupSource.ANNOTATION: labels.GROUP_MINIMUM,
    GroupSource.LEADER_WORKER_SET: labels.LEADER_WORKER_SIZE,
}
"""The annotation with the size, where an annotation has it."""


def _priority_and_scheduler(member: _Member) -> str:
    spec = member.pod.spec
    return f"priority {spec.priority} and scheduler {spec.scheduler_name}"


def _topology_keys_of(pod: Pod) -> list[str]:
    """Return the topology keys that a pod's annotations name, and the zone for EFA."""
    return [*_own_keys(pod), *_efa_keys(pod)]


def _efa_keys(pod: Pod) -> list[str]:
    return [labels.ZONE] if pod.spec.requests.get(EFA) else []


def _own_keys(pod: Pod) -> tuple[str, ...]:
    """Return the topology keys that a pod's annotations name."""
    notes = pod.annotations
    return tuple([labels.normalized(notes[name]) for name in _TOPOLOGY_NOTES if notes.get(name)]) if notes else ()


_TOPOLOGY_NOTES: Final = (
    *(labels.GROUP_TOPOLOGY, labels.KUEUE_TOPOLOGY),
    *(labels.LEADER_WORKER_TOPOLOGY, labels.JOB_SET_TOPOLOGY),
)
"""Annotations that name a topology key."""


def _is_part(pod: Pod, part: str) -> bool:
    """Whether a member was made of this template of its owner."""
    if labels.LEADER_WORKER_SET in pod.labels:
        return (pod.labels.get(labels.LEADER_WORKER_INDEX) == "0") == (part == "leader")
    return pod.labels.get(labels.JOB_SET_PART) == part


_SHARED_MARKS: Final = (
    *(labels.LEADER_WORKER_SET, labels.LEADER_WORKER_GROUP, labels.LEADER_WORKER_KEY),
    *(labels.JOB_SET, labels.JOB_SET_KEY),
)
"""Labels that all members of a group have, and that rules between groups select."""


def _member(first: Pod, template: MemberTemplate, name: str, created_at: datetime | None) -> Pod:
    marks = {key: first.labels[key] for key in _SHARED_MARKS if key in first.labels}
    if labels.JOB_SET_TOPOLOGY not in first.annotations:
        marks.pop(labels.JOB_SET_KEY, None)
    return Pod(
        namespace=first.namespace,
        name=name,
        spec=template.spec,
        created_at=created_at,
        labels=template.labels | marks,
        annotations={labels.MEMBER_TO_COME: "true"},
        is_marked_unschedulable=True,
    )


def kept_together(snapshot: Snapshot) -> dict[str, Gang]:
    """Return key of a running member → its group, for groups that no member may leave: all would start again.

    Kubernetes' eviction API reads no `disruptionMode` (played on 1.37), so whoever moves pods has to keep to it.
    """
    gangs = (gang for gang in gangs_of(snapshot) if gang.runs and (gang.disrupts_all or not gang.moves_alone))
    return {pod.key: gang for gang in gangs for pod in gang.pods if pod.node_name and not pod.is_terminal}


# Names the groups whose members leave their nodes.


def members_of(gangs: Iterable[Gang]) -> dict[str, Gang]:
    """Return key of a pod → its group, for members that are there."""
    return {pod.key: gang for gang in gangs for pod in (*gang.ending, *gang.pods)}


def groups_leaving(members: Mapping[str, Gang], pods: Iterable[Pod], *, may_wait: bool) -> tuple[GroupLeaves, ...]:
    """Return the groups that have members among pods which leave their nodes, by name.

    Args:
        members: Each member's group (`members_of`).
        pods: The pods.
        may_wait: Whether the drain leaves members alone until its deadline, so that their group may end first.
    """
    gangs = [members[pod.key] for pod in pods if not pod.is_terminal and pod.key in members]
    leaving = Counter(gang.identity for gang in gangs)
    by_identity = {gang.identity: gang for gang in gangs}
    return tuple(
        sorted(
            GroupLeaves(gang.name, _fate(gang, may_wait=may_wait), leaving[identity], gang.total)
            for identity, gang in by_identity.items()
        )
    )


def _fate(gang: Gang, *, may_wait: bool) -> str:
    if not gang.has_run:
        return GroupFate.NOT_STARTED
    needs_all = gang.minimum > 0 or gang.disrupts_all
    return _fate_of_running(moves_alone=gang.moves_alone, may_wait=may_wait, needs_all=needs_all)


def _fate_of_running(*, moves_alone: bool, may_wait: bool, needs_all: bool) -> str:
    """Return what becomes of a group that runs; empty where nothing says that its members need each other."""
    if moves_alone:
        return GroupFate.RUNS_ON
    if may_wait:
        return GroupFate.MAY_END_FIRST
    return GroupFate.LOSES_THEM if needs_all else ""


def is_member(pod: Pod) -> bool:
    """Whether a pod that has not finished is in a group; marks of one may lack what makes it one, or say that there is none."""
    return names_group(pod) and not pod.is_terminal and next(_spellings(pod), None) is not None


def groups_named(pods: Iterable[Pod], sizes: Mapping[str, int], *, may_wait: bool) -> tuple[GroupLeaves, ...]:
    """Return the groups of a node's pods, by name, for who knows neither their objects nor the pods of other nodes.

    An object may say that its pods start one by one, so without it and a size nothing is known of the others.

    `sizes`: identity of a group → how many members it has, for those of which that is known.
    """
    leaves = []
    for (namespace, source, own_name), present in _by_group(filter(is_member, pods)).items():
        name, pod = f"{namespace}/{own_name}", present[0]
        stated = next(_spellings(pod)).minimum if source in _STATE_THE_TOTAL else None
        size = max(0, sizes.get(f"{source}/{name}", stated or 0))
        moves_alone = pod.annotations.get(labels.GROUP_DISRUPTION) == "single"
        needs_all = size > 0 or source not in _OF_OBJECTS
        fate = _fate_of_running(moves_alone=moves_alone, may_wait=may_wait, needs_all=needs_all)
        leaves.append(GroupLeaves(name, fate, len(present), size))
    return tuple(sorted(leaves))


_STATE_THE_TOTAL: Final = (GroupSource.KUEUE, GroupSource.LEADER_WORKER_SET)
"""Ways of writing by which each member says how many there are."""
