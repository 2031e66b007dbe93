"""Whole decisions about random clusters, under both policies, compared with `expected/decisions.txt`.

`python -m tests.expected tests.property.disruption.test_expected_decisions` writes the texts. Each world is the smallest
of some hundreds that runs branches which no earlier one of the list runs. The naive judge examines each decision as well, so
that a text shows none that breaks a rule. After the decision, a text has what follows: the next pass, validation of the
commands in the same cluster and in one that changed meanwhile, and what stands around a decision, such as budgets and expiry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Final

import msgspec
import pytest

from core import labels
from core.disruption import disrupt, expired
from core.disruption.budget_openings import PoolNodes, budget_explanation, closed_for_long, may_any_go, wakes_at
from core.disruption.budgets import next_change, window_schedules
from core.disruption.command import carried_out
from core.disruption.decision import startable
from core.disruption.deletion_costs import deletion_cost_changes, nodes_going_next
from core.disruption.expiration import objections
from core.disruption.move_history import rollouts
from core.disruption.resync import may_skip, next_known_moment, next_run_at
from core.disruption.static_capacity import static_claims, surplus
from core.disruption.target.stored import after_commands, decode, digest, encode
from core.disruption.validation import Validation
from core.model.catalogue import Offering
from core.model.node_pool import Budget, NodeClass, RolloutGate
from core.model.plan import Command, DisruptionPlan
from core.model.snapshot import BALANCED_MOVES, GENTLE_MOVES, THOROUGH_MOVES, EvictedNode, MovedWorkload, Snapshot
from core.reasons.code import BUDGETED, Refusal
from tests.expected import Expected
from tests.property.naive_disruption.judge import expiry_violations, violations
from tests.property.naive_disruption.worlds import random_world, under_both_policies
from tests.rendered import rendered, said, wrapped

PLAIN: Final = (21, 1, 45, 34, 16, 4, 59, 53, 52, 22, 14, 41, 39, 28, 6, 12)
FURTHER: Final = (0, 1, 2, 4, 6, 7, 12, 16, 19, 20, 21, 23, 24)
"""Seeds of worlds with more than situations: rollouts, ceilings of evictions, moved workloads."""

_RESERVATION: Final = "cr-1"
_MINUTE: Final = timedelta(minutes=1)


def world(kind: str, seed: int) -> Snapshot:
    """The world of a case."""
    snapshot = random_world(seed)
    return _further(Random(f"further {seed}"), snapshot) if kind == "further" else snapshot  # noqa: S311 - a test's dice


def _further(draw: Random, snapshot: Snapshot) -> Snapshot:
    """The world with some of what decisions take into account beside nodes, pods and budgets."""
    now, pools = snapshot.now, snapshot.node_pools
    options = msgspec.structs.replace(
        snapshot.options,
        moves=draw.choice((THOROUGH_MOVES, BALANCED_MOVES, GENTLE_MOVES)),
        evictions_per_hour=draw.choice((None, None, 3, 30)),
    )
    gates = {
        pool.name: RolloutGate(draw.choice((0, 1)), f"the rollout of {pool.name} waits", draw.random() < 0.3)
        for pool in pools
        if draw.random() < 0.3
    }
    moved = {
        pod.workload: MovedWorkload(
            name=pod.workload,
            moving_since=now - draw.choice((4, 40)) * _MINUTE,
            moved_at=now - draw.choice((1, 3)) * _MINUTE,
            held_until=draw.choice((None, now + 20 * _MINUTE)),
        )
        for pod in snapshot.pods
        if pod.node_name and draw.random() < 0.1
    }
    ceilings = {pool.name: draw.choice((None, None, 2, 10)) for pool in pools}
    evicted = {
        claim.name: EvictedNode(node_pool=claim.node_pool, pods=2, at=now - draw.choice((5, 61)) * _MINUTE)
        for claim in snapshot.node_claims
        if draw.random() < 0.1
    }
    if draw.random() < 0.5:
        snapshot = _with_a_reservation(draw, snapshot)
        pools = snapshot.node_pools
    return msgspec.structs.replace(
        snapshot,
        options=options,
        rollouts=gates,
        moved_workloads=moved,
        evicted_nodes=evicted,
        node_pools=tuple(msgspec.structs.replace(pool, evictions_per_hour=ceilings[pool.name]) for pool in pools),
    )


def _with_a_reservation(draw: Random, snapshot: Snapshot) -> Snapshot:
    """The world with a capacity reservation that ends soon or late, in which one node runs, and whose places others may use."""
    kind = draw.choice(snapshot.catalogue.default)
    zone = draw.choice(kind.offerings).zone
    place = Offering(kind.name, zone, labels.RESERVED, 1, True, _RESERVATION, draw.choice((0, 1, 2)))
    wider = msgspec.structs.replace(kind, offerings=(*kind.offerings, place))
    types = tuple(
        wider if instance_type.name == kind.name else instance_type for instance_type in snapshot.catalogue.default
    )
    ends = {_RESERVATION: snapshot.now + timedelta(hours=draw.choice((2, 6, 70)))}
    node_class = NodeClass(name="default", is_ready=True, reservations=(_RESERVATION,), reservation_ends=ends)
    reserved_labels = {labels.CAPACITY_TYPE: labels.RESERVED, labels.RESERVATION_ID: _RESERVATION, labels.ZONE: zone}
    inside = next((n.name for n in snapshot.nodes if n.labels.get(labels.INSTANCE_TYPE) == kind.name), "")
    claims = (
        msgspec.structs.replace(claim, labels=claim.labels | reserved_labels) if claim.node_name == inside else claim
        for claim in snapshot.node_claims
    )
    nodes = (
        msgspec.structs.replace(n, labels=n.labels | reserved_labels) if n.name == inside else n for n in snapshot.nodes
    )
    pools = (
        msgspec.structs.replace(
            pool,
            requirements=tuple(r for r in pool.requirements if r.key != labels.CAPACITY_TYPE or draw.random() < 0.5),
        )
        for pool in snapshot.node_pools
    )
    return msgspec.structs.replace(
        snapshot,
        catalogue=msgspec.structs.replace(snapshot.catalogue, default=types),
        node_classes=(node_class,),
        node_claims=tuple(claims),
        nodes=tuple(nodes),
        node_pools=tuple(pools),
    )


def text(kind: str, seed: int) -> str:
    """All that disruption says about a world."""
    whole_world = world(kind, seed)
    lines = [wrapped(f"world: {outline(whole_world)}"), *_around(whole_world)]
    for policy, snapshot in zip(("target", "Karpenter's moves"), under_both_policies(whole_world), strict=True):
        plan = disrupt(snapshot)
        lines += [f"under the policy of {policy}:", *_indented(_decision(plan))]
        lines += _indented(_afterwards(snapshot, plan))
        lines += _indented(_in_haste(snapshot))
        lines += _indented(_validated("at once", plan.commands, snapshot))
        lines += _indented(_validated("once a node of each is kept", plan.commands, _kept(snapshot, plan)))
        lines += _indented(_validated("once pods have grown", plan.commands, _grown(snapshot, plan)))
    return "\n".join(lines)


def outline(snapshot: Snapshot) -> str:
    """What the world has."""
    running = sum(bool(pod.node_name) for pod in snapshot.pods)
    pools = " ".join(pool.name for pool in snapshot.node_pools)
    extras = [name for name in ("marked_for_deletion", "paused_pools", "nominated_until", "daemon_sets", "rollouts",
                                "moved_workloads", "evicted_nodes", "budgets") if getattr(snapshot, name)]  # fmt: skip
    options = rendered("options", snapshot.options)
    return f"{len(snapshot.nodes)} nodes, {running} pods on them; NodePools {pools}; {' '.join(extras)}; {options}"


def _decision(plan: DisruptionPlan) -> Iterator[str]:
    for command in plan.commands:
        yield from _command(command)
    yield from (wrapped(rendered(f"{blocked.node} stays", blocked, ("node",))) for blocked in plan.blocked)
    yield wrapped("budgets left: " + "; ".join(f"{pool}: {said(allowed)}" for pool, allowed in plan.budgets.items()))
    yield rendered("cost", plan.cost)
    if plan.target is not None or plan.target_reason:
        yield wrapped(f"target: {said(plan.target)}; {plan.target_reason}")


def _command(command: Command) -> Iterator[str]:
    yield rendered(f"command {said(command.nodes)}", command, ("nodes", "replacements"))
    for claim in command.replacements:
        yield "  " + rendered(f"new {claim.name}", claim, ("name", "node_class")).replace("\n", "\n  ")


def _afterwards(snapshot: Snapshot, plan: DisruptionPlan) -> Iterator[str]:
    """The decisions of the pass after the startable commands have begun, and of the one after all are done."""
    started = startable(plan.commands)
    yield wrapped(f"can begin: {'; '.join(said(command.nodes) for command in started) or 'nothing'}")
    rest = None if plan.target is None else after_commands(plan.target, started, snapshot.pods, {})
    if rest is not None:
        same = decode(encode(rest)) == rest
        yield wrapped(f"rest of the target: {said(rest)}; {digest(rest)[:8]}; {'stored' if same else 'not stored'}")
        yield wrapped(f"next are {said(sorted(nodes_going_next(rest)))}")
        changes = deletion_cost_changes(snapshot.pods, nodes_going_next(rest))
        yield from (rendered("mark", change, ("uid",)) for change in changes)
    going = tuple(name for command in started for name in command.claims)
    begun = msgspec.structs.replace(
        snapshot, stored_target=rest, marked_for_deletion=(*snapshot.marked_for_deletion, *going)
    )
    for when, later in (("once these have begun", begun), ("once all is done", carried_out(snapshot, *plan.commands))):
        next_plan = disrupt(msgspec.structs.replace(later, now=snapshot.now + _MINUTE), proves=False)
        yield f"{when}: {next_plan.target_reason or 'no target'}"
        yield from _indented(_brief(next_plan))


def _in_haste(snapshot: Snapshot) -> Iterator[str]:
    """The decision if each look at the clock takes a tenth of the time, and if nearly all of it is over at first."""
    for name, passed in (("in haste", 0.1), ("late", 0.8)):
        looks = iter(range(1_000_000))
        plan = disrupt(snapshot, deadline=lambda looks=looks, passed=passed: passed + next(looks) / 10, proves=False)
        yield f"{name}: {plan.target_reason or 'no target'}"
        yield from _indented(_brief(plan))


def _brief(plan: DisruptionPlan) -> Iterator[str]:
    for command in plan.commands:
        places = [f"{claim.name} {said(claim.instance_types)} {claim.price}" for claim in command.replacements]
        yield wrapped(
            f"{command.method} {said(command.nodes)} for {said(places)}: {said(command.moves)}; {command.savings}"
        )
    reasons: dict[str, list[str]] = {}
    for blocked in plan.blocked:
        reasons.setdefault(blocked.reason, []).append(blocked.node)
    yield from (wrapped(f"{reason}: {said(nodes)}") for reason, nodes in sorted(reasons.items()))


def _validated(when: str, commands: tuple[Command, ...], snapshot: Snapshot) -> Iterator[str]:
    if not commands:
        return
    yield f"validated {when}:"
    claims = tuple(name for command in commands for name in command.claims)
    marked = msgspec.structs.replace(snapshot, marked_for_deletion=(*snapshot.marked_for_deletion, *claims))
    validation = Validation(commands, marked)
    for command in commands:
        checked = validation.check(command)
        if isinstance(checked, Refusal):
            yield wrapped(f"  {said(command.nodes)}: {checked.reason}: {checked.message}")
            continue
        why = {node: refusal.message for node, refusal in checked.left_out.items()}
        left_out = f", without {said(why)}" if why else ""
        yield wrapped(f"  {said(command.nodes)}: {'holds' if checked.command == command else 'changed'}{left_out}")
        if checked.command != command:
            yield from _indented(_indented(_command(checked.command)))
        validation.carry_out(checked.command)


def _kept(snapshot: Snapshot, plan: DisruptionPlan) -> Snapshot:
    """The cluster in which somebody has protected the first node of each command."""
    kept = {command.nodes[0] for command in plan.commands}
    mark = {labels.DO_NOT_DISRUPT: "true"}
    nodes = (msgspec.structs.replace(node, annotations=mark) if node.name in kept else node for node in snapshot.nodes)
    return msgspec.structs.replace(snapshot, nodes=tuple(nodes))


def _grown(snapshot: Snapshot, plan: DisruptionPlan) -> Snapshot:
    """The cluster in which every second pod that moves requests twice as much of everything but places."""
    moves = sorted(move.pod for command in plan.commands for move in command.moves)[::2]
    pods = []
    for pod in snapshot.pods:
        requests = {name: amount * (1 if name == "pods" else 2) for name, amount in pod.spec.requests.items()}
        spec = msgspec.structs.replace(pod.spec, requests=requests)
        pods.append(msgspec.structs.replace(pod, spec=spec) if pod.key in moves else pod)
    return msgspec.structs.replace(snapshot, pods=tuple(pods))


def _around(snapshot: Snapshot) -> Iterator[str]:
    """What is decided beside commands."""
    now, pools = snapshot.now, snapshot.node_pools
    kept = {claim: why.message for claim, why in objections(snapshot, [c.name for c in snapshot.node_claims]).items()}
    yield wrapped(f"expired: {said(expired(snapshot))}; objections: {said(kept)}")
    may = "may" if may_skip(snapshot) else "must not"
    yield wrapped(
        f"passes {may} be skipped; next at {said(next_known_moment(snapshot))}, "
        f"gathered {said(next_run_at(snapshot, 30 * _MINUTE))}"
    )
    yield wrapped(
        f"windows: {said(tuple(window_schedules(pools, now).values()))}; closed for long: {said(closed_for_long(pools, now))}"
    )
    for name, rollout in rollouts(snapshot, {}).items():
        yield rendered(f"rollout {name}", rollout)
    static = [f"{claim.name} {said(claim.instance_types)} {said(claim.zones)}" for claim in static_claims(snapshot)]
    yield wrapped(
        f"static NodePools lack {said(static)}, and have beside their number {said([c.name for c in surplus(snapshot)])}"
    )
    nodes = {pool.name: PoolNodes(sum(c.node_pool == pool.name for c in snapshot.node_claims), 1) for pool in pools}
    may = "may" if may_any_go(pools, nodes, BUDGETED, now) else "may not"
    yield f"nodes {may} go beside one of each NodePool; wakes at {said(wakes_at(pools, nodes, BUDGETED, now))}"
    for pool in pools:
        yield from _budgets(pool.name, snapshot)


def _budgets(name: str, snapshot: Snapshot) -> Iterator[str]:
    (pool,) = (pool for pool in snapshot.node_pools if pool.name == name)
    if all(budget == Budget("100%") for budget in pool.disruption.budgets):
        return
    present = [claim.node_name for claim in snapshot.node_claims if claim.node_pool == name]
    why = {budget_explanation(pool, len(present), reason, present[:1] * 2, snapshot.now) for reason in BUDGETED}
    change = next_change(pool, len(present), snapshot.now)
    yield wrapped(f"{name}: {'; '.join(sorted(why))}; next change: {'none' if change is None else said(change)}")


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return ("  " + line.replace("\n", "\n  ") for line in lines)


def bad(kind: str, seed: int) -> list[str]:
    whole_world = world(kind, seed)
    problems = expiry_violations(whole_world, expired(whole_world))
    for snapshot in under_both_policies(whole_world):
        problems += violations(snapshot, disrupt(snapshot))
    return problems


def _case(kind: str, seed: int) -> Callable[[], str]:
    return lambda: text(kind, seed)


_CASES: Final = {
    f"{kind} {seed}": (kind, seed) for kind, seeds in (("plain", PLAIN), ("further", FURTHER)) for seed in seeds
}
EXPECTED: Final = Expected(
    Path(__file__).parent / "expected" / "decisions.txt", {name: _case(*case) for name, case in _CASES.items()}
)


@pytest.mark.ci
@pytest.mark.parametrize("name", sorted(_CASES))
def test_a_decision_is_the_expected_one_and_breaks_no_rule(name: str) -> None:
    """If this failed, a change would alter which nodes go, their order, a reason or a price, and nobody would have looked."""
    assert bad(*_CASES[name]) == []
    assert EXPECTED.cases[name]() == EXPECTED.text(name)
