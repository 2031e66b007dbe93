"""What a claim becomes with one pod more: the pod's demands granted, and one value of each key that rules speak of."""

from __future__ import annotations

from collections.abc import Sequence

from core.scheduling.ground import Ground
from core.scheduling.look import Look, Looks
from core.scheduling.pinning import Draft, Pinning
from core.scheduling.pod_class import Rule, Shape, Stage
from core.scheduling.requirement_table import IMPOSSIBLE
from core.scheduling.tally import Tally

Held = tuple[Look, tuple[tuple[Rule, str], ...]]
"""What a claim becomes that has one value of every key already, where the rules still admit these values."""


class Narrowing:
    """Answers for looks instead of claims, and remembers what cannot change while a plan is made."""

    def __init__(self, ground: Ground, tally: Tally, pinning: Pinning, looks: Looks) -> None:
        self._ground = ground
        self._tally = tally
        self._pinning = pinning
        self._looks = looks
        self._steady: dict[tuple[int, int], Sequence[Look]] = {}
        self._held: dict[tuple[int, int], Held] = {}

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
        granted = self._granted(look, stage)
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
        return [choice for one in granted for choice in self._choices(one, shape, stage)]

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
        draft = Draft(look.template, look.reqs, look.allowed, self._ground.axis.zero)
        choices = self._pinning.choices(draft, shape, stage, stage.keys)
        return [self._looks.of(look.template, choice.reqs, look.allowed) for choice in choices]

    def _is_admitted(self, held: Held, shape: Shape) -> bool:
        return all(self._tally.admits(rule, value, shape) for rule, value in held[1])
