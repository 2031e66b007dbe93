"""The wrong nodes would go, for the wrong reason, or at a loss."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption import Validation, disrupt, startable
from core.model.feature_gates import FeatureGates
from core.model.node import Node
from core.model.node_claim import DRIFTED, Condition, NodeClaim
from core.model.node_pool import Budget, Disruption
from core.model.overlay import CapacityBuffer
from core.model.plan import Command, DisruptionPlan, Move
from core.model.pod import Owner, Pod
from core.model.policy import PodDisruptionBudget
from core.model.snapshot import Options, Snapshot
from core.model.values.quantity import nanodollars
from core.model.values.requirements import Requirement
from core.reasons.command import CommandReason
from core.reasons.node import NodeReason
from core.reasons.refusal import Refusal
from core.reasons.termination import TerminationReason
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type

SMALL, MIDDLE, LARGE = (a_type(f"t-{cpu}", cpu=str(cpu), price=cpu / 20) for cpu in (1, 4, 16))
TYPES = (SMALL, MIDDLE, LARGE)
ON_DEMAND = Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND)
OPEN = Disruption(budgets=(Budget("100%"),))
KARPENTER = Options(karpenter_moves_only=True)


def checked(command: Command, snapshot: Snapshot) -> Command | Refusal:
    """What becomes of the command at its second look."""
    return Validation([command], snapshot).check(command)


def pod_on(node: str, name: str = "", *, cpu: str = "500m", **changes: Any) -> Pod:
    """A pod of a ReplicaSet that runs on the node."""
    fields = {
        "node_name": node,
        "phase": "Running",
        "is_ready": True,
        "owners": (Owner("ReplicaSet", "web"),),
        **changes,
    }
    return a_pod(name or f"on-{node}", cpu=cpu, memory="64Mi", **fields)


def world(*pairs: tuple[NodeClaim, Node], pods: tuple[Pod, ...] = (), **changes: Any) -> Snapshot:
    """A cluster of these nodes in one on-demand pool with ample budgets."""
    fields: dict[str, Any] = {
        "node_claims": tuple(claim for claim, _ in pairs),
        "nodes": tuple(node for _, node in pairs),
        "node_pools": (a_pool("default", ON_DEMAND, disruption=OPEN),),
        "pods": pods,
        **changes,
    }
    return a_snapshot(types=TYPES, **fields)


def drifted(pair: tuple[NodeClaim, Node]) -> tuple[NodeClaim, Node]:
    """The node, marked as drifted."""
    claim, node = pair
    conditions = {**claim.conditions, DRIFTED: Condition("True", "NodePoolDrifted", changed_at=NOW)}
    return msgspec.structs.replace(claim, conditions=conditions), node


def blocked(plan: DisruptionPlan) -> dict[str, str]:
    """Node → the code that keeps it."""
    return {block.node: block.reason for block in plan.blocked}


def test_empty_node_is_deleted() -> None:
    """Paying for a node without pods."""
    (command,) = disrupt(world(a_node_of(SMALL))).commands
    assert (command.reason, command.method, command.nodes) == (TerminationReason.EMPTY, "emptiness", ("node-1",))
    assert command.savings == nanodollars(0.05)


def test_oversized_node_is_replaced_by_a_cheaper_type() -> None:
    """The replacement is strictly cheaper at its worst, and the pod moves there."""
    plan = disrupt(world(a_node_of(LARGE), pods=(pod_on("node-1"),)))
    (command,) = plan.commands
    assert command.reason == TerminationReason.UNDERUTILIZED
    assert command.replacements[0].instance_types[0] == "t-1"
    assert "t-16" not in command.replacements[0].instance_types
    assert command.moves == (Move("default/on-node-1", command.replacements[0].name),)
    assert plan.cost.after < plan.cost.before


def test_node_that_fits_its_pods_stays() -> None:
    """Replacing like by like is churn."""
    plan = disrupt(world(a_node_of(SMALL), pods=(pod_on("node-1"),)))
    assert plan.commands == ()
    assert blocked(plan) == {"node-1": NodeReason.NO_CHEAPER_OPTION}


def test_drifted_node_is_replaced_though_dearer() -> None:
    """What the user asks for now counts more than what it costs."""
    pair = drifted(a_node_of(SMALL, capacity_type=labels.SPOT))
    (command,) = disrupt(world(pair, pods=(pod_on("node-1"),))).commands
    assert command.reason == TerminationReason.DRIFTED
    assert command.savings < 0


def test_drift_overrides_pods_only_with_a_grace_period() -> None:
    """Without a bound on draining, one protected pod would hold a half-drained node for ever."""
    claim, node = drifted(a_node_of(MIDDLE))
    guard = pod_on("node-1", annotations={labels.DO_NOT_DISRUPT: "true"})
    bounded = msgspec.structs.replace(claim, termination_grace_period=timedelta(hours=1))
    assert disrupt(world((claim, node), pods=(guard,))).commands == ()
    assert disrupt(world((bounded, node), pods=(guard,))).commands[0].reason == TerminationReason.DRIFTED


def test_static_pool_replaces_drifted_nodes_one_for_one() -> None:
    """A static pool keeps its number of nodes, whatever pods it has; it is never consolidated."""
    pool = a_pool("default", ON_DEMAND, disruption=OPEN, replicas=1)
    snapshot = world(drifted(a_node_of(SMALL)), node_pools=(pool,))
    (command,) = disrupt(snapshot).commands
    assert (command.method, len(command.replacements)) == ("static-drift", 1)
    assert blocked(disrupt(world(a_node_of(SMALL), node_pools=(pool,)))) == {"node-1": NodeReason.STATIC_POOL}


@pytest.mark.parametrize(("limits", "replicas"), [({"nodes": 1}, 1), ({}, 0)])
def test_static_pool_without_room_waits(limits: dict[str, int], replicas: int) -> None:
    """Neither over the limit of nodes, nor while the pool still has to shrink."""
    pool = a_pool("default", ON_DEMAND, disruption=OPEN, replicas=replicas, limits=limits)
    plan = disrupt(world(drifted(a_node_of(SMALL)), node_pools=(pool,)))
    assert plan.commands == ()
    assert blocked(plan) == {"node-1": NodeReason.STATIC_POOL}


def test_node_is_split_where_two_small_ones_are_cheaper() -> None:
    """Karpenter never turns one node into two; we do, if not told to do as it does."""
    dear = a_type("dear", cpu="8", price=9.0)
    pods = tuple(pod_on("node-1", f"p{n}", cpu="900m") for n in range(4))
    other = a_type("two", cpu="2", price=0.3)
    snapshot = msgspec.structs.replace(
        world(a_node_of(dear), pods=pods),
        catalogue=a_snapshot(types=(dear, other)).catalogue,
    )
    (command,) = disrupt(snapshot).commands
    assert (command.method, len(command.replacements)) == ("repack", 2)
    assert checked(command, snapshot) == command
    assert disrupt(msgspec.structs.replace(snapshot, options=KARPENTER)).commands == ()


@pytest.mark.parametrize(("count", "gate", "expected"), [(14, True, 0), (15, True, 15), (20, True, 15), (20, False, 0)])
def test_spot_to_spot_needs_gate_and_flexibility(count: int, gate: bool, expected: int) -> None:
    """Fifteen cheaper types, and only those are launched, or the market would move the node for ever."""
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


def test_pods_move_to_a_node_that_has_room() -> None:
    """The dearer node with as many pods goes; its pods fit on the other."""
    pairs = (a_node_of(MIDDLE, "a"), a_node_of(SMALL, "b"))
    plan = disrupt(world(*pairs, pods=(pod_on("a", cpu="200m"), pod_on("b", cpu="200m"))))
    assert [command.nodes for command in plan.commands] == [("a",)]
    assert plan.commands[0].moves == (Move("default/on-a", "b"),)


def test_budget_spent_is_said_so() -> None:
    """A budget of one: one goes, the other is told why it stays."""
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)))
    plan = disrupt(world(a_node_of(SMALL, "a"), a_node_of(SMALL, "b"), node_pools=(pool,)))
    assert [command.nodes for command in plan.commands] == [("a",)]
    assert blocked(plan) == {"b": NodeReason.BUDGET}
    ignoring = world(
        a_node_of(SMALL, "a"), a_node_of(SMALL, "b"), node_pools=(pool,), options=Options(ignore_budgets=True)
    )
    assert len(disrupt(ignoring).commands) == 2


def test_moves_name_the_node_that_the_scheduler_chose() -> None:
    """A pod that goes to the node of an earlier command was told to go to its own command's, which is full."""
    pods = (
        pod_on("node-1", cpu="2500m"),
        pod_on("node-2", "little", cpu="900m"),
        pod_on("node-2", "much", cpu="3"),
    )
    plan = disrupt(world(drifted(a_node_of(MIDDLE)), drifted(a_node_of(MIDDLE, "node-2")), pods=pods))
    first, second = plan.commands
    assert [claim.pods for claim in second.replacements] == [("default/much",)]
    assert second.moves == (
        Move("default/little", first.replacements[0].name),
        Move("default/much", second.replacements[0].name),
    )


def test_commands_that_count_on_others_wait() -> None:
    """A replacement must be there before another command's pods can move to it."""
    launch = disrupt(world(a_node_of(LARGE, "a"), pods=(pod_on("a"),))).commands[0]
    name = launch.replacements[0].name
    onto = Command(
        reason=TerminationReason.UNDERUTILIZED,
        method="single",
        nodes=("b",),
        claims=("cb",),
        moves=(Move("default/x", name),),
    )
    free = Command(reason=TerminationReason.EMPTY, method="emptiness", nodes=("c",), claims=("cc",))
    plan = DisruptionPlan(now=NOW, commands=(launch, onto, free))
    assert startable(plan) == (launch, free)


class TestValidation:
    """A command would be carried out although the world has changed since."""

    def command(self, snapshot: Snapshot) -> Command:
        """The one command."""
        (command,) = disrupt(snapshot).commands
        return command

    def test_holds_in_the_same_world_and_under_its_own_marks(self) -> None:
        """Nothing changed; that its own claims are marked changes nothing."""
        snapshot = world(a_node_of(LARGE), pods=(pod_on("node-1"),))
        command = self.command(snapshot)
        assert checked(command, snapshot) == command
        assert checked(command, msgspec.structs.replace(snapshot, marked_for_deletion=command.claims)) == command

    def test_node_got_a_pod_since(self) -> None:
        """An empty node on which a pod landed stays."""
        command = self.command(world(a_node_of(SMALL)))
        assert isinstance(checked(command, world(a_node_of(SMALL), pods=(pod_on("node-1"),))), Refusal)

    def test_one_of_several_got_a_pod_that_stays_since(self) -> None:
        """The others go all the same: in a fleet that consolidates somebody always got a pod."""
        nodes = tuple(a_node_of(MIDDLE, f"node-{n}") for n in range(4))
        pods = tuple(pod_on(f"node-{n}", cpu="100m") for n in range(4))
        command = self.command(world(*nodes, pods=pods))
        guard = pod_on("node-1", "guard", cpu="1m", annotations={labels.DO_NOT_DISRUPT: "true"})
        found = checked(command, world(*nodes, pods=(*pods, guard)))
        assert isinstance(found, Command)
        assert (command.method, len(command.nodes)) == ("multi", 4)
        assert (found.nodes, found.replacements) == (("node-0", "node-2", "node-3"), ())
        assert {move.to for move in found.moves} == {"node-1"}

    def test_pod_is_protected_since(self) -> None:
        """An annotation that came in between is respected."""
        command = self.command(world(a_node_of(LARGE), pods=(pod_on("node-1"),)))
        found = checked(
            command, world(a_node_of(LARGE), pods=(pod_on("node-1", annotations={labels.DO_NOT_DISRUPT: "true"}),))
        )
        told = "pod default/on-node-1 has karpenter.sh/do-not-disrupt"
        assert found == Refusal(CommandReason.VALIDATION_FAILED, told)

    def test_budget_closed_since(self) -> None:
        """A window that closed in between is respected."""
        snapshot = world(a_node_of(SMALL))
        closed = (a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("0"),))),)
        assert isinstance(
            checked(self.command(snapshot), msgspec.structs.replace(snapshot, node_pools=closed)), Refusal
        )

    def test_pods_fit_on_running_nodes_since(self) -> None:
        """Giving the command up would put the saving off from look to look."""
        snapshot = world(a_node_of(LARGE), pods=(pod_on("node-1"),))
        command = self.command(snapshot)
        beside = world(a_node_of(LARGE), a_node_of(MIDDLE, "node-2"), pods=snapshot.pods)
        found = checked(command, beside)
        assert command.replacements
        assert isinstance(found, Command)
        assert (found.nodes, found.replacements, found.moves) == (
            ("node-1",),
            (),
            (Move("default/on-node-1", "node-2"),),
        )
        assert found.savings > command.savings

    def test_cheaper_type_ran_out_since(self) -> None:
        """A replacement that can no longer be had is not waited for."""
        snapshot = world(a_node_of(LARGE), pods=(pod_on("node-1"),))
        gone = a_snapshot(types=(LARGE,)).catalogue
        assert isinstance(checked(self.command(snapshot), msgspec.structs.replace(snapshot, catalogue=gone)), Refusal)

    def test_node_is_gone(self) -> None:
        """Somebody else was faster."""
        assert isinstance(checked(self.command(world(a_node_of(SMALL))), world()), Refusal)


def test_pods_of_a_shared_budget_go_one_node_at_a_time() -> None:
    """Two replicas that must not be down together are not evicted together."""
    guard = PodDisruptionBudget(namespace="default", name="web", selector=a_selector(app="web"), disruptions_allowed=1)
    pods = tuple(pod_on(node, labels={"app": "web"}) for node in ("a", "b"))
    plan = disrupt(world(a_node_of(LARGE, "a"), a_node_of(LARGE, "b"), pods=pods, budgets=(guard,)))
    assert [len(command.nodes) for command in plan.commands] == [1]
    assert set(blocked(plan).values()) == {NodeReason.POD_DISRUPTION_BUDGET}


def test_pending_pods_keep_the_node_that_they_need() -> None:
    """Deleting the node that a waiting pod is about to use would only launch it again."""
    plan = disrupt(world(a_node_of(SMALL), pods=(a_pod("waiting", cpu="500m", memory="64Mi"),)))
    assert plan.commands == ()
    assert blocked(plan) == {"node-1": NodeReason.NOMINATED}


class TestRoomForCapacityBuffers:
    """Nodes that virtual pods count on."""

    SPARE = CapacityBuffer(namespace="shop", name="spare", pods=2, spec=a_pod("x", cpu="400m", memory="64Mi").spec)
    OPTIONS = Options(feature_gates=FeatureGates(capacity_buffer=True))

    def test_an_empty_node_stays(self) -> None:
        """Its room would be bought again a minute later, and removed, and bought again."""
        plan = disrupt(world(a_node_of(SMALL), buffers=(self.SPARE,), options=self.OPTIONS))
        assert plan.commands == ()
        assert blocked(plan) == {"node-1": NodeReason.CAPACITY_BUFFER}

    def test_a_drifted_node_goes_all_the_same(self) -> None:
        """A buffer would keep old images for ever."""
        cluster = world(
            drifted(a_node_of(LARGE)), pods=(pod_on("node-1"),), buffers=(self.SPARE,), options=self.OPTIONS
        )
        (command,) = disrupt(cluster).commands
        assert command.reason == TerminationReason.DRIFTED
        assert command.replacements[0].buffer_pods

    def test_an_oversized_node_becomes_one_that_still_has_the_room(self) -> None:
        cluster = world(
            a_node_of(LARGE), pods=(pod_on("node-1", cpu="1"),), buffers=(self.SPARE,), options=self.OPTIONS
        )
        (command,) = disrupt(cluster).commands
        assert command.replacements[0].instance_types[0] == "t-4"
