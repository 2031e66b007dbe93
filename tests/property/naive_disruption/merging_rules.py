"""Judges that no pod moves twice where commands could have been merged into one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from core.labels import HOSTNAME
from core.model.plan import Command, DisruptionPlan
from core.model.pod import Pod, PodAffinityTerm, TopologySpread
from core.model.snapshot import Snapshot
from tests.property.naive.reading import spread_selects, spreads_of, term_selects
from tests.property.naive_disruption.price_rules import may_be_merged
from tests.property.naive_disruption.protection import pods_on


def twice_violations(snapshot: Snapshot, plan: DisruptionPlan) -> Iterator[str]:
    """A pod moves once, unless it first moved to a node that a later command removes and the two could not be merged.

    A later command of several nodes may have had a part that came before, with which they could not: a node that goes alone.
    """
    for number, command in enumerate(plan.commands):
        if command.method == "static-drift":
            continue
        feeding = [one for one in plan.commands[:number] if any(move.to in command.nodes for move in one.moves)]
        filled = {move.to for one in feeding for move in one.moves}
        between = [*plan.commands[:number], *(o for o in plan.commands[number + 1 :] if may_be_merged(snapshot, o))]
        is_built_upon = any(filled & set(one.nodes) for one in between if one not in feeding)
        is_alike = not any(one.replacements or one.reason != command.reason for one in feeding)
        if not feeding or not is_alike or is_built_upon:
            continue
        excuses = (_would_come_late, _would_be_early, _would_wait)
        if not any(excuse(snapshot, between, feeding, command) for excuse in excuses):
            yield f"twice: pods move to {command.nodes}, and on when these go"


def _would_come_late(snapshot: Snapshot, between: Sequence[Command], feeding: Sequence[Command], last: Command) -> bool:
    """Whether a pod would come after one that its spread counts: on its new node, or anywhere if it is not over hosts."""
    pods = {pod.key: pod for pod in snapshot.pods}
    goes_on = {move.pod for move in last.moves}
    for first, later in _pairs(between, feeding, last):
        for own, other in product(first.moves, later.moves):
            if own.pod in goes_on:
                continue
            is_near = own.to == other.to and later not in feeding and later is not last
            for spread in _binding_spreads(snapshot, pods[own.pod]):
                is_asked = is_near if spread.topology_key == HOSTNAME else True
                if is_asked and spread_selects(spread, pods[own.pod], pods[other.pod]):
                    return True
    return False


def _would_be_early(snapshot: Snapshot, between: Sequence[Command], feeding: Sequence[Command], last: Command) -> bool:
    """Whether another command's pod, which followed or made room, would move while an earlier one is on its old node.

    A pod that moves on keeps only those away that come to where it was.
    """
    pods = {pod.key: pod for pod in snapshot.pods}
    goes_on = {move.pod for move in last.moves}
    for first, later in _pairs(between, feeding, last):
        if later in feeding or later is last:
            continue
        for own, other in product(first.moves, later.moves):
            pod, follower = pods[own.pod], pods[other.pod]
            if _is_about(snapshot, follower, pod, near=own.to == other.to):
                return True
            if _is_about(snapshot, pod, follower, near=False, keeps_away_only=own.pod in goes_on):
                return True
    return False


def _is_about(snapshot: Snapshot, owner: Pod, other: Pod, *, near: bool, keeps_away_only: bool = False) -> bool:
    """Whether a rule of one pod over more than one node is about the other, or an affinity where both are on one node."""
    spec, others = owner.spec, snapshot.namespaces
    if any(_is_wide(term) and term_selects(term, owner, other, others) for term in spec.anti_affinity):
        return True
    if keeps_away_only:
        return False
    if any(_is_wide(s) and spread_selects(s, owner, other) for s in _binding_spreads(snapshot, owner)):
        return True
    return any((_is_wide(term) or near) and term_selects(term, owner, other, others) for term in spec.affinity)


def _would_wait(snapshot: Snapshot, between: Sequence[Command], feeding: Sequence[Command], last: Command) -> bool:
    """Whether a pod that moves later has to do with one that is on an earlier node until that ends, of a DaemonSet for one.

    Merged, the earlier node would still exist.
    """
    pods = {pod.key: pod for pod in snapshot.pods}
    for first, later in _pairs(between, feeding, last):
        movers = [pods[move.pod] for move in later.moves]
        leaving = {move.pod for move in first.moves}
        remaining = [pod for name in first.nodes for pod in pods_on(snapshot, name) if pod.key not in leaving]
        if any(_has_to_do_with(snapshot, *pair) for pair in product(movers, remaining)):
            return True
    return False


def _has_to_do_with(snapshot: Snapshot, mover: Pod, other: Pod) -> bool:
    """Whether a rule of the mover is about the other, or the other keeps it away; a terminating pod does only that."""
    if _is_about(snapshot, other, mover, near=False, keeps_away_only=True):
        return True
    return other.deleted_at is None and _is_about(snapshot, mover, other, near=False)


def _is_wide(rule: TopologySpread | PodAffinityTerm) -> bool:
    return rule.topology_key != HOSTNAME


def _binding_spreads(snapshot: Snapshot, pod: Pod) -> list[TopologySpread]:
    return [spread for spread in spreads_of(snapshot, pod) if spread.when_unsatisfiable == "DoNotSchedule"]


def _pairs(between: Sequence[Command], feeding: Sequence[Command], last: Command) -> Iterator[tuple[Command, Command]]:
    """Each command that fills a node of the last, with each that comes after it."""
    commands = [*between, last]
    for first in feeding:
        for later in commands[commands.index(first) + 1 :]:
            yield first, later
