"""Places in capacity reservations: each is promised to one claim of a plan at most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from core import labels
from core.model.requirements import Requirement, Requirements
from core.scheduling.pinning import Draft
from core.scheduling.requirement_table import IMPOSSIBLE, RequirementTable
from core.scheduling.template import Template


class Reservations:
    """What is left of every reservation in one plan.

    A claim that can use a reservation takes one place in the cheapest and is held to it; other claims are kept out of
    reserved capacity, so no plan counts on more than there is.
    """

    def __init__(self, templates: Iterable[Template], table: RequirementTable) -> None:
        self._table = table
        self.left: dict[str, int] = {}
        for template in templates:
            for identity, capacity in template.types.reservations().items():
                self.left[identity] = min(capacity, self.left.get(identity, capacity))
        unreserved = Requirements([Requirement(labels.CAPACITY_TYPE, True, (labels.RESERVED,))])
        self._unreserved = table.intern(unreserved)

    def copy(self) -> Reservations:
        """With as many places as there are now."""
        other = Reservations((), self._table)
        other.left = dict(self.left)
        return other

    def without_spent(self, draft: Draft) -> Draft:
        """The draft kept out of reservations that have no place left, before a zone or capacity type is chosen for it."""
        spent = tuple(sorted(identity for identity, left in self.left.items() if left <= 0))
        if not spent:
            return draft
        others = Requirements([Requirement(labels.RESERVATION_ID, True, spent)])
        kept_out = self._unreserved if len(spent) == len(self.left) else self._table.intern(others)
        return draft.narrowed(self._table.narrowed(draft.reqs, kept_out))

    def without_any(self, draft: Draft) -> Draft:
        """The draft kept out of all reserved capacity."""
        return draft.narrowed(self._table.narrowed(draft.reqs, self._unreserved))

    def choose(self, draft: Draft) -> tuple[int, str] | None:
        """Requirements and reservation for a new claim; the latter empty where it gets none. None where it needs one.

        A claim with minValues goes without a reservation where one alone leaves too few types.
        """
        choices = [
            choice
            for identity in sorted(i for i, left in self.left.items() if left > 0)
            for choice in self._at(draft, identity)
        ]
        whole = [choice for choice in choices if not choice[0].missing_values()]
        free = self.without_any(draft) if self.left else draft
        if not whole and free.is_possible and (not choices or not free.missing_values()):
            return free.reqs, ""
        best = min(whole or choices, key=lambda choice: (choice[0].price, choice[1]), default=None)
        return None if best is None else (best[0].reqs, best[1])

    def _at(self, draft: Draft, identity: str) -> Iterator[tuple[Draft, str]]:
        """The draft held to one reservation, where that is possible."""
        held = self._table.pinned(draft.reqs, labels.CAPACITY_TYPE, labels.RESERVED)
        held = self._table.pinned(held, labels.RESERVATION_ID, identity) if held != IMPOSSIBLE else held
        reserved = draft.narrowed(held)
        if reserved.is_possible:
            yield reserved, identity

    def take(self, identity: str) -> None:
        """Promise one place."""
        if identity:
            self.left[identity] -= 1
