"""A target that waits for budgets keeps only nodes of these; others go on beside it, and both are one target afterwards."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from random import Random
from typing import Final

import msgspec
import pytest

from core import labels
from core.disruption import disrupt, startable
from core.disruption.command import carried_out
from core.disruption.target.stored import after_commands
from core.model.node_pool import BALANCED, Budget, Disruption, RolloutGate
from core.model.plan import DisruptionPlan, StoredNewNode
from core.model.pod import Owner, Pod
from core.model.snapshot import EvictedNode, MovedWorkload, Options, Snapshot
from core.model.values.commitment import Commitment, ReservedInstances
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.unit.disruption.nodes_for_tests import LARGE as WAITING_POOLS_LARGE
from tests.unit.disruption.nodes_for_tests import MIDDLE, OPEN, drifted, pod_on, world
from tests.unit.disruption.nodes_for_tests import ON_DEMAND as ON_DEMAND_ONLY
from tests.unit.disruption.nodes_for_tests import SMALL as SMALL_TYPE
from tests.unit.disruption.target.fleets_for_tests import half_full
from tests.unit.disruption.target.test_decide import guarded, under_way

# Consolidation of nodes that commitments cover.


ON_DEMAND = Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND)
LARGE = a_type("m7.2xlarge", cpu="8", memory="32Gi", price=0.4)
SMALL = a_type("m7.large", cpu="2", memory="8Gi", price=0.1)
COMMITTED_NODES_OTHER = a_type("c7.2xlarge", cpu="8", memory="32Gi", price=0.3)
ONE_LARGE = ReservedInstances(name="ri", instance_type="m7.2xlarge", count=1)
BOTH_POLICIES = pytest.mark.parametrize("karpenter", [False, True])


def _decided(*commitments: Commitment, karpenter: bool, **pods: str) -> DisruptionPlan:
    """The decision on nodes of type m7.2xlarge, by name, each with a pod that requests so much."""
    machines = [a_node_of(LARGE, name) for name in pods]
    return disrupt(
        a_snapshot(
            types=(LARGE, SMALL, COMMITTED_NODES_OTHER),
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


# Drifted nodes and half-empty ones go together: each pod moves once, and no node that goes receives one.


DRIFT_WITH_CONSOLIDATION_ROUNDS_MAX = 20
TYPES = tuple(a_type(f"t-{cpu}", cpu=str(cpu), memory=f"{4 * cpu}Gi", price=cpu / 20) for cpu in (2, 4, 8, 16))


def half_empty(nodes: int, share: float, seed: int) -> Snapshot:
    """Nodes of which this share has drifted, each a tenth to seven tenths full; a fifth of them may go at one time."""
    draw = Random(seed)  # noqa: S311 - dice, not secrets
    pairs, pods = [], list[Pod]()
    for number in range(nodes):
        kind, name = draw.choice(TYPES), f"n{number:02}"
        pair = a_node_of(kind, name)
        pairs.append(drifted(pair) if draw.random() < share else pair)
        free_cpu = int(draw.uniform(0.1, 0.7) * kind.capacity["cpu"])
        while free_cpu > 0:
            cpu = draw.choice((200, 400, 700, 1100))
            pods.append(pod_on(name, f"p{len(pods)}", cpu=f"{cpu}m"))
            free_cpu -= cpu
    return a_snapshot(
        types=TYPES,
        nodes=tuple(node for _, node in pairs),
        node_claims=tuple(claim for claim, _ in pairs),
        node_pools=(a_pool("default", ON_DEMAND_ONLY, disruption=Disruption(budgets=(Budget("20%"),))),),
        pods=tuple(pods),
    )


@pytest.mark.ci
@pytest.mark.parametrize(("nodes", "share", "seed"), [(24, 0.3, 2), (16, 0.4, 4), (16, 0.4, 7)])
def test_no_pod_moves_twice_and_no_node_that_goes_receives_one(nodes: int, share: float, seed: int) -> None:
    """Pods of drifted nodes went to nodes that consolidation removed later, and moved again for that reason."""
    snapshot = half_empty(nodes, share, seed)
    moves, receivers, gone = Counter[str](), set[str](), set[str]()
    for _ in range(DRIFT_WITH_CONSOLIDATION_ROUNDS_MAX):
        plan = disrupt(snapshot, proves=False)
        commands = startable(plan.commands)
        if not commands:
            break
        moves.update(move.pod for command in commands for move in command.moves)
        receivers |= {move.to for command in commands for move in command.moves}
        gone |= {node for command in commands for node in command.nodes}
        rest = after_commands(plan.target, commands, snapshot.pods, {}) if plan.target is not None else None
        snapshot = msgspec.structs.replace(carried_out(snapshot, *commands), stored_target=rest)
        pods = (msgspec.structs.replace(p, started_at=NOW) if p.key in moves else p for p in snapshot.pods)
        snapshot = msgspec.structs.replace(snapshot, pods=tuple(pods), moved_workloads=moved("default/ReplicaSet/web"))
    assert not disrupt(snapshot, proves=False).commands, "the fleet does not come to rest"
    assert max(moves.values()) == 1
    assert not receivers & gone


def test_pods_of_several_drifted_nodes_share_a_new_node() -> None:
    """A new node for each would be consolidated afterwards: its pods would move twice."""
    nodes = [drifted(a_node_of(TYPES[1], f"n{n}")) for n in range(3)]
    snapshot = world(*nodes, pods=tuple(pod_on(f"n{n}", cpu="600m") for n in range(3)))
    snapshot = msgspec.structs.replace(snapshot, catalogue=a_snapshot(types=TYPES).catalogue)
    (command,) = disrupt(snapshot).commands
    assert (command.method, len(command.nodes), len(command.replacements)) == ("drift", 3, 1)
    gated = msgspec.structs.replace(snapshot, rollouts={"default": RolloutGate(1, "wait")})
    assert [command.nodes for command in disrupt(gated).commands] == [("n0",)], "the first goes alone"


def test_what_drift_launches_does_not_let_a_balanced_pool_move_pods_for_little() -> None:
    """The new nodes of drifted nodes are no saving of the others, and no reason against them either."""
    balanced = a_pool("default", ON_DEMAND_ONLY, disruption=Disruption(policy=BALANCED, budgets=(Budget("100%"),)))
    small, expensive = a_type("t-1", cpu="1", price=0.05), a_type("expensive", cpu="16", price=100.0)
    pairs = (a_node_of(small, "a"), a_node_of(expensive, "b"), drifted(a_node_of(small, "old")))
    pods = (*(pod_on("a", f"a{n}", cpu="100m") for n in range(9)), pod_on("b", cpu="8"), pod_on("old", cpu="900m"))
    snapshot = world(*pairs, pods=pods, node_pools=(balanced,))
    plan = disrupt(msgspec.structs.replace(snapshot, catalogue=a_snapshot(types=(small, expensive)).catalogue))
    assert {node for command in plan.commands for node in command.nodes} == {"old"}


def test_a_drifted_node_without_a_place_in_the_target_goes_as_it_went_before() -> None:
    """At the limit, only another drifted node has room: a target never uses it."""
    pools = (a_pool("default", ON_DEMAND_ONLY, disruption=OPEN, limits={"nodes": 2}),)
    nodes = (drifted(a_node_of(TYPES[3])), drifted(a_node_of(TYPES[3], "node-2")))
    pods = (pod_on("node-1", cpu="7"), pod_on("node-2", cpu="7"))
    snapshot = world(*nodes, pods=pods, node_pools=pools)
    plan = disrupt(msgspec.structs.replace(snapshot, catalogue=a_snapshot(types=TYPES).catalogue))
    assert [command.nodes for command in startable(plan.commands)] != []


# A target waits for nodes whose PodDisruptionBudgets are closed while moved pods start, and for nothing else.


DB: Final = {"app": "db"}
JUST_BEFORE: Final = timedelta(minutes=10) - timedelta(seconds=1)


def held(later: timedelta, **changes: object) -> Snapshot:
    """A target whose nodes all wait for one budget, that much later; a small node, which saves, and a leaving one are new."""
    pods = tuple(pod_on(f"n{n}", cpu="400m", labels=DB) for n in range(8))
    snapshot, _ = under_way(half_full(8, at_once=3, pods=pods, budgets=guarded(1)))
    small, leaving = a_node_of(SMALL_TYPE, "small"), a_node_of(SMALL_TYPE, "leaving")
    other = (Owner("ReplicaSet", "other"),)
    more = (
        pod_on("small", cpu="100m", owners=other),
        pod_on("leaving", cpu="100m", owners=other, annotations={labels.DO_NOT_DISRUPT: "true"}),
    )
    now = msgspec.structs.replace(
        snapshot,
        now=snapshot.now + later,
        budgets=guarded(0),
        nodes=(*snapshot.nodes, small[1], leaving[1]),
        node_claims=(*snapshot.node_claims, small[0], leaving[0]),
        pods=(*snapshot.pods, *more),
    )
    return msgspec.structs.replace(now, **changes)


def moved(name: str) -> dict[str, MovedWorkload]:
    """The workload was moved when the target began."""
    return {name: MovedWorkload(name=name, moving_since=NOW, moved_at=NOW)}


def goes(plan: DisruptionPlan) -> bool:
    """Whether the small node goes, which a new target finds; otherwise it says that it waits."""
    if plan.commands:
        assert [command.nodes for command in plan.commands] == [("small",)]
        return True
    (block,) = (block for block in plan.blocked if block.node == "small")
    assert (plan.target_reason, block.reason) == ("TargetContinued", "TargetWaits")
    assert f"until {NOW + timedelta(minutes=10):%Y-%m-%dT%H:%M:%SZ}" in block.message
    assert "keep n1 and 5 more" in block.message
    return False


@pytest.mark.parametrize(
    ("workload", "later", "is_made"),
    [
        ("default/ReplicaSet/web", timedelta(minutes=1), False),
        ("default/ReplicaSet/web", JUST_BEFORE, False),
        ("default/ReplicaSet/web", timedelta(minutes=10), True),
        ("default/ReplicaSet/other", timedelta(minutes=1), True),
    ],
)
def test_a_target_waits_ten_minutes_for_moved_pods_of_the_closed_budget(
    workload: str, later: timedelta, *, is_made: bool
) -> None:
    """A pod that never gets ready may keep its budget closed for days, and pods of other budgets open none."""
    assert goes(disrupt(held(later, moved_workloads=moved(workload)))) == is_made


@pytest.mark.parametrize("by_command", [True, False])
@pytest.mark.parametrize(
    ("is_selected", "later", "is_made"),
    [
        (True, timedelta(minutes=1), False),
        (True, JUST_BEFORE, False),
        (True, timedelta(minutes=10), True),
        (True, timedelta(hours=5), True),
        (False, timedelta(minutes=1), True),
    ],
)
def test_a_target_waits_ten_minutes_for_a_drain_of_pods_of_the_closed_budget(
    later: timedelta, *, by_command: bool, is_selected: bool, is_made: bool
) -> None:
    """A drain of another workload, or one that is blocked, kept every other node of the cluster for up to six hours."""
    snapshot = held(later)
    *others, claim = snapshot.node_claims
    *running, pod = snapshot.pods
    draining = msgspec.structs.replace(
        snapshot, pods=(*running, msgspec.structs.replace(pod, labels=DB if is_selected else {}))
    )
    if by_command:
        drain = {claim.name: EvictedNode(node_pool="default", pods=1, at=NOW)}
        draining = msgspec.structs.replace(draining, marked_for_deletion=(claim.name,), evicted_nodes=drain)
    else:
        deleted = msgspec.structs.replace(claim, deleted_at=NOW)
        draining = msgspec.structs.replace(draining, node_claims=(*others, deleted))
    assert goes(disrupt(draining)) == is_made


def test_a_target_does_not_wait_for_a_drain_that_has_not_begun() -> None:
    """Its command still waits for new nodes, so none of its pods has been evicted."""
    snapshot = held(timedelta(minutes=1))
    assert goes(disrupt(msgspec.structs.replace(snapshot, marked_for_deletion=(snapshot.node_claims[-1].name,))))


ROUNDS_MAX = 10
OTHER = (Owner("ReplicaSet", "other"),)
POOLS = tuple(
    a_pool(name, ON_DEMAND_ONLY, disruption=Disruption(budgets=(Budget("2"),))) for name in ("default", "other")
)


def beside(
    snapshot: Snapshot, *, nodes: int, blocked_in: str = "default", lost_taints: tuple[Taint, ...] = ()
) -> Snapshot:
    """The cluster with half-full nodes of another NodePool, two of which may go at a time, and a node whose drain is blocked.

    Two nodes that are not ready take the rest of the first NodePool's budget.
    """
    leaving = a_node_of(SMALL_TYPE, "leaving", pool=blocked_in)
    lost = [a_node_of(MIDDLE, name, is_ready=False, taints=lost_taints) for name in ("x", "y")]
    more = [a_node_of(MIDDLE, f"o{n}", pool="other") for n in range(nodes)]
    pairs = [leaving, *lost, *more]
    guard = pod_on("leaving", cpu="900m", annotations={labels.DO_NOT_DISRUPT: "true"})
    return msgspec.structs.replace(
        snapshot,
        nodes=(*snapshot.nodes, *(node for _, node in pairs)),
        node_claims=(*snapshot.node_claims, *(claim for claim, _ in pairs)),
        pods=(*snapshot.pods, guard, *(pod_on(f"o{n}", cpu="400m", owners=OTHER) for n in range(nodes))),
        marked_for_deletion=(leaving[0].name,),
    )


def blocked(*, nodes: int, blocked_in: str = "default", lost_taints: tuple[Taint, ...] = ()) -> Snapshot:
    """A stored target of one NodePool that a blocked drain keeps from going on."""
    begun = under_way(half_full(8, at_once=2, node_pools=POOLS))[0]
    return beside(begun, nodes=nodes, blocked_in=blocked_in, lost_taints=lost_taints)


def without_blocked(snapshot: Snapshot) -> Snapshot:
    """The same after the drain has ended, without the nodes that were not ready."""
    ended = ("leaving", "x", "y")
    return msgspec.structs.replace(
        snapshot,
        nodes=tuple(node for node in snapshot.nodes if node.name not in ended),
        node_claims=tuple(claim for claim in snapshot.node_claims if claim.node_name not in ended),
        pods=tuple(pod for pod in snapshot.pods if pod.node_name not in ended),
        marked_for_deletion=(),
    )


def gone(plan: DisruptionPlan) -> set[str]:
    """The nodes of its commands."""
    return {node for command in plan.commands for node in command.nodes}


@pytest.mark.parametrize("blocked_in", ["default", "other"])
@pytest.mark.parametrize("later", [timedelta(0), timedelta(hours=5), timedelta(hours=6, seconds=1)])
def test_a_blocked_drain_keeps_no_node_of_other_pools(later: timedelta, blocked_in: str) -> None:
    """A drain may be blocked for days, and nodes of pools that the target does not drain waited for up to six hours."""
    snapshot = blocked(nodes=4, blocked_in=blocked_in)
    plan = disrupt(msgspec.structs.replace(snapshot, now=snapshot.now + later))
    assert gone(plan)
    assert all(name.startswith("o") for name in gone(plan))


def test_a_blocked_drain_of_drifted_nodes_keeps_no_node_of_other_pools_where_no_target_is_stored() -> None:
    """Nothing bounded that time: only a stored target gets too old."""
    snapshot = beside(half_full(3, at_once=2, node_pools=POOLS), nodes=4)
    claims, nodes = snapshot.node_claims, snapshot.nodes
    outdated = drifted((claims[0], nodes[0]))
    plan = disrupt(msgspec.structs.replace(snapshot, node_claims=(outdated[0], *claims[1:])))
    assert gone(plan)
    assert all(name.startswith("o") for name in gone(plan))
    assert plan.target is not None
    assert {drain.node for drain in plan.target.drains} >= gone(plan)


def one_drifted(snapshot: Snapshot, *budgets: Budget) -> Snapshot:
    """The cluster after its first node has drifted, with these budgets of the first NodePool."""
    claims, nodes = snapshot.node_claims, snapshot.nodes
    outdated = drifted((claims[0], nodes[0]))
    pool = msgspec.structs.replace(snapshot.node_pools[0], disruption=Disruption(budgets=budgets or (Budget("2"),)))
    return msgspec.structs.replace(
        snapshot, node_claims=(outdated[0], *claims[1:]), node_pools=(pool, *snapshot.node_pools[1:])
    )


@pytest.mark.parametrize("others", [0, 4])
@pytest.mark.parametrize("later", [timedelta(0), timedelta(hours=48)])
def test_a_blocked_drain_keeps_no_node_whose_reason_has_a_budget(later: timedelta, others: int) -> None:
    """One drifted node without a place in the budget for Drifted stopped all consolidation of its NodePool, with no end."""
    budgets = (Budget("1", reasons=("Drifted",)), Budget("100%"))
    snapshot = one_drifted(beside(half_full(6, at_once=2, node_pools=POOLS), nodes=others), *budgets)
    snapshot = msgspec.structs.replace(snapshot, now=snapshot.now + later)
    moves, order = list[str](), list[str]()
    for turn in range(ROUNDS_MAX):
        plan = disrupt(snapshot)
        assert turn == 0 or plan.target_reason == "TargetContinued"
        if not plan.commands:
            break
        moves += [move.pod for command in plan.commands for move in command.moves]
        order += sorted(gone(plan))
        assert plan.target is not None
        rest = after_commands(plan.target, plan.commands, snapshot.pods, {})
        snapshot = msgspec.structs.replace(carried_out(snapshot, *plan.commands), stored_target=rest)
    assert {name[0] for name in order} - {"x", "y"} == ({"n", "o"} if others else {"n"})
    assert "n0" not in order
    assert len(moves) == len(set(moves))


@pytest.mark.parametrize("is_stored", [True, False])
def test_nodes_that_wait_say_for_which_nodes(*, is_stored: bool) -> None:
    """They were told that no place for their pods costs less, though none was looked for."""
    fleet = half_full(3, at_once=2, node_pools=POOLS)
    plan = disrupt(blocked(nodes=0) if is_stored else one_drifted(beside(fleet, nodes=0)))
    waiting = [block for block in plan.blocked if block.reason == "TargetWaits"]
    assert waiting
    assert all(
        block.message.startswith("nothing is decided about it while the current target waits") for block in waiting
    )
    assert all("NodePool default" in block.message and "leaving" in block.message for block in waiting)
    assert all(block.reason != "NoCheaperOption" for block in plan.blocked)


def test_what_goes_beside_a_waiting_target_leaves_its_nodes_and_places_as_they_are() -> None:
    snapshot = blocked(nodes=4)
    waiting = snapshot.stored_target
    assert waiting is not None
    reserved = {drain.node for drain in waiting.drains} | {slot.node for slot in waiting.slots}
    assert reserved
    plan = disrupt(snapshot)
    assert not reserved & ({move.to for command in plan.commands for move in command.moves} | gone(plan))
    assert plan.target is not None
    assert set(waiting.drains) < set(plan.target.drains)
    assert set(waiting.slots) < set(plan.target.slots)
    assert plan.target.made_at == waiting.made_at
    assert plan.target.saving > waiting.saving
    later = {drain.node for drain in plan.target.drains} - {drain.node for drain in waiting.drains} - gone(plan)
    saved = {block.node: block.savings for block in plan.blocked}
    assert later
    assert {name: saved[name] for name in later} == dict.fromkeys(later, MIDDLE.offerings[0].price)


def test_both_are_one_target_that_is_followed_to_its_end_and_no_pod_moves_twice() -> None:
    """First the other pool's waves, beside the blocked drain; once that has ended, the waves that waited."""
    snapshot = blocked(nodes=8, lost_taints=(Taint("node.kubernetes.io/not-ready", NO_SCHEDULE),))
    assert snapshot.stored_target is not None
    moves, order = list[str](), list[str]()
    for _ in range(ROUNDS_MAX):
        plan = disrupt(snapshot)
        if plan.target is None:
            break
        assert plan.target_reason == "TargetContinued"
        moves += [move.pod for command in plan.commands for move in command.moves]
        order += sorted(gone(plan))
        rest = after_commands(plan.target, plan.commands, snapshot.pods, {})
        snapshot = msgspec.structs.replace(carried_out(snapshot, *plan.commands), stored_target=rest)
        if not plan.commands:
            snapshot = without_blocked(snapshot)
    assert order == [*(f"o{n}" for n in range(7)), *(f"n{n}" for n in range(2, 7))]
    assert len(moves) == len(set(moves))


def test_a_target_beside_drifted_nodes_that_wait_is_followed_wave_by_wave() -> None:
    """The nodes that waited counted as grown, so the target was planned again in the next pass."""
    snapshot = one_drifted(beside(half_full(16, at_once=2, node_pools=POOLS), nodes=12))
    first = disrupt(snapshot)
    assert first.target is not None
    rest = after_commands(first.target, first.commands, snapshot.pods, {})
    second = disrupt(msgspec.structs.replace(carried_out(snapshot, *first.commands), stored_target=rest))
    assert second.target_reason == "TargetContinued"
    assert gone(second)


def test_new_nodes_of_both_targets_have_names_of_their_own() -> None:
    """Two large nodes of the other pool become one new one; the waiting target has new nodes of the same pool."""
    snapshot = blocked(nodes=0)
    pairs = [a_node_of(WAITING_POOLS_LARGE, f"b{n}", pool="other") for n in range(2)]
    to_other_pool = {"node_selector": (Requirement.one_of(labels.NODEPOOL, "other"),), "owners": OTHER}
    pods = (pod_on(f"b{n}", f"b{n}-{m}", cpu="900m", **to_other_pool) for n in range(2) for m in range(2))
    assert snapshot.stored_target is not None
    planned = tuple(StoredNewNode(name=f"other-{n}", pods={}) for n in range(2))
    plan = disrupt(
        msgspec.structs.replace(
            snapshot,
            nodes=(*snapshot.nodes, *(node for _, node in pairs)),
            node_claims=(*snapshot.node_claims, *(claim for claim, _ in pairs)),
            pods=(*snapshot.pods, *pods),
            stored_target=msgspec.structs.replace(snapshot.stored_target, new_nodes=planned),
        )
    )
    assert gone(plan) == {"b0", "b1"}
    assert [claim.name for command in plan.commands for claim in command.replacements] == ["other-2"]
    assert plan.target is not None
    assert [node.name for node in plan.target.new_nodes] == ["other-0", "other-1", "other-2"]
