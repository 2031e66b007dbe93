"""Numbers of the planner: requirement sets by handle, bit sets, resource vectors."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import accumulate
from operator import add, le, or_, sub
from typing import TYPE_CHECKING, Final, NewType, ParamSpec, TypeVar, cast

from core.model.values.quantity import CPU, MEMORY
from core.model.values.requirements import Requirement, Requirements, contradiction

# Sets of small integers as integers: bit i is set if i is a member, so one operation covers all members.


_DIGITS: Final = bytes.maketrans(b"01", b"\0\1")


def bits(positions: Iterable[int]) -> int:
    """Return the set of these positions."""
    mask = 0
    for position in positions:
        mask |= 1 << position
    return mask


def positions(mask: int) -> Iterator[int]:
    """Return the members, lowest first."""
    while mask:
        lowest = mask & -mask  # two's complement: the lowest set bit alone
        yield lowest.bit_length() - 1
        mask ^= lowest


def flags_of(mask: int, length: int) -> bytes:
    """Return a set as one byte for each of `length` positions, 1 for a member, as `itertools.compress` takes it."""
    # The bit above the last position keeps leading zeros; binary digits come highest first, so they are read backwards, and
    # the slice ends before that bit.
    return f"{mask | 1 << length:b}".encode().translate(_DIGITS)[:0:-1]


# Types of the integers in scheduling: numbers of objects, and sets of objects as bit masks.
#
# At run time all of them are plain integers. Numbers are valid only within the planner, or the plan, that assigned them.


RequirementId = NewType("RequirementId", int)
"""Requirements in the `RequirementTable` of a snapshot; `IMPOSSIBLE` if they contradict each other."""

TopologyGroupId = NewType("TopologyGroupId", int)
"""A topology group in the `Topology` of a snapshot."""

PodGroupId = NewType("PodGroupId", int)
"""A group of equal pods of a snapshot."""

StepId = NewType("StepId", int)
"""A relaxation step among all steps of a snapshot."""

if TYPE_CHECKING:
    from typing import Self

    class _Mask(int):
        """A set of small integers: bit i is set if i is a member. Operations on masks of one kind return that kind."""

        def __and__(self, other: int) -> Self: ...
        def __or__(self, other: int) -> Self: ...
        def __xor__(self, other: int) -> Self: ...
        def __rand__(self, other: int) -> Self: ...
        def __ror__(self, other: int) -> Self: ...
        def __invert__(self) -> Self: ...

    class TypeMask(_Mask):
        """Instance types of one NodePool, in order of name."""

    class NodeMask(_Mask):
        """Existing nodes, by position."""

    class ClaimMask(_Mask):
        """Claims of one plan, in the order of opening."""

else:
    TypeMask = NodeMask = ClaimMask = int

NO_TYPES: Final = TypeMask(0)
NO_CLAIMS: Final = ClaimMask(0)


# Memoization of pure functions.


Question = ParamSpec("Question")
Answer = TypeVar("Answer")


def memo(answer: Callable[Question, Answer]) -> Callable[Question, Answer]:
    """Return the function with cached results; `functools.cache` alone would lose the types of its arguments.

    An object creates its memos in its constructor, from functions of its parts instead of its own methods: a memo that refers
    to its owner is a cycle, which is not freed while the collector is paused (`core.interpreter`). Objects with different
    inputs have different memos, so no memo is ever reset.
    """
    return cast("Callable[Question, Answer]", cache(answer))


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
        self._conjunction: Callable[[tuple[Requirement, ...]], RequirementId] = memo(
            partial(_conjunction, self._entries)
        )
        self._one_value: Callable[[str, str], RequirementId] = memo(partial(_one_value, self._entries))
        self._single: Callable[[RequirementId, str], str | None] = memo(partial(_single, self._entries))

    def intern(self, requirements: Requirements, needed: frozenset[str] = frozenset()) -> RequirementId:
        """Return the number of these requirements; the labels in `needed` must exist."""
        return self._entries.number((requirements, needed))

    def conjunction(self, parts: Iterable[Requirement]) -> RequirementId:
        """Return the number of the conjunction, or `IMPOSSIBLE` if they contradict each other."""
        return self._conjunction(tuple(parts))

    def restricted(self, required: RequirementId, further: Sequence[Requirement]) -> RequirementId:
        """Return what pods require with further requirements, or `IMPOSSIBLE` if the two contradict each other."""
        theirs, needed = self._entries.all[required]
        if theirs.conflict(Requirements(further)) is not None:
            return IMPOSSIBLE
        merged = theirs.merged(further)
        return self.intern(merged, _remembered(needed | _existing((*theirs.values(), *further)), merged))

    def __getitem__(self, number: RequirementId) -> Requirements:
        return self._entries.all[number][0]

    def needed(self, number: RequirementId) -> frozenset[str]:
        """Return labels that must exist although the requirement alone tolerates absence."""
        return self._entries.all[number][1]

    def narrowed(self, offered: RequirementId, *, required: RequirementId) -> RequirementId:
        """Return the requirements of a new node with `offered` once it also meets `required`, or `IMPOSSIBLE`.

        A label that every cloud node gets automatically may be required although `offered` does not name it (Karpenter). A
        label that is neither offered nor well known, and is required to be absent, stays absent.
        """
        return self._narrowed(offered, required)

    def offers(self, offered: Requirements, required: RequirementId) -> bool:
        """Whether an existing node with the labels `offered` meets `required`."""
        theirs, needed = self._entries.all[required]
        return all(key in offered for key in needed) and offered.compatible(theirs)

    def with_value(self, offered: RequirementId, key: str, value: str) -> RequirementId:
        """Return `offered` restricted to one value of a label, or `IMPOSSIBLE`."""
        return self._narrowed(offered, self._one_value(key, value))

    def single(self, number: RequirementId, key: str) -> str | None:
        """Return the only value that a label may have, None if it may have several."""
        return self._single(number, key)


def _conjunction(entries: _Entries, parts: tuple[Requirement, ...]) -> RequirementId:
    if contradiction(parts) is not None:
        return IMPOSSIBLE
    merged = Requirements(parts)
    bounded = [part.key for part in parts if part.complement and (part.gte, part.lte) != (None, None)]
    needed = _existing(parts).union(bounded)
    return entries.number((merged, frozenset(key for key in needed if merged[key].tolerates_absence)))


def _one_value(entries: _Entries, key: str, value: str) -> RequirementId:
    return entries.number((Requirements([Requirement.one_of(key, value)]), frozenset()))


def _single(entries: _Entries, number: RequirementId, key: str) -> str | None:
    requirement = entries.all[number][0].get(key)
    return (
        requirement.values[0]
        if requirement is not None and requirement.is_finite and len(requirement.values) == 1
        else None
    )


def _narrowed(
    entries: _Entries, well_known: frozenset[str], offered: RequirementId, required: RequirementId
) -> RequirementId:
    (ours, guaranteed), (theirs, needed) = entries.all[offered], entries.all[required]
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


# Resource vectors as tuples over a fixed order of names, which are compared millions of times.


Vector = tuple[int, ...]


UNOFFERED_MAX: Final = 16
"""The most resources on an axis that nothing offers: a pod may name thousands, and each would lengthen every vector."""

UNOFFERED: Final = "further extended resources"
"""Stands on the axis for the others: an amount of it is one that nothing has."""


class ResourceAxis:
    """The resources that anything in this snapshot requests. Other resources never affect a decision.

    CPU and memory come first, the others by name: searches weigh the first two against each other, for these are the ones that
    nodes run short of. Of resources that nothing offers, the first by name are on it; the others share one place.
    """

    def __init__(self, names: Iterable[str], offered: Collection[str] | None = None) -> None:
        """Order the names; `offered`: those that any type or node has, None for all."""
        wanted = set(names)
        unoffered = sorted(wanted.difference(offered)) if offered is not None else []
        self._shared = frozenset(unoffered[UNOFFERED_MAX:])
        kept = (wanted - self._shared) | ({UNOFFERED} if self._shared else set())
        self.names = tuple(sorted(kept, key=lambda name: (name not in (CPU, MEMORY), name)))
        self.zero: Vector = (0,) * len(self.names)

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        """Return the amounts in order, zero for missing names."""
        if self._shared and not self._shared.isdisjoint(amounts):
            further = sum(amount > 0 for name, amount in amounts.items() if name in self._shared)
            amounts = {**amounts, UNOFFERED: further}
        return tuple(map(amounts.get, self.names, self.zero))

    def total(self, vectors: Iterable[Vector]) -> Vector:
        """Return the sum; zero for no vectors."""
        return tuple(map(sum, zip(self.zero, *vectors, strict=True)))

    def amounts(self, vector: Vector) -> dict[str, int]:
        """Return a vector as a mapping, without zeros."""
        return {name: amount for name, amount in zip(self.names, vector, strict=True) if amount}


def plus(first: Vector, second: Vector) -> Vector:
    """The sum."""
    return tuple(map(add, first, second))


def minus(minuend: Vector, subtrahend: Vector) -> Vector:
    """Return the difference, which may be negative."""
    return tuple(map(sub, minuend, subtrahend))


def within(requested: Vector, available: Vector) -> bool:
    """Whether every amount is available."""
    return all(map(le, requested, available))


def has_room(requested: Vector, free: Vector) -> bool:
    """Whether an existing node has room: a resource that is overcommitted matters only to pods that request it."""
    # A loop takes half as long as `all` of a generator, and a fleet's plan asks this some million times.
    for request, room in zip(requested, free, strict=True):  # noqa: SIM110
        if request > room and request:
            return False
    return True


def pareto(vectors: Iterable[Vector]) -> tuple[Vector, ...]:
    """Return the Pareto-maximal vectors: requests that fit any vector fit one of these."""
    front: list[Vector] = []
    for vector in sorted(set(vectors), reverse=True):
        # Inlined from `within`: a plan needs the front of every set of types, each of some hundred vectors.
        for kept in front:
            if all(map(le, vector, kept)):
                break
        else:
            front.append(vector)
    return tuple(front)


# Finds which of many amounts reach a bound, as a bit mask, by binary search.


class ThresholdIndex:
    """One amount for each bit position, with queries for amounts at least, or at most, a bound.

    Most indexes are only queried for bounds that all amounts meet, so sorting waits for the first other query.
    """

    def __init__(self, amounts: Sequence[int]) -> None:
        self._amounts = amounts
        self._least = min(amounts, default=0)
        self._all = (1 << len(amounts)) - 1
        self._steps: list[int] = []
        self._prefixes: list[int] = []

    def at_least(self, bound: int) -> int:
        """Return positions whose amount is `bound` or more."""
        if bound <= self._least:
            return self._all
        self.prepare()
        return self._all & ~self._prefixes[bisect_left(self._steps, bound)]

    def at_most(self, bound: int) -> int:
        """Return positions whose amount is `bound` or less."""
        self.prepare()
        return self._prefixes[bisect_right(self._steps, bound)]

    def largest(self, mask: TypeMask) -> int:
        """Return the largest amount in the mask, zero for an empty one."""
        self.prepare()
        mask &= self._all
        low, high = 0, len(self._steps)
        while low < high:
            middle = (low + high) // 2
            if mask & ~self._prefixes[middle]:
                low = middle + 1
            else:
                high = middle
        return self._steps[low - 1] if low else 0

    def prepare(self) -> None:
        """Sort the different amounts, and gather the positions up to each of them."""
        if self._prefixes:
            return
        members: dict[int, int] = {}
        for position, amount in enumerate(self._amounts):
            members[amount] = members.get(amount, 0) | 1 << position
        # _prefixes[n] is the union of the n smallest amounts' positions, so a bound is one binary search away from its mask.
        self._steps = sorted(members)
        self._prefixes = list(accumulate((members[amount] for amount in self._steps), or_, initial=0))
