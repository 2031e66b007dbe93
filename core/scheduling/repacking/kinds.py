"""Parties as kinds of the packing problem: what the solver need not tell apart is one kind.

A hostname group whose counted pods all obey one cap is a resource of which each machine has that much; where there are too
many such groups, it is the most of each kind on one machine. All else is looked at when parties are seated: here a kind only
tells how many other hostname rules a party has to do with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from core.scheduling.repacking.party import Amounts, Party
from core.scheduling.resource_axis import Vector

ROWS_MAX: Final = 12
"""Most hostname groups that are resources of the problem: those that need the most machines. Each widens every array."""

ROWS_SHARE: Final = 4
"""A group that needs less than this part of the machines of the widest one finds them in passing."""

Way = tuple[int, int, int]
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


class Kinds:
    """The kinds of some parties.

    Attributes:
        rows: Hostname group → how much of it a machine has room for, for the groups that are resources.
    """

    def __init__(self, template: int, counts: Mapping[Party, int]) -> None:
        self._template = template
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
        self._capped = {number: cap for number, cap in pure.items() if number not in self.rows}

    def of(self, party: Party) -> Kind:
        """The kind of a party."""
        rows = tuple((number, amount) for number, amount in party.adds if number in self.rows)
        capped = [(number, amount) for number, amount in party.adds if number in self._capped]
        others = self._unsettled(party.adds), self._unsettled(party.caps)
        return Kind(
            requests=party.requests,
            ways=((self._template, party.reqs, party.allowed),),
            seats=party.seats,
            rows=rows,
            most=min((self._capped[number] // amount for number, amount in capped), default=0),
            told_apart=(*others, *(number for number, _ in capped)),
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
