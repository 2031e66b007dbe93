"""Checks whether commands that were found separately can run together, and merges those that cannot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from core import labels
from core.disruption.candidates.candidate import Candidate
from core.model.plan import Command, PlannedClaim
from core.model.pod import LabelSelector, Pod, TopologySpread
from core.model.snapshot import Snapshot
from core.pools.pool_types import pool_types
from core.scheduling.pods.default_topology_spread import DefaultSpreads
from core.scheduling.topology.topology_group import spread_group

Labels = frozenset[tuple[str, str]]


class Independence:
    """The commands found so far. In doubt, two commands count as dependent."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._spreads = DefaultSpreads(snapshot)
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


def widened(
    commands: Sequence[Command], command: Command, pods: Iterable[Pod], defaults: DefaultSpreads
) -> list[Command]:
    """Return the commands with one more; `pods` are those of the cluster, `defaults` its default spreads.

    Deletions whose pods the new command would move again are merged into it, so that no pod moves twice. Nothing is merged, and
    the commands run one after the other, in four cases:

    - One of those earlier commands has replacements or another reason.
    - The new command has no planned moves, although its nodes have pods (drift of static NodePools, terminate-first).
    - Another command removes a node to which one of the earlier commands moves pods, so it must run between the two.
    - A later command moves a pod that a spread of an earlier command's pod counts: to the same node if the spread is over
      hosts, anywhere if it is over zones or other shared domains. Merged, the earlier pod would come second, and the spread may
      deny it the node.
    """
    going = set(command.nodes)
    earlier = [c for c in commands if any(move.to in going for move in c.moves)]
    has_unplanned_pods = not command.moves and (
        command.replacements or command.method in ("static-drift", "terminate-first")
    )
    if not earlier or has_unplanned_pods or any(c.replacements or c.reason != command.reason for c in earlier):
        return [*commands, command]
    if _is_built_upon(earlier, commands) or _is_counted_after(earlier, commands, command, pods, defaults):
        return [*commands, command]
    moves = {move.pod: move for part in (*earlier, command) for move in part.moves}
    nodes = [pair for part in (*earlier, command) for pair in zip(part.nodes, part.claims, strict=True)]
    whole = msgspec.structs.replace(
        command,
        method="multi" if command.method == "single" else command.method,
        nodes=tuple(name for name, _ in nodes),
        claims=tuple(claim for _, claim in nodes),
        moves=tuple(moves[pod] for pod in sorted(moves)),
        savings=sum(part.savings for part in (*earlier, command)),
    )
    return [*(c for c in commands if c not in earlier), whole]


def _is_built_upon(earlier: Sequence[Command], commands: Sequence[Command]) -> bool:
    """Whether another of the commands removes a node to which one of the earlier commands moves pods."""
    filled = {move.to for command in earlier for move in command.moves}
    return any(not filled.isdisjoint(c.nodes) for c in commands if c not in earlier)


def _is_counted_after(
    earlier: Sequence[Command],
    commands: Sequence[Command],
    last: Command,
    pods: Iterable[Pod],
    defaults: DefaultSpreads,
) -> bool:
    """Whether a pod of one of the earlier commands is counted by where a later command moves another, see `widened`.

    Only pods matter that `last` leaves where the earlier command moves them.
    """
    moved_on = {move.pod for move in last.moves}
    known = {pod.key: pod for pod in pods}
    for number, command in enumerate(commands):
        if command not in earlier:
            continue
        after = commands[number + 1 :]
        on_hosts = [move for later in after if later not in earlier for move in later.moves]
        anywhere = [known[move.pod] for later in (*after, last) for move in later.moves if move.pod in known]
        for own in command.moves:
            if own.pod in moved_on or own.pod not in known:
                continue
            there = [known[move.pod] for move in on_hosts if move.to == own.to and move.pod in known]
            if _counts(known[own.pod], there, anywhere, defaults.required_of(known[own.pod])):
                return True
    return False


def _counts(owner: Pod, on_host: Iterable[Pod], anywhere: Iterable[Pod], spreads: Sequence[TopologySpread]) -> bool:
    """Whether a spread over hosts selects a pod on the owner's new node, or one over shared domains a pod anywhere.

    `spreads` are all required spreads of the owner.
    """
    for spread in spreads:
        group = spread_group(spread, spreads, owner.spec, owner.namespace, owner.labels)
        others = on_host if group.is_hostname else anywhere
        if any(group.selects(other.namespace, other.labels) for other in others):
            return True
    return False


def _selectors(pods: Iterable[Pod], spreads: DefaultSpreads) -> set[LabelSelector]:
    """Return the selectors of the rules over zones and other shared domains. Rules within a node do not matter here."""
    found: set[LabelSelector] = set()
    for pod in pods:
        rules = [(r.topology_key, r.selector) for r in spreads.required_of(pod)]
        rules += [(term.topology_key, term.selector) for term in (*pod.spec.affinity, *pod.spec.anti_affinity)]
        found |= {selector for key, selector in rules if selector is not None and key != labels.HOSTNAME}
    return found


def _bears(selectors: Iterable[LabelSelector], names: Iterable[Labels]) -> bool:
    return any(selector.matches(dict(found)) for selector in selectors for found in names)
