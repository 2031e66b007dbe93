"""What a question changes in every recorded snapshot."""

from __future__ import annotations

from core import labels
from core.counterfactual.overrides import Overrides
from core.model.catalogue import Catalogue
from core.model.snapshot import PodDisruptionBudget
from tests.builders import a_pool, a_selector, a_snapshot, a_type

RECORDED = a_snapshot(types=(a_type("m"),), node_pools=(a_pool("b"), a_pool("c", weight=1)))


def test_without_any_the_snapshot_is_as_recorded() -> None:
    assert Overrides().applied_to(RECORDED) == RECORDED


def test_objects_replace_those_of_their_name_and_others_are_added() -> None:
    budget = PodDisruptionBudget(namespace="default", name="b", selector=a_selector(app="a"), max_unavailable="0")
    asked = Overrides(node_pools=(a_pool("c", weight=9), a_pool("a")), budgets=(budget,)).applied_to(RECORDED)
    assert [(pool.name, pool.weight) for pool in asked.node_pools] == [("a", 0), ("b", 0), ("c", 9)]
    assert asked.budgets == (budget,)


def test_other_types_and_prices_replace_the_recorded_ones() -> None:
    other = Catalogue(default=(a_type("m", price=0.01),))
    assert Overrides(catalogue=other).applied_to(RECORDED).catalogue == other


def test_nodes_of_a_pool_with_another_template_drift() -> None:
    """Its hash is compared with that of the recorded claims; nobody else would write it."""
    asked = Overrides(node_pools=(a_pool("b", template_hash="7"),)).applied_to(RECORDED)
    assert asked.node_pools[0].own_annotations[labels.NODEPOOL_HASH] == "7"
    assert asked.node_pools[0].is_ready
