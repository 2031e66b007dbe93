"""Places in capacity reservations: each is promised to one claim of a plan at most."""

from __future__ import annotations

from collections.abc import Iterable

from core import labels
from core.model.requirements import Requirement, Requirements
from core.scheduling.requirement_table import IMPOSSIBLE, RequirementTable
from core.scheduling.resource_axis import Vector
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

    def choose(self, template: Template, reqs: int, allowed: int, total: Vector) -> tuple[int, str] | None:
        """Requirements and reservation for a new claim; the latter empty where it gets none. None where it needs one."""
        types = template.types
        choices = []
        for identity in sorted(i for i, left in self.left.items() if left > 0):
            held = self._table.pinned(reqs, labels.CAPACITY_TYPE, labels.RESERVED)
            held = self._table.pinned(held, labels.RESERVATION_ID, identity) if held != IMPOSSIBLE else held
            if held != IMPOSSIBLE and types.fits(types.mask(held) & allowed, total):
                choices.append((types.cheapest(types.mask(held) & allowed, held) or 0, identity, held))
        if choices:
            _, identity, held = min(choices)
            return held, identity
        free = self._table.narrowed(reqs, self._unreserved) if self.left else reqs
        if free == IMPOSSIBLE or not types.fits(types.mask(free) & allowed, total):
            return None
        return free, ""

    def take(self, identity: str) -> None:
        """Promise one place."""
        if identity:
            self.left[identity] -= 1
