"""Splits bindings into chains: chains may be written in parallel, the bindings of one chain only in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from core.lifecycle.binding.pod_selection import PodSelection, affinity_selection, spread_selection
from core.lifecycle.binding.turn import DecidedBinding
from core.model.pod import DO_NOT_SCHEDULE, Pod


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
    found: dict[tuple[str, str], list[int]] = {}
    for position, pod in enumerate(pods):
        for label in pod.labels.items():
            found.setdefault(label, []).append(position)
    return found


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
