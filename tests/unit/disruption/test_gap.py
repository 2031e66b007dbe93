"""The parts of a fleet's cost above its lower bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.gap import GapParts, gap_parts
from core.model.snapshot import BALANCED_MOVES, FeatureGates, Options, Snapshot
from tests.builders import a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import MIDDLE, ON_DEMAND, pod_on, world


def a_world(
    *capacity_types: str, moves: str = BALANCED_MOVES, price: int | None = None, is_open: bool = False
) -> Snapshot:
    """One node of each capacity type."""
    gates = FeatureGates(spot_to_spot_consolidation=is_open)
    options = Options(ignore_budgets=True, moves=moves, move_price=price, feature_gates=gates)
    pairs = [a_node_of(MIDDLE, f"n{n}", capacity_type=kind) for n, kind in enumerate(capacity_types)]
    return world(*pairs, options=options)


class Ends:
    """Decisions that end at given costs, and what was decided about."""

    def __init__(self, *costs: int) -> None:
        self._costs = list(costs)
        self.asked: list[Options] = []

    def __call__(self, snapshot: Snapshot) -> int:
        self.asked.append(snapshot.options)
        return self._costs.pop(0)


def parts_of(found: GapParts) -> Sequence[int]:
    return found.moves, found.spot_to_spot, found.rest


def test_the_price_of_moves_goes_first_then_the_gate() -> None:
    ends = Ends(120, 105)
    assert parts_of(gap_parts(a_world(labels.SPOT), 150, 100, ends)) == (30, 15, 5)
    free, open_ = ends.asked
    assert (free.moves, free.move_price, free.feature_gates.spot_to_spot_consolidation) == ("thorough", 0, False)
    assert (open_.moves, open_.move_price, open_.feature_gates.spot_to_spot_consolidation) == ("thorough", 0, True)


@pytest.mark.parametrize("costs", [(200, 300), (120, 200), (90, 80), (200, 100), (100, 0)])
def test_no_part_is_negative_and_they_add_up_whatever_the_search_finds(costs: tuple[int, int]) -> None:
    parts = parts_of(gap_parts(a_world(labels.SPOT), 150, 100, Ends(*costs)))
    assert min(parts) >= 0
    assert sum(parts) == 50


def test_what_is_off_is_not_decided_again() -> None:
    ends = Ends()
    free = a_world(labels.SPOT, moves="thorough", is_open=True)
    assert parts_of(gap_parts(free, 150, 100, ends)) == (0, 0, 50)
    assert parts_of(gap_parts(a_world(labels.SPOT), 100, 100, ends)) == (0, 0, 0)
    assert parts_of(gap_parts(a_world(labels.SPOT), 99, 100, ends)) == (0, 0, 0)
    assert parts_of(gap_parts(a_world(labels.ON_DEMAND, moves="thorough", price=0), 150, 100, ends)) == (0, 0, 50)
    assert ends.asked == []


def test_a_node_pools_own_price_of_moves_counts() -> None:
    pool = a_pool("default", ON_DEMAND, own_annotations={labels.MOVES: "gentle"})
    thorough = msgspec.structs.replace(a_world(labels.ON_DEMAND, moves="thorough"), node_pools=(pool,))
    assert parts_of(gap_parts(thorough, 150, 100, Ends(110))) == (40, 0, 10)


def test_nodes_that_only_the_price_of_moves_keeps_are_told_by_decisions() -> None:
    pairs = [a_node_of(MIDDLE, f"n{n}") for n in range(2)]
    pods = tuple(pod_on(name, f"{name}-{n}", cpu="100m") for name in ("n0", "n1") for n in range(9))
    snapshot = world(*pairs, pods=pods, options=Options(ignore_budgets=True, move_price=10**9))
    plan, thorough = disrupt(snapshot), disrupt(under(snapshot, moves="thorough", move_price=0))
    bound = plan.cost.lower_bound
    assert bound is not None
    assert plan.cost.after == plan.cost.before > thorough.cost.after
    parts = gap_parts(snapshot, plan.cost.after, bound, lambda changed: disrupt(changed, proves=False).cost.after)
    assert parts_of(parts) == (plan.cost.after - thorough.cost.after, 0, thorough.cost.after - bound)


def under(snapshot: Snapshot, **changes: Any) -> Snapshot:
    return msgspec.structs.replace(snapshot, options=msgspec.structs.replace(snapshot.options, **changes))
