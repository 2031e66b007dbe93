"""Sets aside the objects that make a decision raise, so that each costs nothing but itself.

Every object of a snapshot is written by somebody. If a decision about a snapshot raises, some object of it is the cause, or
several together: they are found by planning without the newest objects, and the decision is made as if they were not there.
Where leaving an object out would be unsafe, it stays in a form that protects: a bound pod keeps its node and its requests, a
node takes no pods, a budget protects its namespace, a NodePool or EC2NodeClass launches nothing. A node without its claim, or
with such a pod, is not disrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from heapq import heapify, heappop, heapreplace
from typing import Any, Final, Generic, TypeVar

import msgspec

from core.errors import InvalidInputError, OutOfTimeError
from core.model.node_pool import NodeClass, NodePool
from core.model.pod import LabelSelector, Pod, PodSpec
from core.model.snapshot import Node, PodDisruptionBudget, Snapshot
from core.model.values.taints import NO_SCHEDULE, Taint
from core.reasons.pods import PodReason
from core.reasons.runs import RunReason

Result = TypeVar("Result")

CULPRITS_MAX: Final = 8
"""The most culprits that are searched for in one decision; if there are more, all newer objects wait for the next."""

_CLOSED: Final = Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE)
_ALWAYS_THERE: Final = datetime.min.replace(tzinfo=UTC)
"""The age of objects whose creation a snapshot does not have: they are the last to be suspected."""

_DROPPED: Final = {
    "node_claims": "NodeClaim",
    "overlays": "NodeOverlay",
    "buffers": "CapacityBuffer",
    "provisioning_requests": "ProvisioningRequest",
    "daemon_sets": "DaemonSet",
    "volumes": "PersistentVolume",
    "volume_claims": "PersistentVolumeClaim",
    "storage_classes": "StorageClass",
    "attachments": "VolumeAttachment",
    "namespaces": "Namespace",
    "services": "Service",
    "workload_selectors": "",
}
"""Field of a snapshot → kind of its objects, for kinds that can be left out entirely."""


class SetAside(msgspec.Struct, frozen=True, order=True):
    """An object that is set aside.

    Attributes:
        object: Kind and name, such as `Pod/shop/web-1` or `Node/ip-10-0-0-1`.
        reason: A code of `core.reasons`.
        message: For people: the exception, without anything of the object.
    """

    object: str
    reason: str
    message: str

    @property
    def pod(self) -> str:
        """The key of the pod, empty for another kind."""
        kind, _, name = self.object.partition("/")
        return name if kind == "Pod" else ""


class SetAsideError(InvalidInputError):
    """Stands for the exception of an object where its form that protects is made."""


class Exclusion(msgspec.Struct, frozen=True):
    """How objects were set aside, so that the same can be done to another snapshot that has them.

    Attributes:
        set_aside: The objects.
        is_bare: Whether nothing of them was used but their names and places.
        message: What their forms say.
    """

    set_aside: tuple[SetAside, ...]
    is_bare: bool
    message: str


class Contained(msgspec.Struct, Generic[Result], frozen=True):
    """A decision, the snapshot that it is about, and what was set aside for it."""

    result: Result
    snapshot: Snapshot
    exclusion: Exclusion | None = None

    @property
    def set_aside(self) -> tuple[SetAside, ...]:
        """The objects that were set aside."""
        return self.exclusion.set_aside if self.exclusion is not None else ()


def internal_error(name: str, error: BaseException) -> SetAside:
    """Return an object as set aside because of an exception. Only its class is shown: its text may quote the object."""
    return SetAside(name, RunReason.INTERNAL_ERROR, f"it caused {type(error).__name__}, so it is ignored")


def contained(
    snapshot: Snapshot,
    decide: Callable[[Snapshot], Result],
    *,
    probe: Callable[[Snapshot], object] | None = None,
    is_out_of_time: Callable[[], bool] = lambda: False,
) -> Contained[Result]:
    """Return the decision about a snapshot, without the objects that make it raise.

    Args:
        snapshot: The input.
        decide: Makes the decision.
        probe: A faster decision that raises for the same objects, to find them; by default `decide`.
        is_out_of_time: Whether to end the search: then everything newer than the first culprit is left out of this decision.

    Raises:
        OutOfTimeError, MemoryError: As `decide` does: no object by itself is the cause.
        Exception: What `decide` raised, if it also raises without any object that may be set aside.
    """
    first = _tried(decide, snapshot)
    if isinstance(first, _Raised):
        return _without_culprits(snapshot, decide, probe or decide, first.error, is_out_of_time)
    return Contained(first, snapshot)


class _Raised(msgspec.Struct, frozen=True):
    """Stands for the result of a decision that raised."""

    error: Exception


def _tried(decide: Callable[[Snapshot], Result], snapshot: Snapshot) -> Result | _Raised:
    """Return the decision or what it raised; lack of time and memory is raised, for no object by itself is the cause."""
    try:
        return decide(snapshot)
    except (OutOfTimeError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever an object causes is the object's
        return _Raised(error)


def _without_culprits(
    snapshot: Snapshot,
    decide: Callable[[Snapshot], Result],
    probe: Callable[[Snapshot], object],
    first: Exception,
    is_out_of_time: Callable[[], bool],
) -> Contained[Result]:
    suspects = _suspects(snapshot)
    forms = (_protective, _bare)
    form = next((form for form in forms if not _raises(probe, form(snapshot, suspects, first))), None)
    if form is None:
        raise first
    culprits: list[_Suspect] = []
    set_aside: list[SetAside] = []
    error: Exception = first
    for _ in range(CULPRITS_MAX):
        low, high = 0, len(suspects)  # the oldest `low` of them raise nothing; with `high` it raises
        while high - low > 1 and not is_out_of_time():
            middle = (low + high) // 2
            tried = _tried(probe, form(snapshot, (*culprits, *suspects[middle:]), error))
            low, high, error = (low, middle, tried.error) if isinstance(tried, _Raised) else (middle, high, error)
        out = suspects[low:high]
        culprits += out
        set_aside += [internal_error(name, error) for suspect in out for name in suspect.names]
        suspects = [*suspects[:low], *suspects[high:]]
        rest = form(snapshot, culprits, error)
        result = _tried(decide, rest)
        if not isinstance(result, _Raised):
            return Contained(result, rest, _exclusion(set_aside, form, error))
        error = result.error  # there is a further culprit
    rest = form(snapshot, (*culprits, *suspects), error)
    set_aside += [internal_error(name, error) for suspect in suspects for name in suspect.names]
    return Contained(decide(rest), rest, _exclusion(set_aside, form, error))


def _exclusion(set_aside: Iterable[SetAside], form: object, error: Exception) -> Exclusion:
    return Exclusion(tuple(sorted(set(set_aside))), is_bare=form is _bare, message=_message(error))


def excluding(snapshot: Snapshot, exclusion: Exclusion) -> Snapshot:
    """Return a snapshot with the same objects set aside in the same form; those that it does not have do not matter."""
    names = frozenset(aside.object for aside in exclusion.set_aside)
    chosen = []
    for suspect in _suspects(snapshot):
        positions = [n for n, name in zip(suspect.positions, suspect.names, strict=True) if name in names]
        if positions:
            chosen.append(msgspec.structs.replace(suspect, positions=tuple(positions)))
    forms = _BARE_FORMS if exclusion.is_bare else _FORMS
    return _with_forms(snapshot, chosen, forms, exclusion.message)


def _raises(probe: Callable[[Snapshot], object], snapshot: Snapshot) -> bool:
    return isinstance(_tried(probe, snapshot), _Raised)


class _Suspect(msgspec.Struct, frozen=True):
    """Objects that are set aside together: one, or equal pods.

    Attributes:
        field: The snapshot's field.
        positions: Their positions in it.
        names: What they are called.
        born: When the newest was created.
    """

    field: str
    positions: tuple[int, ...]
    names: tuple[str, ...]
    born: datetime


def _suspects(snapshot: Snapshot) -> list[_Suspect]:
    """Return everything that may be set aside, the oldest first."""
    suspects = [*_pod_groups(snapshot.pods)]
    kinds = {
        "nodes": "Node",
        "node_pools": "NodePool",
        "node_classes": "EC2NodeClass",
        "budgets": "PodDisruptionBudget",
    }
    for field, kind in {**kinds, **_DROPPED}.items():
        for position, obj in enumerate(getattr(snapshot, field)):
            born = getattr(obj, "created_at", None) or _ALWAYS_THERE
            suspects.append(_Suspect(field, (position,), (_name(kind, obj),), born))
    return sorted(suspects, key=lambda suspect: (suspect.born, suspect.field, suspect.positions))


def _pod_groups(pods: Sequence[Pod]) -> Iterable[_Suspect]:
    """Yield equal pods together, for what one of them causes all do."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for position, pod in enumerate(pods):
        question = (id(pod.spec), pod.namespace, tuple(sorted(pod.labels.items())), bool(pod.node_name), pod.phase)
        groups.setdefault((*question, pod.unreadable), []).append(position)
    for members in groups.values():
        names = tuple(f"Pod/{pods[position].key}" for position in members)
        born = max(pods[position].created_at or _ALWAYS_THERE for position in members)
        yield _Suspect("pods", tuple(members), names, born)


def _name(kind: str, obj: Any) -> str:
    parts = (kind or getattr(obj, "kind", ""), getattr(obj, "namespace", ""), obj.name)
    return "/".join(part for part in parts if part)


def _protective(snapshot: Snapshot, out: Iterable[_Suspect], error: Exception) -> Snapshot:
    """Return the snapshot with these objects in the form that protects."""
    return _with_forms(snapshot, out, _FORMS, _message(error))


def _bare(snapshot: Snapshot, out: Iterable[_Suspect], error: Exception) -> Snapshot:
    """Return the snapshot with nothing of these objects but their names and places."""
    return _with_forms(snapshot, out, _BARE_FORMS, _message(error))


def _with_forms(
    snapshot: Snapshot, out: Iterable[_Suspect], forms: Mapping[str, Callable[[Any, str], Any]], message: str
) -> Snapshot:
    positions: dict[str, set[int]] = {}
    for suspect in out:
        positions.setdefault(suspect.field, set()).update(suspect.positions)
    changed: dict[str, tuple[Any, ...]] = {}
    for field, chosen in positions.items():
        objects: Sequence[Any] = getattr(snapshot, field)
        if field in forms:
            form = forms[field]
            changed[field] = tuple(form(obj, message) if n in chosen else obj for n, obj in enumerate(objects))
        else:
            changed[field] = tuple(obj for n, obj in enumerate(objects) if n not in chosen)
    return msgspec.structs.replace(snapshot, **changed)


def _message(error: Exception) -> str:
    return f"it caused {type(error).__name__}"


def without_needs(pod: Pod, problem: str) -> Pod:
    """Return a pod with its identity, place and requests only; no node is planned for it, and its node stays."""
    spec = PodSpec(
        requests=pod.spec.requests,
        priority=pod.spec.priority,
        scheduler_name=pod.spec.scheduler_name,
        problem=problem,
        problem_reason=PodReason.SET_ASIDE,
    )
    return msgspec.structs.replace(pod, spec=spec, unreadable=problem)


def _bare_pod(pod: Pod, problem: str) -> Pod:
    spec = PodSpec(requests={"pods": 1}, problem=problem, problem_reason=PodReason.SET_ASIDE)
    bare = Pod(namespace=pod.namespace, name=pod.name, spec=spec, unreadable=problem)
    return msgspec.structs.replace(bare, node_name=pod.node_name, phase=pod.phase, owners=pod.owners)


def _closed_node(node: Node, problem: str) -> Node:
    return msgspec.structs.replace(node, taints=(*node.taints, _CLOSED), unreadable=problem)


def _bare_node(node: Node, problem: str) -> Node:
    return Node(name=node.name, provider_id=node.provider_id, taints=(_CLOSED,), unreadable=problem)


def protecting_budget(namespace: str, name: str) -> PodDisruptionBudget:
    """Return what stands for a budget that cannot be used. It may select any pod of its namespace, so it protects all."""
    return PodDisruptionBudget(
        namespace=namespace, name=name, selector=LabelSelector(), max_unavailable="0", disruptions_allowed=0
    )


def _protecting_form(budget: PodDisruptionBudget, _: str) -> PodDisruptionBudget:
    return protecting_budget(budget.namespace, budget.name)


_FORMS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "pods": without_needs,
    "nodes": _closed_node,
    "node_pools": lambda pool, problem: msgspec.structs.replace(pool, problem=problem),
    "node_classes": lambda node_class, problem: msgspec.structs.replace(node_class, problem=problem),
    "budgets": _protecting_form,
}
_BARE_FORMS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "pods": _bare_pod,
    "nodes": _bare_node,
    "node_pools": lambda pool, problem: NodePool(name=pool.name, problem=problem),
    "node_classes": lambda node_class, problem: NodeClass(name=node_class.name, problem=problem),
    "budgets": _protecting_form,
}


# Chooses which pods a plan is for when there is no time for all.


NO_TIME: Final = "the run had no time for it, and the next one begins with the oldest pods"


def effort_of(pod: Pod) -> int:
    """Return roughly how many plain pods take as long to plan as this one: each of its rules is tried with each place."""
    spec = pod.spec
    rules = len(spec.required_terms) + len(spec.preferred_terms) + len(spec.spreads)
    rules += len(spec.affinity) + len(spec.anti_affinity) + len(spec.preferred_affinity)
    return 1 + 2 * (rules + len(spec.preferred_anti_affinity))


def fair_slice(pods: Iterable[Pod], effort: int, tried: Collection[str] = ()) -> frozenset[str]:
    """Return the keys of as many pods as this effort allows, at least of one.

    They are the oldest of each namespace. The next is always of the namespace that has had the least effort, so that a
    namespace waits neither for the number nor for the rules of another's pods.

    Args:
        pods: Pods that need a place.
        effort: What all of them together may take, as `effort_of` counts.
        tried: Keys of pods that an earlier slice had and that got no place: they come after all others of their namespace.
    """
    by_namespace: dict[str, list[Pod]] = {}
    for pod in pods:
        by_namespace.setdefault(pod.namespace, []).append(pod)
    for members in by_namespace.values():
        members.sort(key=lambda pod: (pod.key in tried, pod.created_at or _ALWAYS_THERE, pod.key), reverse=True)
    turns = [(0, members[-1].created_at or _ALWAYS_THERE, namespace) for namespace, members in by_namespace.items()]
    heapify(turns)
    chosen, taken = list[str](), 0
    while turns and taken < effort:
        used, _, namespace = turns[0]
        members = by_namespace[namespace]
        pod = members.pop()
        chosen.append(pod.key)
        taken += effort_of(pod)
        if members:
            following = (used + effort_of(pod), members[-1].created_at or _ALWAYS_THERE, namespace)
            heapreplace(turns, following)
        else:
            heappop(turns)
    return frozenset(chosen)


class PodSlices:
    """How much effort one sandbox had time for, and which pods got no place although they were planned."""

    def __init__(self) -> None:
        self._effort: int | None = None
        self._tried: set[str] = set()

    def first(self, waiting: int) -> int:
        """Return the effort of the first plan: of all, or twice what there was time for when there was too little."""
        return waiting if self._effort is None else min(waiting, 2 * self._effort)

    def of(self, waiting: Sequence[Pod], effort: int) -> frozenset[str]:
        """Return the keys of so many pods; those that had their turn without getting a place come later."""
        self._tried.intersection_update(pod.key for pod in waiting)
        return fair_slice(waiting, max(1, effort), self._tried)

    def ended(self, chosen: Collection[str], effort: int, unplaced: Collection[str], *, is_whole: bool) -> None:
        """Note a plan: the next begins with the pods that this one had no time for."""
        if is_whole:
            self._effort = None
            self._tried = set()
            return
        self._effort = max(1, effort)
        self._tried |= set(chosen).intersection(unplaced)


def without_time_for(snapshot: Snapshot, waiting: Collection[str]) -> Snapshot:
    """Return the snapshot in which these pods wait for the next run (DeadlineReached): their rules are not even read."""
    if not waiting:
        return snapshot
    specs: dict[tuple[str, int], PodSpec] = {}
    pods = []
    for pod in snapshot.pods:
        if pod.key in waiting:
            question = pod.spec.scheduler_name, pod.spec.priority
            if question not in specs:
                specs[question] = PodSpec(
                    requests={"pods": 1},
                    scheduler_name=pod.spec.scheduler_name,
                    priority=pod.spec.priority,
                    problem=NO_TIME,
                    problem_reason=PodReason.DEADLINE_REACHED,
                )
            pods.append(msgspec.structs.replace(pod, spec=specs[question]))
        else:
            pods.append(pod)
    return msgspec.structs.replace(snapshot, pods=tuple(pods))
