"""Laws of packings whose machines hold few pods."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from core.packing.optimize import improve
from core.packing.relaxation import prepared
from core.packing.settings import SearchBudget
from tests.hash_seeds import outputs_of
from tests.unit.packing.problems import SETTINGS, one_pod_per_machine, with_large_pods

SEEDS = st.integers(0, 2**32)

PRINT_PACKINGS = """
from core.packing.settings import SearchBudget
from core.packing.optimize import improve
from core.packing.relaxation import prepared
from tests.unit.packing.problems import SETTINGS, one_pod_per_machine, with_large_pods
for seed in range(3):
    problem = with_large_pods(seed)
    ready, budget = prepared(problem, SETTINGS), SearchBudget(40)
    found = improve(ready, one_pod_per_machine(problem), seed=0, budget=budget, settings=SETTINGS)
    print(found.lower_bound, found.packing.types.tolist(), found.packing.loads.tolist())
"""


@given(SEEDS, st.integers(1, 12), st.integers(0, 60))
@settings(max_examples=40, deadline=None)
def test_a_packing_is_complete_and_between_its_bound_and_the_old_cost(seed: int, items: int, steps: int) -> None:
    """Otherwise, a pod is lost or doubled between two stages, the search raises the cost, or the lower bound is wrong."""
    problem = with_large_pods(seed, items=items, pods=60)
    before = one_pod_per_machine(problem)
    found = improve(prepared(problem, SETTINGS), before, seed=seed, budget=SearchBudget(steps), settings=SETTINGS)
    found.packing.check(problem)
    assert found.lower_bound <= found.packing.cost(problem) <= before.cost(problem)


def test_packings_are_the_same_in_any_process() -> None:
    """Otherwise, a hash, the solver's threads or its clock changes a packing, and a run cannot be repeated."""
    assert len(outputs_of(PRINT_PACKINGS)) == 1
