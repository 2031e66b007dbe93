"""What a claim becomes with one pod more: the pod's demands granted, and one value of each key that rules speak of."""

from __future__ import annotations

from collections.abc import Sequence

from core.scheduling.capacity.claim_profile import Look
from core.scheduling.greedy.plan_state import Books
from core.scheduling.pods.pod_group import Rule, Shape, Stage
from core.scheduling.primitives.requirement_table import IMPOSSIBLE
from core.scheduling.topology.domain_choice import Draft

Held = tuple[Look, tuple[tuple[Rule, str], ...]]
"""What a claim becomes that has one value of every key already, where the rules still admit these values."""


class Narrowing:
    """Answers for looks instead of claims, and remembers what cannot change while a plan is made."""

    def __init__(self, books: Books) -> None:
        self._ground = books.ground
        self._tally = books.accounts.tally
        self._pinning = books.pinning
        self._looks = books.looks
        self._steady: dict[tuple[int, int], Sequence[Look]] = {}
        self._held: dict[tuple[int, int], Held] = {}
        self._granted_by: dict[tuple[int, int], tuple[Look, ...]] = {}
        self._targets: dict[tuple[int, str], dict[str | None, Look | None]] = {}

    def of(self, look: Look, shape: Shape, stage: Stage) -> Sequence[Look]:
        """What claims that look so may become with a pod at this step of its ladder, the best first; room is not asked."""
        question = (look.index, stage.index)
        steady = self._steady.get(question)
        if steady is not None:
            return steady
        held = self._held.get(question)
        if held is not None:
            return (held[0],) if self._is_admitted(held, shape) else ()
        return self._anew(look, shape, stage)

    def _anew(self, look: Look, shape: Shape, stage: Stage) -> Sequence[Look]:
        question = (look.index, stage.index)
        granted = self._granted_by.get(question)
        if granted is not None:
            return self._chosen(granted, shape, stage)
        granted = self._granted_by[question] = self._granted(look, stage)
        if not granted or not stage.keys:
            self._steady[question] = granted
            return granted
        values = [self._values(one, stage) for one in granted]
        if len(granted) == 1 and None not in values[0]:
            by_key = dict(zip(stage.keys, values[0], strict=True))
            rules = tuple((rule, by_key[rule.key] or "") for rule in stage.zone_rules)
            self._held[question] = (granted[0], rules)
            if not rules:
                self._steady[question] = granted
            return self.of(look, shape, stage)
        return self._chosen(granted, shape, stage)

    def _chosen(self, granted: tuple[Look, ...], shape: Shape, stage: Stage) -> Sequence[Look]:
        if len(granted) == 1 and len(stage.keys) == 1:
            return self._of_one_key(granted[0], shape, stage)
        return [choice for one in granted for choice in self._choices(one, shape, stage)]

    def _of_one_key(self, look: Look, shape: Shape, stage: Stage) -> Sequence[Look]:
        """As `_choices`, for most pods with rules: all of the answer is known but the order."""
        key, draft = stage.keys[0], self._draft(look)
        targets = self._targets.setdefault((look.index, key), {})
        found = []
        for value in self._pinning.options(draft, shape, stage, key):
            if value not in targets:
                reqs = look.reqs if value is None else self._ground.table.pinned(look.reqs, key, value)
                target = self._looks.of(look.template, reqs, look.allowed) if reqs != IMPOSSIBLE else None
                targets[value] = target if target is not None and target.mask else None
            chosen = targets[value]
            if chosen is not None:
                found.append(chosen)
        return found

    def _granted(self, look: Look, stage: Stage) -> tuple[Look, ...]:
        """The look with each alternative of what the pod asks of the node itself, where any type is left."""
        template, table = look.template, self._ground.table
        if not self._ground.open_templates(stage)[template.index]:
            return ()
        asked = (table.narrowed(look.reqs, ask) for ask in stage.asks)
        granted = (self._looks.of(template, reqs, look.allowed) for reqs in asked if reqs != IMPOSSIBLE)
        return tuple(one for one in granted if one.mask)

    def _values(self, look: Look, stage: Stage) -> list[str | None]:
        return [self._ground.table.single(look.reqs, key) for key in stage.keys]

    def _choices(self, look: Look, shape: Shape, stage: Stage) -> list[Look]:
        choices = self._pinning.choices(self._draft(look), shape, stage, stage.keys)
        return [self._looks.of(look.template, choice.reqs, look.allowed) for choice in choices]

    def _draft(self, look: Look) -> Draft:
        return Draft(look.template, look.reqs, look.allowed, self._ground.axis.zero)

    def _is_admitted(self, held: Held, shape: Shape) -> bool:
        for rule, value in held[1]:  # noqa: SIM110 - asked for every pod with rules
            if not self._tally.admits(rule, value, shape):
                return False
        return True
