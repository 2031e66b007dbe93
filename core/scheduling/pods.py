"""Pods as the planner sees them: what they demand, their volumes and preferences, and which are alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec

from core import labels
from core.model.plan import Unschedulable, WaitingPod
from core.model.pod import (
    DO_NOT_SCHEDULE,
    LabelSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodSpec,
    PreferredTerm,
    TopologySpread,
    WeightedPodAffinityTerm,
)
from core.model.snapshot import Service, Snapshot
from core.model.values.requirements import Requirement, requirement_fault
from core.model.values.taints import PREFER_NO_SCHEDULE, Toleration
from core.reasons.code import Refusal, Stated
from core.reasons.pods import (
    NAMES_NODES,
    NO_ALTERNATIVE,
    ROOM_THERE,
    WANTS_NO_POOL,
    HasResourceClaims,
    LabelRestricted,
    PodReason,
    VolumesInvalid,
)
from core.scheduling.primitives import PodGroupId, RequirementId, ResourceAxis, StepId, TopologyGroupId, Vector
from core.scheduling.volume_binding import VolumeNeeds

# The cluster's default topology spread constraints, for pods that have none of their own.


_WORKLOADS = ("ReplicationController", "ReplicaSet", "StatefulSet", "Deployment")
"""Kinds whose selector is used; pods expanded from a Deployment in a file are owned by it directly."""


class DefaultSpreads:
    """Gives a pod the default constraints, selecting what its Services and its controller select (Kubernetes)."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._defaults = snapshot.options.default_spreads
        self._may_bind = snapshot.options.requires_default_spreads
        self._services = _by_label(snapshot.services)
        self._workloads = {(w.namespace, w.kind, w.name): w.selector for w in snapshot.workload_selectors}

    def of(self, pod: Pod) -> tuple[TopologySpread, ...]:
        """Return the pod's constraints: its own, or the defaults if it has none and something selects it."""
        if pod.spec.spreads or not self._defaults:
            return pod.spec.spreads
        selector = self._selector(pod)
        if selector is None:
            return ()
        return tuple(msgspec.structs.replace(default, selector=selector) for default in self._defaults)

    def required_of(self, pod: Pod) -> tuple[TopologySpread, ...]:
        """Return those of the pod's constraints that must hold."""
        # Defaults that need not hold are common, and their selectors need not be found.
        if not pod.spec.spreads and not self._may_bind:
            return ()
        return tuple(spread for spread in self.of(pod) if spread.when_unsatisfiable == DO_NOT_SCHEDULE)

    def as_own(self, pods: Iterable[Pod]) -> tuple[Pod, ...]:
        """Return the pods, where those with default constraints that must hold have these as their own.

        Pods that shared a spec still do if their constraints are equal.
        """
        if not self._may_bind:
            return tuple(pods)
        spreads_of: dict[tuple[object, ...], tuple[TopologySpread, ...]] = {}
        specs: dict[tuple[int, tuple[TopologySpread, ...]], PodSpec] = {}
        owned = []
        for pod in pods:
            if pod.spec.spreads:
                owned.append(pod)
                continue
            question = (pod.namespace, tuple(pod.labels.items()), pod.owners)
            spreads = spreads_of.get(question)
            if spreads is None:
                spreads = spreads_of[question] = self.required_of(pod)
            spec = specs.get((id(pod.spec), spreads))
            if spec is None:
                spec = specs[id(pod.spec), spreads] = _with_spreads(pod.spec, spreads)
            owned.append(pod if spec is pod.spec else msgspec.structs.replace(pod, spec=spec))
        return tuple(owned)

    def _selector(self, pod: Pod) -> LabelSelector | None:
        parts: set[Requirement] = set()
        for label in pod.labels.items():
            for service in self._services.get((pod.namespace, *label), ()):
                if service.selector.items() <= pod.labels.items():
                    parts.update(Requirement(key, False, (value,)) for key, value in service.selector.items())
        for owner in pod.owners:
            if owner.is_controller and owner.kind in _WORKLOADS:
                workload = self._workloads.get((pod.namespace, owner.kind, owner.name))
                parts.update(workload.requirements if workload is not None else ())
        return LabelSelector(tuple(sorted(parts))) if parts else None


def _with_spreads(spec: PodSpec, spreads: tuple[TopologySpread, ...]) -> PodSpec:
    return msgspec.structs.replace(spec, spreads=spreads) if spreads else spec


def _by_label(services: Iterable[Service]) -> dict[tuple[str, str, str], list[Service]]:
    """Return namespace, label and value → the Services whose selector begins with it: a thousand are not read for each pod."""
    by_label: dict[tuple[str, str, str], list[Service]] = {}
    for service in services:
        for label in list(service.selector.items())[:1]:
            by_label.setdefault((service.namespace, *label), []).append(service)
    return by_label


# Lists a pod's demands at each relaxation step; each step gives up one more preference (Karpenter, preferences).


_Weighted = TypeVar("_Weighted", PreferredTerm, WeightedPodAffinityTerm)

TOLERATE_PREFERENCES: Final = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)


class PodDemands(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a pod demands at one relaxation step, including the preferences that it has not given up."""

    terms: tuple[NodeSelectorTerm, ...]
    preferred_terms: tuple[PreferredTerm, ...]
    spreads: tuple[TopologySpread, ...]
    affinity: tuple[PodAffinityTerm, ...]
    anti_affinity: tuple[PodAffinityTerm, ...]
    preferred_affinity: tuple[WeightedPodAffinityTerm, ...]
    preferred_anti_affinity: tuple[WeightedPodAffinityTerm, ...]
    tolerations: tuple[Toleration, ...]


def usable_terms(spec: PodSpec) -> tuple[NodeSelectorTerm, ...]:
    """Return the alternatives of the required node affinity that a node could meet: with expressions, without fields."""
    return tuple(term for term in spec.required_terms if term.requirements and not term.uses_fields)


def required_alternatives(spec: PodSpec) -> tuple[tuple[Requirement, ...], ...]:
    """Return the node selector combined with each alternative of the required node affinity; empty if none can be met."""
    terms = usable_terms(spec)
    if spec.required_terms and not terms:
        return ()
    return tuple((*spec.node_selector, *term.requirements) for term in terms) or (spec.node_selector,)


def relaxation_steps(
    spec: PodSpec, spreads: tuple[TopologySpread, ...], *, respect: bool, tolerate_at_last: bool
) -> Iterator[PodDemands]:
    """Return the demands of each step: first everything, then one preference less at a time.

    Order: all alternatives of the required node affinity except the last, preferred pod affinity, preferred pod anti-affinity,
    preferred node affinity (the heaviest first), ScheduleAnyway spreads, finally tolerating PreferNoSchedule. Karpenter stops
    there; here each dropped alternative is then tried once more without any preference.

    Args:
        spec: The pod.
        spreads: Its spread constraints, cluster defaults included.
        respect: Whether preferences are respected (`--preference-policy`).
        tolerate_at_last: Whether any taint with effect PreferNoSchedule exists.
    """
    hard = tuple(s for s in spreads if s.when_unsatisfiable == DO_NOT_SCHEDULE)
    demands = PodDemands(
        terms=usable_terms(spec),
        preferred_terms=_heaviest_first(spec.preferred_terms) if respect else (),
        spreads=spreads if respect else hard,
        affinity=spec.affinity,
        anti_affinity=spec.anti_affinity,
        preferred_affinity=_heaviest_first(spec.preferred_affinity) if respect else (),
        preferred_anti_affinity=_heaviest_first(spec.preferred_anti_affinity) if respect else (),
        tolerations=spec.tolerations,
    )
    step: PodDemands | None = demands
    last = demands
    while step is not None:
        yield step
        last, step = step, _relaxed(step, tolerate_at_last=tolerate_at_last)
    if _relaxed(msgspec.structs.replace(demands, terms=()), tolerate_at_last=tolerate_at_last) is not None:
        for dropped in range(len(demands.terms) - 1):
            yield msgspec.structs.replace(last, terms=demands.terms[dropped:])


def _relaxed(demands: PodDemands, *, tolerate_at_last: bool) -> PodDemands | None:
    replace = msgspec.structs.replace
    if len(demands.terms) > 1:
        return replace(demands, terms=demands.terms[1:])
    if demands.preferred_affinity:
        return replace(demands, preferred_affinity=demands.preferred_affinity[1:])
    if demands.preferred_anti_affinity:
        return replace(demands, preferred_anti_affinity=demands.preferred_anti_affinity[1:])
    if demands.preferred_terms:
        return replace(demands, preferred_terms=demands.preferred_terms[1:])
    soft = [i for i, spread in enumerate(demands.spreads) if spread.when_unsatisfiable != DO_NOT_SCHEDULE]
    if soft:
        return replace(demands, spreads=_without_swapping(demands.spreads, soft[0]))
    if tolerate_at_last and TOLERATE_PREFERENCES not in demands.tolerations:
        return replace(demands, tolerations=(*demands.tolerations, TOLERATE_PREFERENCES))
    return None


def _without_swapping(spreads: tuple[TopologySpread, ...], index: int) -> tuple[TopologySpread, ...]:
    """Remove a spread like Karpenter: the last element fills the gap, which determines what is dropped next."""
    moved = list(spreads)
    moved[index] = moved[-1]
    return tuple(moved[:-1])


def _heaviest_first(terms: tuple[_Weighted, ...]) -> tuple[_Weighted, ...]:
    return tuple(sorted(terms, key=lambda term: -term.weight))


# Groups of pods that are equal for scheduling: most pods of a workload differ only in their names.


ConstraintFacts = tuple[tuple[type, Hashable], ...]
"""Constraint → what it reads of a pod besides its spec, namespace and labels."""


class PodSignature(msgspec.Struct, eq=False):
    """Pods of one namespace with equal specs except for requests, and equal labels among those that any selector reads.

    Attributes:
        spreads: The spread constraints, those of the cluster's defaults included.
        facts: Constraint → what else it reads of a pod.
        daemons_near: DaemonSets whose pod on a new node meets the required affinity of these pods, by position.
        daemons_away: DaemonSets whose pod excludes these pods from its node by an anti-affinity, of one or the other; each with
            the topology keys.
        shared_claims: Unbound claims that further pods use: the volume's zone is that of the first.
        selected_by: Numbers of the topology groups whose selector picks these pods.
        domain_keys: Topology keys except the hostname, along which a hard rule selects these pods.
        repelled_by: Numbers of the inverse groups among `selected_by`.
        avoids: Numbers of the inverse groups that these pods own.
        bound: Node position → how many of them count there already.
        ending: Node position → how many more of them terminate there; spreads do not count these.
    """

    index: int
    namespace: str
    labels: Mapping[str, str]
    spec: PodSpec
    spreads: tuple[TopologySpread, ...]
    facts: Mapping[type, Hashable] = msgspec.field(default_factory=dict)
    shared_claims: tuple[str, ...] = ()
    daemons_near: tuple[int, ...] = ()
    daemons_away: tuple[tuple[int, tuple[str, ...]], ...] = ()
    selected_by: tuple[TopologyGroupId, ...] = ()
    domain_keys: tuple[str, ...] = ()
    repelled_by: tuple[TopologyGroupId, ...] = ()
    avoids: tuple[TopologyGroupId, ...] = ()
    bound: dict[int, int] = msgspec.field(default_factory=dict)
    ending: dict[int, int] = msgspec.field(default_factory=dict)

    def counted(self, *, with_ending: bool) -> Iterator[tuple[int, int]]:
        """Return node position and number of the pods that count there, terminating ones only if requested."""
        yield from self.bound.items()
        if with_ending:
            yield from self.ending.items()

    def may_run_anywhere(self, key: str) -> bool:
        """Whether the pods' own required node affinity does not restrict a label."""
        alternatives = required_alternatives(self.spec)
        return bool(alternatives) and all(
            requirement.key != key for alternative in alternatives for requirement in alternative
        )

    def may_run_at(self, key: str, value: str) -> bool:
        """Whether the pods' own required node affinity admits this value of a label (volumes and preferences aside)."""
        alternatives = required_alternatives(self.spec)
        return any(
            all(requirement.has(value) for requirement in alternative if requirement.key == key)
            for alternative in alternatives
        )


class TopologyRule(msgspec.Struct, frozen=True, eq=False):
    """One topology group that a pod has to obey; `selects_self` if the rule also selects the pod itself.

    Attributes:
        together: The groups of all terms of a required affinity with several: a pod is the first of its kind only if all of
            them are empty.
        by_daemons: Whether the pod of a DaemonSet on the new node meets it.
    """

    group: TopologyGroupId
    kind: str
    key: str
    is_hostname: bool
    selects_self: bool
    together: tuple[TopologyGroupId, ...] = ()
    by_daemons: bool = False


class RelaxationStep(msgspec.Struct, eq=False):
    """What pods demand after giving up some of their preferences.

    Attributes:
        index: Its number among all steps of the snapshot.
        number: Its place among the steps of its pods.
        alternatives: Numbers of the requirements, one for each alternative of the volumes.
        host_rules, zone_rules: The rules in force, including inverse ones, by whether each node is a domain.
        keys: Topology keys of which a new node must have one value.
        is_monotone: Whether a failure is permanent as pods are added: true without affinity and spread along shared domains.
    """

    index: StepId
    number: int
    demands: PodDemands
    alternatives: tuple[RequirementId, ...]
    host_rules: tuple[TopologyRule, ...]
    zone_rules: tuple[TopologyRule, ...]
    keys: tuple[str, ...]
    is_monotone: bool


def with_all_preferences(steps: Sequence[RelaxationStep]) -> tuple[RelaxationStep, ...]:
    """Return the steps that relax only alternatives of the required node affinity; none if there is only one alternative."""
    if not steps or len(steps[0].demands.terms) < 2:
        return ()
    demands = msgspec.structs.replace(steps[0].demands, terms=())
    return tuple(step for step in steps if msgspec.structs.replace(step.demands, terms=()) == demands)


class PodGroup(msgspec.Struct, eq=False):
    """Equal pods, which share all results: a signature, the requests of one pod, and the requirements of its volumes.

    Attributes:
        steps: Their relaxation steps; shared by groups that differ only in their requests.
        refusal: Why no new node can help; without steps, an existing one cannot, either. None if one can.
        is_plain: Whether no constraint (`core.scheduling.constraints`) concerns the pods.
    """

    index: PodGroupId
    signature: PodSignature
    requests: Vector
    volumes: VolumeNeeds
    steps: tuple[RelaxationStep, ...] = ()
    refusal: Refusal | None = None
    is_plain: bool = True

    @property
    def topology_keys(self) -> tuple[str, ...]:
        """Topology keys except the hostname, along which the pods' required rules or those that count them apply."""
        return self.steps[-1].keys if self.steps else ()


class Avoids(IntEnum):
    """Which existing nodes do not count as room for a pod, although kube-scheduler may bind it there."""

    NO_NODE = 0
    """It waits: kube-scheduler binds it in any case."""

    UNPROVEN = 1
    """It leaves a node at any cost. No claim has these nodes and nothing runs there, so that no kubelet may be behind them."""

    RECENTLY_CHANGED = 2
    """Consolidation moves it: also nodes whose pods changed within `consolidateAfter`."""


class PendingGroup(msgspec.Struct, eq=False):
    """Equal pods that wait for a place, in the order of placement.

    Attributes:
        avoids: Which nodes are no room for them.
        is_displaced: Whether a target moves them: they are placed after the pods that wait in any case, and share no new node
            with those.
        avoids_drained_later: Whether they leave a node at any cost, so that they go to nodes which the stored target drains
            later only if nothing else can hold them: they would move twice (docs/engineering/handbook/planning.md).
        is_released: Whether a target lets them leave a domain that has too many of them: they are placed once all pods that
            keep their domains are counted there (docs/engineering/handbook/command-validation.md).
        turn: The turn of the group that starts together to which they belong; None for all other pods, which come later.
        may_wait: Whether they need no node yet, so that they take room last.
        takes_over: Whether they have a free volume that others gave up, so that they come after these others.
    """

    pod_group: PodGroup
    pods: list[Pod]
    avoids: Avoids = Avoids.NO_NODE
    is_displaced: bool = False
    avoids_drained_later: bool = False
    is_released: bool = False
    placed: int = 0
    turn: int | None = None
    may_wait: bool = False
    takes_over: bool = False

    @property
    def avoids_recently_changed(self) -> bool:
        """Whether consolidation moves them."""
        return self.avoids == Avoids.RECENTLY_CHANGED

    @property
    def waiting(self) -> int:
        """Return how many have no place yet."""
        return len(self.pods) - self.placed


class Holds(msgspec.Struct, frozen=True):
    """What caps, and pods that may wait, change about a plan.

    Attributes:
        held: Key of a pod for which nothing is planned → why.
        waiting: Key of a pod that may wait → how long, and what its node would cost at once.
        saving: Key of a pod for which no on-demand node is bought → the cap whose period would end too high.
        sized_for: Names of the caps whose pods get only nodes for which the cap has room.
        plans: How many plans were made again for caps.
    """

    held: Mapping[str, Unschedulable] = {}
    waiting: Mapping[str, WaitingPod] = {}
    saving: Mapping[str, str] = {}
    sized_for: frozenset[str] = frozenset()
    plans: int = 0


NO_HOLDS: Final = Holds()


# Assigns each pod its signature: everything that scheduling reads of it, except its requests and volumes.


class SizedSignature(msgspec.Struct, eq=False):
    """Everything that pods of a group have in common except their volumes.

    Attributes:
        group: The cached group of pods without volumes: clusters may have a group for every pod.
    """

    signature: PodSignature
    requests: Vector
    group: PodGroup | None = None


_NO_FACTS: Final[ConstraintFacts] = ()

Question = tuple[int, str, tuple[str | None, ...], tuple[TopologySpread, ...] | None, ConstraintFacts, tuple[str, ...]]
"""What sorts a pod: the identity of its spec, its namespace, the labels that any rule reads, default spreads, facts, and shared
claims."""


QUESTIONS_KEPT: Final = 10_000
"""How many questions are kept to find an equal one; a cluster of 300 nodes has some hundreds."""


class KnownQuestions:
    """The questions of one snapshot's pods, for those that the next snapshot has unchanged; most equal ones are one object."""

    def __init__(self) -> None:
        self._keys: Sequence[str] = ()
        self._known: dict[int, tuple[Pod, Question]] = {}
        self._distinct: dict[Question, Question] = {}

    def of(self, pods: Iterable[Pod], keys: Sequence[str]) -> Mapping[int, tuple[Pod, Question]]:
        """Return identity → pod and its question, in the order of the pods, by the labels of these keys alone."""
        before, self._keys = self._known if self._keys == keys else {}, keys
        if len(self._distinct) > QUESTIONS_KEPT:
            self._distinct.clear()
        # An entry keeps its pod alive, so no other pod has its identity.
        self._known = {id(pod): before.get(id(pod)) or (pod, self._question(pod)) for pod in pods}
        return self._known

    def _question(self, pod: Pod) -> Question:
        question = id(pod.spec), pod.namespace, tuple(map(pod.labels.get, self._keys)), None, _NO_FACTS, ()
        return self._distinct.setdefault(question, question)


class PodSignatures:
    """The signatures of all pods of a snapshot, numbered in the order of the given pods.

    Attributes:
        read_node_names: Whether any pod selects nodes by name.
        have_pod_affinity: Whether any pod has a required affinity or anti-affinity.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        pods: Sequence[Pod],
        axis: ResourceAxis,
        reads: Callable[[Pod], ConstraintFacts] | None = None,
        known: KnownQuestions | None = None,
        shared_claims: Mapping[int, tuple[str, ...]] = MappingProxyType({}),
    ) -> None:
        """Sort the pods.

        Args:
            snapshot: The cluster.
            pods: Pods that need a place, and running pods.
            axis: The relevant resources.
            reads: What constraints read of a pod besides its spec, namespace and labels.
            known: The questions of an earlier snapshot's pods, if any are kept.
            shared_claims: Identity of a pod → its unbound claims that further pods use.
        """
        self._shared = shared_claims
        self._defaults = DefaultSpreads(snapshot)
        self._reads = reads
        self._has_defaults = bool(snapshot.options.default_spreads)
        specs = {id(pod.spec): pod.spec for pod in pods}
        numbers: dict[tuple[object, ...], int] = {}
        # A nominated pod keeps its room from pods that do not outrank it.
        ranks = any(pod.nominated_node_name and not pod.node_name for pod in snapshot.pods)
        self._terms = {
            identity: numbers.setdefault((_terms(spec), spec.priority if ranks else 0), len(numbers))
            for identity, spec in specs.items()
        }
        self._requests = {identity: axis.vector(spec.requests) for identity, spec in specs.items()}
        distinct = {self._terms[identity]: spec for identity, spec in specs.items()}
        self._read_keys = sorted(_label_keys_read(snapshot, distinct.values()))
        self.have_pod_affinity = any(spec.affinity or spec.anti_affinity for spec in distinct.values())
        self.read_node_names = any(_reads_node_name(spec) for spec in distinct.values())
        self._signatures: dict[tuple[object, ...], PodSignature] = {}
        self._sized_signatures: dict[Question, SizedSignature] = {}
        if known is None or self._has_defaults or reads is not None or shared_claims:
            self._of = {id(pod): sized for pod, sized in zip(pods, self._all_sized(pods), strict=True)}
        else:
            self._of = self._known_sized(known.of(pods, self._read_keys))

    @property
    def all(self) -> list[PodSignature]:
        """Every signature, by index."""
        return list(self._signatures.values())

    def of(self, pod: Pod) -> SizedSignature:
        """Return the signature of a pod of the snapshot; lookup by object identity is faster than by name."""
        return self._of[id(pod)]

    def requests(self, pod: Pod) -> Vector:
        """Return the requests of a pod of the snapshot."""
        return self._requests[id(pod.spec)]

    def _all_sized(self, pods: Iterable[Pod]) -> Iterator[SizedSignature]:
        sized, keys = self._sized_signatures, self._read_keys
        spreads: tuple[TopologySpread, ...] | None = None
        facts = _NO_FACTS
        for pod in pods:
            if self._has_defaults:
                spreads = self._defaults.of(pod)
            if self._reads:
                facts = self._reads(pod)
            sharing = self._shared.get(id(pod), ()) if self._shared else ()
            question = id(pod.spec), pod.namespace, tuple(map(pod.labels.get, keys)), spreads, facts, sharing
            yield sized.get(question) or self._new(question, pod)

    def _known_sized(self, questions: Mapping[int, tuple[Pod, Question]]) -> dict[int, SizedSignature]:
        """Return identity of each pod → its signature; a question is compared by value once for each of its objects."""
        cached = self._sized_signatures
        by_question: dict[int, SizedSignature] = {}
        sizes = {}
        for identity, (pod, question) in questions.items():
            sized = by_question.get(id(question))
            if sized is None:
                sized = by_question[id(question)] = cached.get(question) or self._new(question, pod)
            sizes[identity] = sized
        return sizes

    def _new(self, question: Question, pod: Pod) -> SizedSignature:
        terms = self._terms[id(pod.spec)]
        signature = self._signature((terms, *question[1:]), pod, question)
        fresh = self._sized_signatures[question] = SizedSignature(signature, self._requests[id(pod.spec)])
        return fresh

    def _signature(
        self,
        question: tuple[object, ...],
        pod: Pod,
        answers: Question,
    ) -> PodSignature:
        signature = self._signatures.get(question)
        spreads, facts, sharing = answers[3:]
        if signature is None:
            read = {key: pod.labels[key] for key in self._read_keys if key in pod.labels}
            read |= {shared_claim_label(name): "" for name in sharing}
            pod_spreads = pod.spec.spreads if spreads is None else spreads
            signature = self._signatures[question] = PodSignature(
                len(self._signatures), pod.namespace, read, pod.spec, pod_spreads, dict(facts), sharing
            )
        return signature


_OF_CLAIM: Final = "claim:"


def shared_claim_label(claim: str) -> str:
    """Return the label by which the pods that use an unbound claim select one another; no label of a pod can have this key."""
    return f"{_OF_CLAIM}{claim}"


def is_of_shared_claim(selector: LabelSelector) -> bool:
    """Whether a selector selects the pods that use an unbound claim."""
    return any(requirement.key.startswith(_OF_CLAIM) for requirement in selector.requirements)


def _reads_node_name(spec: PodSpec) -> bool:
    terms = (*spec.required_terms, *(preference.term for preference in spec.preferred_terms))
    return any(requirement.key == labels.NODE_NAME for term in terms for requirement in term.requirements)


def _terms(spec: PodSpec) -> tuple[object, ...]:
    """Return everything in a spec that scheduling reads, except requests."""
    return (
        spec.node_selector,
        spec.required_terms,
        spec.preferred_terms,
        spec.tolerations,
        spec.spreads,
        spec.affinity,
        spec.anti_affinity,
        spec.preferred_affinity,
        spec.preferred_anti_affinity,
        spec.host_ports,
        spec.resource_claims,
        spec.problem,
        spec.problem_reason,
    )


def _label_keys_read(snapshot: Snapshot, specs: Iterable[PodSpec]) -> frozenset[str]:
    """Return the keys of pod labels that any rule reads; other labels do not distinguish signatures."""
    keys: set[str] = set()
    for spec in specs:
        for selector, extra in _selectors(spec, snapshot.options.default_spreads):
            keys.update(extra)
            keys.update(r.key for r in selector.requirements) if selector is not None else None
    for term in (term for daemon in snapshot.daemon_sets for term in daemon.spec.anti_affinity):
        keys.update((*term.match_label_keys, *term.mismatch_label_keys))
        keys.update(r.key for r in term.selector.requirements) if term.selector is not None else None
    if snapshot.options.default_spreads:
        keys.update(key for service in snapshot.services for key in service.selector)
        keys.update(r.key for w in snapshot.workload_selectors if w.selector for r in w.selector.requirements)
    return frozenset(keys)


def _selectors(
    spec: PodSpec, defaults: tuple[TopologySpread, ...]
) -> Iterator[tuple[LabelSelector | None, tuple[str, ...]]]:
    for spread in (*spec.spreads, *defaults):
        yield spread.selector, spread.match_label_keys
    weighted = (*spec.preferred_affinity, *spec.preferred_anti_affinity)
    for term in (*spec.affinity, *spec.anti_affinity, *(w.term for w in weighted)):
        yield term.selector, (*term.match_label_keys, *term.mismatch_label_keys)


PREFERRED_TERMS_MAX: Final = 2_048
"""The most terms of preferred pod affinity and anti-affinity in the different specs of one namespace's waiting pods.

Each term counts every pod that it selects, so their work grows with their number times that of the pods. Beyond it, preferences
between pods are given up at once: a preference never prevents.
"""


def within_preferences(pods: Sequence[Pod]) -> tuple[Pod, ...]:
    """Return the pods, without preferences between pods where a namespace has more of them than are counted."""
    terms: dict[str, int] = {}
    specs: dict[tuple[str, int], PodSpec] = {}
    admitted = []
    for pod in pods:
        spec = pod.spec
        if not (spec.preferred_affinity or spec.preferred_anti_affinity):
            admitted.append(pod)
            continue
        question = pod.namespace, id(spec)
        if question not in specs:
            number = len(spec.preferred_affinity) + len(spec.preferred_anti_affinity)
            total = terms[pod.namespace] = terms.get(pod.namespace, 0) + number
            plain = msgspec.structs.replace(spec, preferred_affinity=(), preferred_anti_affinity=())
            specs[question] = spec if total <= PREFERRED_TERMS_MAX else plain
        admitted.append(pod if specs[question] is spec else msgspec.structs.replace(pod, spec=specs[question]))
    return tuple(admitted)


# Recognizes pods that no node could help: Karpenter refuses to plan for them.


def why_unsupported(spec: PodSpec, needs: VolumeNeeds, well_known: frozenset[str]) -> Refusal | None:
    """Return why a pod cannot be planned for; None if it can.

    Args:
        spec: The pod.
        needs: The requirements of its volumes.
        well_known: Labels that every cloud node gets automatically.
    """
    if spec.problem:
        return Stated(PodReason.of(spec.problem_reason, PodReason.INVALID_POD), spec.problem)
    if spec.resource_claims:
        return HasResourceClaims(tuple(spec.resource_claims))
    alternatives = required_alternatives(spec)
    if not alternatives:
        return NO_ALTERNATIVE
    refusals = [_why_no_new_node(alternative, well_known) for alternative in alternatives]
    if all(refusals):
        return refusals[0]
    if needs.refusal is not None:
        return needs.refusal
    if any(_is_only_room_there(requirement) for pin in needs.alternatives for requirement in pin.values()):
        return ROOM_THERE
    requirements = (r for alternative in needs.alternatives for r in alternative.values() if r.key != labels.NODE_NAME)
    faults = map(requirement_fault, requirements)
    fault = next(filter(None, faults), "")
    return VolumesInvalid(fault) if fault else None


_ONLY_EXISTING: Final = frozenset(
    {PodReason.UNSUPPORTED_AFFINITY, PodReason.ONLY_ROOM_THERE, PodReason.OPTED_OUT, PodReason.RESTRICTED_LABEL}
)


def may_join_existing(refusal: Refusal, spec: PodSpec, needs: VolumeNeeds) -> bool:
    """Whether an existing node may take a pod for which no node is launched: kube-scheduler looks at these alone."""
    return refusal.reason in _ONLY_EXISTING and needs.refusal is None and bool(required_alternatives(spec))


def _is_only_room_there(requirement: Requirement) -> bool:
    """Whether a requirement admits no new node, and no node that was bought for a ProvisioningRequest."""
    return requirement.key == labels.PROVISIONING_REQUEST and requirement.operator == "DoesNotExist"


def _why_no_new_node(alternative: Iterable[Requirement], well_known: frozenset[str]) -> Refusal | None:
    """Return why no new node can meet one alternative of the node affinity, whatever NodePools there are; None if one can."""
    for requirement in alternative:
        if requirement.key == labels.NODE_NAME and requirement.is_finite:
            return NAMES_NODES
        if _is_only_room_there(requirement):
            return ROOM_THERE
        if requirement.key == labels.NODEPOOL and requirement.operator == "DoesNotExist":
            return WANTS_NO_POOL
        if requirement.key == labels.HOSTNAME and requirement.operator == "NotIn":
            continue  # a new node has a name of its own
        if labels.is_restricted(requirement.key) and requirement.key not in well_known:
            return LabelRestricted(requirement.key)
    return None
