"""Puts parties into the places that a packing has for their kinds, so that no hostname rule is broken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from core.packing.problem import Ints, Packing, Problem
from core.scheduling.optimization.items.packing_item import Neighbours, Party

EXCHANGES_MAX: Final = 400
"""Most parties without a place for which another one is asked to move: each looks at all machines."""

LARGER_MAX: Final = 60
"""Most machines that are tried at a larger size for a party that fits into no free room."""


@dataclass(slots=True)
class Machine:
    """One machine and who sits on it."""

    kind: int
    load: Ints
    parties: list[tuple[int, Party]] = field(default_factory=list)
    neighbours: Neighbours = field(default_factory=Neighbours)

    def seat(self, number: int, party: Party) -> None:
        """Let a party of a kind sit down."""
        self.parties.append((number, party))
        self.neighbours.add(party)
        self.load[number] += 1

    def swap(self, position: int, party: Party) -> Party:
        """Put a party in another one's seat."""
        number, gone = self.parties[position]
        self.parties[position] = (number, party)
        self.neighbours = Neighbours()
        for _, there in self.parties:
            self.neighbours.add(there)
        return gone

    def would_admit(self, party: Party, instead_of: int) -> bool:
        """Whether a party could have another one's seat."""
        others = Neighbours()
        for position, (_, there) in enumerate(self.parties):
            if position != instead_of:
                others.add(there)
        return others.admits(party)


class Seating:
    """Seats parties by kind.

    Args:
        problem: The packing problem.
        parties: For each kind, in the problem's order, its parties and how many there are of each.
    """

    def __init__(self, problem: Problem, parties: Sequence[Mapping[Party, int]]) -> None:
        self._problem = problem
        self._waiting = [dict(of_kind) for of_kind in parties]
        self._is_ruled = [any(party.adds or party.caps for party in of_kind) for of_kind in parties]

    def of(self, packing: Packing) -> list[Machine]:
        """The machines of a packing with parties on them; further ones are opened for those who fit nowhere else."""
        machines = [self._seated(int(kind), load) for kind, load in zip(packing.types, packing.loads, strict=True)]
        left = [(number, party) for number in self._largest_first() for party in _each(self._waiting[number])]
        homeless = [
            (number, party)
            for rank, (number, party) in enumerate(left)
            if rank >= EXCHANGES_MAX or not self._exchanged(machines, packing.loads[:, number], number, party)
        ]
        for number, party in homeless:
            self._squeezed_in(machines, number, party)
        return [machine for machine in machines if machine.parties]

    def _seated(self, kind: int, load: Ints) -> Machine:
        machine = Machine(kind, np.zeros_like(load))
        present = np.flatnonzero(load)
        for number in sorted(present.tolist(), key=lambda one: (not self._is_ruled[one], one)):
            for _ in range(int(load[number])):
                party = self._next(number, machine.neighbours)
                if party is not None:
                    machine.seat(number, party)
        return machine

    def _next(self, number: int, neighbours: Neighbours) -> Party | None:
        """The party of a kind that the neighbours admit and of which the most are waiting."""
        waiting = self._waiting[number]
        ordered = sorted(waiting, key=lambda party: -waiting[party]) if len(waiting) > 1 else waiting
        found = next((party for party in ordered if neighbours.admits(party)), None)
        if found is not None:
            waiting[found] -= 1
            if not waiting[found]:
                del waiting[found]
        return found

    def _exchanged(self, machines: list[Machine], planned: Ints, number: int, party: Party) -> bool:
        """Seat a party where its kind's place is empty, if need be by moving another of its kind there that may be there."""
        empty = [m for m, wanted in zip(machines, planned, strict=False) if m.load[number] < wanted]
        for machine in empty:
            if machine.neighbours.admits(party):
                machine.seat(number, party)
                return True
        for machine in empty:
            for other in machines:
                if other is machine or not other.load[number]:
                    continue
                for position, (of_kind, there) in enumerate(other.parties):
                    may_move = of_kind == number and there != party and machine.neighbours.admits(there)
                    if may_move and other.would_admit(party, position):
                        machine.seat(number, other.swap(position, party))
                        return True
        return False

    def _squeezed_in(self, machines: list[Machine], number: int, party: Party) -> None:
        """Seat a party where that costs the least: in free room, on a larger machine, or on one of its own."""
        problem, wanted = self._problem, self._problem.requests[number]
        one = np.zeros(len(problem.counts), dtype=np.int64)
        one[number] = 1
        best = Machine(problem.cheapest(one), np.zeros_like(one))
        resized, extra = best.kind, int(problem.prices[best.kind])
        kinds = np.array([machine.kind for machine in machines], dtype=np.int64)
        loads = np.array([machine.load for machine in machines]).reshape(-1, len(one))
        missing = (loads @ problem.requests + wanted - problem.room[kinds]) / np.maximum(problem.room.max(axis=0), 1)
        nearest = np.argsort(missing.max(axis=1), kind="stable")
        has_room = (missing <= 0).all(axis=1) & problem.allowed[number, kinds]
        for position in (*nearest[has_room[nearest]], *nearest[~has_room[nearest]][:LARGER_MAX]):
            machine = machines[position]
            kind = machine.kind if has_room[position] else problem.cheapest(machine.load + one)
            price = int(problem.prices[kind] - problem.prices[machine.kind])
            if kind >= 0 and price < extra and machine.neighbours.admits(party):
                best, extra, resized = machine, price, kind
                if has_room[position]:
                    break
        if not best.parties:
            machines.append(best)
        best.kind = resized
        best.seat(number, party)

    def _largest_first(self) -> list[int]:
        """Kinds by the largest share of any machine's room that one party takes."""
        share = (self._problem.requests / np.maximum(self._problem.room.max(axis=0), 1)).max(axis=1)
        return [int(number) for number in np.argsort(-share, kind="stable")]


def _each(waiting: Mapping[Party, int]) -> Iterator[Party]:
    for party, count in waiting.items():
        yield from [party] * count
