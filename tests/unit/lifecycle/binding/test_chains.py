"""Bindings that must keep their order, so that no rule is broken even for a moment."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from core.lifecycle.binding.chains import in_chains, unconnected
from core.lifecycle.binding.pod_selection import PodSelection
from core.lifecycle.binding.turn import DecidedBinding
from core.model.pod import LabelSelector, Pod
from core.model.values.requirements import Requirement
from tests.builders import a_pod
from tests.unit.lifecycle.binding.cases import WEB, a_spread, a_term, web


def chains(*pods: Pod) -> list[list[str]]:
    """The names of the pods of each chain."""
    found = in_chains([DecidedBinding("c", pod, "n") for pod in pods])
    return sorted([binding.pod.name for binding in chain] for chain in found)


def test_pods_without_rules_are_bound_concurrently() -> None:
    assert chains(a_pod("p"), a_pod("q"), a_pod("r")) == [["p"], ["q"], ["r"]]


def test_pods_that_a_rule_connects_keep_their_order() -> None:
    spread = a_pod("s", spreads=(a_spread(),))
    assert chains(web("p"), spread, a_pod("q"), web("r")) == [["p", "s", "r"], ["q"]]


def test_rules_that_share_pods_make_one_chain() -> None:
    apart, spread = a_pod("a", anti_affinity=(a_term(),)), web("s", spreads=(a_spread(),))
    assert chains(apart, web("p"), spread) == [["a", "p", "s"]]


def test_a_rule_without_pods_here_connects_none() -> None:
    first, second = (a_pod(name, affinity=(a_term(),), labels={"app": "db"}) for name in ("p", "q"))
    assert chains(first, second, web("w", namespace="other")) == [["p"], ["q"], ["w"]]


def with_own_labels(count: int, pod: Pod) -> list[Pod]:
    """Pods of a StatefulSet, or of an indexed Job: each has a label of its own."""
    return [
        msgspec.structs.replace(pod, name=f"s-{number}", labels={**WEB, "apps.kubernetes.io/pod-index": str(number)})
        for number in range(count)
    ]


@pytest.mark.parametrize("rules", [{}, {"match_label_keys": ("apps.kubernetes.io/pod-index",)}])
def test_each_pod_is_compared_with_few_selections(
    rules: dict[str, tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pod's rule was compared with each pod: 18 s for 5,000 pods, with a lease of 20."""
    pods = with_own_labels(2000, web("s", spreads=(a_spread(**rules),)))
    compared, selects = [], PodSelection.selects
    monkeypatch.setattr(PodSelection, "selects", lambda one, pod: bool(compared.append(pod)) or selects(one, pod))
    left = unconnected([DecidedBinding("c", pod, "n") for pod in pods], pods[:1])
    assert len(left) == (len(pods) - 1 if rules else 0)
    assert len(compared) <= 2 * len(pods)


@pytest.mark.parametrize("seed", range(30))
def test_chains_are_those_of_all_comparisons(seed: int) -> None:
    """Which pods are compared must not change which are connected."""
    pods = random_pods(np.random.default_rng(seed))
    together = [{pod.name} for pod in pods]
    for pod in pods:
        for rule in pod.spec.anti_affinity:
            selected = {
                other.name for other in pods if rule.selector is not None and rule.selector.matches(other.labels)
            }
            joined = [chain for chain in together if chain & (selected | {pod.name})] if selected else []
            if joined:
                together = [*(chain for chain in together if chain not in joined), set().union(*joined)]
    assert chains_of(pods) == sorted(map(sorted, together))


def chains_of(pods: list[Pod]) -> list[list[str]]:
    return sorted(sorted(chain) for chain in chains(*pods))


def random_pods(dice: np.random.Generator) -> list[Pod]:
    """Pods with labels of three keys, each with or without an anti-affinity whose selector uses any operator."""
    values, operators = ("x", "y", "z"), ("In", "NotIn", "Exists", "DoesNotExist")
    pods = []
    for number in range(int(dice.integers(2, 14))):
        labels = {key: str(dice.choice(values)) for key in "abc" if dice.random() < 0.5}
        operator = str(dice.choice(operators))
        chosen = [str(value) for value in dice.choice(values, 2)] if "In" in operator else []
        selector = LabelSelector((Requirement.of(str(dice.choice(list("abc"))), operator, chosen),))
        term = msgspec.structs.replace(a_term(), selector=selector)
        pods.append(a_pod(f"p{number}", labels=labels, anti_affinity=(term,) if dice.random() < 0.5 else ()))
    return pods


def test_a_rule_that_two_workloads_share_makes_one_chain() -> None:
    """Neither is selected by it: their pods wait for the same pod, or keep apart from it."""
    db, cache = (a_pod(name, labels={"app": name}, affinity=(a_term(),)) for name in ("db", "cache"))
    assert chains(db, cache, web("w"), a_pod("q")) == [["db", "cache", "w"], ["q"]]
    assert chains(web("w"), db, cache) == [["w", "db", "cache"]]
