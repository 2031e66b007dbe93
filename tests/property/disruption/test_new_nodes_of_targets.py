"""The new nodes of a small target are searched on from the cheapest that were found: split nodes are merged again."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec
import pytest

from core.disruption import disrupt
from core.disruption.command import carried_out
from core.packing.settings import SearchBudget
from core.scheduling.claim_search import Solution
from core.scheduling.optimization.repacker import Repacker
from tests.property.naive_disruption.worlds import random_world, under_both_policies

SPLIT: Final = random_world(41)
"""A world in which both trials, and the restart, split the new nodes into one node per pod."""


def test_split_nodes_are_merged_before_a_target_is_made() -> None:
    """Five new nodes were bought, and two of them were removed in the next pass, so that pods moved twice."""
    snapshot = under_both_policies(SPLIT)[0]
    plan = disrupt(snapshot, proves=False)
    assert plan.target is not None
    assert (plan.cost.after, len(plan.target.new_nodes)) == (1_278_592_100, 4)
    bought = {claim.name for command in plan.commands for claim in command.replacements}
    later = carried_out(snapshot, *plan.commands)
    again = disrupt(msgspec.structs.replace(later, now=snapshot.now + timedelta(minutes=1)), proves=False)
    repacked = [node for command in again.commands for node in command.nodes if node in bought]
    assert repacked == ["sparse-1"]  # one that the search does not merge


def test_new_nodes_are_cheaper_than_those_of_the_trial_and_of_the_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """No hostname rule is modelled here, so one trial stands for two."""
    prices: list[int] = []
    improved = Repacker.improved

    def watched(self: Repacker, solution: Solution, budget: SearchBudget) -> Solution:
        found = improved(self, solution, budget)
        prices.append(sum(claim.price for claim in found.claims))
        return found

    monkeypatch.setattr(Repacker, "improved", watched)
    plan = disrupt(under_both_policies(SPLIT)[0], proves=False)
    assert plan.target is not None
    assert plan.target.new_price == min(prices) == 229_885_500
    assert prices[-3:-1] == [291_188_300] * 2
