"""Which nodes of a stored command may still go, and why the others stay."""

from __future__ import annotations

import msgspec

from core import labels
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.validation.remaining_nodes import remaining_nodes
from core.model.node_pool import Budget, Disruption
from core.model.plan import Command
from core.model.snapshot import Options, Snapshot
from tests.builders import a_node_of, a_pool
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
