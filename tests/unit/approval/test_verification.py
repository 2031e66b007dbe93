"""Whether a proposal still holds, and that its nodes are left alone."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.approval.proposal import (
    EXPIRES_AFTER,
    ApprovalRule,
    Proposal,
    ProposalVerdict,
    moved_namespaces,
    namespaces_by_node,
)
from core.approval.verification import Verification, without_proposed
from core.disruption.decision import disrupt
from core.model.plan import Command, Move
from core.model.snapshot import FeatureGates, NodeCondition, Options, Snapshot
from core.reasons.code import Refusal
from core.reasons.nodes import NodeReason
from core.reasons.runs import OTHER_COMMAND, ApprovalOver, CommandReason, MovesMore
from tests.builders import NOW, a_node_of
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, SMALL, blocked, pod_on, world

EMPTY = world(a_node_of(SMALL, "one"), a_node_of(SMALL, "two"))
RULE = ApprovalRule(namespaces=("pay*",))


def proposal(snapshot: Snapshot, node: str = "one", **changes: object) -> Proposal:
    command = next(command for command in disrupt(snapshot).commands if node in command.nodes)
    made = Proposal(id="1", command=command, why="asked", text="", proposed_at=snapshot.now)
    return msgspec.structs.replace(made, **changes)


def lapse(found: Proposal, snapshot: Snapshot, rule: ApprovalRule = RULE) -> Refusal | None:
    return Verification([found], rule, snapshot).lapse(found)


def test_it_holds_in_the_same_world() -> None:
    assert lapse(proposal(EMPTY), EMPTY) is None


def test_it_lapses_with_its_snapshot() -> None:
    """The same check as that of a second look."""
    refusal = lapse(proposal(EMPTY), msgspec.structs.replace(EMPTY, pods=(pod_on("one"),)))
    assert refusal is not None
    assert (refusal.reason, "no longer empty" in refusal.message) == (CommandReason.PROPOSAL_LAPSED, True)


def test_it_lapses_where_less_would_do_by_now() -> None:
    """A person agreed to what was told, and to nothing else."""
    before = world(a_node_of(LARGE, "one"), pods=(pod_on("one"),))
    found = proposal(before)
    assert found.command.replacements
    after = world(a_node_of(LARGE, "one"), a_node_of(MIDDLE, "other"), pods=(pod_on("one"),))
    refusal = lapse(found, after)
    assert refusal is not None
    assert refusal.message == "another command applies to its nodes by now"


def test_it_lapses_where_only_some_of_its_nodes_may_go_by_now() -> None:
    nodes = (a_node_of(SMALL, "one"), a_node_of(SMALL, "two"), a_node_of(LARGE, "room"))
    pods = (pod_on("one"), pod_on("two"), pod_on("room", cpu="12"))
    first, second = (a_move_to_room(world(*nodes, pods=pods), node).command for node in ("one", "two"))
    both = msgspec.structs.replace(
        first,
        method="multi",
        nodes=(*first.nodes, *second.nodes),
        claims=(*first.claims, *second.claims),
        moves=(*first.moves, *second.moves),
    )
    found = Proposal(id="1", command=both, why="asked", text="", proposed_at=NOW)
    assert lapse(found, world(*nodes, pods=pods)) is None
    kept = pod_on("two", annotations={labels.DO_NOT_DISRUPT: "true"})
    assert lapse(found, world(*nodes, pods=(pods[0], kept, pods[2]))) == OTHER_COMMAND


def with_guest(snapshot: Snapshot, namespace: str) -> Snapshot:
    """The snapshot after a small pod of this namespace has come to the node `one`."""
    guest = msgspec.structs.replace(pod_on("one", "guest", cpu="10m"), namespace=namespace)
    return msgspec.structs.replace(snapshot, pods=(*snapshot.pods, guest))


def test_it_lapses_where_it_would_move_pods_of_a_guarded_namespace_that_was_not_announced() -> None:
    """Otherwise, pods whose namespace asks for approval move with an approval that was given before they came."""
    before = world(a_node_of(LARGE, "one"), pods=(pod_on("one"),))
    found = proposal(before, namespaces=("default", "payroll"))
    assert lapse(found, before) is None
    assert lapse(found, with_guest(before, "payments")) == MovesMore(("payments",))
    assert lapse(found, with_guest(before, "payroll")) is None


@pytest.mark.parametrize("rule", [RULE, ApprovalRule(above_dollars=0), ApprovalRule(above_nodes=0), ApprovalRule()])
def test_pods_of_other_namespaces_let_it_wait(rule: ApprovalRule) -> None:
    """The pods of CronJobs come and go on all nodes: hardly a proposal lived until a person read it."""
    before = world(a_node_of(LARGE, "one"), pods=(pod_on("one"),))
    assert lapse(proposal(before, namespaces=("default",)), with_guest(before, "batch"), rule) is None


def test_pods_on_its_nodes_are_announced_although_it_names_no_moves() -> None:
    """The places of a static NodePool's pods are found once its nodes go."""
    snapshot = world(a_node_of(LARGE, "one"), pods=(pod_on("one"),))
    command = msgspec.structs.replace(proposal(snapshot).command, moves=())
    assert moved_namespaces(command, namespaces_by_node(snapshot)) == {"default"}


def test_a_day_is_the_limit() -> None:
    over = msgspec.structs.replace(EMPTY, now=NOW + EXPIRES_AFTER)
    assert lapse(proposal(EMPTY), over) == ApprovalOver(is_approved=False, until=NOW + EXPIRES_AFTER)
    assert lapse(proposal(EMPTY), msgspec.structs.replace(EMPTY, now=NOW + EXPIRES_AFTER / 2)) is None


def test_the_nodes_of_proposals_are_left_out_of_other_decisions() -> None:
    found = proposal(EMPTY)
    others = {node.name for node in EMPTY.nodes} - set(found.command.nodes)
    plan = disrupt(without_proposed(EMPTY, [found]))
    assert {node for command in plan.commands for node in command.nodes} == others
    assert {blocked(plan)[node] for node in found.command.nodes} == {NodeReason.AWAITS_APPROVAL}
    rejected = msgspec.structs.replace(found, verdict=ProposalVerdict(is_approved=False, by="ada", at=NOW))
    plan = disrupt(without_proposed(EMPTY, [rejected]))
    assert {blocked(plan)[node] for node in found.command.nodes} == {NodeReason.PROPOSAL_REJECTED}
    later = msgspec.structs.replace(EMPTY, now=NOW + EXPIRES_AFTER + timedelta(seconds=1))
    assert disrupt(without_proposed(later, [rejected])).commands


def test_a_hold_says_which_proposal_it_is_for_and_until_when() -> None:
    found = proposal(EMPTY)
    approved, rejected = (
        msgspec.structs.replace(found, verdict=ProposalVerdict(is_approved=answer, by="ada", at=NOW))
        for answer in (True, False)
    )
    until = f"{found.expires_at:%Y-%m-%d %H:%M} UTC"
    for waiting in (found, approved):
        assert held(EMPTY, waiting) == {"one": f"proposal 1 waits until {until}: asked"}
    assert held(EMPTY, rejected) == {"one": f"proposal 1 was rejected by ada; it is left alone until {until}"}


@pytest.mark.parametrize("is_repaired", [True, False])
def test_an_unhealthy_node_is_replaced_although_a_proposal_waits(is_repaired: bool) -> None:
    """Nobody need agree to the repair; where the cluster repairs no nodes, it waits like the others."""
    found = proposal(EMPTY)
    ill = NodeCondition("Ready", "False", NOW - timedelta(minutes=31))
    nodes = tuple(msgspec.structs.replace(node, conditions=(ill,)) for node in EMPTY.nodes)
    options = Options(feature_gates=FeatureGates(node_repair=is_repaired))
    sick = msgspec.structs.replace(EMPTY, nodes=nodes, options=options)
    assert list(held(sick, found)) == ([] if is_repaired else ["one"])


def held(snapshot: Snapshot, found: Proposal) -> dict[str, str]:
    """Node → what holds it."""
    claims = without_proposed(snapshot, [found]).node_claims
    return {claim.node_name: claim.hold.message for claim in claims if claim.hold is not None}


def test_nothing_is_changed_where_nothing_waits() -> None:
    assert without_proposed(EMPTY, ()) is EMPTY


def test_commands_that_start_together_do_not_count_on_the_same_room() -> None:
    """Each of two proposals may be right, and both together wrong."""
    nodes = [a_node_of(MIDDLE, name) for name in ("a", "b", "room")]
    both = world(*nodes, pods=(pod_on("a", cpu="2"), pod_on("b", cpu="2"), pod_on("room", cpu="1500m")))
    first, second = (a_move_to_room(both, node) for node in "ab")
    verification = Verification([first, second], RULE, both)
    assert [verification.lapse(first), verification.lapse(second)] == [None, None]
    assert verification.start(first) == first.command
    assert isinstance(verification.start(second), Refusal)


def a_move_to_room(snapshot: Snapshot, node: str) -> Proposal:
    (claim,) = (claim.name for claim in snapshot.node_claims if claim.node_name == node)
    (pod,) = (pod.key for pod in snapshot.pods if pod.node_name == node)
    command = Command(
        reason="Underutilized", method="single", nodes=(node,), claims=(claim,), moves=(Move(pod, "room"),), savings=1
    )
    return Proposal(id=node, command=command, why="asked", text="", proposed_at=snapshot.now)
