"""Plans within the limits of an account."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from core.model.snapshot import Options
from core.model.values.commitment import ReservedInstances
from core.model.values.vcpu_quotas import STANDARD
from core.scheduling.constraints.ec2_quotas import Ec2Quotas
from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.solution import Solution
from core.scheduling.replanning.ec2_limits import (
    best_of,
    cheaper_within_ec2_limits,
    commitment_contexts,
    plan_rank,
    planned_within_ec2_limits,
)
from core.scheduling.replanning.greedy_plans import planned
from tests.builders import a_pod, a_type
from tests.unit.scheduling.reading import context_of

MEDIUM = a_type("m7.large", cpu="2", price=0.1)


def _plan(context: SchedulingContext) -> tuple[Solution, None]:
    return planned(context, frozenset(), consolidation=False)[0], None


def test_a_plan_beyond_a_quota_is_made_again_with_the_quota_as_a_constraint() -> None:
    """A plan within its quotas is made once: the constraint costs time."""
    for on_demand, spot, constrained, waiting in ((100, 100, False, 0), (2, 0, True, 1)):
        quotas = {STANDARD.on_demand: on_demand, STANDARD.spot: spot}
        pods = tuple(a_pod(f"p{number}", cpu="1.5") for number in range(2))
        context, (solution, _) = planned_within_ec2_limits(
            context_of(types=(MEDIUM,), pods=pods, vcpu_quotas=quotas), _plan
        )
        assert (Ec2Quotas in context.constraints) is constrained
        assert plan_rank(solution)[0] == waiting


def test_a_plan_is_made_in_two_contexts_only_while_a_commitment_has_an_unused_amount() -> None:
    """Elsewhere, both plans are the same, and each takes its time."""
    reserved = Options(commitments=(ReservedInstances(name="r", instance_type="m7.large", count=1),))
    assert len(commitment_contexts(context_of(types=(MEDIUM,)), frozenset())) == 1
    assert len(commitment_contexts(context_of(types=(MEDIUM,), options=reserved), frozenset())) == 2


@dataclass
class AClaim:
    """One whose price is another once a plan has restricted it."""

    name: str
    prices: dict[str, int]
    reqs: str = ""
    allowed: str = ""
    commitment: str = ""

    @property
    def price(self) -> int:
        return self.prices[self.commitment]

    @property
    def restrictions(self) -> set[str]:
        return {self.reqs, self.allowed, self.commitment}


@dataclass(eq=False)
class APlan:
    """One that restricts its claims by its own name."""

    name: str
    claims: list[AClaim]
    waiting: int = 0
    unplaced: list[SimpleNamespace] = field(init=False)

    def __post_init__(self) -> None:
        self.unplaced = [SimpleNamespace(waiting=self.waiting)] if self.waiting else []

    def settle_commitments(self) -> APlan:
        assert not any(claim.commitment for claim in self.claims), "a plan is restricted from its own claims"
        for claim in self.claims:
            claim.reqs = claim.allowed = claim.commitment = self.name
        return self


@dataclass
class AnAccount:
    """One that a plan of these names exceeds once its claims are restricted."""

    exceeded_by: tuple[str, ...] = ()

    def for_another_plan(self, claims: list[AClaim]) -> object:
        assert all(claim.commitment for claim in claims), "limits are asked about restricted claims"
        return self if any(claim.commitment in self.exceeded_by for claim in claims) else None


def _two(found: int, before: int, waiting: dict[str, int]) -> tuple[APlan, APlan, AClaim]:
    """A plan found by a search and the one it began with, at these prices once restricted; one claim is of both."""
    shared = AClaim("shared", {"": 1, "found": 1, "before": 1})
    plans = {
        name: APlan(name, [shared, AClaim(name, {"": 0, name: price - 1})], waiting.get(name, 0))
        for name, price in (("found", found), ("before", before))
    }
    return plans["found"], plans["before"], shared


@pytest.mark.parametrize(
    ("found", "before", "waiting", "exceeded_by", "better"),
    [
        (4, 5, {}, (), "found"),
        (5, 5, {}, (), "found"),  # at the same price, the search's
        (6, 5, {}, (), "before"),
        (6, 5, {"before": 1}, (), "found"),  # a pod counts before any price
        (4, 5, {"found": 1}, (), "before"),
        (6, 5, {}, ("before",), "found"),  # the other cannot be launched
        (4, 5, {}, ("found",), ""),
        (4, 5, {}, ("found", "before"), ""),
    ],
)
def test_the_cheaper_plan_after_restrictions_is_returned_with_its_own(
    found: int, before: int, waiting: dict[str, int], exceeded_by: tuple[str, ...], better: str
) -> None:
    """Otherwise, a search makes a plan dearer, or a claim of both has the restrictions of the other."""
    one, other, shared = _two(found, before, waiting)
    result = cheaper_within_ec2_limits(AnAccount(exceeded_by), one, other)
    assert result is {"found": one, "before": other, "": None}[better]
    assert shared.restrictions == {better}
    if result is None:
        assert [plan.claims[1].restrictions for plan in (one, other)] == [{""}, {""}]
    else:
        assert result.claims[1].restrictions == {better}


def test_a_plan_that_no_search_improved_is_restricted_without_a_comparison() -> None:
    _, before, shared = _two(4, 5, {})
    assert cheaper_within_ec2_limits(AnAccount(("before",)), before, before) is before
    assert shared.restrictions == {"before"}


def test_the_best_plan_leaves_fewest_pods_and_costs_least_the_first_among_equals() -> None:
    plans = [
        (APlan(name, [AClaim(name, {"": price})], waiting), name)
        for name, waiting, price in (("a", 1, 1), ("b", 0, 7), ("c", 0, 5), ("d", 0, 5))
    ]
    assert [plan_rank(plan) for plan, _ in plans] == [(1, 1), (0, 7), (0, 5), (0, 5)]
    assert best_of(plans)[1] == "c"
    assert best_of(plans[:2])[1] == "b"
    assert best_of(plans[:1])[1] == "a"
