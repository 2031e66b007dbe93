"""Which nodes of a stored command may still go, and why the others stay."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.disruption.consolidation.eligibility import objection
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.validation.remaining_nodes import remaining_nodes
from core.model.node import NodeCondition
from core.model.node_pool import Budget, Disruption
from core.model.plan import Command
from core.model.snapshot import Options, Snapshot
from tests.builders import NOW, a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import MIDDLE, ON_DEMAND, drifted, pod_on, world

NAMES = ("a", "b", "c")
DRIFT = Command(reason="Drifted", method="drift", nodes=NAMES, claims=tuple(f"default-{name}" for name in NAMES))


def fleet(budget: str = "100%", **annotations: dict[str, str]) -> Snapshot:
    """Three drifted nodes with a pod each; the pod of a named node has these annotations."""
    pods = tuple(pod_on(name, annotations=annotations.get(name, {})) for name in NAMES)
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget(budget),)))
    return world(*(drifted(a_node_of(MIDDLE, name)) for name in NAMES), pods=pods, node_pools=(pool,))


def asked(snapshot: Snapshot) -> tuple[list[str], dict[str, str]]:
    """The nodes that go, and why the others stay."""
    going, left_out = remaining_nodes(DRIFT, DisruptionPass(snapshot))
    return [candidate.name for candidate in going], left_out


def test_all_go_while_nothing_changes() -> None:
    assert asked(fleet()) == (list(NAMES), {})


def test_each_node_that_stays_says_why() -> None:
    """Gone, healed, or kept by a pod: three nodes, three reasons."""
    snapshot = fleet(a={labels.DO_NOT_DISRUPT: "true"})
    healed = a_node_of(MIDDLE, "b")[0]
    changed = msgspec.structs.replace(snapshot, node_claims=(snapshot.node_claims[0], healed), nodes=snapshot.nodes[:2])
    assert asked(changed) == (
        [],
        {
            "a": f"pod default/on-a has {labels.DO_NOT_DISRUPT}",
            "b": "node b is no longer drifted",
            "c": "NodeClaim default-c is no longer a candidate: it is gone",
        },
    )


def test_budgets_let_the_first_nodes_go_and_are_not_asked_where_they_are_ignored() -> None:
    text = "budgets let 1 of 3 nodes go for Drifted now"
    assert asked(fleet("1")) == (["a"], {"b": text, "c": text})
    ignoring = msgspec.structs.replace(fleet("0"), options=Options(ignore_budgets=True))
    assert asked(ignoring) == (list(NAMES), {})


ILL = NodeCondition("Ready", "False", NOW - timedelta(hours=1))
OF_ONE = {"nodes": ("a",), "claims": ("default-a",)}


@pytest.mark.parametrize(
    ("reason", "pods", "is_ill", "after", "budget", "why"),
    [
        ("Empty", 0, False, timedelta(0), "100%", ""),
        ("Empty", 1, False, timedelta(0), "100%", "node a is no longer empty"),
        ("Underutilized", 1, False, timedelta(0), "100%", ""),
        ("Underutilized", 1, False, timedelta(0), "0", "budgets let 0 of 1 nodes go for Underutilized now"),
        ("Unhealthy", 1, True, None, "100%", ""),
        ("Unhealthy", 1, False, timedelta(0), "100%", "node a is healthy again"),
        ("Unhealthy", 1, True, timedelta(0), "0", "budgets let 0 of 1 nodes go for Unhealthy now"),
    ],
)
def test_a_node_goes_for_the_reason_of_its_command_or_stays(
    reason: str, pods: int, is_ill: bool, after: timedelta | None, budget: str, why: str
) -> None:
    """A broken node is replaced where nothing is consolidated; no other reason takes its place."""
    claim, node = a_node_of(MIDDLE, "a")
    if is_ill:
        node = msgspec.structs.replace(node, conditions=(ILL,), is_ready=False)
    disruption = Disruption(budgets=(Budget(budget),), consolidate_after=after)
    pools = (a_pool("default", ON_DEMAND, disruption=disruption),)
    command = Command(reason=reason, method="any", **OF_ONE)
    fresh = DisruptionPass(world((claim, node), pods=(pod_on("a"),) * pods, node_pools=pools))
    going, left_out = remaining_nodes(command, fresh)
    assert ([candidate.name for candidate in going], left_out) == ([] if why else ["a"], {"a": why} if why else {})


def test_a_node_whose_pool_consolidates_nothing_stays_with_that_reason() -> None:
    never = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("100%"),), consolidate_after=None))
    fresh = DisruptionPass(world(a_node_of(MIDDLE, "a"), pods=(pod_on("a"),), node_pools=(never,)))
    rule = objection(fresh.survey.candidates[0], fresh)
    assert rule is not None
    for reason in ("Empty", "Underutilized"):
        assert remaining_nodes(Command(reason=reason, method="any", **OF_ONE), fresh) == ([], {"a": rule.message})


def test_a_node_that_cannot_be_a_candidate_says_why() -> None:
    """Another command removes it already."""
    fresh = DisruptionPass(world(a_node_of(MIDDLE, "a"), marked_for_deletion=("default-a",)))
    told = "NodeClaim default-a is no longer a candidate: node a is being deleted already"
    assert remaining_nodes(Command(reason="Empty", method="any", **OF_ONE), fresh) == ([], {"a": told})
