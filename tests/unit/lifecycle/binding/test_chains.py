"""Bindings that must keep their order, so that no rule is broken even for a moment."""

from __future__ import annotations

from core.lifecycle.binding.chains import in_chains
from core.lifecycle.binding.turn import DecidedBinding
from core.model.pod import Pod
from tests.builders import a_pod
from tests.unit.lifecycle.binding.cases import a_spread, a_term, web


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
