"""A pod that must be near another moves after it, and the judge sees where it does not."""

from __future__ import annotations

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.model.catalogue import Catalogue
from core.model.plan import Command, NodeClaim
from core.model.pod import NodeSelectorTerm, PodAffinityTerm
from core.model.snapshot import Node, Snapshot
from core.model.values.requirements import Requirement
from tests.builders import a_node_of, a_selector, a_type
from tests.property.naive_disruption.judge import violations
from tests.unit.disruption.nodes_for_tests import KARPENTER, drifted, pod_on, world

WEB = {"app": "web"}
TYPES = SMALL, MIDDLE, LARGE = tuple(a_type(f"t-{cpu}", cpu=str(cpu), price=cpu / 10) for cpu in (2, 4, 8))
OLD = NodeSelectorTerm((Requirement.one_of("kind", "old"),))


def old(pair: tuple[NodeClaim, Node]) -> tuple[NodeClaim, Node]:
    """The node and its claim, labelled as old."""
    claim, node = pair
    replace = msgspec.structs.replace
    return replace(claim, labels={**claim.labels, "kind": "old"}), replace(node, labels={**node.labels, "kind": "old"})


@pytest.fixture(scope="module")
def followed() -> Snapshot:
    """Drifted nodes: pod `p` of node `c` goes to `a`, then `q` of node `e`, which must be near it. `x` of `c` moves twice."""
    nodes = (
        drifted(a_node_of(LARGE, "c")),
        *(drifted(old(a_node_of(LARGE, name))) for name in ("f", "m")),
        drifted(a_node_of(MIDDLE, "e")),
        a_node_of(MIDDLE, "a"),
        a_node_of(SMALL, "b"),
    )
    keeps = {labels.DO_NOT_DISRUPT: "true"}
    pods = (
        *(pod_on(name, cpu="50m", annotations=keeps) for name in ("a", "b", "m")),
        pod_on("c", "p", cpu="500m", labels=WEB),
        pod_on("c", "x", cpu="4500m", required_terms=(OLD,)),
        pod_on("f", "y", cpu="100m"),
        pod_on("e", "q", cpu="2", affinity=(PodAffinityTerm(labels.HOSTNAME, a_selector(**WEB)),)),
        pod_on("e", "p2", cpu="1500m", labels=WEB),
    )
    snapshot = world(*nodes, pods=pods, options=KARPENTER)
    return msgspec.structs.replace(snapshot, catalogue=Catalogue(default=TYPES))


def test_a_pod_that_must_be_near_another_moves_after_it(followed: Snapshot) -> None:
    """Merged with `f`, to which `x` moves first, `c` would go after `e`."""
    plan = disrupt(followed)
    assert [command.nodes for command in plan.commands] == [("c",), ("e",), ("f",)]
    assert {m.pod: m.to for c in plan.commands for m in c.moves if m.pod in ("default/p", "default/q")} == {
        "default/p": "a",
        "default/q": "a",
    }
    assert violations(followed, plan) == []


def test_the_judge_sees_a_deletion_that_was_merged_past_the_pod_that_follows(followed: Snapshot) -> None:
    plan = disrupt(followed)
    first, follower, last = plan.commands
    merged = msgspec.structs.replace(plan, commands=(follower, _both(first, last)))
    (problem,) = violations(followed, merged)
    assert problem.startswith("affinity: default/q at a: nobody by kubernetes.io/hostname=a (command 0:")


def _both(first: Command, last: Command) -> Command:
    moves = {move.pod: move for move in (*first.moves, *last.moves)}
    return msgspec.structs.replace(
        last,
        nodes=(*first.nodes, *last.nodes),
        claims=(*first.claims, *last.claims),
        moves=tuple(moves[pod] for pod in sorted(moves)),
        savings=first.savings + last.savings,
    )
