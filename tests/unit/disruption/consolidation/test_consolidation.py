"""Which replacements consolidation accepts, and the room that pending pods keep."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.consolidation.consolidation import consolidated
from core.disruption.disruption_pass import DisruptionPass
from core.model.feature_gates import FeatureGates
from core.model.node_pool import BALANCED, Budget, Disruption
from core.model.plan import Command, Move
from core.model.pod import PodAffinityTerm
from core.model.snapshot import Options
from core.model.values.requirements import Requirement
from core.reasons.node import NodeReason
from core.reasons.refusal import Refusal
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type
from tests.unit.disruption.nodes_for_tests import (
    KARPENTER,
    LARGE,
    MIDDLE,
    ON_DEMAND,
    OPEN,
    SMALL,
    blocked,
    pod_on,
    world,
)


@pytest.mark.parametrize(("count", "gate", "expected"), [(14, True, 0), (15, True, 15), (20, True, 15), (20, False, 0)])
def test_spot_to_spot_needs_gate_and_flexibility(count: int, gate: bool, expected: int) -> None:
    """At least fifteen cheaper types, and only those are launched; otherwise, the market would move the node forever."""
    cheaper = tuple(a_type(f"c-{n:02}", cpu="1", price=0.01 + n / 10_000) for n in range(count))
    spot = Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT)
    snapshot = world(
        a_node_of(SMALL, capacity_type=labels.SPOT),
        pods=(pod_on("node-1"),),
        node_pools=(a_pool("default", spot, disruption=OPEN),),
        options=Options(karpenter_moves_only=True, feature_gates=FeatureGates(spot_to_spot_consolidation=gate)),
    )
    snapshot = msgspec.structs.replace(snapshot, catalogue=a_snapshot(types=(SMALL, *cheaper)).catalogue)
    plan = disrupt(snapshot)
    found = [len(claim.instance_types) for command in plan.commands for claim in command.replacements]
    assert found == ([expected] if expected else [])
    assert expected or blocked(plan) == {"node-1": NodeReason.SPOT_TO_SPOT}


def test_pending_pods_protect_the_node_that_they_need() -> None:
    """Deleting a node that a pending pod is about to use would only launch it again."""
    plan = disrupt(world(a_node_of(SMALL), pods=(a_pod("waiting", cpu="500m", memory="64Mi"),)))
    assert plan.commands == ()
    assert blocked(plan) == {"node-1": NodeReason.NOMINATED}


def test_moved_pods_leave_pending_pods_the_room_that_they_need() -> None:
    """Otherwise, a node goes, and a new one is launched for the pending pod that needed that room."""
    waits = a_pod("waits", cpu="1", memory="64Mi")
    pods = (pod_on("node-1", cpu="3500m"), pod_on("node-2", cpu="12"))
    pairs = (a_node_of(MIDDLE), a_node_of(LARGE, "node-2"))
    assert [c.nodes for c in disrupt(world(*pairs, pods=pods, options=KARPENTER)).commands] == [("node-1",)]
    plan = disrupt(world(*pairs, pods=(*pods, waits), options=KARPENTER))
    assert plan.commands == ()
    assert blocked(plan) == {"node-1": NodeReason.NO_CHEAPER_OPTION, "node-2": NodeReason.NOMINATED}


def test_a_nomination_expires() -> None:
    """Otherwise, the node is never consolidated again."""
    late, early = ({"node-1": NOW + timedelta(seconds=s)} for s in (1, 0))
    assert disrupt(world(a_node_of(SMALL), nominated_until=late)).commands == ()
    assert len(disrupt(world(a_node_of(SMALL), nominated_until=early)).commands) == 1


def test_a_refusal_says_why() -> None:
    this_pass = DisruptionPass(world(a_node_of(SMALL), pods=(pod_on("node-1"),)))
    found = consolidated(this_pass.survey.candidates, this_pass, method="single")
    assert isinstance(found, Refusal)
    assert found.reason is NodeReason.NO_CHEAPER_OPTION


def test_a_replacement_that_may_be_spot_must_be_spot() -> None:
    """Cheaper at the price of spot alone, it would cost more than it replaces where EC2 launches on-demand."""
    both = a_pool("default", disruption=OPEN)
    (command,) = disrupt(
        world(a_node_of(LARGE), pods=(pod_on("node-1"),), node_pools=(both,), options=KARPENTER)
    ).commands
    (claim,) = command.replacements
    assert claim.capacity_types == (labels.SPOT,)


def test_several_nodes_are_not_replaced_by_one_of_their_own_types() -> None:
    """Deleting the others does the same with fewer moves, so only types cheaper than the cheapest of these count."""
    pods = (pod_on("a", cpu="1500m"), pod_on("b", cpu="1500m"))
    this_pass = DisruptionPass(world(a_node_of(MIDDLE, "a"), a_node_of(LARGE, "b"), pods=pods))
    found = consolidated(this_pass.survey.candidates, this_pass, method="multi")
    assert isinstance(found, Refusal)
    assert found.reason is NodeReason.NO_CHEAPER_OPTION
    alone = [candidate for candidate in this_pass.survey.candidates if candidate.name == "b"]
    assert not isinstance(consolidated(alone, this_pass, method="single"), Refusal)


def test_too_few_cheaper_types_for_min_values_are_none() -> None:
    for least, says in (
        (2, ""),
        (3, "too few cheaper instance types for minValues of node.kubernetes.io/instance-type"),
    ):
        some = Requirement(labels.INSTANCE_TYPE, False, ("t-1", "t-16", "t-4"), min_values=least)
        pool = a_pool("default", ON_DEMAND, some, disruption=OPEN)
        this_pass = DisruptionPass(world(a_node_of(LARGE), pods=(pod_on("node-1"),), node_pools=(pool,)))
        found = consolidated(this_pass.survey.candidates, this_pass, method="single")
        assert (found.message if isinstance(found, Refusal) else "") == says


@pytest.mark.parametrize(
    ("capacity_types", "kept"),
    [
        ((labels.ON_DEMAND,), True),
        ((labels.SPOT, labels.ON_DEMAND), True),
        ((labels.SPOT,), False),
        ((labels.SPOT, labels.SPOT), False),
    ],
)
def test_only_spot_nodes_alone_are_kept_from_spot(capacity_types: tuple[str, ...], *, kept: bool) -> None:
    """Spot to spot has rules of its own; a node among them that is on-demand makes it an ordinary replacement."""
    pool = a_pool("default", disruption=OPEN)
    pairs = [a_node_of(LARGE, f"node-{n}", capacity_type=kind) for n, kind in enumerate(capacity_types)]
    pods = tuple(pod_on(f"node-{n}", cpu="700m") for n in range(len(pairs)))
    this_pass = DisruptionPass(world(*pairs, pods=pods, node_pools=(pool,), options=KARPENTER))
    found = consolidated(this_pass.survey.candidates, this_pass, method="multi")
    assert isinstance(found, Refusal) != kept
    if not isinstance(found, Refusal):
        assert [claim.capacity_types for claim in found.replacements] == [(labels.SPOT,)]


def test_a_command_says_what_goes_where_and_what_that_saves() -> None:
    terms = {"reason": "Underutilized", "method": "single", "nodes": ("a",), "claims": ("default-a",)}
    beside = DisruptionPass(world(a_node_of(LARGE, "a"), a_node_of(MIDDLE, "b"), pods=(pod_on("a"), pod_on("b"))))
    first, _ = beside.survey.candidates
    moves = (Move("default/on-a", "b"),)
    assert consolidated([first], beside, method="single") == Command(**terms, moves=moves, savings=first.price)
    alone = DisruptionPass(world(a_node_of(LARGE, "a"), pods=(pod_on("a"),)))
    found = consolidated(alone.survey.candidates, alone, method="single")
    assert isinstance(found, Command)
    (new,) = found.replacements
    moves, savings = (Move("default/on-a", new.name),), first.price - new.price
    assert found == Command(**terms, replacements=(new,), moves=moves, savings=savings)
    assert savings > 0


def test_a_refusal_says_what_is_missing() -> None:
    """Operators read it at the node."""
    apart = PodAffinityTerm(labels.HOSTNAME, a_selector(app="web"))
    own = {"labels": {"app": "web"}, "anti_affinity": (apart,)}
    pairs, pods = (a_node_of(LARGE, "a"), a_node_of(LARGE, "b")), (pod_on("a", **own), pod_on("b", **own))
    two = DisruptionPass(world(*pairs, pods=pods))
    told = "its pods would need 2 new nodes"
    both = two.survey.candidates
    assert consolidated(both, two, method="multi") == Refusal(NodeReason.NO_CHEAPER_OPTION, told)
    balanced = (a_pool("default", ON_DEMAND, disruption=Disruption(policy=BALANCED, budgets=(Budget("100%"),))),)
    pods = (pod_on("a", cpu="900m"), pod_on("b", "other"))
    guarded = DisruptionPass(world(a_node_of(SMALL, "a"), a_node_of(LARGE, "b"), pods=pods, node_pools=balanced))
    told = "the savings are too small for the pods that NodePool default (policy Balanced) would have to move"
    small = guarded.survey.candidates[:1]
    assert consolidated(small, guarded, method="single") == Refusal(NodeReason.BALANCED, told)


def test_the_cheapest_node_of_a_type_bounds_a_new_one_of_that_type() -> None:
    """A spot node and an on-demand node of one type: another spot node of it is what keeping the first would be."""
    pairs = (a_node_of(MIDDLE, "a", capacity_type=labels.SPOT), a_node_of(MIDDLE, "b"))
    pods = (pod_on("a", cpu="1500m"), pod_on("b", cpu="1500m"))
    this_pass = DisruptionPass(world(*pairs, pods=pods, node_pools=(a_pool("default", disruption=OPEN),)))
    for candidates in (this_pass.survey.candidates, this_pass.survey.candidates[::-1]):
        found = consolidated(candidates, this_pass, method="multi")
        assert isinstance(found, Refusal)
        assert found.message == "no cheaper instance type could hold its pods"
