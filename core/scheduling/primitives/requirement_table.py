"""Numbers requirements, so that each result about them is computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from core.model.values.requirements import Requirement, Requirements
from core.scheduling.primitives.handles import RequirementId
from core.scheduling.primitives.memo import memo

IMPOSSIBLE: Final = RequirementId(-1)
"""Requirements that contradict each other: no node meets them."""

_Entry = tuple[Requirements, frozenset[str]]
"""Requirements, and the labels among them that must exist although the requirement alone tolerates absence."""


class _Entries:
    """Entries by number and numbers by entry."""

    def __init__(self) -> None:
        self.all: list[_Entry] = []
        self._numbers: dict[_Entry, RequirementId] = {}

    def number(self, entry: _Entry) -> RequirementId:
        number = self._numbers.get(entry)
        if number is None:
            number = self._numbers[entry] = RequirementId(len(self.all))
            self.all.append(entry)
        return number


class RequirementTable:
    """Numbers `Requirements` and caches the results of combining two of them.

    An entry also records which of its labels must exist: merging `Exists` with `NotIn` gives `NotIn`, which alone tolerates a
    missing label. Numbers depend on the order of use and are valid only within one planner.

    Attributes:
        well_known: Labels that every cloud node gets automatically.
    """

    def __init__(self, well_known: frozenset[str]) -> None:
        self.well_known = well_known
        self._entries = _Entries()
        self._narrowed: Callable[[RequirementId, RequirementId], RequirementId] = memo(
            partial(_narrowed, self._entries, well_known)
        )
        self._one_value: Callable[[str, str], RequirementId] = memo(partial(_one_value, self._entries))
        self._single: Callable[[RequirementId, str], str | None] = memo(partial(_single, self._entries))

    def intern(self, requirements: Requirements, needed: frozenset[str] = frozenset()) -> RequirementId:
        """Return the number of these requirements; the labels in `needed` must exist."""
        return self._entries.number((requirements, needed))

    def conjunction(self, parts: Iterable[Requirement]) -> RequirementId:
        """Return the number of the conjunction, or `IMPOSSIBLE` if they contradict each other."""
        merged = Requirements()
        needed: set[str] = set()
        for part in parts:
            if merged.conflict(Requirements([part])) is not None:
                return IMPOSSIBLE
            merged = merged.merged([part])
            if not part.tolerates_absence or (part.complement and (part.gte, part.lte) != (None, None)):
                needed.add(part.key)
        return self.intern(merged, frozenset(key for key in needed if merged[key].tolerates_absence))

    def restricted(self, asked: RequirementId, further: Sequence[Requirement]) -> RequirementId:
        """Return what pods require with further requirements, or `IMPOSSIBLE` if the two contradict each other."""
        theirs, needed = self._entries.all[asked]
        if theirs.conflict(Requirements(further)) is not None:
            return IMPOSSIBLE
        merged = theirs.merged(further)
        return self.intern(merged, _remembered(needed | _existing((*theirs.values(), *further)), merged))

    def __getitem__(self, number: RequirementId) -> Requirements:
        return self._entries.all[number][0]

    def needed(self, number: RequirementId) -> frozenset[str]:
        """Return labels that must exist although the requirement alone tolerates absence."""
        return self._entries.all[number][1]

    def narrowed(self, offered: RequirementId, *, asked: RequirementId) -> RequirementId:
        """Return the requirements of a new node with `offered` once it also meets `asked`, or `IMPOSSIBLE`.

        A label that every cloud node gets automatically may be required although `offered` does not name it (Karpenter). A
        label that is neither offered nor well known, and is required to be absent, stays absent.
        """
        return self._narrowed(offered, asked)

    def offers(self, offered: Requirements, asked: RequirementId) -> bool:
        """Whether an existing node with the labels `offered` meets `asked`."""
        theirs, needed = self._entries.all[asked]
        return all(key in offered for key in needed) and offered.compatible(theirs)

    def with_value(self, offered: RequirementId, key: str, value: str) -> RequirementId:
        """Return `offered` restricted to one value of a label, or `IMPOSSIBLE`."""
        return self._narrowed(offered, self._one_value(key, value))

    def single(self, number: RequirementId, key: str) -> str | None:
        """Return the only value that a label may have, None if it may have several."""
        return self._single(number, key)


def _one_value(entries: _Entries, key: str, value: str) -> RequirementId:
    return entries.number((Requirements([Requirement.one_of(key, value)]), frozenset()))


def _single(entries: _Entries, number: RequirementId, key: str) -> str | None:
    found = entries.all[number][0].get(key)
    return found.values[0] if found is not None and found.is_finite and len(found.values) == 1 else None


def _narrowed(
    entries: _Entries, well_known: frozenset[str], offered: RequirementId, asked: RequirementId
) -> RequirementId:
    (ours, guaranteed), (theirs, needed) = entries.all[offered], entries.all[asked]
    if not all(key in ours or key in well_known for key in needed):
        return IMPOSSIBLE
    if not ours.compatible(theirs, allow_undefined=well_known):
        return IMPOSSIBLE
    added = [r for key, r in theirs.items() if key in ours or key in well_known]
    merged = ours.merged(added)
    there = guaranteed | needed | _existing((*ours.values(), *added))
    if any(merged.of(key).operator == "DoesNotExist" for key in there):
        return IMPOSSIBLE
    return entries.number((merged, _remembered(there, merged)))


def _existing(requirements: Iterable[Requirement]) -> set[str]:
    """Return the labels that must exist by any of these requirements."""
    return {requirement.key for requirement in requirements if not requirement.tolerates_absence}


def _remembered(needed: Iterable[str], merged: Requirements) -> frozenset[str]:
    """Return those of the needed labels that the merged requirements alone would let be absent."""
    return frozenset(key for key in needed if merged.of(key).tolerates_absence)
