"""Commands of one pass respect together what each respects alone."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.candidates.candidate import Candidate
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.methods import drift
from core.model.node_pool import RolloutGate
from core.model.plan import Blocked, Command, Move
from core.model.policy import PodDisruptionBudget
from core.model.snapshot import Options
from core.reasons.node import NodeReason
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_selector
from tests.unit.disruption.nodes_for_tests import (
    KARPENTER,
    LARGE,
    MIDDLE,
    ON_DEMAND,
    OPEN,
    SMALL,
    blocked,
    drifted,
    pod_on,
    world,
)


def test_pods_of_a_shared_budget_go_one_node_at_a_time() -> None:
    """Two replicas that must not be down together are not evicted together."""
    guard = PodDisruptionBudget(namespace="default", name="web", selector=a_selector(app="web"), disruptions_allowed=1)
    pods = tuple(pod_on(node, labels={"app": "web"}) for node in ("a", "b"))
    plan = disrupt(world(a_node_of(LARGE, "a"), a_node_of(LARGE, "b"), pods=pods, budgets=(guard,)))
    assert [len(command.nodes) for command in plan.commands] == [1]
    assert set(blocked(plan).values()) == {NodeReason.POD_DISRUPTION_BUDGET}


def test_replacements_have_unique_names() -> None:
    """Otherwise, two commands of one pass request the same claim."""
    nodes = (drifted(a_node_of(SMALL)), drifted(a_node_of(SMALL, "node-2")))
    this_pass = DisruptionPass(world(*nodes, pods=(pod_on("node-1", cpu="900m"), pod_on("node-2", cpu="900m"))))
    found = drift.find_left(this_pass)
    names = [claim.name for command in found for claim in command.replacements]
    assert len(set(names)) == len(names) == 2


def test_a_pass_ends_with_its_time() -> None:
    for spent, is_over in ((0.99, False), (1.0, True)):
        assert DisruptionPass(world(a_node_of(SMALL)), deadline=lambda spent=spent: spent).is_exhausted is is_over  # type: ignore[misc]
    assert not DisruptionPass(world(a_node_of(SMALL))).is_exhausted


@pytest.mark.parametrize(
    ("allowed", "gone", "others", "passes"),
    [(0, 0, 0, False), (1, 0, 0, True), (1, 1, 0, False), (2, 1, 0, True), (1, 0, 1, True)],
)
def test_a_rollout_lets_so_many_go_and_no_more(allowed: int, gone: int, others: int, *, passes: bool) -> None:
    """Commands without replacements and moves, or for another reason, are no part of it."""
    nodes = (drifted(a_node_of(SMALL)), drifted(a_node_of(SMALL, "node-2")))
    pods = (pod_on("node-1"), pod_on("node-2"))
    gates = {"default": RolloutGate(allowed, "the rollout waits")}
    this_pass = DisruptionPass(world(*nodes, pods=pods, rollouts=gates))
    moves = (Move("default/on-node-2", "node-1"),)
    going = Command(reason="Drifted", method="drift", nodes=("node-2",), claims=("default-node-2",), moves=moves)
    empty = msgspec.structs.replace(going, moves=())
    saving = msgspec.structs.replace(going, reason="Underutilized")
    found = [going] * gone + [empty, saving] * others
    assert this_pass.passes_rollout(this_pass.survey.candidates[0], found) == passes
    without = DisruptionPass(world(*nodes, rollouts=gates))
    assert without.passes_rollout(without.survey.candidates[0], found), "a node without pods"


def test_a_pass_ends_with_its_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.disruption.disruption_pass.SIMULATIONS_MAX", 2)
    this_pass = DisruptionPass(world(a_node_of(SMALL)))
    ends = []
    for _ in range(3):
        ends.append(this_pass.is_exhausted)
        this_pass.simulate(this_pass.survey.candidates, consolidation=True)
    assert ends == [False, False, True]


@pytest.mark.parametrize(
    ("pods", "capacity_type", "gates", "options", "expected"),
    [
        (1, labels.ON_DEMAND, {}, Options(), True),
        (0, labels.ON_DEMAND, {}, Options(), False),
        (1, labels.RESERVED, {}, Options(), False),
        (1, labels.ON_DEMAND, {"default": RolloutGate(1, "")}, Options(), False),
        (1, labels.ON_DEMAND, {"other": RolloutGate(1, "")}, Options(), True),
        (1, labels.ON_DEMAND, {}, KARPENTER, False),
        (0, labels.RESERVED, {"default": RolloutGate(1, "")}, Options(ignore_budgets=True), True),
        (1, labels.ON_DEMAND, {}, Options(ignore_budgets=True, karpenter_moves_only=True), False),
    ],
)
def test_the_target_decides_about_drifted_nodes_whose_pods_move(
    pods: int, capacity_type: str, gates: dict[str, RolloutGate], options: Options, *, expected: bool
) -> None:
    node = drifted(a_node_of(SMALL, capacity_type=capacity_type))
    this_pass = DisruptionPass(world(node, pods=(pod_on("node-1"),) * pods, rollouts=gates, options=options))
    (candidate,) = this_pass.survey.candidates
    assert this_pass.goes_with_target(candidate) is expected


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_rollout_that_lets_no_more_go_says_why(*, is_stopped: bool) -> None:
    gates = {"default": RolloutGate(0, "the first new node is not ready", is_stopped)}
    this_pass = DisruptionPass(world(drifted(a_node_of(SMALL)), pods=(pod_on("node-1"),), rollouts=gates))
    assert not this_pass.passes_rollout(this_pass.survey.candidates[0])
    reason = NodeReason.ROLLOUT_STOPPED if is_stopped else NodeReason.ROLLOUT_CANARY
    assert this_pass.refusals == {"node-1": Blocked("node-1", reason, "the first new node is not ready")}


def test_a_node_is_replaced_by_new_nodes_or_by_closed_ones_or_not_at_all() -> None:
    """Closed nodes leave later: pods that move there move again."""
    full = (a_pool("default", ON_DEMAND, disruption=OPEN, limits={"nodes": 1}),)
    nodes, pods = (a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b")), (pod_on("a", cpu="3"), pod_on("b", cpu="500m"))
    free, limited = (DisruptionPass(world(*nodes, pods=pods, **changes)) for changes in ({}, {"node_pools": full}))
    terms = {"reason": "Unhealthy", "method": "repair", "nodes": ("a",), "claims": ("default-a",)}
    (first, _), (other, _) = free.survey.candidates, limited.survey.candidates

    def found(this_pass: DisruptionPass, candidate: Candidate, *closed: str) -> Command | None:
        replaced = this_pass.replaced(candidate, "Unhealthy", "repair", closed=closed)
        return replaced.command if replaced else None

    beside = Command(**terms, moves=(Move("default/on-a", "b"),), savings=first.price)
    assert found(free, first) == found(limited, other) == found(limited, other, "b") == beside
    new = found(free, first, "b")
    assert new is not None
    (claim,) = new.replacements
    savings = first.price - claim.price
    moves = (Move("default/on-a", claim.name),)
    assert new == Command(**terms, replacements=(claim,), moves=moves, savings=savings)
    crowded = DisruptionPass(world(*nodes, pods=(*pods, pod_on("b", "more", cpu="3")), node_pools=full))
    candidate = crowded.survey.candidates[0]
    assert found(crowded, candidate, "b") is None
    assert crowded.refusals["a"].reason == NodeReason.PODS_UNSCHEDULABLE
    assert "default/on-a would find no place" in crowded.refusals["a"].message


def test_adopted_commands_leave_the_survey_and_the_price() -> None:
    this_pass = DisruptionPass(world(a_node_of(SMALL, "a"), a_node_of(MIDDLE, "b")))
    before, (first, second) = this_pass.price_after, this_pass.survey.candidates
    this_pass.refuse(first, NodeReason.NOT_TRIED, "later")
    command = Command(reason="Empty", method="emptiness", nodes=("a",), claims=("default-a",), savings=first.price)
    this_pass.adopt([command])
    assert (this_pass.commands, this_pass.survey.candidates, this_pass.refusals) == ([command], (second,), {})
    assert this_pass.price_after == before - first.price == second.price


def test_nodes_on_which_pods_are_expected_are_no_candidates() -> None:
    """An earlier decision nominated them, or a pending pod goes there now."""
    nodes = (a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), a_node_of(MIDDLE, "c"))
    until = {"a": NOW + timedelta(seconds=1), "b": NOW}
    named = DisruptionPass(world(*nodes, nominated_until=until))
    assert [found.name for found in named.survey.candidates] == ["b", "c"]
    waiting = tuple(a_pod(name, cpu="3") for name in ("first", "second"))
    awaited = DisruptionPass(world(nodes[0], pods=waiting, nominated_until={"node-1": NOW}))
    assert [found.name for found in awaited.survey.candidates] == []
