"""Decides which nodes go now, in which order, and why the others stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, TypeVar

import msgspec

from core.disruption import methods
from core.disruption.budgets import remaining
from core.disruption.consolidation import blocked_nodes
from core.disruption.disruption_pass import DisruptionPass, fleet_price
from core.disruption.target.stored import joined_targets, target_of_part
from core.model.plan import Blocked, Command, DisruptionCost, DisruptionPlan
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes
from core.packing.settings import SearchBudget
from core.pods import reschedulable
from core.reasons.code import TargetReason, TerminationReason
from core.reasons.nodes import NodeReason
from core.scheduling.constraints.ec2_quotas import VCPU
from core.scheduling.context import SchedulingContext
from core.scheduling.planner import Planner
from core.scheduling.pods import PodGroup
from core.scheduling.primitives import IMPOSSIBLE, TopologyGroupId
from core.scheduling.topology.groups import SPREAD

Method = Callable[[DisruptionPass], list[Command]]

REPAIR: Final[tuple[Method, ...]] = (methods.find_unhealthy,)
"""Runs before all others if the feature gate NodeRepair is on."""

KARPENTER: Final[tuple[Method, ...]] = (
    methods.find_empty,
    methods.find_static_drift,
    methods.find_drifted,
    methods.find_terminate_first,
    methods.find_multi_node,
    methods.find_single_node,
)
"""Karpenter's methods in its order."""

BEFORE_THE_TARGET: Final[tuple[Method, ...]] = (methods.find_empty, methods.find_static_drift)
"""Methods whose nodes need no place for pods run first; one target decides about all other nodes."""

ROLLOUT: Final[tuple[Method, ...]] = (methods.find_drifted, methods.find_terminate_first)
"""Drift that does not go with the target precedes it: a rollout has a canary and may be stopped."""

STEPS_LEAST: Final = 40
STEPS_MOST: Final = 104
"""Default number of search steps for cheaper new nodes: one per node, from `STEPS_LEAST` to `STEPS_MOST`.

See docs/engineering/handbook/target-packing.md.

The clock only ends the search early (docs/engineering/handbook/planning.md). With more steps, new nodes cost hardly less
(docs/engineering/handbook/target-packing.md).
"""

_MINUTE: Final = 60

LEFT_FOR_THE_TARGET: Final = 0.25
"""Share of the time to the deadline that must remain to start a target: its linear program cannot be interrupted."""


def disrupt(
    snapshot: Snapshot,
    planner: Planner | None = None,
    out_of_time: Callable[[], float] | None = None,
    *,
    proves: bool = True,
    proves_continued: bool = False,
    deadline: Callable[[], float] | None = None,
) -> DisruptionPlan:
    """Decide which nodes go at this moment, or with budgets ignored, in all waves to the target.

    Under Karpenter's policy the methods run in Karpenter's order. The commands of the first method that finds any are applied
    in memory, and all methods run again, until none finds a command that pays and that budgets allow. Each round removes at
    least one node, so the number of nodes bounds the loop. A later command may rely on replacements of an earlier one, see
    `startable`. Otherwise one target decides about all nodes that are not empty (`core.disruption.target`): the stored one as
    long as it holds (`snapshot.stored_target`), else a new one; in a large cluster, one for each of its parts.

    Args:
        snapshot: The cluster, the market and the records of claims at one moment.
        planner: An existing planner of exactly this snapshot, None for a new one.
        out_of_time: Ends the search for a cheaper target early, which `options.improve_iterations` bounds; returns the elapsed
            share of its time.
        proves: Whether to compute the proven minimum cost of the fleet.
        proves_continued: Whether to compute it although the stored target is continued, too.
        deadline: Ends the decision early; returns the elapsed share of its time. Commands found before that stand, and the next
            run examines the remaining nodes.
    """
    planner = planner or Planner(snapshot)
    parts, undivided = parts_of(snapshot, planner)
    if parts:
        return _in_parts(snapshot, parts, out_of_time, proves=(proves, proves_continued), deadline=deadline)
    before = fleet_price(snapshot)
    done = run(snapshot, planner, out_of_time, deadline=deadline)
    is_proven = proves and (proves_continued or done.target_reason != TargetReason.CONTINUED)
    floor = _floor(DisruptionPass(snapshot, planner, bounds_all=True)) if is_proven else None
    return DisruptionPlan(
        now=snapshot.now,
        commands=with_groups(done.commands, planner.context),
        blocked=blocked_nodes(done, snapshot),
        budgets=done.budgets.remaining,
        cost=DisruptionCost(before=before, after=done.price_after, lower_bound=floor),
        target=done.target,
        target_reason=done.target_reason,
        undivided=undivided,
    )


def with_groups(commands: Iterable[Command], context: SchedulingContext) -> tuple[Command, ...]:
    """Return the commands, each with the groups whose members leave its nodes.

    Where members wait for the end of their group, a terminationGracePeriod bounds that (`core.lifecycle.draining`).
    """
    if not context.gangs:
        return tuple(commands)
    from core.gangs import groups_leaving, members_of  # most clusters have none

    members = members_of(context.gangs)
    pods = {state.name: state.pods for state in context.states}
    return tuple(
        msgspec.structs.replace(
            command,
            groups=groups_leaving(
                members,
                (pod for node in command.nodes for pod in pods.get(node, ())),
                may_wait=command.reason == TerminationReason.DRIFTED,
            ),
        )
        for command in commands
    )


def parts_of(snapshot: Snapshot, planner: Planner) -> tuple[tuple[Snapshot, ...], str]:
    """Return the parts that a cluster is planned in; none for the whole, and then why, if it is to be divided."""
    nodes_most = snapshot.options.part_nodes
    if nodes_most is None or len(snapshot.nodes) <= nodes_most:
        return (), ""
    division = divided(snapshot, planner.context, nodes_most)
    return division.parts, division.undivided


def _in_parts(
    snapshot: Snapshot,
    parts: Sequence[Snapshot],
    out_of_time: Callable[[], float] | None,
    *,
    proves: tuple[bool, bool],
    deadline: Callable[[], float] | None,
) -> DisruptionPlan:
    """Return the decision about all parts of a snapshot.

    Each minute begins with the next part, so that all get their turn if there is not time for all. A part whose target is
    stored takes little.
    """
    of_target, of_continued = proves
    plans: dict[int, DisruptionPlan] = {}
    for number in turns_of_parts(snapshot.now, len(parts)):
        if deadline is not None and deadline() >= 1 - LEFT_FOR_THE_TARGET:
            plans[number] = left_alone(parts[number])
            continue
        plans[number] = disrupt(
            parts[number], None, out_of_time, proves=of_target, proves_continued=of_continued, deadline=deadline
        )
    return joined_plans(snapshot, [plans[number] for number in range(len(parts))])


def turns_of_parts(now: datetime, parts: int) -> tuple[int, ...]:
    """Return the numbers of so many parts in the order in which a decision at this moment takes them."""
    first = int(now.timestamp()) // _MINUTE % parts
    return (*range(first, parts), *range(first))


def startable(commands: Iterable[Command]) -> tuple[Command, ...]:
    """Return those of a decision's commands that can begin at once.

    A command waits if it moves pods to another's replacement, or removes a node to which an earlier one moves pods.
    """
    launched: set[str] = set()
    expecting: set[str] = set()
    starting: list[Command] = []
    for command in commands:
        targets = {move.to for move in command.moves}
        if not targets & launched and not expecting.intersection(command.nodes):
            starting.append(command)
        launched.update(claim.name for claim in command.replacements)
        expecting |= targets
    return tuple(starting)


def run(
    snapshot: Snapshot,
    planner: Planner | None = None,
    out_of_time: Callable[[], float] | None = None,
    *,
    deadline: Callable[[], float] | None = None,
) -> DisruptionPass:
    """Run the pass of `disrupt`, and return it with its findings about each node."""
    karpenter_only = snapshot.options.karpenter_moves_only
    own_methods = BEFORE_THE_TARGET if snapshot.options.ignore_budgets else BEFORE_THE_TARGET + ROLLOUT
    order = REPAIR + (KARPENTER if karpenter_only else own_methods)
    disruption_pass = DisruptionPass(snapshot, planner, deadline)
    while not disruption_pass.is_exhausted:
        commands = next((commands for method in order if (commands := method(disruption_pass))), [])
        if not commands:
            break
        disruption_pass.carry_out(commands)
    if not karpenter_only and (deadline is None or deadline() < 1 - LEFT_FOR_THE_TARGET):
        from core.disruption.target.decide import TargetDecision  # loads the solver

        steps = snapshot.options.improve_iterations
        budget = SearchBudget(default_steps(len(snapshot.nodes)) if steps is None else steps, out_of_time or deadline)
        decision = TargetDecision(disruption_pass, budget)
        commands = decision.commands()
        disruption_pass.adopt(commands)
        if not commands and not snapshot.options.ignore_budgets:
            commands = methods.find_left(disruption_pass)
            disruption_pass.carry_out(commands)
        if not commands:
            disruption_pass.adopt(decision.single())
        disruption_pass.target, disruption_pass.target_reason = decision.kept, decision.reason or ""
    elif not karpenter_only:
        disruption_pass.target = snapshot.stored_target  # the next run may have the time
    return disruption_pass


def default_steps(nodes: int) -> int:
    """Return the number of search steps for cheaper new nodes in a fleet of so many nodes."""
    return max(STEPS_LEAST, min(STEPS_MOST, nodes))


def _floor(disruption_pass: DisruptionPass) -> int:
    from core.disruption.target.search import fleet_floor  # loads the solver

    return fleet_floor(disruption_pass)


# Divides a large cluster into parts whose pods cannot go to each other's nodes, and joins the parts' decisions.
#
# NodePools stay in one part if a pod of one may use the other, if a PodDisruptionBudget, a rule between pods or a volume
# concerns pods of both, or if a spread needs the domains of both. What all NodePools share, such as a commitment, keeps the
# cluster whole.


T = TypeVar("T")

_HALF: Final = 2


class Division(msgspec.Struct, frozen=True):
    """The parts of a cluster, each a snapshot of its own; none, and why, if it has to be planned as a whole."""

    parts: tuple[Snapshot, ...] = ()
    undivided: str = ""


def divided(snapshot: Snapshot, context: SchedulingContext, nodes_most: int) -> Division:
    """Return the snapshot in parts of at most so many nodes. A set of coupled NodePools with more nodes is one part."""
    shared = _shared_by_all(snapshot, context)
    if shared:
        return Division(undivided=f"all NodePools share {shared}")
    places = _Places(context, nodes_most)
    if places.parts == 1:
        return Division(undivided="pods, budgets or volumes couple all NodePools that have nodes")
    pods = _by_part(snapshot.pods, places.of_pod, places.parts)
    nodes = _by_part(snapshot.nodes, lambda node: places.of_node(node.name, ""), places.parts)
    claims = _by_part(snapshot.node_claims, lambda claim: places.of_node(claim.name, claim.node_pool), places.parts)
    pools = _by_part(snapshot.node_pools, lambda pool: places.of_pool(pool.name), places.parts)
    options = msgspec.structs.replace(snapshot.options, part_nodes=None)
    parts = (
        msgspec.structs.replace(
            snapshot, pods=pods[n], nodes=nodes[n], node_claims=claims[n], node_pools=pools[n], options=options
        )
        for n in range(places.parts)
    )
    with_targets = (
        msgspec.structs.replace(part, stored_target=target_of_part(snapshot, part, places.pool_of_node))
        for part in parts
    )
    return Division(tuple(with_targets))


def _by_part(objects: Sequence[T], part_of: Callable[[T], int], parts: int) -> list[tuple[T, ...]]:
    lists: list[list[T]] = [[] for _ in range(parts)]
    for obj in objects:
        lists[part_of(obj)].append(obj)
    return [tuple(objects_of_part) for objects_of_part in lists]


class _Places:
    """Assigns every object of a cluster to a part.

    Attributes:
        parts: How many there are.
        pool_of_node: Name of a node or claim → its NodePool.
    """

    def __init__(self, context: SchedulingContext, nodes_most: int) -> None:
        self._coupled = _Coupling(context).sets
        self.pool_of_node = {
            name: state.node_pool for state in context.states for name in (state.name, state.claim_name) if name
        }
        self._group_of = {pod.key: _group(context.pod_groups.of(pod)) for pod in context.pending}
        sizes = Counter(state.node_pool for state in context.states)
        pools = sorted({*sizes, *(pool.name for pool in context.snapshot.node_pools)})
        sets: dict[Hashable, list[str]] = {}
        for pool in pools:
            sets.setdefault(self._coupled.root(_pool(pool)), []).append(pool)
        filled: list[int] = []
        self._number_of: dict[Hashable, int] = {}
        # The largest set first, each into the first part with room for it.
        for root in sorted(sets, key=lambda root: (-sum(sizes[pool] for pool in sets[root]), sets[root])):
            nodes = sum(sizes[pool] for pool in sets[root])
            number = next((n for n, there in enumerate(filled) if there + nodes <= nodes_most), len(filled))
            filled += [0] * (number == len(filled))
            filled[number] += nodes
            self._number_of[root] = number
        self.parts = max(1, len(filled))

    def of_pool(self, name: str) -> int:
        """Return the part of a NodePool, or of all nodes without one."""
        return self._number_of.get(self._coupled.root(_pool(name)), 0)

    def of_node(self, name: str, pool: str) -> int:
        """Return the part of a node or claim; one that is not planned with is where its NodePool is."""
        return self.of_pool(self.pool_of_node.get(name, pool))

    def of_pod(self, pod: Pod) -> int:
        """Return the part of a pod: that of its node, or of the NodePools that it may use."""
        if pod.node_name in self.pool_of_node:
            return self.of_pool(self.pool_of_node[pod.node_name])
        group = self._group_of.get(pod.key)
        return 0 if group is None else self._number_of.get(self._coupled.root(group), 0)


def _shared_by_all(snapshot: Snapshot, context: SchedulingContext) -> str:
    """Return what all NodePools share, so that none is decided about without the others; empty if there is no such thing."""
    options = snapshot.options
    shared = {
        "Karpenter's order of nodes": options.karpenter_moves_only,
        "a limit on evictions per hour": options.evictions_per_hour is not None,
        "commitments": bool(context.coverage.commitments),
        "capacity reservations": options.feature_gates.reserved_capacity and _has_reservations(snapshot),
        "subnets with few free addresses": bool(snapshot.subnet_addresses),
        "caps": any(pool.caps or pool.shared_limits for pool in snapshot.node_pools),
        "capacity buffers": bool(snapshot.buffers),
        "pods that start together": bool(context.gangs or context.booked or snapshot.provisioning_requests),
        "EC2 quotas that are half used": not _have_room(snapshot, context),
    }
    return next((what for what, is_shared in shared.items() if is_shared), "")


def _has_reservations(snapshot: Snapshot) -> bool:
    catalogue = snapshot.catalogue
    types = (t for of_class in (catalogue.default, *catalogue.by_node_class.values()) for t in of_class)
    return any(offering.reservation_id for instance_type in types for offering in instance_type.offerings)


def _have_room(snapshot: Snapshot, context: SchedulingContext) -> bool:
    """Whether half of each quota is free.

    Then parts need not count each other's nodes: all of today's could be launched once more.
    """
    remaining = context.remaining.quotas
    return all(remaining.get(code, 0) * _HALF >= vcpus * VCPU for code, vcpus in snapshot.vcpu_quotas.items())


class _Sets:
    """Disjoint sets of keys."""

    def __init__(self) -> None:
        self._parent: dict[Hashable, Hashable] = {}

    def root(self, key: Hashable) -> Hashable:
        """Return the key that stands for the set of this one."""
        while (parent := self._parent.get(key, key)) != key:
            self._parent[key] = self._parent.get(parent, parent)
            key = parent
        return key

    def join(self, *keys: Hashable) -> None:
        """Put all of these into one set."""
        first = self.root(keys[0])
        for key in keys[1:]:
            self._parent[self.root(key)] = first


def _pool(name: str) -> Hashable:
    return ("pool", name)


def _group(group: PodGroup) -> Hashable:
    return ("pods", group.index)


class _Coupling:
    """Finds which NodePools are coupled.

    Attributes:
        sets: The NodePools and groups of pods, in the sets that stay together. Nodes without a NodePool count as one.
    """

    def __init__(self, context: SchedulingContext) -> None:
        self.sets = _Sets()
        self._context = context
        pools = [state.node_pool for state in context.states] + [t.pool.name for t in context.templates]
        self._pools = tuple(dict.fromkeys(pools))
        bits: dict[str, int] = {}
        for node in context.existing_nodes:
            bits[node.state.node_pool] = bits.get(node.state.node_pool, 0) | 1 << node.index
        self._bits = bits
        self._known: set[TopologyGroupId] = set()
        self._values: dict[str, dict[str, set[str]]] = {}
        groups = self._join_pods()
        for group in groups:
            self._join_rules(group)
        for group in groups:
            self._join_domains(group)

    def _join_pods(self) -> list[PodGroup]:
        """Join each NodePool with those that its pods may use, and those of other pods under the same budget or volume."""
        context, groups = self._context, dict[Hashable, PodGroup]()
        for pod in context.pending:
            group = groups.setdefault(_group(context.pod_groups.of(pod)), context.pod_groups.of(pod))
            self.sets.join(_group(group), ("signature", group.signature.index))
            self._join_shared(pod, _group(group))
        for state in context.states:
            for pod in state.pods:
                self._join_shared(pod, _pool(state.node_pool))
            for pod in reschedulable(state.pods) if state.is_managed else ():
                group = context.pod_groups.of(pod)
                groups.setdefault(_group(group), group)
                self.sets.join(_pool(state.node_pool), _group(group))
        for key, group in groups.items():
            self.sets.join(key, *map(_pool, self._reachable(group)))
        return list(groups.values())

    def _join_shared(self, pod: Pod, place: Hashable) -> None:
        for budget in self._context.budgets.guards(pod):
            self.sets.join(("budget", budget.namespace, budget.name), place)
        for claim in pod.claim_names() if pod.spec.volumes else ():
            self.sets.join(("claim", pod.namespace, claim), place)

    def _reachable(self, group: PodGroup) -> Iterator[str]:
        """Return the NodePools that pods of the group may use: their nodes, or new ones."""
        alternatives = tuple(dict.fromkeys(number for step in group.steps for number in step.alternatives))
        tolerations = group.steps[-1].demands.tolerations if group.steps else ()
        nodes = self._context.node_index.suitable(alternatives, tolerations)
        yield from (pool for pool in self._pools if nodes & self._bits.get(pool, 0))
        yield from self._launching(group)

    def _launching(self, group: PodGroup) -> Iterator[str]:
        context = self._context
        for step in group.steps:
            for template, is_open in zip(context.templates, context.open_templates(step), strict=True):
                if is_open and any(
                    context.table.narrowed(template.offered, required=number) != IMPOSSIBLE
                    for number in step.alternatives
                ):
                    yield template.pool.name

    def _join_rules(self, group: PodGroup) -> None:
        """Join the pods with all that a rule of theirs counts: spread, affinity, and anti-affinity of either side."""
        for step in group.steps:
            for rule in (*step.host_rules, *step.zone_rules):
                self.sets.join(_group(group), ("rule", rule.group))
                if rule.group not in self._known:
                    self._known.add(rule.group)
                    self._join_counted(rule.group)

    def _join_counted(self, number: TopologyGroupId) -> None:
        for signature in self._context.topology.counted(number):
            self.sets.join(("rule", number), ("signature", signature.index))
            for position, _ in signature.counted(with_ending=True):
                pool = self._context.existing_nodes[position].state.node_pool
                self.sets.join(("signature", signature.index), _pool(pool))

    def _join_domains(self, group: PodGroup) -> None:
        """Join the pods with the NodePools that have a domain which their spreads count, and which their own lack.

        Along hostnames, an empty node counts. There is always one while a new node is possible.
        """
        domains = self._context.topology.domains
        for rule in {
            rule.group: rule for step in group.steps for rule in (*step.host_rules, *step.zone_rules)
        }.values():
            if rule.kind != SPREAD:
                continue
            if rule.is_hostname:
                if not any(self._launching(group)):
                    self.sets.join(_group(group), *map(_pool, self._pools))
                continue
            here = self.sets.root(_group(group))
            own_values = set[str]()
            for pool in self._pools:
                if self.sets.root(_pool(pool)) == here:
                    own_values |= self._of(rule.key, pool)
            if not own_values.issuperset((*domains.possible(rule.group), *domains.of_nodes(rule.group))):
                self.sets.join(_group(group), *map(_pool, self._pools))

    def _of(self, key: str, pool: str) -> set[str]:
        """Return the values of a label that nodes of the NodePool have."""
        if key not in self._values:
            of_pools = self._values[key] = {name: set() for name in self._pools}
            for node in self._context.existing_nodes:
                value = node.domain(key)
                if value is not None:
                    of_pools[node.state.node_pool].add(value)
        return self._values[key][pool]


# Joins the decisions of parts.


def left_alone(part: Snapshot) -> DisruptionPlan:
    """Return the decision about a part for which there is no time: nothing, and its stored target as it is."""
    states, price = state_nodes(part), fleet_price(part)
    blocked = (
        Blocked(state.name, NodeReason.NOT_TRIED, f"the pass ended before node {state.name} was examined")
        for state in states
        if state.node is not None and state.node_pool
    )
    return DisruptionPlan(
        now=part.now,
        blocked=tuple(sorted(blocked)),
        budgets=remaining(part, states),
        cost=DisruptionCost(before=price, after=price),
        target=part.stored_target,
    )


def joined_plans(snapshot: Snapshot, plans: Sequence[DisruptionPlan]) -> DisruptionPlan:
    """Return the decisions of all parts of the snapshot as one. No budget of NodePools or pods is shared by two parts."""
    bounds = [plan.cost.lower_bound for plan in plans]
    reasons = tuple(dict.fromkeys(plan.target_reason for plan in plans if plan.target_reason))
    return DisruptionPlan(
        now=snapshot.now,
        commands=tuple(command for plan in plans for command in plan.commands),
        blocked=tuple(sorted(blocked for plan in plans for blocked in plan.blocked)),
        budgets=dict(sorted((pool, nodes_left) for plan in plans for pool, nodes_left in plan.budgets.items())),
        cost=DisruptionCost(
            before=sum(plan.cost.before for plan in plans),
            after=sum(plan.cost.after for plan in plans),
            lower_bound=None if None in bounds else sum(bound or 0 for bound in bounds),
        ),
        target=joined_targets([plan.target for plan in plans if plan.target is not None], snapshot),
        target_reason=reasons[0] if len(reasons) == 1 else TargetReason.MADE if reasons else "",
        parts=len(plans),
    )
