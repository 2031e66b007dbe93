"""Predicts where kube-scheduler places the pods that one wave moves, by its own scores, and announces these places.

A target says which nodes stay and that everything fits. Nobody can bind the successor of an evicted pod before kube-scheduler
does, so a command that names any other node than the scheduler's choice is wrong from the start, and pods may find no node at
all where the target's own places would have held them. Nodes whose pods would find none stay for a later wave.

Sources are kube-scheduler's plugins (Kubernetes 1.37, pkg/scheduler/framework/plugins), with their default weights
(apis/config/v1/default_plugins.go). Left out are ImageLocality, since nobody knows the images of tomorrow, and the draw among
equal nodes. Among more than a hundred nodes kube-scheduler scores a part, in an order that nobody sees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import log
from typing import Final, NamedTuple

import msgspec
import numpy as np

from core import labels
from core.disruption.command import joined
from core.disruption.prices import ReplacementOptions
from core.model.plan import Command, Move, PlannedClaim
from core.model.pod import SCHEDULE_ANYWAY, LabelSelector, Pod, PodAffinityTerm, TopologySpread
from core.model.snapshot import MOST_ALLOCATED, Snapshot
from core.model.state_node import StateNode
from core.model.values import quantity
from core.model.values.quantity import CPU, MEMORY
from core.model.values.requirements import Requirement
from core.model.values.taints import LEAVING, PREFER_NO_SCHEDULE, Taint
from core.packing.problem import Bools, Floats, Ints
from core.pods import SYSTEM_SPREADS, spread_selector, successor, with_label_keys
from core.reasons.code import TerminationReason
from core.scheduling.context import SchedulingContext
from core.scheduling.pods import Avoids, DefaultSpreads, PendingGroup, PodGroup
from core.scheduling.primitives import bits
from core.scheduling.scheduler import GreedyScheduler, queue_of
from core.scheduling.topology.domains import ReachableDomains
from core.scheduling.topology.groups import Namespaces

FULL: Final = 100
"""kube-scheduler's MaxNodeScore."""

TAINTS, NODE_AFFINITY, SPREADS, POD_AFFINITY = 3, 2, 2, 2
"""Weights of TaintToleration, NodeAffinity, PodTopologySpread and InterPodAffinity; both plugins for resources weigh 1."""

UNSTATED: Final = {CPU: 100, MEMORY: 200 * 1024 * 1024}
"""What a pod counts for that requests none of a resource (pkg/scheduler/util/pod_resources.go)."""

DEFAULTED: Final = ("ReplicaSet", "ReplicationController", "StatefulSet")
"""Controllers whose pods get default spreads (plugins/helper/spread.go)."""

OF_ONE_POD: Final = ("apps.kubernetes.io/pod-index", "statefulset.kubernetes.io/pod-name")

NO_DOMAIN: Final = 0
"""The number for nodes that are in no domain of a topology key."""

PAIRS_MAX: Final = 400_000
"""The most pairs of a moved pod and a node that are scored, in about two seconds; with more, all keep the target's places."""

ROUNDS_MAX: Final = 8
"""How often places are predicted again: in another order of the drains, without nodes whose pods would find none, or without
new nodes to which none comes."""


class Landing(msgspec.Struct, frozen=True):
    """Commands with the places that kube-scheduler would choose.

    Attributes:
        commands: Those that still go.
        stays: Node → the pod that would find no place, for nodes that are no longer part of any command.
    """

    commands: tuple[Command, ...]
    stays: Mapping[str, str] = {}


def landed(
    commands: Sequence[Command], snapshot: Snapshot, later: Collection[str], prices: Mapping[str, int]
) -> Landing:
    """Return the commands of one wave with kube-scheduler's places; as they are if these cannot be told.

    Args:
        commands: The commands.
        snapshot: The cluster that they were decided for.
        later: Nodes that later waves drain. They carry the taint `LEAVING`, and are no places.
        prices: Node → nano-dollars per hour, of the nodes that the commands remove.
    """
    pods = {pod.key: pod for pod in snapshot.pods}
    stays: dict[str, str] = {}
    kept, moved_up = list(commands), set[str]()
    for _ in range(ROUNDS_MAX):
        prediction = _Prediction(kept, snapshot, {*later, *stays})
        places, without = prediction.places()
        if prediction.is_vain:
            break
        moved = kept if moved_up.issuperset(without) else _moved_up(kept, without)
        if moved != kept:
            kept = moved
            moved_up |= without.keys()
            continue
        grown = [_grown(command, places, pods, snapshot) for command in kept] if without else kept
        if grown != kept:
            kept = grown
        elif without:
            stays |= without
            parts = [_without(command, stays, pods, prices) for command in kept]
            kept = [part for part in parts if part is not None]
        elif any(_idle(command, places) for command in kept):
            kept = [_not_launching(command, _idle(command, places)) for command in kept]
        else:
            return Landing(tuple(_with_places(command, places, pods, snapshot) for command in kept), stays)
    return Landing(tuple(commands))


def _moved_up(commands: Sequence[Command], nodes: Collection[str]) -> list[Command]:
    """Return the commands with those that drain `nodes` first, each after the ones that launch the nodes its pods go to.

    Pods that fit few nodes find a place as long as those that fit many have not taken it.
    """
    launching = {claim.name: command for command in commands for claim in command.replacements}
    urgent = [command for command in commands if not set(command.nodes).isdisjoint(nodes)]
    ordered: list[Command] = []
    for command in (*urgent, *commands):
        targets = {move.to for move in command.moves}.difference(claim.name for claim in command.replacements)
        for wanted in (*(launching[name] for name in sorted(targets) if name in launching), command):
            if wanted not in ordered:
                ordered.append(wanted)
    return ordered


def _idle(command: Command, places: Mapping[str, str]) -> set[str]:
    """Return the new nodes of a command to which no pod comes: kube-scheduler prefers others that have room."""
    taken, moving = set(places.values()), {move.pod for move in command.moves}
    return {claim.name for claim in command.replacements if claim.name not in taken and moving.issuperset(claim.pods)}


def _not_launching(command: Command, idle: Collection[str]) -> Command:
    """Return a command without some of its new nodes."""
    launched = tuple(claim for claim in command.replacements if claim.name not in idle)
    awaits = {node: tuple(name for name in names if name not in idle) for node, names in command.awaits.items()}
    return msgspec.structs.replace(
        command,
        replacements=launched,
        savings=command.savings + sum(claim.price for claim in command.replacements if claim.name in idle),
        awaits=awaits if launched else {},
    )


def _with_places(command: Command, places: Mapping[str, str], pods: Mapping[str, Pod], snapshot: Snapshot) -> Command:
    """Return a command with these places."""
    moves = tuple(sorted(Move(move.pod, places.get(move.pod, move.to)) for move in command.moves))
    arriving: dict[str, list[str]] = {}
    for move in moves:
        arriving.setdefault(move.to, []).append(move.pod)
    moving = {move.pod for move in command.moves}
    claims = (_taking(claim, arriving.get(claim.name, ()), moving, pods, snapshot) for claim in command.replacements)
    return msgspec.structs.replace(command, moves=moves, replacements=tuple(claims))


def _taking(
    claim: PlannedClaim,
    arriving: Sequence[str],
    moving: Collection[str],
    pods: Mapping[str, Pod],
    snapshot: Snapshot,
) -> PlannedClaim:
    """Return a new node with these pods of the command in place of those that were planned for it.

    It keeps the types with room for them: the prediction is of the cheapest, which need not be the smallest.
    """
    requested = dict(claim.resources)
    for key in (key for key in claim.pods if key in moving):
        requested = quantity.subtract(requested, successor(pods[key]).spec.requests)
    for key in arriving:
        requested = quantity.add(requested, successor(pods[key]).spec.requests)
    names = sorted({*arriving, *(key for key in claim.pods if key not in moving)})
    taking = msgspec.structs.replace(claim, pods=tuple(names), resources=requested)
    options = ReplacementOptions.of(taking, snapshot)
    holding = options.with_types(
        instance_type for instance_type, _ in options.types if quantity.fits(requested, instance_type.allocatable())
    )
    if not holding.types or holding.missing_values():
        return taking
    return holding.planned()


def _grown(command: Command, places: Mapping[str, str], pods: Mapping[str, Pod], snapshot: Snapshot) -> Command:
    """Return a command with new nodes of types that also have room for its pods without a place, if it still saves."""
    lost = [move for move in command.moves if move.pod not in places]
    if not lost or not command.replacements:
        return command
    launched = [claim.name for claim in command.replacements]
    meant = {move.pod: move.to if move.to in launched else launched[-1] for move in lost}
    grown = _with_places(command, {**places, **meant}, pods, snapshot)
    price, before = (sum(claim.price for claim in version.replacements) for version in (grown, command))
    if not before < price < before + command.savings:
        return command
    return msgspec.structs.replace(grown, savings=command.savings + before - price)


def _without(
    command: Command, stays: Mapping[str, str], pods: Mapping[str, Pod], prices: Mapping[str, int]
) -> Command | None:
    """Return a command without the nodes that stay, None if none is left."""
    going = [index for index, node in enumerate(command.nodes) if node not in stays]
    if len(going) == len(command.nodes):
        return command
    if not going:
        return None
    return msgspec.structs.replace(
        command,
        nodes=tuple(command.nodes[index] for index in going),
        claims=tuple(command.claims[index] for index in going),
        moves=tuple(move for move in command.moves if pods[move.pod].node_name not in stays),
        savings=command.savings - sum(prices[node] for node in command.nodes if node in stays),
    )


# One prediction. Drains that wait for no new node begin first. Each successor takes the best node.


class _Prediction:
    """Places pods one after the other, with all rules of the planner and the scores of kube-scheduler.

    Attributes:
        is_vain: Whether it cannot tell: a pod that moves at any cost has no place, or there are too many pairs.
    """

    def __init__(self, commands: Sequence[Command], snapshot: Snapshot, later: Collection[str]) -> None:
        self._commands = commands
        new = [claim for command in commands for claim in command.replacements]
        started = [joined(claim, snapshot) for claim in new]
        after_launches = msgspec.structs.replace(
            snapshot,
            nodes=(*snapshot.nodes, *(node for _, node in started)),
            node_claims=(*snapshot.node_claims, *(claim for claim, _ in started)),
        )
        self._context = context = SchedulingContext(after_launches)
        positions = context.positions
        self._moving = {move.pod: move.to for command in commands for move in command.moves}
        self._meant = {pod: positions.get(node) for pod, node in self._moving.items()}
        going = frozenset(positions[node] for command in commands for node in command.nodes)
        self._later = frozenset(positions[name] for name in sorted(later) if name in positions)
        self._pods = {
            position: [pod for pod in context.existing_nodes[position].state.pods if pod.key in self._moving]
            for position in sorted(going)
        }
        self._going: dict[int, None] = {}
        self._placed: list[tuple[int, PodGroup]] = []
        self._plan = self._with_departures()
        self._free: Ints = np.array([node.free for node in context.existing_nodes], dtype=np.int64)
        # No pod is sent to a node that is not initialized, which may never be (Karpenter).
        self._is_hidden: Bools = np.array([not n.state.is_initialized for n in context.existing_nodes], dtype=bool)
        self._is_hidden[[positions[claim.name] for claim in new]] = True  # until their commands have their turns
        self._open: dict[tuple[int, int, bool], Bools] = {}
        self._undecided = {positions[claim.name]: _undecided_keys(claim, snapshot) for claim in new}
        self._new = frozenset(self._undecided)
        self.is_vain = sum(map(len, self._pods.values())) * len(context.existing_nodes) > PAIRS_MAX

    @cached_property
    def _scores(self) -> NodeScores:
        return NodeScores(self._context, self._later)

    def places(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return pod → node, and node → the first of its pods that would find no place; only a part if it cannot tell."""
        places: dict[str, str] = {}
        without: dict[str, str] = {}
        alone = [command for command in self._commands if not command.replacements]
        for together in (alone, *([command] for command in self._commands if command.replacements)):
            if self.is_vain:
                break
            self._evict(together)
            for command in together:
                self._place(command, places, without)
        return places, without

    def _evict(self, commands: Sequence[Command]) -> None:
        """Show the commands' new nodes, and count their pods no more: all are evicted at about the same time."""
        positions = self._context.positions
        for command in commands:
            self._is_hidden[[positions[claim.name] for claim in command.replacements]] = False
            for node in command.nodes:
                self._going[positions[node]] = None
                for pod in self._pods[positions[node]]:
                    self._scores.remove(pod)
        self._plan = self._with_departures()

    def _with_departures(self) -> GreedyScheduler:
        """Return a plan in which the pods evicted so far count where they are placed by now."""
        moved = [pod for position in self._going for pod in self._pods[position]]
        leaving = self._context.leaving | frozenset(self._pods)
        queue = queue_of(self._context, [(moved, Avoids.NO_NODE)])
        plan = GreedyScheduler(self._context, queue, leaving, frozenset(self._going))
        # kube-scheduler makes domains of the nodes that are there.
        plan.state.domain_counts.reachable = ReachableDomains(lambda _, __: False, [])
        for position, group in self._placed:
            plan.nodes.place(position, group)
        return plan

    def _place(self, command: Command, places: dict[str, str], without: dict[str, str]) -> None:
        positions, nodes = self._context.positions, self._context.existing_nodes
        by_choice = command.reason != TerminationReason.DRIFTED
        for node in command.nodes:
            for pod in self._pods[positions[node]]:
                place = self._best(pod, by_choice=by_choice)
                if place is None:
                    self.is_vain |= not by_choice
                    # What a command launches is for all of its nodes.
                    if node not in without:
                        without |= dict.fromkeys(command.nodes if command.replacements else (node,), pod.key)
                    continue
                self._put(pod, place)
                places[pod.key] = nodes[place].name

    def _best(self, pod: Pod, *, by_choice: bool) -> int | None:
        """Return the position of the node that kube-scheduler chooses, None if none takes the pod."""
        group = self._context.pod_groups.of(pod)
        feasible = np.flatnonzero(self._taking(group, pod, by_choice=by_choice))
        if len(feasible) == 0:
            return None
        coming, best = successor(pod), int(feasible[0])
        if len(feasible) > 1:
            if coming.spec.unscorable:
                return None
            best = int(feasible[np.argmax(self._scores.of(coming, feasible))])
        return None if best in self._later else best

    def _taking(self, group: PodGroup, pod: Pod, *, by_choice: bool) -> Bools:
        """Return [node], whether it passes all filters."""
        fits: Bools = np.zeros(len(self._is_hidden), dtype=bool)
        closed = self._is_hidden.copy()
        # What a new node will be is known as far as its own pods need it, and as far as all that may be launched is alike.
        keys = _keys(group)
        for new, undecided in self._undecided.items():
            if new != self._meant.get(pod.key) and not (group.is_plain and keys.isdisjoint(undecided)):
                closed[new] = True
        requests = np.array(group.requests, dtype=np.int64)
        is_requested = requests > 0
        has_room = (self._free[:, is_requested] >= requests[is_requested]).all(axis=1) & ~closed
        has_terms = bool(group.steps) and len(group.steps[0].demands.terms) > 1
        for step in group.steps if has_terms else group.steps[-1:]:
            key = (group.index, step.number, by_choice)
            if key not in self._open:
                avoids = Avoids.RECENTLY_CHANGED if by_choice else Avoids.NO_NODE
                mask = self._plan.nodes.open_to(PendingGroup(group, [pod], avoids), step)
                # A new node has only just changed, and is there for these pods.
                mask |= self._plan.nodes.open_to(PendingGroup(group, [pod]), step) & bits(self._new)
                self._open[key] = np.array([bool(mask >> p & 1) for p in range(len(fits))])
            maybe = self._open[key] & has_room & ~fits
            if group.is_plain and not (step.host_rules or step.zone_rules or self._context.nominated):
                fits |= maybe
                continue
            for position in np.flatnonzero(maybe):
                fits[position] = self._plan.nodes.takes(int(position), group, step)
        return fits

    def _put(self, pod: Pod, position: int) -> None:
        group = self._context.pod_groups.of(pod)
        self._plan.nodes.place(position, group)
        self._placed.append((position, group))
        self._free[position] -= np.array(group.requests, dtype=np.int64)
        self._scores.add(successor(pod), position)


def _undecided_keys(claim: PlannedClaim, snapshot: Snapshot) -> frozenset[str]:
    """Return the labels whose values depend on what is launched for a claim."""
    pairs = ReplacementOptions.of(claim, snapshot).types
    of_types = [{**instance_type.labels, labels.INSTANCE_TYPE: (instance_type.name,)} for instance_type, _ in pairs]
    of_offerings = [
        {labels.ZONE: (o.zone,), labels.CAPACITY_TYPE: (o.capacity_type,)}
        | {key: (value,) for key, value in o.reservation_labels().items()}
        for _, offerings in pairs
        for o in offerings
    ]
    several = (r.key for r in claim.requirements if not r.is_finite or len(r.values) != 1)
    return frozenset((*_varying(of_types), *_varying(of_offerings), *several))


def _varying(choices: Sequence[Mapping[str, tuple[str, ...]]]) -> Iterator[str]:
    """Yield the labels that do not have the same single value in all choices."""
    for key in frozenset().union(*choices):
        values = [choice.get(key, ()) for choice in choices]
        if len(values[0]) != 1 or any(value != values[0] for value in values):
            yield key


def _keys(group: PodGroup) -> frozenset[str]:
    """Return the labels of a node that decide whether it takes the pods; volumes may ask for a zone."""
    spec = group.signature.spec
    terms = (*spec.node_selector, *(r for term in spec.required_terms for r in term.requirements))
    rules = (rule for step in group.steps for rule in step.zone_rules)
    of_volumes = (labels.ZONE,) if spec.volumes else ()
    return frozenset((*(r.key for r in terms), *(rule.key for rule in rules), *of_volumes))


# Scores of nodes for one pod.


class NodeScores:
    """The scores of kube-scheduler's default profile, over the nodes of one context."""

    def __init__(self, context: SchedulingContext, later: Collection[int] = ()) -> None:
        """Read the nodes; those at the positions `later` are about to be marked, see `LEAVING`."""
        snapshot, self._nodes = context.snapshot, context.existing_nodes
        self._is_most = snapshot.options.scoring == MOST_ALLOCATED
        self._positions = {node.name: node.index for node in self._nodes}
        self._offered = self._amounts(lambda state, name: state.allocatable.get(name, 0))
        self._used = self._amounts(lambda state, name: sum(p.spec.requests.get(name, 0) for p in state.pods))
        self._stated = self._amounts(lambda state, name: sum(_stated(p, name) for p in state.pods))
        taints = [
            {t for t in (node.state.node.taints if node.state.node else ()) if t.effect == PREFER_NO_SCHEDULE}
            | ({LEAVING} if node.index in later else set())
            for node in self._nodes
        ]
        numbers: dict[tuple[Taint, ...], int] = {}
        number_of = [numbers.setdefault(tuple(sorted(on_node)), len(numbers)) for on_node in taints]
        self._taint_sets, self._taint_set_of = list(numbers), np.array(number_of, dtype=np.int64)
        self._labels = [{**node.state.labels, labels.NODE_NAME: node.name} for node in self._nodes]
        self._domain_numbers: dict[str, Ints] = {}
        self._counts = _PodCounts(context)
        defaults = snapshot.options.default_spreads or SYSTEM_SPREADS
        self._known_defaults = defaults
        options = msgspec.structs.replace(snapshot.options, default_spreads=defaults)
        self._defaults = DefaultSpreads(msgspec.structs.replace(snapshot, options=options))
        self._is_system = not snapshot.options.default_spreads

    def of(self, pod: Pod, feasible: Ints) -> Ints:
        """Return the score of each of these nodes, by position, for a pod without a node."""
        total: Ints = self._fit(pod, feasible) + self._balanced(pod, feasible)
        total += TAINTS * self._tainted(pod, feasible) + NODE_AFFINITY * self._preferred(pod, feasible)
        total += SPREADS * self._spread(pod, feasible) + POD_AFFINITY * self._near(pod, feasible)
        return total

    def add(self, pod: Pod, position: int) -> None:
        """Count a pod on a node."""
        for index, name in enumerate((CPU, MEMORY)):
            self._used[index, position] += pod.spec.requests.get(name, 0)
            self._stated[index, position] += _stated(pod, name)
        self._counts.add(pod, position)

    def remove(self, pod: Pod) -> None:
        """Count a pod no more for rules between pods; its node takes no others."""
        self._counts.remove(pod)

    def _amounts(self, amount: Callable[[StateNode, str], int]) -> Ints:
        amounts = [[amount(node.state, name) for node in self._nodes] for name in (CPU, MEMORY)]
        return np.array(amounts, dtype=np.int64).reshape(2, len(self._nodes))

    def _fit(self, pod: Pod, feasible: Ints) -> Ints:
        """Score by free or by used resources (noderesources/least_allocated.go, most_allocated.go)."""
        offered = self._offered[:, feasible]
        requested = np.array([[_stated(pod, CPU)], [_stated(pod, MEMORY)]], dtype=np.int64)
        wanted = self._stated[:, feasible] + requested
        if self._is_most:
            scores = np.minimum(wanted, offered) * FULL // np.maximum(offered, 1)
        else:
            scores = np.where(wanted > offered, 0, (offered - wanted) * FULL // np.maximum(offered, 1))
        counted = np.maximum((offered > 0).sum(axis=0), 1)
        mean: Ints = (scores * (offered > 0)).sum(axis=0) // counted
        return mean

    def _balanced(self, pod: Pod, feasible: Ints) -> Ints:
        """Score by how far the pod balances a node's CPU and memory (noderesources/balanced_allocation.go)."""
        requested = np.array([[pod.spec.requests.get(CPU, 0)], [pod.spec.requests.get(MEMORY, 0)]], dtype=np.int64)
        if not requested.any():
            return np.zeros(len(feasible), dtype=np.int64)
        offered, used = self._offered[:, feasible], self._used[:, feasible]
        score: Ints = FULL // 2 + (FULL // 2 + _evenness(used + requested, offered) - _evenness(used, offered)) // 2
        return score

    def _tainted(self, pod: Pod, feasible: Ints) -> Ints:
        """Score by taints PreferNoSchedule that the pod does not tolerate (tainttoleration/taint_toleration.go)."""
        tolerations = pod.spec.tolerations
        by_set = [
            sum(not any(toleration.tolerates(taint) for toleration in tolerations) for taint in taints)
            for taints in self._taint_sets
        ]
        counts: Ints = np.array(by_set, dtype=np.int64)[self._taint_set_of[feasible]]
        most = int(counts.max())
        score: Ints = FULL - FULL * counts // most if most else np.full(len(feasible), FULL, dtype=np.int64)
        return score

    def _preferred(self, pod: Pod, feasible: Ints) -> Ints:
        """Score by the preferred node affinity (nodeaffinity/node_affinity.go)."""
        if not pod.spec.preferred_terms:
            return np.zeros(len(feasible), dtype=np.int64)
        terms = [
            (preference.weight, LabelSelector(preference.term.requirements)) for preference in pod.spec.preferred_terms
        ]
        weights = [sum(w for w, selector in terms if selector.matches(self._labels[position])) for position in feasible]
        most = max(weights)
        return np.array([FULL * weight // most if most else 0 for weight in weights], dtype=np.int64)

    def _spread(self, pod: Pod, feasible: Ints) -> Ints:
        """Score by spreads that need not hold (podtopologyspread/scoring.go)."""
        is_own = bool(pod.spec.spreads)
        rules = [rule for rule in self._spreads_of(pod) if rule.when_unsatisfiable == SCHEDULE_ANYWAY]
        if not rules:
            return np.zeros(len(feasible), dtype=np.int64)
        domains = [self._domains(rule.topology_key)[feasible] for rule in rules]
        is_ignored: Bools = np.zeros(len(feasible), dtype=bool)
        for numbers in domains if is_own or not self._is_system else ():
            is_ignored |= numbers == NO_DOMAIN
        score: Floats = np.zeros(len(feasible))
        for rule, numbers in zip(rules, domains, strict=True):
            counts = self._counts.selected(pod.namespace, spread_selector(rule, pod.labels))
            if rule.topology_key == labels.HOSTNAME:
                here, size = counts[feasible], int((~is_ignored).sum())
            else:
                here = self._sums(counts, rule.topology_key)[numbers]
                size = len(np.unique(numbers[~is_ignored]))
            score += np.where(numbers != NO_DOMAIN, here * log(size + 2) + rule.max_skew - 1, 0.0)
        rounded = np.floor(score + 0.5).astype(np.int64)
        most, least = (int(f(rounded[~is_ignored])) if not is_ignored.all() else 0 for f in (np.max, np.min))
        normal = FULL * (most + least - rounded) // most if most else np.full(len(feasible), FULL)
        score_by_node: Ints = np.where(is_ignored, 0, normal)
        return score_by_node

    def _spreads_of(self, pod: Pod) -> Iterable[TopologySpread]:
        """Return a pod's spreads; defaults select the labels that it shares with its like, if its controller is not known."""
        spreads = self._defaults.of(pod)
        is_owned = any(owner.is_controller and owner.kind in DEFAULTED for owner in pod.owners)
        shared = tuple(Requirement.one_of(k, v) for k, v in sorted(pod.labels.items()) if k not in OF_ONE_POD)
        if spreads or not is_owned or not shared:
            return spreads
        return tuple(msgspec.structs.replace(rule, selector=LabelSelector(shared)) for rule in self._known_defaults)

    def _near(self, pod: Pod, feasible: Ints) -> Ints:
        """Score by preferences between pods, both ways (interpodaffinity/scoring.go)."""
        attraction: Ints = np.zeros(len(feasible), dtype=np.int64)
        for key, weight, counts in self._counts.attracting(pod):
            attraction += weight * self._sums(counts, key)[self._domains(key)[feasible]]
        least, most = int(attraction.min()), int(attraction.max())
        if most == least:
            return np.zeros(len(feasible), dtype=np.int64)
        scaled: Ints = (FULL * ((attraction - least) / (most - least))).astype(np.int64)
        return scaled

    def _domains(self, key: str) -> Ints:
        """Return [node], the number of its domain along a key, `NO_DOMAIN` without the label."""
        domains = self._domain_numbers.get(key)
        if domains is None:
            numbers: dict[str | None, int] = {None: NO_DOMAIN}
            number_of = [numbers.setdefault(on_node.get(key), len(numbers)) for on_node in self._labels]
            domains = self._domain_numbers[key] = np.array(number_of, dtype=np.int64)
        return domains

    def _sums(self, counts: Ints, key: str) -> Ints:
        """Return [domain], counts by node added up; those of nodes without the label are zero."""
        domains = self._domains(key)
        sums: Ints = np.zeros(int(domains.max(initial=NO_DOMAIN)) + 1, dtype=np.int64)
        np.add.at(sums, domains, counts)
        sums[NO_DOMAIN] = 0
        return sums


class _PodKind(NamedTuple):
    """What selectors see of a pod; most pods share theirs with all of their workload."""

    namespace: str
    labels: tuple[tuple[str, str], ...]
    is_terminating: bool

    @staticmethod
    def of(pod: Pod) -> _PodKind:
        return _PodKind(pod.namespace, tuple(sorted(pod.labels.items())), pod.is_terminating)


class _Selection(NamedTuple):
    """Pods that are counted together: those in the namespaces (None: in all) that the selector selects."""

    namespaces: tuple[str, ...] | None
    selector: LabelSelector
    with_leaving: bool

    def has(self, pod: Pod) -> bool:
        is_there = self.namespaces is None or pod.namespace in self.namespaces
        return is_there and (self.with_leaving or not pod.is_terminating) and self.selector.matches(pod.labels)


_Label = tuple[str, str]


class _Attraction(NamedTuple):
    """A term by which running pods attract or repel those that it selects, along a topology key."""

    selection: _Selection
    topology_key: str
    weight: int


class _PodCounts:
    """How many pods of a selection each node has, as pods move.

    Where thousands of workloads have a selector each, comparing them all with the pods of all would take minutes: only kinds
    with one of the labels that a selector names are compared with it.
    """

    def __init__(self, context: SchedulingContext) -> None:
        self._namespaces = Namespaces.of(context.snapshot)
        self._number = len(context.existing_nodes)
        self._on: dict[str, tuple[Pod, _PodKind, int]] = {}
        self._examples: dict[_PodKind, Pod] = {}
        self._kinds_with: dict[_Label, list[_PodKind]] = {}
        self._per_node: dict[_PodKind, Counter[int]] = {}
        self._known: dict[_Selection, Ints] = {}
        self._known_with: dict[_Label | None, list[tuple[_Selection, Ints]]] = {}
        self._selections: dict[_PodKind, list[Ints]] = {}
        self._attracting: dict[_Attraction, Counter[int]] = {}
        self._attracting_with: dict[_Label | None, list[_Attraction]] = {}
        for node in context.existing_nodes:
            for pod in node.state.pods:
                self._kind_of(pod)
        for node in context.existing_nodes:
            for pod in node.state.pods:
                self.add(pod, node.index)

    def selected(self, namespace: str, selector: LabelSelector | None, *, with_leaving: bool = False) -> Ints:
        """Return [node], its pods in the namespace that a selector selects."""
        return self._selected((namespace,), selector, with_leaving=with_leaving)

    def attracting(self, pod: Pod) -> Iterable[tuple[str, int, Ints]]:
        """Return topology key, weight and [node], pods: what the pod prefers to be near, and what prefers to be near it."""
        spec = pod.spec
        for sign, terms in ((1, spec.preferred_affinity), (-1, spec.preferred_anti_affinity)):
            for preferred in terms:
                selector = _selector(preferred.term, pod)
                counts = self._selected(
                    self._namespaces.of_term(preferred.term, pod.namespace), selector, with_leaving=True
                )
                yield preferred.term.topology_key, sign * preferred.weight, counts
        wanted: dict[tuple[str, int], Ints] = {}
        for label in (None, *pod.labels.items()):
            for attraction in self._attracting_with.get(label, ()):
                if attraction.selection.has(pod):
                    none: Ints = np.zeros(self._number, dtype=np.int64)
                    counts = wanted.setdefault((attraction.topology_key, attraction.weight), none)
                    for position, pods in self._attracting[attraction].items():
                        counts[position] += pods
        for (topology_key, weight), counts in wanted.items():
            yield topology_key, weight, counts

    def add(self, pod: Pod, position: int) -> None:
        """Count a pod on a node."""
        kind = self._kind_of(pod)
        self._on[pod.key] = (pod, kind, position)
        self._attract(pod, position, 1)
        self._per_node[kind][position] += 1
        for counts in self._selecting(kind):
            counts[position] += 1

    def remove(self, pod: Pod) -> None:
        """Count a pod no more."""
        before = self._on.pop(pod.key, None)
        if before is None:
            return
        counted, kind, position = before
        self._attract(counted, position, -1)
        self._per_node[kind][position] -= 1
        for counts in self._selecting(kind):
            counts[position] -= 1

    def _kind_of(self, pod: Pod) -> _PodKind:
        kind = _PodKind.of(pod)
        if kind not in self._examples:
            self._examples[kind], self._per_node[kind] = pod, Counter()
            for label in kind.labels:
                self._kinds_with.setdefault(label, []).append(kind)
        return kind

    def _labels_of(self, selector: LabelSelector) -> Sequence[_Label | None]:
        """Return labels, of which each selected pod has exactly one. The fewest kinds have them. None stands for no label."""
        lists = [[(r.key, value) for value in r.values] for r in selector.requirements if not r.complement and r.values]
        return min(lists, key=lambda some: sum(len(self._kinds_with.get(label, ())) for label in some), default=(None,))

    def _attract(self, pod: Pod, position: int, times: int) -> None:
        """Count what a pod on a node prefers to be near or apart from."""
        for term, weight in _terms_of(pod) if _has_terms(pod) else ():
            selector = _selector(term, pod)
            if selector is None:
                continue
            selection = _Selection(self._namespaces.of_term(term, pod.namespace), selector, with_leaving=True)
            attraction = _Attraction(selection, term.topology_key, weight)
            counts = self._attracting.get(attraction)
            if counts is None:
                counts = self._attracting[attraction] = Counter()
                for label in self._labels_of(selector):
                    self._attracting_with.setdefault(label, []).append(attraction)
            counts[position] += times

    def _selecting(self, kind: _PodKind) -> list[Ints]:
        """Return the counts that pods of a kind are part of."""
        counts = self._selections.get(kind)
        if counts is None:
            example = self._examples[kind]
            near = (pair for label in (None, *kind.labels) for pair in self._known_with.get(label, ()))
            counts = self._selections[kind] = [counts for selection, counts in near if selection.has(example)]
        return counts

    def _selected(
        self, namespaces: tuple[str, ...] | None, selector: LabelSelector | None, *, with_leaving: bool
    ) -> Ints:
        if selector is None:
            return np.zeros(self._number, dtype=np.int64)
        selection = _Selection(namespaces, selector, with_leaving)
        counts = self._known.get(selection)
        if counts is None:
            counts = self._known[selection] = np.zeros(self._number, dtype=np.int64)
            for label in self._labels_of(selector):
                self._known_with.setdefault(label, []).append((selection, counts))
                for kind in self._examples if label is None else self._kinds_with.get(label, ()):
                    if not selection.has(self._examples[kind]):
                        continue
                    if kind in self._selections:
                        self._selections[kind].append(counts)
                    for position, pods in self._per_node[kind].items():
                        counts[position] += pods
        return counts


def _selector(term: PodAffinityTerm, owner: Pod) -> LabelSelector | None:
    return with_label_keys(term.selector, owner.labels, term.match_label_keys, term.mismatch_label_keys)


def _has_terms(pod: Pod) -> bool:
    return bool(pod.spec.affinity or pod.spec.preferred_affinity or pod.spec.preferred_anti_affinity)


def _terms_of(pod: Pod) -> Iterable[tuple[PodAffinityTerm, int]]:
    """Return the terms by which a running pod attracts or repels others; a required affinity weighs one."""
    yield from ((term, 1) for term in pod.spec.affinity)
    yield from ((preferred.term, preferred.weight) for preferred in pod.spec.preferred_affinity)
    yield from ((preferred.term, -preferred.weight) for preferred in pod.spec.preferred_anti_affinity)


def _stated(pod: Pod, name: str) -> int:
    return pod.spec.requests.get(name, 0) or UNSTATED[name]


def _evenness(requested: Ints, offered: Ints) -> Ints:
    shares = np.minimum(requested / np.maximum(offered, 1), 1.0)
    apart = np.where((offered > 0).all(axis=0), np.abs(shares[0] - shares[1]) / 2, 0.0)
    score: Ints = ((1 - apart) * FULL).astype(np.int64)
    return score
