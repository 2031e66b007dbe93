"""Judges whether a command pays: it is cheaper even with the most expensive launch, and never launches the same type again."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

import msgspec

from core import labels
from core.model.plan import Command, DisruptionPlan, PlannedClaim
from core.model.snapshot import Node, Snapshot
from core.scheduling import schedule
from tests.property.naive.market import types_by_pool
from tests.property.naive.promises import cheapest
from tests.property.naive_disruption.reason_rules import is_going, moving_cost, pods_on

_FLEXIBLE = 15
_BALANCED = Fraction(1, 2)
_WORTHWHILE = Fraction(1, 20)


def price_of(snapshot: Snapshot, node: Node) -> int:
    """The cost of a running node by the offering of its type, zone and capacity type, available or not; 0 if unknown."""
    market = tuple(node.labels.get(key) for key in (labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE))
    pool = node.labels.get(labels.NODEPOOL, "")
    for kind in types_by_pool(snapshot, pool) or snapshot.catalogue.default:
        for offering in kind.offerings:
            if (kind.name, offering.zone, offering.capacity_type) == market:
                return offering.price
    return 0


def worst_launch(snapshot: Snapshot, claim: PlannedClaim, name: str) -> int:
    """The most that a launch of this type may cost: in the most expensive zone of the capacity type that is tried first."""
    kind = next(kind for kind in types_by_pool(snapshot, claim.node_pool) if kind.name == name)
    for capacity_type in (labels.RESERVED, labels.SPOT, labels.ON_DEMAND):
        prices = [
            o.price
            for o in kind.offerings
            if o.available and o.zone in claim.zones and o.capacity_type == capacity_type
        ]
        if prices and capacity_type in claim.capacity_types:
            return max(prices)
    return 0


def fleet_cost(snapshot: Snapshot) -> int:
    """The cost of all nodes with a claim."""
    ours = {claim.provider_id for claim in snapshot.node_claims}
    return sum(price_of(snapshot, node) for node in snapshot.nodes if node.provider_id in ours)


def price_violations(snapshot: Snapshot, command: Command) -> Iterator[str]:
    """Every wrong price in a command, and every command that saves too little."""
    nodes = [node for node in snapshot.nodes if node.name in command.nodes]
    before = sum(price_of(snapshot, node) for node in nodes)
    kinds = {pool.name: {k.name: k for k in types_by_pool(snapshot, pool.name)} for pool in snapshot.node_pools}
    after = 0
    for claim in command.replacements:
        prices = [cheapest(kinds[claim.node_pool][name], claim) for name in claim.instance_types]
        after += min((price for price in prices if price is not None), default=0)
    if command.savings != before - after:
        yield f"savings: {command.nodes} are said to save {command.savings}, it is {before} - {after}"
    if command.reason == "Empty" and command.replacements:
        yield f"empty: {command.nodes} are replaced"
    if command.reason != "Underutilized":
        return
    if command.method in ("single", "multi") and len(command.replacements) > 1:
        yield f"replacements: {command.method} launches {len(command.replacements)}"
    if command.method == "repack" and (before - after) < before * _WORTHWHILE:
        yield f"worth: repacking {command.nodes} saves {before - after} of {before}"
    worst = [max(worst_launch(snapshot, c, name) for name in c.instance_types) for c in command.replacements]
    if sum(worst) >= before:
        yield f"price: {command.nodes} cost {before}, what replaces them up to {worst}"
    for claim in command.replacements:
        yield from _capacity_type(snapshot, command, claim, nodes)
        yield from _same_type(snapshot, command, claim, nodes)
    if not may_be_merged(snapshot, command):
        yield from _unbalanced(snapshot, nodes, before, before - after)


def _capacity_type(snapshot: Snapshot, command: Command, claim: PlannedClaim, nodes: list[Node]) -> Iterator[str]:
    if labels.SPOT in claim.capacity_types and labels.ON_DEMAND in claim.capacity_types:
        yield f"spot: {claim.name} may be on-demand or spot"
    all_spot = all(node.labels.get(labels.CAPACITY_TYPE) == labels.SPOT for node in nodes)
    if all_spot and labels.SPOT in claim.capacity_types:
        if not snapshot.options.feature_gates.spot_to_spot_consolidation:
            yield f"spot: {command.nodes} are spot already"
        if len(nodes) == 1 and len(claim.instance_types) != _FLEXIBLE:
            yield f"spot: {claim.name} has {len(claim.instance_types)} types to choose from"


def _same_type(snapshot: Snapshot, command: Command, claim: PlannedClaim, nodes: list[Node]) -> Iterator[str]:
    """Faults of a command whose nodes may become one node of a type among them: deleting the others would be enough.

    Nodes that could be deleted before the others may have been: their deletion was then merged into the command that moves
    their pods again.
    """
    for node in nodes if len(nodes) > 1 else ():
        name = node.labels[labels.INSTANCE_TYPE]
        is_same = name in claim.instance_types and worst_launch(snapshot, claim, name) >= price_of(snapshot, node)
        if is_same and not any(_goes_alone(snapshot, *some) for some in _with_others(node, nodes)):
            yield f"like for like: {node.name} goes, and {claim.name} may be {name} again"


def may_be_merged(snapshot: Snapshot, command: Command) -> bool:
    """Whether one of several nodes could have been deleted first, so that the command was decided in several steps.

    A deletion whose pods a later command moves on is merged into that command, and was judged alone before.
    """
    nodes = [node for node in snapshot.nodes if node.name in command.nodes]
    return len(nodes) > 1 and any(_goes_alone(snapshot, node) for node in nodes)


def _with_others(node: Node, nodes: list[Node]) -> Iterator[tuple[Node, ...]]:
    """The node alone, and with some of the others but not all."""
    others = [other for other in nodes if other is not node]
    for count in range(len(others)):
        for some in combinations(others, count):
            yield (node, *some)


def _goes_alone(snapshot: Snapshot, *nodes: Node) -> bool:
    """Whether the pods of these nodes fit elsewhere."""
    ids = {node.provider_id for node in nodes}
    claims = [claim.name for claim in snapshot.node_claims if claim.provider_id in ids]
    plan = schedule(msgspec.structs.replace(snapshot, marked_for_deletion=(*snapshot.marked_for_deletion, *claims)))
    keys = {pod.key for node in nodes for pod in pods_on(snapshot, node.name)}
    return not any(keys.intersection(claim.pods) for claim in plan.claims) and not any(
        pod.pod in keys for pod in plan.unschedulable
    )


def _unbalanced(snapshot: Snapshot, nodes: list[Node], price: int, savings: int) -> Iterator[str]:
    """Every pool with policy Balanced whose share of the savings is less than half its share of the disruption."""
    for pool in snapshot.node_pools:
        pool_nodes = [node for node in nodes if node.labels.get(labels.NODEPOOL) == pool.name]
        if pool.disruption.policy != "Balanced" or not pool_nodes:
            continue
        going = {claim.provider_id for claim in snapshot.node_claims if is_going(snapshot, claim)}
        every = [n for n in snapshot.nodes if n.labels.get(labels.NODEPOOL) == pool.name]
        every = [n for n in every if n.provider_id not in going]
        cost = sum(price_of(snapshot, node) for node in every)
        disturbance = sum(moving_cost(pods_on(snapshot, node.name)) for node in every)
        share = Fraction(sum(price_of(snapshot, node) for node in pool_nodes), price)
        moved = sum(moving_cost(pods_on(snapshot, node.name)) for node in pool_nodes)
        score = (Fraction(savings) * share / cost) / Fraction(moved, disturbance)
        if score < _BALANCED:
            yield f"balanced: {[node.name for node in pool_nodes]} score {float(score):.3f} in {pool.name}"


def cost_violations(before: Snapshot, after: Snapshot, plan: DisruptionPlan) -> Iterator[str]:
    """Whether the plan states the fleet's cost before and after correctly."""
    truth = (fleet_cost(before), fleet_cost(after))
    if (plan.cost.before, plan.cost.after) != truth:
        yield f"cost: {plan.cost.before} and {plan.cost.after} are said, it is {truth}"
