"""Which PodDisruptionBudgets select a pod."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.model.pod import LabelSelector
from core.model.policy import PodDisruptionBudget
from core.model.values.requirements import Requirement
from core.pods.budget_index import BudgetIndex
from tests.builders import a_pod

NAMES = st.sampled_from(["a", "b"])
VALUES = st.sets(NAMES, max_size=2)
REQUIREMENTS = st.one_of(
    st.builds(lambda key, values: Requirement(key, False, tuple(sorted(values))), NAMES, VALUES),
    st.builds(lambda key, values: Requirement(key, True, tuple(sorted(values))), NAMES, VALUES),
)
SELECTORS = st.none() | st.builds(LabelSelector, st.lists(REQUIREMENTS, max_size=3).map(tuple))
LABELS = st.dictionaries(NAMES, NAMES)


@given(st.lists(st.tuples(NAMES, SELECTORS), max_size=6), st.lists(st.tuples(NAMES, LABELS), max_size=6))
def test_exactly_the_budgets_that_select_the_pod_are_found_in_order_of_name(
    written: list[tuple[str, LabelSelector | None]], pods: list[tuple[str, dict[str, str]]]
) -> None:
    budgets = [
        PodDisruptionBudget(namespace=where, name=f"budget-{number}", selector=selector)
        for number, (where, selector) in enumerate(written)
    ]
    index = BudgetIndex(reversed(budgets))
    for namespace, labels in pods:
        pod = a_pod(namespace=namespace, labels=labels)
        assert index.selecting(pod) == tuple(budget for budget in budgets if budget.selects(pod))
