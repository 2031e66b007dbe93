"""Binds pods to the nodes launched for them: which nodes are held, which pods may be bound, by kube-scheduler's rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core import labels
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.pod import (
    DEFAULT_SCHEDULER,
    DO_NOT_SCHEDULE,
    HONOR,
    HostPort,
    LabelSelector,
    Pod,
    PodAffinityTerm,
    TopologySpread,
    any_conflict,
)
from core.model.snapshot import Node
from core.model.values.taints import HELD, NO_EXECUTE, PREFER_NO_SCHEDULE
from core.pods import AFFINITIES_COUNT_TERMINATING, SPREADS_COUNT_TERMINATING, spread_selector, with_label_keys
from core.reasons.pods import BindingReason

# Recognizes pods that only kube-scheduler may bind, and nodes on which only it may bind.


CLOCKS_APART: Final = timedelta(seconds=1)
"""The largest clock difference between two sandboxes: one reads times that another wrote.

See docs/engineering/handbook/simulated-world.md.
"""

SEEN_WITHIN: Final = timedelta(seconds=1)
"""After this time, a kubelet has certainly seen a change of its node, and kube-scheduler a binding.

A kubelet rejects pods by the taints and labels in its cache; a scheduler that sees the open node before its bindings
overcommits it.
"""

SETTLES_WITHIN: Final = SEEN_WITHIN + CLOCKS_APART
"""`SEEN_WITHIN` after a time that another sandbox may have written."""


def is_left_to_scheduler(pod: Pod) -> bool:
    """Whether the pod needs something that only a scheduler provides or knows.

    This is another scheduler profile, a gate, a group that starts together, devices, volumes (their zones, attach limits and
    `selected-node`), or an affinity to namespaces selected by label.
    """
    spec = pod.spec
    asks = (
        spec.volumes
        or spec.resource_claims
        or spec.workload
        or spec.pod_group
        or spec.problem
        or pod.is_gated
        or pod.unreadable
    )
    if asks or spec.scheduler_name != DEFAULT_SCHEDULER or any("/" in name for name in spec.requests):
        return True
    return any(term.namespace_selector is not None for term in (*spec.affinity, *spec.anti_affinity))


def is_held(node: Node) -> bool:
    """Whether kube-scheduler is kept off the node until its pods are bound."""
    return any(taint.matches(HELD) for taint in node.taints)


def may_hold(record: ClaimRecord) -> bool:
    """Whether kube-scheduler may be kept off the claim's node until its pods are bound.

    Not if an agent that may not tolerate our taint must run first: one that removes a startup taint, or a device plugin. Not
    if the claim replaces nodes, either: their pods do not wait, but are evicted once the node is open.
    """
    if record.command:
        return False
    extended = any("/" in name and amount > 0 for name, amount in record.plan.resources.items())
    return bool(record.plan.pods) and not record.plan.startup_taints and not extended


def accepts_bindings(node: Node, now: datetime) -> bool:
    """Whether pods may be bound to the node. Its kubelet rejects pods that a NoExecute taint repels, or repelled just now."""
    is_closed = any(taint.effect == NO_EXECUTE for taint in node.taints)
    became_ready_now = node.ready_changed_at is not None and now - node.ready_changed_at < SETTLES_WITHIN
    return node.is_ready and node.deleted_at is None and is_held(node) and not is_closed and not became_ready_now


def is_seen_by_kubelet(record: ClaimRecord, now: datetime) -> bool:
    """Whether the kubelet has certainly seen the node in its ready state; another sandbox may have written the time."""
    since = record.moments.usable_at
    return since is not None and now - since >= SETTLES_WITHIN


def covers_plan(record: ClaimRecord, node: Node) -> bool:
    """Whether the node offers everything planned for it, including the requests of its daemons."""
    return all(node.allocatable.get(name, 0) >= amount for name, amount in record.plan.resources.items())


def lacking_resource(record: ClaimRecord, node: Node) -> str | None:
    """Return a planned resource that the node does not advertise at all yet, None if there is none."""
    planned = sorted(record.plan.resources.items())
    return next((name for name, amount in planned if amount > 0 and node.allocatable.get(name, 0) == 0), None)


# Selects the other pods that a pod's rule applies to.


class PodSelection(msgspec.Struct, frozen=True):
    """Pods selected by several selectors at once, each within namespaces; no namespaces means all of them.

    Attributes:
        with_leaving: Whether pods whose deletion has begun count: they do for affinity, not for spreads (kube-scheduler).
    """

    parts: tuple[tuple[tuple[str, ...], LabelSelector | None], ...]
    with_leaving: bool

    def selects(self, pod: Pod) -> bool:
        """Whether the pod is selected, regardless of its node."""
        return all(
            selector is not None and (not namespaces or pod.namespace in namespaces) and selector.matches(pod.labels)
            for namespaces, selector in self.parts
        )

    def counts(self, pod: Pod) -> bool:
        """Whether the pod counts where it is bound."""
        return (self.with_leaving or not pod.is_terminating) and self.selects(pod)


def spread_selection(pod: Pod, rule: TopologySpread) -> PodSelection:
    """Return the pods among which the constraint spreads."""
    selector = spread_selector(rule, pod.labels)
    return PodSelection((((pod.namespace,), selector),), with_leaving=SPREADS_COUNT_TERMINATING)


def affinity_selection(pod: Pod, terms: Iterable[PodAffinityTerm]) -> PodSelection:
    """Return the pods that all these terms of the pod select (kube-scheduler ignores a pod that only some of them select)."""
    return PodSelection(tuple(_part(pod, term) for term in terms), with_leaving=AFFINITIES_COUNT_TERMINATING)


def _part(pod: Pod, term: PodAffinityTerm) -> tuple[tuple[str, ...], LabelSelector | None]:
    """Namespaces selected by label are unknown here and count as all: this may keep a pod out, but breaks no rule."""
    selector = with_label_keys(term.selector, pod.labels, term.match_label_keys, term.mismatch_label_keys)
    if term.namespace_selector is not None:
        return (), selector
    return term.namespaces or (pod.namespace,), selector


class PlacedPods:
    """Tracks which pod is on which node.

    Attributes:
        nodes: Every node of the cluster, by name.
    """

    def __init__(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self._on: dict[str, dict[str, Pod]] = {}
        self._used: dict[str, Counter[str]] = {}
        self._counts: dict[PodSelection, Counter[str]] = {}
        self._repelled: dict[tuple[PodSelection, str], Counter[str]] = {}
        self._domains: dict[Hashable, dict[str, str]] = {}
        for pod in pods:
            if pod.node_name and not pod.is_terminal:
                self.place(pod, pod.node_name)

    def place(self, pod: Pod, node: str) -> None:
        """Add a pod that is on the node, or is about to be."""
        self._on.setdefault(node, {})[pod.key] = pod
        self._change(pod, node, 1)

    def remove(self, pod: Pod, node: str) -> None:
        """Remove a pod that is not on the node after all."""
        if self._on.get(node, {}).pop(pod.key, None) is not None:
            self._change(pod, node, -1)

    def used(self, node: str) -> Mapping[str, int]:
        """Return what the pods of a node request."""
        return self._used.get(node, Counter())

    def host_ports(self, node: str) -> Iterator[HostPort]:
        """Return the host ports of the node that its pods occupy."""
        return (port for pod in self._on.get(node, {}).values() for port in pod.spec.host_ports)

    def counted(self, selection: PodSelection) -> Mapping[str, int]:
        """Return how many of the selected pods each node has."""
        counts = self._counts.get(selection)
        if counts is None:
            counts = self._counts[selection] = Counter()
            for node, pods in self._on.items():
                count = sum(1 for pod in pods.values() if selection.counts(pod))
                if count:
                    counts[node] = count
        return counts

    def repelling(self, pod: Pod) -> Iterator[tuple[str, Mapping[str, int]]]:
        """Return topology key and nodes of the pods that have an anti-affinity to this one."""
        for (selection, key), nodes in self._repelled.items():
            if nodes and selection.selects(pod):
                yield key, nodes

    def value(self, node: str, key: str) -> str | None:
        """Return a node's label value; None where the label is absent or the node is gone."""
        state = self.nodes.get(node)
        return state.labels.get(key) if state is not None else None

    def remembered(self, key: Hashable, domains: Callable[[], dict[str, str]]) -> dict[str, str]:
        """Return node → domain as first computed for the key: nodes do not change while bindings are decided."""
        values = self._domains.get(key)
        if values is None:
            values = self._domains[key] = domains()
        return values

    def _change(self, pod: Pod, node: str, by: int) -> None:
        used = self._used.setdefault(node, Counter())
        for name, amount in pod.spec.requests.items():
            used[name] += by * amount
        for selection, counts in self._counts.items():
            if selection.counts(pod):
                _add(counts, node, by)
        for term in pod.spec.anti_affinity:
            nodes = self._repelled.setdefault((affinity_selection(pod, (term,)), term.topology_key), Counter())
            _add(nodes, node, by)


def _add(counts: Counter[str], node: str, by: int) -> None:
    counts[node] += by
    if not counts[node]:
        del counts[node]


# Checks whether a node by itself suits a pod (kube-scheduler: TaintToleration, NodeAffinity, Fit, NodePorts).


def objection_of_node(pod: Pod, node: Node, placed: PlacedPods) -> BindingReason | None:
    """Return what keeps the pod off the node, None if nothing does."""
    if not tolerates(pod, node):
        return BindingReason.UNTOLERATED_TAINT
    if not selects(pod, node):
        return BindingReason.NODE_AFFINITY
    used = placed.used(node.name)
    wanted = pod.spec.requests.items()
    if any(amount and used.get(name, 0) + amount > node.allocatable.get(name, 0) for name, amount in wanted):
        return BindingReason.NO_ROOM
    if any_conflict(pod.spec.host_ports, placed.host_ports(node.name)):
        return BindingReason.HOST_PORT_TAKEN
    return None


def tolerates(pod: Pod, node: Node) -> bool:
    """Whether the pod tolerates the node's taints, except the one with which we keep the scheduler off."""
    return all(
        any(toleration.tolerates(taint) for toleration in pod.spec.tolerations)
        for taint in node.taints
        if taint.effect != PREFER_NO_SCHEDULE and not taint.matches(HELD)
    )


def selects(pod: Pod, node: Node) -> bool:
    """Whether the pod's node selector and required node affinity admit the node."""
    spec = pod.spec
    node_labels = {**node.labels, labels.NODE_NAME: node.name} if spec.required_terms else node.labels
    if not LabelSelector(spec.node_selector).matches(node.labels):
        return False
    return not spec.required_terms or any(
        term.requirements and not term.uses_fields and LabelSelector(term.requirements).matches(node_labels)
        for term in spec.required_terms
    )


# Required affinity and anti-affinity among pods, both ways (kube-scheduler, InterPodAffinity).


def is_attracted(pod: Pod, node: Node, placed: PlacedPods) -> bool:
    """Whether each affinity term of the pod finds a pod in the node's domain, or the pod is the first of its group."""
    terms = pod.spec.affinity
    if not terms:
        return True
    if any(term.topology_key not in node.labels for term in terms):
        return False
    selection = affinity_selection(pod, terms)
    counted = placed.counted(selection)
    if all(_is_in_domain(counted, term.topology_key, node, placed) for term in terms):
        return True
    is_nobody_there = not any(placed.value(name, term.topology_key) for name in counted for term in terms)
    return is_nobody_there and selection.selects(pod)


def is_repelled(pod: Pod, node: Node, placed: PlacedPods) -> bool:
    """Whether the pod's anti-affinity excludes the node's domain, or that of a pod already there does."""
    for term in pod.spec.anti_affinity:
        if _is_in_domain(placed.counted(affinity_selection(pod, (term,))), term.topology_key, node, placed):
            return True
    return any(_is_in_domain(nodes, key, node, placed) for key, nodes in placed.repelling(pod))


def _is_in_domain(counted: Mapping[str, int], key: str, node: Node, placed: PlacedPods) -> bool:
    value = node.labels.get(key)
    return value is not None and any(placed.value(name, key) == value for name in counted)


# Checks that a pod on a node keeps every topology skew within its bound (kube-scheduler, PodTopologySpread).


def keeps_skew(pod: Pod, node: Node, placed: PlacedPods) -> bool:
    """Whether all DoNotSchedule constraints of the pod hold with it on the node."""
    rules = [rule for rule in pod.spec.spreads if rule.when_unsatisfiable == DO_NOT_SCHEDULE]
    keys = tuple(rule.topology_key for rule in rules)
    if any(key not in node.labels for key in keys):
        return False
    return all(_holds(pod, node, placed, rule, keys) for rule in rules)


def _holds(pod: Pod, node: Node, placed: PlacedPods, rule: TopologySpread, keys: tuple[str, ...]) -> bool:
    selection = spread_selection(pod, rule)
    domain_of = placed.remembered((id(pod.spec), rule), lambda: _domains(pod, placed, rule, keys))
    domains = Counter(dict.fromkeys(domain_of.values(), 0))
    for name, count in placed.counted(selection).items():
        if name in domain_of:
            domains[domain_of[name]] += count
    least = min(domains.values(), default=0) if len(domains) >= (rule.min_domains or 1) else 0
    self_match = int(selection.selects(pod))
    return domains[node.labels[rule.topology_key]] + self_match - least <= rule.max_skew


def _domains(pod: Pod, placed: PlacedPods, rule: TopologySpread, keys: tuple[str, ...]) -> dict[str, str]:
    """Return the domain of each node that the constraint counts."""
    return {
        node.name: node.labels[rule.topology_key]
        for node in placed.nodes.values()
        if all(key in node.labels for key in keys) and _takes_part(pod, node, rule)
    }


def _takes_part(pod: Pod, node: Node, rule: TopologySpread) -> bool:
    if rule.node_affinity_policy == HONOR and not selects(pod, node):
        return False
    return rule.node_taints_policy != HONOR or tolerates(pod, node)


# Checks whether a pod may be bound to a node now, and names the objection if not.


AWAITS_OTHERS = frozenset({BindingReason.TOPOLOGY_SPREAD, BindingReason.POD_AFFINITY})
"""Objections that the binding of other pods may remove; a pod with one is tried again after them."""


def objection(pod: Pod, node: Node, placed: PlacedPods) -> BindingReason | None:
    """Return what keeps the pod from being bound to the node, None if nothing does."""
    has_another = pod.nominated_node_name not in ("", node.name)  # kube-scheduler is making room for it there
    if has_another or is_left_to_scheduler(pod):
        return BindingReason.LEFT_TO_SCHEDULER
    refusal = objection_of_node(pod, node, placed)
    if refusal is not None:
        return refusal
    if not keeps_skew(pod, node, placed):
        return BindingReason.TOPOLOGY_SPREAD
    if is_repelled(pod, node, placed):
        return BindingReason.POD_ANTI_AFFINITY
    return None if is_attracted(pod, node, placed) else BindingReason.POD_AFFINITY


def outranking(waiting: Iterable[Pod], expected: Collection[str], node: Node, placed: PlacedPods) -> int | None:
    """Return the highest priority of the pods that no claim of ours expects and that would fit on this node, None for none.

    kube-scheduler would give them the room: if we bound pods of lower priority there, preemption would evict these.
    """
    priorities = (
        pod.spec.priority
        for pod in waiting
        if pod.key not in expected and not pod.is_gated and objection_of_node(pod, node, placed) is None
    )
    return max(priorities, default=None)


# Decides one turn of binding: which pods of which claims may be bound now, in an order that satisfies every pod's rules.


class DecidedBinding(msgspec.Struct, frozen=True):
    """A pod to be bound to its claim's node."""

    claim: str
    pod: Pod
    node: str


class BindingTurn(msgspec.Struct, frozen=True):
    """The result of a turn: bindings in order, and for each claim the rejected pods with their objections."""

    bindings: tuple[DecidedBinding, ...]
    left: Mapping[str, tuple[tuple[Pod, BindingReason], ...]]


def next_turn(
    claims: Sequence[tuple[ClaimRecord, Node]],
    waiting: Mapping[str, Pod],
    expected: Collection[str],
    placed: PlacedPods,
) -> BindingTurn:
    """Decide which pods to bind, in rounds over all claims: a pod may need pods of other claims to be bound first.

    Args:
        claims: Claims whose nodes accept bindings, with their nodes.
        waiting: Pods that have no node yet, by key.
        expected: Keys of the pods planned for any claim.
        placed: The pods that have a node; the bindings decided here are added.
    """
    candidates = {record.name: _candidates(record, node, waiting, expected, placed) for record, node in claims}
    bindings: list[DecidedBinding] = []
    has_progress = True
    while has_progress:  # terminates: each round but the last binds at least one pod
        before = len(bindings)
        for record, node in claims:
            candidates[record.name] = _enter(record, node, candidates[record.name], placed, bindings)
        has_progress = len(bindings) > before
    return BindingTurn(tuple(bindings), {name: tuple(pods) for name, pods in candidates.items()})


_Left = list[tuple[Pod, BindingReason]]


def _candidates(
    record: ClaimRecord, node: Node, waiting: Mapping[str, Pod], expected: Collection[str], placed: PlacedPods
) -> _Left:
    """Return the claim's waiting pods; a pod that another pod outranks has its objection already.

    The others get an objection when they are tried.
    """
    pods = [waiting[key] for key in record.plan.pods if key in waiting]
    if not pods:
        return []
    rank = outranking(waiting.values(), expected, node, placed)
    return [
        (pod, BindingReason.OUTRANKED if rank is not None and pod.spec.priority < rank else BindingReason.NO_ROOM)
        for pod in pods
    ]


def _enter(record: ClaimRecord, node: Node, pods: _Left, placed: PlacedPods, bindings: list[DecidedBinding]) -> _Left:
    """Place the pods that may be bound; return the others, each with its objection."""
    remaining: _Left = []
    for pod, before in pods:
        reason = before if before is BindingReason.OUTRANKED else objection(pod, node, placed)
        if reason is None:
            placed.place(pod, node.name)
            bindings.append(DecidedBinding(record.name, pod, node.name))
        else:
            remaining.append((pod, reason))
    return remaining


# Splits bindings into chains: chains may be written in parallel, the bindings of one chain only in order.


def in_chains(bindings: Sequence[DecidedBinding]) -> list[tuple[DecidedBinding, ...]]:
    """Divide bindings into chains: those of pods that a rule connects keep their order in one chain.

    Every rule then holds after each binding, in whatever order the chains proceed.
    """
    examples, number_of = _grouped(binding.pod for binding in bindings)
    parents = _connected(examples)
    chains: dict[int, list[DecidedBinding]] = {}
    alone: list[tuple[DecidedBinding, ...]] = []
    for binding, number in zip(bindings, number_of, strict=True):
        if number in parents:
            chains.setdefault(parents[number], []).append(binding)
        else:
            alone.append((binding,))
    return [*(tuple(chain) for chain in chains.values()), *alone]


def unconnected(bindings: Sequence[DecidedBinding], others: Sequence[Pod]) -> tuple[DecidedBinding, ...]:
    """Return the bindings whose pods no rule connects with any of these other pods, not even through further ones."""
    examples, number_of = _grouped([*others, *(binding.pod for binding in bindings)])
    parents = _connected(examples)
    taken = {parents[number] for number in number_of[: len(others)] if number in parents}
    decided = zip(bindings, number_of[len(others) :], strict=True)
    return tuple(binding for binding, number in decided if parents.get(number) not in taken)


def _grouped(pods: Iterable[Pod]) -> tuple[list[Pod], list[int]]:
    """Return one pod of each group that all rules treat alike, and the group of each pod."""
    numbers: dict[tuple[object, ...], int] = {}
    examples: list[Pod] = []
    number_of: list[int] = []
    for pod in pods:
        key = _rules_key(pod)
        if key not in numbers:
            numbers[key] = len(examples)
            examples.append(pod)
        number_of.append(numbers[key])
    return examples, number_of


def _rules_key(pod: Pod) -> tuple[object, ...]:
    """Return what rules about other pods see of a pod, and which rules it has."""
    return (pod.namespace, tuple(sorted(pod.labels.items())), id(pod.spec))


def _connected(pods: Sequence[Pod]) -> dict[int, int]:
    """Return position of each pod group → position of the first group connected with it; groups without rules are left out.

    Each distinct selection is evaluated once, on the groups with a label value that it requires: pods that differ in a label of
    their own (a StatefulSet's, an indexed Job's) are groups of their own, and share their selections.
    """
    groups: dict[int, int] = {}
    selected: dict[PodSelection, list[int]] = {}
    with_label = _by_label(pods)
    for position, pod in enumerate(pods):
        for selection in _selections(pod):
            groups.setdefault(position, position)
            if selection not in selected:
                candidates = _pods_with_labels(selection, with_label, len(pods))
                selected[selection] = [other for other in candidates if selection.selects(pods[other])]
                for other in selected[selection]:
                    groups.setdefault(other, other)
                    _join(groups, position, other)
            for other in selected[selection][:1]:
                _join(groups, position, other)
    return {position: _first(groups, position) for position in groups}


def _by_label(pods: Sequence[Pod]) -> dict[tuple[str, str], list[int]]:
    """Return label and value → the positions of the pods that have it."""
    by_label: dict[tuple[str, str], list[int]] = {}
    for position, pod in enumerate(pods):
        for label in pod.labels.items():
            by_label.setdefault(label, []).append(position)
    return by_label


def _pods_with_labels(
    selection: PodSelection, with_label: Mapping[tuple[str, str], list[int]], pods: int
) -> Sequence[int]:
    """Return the positions of pods among which are all that the selection selects; `pods` is the number of all."""
    required = [
        (requirement.key, requirement.values)
        for _, selector in selection.parts
        if selector is not None
        for requirement in selector.requirements
        if requirement.operator == "In"
    ]
    narrowed = [[other for value in values for other in with_label.get((key, value), ())] for key, values in required]
    return min(narrowed, key=len, default=range(pods))


def _join(groups: dict[int, int], first: int, second: int) -> None:
    low, high = sorted((_first(groups, first), _first(groups, second)))
    groups[high] = low


def _first(groups: dict[int, int], position: int) -> int:
    while groups[position] != position:
        groups[position] = groups[groups[position]]  # halves the path of the next search
        position = groups[position]
    return position


def _selections(pod: Pod) -> Iterable[PodSelection]:
    """Return the pods that a pod's rules select."""
    for rule in pod.spec.spreads:
        if rule.when_unsatisfiable == DO_NOT_SCHEDULE:
            yield spread_selection(pod, rule)
    if pod.spec.affinity:
        yield affinity_selection(pod, pod.spec.affinity)
    for term in pod.spec.anti_affinity:
        yield affinity_selection(pod, (term,))


# Decides how long a node is held: until none of its pods waits for a turn, or no further turn can come.


HOLD_AT_MOST: Final = timedelta(minutes=1)
"""The longest hold after a node's first turn. The slowest node of a plan joins within a minute of the first, or hardly ever."""

QUIET_FOR: Final = timedelta(seconds=3)
"""After this long without a binding of the plan, no further turn is expected; turns are a second apart."""


def plan_stamp(record: ClaimRecord) -> str:
    """Return the part that all claim names of one plan share: the stamp of the lease under which they were requested."""
    return record.name.rpartition("-")[0].rpartition("-")[2]


def is_hold_over(record: ClaimRecord, now: datetime) -> bool:
    """Whether the node has been held for the longest allowed time."""
    since = record.moments.usable_at
    return since is not None and now - since >= HOLD_AT_MOST


def may_have_a_turn(record: ClaimRecord, records: Iterable[ClaimRecord], now: datetime) -> bool:
    """Whether waiting pods of the claim may still be bound: other nodes of its plan have yet to join, or just took a pod."""
    stamp = plan_stamp(record)
    others = [other for other in records if other.deletion is None and plan_stamp(other) == stamp]
    return any(_comes(other, now) or _was_bound_to(other, now) for other in others)


def _comes(record: ClaimRecord, now: datetime) -> bool:
    """Whether the claim's node has not had its turn yet."""
    if record.is_bound or record.initialized_at is not None:
        return False
    since = record.moments.usable_at
    return since is None or now - since < QUIET_FOR


def _was_bound_to(record: ClaimRecord, now: datetime) -> bool:
    return record.moments.bound_at is not None and now - record.moments.bound_at < QUIET_FOR


# Keeps bindings from the moments in which kube-scheduler places pods that a rule connects with theirs.
#
# It places waiting pods as soon as a node opens, by what it sees then, and the turn decides by its own list: each binding keeps
# every rule, and both together may break one.


def opening_nodes(records: Iterable[ClaimRecord], placed: PlacedPods, now: datetime) -> list[Node]:
    """Return the nodes on which kube-scheduler may bind pods that the turn's list lacks: those that open.

    Args:
        records: All claims, read after the nodes and pods: a row that says that a node is open is newer than a list that does
            not.
        placed: The nodes and pods of the turn.
        now: The time of the turn.
    """
    names = {node.provider_id: node.name for node in placed.nodes.values() if node.provider_id}
    opened = []
    for record in records:
        node = placed.nodes.get(record.node_name or names.get(record.provider_id, ""))
        if node is not None and node.is_ready and _is_opening(record, node, now):
            opened.append(node)
    return opened


def _is_opening(record: ClaimRecord, node: Node, now: datetime) -> bool:
    """Whether the claim's node, which is ready, was just opened, is open though its row does not say so, or is due to open.

    A node is opened before its row is stored. One that is never held is open as soon as it is registered and ready.
    """
    if record.phase is ClaimPhase.INITIALIZED:
        return _is_recent(record.moments.opened_at, now)
    if is_held(node):
        bound_at = record.moments.bound_at
        return record.is_bound and (bound_at is None or now - bound_at >= SETTLES_WITHIN)
    # A node that waits for a device plugin is open for minutes: its row is stored at the next check only if it lacks nothing.
    return lacking_resource(record, node) is None or _is_recent(node.ready_changed_at, now)


def _is_recent(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and abs(now - moment) < SETTLES_WITHIN


def apart_from_scheduler(
    bindings: Sequence[DecidedBinding], waiting: Iterable[Pod], opening: Sequence[Node], placed: PlacedPods
) -> tuple[DecidedBinding, ...]:
    """Return the bindings that no rule connects with a waiting pod for which one of the opening nodes has room."""
    if not opening:
        return tuple(bindings)
    has_room: dict[int, bool] = {}  # by identity of the pod's spec, which equal pods share
    coming = []
    for pod in waiting:
        if id(pod.spec) not in has_room:
            has_room[id(pod.spec)] = any(objection_of_node(pod, node, placed) is None for node in opening)
        if has_room[id(pod.spec)] and not pod.is_gated:
            coming.append(pod)
    return unconnected(bindings, coming)
