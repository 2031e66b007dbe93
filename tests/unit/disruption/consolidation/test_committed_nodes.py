"""Consolidation of nodes that commitments cover."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core import labels
from core.disruption import disrupt
from core.model.node_pool import Disruption
from core.model.plan import DisruptionPlan
from core.model.snapshot import Options
from core.model.values.commitment import Commitment, ReservedInstances
from core.model.values.requirements import Requirement
from tests.builders import a_node_of, a_pod, a_pool, a_snapshot, a_type

ON_DEMAND = Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND)
LARGE = a_type("m7.2xlarge", cpu="8", memory="32Gi", price=0.4)
SMALL = a_type("m7.large", cpu="2", memory="8Gi", price=0.1)
OTHER = a_type("c7.2xlarge", cpu="8", memory="32Gi", price=0.3)
ONE_LARGE = ReservedInstances(name="ri", instance_type="m7.2xlarge", count=1)
BOTH_POLICIES = pytest.mark.parametrize("karpenter", [False, True])


def _decided(*commitments: Commitment, karpenter: bool, **pods: str) -> DisruptionPlan:
    """The decision on nodes of type m7.2xlarge, by name, each with a pod that requests so much."""
    machines = [a_node_of(LARGE, name) for name in pods]
    return disrupt(
        a_snapshot(
            types=(LARGE, SMALL, OTHER),
            node_pools=(
                a_pool("default", ON_DEMAND, disruption=Disruption(consolidate_after=timedelta(0), budgets=())),
            ),
            nodes=tuple(node for _, node in machines),
            node_claims=tuple(claim for claim, _ in machines),
            pods=tuple(a_pod(f"on-{name}", cpu=cpu, node_name=name, phase="Running") for name, cpu in pods.items()),
            options=Options(commitments=commitments, karpenter_moves_only=karpenter),
        )
    )


@BOTH_POLICIES
def test_a_covered_node_is_not_replaced_by_a_cheaper_one(*, karpenter: bool) -> None:
    """Its price is paid all the same, and its pod would move for nothing."""
    assert _decided(karpenter=karpenter, a="1").commands
    plan = _decided(ONE_LARGE, karpenter=karpenter, a="1")
    assert (plan.commands, plan.cost.before) == ((), 0)


@BOTH_POLICIES
def test_of_two_nodes_that_fit_on_one_the_uncovered_one_goes(*, karpenter: bool) -> None:
    """The commitment covers the other one, so the whole price of a node is saved."""
    plan = _decided(ONE_LARGE, karpenter=karpenter, a="1", b="5")
    (command,) = plan.commands
    assert (command.nodes, command.replacements, command.savings) == (("a",), (), 400_000_000)
    assert (plan.cost.before, plan.cost.after) == (400_000_000, 0)


@BOTH_POLICIES
def test_a_node_is_replaced_by_one_that_is_covered(*, karpenter: bool) -> None:
    """Unused hours of another family are there for nothing; without them the cheapest type is the small one."""
    unused = ReservedInstances(name="ri", instance_type="c7.2xlarge", count=1)
    (command,) = _decided(unused, karpenter=karpenter, a="1").commands
    (replacement,) = command.replacements
    assert (replacement.commitment, replacement.instance_types, replacement.price) == ("ri", ("c7.2xlarge",), 30)
    assert command.savings == 400_000_000 - 30
