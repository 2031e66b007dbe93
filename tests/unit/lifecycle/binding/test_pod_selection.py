"""Which pods a rule counts."""

from __future__ import annotations

import pytest

from core.lifecycle.binding.pod_selection import affinity_selection, spread_selection
from core.model.pod import LabelSelector, PodAffinityTerm, TopologySpread
from tests.builders import NOW, a_pod
from tests.unit.lifecycle.binding.cases import OF_WEB, a_spread, a_term, web


def test_a_spread_counts_pods_of_its_namespace_that_are_not_terminating() -> None:
    selection = spread_selection(web("p"), a_spread())
    assert selection.counts(web("q"))
    assert not selection.counts(web("q", deleted_at=NOW))
    assert not selection.counts(web("q", namespace="other"))
    assert not selection.counts(a_pod("q"))


def test_affinity_counts_terminating_pods_too() -> None:
    """kube-scheduler considers deletion for spreads only."""
    assert affinity_selection(web("p"), (a_term(),)).counts(web("q", deleted_at=NOW))


def test_all_terms_must_select_a_pod() -> None:
    blue = PodAffinityTerm("zone", selector=LabelSelector(()), namespaces=("blue",))
    assert not affinity_selection(web("p"), (a_term(), blue)).selects(web("q"))


@pytest.mark.parametrize(("version", "selected"), [("1", True), ("2", False)])
def test_match_label_keys_narrow_to_the_pods_own_values(version: str, selected: bool) -> None:
    pod = a_pod("p", labels={"app": "web", "v": "1"})
    other = a_pod("q", labels={"app": "web", "v": version})
    assert spread_selection(pod, a_spread(match_label_keys=("v",))).selects(other) is selected
    assert affinity_selection(pod, (a_term(match_label_keys=("v",)),)).selects(other) is selected
    assert affinity_selection(pod, (a_term(mismatch_label_keys=("v",)),)).selects(other) is not selected


def test_a_rule_without_a_selector_selects_no_pod() -> None:
    assert not spread_selection(web("p"), TopologySpread("zone", 1)).selects(web("q"))


def test_a_namespace_selector_selects_all_namespaces() -> None:
    """Labels of namespaces are unknown here: a pod too many is left to the scheduler, which knows them."""
    term = PodAffinityTerm("zone", selector=OF_WEB, namespace_selector=LabelSelector())
    assert affinity_selection(web("p"), (term,)).selects(web("q", namespace="anywhere"))


def test_a_rule_without_a_selector_stays_so_whatever_labels_it_names() -> None:
    pod = a_pod("p", labels={"v": "1"})
    assert not spread_selection(pod, TopologySpread("zone", 1, match_label_keys=("v",))).selects(pod)
    assert not affinity_selection(pod, (PodAffinityTerm("zone", match_label_keys=("v",)),)).selects(pod)
    named = a_spread(match_label_keys=("absent",))
    assert spread_selection(web("p"), named) == spread_selection(web("p"), a_spread())
