"""Guides one plan: topology domains that pods avoid, or take in turn or in an order, although their rules allow others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Final, NamedTuple

from msgspec.structs import replace

from core.model.values.requirements import Requirement
from core.scheduling.pods.pod_group import PodGroup, RelaxationStep
from core.scheduling.primitives.handles import RequirementId, StepId
from core.scheduling.primitives.memo import memo
from core.scheduling.primitives.requirement_table import IMPOSSIBLE, RequirementTable

BarredDomain = tuple[int, str, str]
"""A signature's number, a topology key, and the value that its pods leave to others."""

RoundRobinPods = tuple[int, str, tuple[str, ...]]
"""A signature's number, a topology key, and the values that its pods take round robin."""


class DomainOrder(NamedTuple):
    """The order in which pods try the values of a topology key.

    Attributes:
        seed: None for the given order; otherwise each pod tries the values in its own order, drawn from this seed.
    """

    key: str
    values: tuple[str, ...]
    seed: int | None = None


DOMAINS_MAX: Final = 8
"""The most values of a topology key that pods leave to others or take in turn."""

_Steps = tuple[RelaxationStep, ...]


class GuidedSteps:
    """Adds the guidance to the pods' requirements, so that every search treats it like a node selector."""

    def __init__(
        self,
        table: RequirementTable,
        barred: Iterable[BarredDomain],
        round_robin: Iterable[RoundRobinPods],
        order: DomainOrder | None = None,
    ) -> None:
        unwanted: dict[int, dict[str, list[str]]] = {}
        for signature, key, value in sorted(barred):
            unwanted.setdefault(signature, {}).setdefault(key, []).append(value)
        self._in_turn = {signature: (key, values) for signature, key, values in sorted(round_robin)}
        self._order = order
        self._turns: Callable[[PodGroup], tuple[_Steps, ...]] = memo(
            partial(_turns, _AddedRequirements(table), unwanted, self._in_turn, order)
        )

    def of(self, pod_group: PodGroup, number: int) -> _Steps:
        """Return the relaxation steps of a group's pod with this number; those without any suitable node are left out."""
        turns = self._turns(pod_group)
        if len(turns) == 1:
            return turns[0]
        return tuple(step for turn in self._ordered(turns, pod_group.signature.index, number) for step in turn)

    def _ordered(self, turns: tuple[_Steps, ...], signature: int, number: int) -> Sequence[_Steps]:
        if signature in self._in_turn:
            first = number % len(turns)
            return turns[first:] + turns[:first]
        if self._order is None or self._order.seed is None:
            return turns
        pod = f"{self._order.seed} {signature} {number}"
        drawn = sorted(range(len(turns)), key=lambda turn: blake2b(f"{pod} {turn}".encode(), digest_size=8).digest())
        return [turns[turn] for turn in drawn]


class _AddedRequirements:
    """Adds requirements to steps, and numbers the resulting steps.

    Searches cache results by the numbers of steps, so steps with different requirements must not share one. These steps get
    negative numbers; those of the snapshot are not negative.
    """

    def __init__(self, table: RequirementTable) -> None:
        self._table = table
        self._numbers: dict[tuple[int, tuple[RequirementId, ...]], int] = {}

    def to(self, steps: _Steps, wanted: Sequence[Requirement]) -> _Steps:
        """Return the steps with these requirements added; steps that then suit no node are left out."""
        found = []
        for step in steps:
            # Only topology keys of the step's rules: a new node gets exactly one value of them anyway.
            added = [requirement for requirement in wanted if requirement.key in step.keys]
            alternatives = (self._table.restricted(number, added) for number in step.alternatives)
            possible = tuple(number for number in alternatives if number != IMPOSSIBLE)
            if possible and added:
                number = self._numbers.setdefault((step.index, possible), -1 - len(self._numbers))
                found.append(replace(step, alternatives=possible, index=StepId(number), number=number))
            elif possible:
                found.append(step)
        return tuple(found)


def _turns(
    adding: _AddedRequirements,
    unwanted: Mapping[int, Mapping[str, list[str]]],
    in_turn: Mapping[int, tuple[str, tuple[str, ...]]],
    order: DomainOrder | None,
    pod_group: PodGroup,
) -> tuple[_Steps, ...]:
    """Return the group's steps for each value of its key, or all its steps if nothing orders the values."""
    signature = pod_group.signature.index
    avoided = [Requirement(key, True, tuple(values)) for key, values in unwanted.get(signature, {}).items()]
    steps = adding.to(pod_group.steps, avoided) if avoided else pod_group.steps
    key, values = in_turn.get(signature) or ((order.key, order.values) if order is not None else ("", ()))
    if not any(key in step.keys for step in steps):
        return (steps,)
    for_each_value = (adding.to(steps, [Requirement(key, False, (value,))]) for value in values)
    return tuple(turn for turn in for_each_value if turn) or (steps,)
