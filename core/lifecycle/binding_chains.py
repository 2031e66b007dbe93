"""Splits bindings into chains: chains may be written in parallel, the bindings of one chain only in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from core.lifecycle.binding import (
    SETTLES_WITHIN,
    DecidedBinding,
    PlacedPods,
    PodSelection,
    affinity_selection,
    is_held,
    lacking_resource,
    objection_of_node,
    spread_selection,
)
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.pod import DO_NOT_SCHEDULE, Pod
from core.model.snapshot import Node


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
    known: dict[PodSelection, list[int]] = {}
    with_label = _by_label(pods)
    for position, pod in enumerate(pods):
        for selection in _selections(pod):
            groups.setdefault(position, position)
            if selection not in known:
                candidates = _candidates(selection, with_label, len(pods))
                known[selection] = [other for other in candidates if selection.selects(pods[other])]
                for other in known[selection]:
                    groups.setdefault(other, other)
                    _join(groups, position, other)
            for other in known[selection][:1]:
                _join(groups, position, other)
    return {position: _first(groups, position) for position in groups}


def _by_label(pods: Sequence[Pod]) -> dict[tuple[str, str], list[int]]:
    """Return label and value → the positions of the pods that have it."""
    by_label: dict[tuple[str, str], list[int]] = {}
    for position, pod in enumerate(pods):
        for label in pod.labels.items():
            by_label.setdefault(label, []).append(position)
    return by_label


def _candidates(selection: PodSelection, with_label: Mapping[tuple[str, str], list[int]], pods: int) -> Sequence[int]:
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


def _join(groups: dict[int, int], one: int, other: int) -> None:
    low, high = sorted((_first(groups, one), _first(groups, other)))
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
