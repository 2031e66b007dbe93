"""Commands of one pass: applied in memory, compared for independence, and merged where their pods would move again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

import msgspec

from core import labels
from core.disruption.candidate import Candidate
from core.disruption.prices import ReplacementOptions
from core.model import plan
from core.model.plan import Command, Condition, Move, NodeClaim, PlannedClaim
from core.model.pod import EBS_DRIVER, LabelSelector, Pod
from core.model.snapshot import Node, Snapshot
from core.model.values.requirements import Requirement
from core.pools import pool_types
from core.scheduling.pods import DefaultSpreads
from core.scheduling.topology.groups import (
    ANTI_AFFINITY,
    Namespaces,
    TopologyGroup,
    affinity_group,
    affinity_groups,
    spread_group,
)

# Applies commands to a snapshot: removes their nodes, moves their pods, adds their replacements as ready nodes.


_READY: Final = (plan.LAUNCHED, plan.REGISTERED, plan.INITIALIZED, plan.CONSOLIDATABLE)


def carried_out(snapshot: Snapshot, *commands: Command) -> Snapshot:
    """Return the snapshot with the commands' effects, as far as later decisions depend on them.

    No command moves pods to the nodes or replacements of another. Removed nodes no longer count as room, so the result says
    nothing about budgets. Each replacement becomes its cheapest offering, ready to take more pods.
    """
    going = {name for command in commands for name in command.nodes}
    claims = {name for command in commands for name in command.claims}
    target = {move.pod: move.to for command in commands for move in command.moves}
    started = [joined(claim, snapshot) for command in commands for claim in command.replacements]
    return msgspec.structs.replace(
        snapshot,
        pods=tuple(moved for pod in snapshot.pods if (moved := _moved(pod, going, target)) is not None),
        nodes=(*(node for node in snapshot.nodes if node.name not in going), *(node for _, node in started)),
        node_claims=(
            *(claim for claim in snapshot.node_claims if claim.name not in claims),
            *(claim for claim, _ in started),
        ),
    )


def _moved(pod: Pod, going: set[str], target: dict[str, str]) -> Pod | None:
    if pod.node_name not in going:
        return pod
    place = target.get(pod.key)
    return None if place is None else msgspec.structs.replace(pod, node_name=place)


def joined(planned: PlannedClaim, snapshot: Snapshot) -> tuple[NodeClaim, Node]:
    """Return the claim and the node that the cheapest offering would become."""
    instance_type, offerings = ReplacementOptions.of(planned, snapshot).types[0]
    offering = min(offerings, key=lambda o: (o.price, o.zone, o.capacity_type))
    shared_labels = {
        **planned.labels,
        **{key: values[0] for key, values in instance_type.labels.items() if len(values) == 1},
        **{r.key: r.values[0] for r in planned.requirements if _is_single(r)},
        labels.NODEPOOL: planned.node_pool,
        labels.INSTANCE_TYPE: instance_type.name,
        labels.ZONE: offering.zone,
        labels.CAPACITY_TYPE: offering.capacity_type,
        **offering.reservation_labels(),
    }
    provider_id = f"planned:///{planned.name}"
    claim = NodeClaim(
        name=planned.name,
        labels=shared_labels,
        taints=planned.taints,
        startup_taints=planned.startup_taints,
        requirements=planned.requirements,
        resources=planned.resources,
        node_class=planned.node_class,
        created_at=snapshot.now,
        provider_id=provider_id,
        node_name=planned.name,
        capacity=instance_type.capacity,
        allocatable=instance_type.allocatable(),
        conditions={name: Condition("True", changed_at=snapshot.now) for name in _READY},
    )
    node = Node(
        name=planned.name,
        provider_id=provider_id,
        labels={**shared_labels, labels.HOSTNAME: planned.name, labels.REGISTERED: "true", labels.INITIALIZED: "true"},
        taints=planned.taints,
        capacity=instance_type.capacity,
        allocatable=instance_type.allocatable(),
        created_at=snapshot.now,
        is_ready=True,
        attach_limits={EBS_DRIVER: instance_type.attach_limit} if instance_type.attach_limit is not None else {},
    )
    return claim, node


def _is_single(requirement: Requirement) -> bool:
    return requirement.is_finite and len(requirement.values) == 1


# Checks whether commands that were found separately can run together.


Labels = frozenset[tuple[str, str]]


class Independence:
    """The commands found so far. In doubt, two commands count as dependent."""

    def __init__(self, snapshot: Snapshot, defaults: DefaultSpreads) -> None:
        """Begin without commands; `defaults` are the default spreads of the snapshot's cluster."""
        self._snapshot = snapshot
        self._spreads = defaults
        self._limits = {pool.name: pool.limits for pool in snapshot.node_pools}
        self._going: set[str] = set()
        self._filled: set[str] = set()
        self._selectors: set[LabelSelector] = set()
        self._labels: set[Labels] = set()
        self._scarce: set[str] = set()

    def takes(self, command: Command, candidate: Candidate) -> bool:
        """Take the command that replaces the candidate if it is independent of those already taken; return whether it is.

        Independent commands move no pods to the same node, and none to a node that goes. No rule over several nodes connects
        the pods that they move. At most one command may need more of a NodePool's limits than it frees, at most one a place in
        a reservation, and at most one the unused amount of a commitment.
        """
        targets = {move.to for move in command.moves}
        selectors = _selectors(candidate.pods, self._spreads)
        names = {frozenset(pod.labels.items()) for pod in candidate.pods}
        scarce = {key for claim in command.replacements for key in self._scarce_for(claim, command, candidate)}
        meets = (
            candidate.name in self._filled
            or not targets.isdisjoint(self._filled | self._going)
            or not scarce.isdisjoint(self._scarce)
            or _bears(selectors, self._labels)
            or _bears(self._selectors, names)
        )
        if meets:
            return False
        self._going.add(candidate.name)
        self._filled |= targets
        self._selectors |= selectors
        self._labels |= names
        self._scarce |= scarce
        return True

    def _scarce_for(self, claim: PlannedClaim, command: Command, candidate: Candidate) -> Iterable[str]:
        """Return the scarce resources that a replacement needs, each of which only one command may use."""
        if labels.RESERVED in claim.capacity_types:
            yield labels.RESERVED
        if claim.commitment:
            yield labels.COMMITMENT
        limits = self._limits.get(claim.node_pool, {})
        freed = candidate.state.node.capacity if candidate.state.node is not None else {}
        is_alike = len(command.replacements) == 1 and claim.node_pool == candidate.pool.name
        types = {t.name: t for t in pool_types(self._snapshot).of(claim.node_pool)} if limits else {}
        grows = any(
            types[name].capacity.get(resource, 0) > freed.get(resource, 0)
            for name in claim.instance_types
            if name in types
            for resource in limits
            if resource != "nodes"
        )
        if limits and (grows or not is_alike):
            yield f"limits of {claim.node_pool}"


def _selectors(pods: Iterable[Pod], spreads: DefaultSpreads) -> set[LabelSelector]:
    """Return the selectors of the rules over zones and other shared domains. Rules within a node do not matter here."""
    selectors: set[LabelSelector] = set()
    for pod in pods:
        rules = [(r.topology_key, r.selector) for r in spreads.required_of(pod)]
        rules += [(term.topology_key, term.selector) for term in (*pod.spec.affinity, *pod.spec.anti_affinity)]
        selectors |= {selector for key, selector in rules if selector is not None and key != labels.HOSTNAME}
    return selectors


def _bears(selectors: Iterable[LabelSelector], names: Iterable[Labels]) -> bool:
    return any(selector.matches(dict(pod_labels)) for selector in selectors for pod_labels in names)


# Sorts the required topology rules of a pod by their domains: hosts, or zones and other shared ones.


class PodRules(msgspec.Struct, frozen=True):
    """The required rules of a pod: over hosts, and wide ones, over zones or other shared domains."""

    host_spreads: tuple[TopologyGroup, ...] = ()
    host_affinity: tuple[TopologyGroup, ...] = ()
    wide_spreads: tuple[TopologyGroup, ...] = ()
    wide_affinity: tuple[TopologyGroup, ...] = ()
    wide_anti_affinity: tuple[TopologyGroup, ...] = ()

    @classmethod
    def of(cls, pod: Pod, defaults: DefaultSpreads, namespaces: Namespaces) -> PodRules:
        """Read the pod's rules; `defaults` are the cluster's default spreads."""
        required = defaults.required_of(pod)
        if not required and not pod.spec.affinity and not pod.spec.anti_affinity:
            return _NO_RULES
        spreads = [spread_group(spread, required, pod.spec, pod.namespace, pod.labels) for spread in required]
        near = affinity_groups(pod.spec.affinity, pod.namespace, pod.labels, namespaces)
        apart = [
            affinity_group(ANTI_AFFINITY, term, pod.namespace, pod.labels, namespaces)
            for term in pod.spec.anti_affinity
        ]
        return cls(
            host_spreads=tuple(group for group in spreads if group.is_hostname),
            host_affinity=tuple(group for group in near if group.is_hostname),
            wide_spreads=tuple(group for group in spreads if not group.is_hostname),
            wide_affinity=tuple(group for group in near if not group.is_hostname),
            wide_anti_affinity=tuple(group for group in apart if not group.is_hostname),
        )

    @property
    def wide(self) -> tuple[TopologyGroup, ...]:
        """All over shared domains."""
        return (*self.wide_spreads, *self.wide_affinity, *self.wide_anti_affinity)


_NO_RULES: Final = PodRules()


def selects_any(groups: Sequence[TopologyGroup], pods: Iterable[Pod]) -> bool:
    """Whether any of the rules selects any of the pods."""
    return bool(groups) and any(group.selects(pod.namespace, pod.labels) for pod in pods for group in groups)


class Merger:
    """Adds commands to those of a pass, merged where a pod would move twice."""

    def __init__(self, snapshot: Snapshot, defaults: DefaultSpreads) -> None:
        """Read the cluster at the beginning of the pass; `defaults` are its default spreads."""
        self._snapshot = snapshot
        self._defaults = defaults
        self._known: dict[str, PodRules] = {}

    def added(self, commands: Sequence[Command], command: Command) -> list[Command]:
        """Return the commands with one more.

        Deletions whose pods the new command would move again are merged into it, so that no pod moves twice. Merged, their
        pods move when the new command's do. Nothing is merged, and the commands run one after the other, in six cases:

        - One of those earlier commands has replacements or another reason.
        - The new command has no planned moves, although its nodes have pods (drift of static NodePools, terminate-first).
        - Another command removes a node to which one of the earlier commands moves pods, so it must run between the two.
        - A later command moves a pod that a spread of an earlier command's pod counts: to the same node if the spread is over
          hosts, anywhere if it is over zones or other shared domains. The earlier pod would come second, and the spread may
          deny it the node.
        - A later command that stays apart moves a pod that a rule over shared domains connects with an earlier command's
          pod, or that must be near it on its node. It would move while the other is still on its old node.
        - A later command moves a pod that a rule over shared domains connects with one that stays on an earlier command's
          node as long as that exists, such as a DaemonSet's. The node would still be there.
        """
        going = set(command.nodes)
        earlier = [c for c in commands if any(move.to in going for move in c.moves)]
        has_unplanned_pods = not command.moves and (
            command.replacements or command.method in ("static-drift", "terminate-first")
        )
        if not earlier or has_unplanned_pods or any(c.replacements or c.reason != command.reason for c in earlier):
            return [*commands, command]
        if _is_built_upon(earlier, commands) or any(
            self._comes_first(moved, [c for c in after if c not in earlier], [*after, command], command)
            for moved, after in _with_later(earlier, commands)
        ):
            return [*commands, command]
        # Others that fill the merged command's nodes may have been kept apart by commands that are part of it now.
        return self.added([c for c in commands if c not in earlier], _merged([*earlier, command]))

    def _comes_first(self, command: Command, apart: Sequence[Command], later: Sequence[Command], last: Command) -> bool:
        """Whether one of the earlier commands must come before others, see `added`; `apart` are those that stay apart."""
        return (
            self._is_counted_after(command, apart, later, last)
            or self._is_followed(command, apart, last)
            or self._remains_beside(command, later)
        )

    def _is_counted_after(
        self, command: Command, apart: Sequence[Command], later: Sequence[Command], last: Command
    ) -> bool:
        """Whether a spread of one of the command's pods counts a pod where a later command moves it.

        Only pods matter that `last` leaves where the command moves them.
        """
        moved_on = {move.pod for move in last.moves}
        arriving = self._moved_by(later)
        for move, pod in self._moved(command):
            if move.pod in moved_on:
                continue
            there = [other for other_move, other in self._moved_by(apart) if other_move.to == move.to]
            rules = self._rules(pod)
            if selects_any(rules.host_spreads, there) or selects_any(rules.wide_spreads, (o for _, o in arriving)):
                return True
        return False

    def _is_followed(self, command: Command, apart: Sequence[Command], last: Command) -> bool:
        """Whether another command moves a pod after one of the command's pods, and a rule connects the two.

        The affinity of a pod that `last` moves on does not matter: it is asked once the others have moved.
        """
        moved_on = {move.pod for move in last.moves}
        followers = self._moved_by(apart)
        for move, pod in self._moved(command):
            rules = self._rules(pod)
            own_rules = rules.wide_anti_affinity if move.pod in moved_on else rules.wide
            if selects_any(own_rules, (follower for _, follower in followers)):
                return True
            for other, follower in followers:
                theirs = self._rules(follower)
                if selects_any(theirs.wide, (pod,)) or (
                    move.to == other.to and selects_any(theirs.host_affinity, (pod,))
                ):
                    return True
        return False

    def _remains_beside(self, command: Command, later: Sequence[Command]) -> bool:
        """Whether a rule connects a pod that the command's nodes keep to their end with one that a later command moves."""
        moved = {move.pod for move in command.moves}
        remaining = [pod for name in command.nodes for pod in self._pods_by_node.get(name, ()) if pod.key not in moved]
        active = [pod for pod in remaining if pod.is_active]
        return bool(remaining) and any(
            selects_any(self._rules(pod).wide, active)
            or any(selects_any(self._rules(other).wide_anti_affinity, (pod,)) for other in remaining)
            for _, pod in self._moved_by(later)
        )

    def _moved_by(self, commands: Iterable[Command]) -> list[tuple[Move, Pod]]:
        """Return the moves of these commands, with the pods; without pods that have ended since."""
        return [pod for command in commands for pod in self._moved(command)]

    def _moved(self, command: Command) -> list[tuple[Move, Pod]]:
        return [(move, self._pods[move.pod]) for move in command.moves if move.pod in self._pods]

    def _rules(self, pod: Pod) -> PodRules:
        rules = self._known.get(pod.key)
        if rules is None:
            rules = self._known[pod.key] = PodRules.of(pod, self._defaults, self._namespaces)
        return rules

    @cached_property
    def _pods(self) -> dict[str, Pod]:
        return {pod.key: pod for pod in self._snapshot.pods}

    @cached_property
    def _pods_by_node(self) -> dict[str, list[Pod]]:
        """Return node → its pods that have not finished."""
        by_node: dict[str, list[Pod]] = {}
        for pod in self._snapshot.pods:
            if pod.node_name and not pod.is_terminal:
                by_node.setdefault(pod.node_name, []).append(pod)
        return by_node

    @cached_property
    def _namespaces(self) -> Namespaces:
        return Namespaces.of(self._snapshot)


def _is_built_upon(earlier: Sequence[Command], commands: Sequence[Command]) -> bool:
    """Whether another of the commands removes a node to which one of the earlier commands moves pods."""
    filled = {move.to for command in earlier for move in command.moves}
    return any(not filled.isdisjoint(c.nodes) for c in commands if c not in earlier)


def _with_later(earlier: Sequence[Command], commands: Sequence[Command]) -> Iterable[tuple[Command, list[Command]]]:
    """Return each of the earlier commands, with all commands after it."""
    return ((command, list(commands[number + 1 :])) for number, command in enumerate(commands) if command in earlier)


def _merged(parts: Sequence[Command]) -> Command:
    """Return one command for all parts; where two move a pod, the later move counts."""
    last = parts[-1]
    moves = {move.pod: move for part in parts for move in part.moves}
    nodes = [pair for part in parts for pair in zip(part.nodes, part.claims, strict=True)]
    return msgspec.structs.replace(
        last,
        method="multi" if last.method == "single" else last.method,
        nodes=tuple(name for name, _ in nodes),
        claims=tuple(claim for _, claim in nodes),
        moves=tuple(moves[pod] for pod in sorted(moves)),
        savings=sum(part.savings for part in parts),
    )
