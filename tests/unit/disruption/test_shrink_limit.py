"""No NodePool loses more than a share of its vCPUs in an hour by what commands take from under its pods."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core.brakes import BrakeKind
from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.shrink_limit import ALL, ALWAYS_ALLOWED, ShrinkLimit, cpu_of, engaged, shrinking
from core.model.plan import Command, DisruptionPlan
from core.model.snapshot import EvictedNode, Options, Snapshot
from core.model.state_node import state_nodes
from core.reasons.code import TerminationReason
from core.reasons.nodes import NodeReason
from tests.builders import NOW, a_node_of, a_pool, a_type
from tests.unit.disruption.nodes_for_tests import LARGE, ON_DEMAND, OPEN, blocked, drifted, pod_on, world

HOUR = timedelta(hours=1)
LONG_AGO = NOW - HOUR
CPUS = 16
HALF = Options(shrink_percent=50)


def spare(nodes: int = 8, options: Options = HALF, **changes: Any) -> Snapshot:
    """Nodes of 16 vCPUs with a small pod each: all but one can go."""
    fields: dict[str, Any] = {
        "pods": tuple(pod_on(f"n{n}", f"p{n}", cpu="100m") for n in range(nodes)),
        "node_pools": (a_pool("default", ON_DEMAND, disruption=OPEN),),
        "options": options,
        **changes,
    }
    return world(*(a_node_of(LARGE, f"n{n}") for n in range(nodes)), **fields)


def removed(plan: DisruptionPlan) -> int:
    return len({node for command in plan.commands for node in command.nodes})


def taken(nodes: int, ago: timedelta, created_at: Any = LONG_AGO) -> dict[str, EvictedNode]:
    """Nodes that commands took so long ago."""
    evicted = EvictedNode(node_pool="default", pods=1, at=NOW - ago, cpu=CPUS * 1000, created_at=created_at)
    return {f"gone-{n}": evicted for n in range(nodes)}


def limit_of(snapshot: Snapshot) -> ShrinkLimit:
    return ShrinkLimit.of(snapshot, state_nodes(snapshot))


@pytest.mark.parametrize("karpenter", [False, True])
def test_a_pass_takes_no_more_than_the_share(karpenter: bool) -> None:
    unlimited = Options(karpenter_moves_only=karpenter)
    limited = msgspec.structs.replace(unlimited, shrink_percent=50)
    assert removed(disrupt(spare(options=unlimited))) > 4
    plan = disrupt(spare(options=limited))
    assert removed(plan) <= 4
    assert NodeReason.SHRINKING in blocked(plan).values()


def test_what_earlier_commands_took_counts_for_an_hour() -> None:
    """Of twelve nodes of an hour ago four are gone: two more may follow."""
    assert removed(disrupt(spare(evicted_nodes=taken(4, HOUR / 2)))) == 2
    assert removed(disrupt(spare(evicted_nodes=taken(4, HOUR)))) == 4


def test_nodes_that_commands_are_about_to_drain_count_already() -> None:
    marks = tuple(f"default-n{n}" for n in range(3))
    assert removed(disrupt(spare(marked_for_deletion=marks))) == 1
    noted = dict(zip(marks, taken(3, HOUR / 2).values(), strict=True))
    assert removed(disrupt(spare(marked_for_deletion=marks, evicted_nodes=noted))) == 1, "each counts once"


def test_a_peak_of_less_than_an_hour_is_no_reason_to_keep_nodes() -> None:
    """What was launched and removed again within the hour was not there before it."""
    snapshot = spare(evicted_nodes=taken(40, HOUR / 2, created_at=NOW - HOUR / 2))
    assert removed(disrupt(snapshot)) == 4


def test_empty_nodes_go_whatever_went_before() -> None:
    """A NodePool must be able to scale to zero at night."""
    plan = disrupt(spare(pods=(), evicted_nodes=taken(8, HOUR / 2)))
    assert removed(plan) == 8


def test_a_few_small_nodes_go_whatever_share_they_are() -> None:
    plan = disrupt(spare(nodes=3))
    assert removed(plan) * CPUS * 1000 <= ALWAYS_ALLOWED
    assert removed(plan) == 2


def test_one_node_may_go_however_large_it_is() -> None:
    """Otherwise a NodePool of one large node could never be replaced by a smaller one."""
    huge = a_type("t-192", cpu="192")
    snapshot = spare(nodes=1)
    single = world(a_node_of(huge, "n0"), pods=(pod_on("n0"),), node_pools=snapshot.node_pools, options=HALF)
    (candidate,) = DisruptionPass(single).survey.candidates
    assert limit_of(single).allows([candidate])
    after = msgspec.structs.replace(single, evicted_nodes=taken(4, HOUR / 2))
    refusal = limit_of(after).objection([candidate])
    assert refusal is not None
    assert refusal.reason is NodeReason.SHRINKING
    assert "192 vCPUs to remove" in refusal.message


def test_drift_is_held_back_too() -> None:
    nodes = tuple(drifted(a_node_of(LARGE, f"n{n}")) for n in range(8))
    pools = (a_pool("default", ON_DEMAND, disruption=OPEN),)
    pods = tuple(pod_on(f"n{n}", f"p{n}", cpu="15") for n in range(8))
    plan = disrupt(world(*nodes, pods=pods, node_pools=pools, options=HALF))
    assert removed(plan) == 4
    assert NodeReason.SHRINKING in blocked(plan).values()


@pytest.mark.parametrize(
    "options", [Options(), Options(shrink_percent=ALL), Options(shrink_percent=50, ignore_budgets=True)]
)
def test_there_may_be_no_limit(options: Options) -> None:
    snapshot = spare(options=options, evicted_nodes=taken(8, HOUR / 2))
    assert limit_of(snapshot).allows(DisruptionPass(snapshot).survey.candidates)


def test_a_copy_is_independent() -> None:
    snapshot = spare(nodes=4)
    first, second, third, _ = DisruptionPass(snapshot).survey.candidates
    limit = limit_of(snapshot)
    trial = limit.copy()
    for candidate in (first, second):
        trial.take(candidate)
    assert not trial.allows([third])
    assert limit.allows([first, second])


def test_commands_beyond_the_limit_wait_for_approval_in_their_order() -> None:
    commands = [(f"c{n}", command_for(f"n{n}")) for n in range(8)]
    assert list(shrinking(commands, spare(options=Options()), 50)) == ["c4", "c5", "c6", "c7"]
    assert shrinking(commands, spare(options=Options()), ALL) == {}
    repairs = [(name, command_for(command.nodes[0], TerminationReason.UNHEALTHY)) for name, command in commands]
    assert shrinking(repairs, spare(options=Options()), 50) == {}


def command_for(node: str, reason: str = TerminationReason.UNDERUTILIZED) -> Command:
    return Command(reason=reason, method="single", nodes=(node,), claims=(f"default-{node}",), savings=1)


def test_a_pool_that_has_shrunk_shows_a_brake() -> None:
    assert engaged(spare()) == ()
    (brake,) = engaged(spare(nodes=4, evicted_nodes=taken(4, HOUR / 2)))
    assert (brake.kind, brake.node_pool) == (BrakeKind.SHRINKING, "default")
    assert "it had 128" in brake.message


def test_a_node_that_reports_more_than_its_type_has_counts_as_its_type() -> None:
    state = state_nodes(spare(nodes=1))[0]
    assert state.node is not None
    lying = msgspec.structs.replace(state.node, capacity={"cpu": 512_000})
    assert cpu_of(msgspec.structs.replace(state, node=lying)) == CPUS * 1000
