"""Laws of disruption over random clusters."""

from __future__ import annotations

import random

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core import labels
from core.disruption import Validation, disrupt, startable
from core.disruption.budgets import places, remaining
from core.disruption.command import carried_out
from core.disruption.target.stored import after_commands
from core.disruption.validation import ValidCommand
from core.model.plan import DisruptionPlan
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes
from core.pods import is_reschedulable
from core.reasons.code import BUDGETED, Refusal, TerminationReason
from core.reasons.nodes import NodeReason
from tests.property.disruption.worlds import worlds

ROUNDS_MAX = 8

few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def going(plan: DisruptionPlan) -> list[tuple[str, str]]:
    """Every node that a command removes, with the reason."""
    return [(node, command.reason) for command in plan.commands for node in command.nodes]


def pool_of(snapshot: Snapshot) -> dict[str, str]:
    """Node → pool."""
    return {node.name: node.labels[labels.NODEPOOL] for node in snapshot.nodes}


@few
@given(worlds())
def test_budgets_hold_at_this_instant(snapshot: Snapshot) -> None:
    """The commands of a plan together stay within the budget of each pool and reason, in any mix of reasons."""
    plan = disrupt(snapshot)
    pools = pool_of(snapshot)
    for pool, by_reason in plan.budgets.items():
        gone = [reason for node, reason in going(plan) if pools[node] == pool]
        limits = [by_reason[reason] for reason in BUDGETED if reason in gone]
        assert all(left is None or gone.count(reason) <= left for reason, left in by_reason.items())
        assert None in limits or len(gone) <= max(left or 0 for left in (*limits, 0))


@few
@given(worlds())
def test_no_protected_node_is_disrupted(snapshot: Snapshot) -> None:
    """No command overrules do-not-disrupt on a node or pod, or a budget that allows nothing."""
    pods: dict[str, list[bool]] = {}
    allowed = snapshot.budgets[0].disruptions_allowed or 0
    for pod in snapshot.pods:
        guarded = allowed == 0 and pod.labels.get("app") == "guarded"
        pods.setdefault(pod.node_name, []).append(labels.DO_NOT_DISRUPT in pod.annotations or guarded)
    marked = {node.name for node in snapshot.nodes if labels.DO_NOT_DISRUPT in node.annotations}
    for node, _ in going(disrupt(snapshot)):
        assert node not in marked
        assert not any(pods.get(node, []))


@few
@given(worlds())
def test_nodes_disrupted_together_respect_the_pod_budget(snapshot: Snapshot) -> None:
    """Nodes that leave together never evict more pods of a PodDisruptionBudget than it allows at one time."""
    allowed = snapshot.budgets[0].disruptions_allowed or 0
    gone = {node for node, _ in going(disrupt(snapshot))}
    guarded = [pod.node_name for pod in snapshot.pods if pod.labels.get("app") == "guarded" and pod.node_name in gone]
    assert len(guarded) <= allowed or len(set(guarded)) == 1


@few
@given(worlds(drift=False))
def test_cost_never_rises_without_drift(snapshot: Snapshot) -> None:
    """Each command saves money, and so does their sum."""
    plan = disrupt(snapshot)
    assert plan.cost.after <= plan.cost.before
    assert all(command.savings > 0 for command in plan.commands)
    assert plan.cost.before - plan.cost.after == sum(command.savings for command in plan.commands)


@few
@given(worlds())
def test_each_node_is_disrupted_or_blocked_and_no_pod_is_stranded(snapshot: Snapshot) -> None:
    """A plan names each node once, as disrupted or as blocked; pods move to nodes that stay or are launched."""
    plan = disrupt(snapshot)
    gone = [node for node, _ in going(plan)]
    kept = {block.node for block in plan.blocked}
    assert len(gone) == len(set(gone))
    assert {*gone, *kept} == {node.name for node in snapshot.nodes}
    assert not kept.intersection(gone)
    assert all(block.reason in set(NodeReason) for block in plan.blocked)
    launched = [claim.name for command in plan.commands for claim in command.replacements]
    assert len(launched) == len(set(launched))
    ends = {move.pod: move.to for command in plan.commands for move in command.moves}
    assert set(ends.values()) <= {*kept, *launched}
    unplaced = {p.key for p in snapshot.pods if p.node_name in gone and is_reschedulable(p)} - set(ends)
    assert not unplaced


@few
@given(worlds(), st.randoms(use_true_random=False))
def test_order_of_input_does_not_matter(snapshot: Snapshot, shuffler: random.Random) -> None:
    """Two plans of one cluster, listed in different orders, are equal."""
    shuffled = {}
    for name in ("pods", "nodes", "node_claims", "node_pools"):
        items = list(getattr(snapshot, name))
        shuffler.shuffle(items)
        shuffled[name] = tuple(items)
    assert disrupt(msgspec.structs.replace(snapshot, **shuffled)) == disrupt(snapshot)


@few
@given(worlds(ample=True, drift=False))
def test_a_cluster_without_changes_settles(snapshot: Snapshot) -> None:
    """If each plan is carried out and nothing else happens, the cost falls until nothing is left to do."""
    world = snapshot
    for _ in range(ROUNDS_MAX):
        plan = disrupt(world)
        if not plan.commands:
            return
        assert plan.cost.after < plan.cost.before
        for command in plan.commands:
            world = carried_out(world, command)
    raise AssertionError("still moving")


@few
@given(worlds())
def test_a_fresh_plan_is_valid(snapshot: Snapshot) -> None:
    """The validation before execution accepts the first command of a plan in an unchanged cluster."""
    plan = disrupt(snapshot)
    if plan.commands and plan.commands[0].reason != TerminationReason.DRIFTED:
        rest = after_commands(plan.target, plan.commands, snapshot.pods, {}) if plan.target is not None else None
        stored = msgspec.structs.replace(snapshot, stored_target=rest)
        assert Validation(startable(plan.commands), stored).check(plan.commands[0]) == ValidCommand(plan.commands[0])


@few
@given(worlds())
def test_the_commands_of_a_fresh_target_are_valid_together(snapshot: Snapshot) -> None:
    """No command takes, when it is checked, room that a later one of the same target needs."""
    plan = disrupt(snapshot)
    if snapshot.options.karpenter_moves_only:
        return  # Karpenter's commands follow each other: a later one is decided after the earlier ones
    rest = after_commands(plan.target, plan.commands, snapshot.pods, {}) if plan.target is not None else None
    commands = startable(plan.commands)
    validation = Validation(commands, msgspec.structs.replace(snapshot, stored_target=rest))
    for command in commands:
        assert validation.check(command) == ValidCommand(command)
        validation.carry_out(command)


@few
@given(worlds())
def test_commands_checked_together_stay_within_the_budgets_together(snapshot: Snapshot) -> None:
    """Budget that one command uses is not available to the next."""
    plan = disrupt(snapshot)
    commands = startable(plan.commands)
    validation, gone = Validation(commands, snapshot), dict.fromkeys(plan.budgets, 0)
    pools = pool_of(snapshot)
    for command in commands:
        found = validation.check(command)
        if not isinstance(found, Refusal):
            validation.carry_out(found.command)
            for node in found.command.nodes:
                gone[pools[node]] += 1
                left = plan.budgets[pools[node]][found.command.reason]
                assert left is None or gone[pools[node]] <= left


@few
@given(worlds(), st.sampled_from(BUDGETED), st.integers(0, 100))
def test_free_and_reserved_places_add_up_to_the_budget(snapshot: Snapshot, reason: str, share: int) -> None:
    """Free places and held places together give what the budgets allow, whichever commands hold places already."""
    states = state_nodes(snapshot)
    claims = [state.claim_name for state in states if state.is_marked_for_deletion(snapshot) and state.is_initialized]
    holding = claims[: len(claims) * share // 100]
    bounds, left = places(snapshot, states, [reason], holding), remaining(snapshot, states)
    pools = {claim.name: claim.labels[labels.NODEPOOL] for claim in snapshot.node_claims}
    for pool, by_reason in left.items():
        held = sum(pools[name] == pool for name in holding)
        free = bounds[pool] - held if pool in bounds else None
        assert by_reason[reason] == (None if free is None else max(0, free))
