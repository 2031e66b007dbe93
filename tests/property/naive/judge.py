"""A second, naive implementation of every hard constraint, to judge plans. It shares no code with the planner."""

from __future__ import annotations

from core.model.plan import Plan
from core.model.snapshot import Snapshot
from tests.property.naive.left_over import left_unplaced
from tests.property.naive.node_rules import node_violations
from tests.property.naive.places import places_after
from tests.property.naive.promises import promise_violations
from tests.property.naive.topology import topology_violations


def violations(snapshot: Snapshot, plan: Plan) -> list[str]:
    """The faults of a plan, one line each; the first word names the rule."""
    places = places_after(snapshot, plan)
    found = list(promise_violations(snapshot, plan, places))
    for place in places:
        found += node_violations(snapshot, place)
    found += topology_violations(snapshot, places)
    return found or list(left_unplaced(snapshot, plan, places))
