"""A command that violates a rule is found by whoever did not decide it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.counterfactual.broken_rules import broken_rules
from core.model.node_pool import Budget, Disruption
from core.model.plan import Command, Move
from core.model.policy import PodDisruptionBudget
from core.model.snapshot import Snapshot
from core.reasons.termination import TerminationReason
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type

TYPE = a_type("m5.large", cpu="4", memory="16Gi", price=0.1)


def a_world(budget: str = "100%", *, allowed: int = 2, **pod: Any) -> Snapshot:
    pairs = [a_node_of(TYPE, name) for name in ("a", "b")]
    pods = [
        a_pod(f"p{n}", node_name=name, phase="Running", labels={"app": "web"}, **pod) for n, name in enumerate("ab")
    ]
    protecting = PodDisruptionBudget(
        namespace="default", name="web", selector=a_selector(app="web"), disruptions_allowed=allowed
    )
    return a_snapshot(
        types=(TYPE,),
        node_pools=(a_pool(disruption=Disruption(budgets=(Budget(budget),))),),
        node_claims=tuple(claim for claim, _ in pairs),
        nodes=tuple(node for _, node in pairs),
        pods=tuple(pods),
        budgets=(protecting,),
    )


def protected_node(world: Snapshot) -> Snapshot:
    first, second = world.nodes
    protected = msgspec.structs.replace(first, annotations={labels.DO_NOT_DISRUPT: "true"})
    return msgspec.structs.replace(world, nodes=(protected, second))


def both(world: Snapshot, reason: str = TerminationReason.UNDERUTILIZED) -> list[Command]:
    return [
        Command(
            reason=reason,
            method="multi",
            nodes=(name,),
            claims=tuple(claim.name for claim in world.node_claims if claim.node_name == name),
            moves=(Move(pod=f"default/p{number}", to="elsewhere"),),
        )
        for number, name in enumerate("ab")
    ]


def test_nothing_is_found_where_all_rules_hold() -> None:
    assert broken_rules(both(a_world()), a_world()) == ()


@pytest.mark.parametrize(
    ("world", "rule", "subject"),
    [
        (a_world("1"), "Budget", "NodePool default"),
        (a_world("nonsense"), "Budget", "NodePool default"),
        (a_world(allowed=1), "PodDisruptionBudget", "default/web"),
        (a_world(annotations={labels.DO_NOT_DISRUPT: "true"}), "DoNotDisrupt", "pod default/p0"),
        (protected_node(a_world()), "DoNotDisrupt", "node a"),
    ],
)
def test_each_rule_is_found(world: Snapshot, rule: str, subject: str) -> None:
    found = broken_rules(both(world), world)
    assert (found[0].at, found[0].rule, found[0].subject) == (NOW, rule, subject)


def test_drift_may_drain_protected_pods_within_a_grace_period() -> None:
    world = a_world(annotations={labels.DO_NOT_DISRUPT: "true"})
    bounded = tuple(msgspec.structs.replace(claim, termination_grace_period=NOW - NOW) for claim in world.node_claims)
    bounded_world = msgspec.structs.replace(world, node_claims=bounded)
    assert broken_rules(both(bounded_world, TerminationReason.DRIFTED), bounded_world) == ()
    assert broken_rules(both(world, TerminationReason.DRIFTED), world) != ()


def test_drift_drains_no_protected_pod_of_a_node_without_a_grace_period() -> None:
    """One command may have nodes of both kinds: the drain of the one would never end."""
    world = a_world(annotations={labels.DO_NOT_DISRUPT: "true"})
    first, second = world.node_claims
    mixed = msgspec.structs.replace(
        world, node_claims=(msgspec.structs.replace(first, termination_grace_period=NOW - NOW), second)
    )
    one, other = both(mixed, TerminationReason.DRIFTED)
    together = msgspec.structs.replace(one, nodes=(*one.nodes, *other.nodes), claims=(*one.claims, *other.claims))
    assert {found.rule for found in broken_rules([together], mixed)} == {"DoNotDisrupt"}
    assert broken_rules([one], mixed) == ()
    assert [found.subject for found in broken_rules([other], mixed)] == ["pod default/p1"]


def test_a_pod_that_is_going_anyway_protects_nothing() -> None:
    protected = {labels.DO_NOT_DISRUPT: "true"}
    for changes in ({"deleted_at": NOW}, {"phase": "Succeeded"}):
        world = a_world(annotations=protected)
        pods = tuple(msgspec.structs.replace(pod, **changes) for pod in world.pods)
        assert broken_rules(both(world), msgspec.structs.replace(world, pods=pods)) == ()


@pytest.mark.parametrize("allowed", [0, 1, 2])
@pytest.mark.parametrize("nodes", ["0", "1", "2", "50%", "100%"])
def test_a_rule_holds_as_long_as_no_more_go_than_it_allows(nodes: str, allowed: int) -> None:
    """Two nodes go, each with a pod of the budget."""
    found = [
        broken.rule for broken in broken_rules(both(a_world(nodes, allowed=allowed)), a_world(nodes, allowed=allowed))
    ]
    expected = ["Budget"] if nodes in ("0", "1", "50%") else []
    assert found == expected + (["PodDisruptionBudget"] if allowed < 2 else [])


def test_a_pod_or_a_node_that_the_snapshot_lacks_breaks_nothing() -> None:
    """A node may have left between the decision and the look."""
    world = a_world(allowed=0)
    gone = msgspec.structs.replace(world, nodes=(), pods=())
    assert broken_rules(both(world), gone) == ()


def test_pods_elsewhere_and_budgets_of_others_break_nothing() -> None:
    world = protected_node(a_world(annotations={labels.DO_NOT_DISRUPT: "true"}))
    (one,) = [command for command in both(world) if command.nodes == ("b",)]
    assert [broken.subject for broken in broken_rules([one], world)] == ["pod default/p1"]
    calm = a_world(allowed=0)
    others = msgspec.structs.replace(calm.budgets[0], selector=a_selector(app="other"))
    assert broken_rules(both(calm), msgspec.structs.replace(calm, budgets=(others,))) == ()


def test_a_budget_without_a_number_breaks_nothing() -> None:
    """A hand-written PodDisruptionBudget of a file has no status yet."""
    world = a_world()
    unknown = msgspec.structs.replace(world.budgets[0], disruptions_allowed=None)
    assert broken_rules(both(world), msgspec.structs.replace(world, budgets=(unknown,))) == ()


@pytest.mark.parametrize(
    ("budget", "holds"),
    [
        (Budget("0", reasons=("Drifted",)), True),
        (Budget("0", reasons=("Underutilized",)), False),
        (Budget("0", schedule="@yearly", duration=timedelta(minutes=1)), True),
        (Budget("0", schedule="* * * * *", duration=timedelta(hours=1)), False),
    ],
)
def test_only_a_budget_of_this_reason_and_of_this_hour_is_broken(budget: Budget, *, holds: bool) -> None:
    world = a_world()
    pool = msgspec.structs.replace(world.node_pools[0], disruption=Disruption(budgets=(budget,)))
    changed = msgspec.structs.replace(world, node_pools=(pool,))
    assert (broken_rules(both(changed), changed) == ()) is holds
