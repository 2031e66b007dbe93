"""Parties as kinds of the packing problem: what the solver need not tell apart is one kind.

A hostname group whose counted pods all obey one cap is a resource of which each machine has that much; where there are too
many such groups, it is the most of each kind on one machine. All else is looked at when parties are seated: here a kind only
tells how many other hostname rules a party has to do with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from core.scheduling.optimization.items.packing_item import Amounts, Party
from core.scheduling.primitives.handles import RequirementId, TypeMask
from core.scheduling.primitives.resource_vector import Vector

ROWS_MAX: Final = 12
"""Most hostname groups that are resources of the problem: those that need the most machines. Each widens every array."""

ROWS_SHARE: Final = 4
"""A group that needs less than this part of the machines of the widest one finds them in passing."""

ENTANGLED: Final = -1
"""The row of parties that obey groups which count others, too, that do not obey them."""

ENTANGLED_SHARE: Final = 3
ENTANGLED_MIN: Final = 2
"""A machine is planned for so few of them, by the number of such groups, that enough pods remain whom no one there minds."""

Way = tuple[int, RequirementId, TypeMask]
"""Template's position, number of the requirements that a claim of it is held to, types left: where a pod may run."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Parties that are alike for packing.

    Attributes:
        seats: One for parties of which a node has room for one.
        rows: How much they take of hostname groups that are resources.
        most: Most of them on one machine, zero for any number.
        told_apart: What else they must not be mixed up by.
    """

    requests: Vector
    ways: tuple[Way, ...]
    seats: int = 0
    rows: Amounts = ()
    most: int = 0
    told_apart: tuple[int, ...] = ()

    def running(self, way: Way) -> Kind:
        """The same kind where it may run in one way only."""
        return replace(self, ways=(way,))


class Kinds:
    """The kinds of some parties.

    Attributes:
        rows: Hostname group → how much of it a machine has room for, for the groups that are resources. `ENTANGLED` stands for
            parties that obey any of the other groups.
    """

    def __init__(self, counts: Mapping[Party, int]) -> None:
        pure = self._pure = _pure(counts)
        totals: dict[int, int] = {}
        for party, count in counts.items():
            for number, amount in party.adds:
                if number in pure:
                    totals[number] = totals.get(number, 0) + count * amount
        machines = {number: -(-total // pure[number]) for number, total in totals.items()}
        worth = max(2, max(machines.values(), default=0) // ROWS_SHARE)
        shown = [number for number in machines if machines[number] >= worth]
        shown.sort(key=lambda number: (-machines[number], number))
        self.rows = {number: pure[number] for number in sorted(shown[:ROWS_MAX])}
        entangled = {number for party in counts for number, _ in party.caps if number not in pure}
        if entangled:
            self.rows[ENTANGLED] = max(ENTANGLED_MIN, len(entangled) // ENTANGLED_SHARE)
        self._capped = {number: cap for number, cap in pure.items() if number not in self.rows}

    def of(self, party: Party, way: Way) -> Kind:
        """The kind of a party that may run in one way."""
        rows = tuple((number, amount) for number, amount in party.adds if number in self.rows)
        capped = [(number, amount) for number, amount in party.adds if number in self._capped]
        others = self._unsettled(party.adds), self._unsettled(party.caps)
        return Kind(
            requests=party.requests,
            ways=(way,),
            seats=party.seats,
            rows=(*rows, (ENTANGLED, 1)) if others[1] else rows,
            most=min((self._capped[number] // amount for number, amount in capped), default=0),
            told_apart=(*others, *(number for number, _ in capped)) if capped or any(others) else (),
        )

    def _unsettled(self, amounts: Amounts) -> int:
        return sum(number not in self._pure for number, _ in amounts)


def _pure(parties: Iterable[Party]) -> dict[int, int]:
    """Hostname group → its cap, for those that all whom they count obey, with one cap, and who obeys is counted."""
    caps: dict[int, int] = {}
    mixed: set[int] = set()
    for party in parties:
        added, allowed = dict(party.adds), dict(party.caps)
        for number in sorted(added.keys() | allowed.keys()):
            cap = allowed.get(number)
            if cap is None or number not in added or caps.setdefault(number, cap) != cap:
                mixed.add(number)
    return {number: cap for number, cap in sorted(caps.items()) if number not in mixed}
