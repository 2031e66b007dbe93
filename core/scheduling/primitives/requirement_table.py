"""Requirements as small numbers, so that the same question about them is answered once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from core.model.values.requirements import Requirement, Requirements

IMPOSSIBLE: Final = -1


class RequirementTable:
    """Interns `Requirements` and remembers what combining two of them gives.

    An entry also knows which of its labels must be there: merging `Exists` with `NotIn` leaves `NotIn`, which alone would
    be content without the label. Numbers depend on the order of interning and mean nothing outside of one planner.
    """

    def __init__(self, well_known: frozenset[str]) -> None:
        self.well_known = well_known
        self._numbers: dict[tuple[Requirements, frozenset[str]], int] = {}
        self._all: list[tuple[Requirements, frozenset[str]]] = []
        self._narrowed: dict[tuple[int, int], int] = {}
        self._single: dict[tuple[int, str], str | None] = {}
        self._with_value: dict[tuple[int, str, str], int] = {}

    def intern(self, requirements: Requirements, needed: frozenset[str] = frozenset()) -> int:
        """The number of these requirements; the labels in `needed` have to exist."""
        entry = (requirements, needed)
        number = self._numbers.get(entry)
        if number is None:
            number = self._numbers[entry] = len(self._all)
            self._all.append(entry)
        return number

    def conjunction(self, parts: Iterable[Requirement]) -> int:
        """The number of all these together, or `IMPOSSIBLE` where they contradict each other."""
        merged = Requirements()
        needed: set[str] = set()
        for part in parts:
            if merged.conflict(Requirements([part])) is not None:
                return IMPOSSIBLE
            merged = merged.merged([part])
            if not part.tolerates_absence or (part.complement and (part.gte, part.lte) != (None, None)):
                needed.add(part.key)
        return self.intern(merged, frozenset(key for key in needed if merged[key].tolerates_absence))

    def __getitem__(self, number: int) -> Requirements:
        return self._all[number][0]

    def needed(self, number: int) -> frozenset[str]:
        """Labels that must exist although the requirement alone would do without."""
        return self._all[number][1]

    def narrowed(self, offered: int, asked: int) -> int:
        """What a new node that offers `offered` is held to once `asked` is granted, or `IMPOSSIBLE`.

        Labels that every cloud node gets by itself may be asked for although nobody offers them (Karpenter). A label that
        nobody offers and that is asked to be absent stays absent.
        """
        key = (offered, asked)
        known = self._narrowed.get(key)
        if known is None:
            known = self._narrowed[key] = self._narrow(offered, asked)
        return known

    def offers(self, offered: Requirements, asked: int) -> bool:
        """Whether an existing node with these labels meets what is asked."""
        theirs, needed = self._all[asked]
        return all(key in offered for key in needed) and offered.compatible(theirs)

    def with_value(self, offered: int, key: str, value: str) -> int:
        """`offered` held to one value of a label, or `IMPOSSIBLE`."""
        question = (offered, key, value)
        known = self._with_value.get(question)
        if known is None:
            asked = self.intern(Requirements([Requirement.one_of(key, value)]))
            known = self._with_value[question] = self.narrowed(offered, asked)
        return known

    def single(self, number: int, key: str) -> str | None:
        """The one value that a label is held to, None where it is open."""
        question = (number, key)
        if question not in self._single:
            found = self[number].get(key)
            only = found.values[0] if found is not None and found.is_finite and len(found.values) == 1 else None
            self._single[question] = only
        return self._single[question]

    def _narrow(self, offered: int, asked: int) -> int:
        (ours, held), (theirs, needed) = self._all[offered], self._all[asked]
        if not all(key in ours or key in self.well_known for key in needed):
            return IMPOSSIBLE
        if not ours.compatible(theirs, allow_undefined=self.well_known):
            return IMPOSSIBLE
        added = [r for key, r in theirs.items() if key in ours or key in self.well_known]
        merged = ours.merged(added)
        there = held | needed | {key for key, requirement in ours.items() if not requirement.tolerates_absence}
        if any(merged.of(key).operator == "DoesNotExist" for key in there):
            return IMPOSSIBLE
        return self.intern(merged, frozenset(key for key in there if merged.of(key).tolerates_absence))
