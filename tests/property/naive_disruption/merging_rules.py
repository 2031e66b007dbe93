"""Judges that no pod moves twice where commands could have been merged into one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from core.labels import HOSTNAME
from core.model.plan import Command, DisruptionPlan
from core.model.pod import Pod, PodAffinityTerm, TopologySpread
from core.model.snapshot import Snapshot
from tests.property.naive.reading import spread_selects, spreads_of, term_selects
from tests.property.naive_disruption.protection import pods_on


def twice_violations(snapshot: Snapshot, plan: DisruptionPlan) -> Iterator[str]:
    """A pod moves once, unless it first moved to a node that a later command removes and the two could not be merged.

    A later command of several nodes may have had a part that came before, with which they could not.
    """
    for number, command in enumerate(plan.commands):
        if command.method == "static-drift":
            continue
        feeding = [one for one in plan.commands[:number] if any(move.to in command.nodes for move in one.moves)]
        filled = {move.to for one in feeding for move in one.moves}
        between = [*plan.commands[:number], *(one for one in plan.commands[number + 1 :] if len(one.nodes) > 1)]
        is_built_upon = any(filled & set(one.nodes) for one in between if one not in feeding)
        is_alike = not any(one.replacements or one.reason != command.reason for one in feeding)
        if not feeding or not is_alike or is_built_upon:
            continue
        if not _would_come_late(snapshot, between, feeding, command) and not _would_wait(
            snapshot, between, feeding, command
        ):
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
    """Whether a rule of either over more than one node is about the other; a terminating pod has only its own."""
    others = snapshot.namespaces
    if any(_is_wide(term) and term_selects(term, other, mover, others) for term in other.spec.anti_affinity):
        return True
    if other.deleted_at is not None:
        return False
    if any(_is_wide(s) and spread_selects(s, mover, other) for s in _binding_spreads(snapshot, mover)):
        return True
    own = (*mover.spec.affinity, *mover.spec.anti_affinity)
    return any(_is_wide(term) and term_selects(term, mover, other, others) for term in own)


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
