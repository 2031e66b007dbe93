"""A command is validated again before it starts."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any, Final

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.consolidation import objection
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.stored import after_commands
from core.disruption.validation import Validation, ValidCommand, part_of, paying_part, remaining_nodes
from core.model.catalogue import Catalogue
from core.model.node_pool import BALANCED, Budget, Disruption
from core.model.plan import Command, Move, PlannedClaim
from core.model.pod import Pod, PodAffinityTerm, TopologySpread
from core.model.snapshot import NodeCondition, Options, Snapshot
from core.model.values.quantity import nanodollars
from core.reasons.code import Refusal
from core.reasons.nodes import BeingDeleted, PodNotToDisrupt, PodUnplaced, TargetBelowMoves
from core.reasons.runs import (
    PART_COSTS_MORE,
    PART_SAVES_TOO_LITTLE,
    SAVES_NOTHING,
    BudgetsAllowFewer,
    HealthyAgain,
    Invalid,
    LoneSpotNode,
    MoreNodesNeeded,
    NoCandidate,
    NoLongerDrifted,
    NoLongerEmpty,
    TypeUnsuited,
)
from tests.builders import CLASS_REF, NOW, ZONES, a_node_of, a_pool, a_selector, a_snapshot, a_type
from tests.unit.disruption.nodes_for_tests import (
    KARPENTER,
    LARGE,
    MIDDLE,
    ON_DEMAND,
    OPEN,
    SMALL,
    drifted,
    pod_on,
    world,
)
from tests.unit.disruption.nodes_for_tests import checked as validation_checked
from tests.unit.disruption.target.fleets_for_tests import sharing_a_budget

# A command goes on without those of its nodes that may no longer go.


GUARD = {"annotations": {labels.DO_NOT_DISRUPT: "true"}}


def rollout(nodes: int = 6, *, cpu: str = "1200m") -> tuple[Snapshot, Command]:
    """Drifted nodes with a pod each, and the command that replaces all of them by fewer."""
    pairs = [drifted(a_node_of(MIDDLE, f"n{n}")) for n in range(nodes)]
    snapshot = world(*pairs, pods=tuple(pod_on(f"n{n}", cpu=cpu) for n in range(nodes)))
    commands = disrupt(snapshot).commands
    merged = max(commands, key=lambda command: len(command.nodes))
    assert (merged.method, len(merged.nodes) > 1, bool(merged.replacements)) == ("drift", True, True)
    return snapshot, merged


def protected(snapshot: Snapshot, node: str) -> Snapshot:
    """The same cluster, with the pods of a node protected."""
    pods = (msgspec.structs.replace(p, **GUARD) if p.node_name == node else p for p in snapshot.pods)
    return msgspec.structs.replace(snapshot, pods=tuple(pods))


def checked(command: Command, snapshot: Snapshot) -> ValidCommand:
    """The command as it may go now."""
    checked_command = Validation([command], snapshot).check(command)
    assert isinstance(checked_command, ValidCommand)
    return checked_command


def is_consistent(command: Command, pods: tuple[Pod, ...]) -> None:
    """Every move is of a pod on a node that goes, to a node that stays or is launched; each new node takes a pod."""
    places = {pod.key: pod.node_name for pod in pods}
    new = {claim.name for claim in command.replacements}
    assert {places[move.pod] for move in command.moves} <= set(command.nodes)
    assert {move.pod for move in command.moves if move.to in new} == {p for c in command.replacements for p in c.pods}
    assert all(claim.pods for claim in command.replacements)
    assert set(command.awaits) <= set(command.nodes)
    assert {name for awaited in command.awaits.values() for name in awaited} <= new


def test_a_rollout_goes_on_without_a_node_whose_pod_became_protected() -> None:
    """One annotation on one pod held up all nodes of the command, which failed as a whole again and again."""
    snapshot, command = rollout()
    for node in command.nodes:
        now = protected(snapshot, node)
        valid = checked(command, now)
        assert valid.command.nodes == tuple(name for name in command.nodes if name != node)
        assert valid.left_out == {node: PodNotToDisrupt(f"default/on-{node}")}
        is_consistent(valid.command, now.pods)
        moved = sum(1200 for _ in valid.command.moves)
        assert sum(claim.resources["cpu"] for claim in valid.command.replacements) == moved


def test_a_new_node_for_pods_that_stay_is_not_launched() -> None:
    snapshot, command = rollout()
    (first, *_) = command.replacements
    users = {move.pod.removeprefix("default/on-") for move in command.moves if move.to == first.name}
    now = snapshot
    for node in sorted(users):
        now = protected(now, node)
    if users == set(command.nodes):
        assert isinstance(Validation([command], now).check(command), Refusal)
        return
    valid_part = checked(command, now).command
    assert first.name not in {claim.name for claim in valid_part.replacements}
    is_consistent(valid_part, now.pods)


def test_a_rollout_goes_on_within_a_budget_that_shrank() -> None:
    """Karpenter takes empty nodes until its budget is spent; the others of a command failed with it."""
    snapshot, command = rollout()
    two = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("2"),)))
    valid = checked(command, msgspec.structs.replace(snapshot, node_pools=(two,)))
    assert valid.command.nodes == command.nodes[:2]
    assert valid.left_out == dict.fromkeys(command.nodes[2:], BudgetsAllowFewer(2, len(command.nodes), "Drifted"))
    is_consistent(valid.command, snapshot.pods)


def test_a_node_whose_pod_finds_no_place_stays_alone() -> None:
    """A pod that came since fits no machine: only its own node waits."""
    snapshot, command = rollout()
    node = command.nodes[1]
    huge = pod_on(node, "huge", cpu="64")
    now = msgspec.structs.replace(snapshot, pods=(*snapshot.pods, huge))
    valid = checked(command, now)
    assert valid.left_out == {node: PodUnplaced("default/huge")}
    assert valid.command.nodes == (command.nodes[0], *command.nodes[2:])


def test_a_command_of_which_nothing_changed_is_the_same_object() -> None:
    snapshot, command = rollout()
    assert checked(command, snapshot) == ValidCommand(command)
    going = [c for c in DisruptionPass(snapshot).survey.candidates if c.name in command.nodes]
    assert part_of(command, going, snapshot) is command


def test_a_balanced_pool_asks_what_remains_for_its_saving_too() -> None:
    """The node that saves most stays: what the others save is little for the pods that they move."""
    nodes = (a_node_of(LARGE, "costly"), *(a_node_of(SMALL, f"s{n}") for n in range(2)), a_node_of(LARGE, "host"))
    pods = (
        pod_on("costly", cpu="100m"),
        *(pod_on(f"s{n}", f"p{n}-{i}", cpu="10m") for n in range(2) for i in range(9)),
        pod_on("host", cpu="100m", **GUARD),
    )
    balanced = a_pool("default", ON_DEMAND, disruption=Disruption(policy=BALANCED, budgets=(Budget("100%"),)))
    snapshot = world(*nodes, pods=pods, node_pools=(balanced,))
    fresh = DisruptionPass(snapshot)
    going = [c for c in fresh.survey.candidates if c.name in ("s0", "s1")]
    command = Command(
        reason="Underutilized",
        method="repack",
        nodes=("costly", "s0", "s1"),
        claims=("default-costly", "default-s0", "default-s1"),
    )
    part = part_of(command, going, snapshot)
    assert (part.nodes, part.savings) == (("s0", "s1"), sum(c.price for c in going))
    paying = paying_part(part, going, fresh)
    assert paying == Invalid(TargetBelowMoves("default"))


@pytest.mark.parametrize(
    ("nodes", "capacity_type", "price", "problem"),
    [
        ("a", labels.ON_DEMAND, 0.19, None),
        ("a", labels.ON_DEMAND, 0.1901, PART_SAVES_TOO_LITTLE),
        ("a", labels.ON_DEMAND, 0.2, PART_COSTS_MORE),
        ("ab", labels.ON_DEMAND, 0.38, None),
        ("ab", labels.ON_DEMAND, 0.381, PART_SAVES_TOO_LITTLE),
        ("a", labels.SPOT, 0.01, LoneSpotNode("a")),
        ("ab", labels.SPOT, 0.01, None),
    ],
)
def test_what_remains_pays_for_its_new_node_with_a_twentieth_left(
    nodes: str, capacity_type: str, price: float, problem: Refusal | None
) -> None:
    """A lone spot node has rules of its own, for the number of types that it may become."""
    new = a_type("new", cpu="8", price=price, capacity_types=(labels.ON_DEMAND,))
    pairs = [a_node_of(MIDDLE, name, capacity_type=capacity_type) for name in nodes]
    pods = tuple(pod_on(name, cpu="3") for name in nodes)
    pools = (a_pool("default", disruption=Disruption(budgets=(Budget("100%"),))),)
    snapshot = msgspec.structs.replace(world(*pairs, pods=pods, node_pools=pools), catalogue=Catalogue((MIDDLE, new)))
    fresh = DisruptionPass(snapshot)
    keys = tuple(pod.key for pod in pods)
    claim = PlannedClaim(
        name="x",
        node_pool="default",
        node_class=CLASS_REF,
        instance_types=("new",),
        zones=ZONES,
        capacity_types=(labels.ON_DEMAND,),
        pods=keys,
        price=nanodollars(price),
    )
    claims, moves = tuple(f"default-{name}" for name in nodes), tuple(Move(key, "x") for key in keys)
    command = Command(
        reason="Underutilized", method="repack", nodes=(*nodes,), claims=claims, replacements=(claim,), moves=moves
    )
    paying = paying_part(command, fresh.survey.candidates, fresh)
    if problem:
        assert paying == problem
        return
    assert isinstance(paying, Command)
    savings = sum(candidate.price for candidate in fresh.survey.candidates) - claim.price
    assert (paying.nodes, paying.moves, paying.savings) == (command.nodes, moves, savings)
    assert [(replacement.name, replacement.instance_types) for replacement in paying.replacements] == [("x", ("new",))]


# Which nodes of a stored command may still go, and why the others stay.


NAMES = ("a", "b", "c")
DRIFT = Command(reason="Drifted", method="drift", nodes=NAMES, claims=tuple(f"default-{name}" for name in NAMES))


def fleet(budget: str = "100%", **annotations: dict[str, str]) -> Snapshot:
    """Three drifted nodes with a pod each; the pod of a named node has these annotations."""
    pods = tuple(pod_on(name, annotations=annotations.get(name, {})) for name in NAMES)
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget(budget),)))
    return world(*(drifted(a_node_of(MIDDLE, name)) for name in NAMES), pods=pods, node_pools=(pool,))


def asked(snapshot: Snapshot) -> tuple[list[str], dict[str, Refusal]]:
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
            "a": PodNotToDisrupt("default/on-a"),
            "b": NoLongerDrifted("b"),
            "c": NoCandidate("default-c", None),
        },
    )


def test_budgets_let_the_first_nodes_go_and_are_not_asked_where_they_are_ignored() -> None:
    fewer = BudgetsAllowFewer(1, 3, "Drifted")
    assert asked(fleet("1")) == (["a"], {"b": fewer, "c": fewer})
    ignoring = msgspec.structs.replace(fleet("0"), options=Options(ignore_budgets=True))
    assert asked(ignoring) == (list(NAMES), {})


ILL = NodeCondition("Ready", "False", NOW - timedelta(hours=1))
OF_ONE = {"nodes": ("a",), "claims": ("default-a",)}


@pytest.mark.parametrize(
    ("reason", "pods", "is_ill", "after", "budget", "why"),
    [
        ("Empty", 0, False, timedelta(0), "100%", None),
        ("Empty", 1, False, timedelta(0), "100%", NoLongerEmpty("a")),
        ("Underutilized", 1, False, timedelta(0), "100%", None),
        ("Underutilized", 1, False, timedelta(0), "0", BudgetsAllowFewer(0, 1, "Underutilized")),
        ("Unhealthy", 1, True, None, "100%", None),
        ("Unhealthy", 1, False, timedelta(0), "100%", HealthyAgain("a")),
        ("Unhealthy", 1, True, timedelta(0), "0", BudgetsAllowFewer(0, 1, "Unhealthy")),
    ],
)
def test_a_node_goes_for_the_reason_of_its_command_or_stays(
    reason: str, pods: int, is_ill: bool, after: timedelta | None, budget: str, why: Refusal | None
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
        assert remaining_nodes(Command(reason=reason, method="any", **OF_ONE), fresh) == ([], {"a": rule})


def test_a_node_that_cannot_be_a_candidate_says_why() -> None:
    """Another command removes it already."""
    fresh = DisruptionPass(world(a_node_of(MIDDLE, "a"), marked_for_deletion=("default-a",)))
    told = NoCandidate("default-a", BeingDeleted("a"))
    assert remaining_nodes(Command(reason="Empty", method="any", **OF_ONE), fresh) == ([], {"a": told})


HALF_AN_HOUR: Final = timedelta(minutes=30)


class TestValidation:
    """The world may have changed since the command was decided."""

    def command(self, snapshot: Snapshot) -> Command:
        """The one command."""
        (command,) = disrupt(snapshot).commands
        return command

    def test_holds_in_the_same_world_and_under_its_own_marks(self) -> None:
        """Nothing changed; the marks on its own claims do not count."""
        snapshot = world(a_node_of(LARGE), pods=(pod_on("node-1"),))
        command = self.command(snapshot)
        assert validation_checked(command, snapshot) == command
        assert (
            validation_checked(command, msgspec.structs.replace(snapshot, marked_for_deletion=command.claims))
            == command
        )

    def test_one_of_several_nodes_got_a_pod_that_stays(self) -> None:
        """The others go nevertheless: in a consolidating fleet, some node always gets a pod."""
        nodes = tuple(a_node_of(MIDDLE, f"node-{n}") for n in range(4))
        pods = tuple(pod_on(f"node-{n}", cpu="100m") for n in range(4))
        command = self.command(world(*nodes, pods=pods, options=KARPENTER))
        guard = pod_on("node-1", "guard", cpu="1m", annotations={labels.DO_NOT_DISRUPT: "true"})
        outcome = validation_checked(command, world(*nodes, pods=(*pods, guard), options=KARPENTER))
        assert isinstance(outcome, Command)
        assert (command.method, len(command.nodes)) == ("multi", 4)
        assert (outcome.nodes, outcome.replacements) == (("node-0", "node-2", "node-3"), ())
        assert {move.to for move in outcome.moves} == {"node-1"}

    def test_nodes_of_a_target_that_share_a_budget_go_together_for_a_new_node(self) -> None:
        """The budget lets one of their pods go at a time: the drain of their command takes turns."""
        snapshot = sharing_a_budget(4)
        command = self.command(snapshot)
        assert (command.method, len(command.nodes), len(command.replacements)) == ("repack", 4, 1)
        assert validation_checked(command, snapshot) == command

    def test_nodes_of_a_target_without_launches_go_without_the_one_that_may_not(self) -> None:
        nodes = tuple(a_node_of(MIDDLE, f"node-{n}") for n in range(4))
        pods = tuple(pod_on(f"node-{n}", cpu="900m") for n in range(4))
        command = self.command(world(*nodes, pods=pods))
        assert (command.method, len(command.nodes), command.replacements) == ("repack", 3, ())
        guard = pod_on(command.nodes[0], "guard", cpu="1m", annotations={labels.DO_NOT_DISRUPT: "true"})
        outcome = validation_checked(command, world(*nodes, pods=(*pods, guard)))
        assert isinstance(outcome, Command)
        assert outcome.nodes == command.nodes[1:]
        assert outcome.moves == tuple(m for m in command.moves if m.pod != f"default/on-{command.nodes[0]}")

    def test_what_remains_of_a_target_with_launches_goes_if_it_pays(self) -> None:
        """The new node was meant for the pods of two; for those of one, it still costs a quarter of what goes."""
        nodes = (a_node_of(LARGE, "a"), a_node_of(LARGE, "b"))
        pods = (pod_on("a", cpu="1500m"), pod_on("b", cpu="1500m"))
        command = self.command(world(*nodes, pods=pods))
        assert (command.method, set(command.nodes)) == ("repack", {"a", "b"})
        full = pod_on("b", "guard", cpu="14", annotations={labels.DO_NOT_DISRUPT: "true"})
        outcome = validation_checked(command, world(*nodes, pods=(*pods, full)))
        assert isinstance(outcome, Command)
        (planned,), (claim,) = command.replacements, outcome.replacements
        assert (outcome.nodes, [move.pod for move in outcome.moves]) == (("a",), ["default/on-a"])
        assert (claim.name, claim.pods) == (planned.name, ("default/on-a",))
        assert planned.resources["cpu"] - claim.resources["cpu"] == 1500
        assert outcome.savings == command.savings - 800_000_000, "node b stays and is paid for"

    def test_pods_now_fit_on_running_nodes(self) -> None:
        """Dropping the command would delay the saving again and again."""
        snapshot = world(a_node_of(LARGE), pods=(pod_on("node-1"),))
        command = self.command(snapshot)
        beside = world(a_node_of(LARGE), a_node_of(MIDDLE, "node-2"), pods=snapshot.pods)
        outcome = validation_checked(command, beside)
        assert command.replacements
        assert isinstance(outcome, Command)
        assert (outcome.nodes, outcome.replacements, outcome.moves) == (
            ("node-1",),
            (),
            (Move("default/on-node-1", "node-2"),),
        )
        assert outcome.savings > command.savings

    def test_a_target_that_goes_on_keeps_its_new_nodes(self) -> None:
        """There is always room on nodes that go in later waves: pods went there, moved again, and the target was lost."""
        pool = a_pool("default", disruption=Disruption(budgets=(Budget("1"),)))
        pods = (pod_on("a", cpu="250m"), pod_on("b", cpu="250m"))
        snapshot = world(a_node_of(SMALL, "a"), a_node_of(SMALL, "b"), pods=pods, node_pools=(pool,))
        plan = disrupt(snapshot)
        assert plan.target is not None
        (command,) = plan.commands
        rest = after_commands(plan.target, plan.commands, pods, {})
        assert rest is not None
        assert [drain.node for drain in rest.drains] == [{"a": "b", "b": "a"}[command.nodes[0]]]
        stored = msgspec.structs.replace(snapshot, stored_target=rest)
        assert command.replacements
        assert validation_checked(command, stored) == command
        gone = msgspec.structs.replace(stored, pods=tuple(pod for pod in pods if pod.node_name != command.nodes[0]))
        outcome = validation_checked(command, gone)
        assert isinstance(outcome, Command)
        assert (outcome.nodes, outcome.replacements, outcome.moves) == (command.nodes, (), ())
        assert outcome.savings == command.savings + sum(claim.price for claim in command.replacements)
        more = tuple(pod_on(command.nodes[0], f"more-{n}", cpu="900m") for n in range(3))
        assert validation_checked(command, msgspec.structs.replace(stored, pods=(*pods, *more))) == SAVES_NOTHING

    def test_a_command_keeps_its_new_node_while_another_of_its_target_needs_the_room_beside(self) -> None:
        """Its pod took the room on c that a drifted node's pod was to get, which then had no place."""
        kept = a_node_of(MIDDLE, "c", annotations={labels.DO_NOT_DISRUPT: "true"})
        pods = (pod_on("a", cpu="900m"), pod_on("b", cpu="3500m"))
        snapshot = world(a_node_of(LARGE, "a"), drifted(a_node_of(MIDDLE, "b")), kept, pods=pods)
        plan = disrupt(snapshot)
        second, first = plan.commands
        assert plan.target is not None
        assert after_commands(plan.target, plan.commands, pods, {}) is None, "no later wave"
        assert first.replacements
        assert second.moves == (Move("default/on-b", "c"),)
        validation = Validation((first, second), snapshot)
        assert validation.check(first) == ValidCommand(first)
        validation.carry_out(first)
        assert validation.check(second) == ValidCommand(second)

    @pytest.mark.parametrize(("crowd", "holds"), [(0, True), (2, False)])
    def test_a_new_node_is_in_a_zone_that_admits_its_pod(self, crowd: int, *, holds: bool) -> None:
        """A new node in another zone would do, but none is launched there: the pod stayed pending beside its own."""
        web = {"labels": {"app": "web"}, "cpu": "3"}
        even = TopologySpread(labels.ZONE, 1, selector=a_selector(app="web"))
        pods = (pod_on("a", spreads=(even,), **web),)
        command = self.command(world(a_node_of(LARGE, "a"), pods=pods))
        (claim,) = command.replacements
        assert (command.method, claim.zones) == ("repack", (ZONES[0],))
        names = [f"since-{n}" for n in range(crowd)]
        since = (pod_on("b", cpu="3"), *(pod_on(name, **web) for name in names))
        full = (a_node_of(MIDDLE, "b", zone=ZONES[1]), *(a_node_of(MIDDLE, name) for name in names))
        outcome = validation_checked(command, world(a_node_of(LARGE, "a"), *full, pods=(*pods, *since)))
        if holds:
            assert outcome == command
        else:
            assert isinstance(outcome, Refusal)
            assert "default/on-a" in outcome.message

    def test_a_pod_would_meet_one_that_it_avoids(self) -> None:
        """A target of a large fleet that breaks such rules already may send it there before the other has gone."""
        apart = PodAffinityTerm(labels.HOSTNAME, a_selector(app="web"))
        nodes = (a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"))
        other = pod_on("b", labels={"app": "web"}, cpu="1")
        pods = (pod_on("a", cpu="1", anti_affinity=(apart,)),)
        full = (a_pool("default", ON_DEMAND, disruption=OPEN, limits={"nodes": 1}),)
        command = going_from("a", "b")
        there = validation_checked(command, world(*nodes, pods=(*pods, other), node_pools=full))
        assert isinstance(there, Refusal)
        assert "default/on-a would find no place" in there.message
        assert validation_checked(command, world(*nodes, pods=pods, node_pools=full)) == command

    def test_a_cheaper_type_ran_out(self) -> None:
        """A replacement that is no longer available is not waited for."""
        snapshot = world(a_node_of(LARGE), pods=(pod_on("node-1"),))
        gone = a_snapshot(types=(LARGE,)).catalogue
        assert isinstance(
            validation_checked(self.command(snapshot), msgspec.structs.replace(snapshot, catalogue=gone)), Refusal
        )

    def test_a_cheaper_type_became_too_small(self) -> None:
        """A pod that came since fits only the larger types of the replacement: EC2 may launch the one that is too small."""
        node = a_node_of(LARGE)
        snapshot = world(node, pods=(pod_on("node-1"),), options=KARPENTER)
        command = self.command(snapshot)
        assert command.replacements[0].instance_types[:2] == ("t-1", "t-4")
        outcome = validation_checked(
            command, world(node, pods=(*snapshot.pods, pod_on("node-1", "late")), options=KARPENTER)
        )
        assert isinstance(outcome, Command)
        outcome = validation_checked(
            command, world(node, pods=(*snapshot.pods, pod_on("node-1", "big", cpu="3")), options=KARPENTER)
        )
        assert outcome == TypeUnsuited("t-1", command.replacements[0].name)

    def test_its_pods_find_no_place(self) -> None:
        """Nobody launches beyond the limits that the NodePool has got since."""
        node, pods = a_node_of(LARGE), (pod_on("node-1"),)
        command = self.command(world(node, pods=pods, options=KARPENTER))
        full = (a_pool("default", ON_DEMAND, disruption=OPEN, limits={"cpu": 0}),)
        outcome = validation_checked(command, world(node, pods=pods, node_pools=full, options=KARPENTER))
        assert isinstance(outcome, Refusal)
        assert outcome.message.startswith(
            "pod default/on-node-1 would find no place: NodePool default: its limits leave"
        )

    def test_its_pods_need_one_more_node(self) -> None:
        """That costs more than was decided, and nobody compared it with what is saved."""
        node = a_node_of(LARGE)
        command = self.command(world(node, pods=(pod_on("node-1"),), options=KARPENTER))
        late = pod_on("node-1", "late", cpu="16")
        outcome = validation_checked(command, world(node, pods=(pod_on("node-1"), late), options=KARPENTER))
        assert outcome == MoreNodesNeeded(2, 1)

    def test_the_rest_of_several_nodes_needs_a_new_one(self) -> None:
        """Two nodes go without any launch; alone, one would be replaced: that is another decision, for another pass."""
        nodes = (a_node_of(LARGE, "a"), a_node_of(LARGE, "b"), a_node_of(SMALL, "c"))
        guard = {"annotations": {labels.DO_NOT_DISRUPT: "true"}}
        pods = (pod_on("a", cpu="100m"), pod_on("b", cpu="100m"), pod_on("c", cpu="100m", **guard))
        command = self.command(world(*nodes, pods=pods, options=KARPENTER))
        assert (command.method, set(command.nodes), command.replacements) == ("multi", {"a", "b"}, ())
        since = (pod_on("a", "guard", cpu="15900m", **guard), pod_on("c", "filler", cpu="900m"))
        outcome = validation_checked(command, world(*nodes, pods=(*pods, *since), options=KARPENTER))
        assert outcome == MoreNodesNeeded(1, 0)


class TestSeveral:
    """Due commands are checked one after the other, each in the world that those before it leave."""

    def drifted_pair(self, **changes: Any) -> tuple[Snapshot, list[Command]]:
        """Two drifted nodes with a pod each, and the command for each that Karpenter's rules find."""
        nodes = [drifted(a_node_of(MIDDLE, name)) for name in ("a", "b")]
        snapshot = world(*nodes, pods=(pod_on("a", cpu="3"), pod_on("b", cpu="3")), **changes)
        commands = [
            Command(
                reason="Drifted",
                method="drift",
                nodes=(name,),
                claims=(f"default-{name}",),
                moves=(Move(f"default/on-{name}", to),),
            )
            for name, to in (("a", "x"), ("b", "y"))
        ]
        return snapshot, commands

    def test_drift_of_nodes_that_have_nothing_in_common_is_checked_in_one_world(self) -> None:
        snapshot, (first, second) = self.drifted_pair()
        validation = Validation([first, second], snapshot)
        assert validation.check(first) == ValidCommand(first)
        validation.carry_out(first)
        assert validation.check(second) == ValidCommand(second)

    def test_drift_of_a_node_that_pods_of_the_first_go_to_is_checked_in_the_world_after_it(self) -> None:
        """Its own pod has a place, but not those that have just come: they would have none."""
        nodes = [drifted(a_node_of(MIDDLE, "a")), drifted(a_node_of(MIDDLE, "b")), a_node_of(MIDDLE, "c")]
        pods = (pod_on("a", cpu="3"), pod_on("b", cpu="500m"), pod_on("c", cpu="3"))
        no_more = a_pool("default", ON_DEMAND, disruption=OPEN, limits={"nodes": 1})
        snapshot = world(*nodes, pods=pods, node_pools=(no_more,))
        first, second = (
            Command(
                reason="Drifted",
                method="drift",
                nodes=(name,),
                claims=(f"default-{name}",),
                moves=(Move(f"default/on-{name}", to),),
            )
            for name, to in (("a", "b"), ("b", "c"))
        )
        assert validation_checked(second, snapshot) == second
        validation = Validation([first, second], snapshot)
        assert validation.check(first) == ValidCommand(first)
        validation.carry_out(first)
        assert isinstance(validation.check(second), Refusal)

    @pytest.mark.parametrize("method", ["drift", "repack"])
    def test_a_node_that_an_earlier_drift_removes_has_no_room_for_the_pods_of_a_later_one(self, method: str) -> None:
        """Both are checked in one world, in which the first node still runs."""
        nodes = [drifted(a_node_of(MIDDLE, "a")), drifted(a_node_of(MIDDLE, "b")), a_node_of(MIDDLE, "c")]
        pods = (pod_on("a", cpu="100m"), pod_on("b", cpu="3"), pod_on("c", cpu="3"))
        no_more = a_pool("default", ON_DEMAND, disruption=OPEN, limits={"nodes": 1})
        snapshot = world(*nodes, pods=pods, node_pools=(no_more,))
        first, second = (
            Command(
                reason="Drifted",
                method=method,
                nodes=(name,),
                claims=(f"default-{name}",),
                moves=(Move(f"default/on-{name}", to),),
            )
            for name, to in (("a", "c"), ("b", "a"))
        )
        apart = msgspec.structs.replace(second, moves=())
        validation = Validation([first, apart], snapshot)
        assert validation.check(first) == ValidCommand(first)
        validation.carry_out(first)
        assert isinstance(validation.check(apart), Refusal)

    def test_budgets_count_what_was_carried_out_before(self) -> None:
        one_at_a_time = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)))
        snapshot, (first, second) = self.drifted_pair(node_pools=(one_at_a_time,))
        validation = Validation([first, second], snapshot)
        assert validation.check(first) == ValidCommand(first)
        assert validation.check(second) == ValidCommand(second), "neither goes yet"
        validation.carry_out(first)
        assert validation.check(second) == Invalid(BudgetsAllowFewer(0, 1, "Drifted"))

    def test_room_that_pods_of_an_earlier_command_take_is_taken(self) -> None:
        """One of two half-full nodes fits on the third: the other stays."""
        nodes = [a_node_of(MIDDLE, name) for name in "abc"]
        pods = (*(pod_on(name, cpu="1500m") for name in "ab"), pod_on("c", cpu="1500m"))
        snapshot = world(*nodes, pods=pods, options=KARPENTER)
        first, second = (
            Command(
                reason="Underutilized",
                method="single",
                nodes=(name,),
                claims=(f"default-{name}",),
                moves=(Move(f"default/on-{name}", "c"),),
            )
            for name in "ab"
        )
        assert validation_checked(second, snapshot) == second
        validation = Validation([first, second], snapshot)
        assert validation.check(first) == ValidCommand(first)
        validation.carry_out(first)
        assert isinstance(validation.check(second), Refusal)


def going_from(node: str, to: str, **changes: Any) -> Command:
    """A command that removes one node and moves its pod."""
    fields = {"reason": "Underutilized", "method": "single", "moves": (Move(f"default/on-{node}", to),), **changes}
    return Command(nodes=(node,), claims=(f"default-{node}",), **fields)


def test_the_new_node_of_a_command_offers_no_room_to_the_next_one() -> None:
    """Its launch may fail: the pods of the second node would have no place."""
    nodes = (a_node_of(LARGE, "a"), a_node_of(MIDDLE, "b"))
    snapshot = world(*nodes, pods=(pod_on("a", cpu="2"), pod_on("b", cpu="1500m")), options=KARPENTER)
    first = disrupt(world(nodes[0], pods=snapshot.pods[:1], options=KARPENTER)).commands[0]
    (claim,) = first.replacements
    assert claim.instance_types[0] == MIDDLE.name, "it has room for the other pod"
    second = going_from("b", claim.name)
    validation = Validation([first, second], snapshot)
    validation.carry_out(first)
    assert isinstance(validation.check(second), Refusal)


BUSY = a_pool(
    "default", ON_DEMAND, limits={"nodes": 2}, disruption=msgspec.structs.replace(OPEN, consolidate_after=HALF_AN_HOUR)
)
"""No further node may be launched, and a node whose pods have just changed takes no pod by choice."""


def beside_a_busy_node(*, drifts: bool = False, **changes: Any) -> Snapshot:
    claim, node = a_node_of(LARGE, "b")
    busy = (msgspec.structs.replace(claim, last_pod_event_at=NOW), node)
    idle_claim, idle_node = a_node_of(MIDDLE, "a", **changes)
    idle = (msgspec.structs.replace(idle_claim, last_pod_event_at=NOW - 2 * HALF_AN_HOUR), idle_node)
    return world(
        drifted(idle) if drifts else idle, busy, pods=(pod_on("a"), pod_on("b")), node_pools=(BUSY,), options=KARPENTER
    )


def test_pods_of_a_node_that_has_to_go_may_go_where_consolidation_sends_none() -> None:
    """A drifted or unhealthy node would wait for others that have nothing to do with it."""
    drift = going_from("a", "b", reason="Drifted", method="drift")
    assert validation_checked(drift, beside_a_busy_node(drifts=True)) == drift
    ill = NodeCondition("Ready", "Unknown", NOW - HALF_AN_HOUR)
    repair = going_from("a", "b", reason="Unhealthy", method="repair")
    assert validation_checked(repair, beside_a_busy_node(conditions=(ill,), is_ready=False)) == repair
    assert isinstance(validation_checked(going_from("a", "b"), beside_a_busy_node()), Refusal)


def test_what_remains_of_a_drifted_command_goes_whatever_its_new_node_costs() -> None:
    """It was not decided to save anything."""
    nodes = tuple(drifted(a_node_of(SMALL, name)) for name in "ab")
    where = {"zones": ZONES, "capacity_types": (labels.ON_DEMAND,), "instance_types": (LARGE.name,)}
    both, price = ("default/on-a", "default/on-b"), LARGE.offerings[0].price
    claim = PlannedClaim(name="new", node_pool="default", node_class=CLASS_REF, price=price, pods=both, **where)
    command = Command(
        reason="Drifted", method="repack", nodes=("a", "b"), claims=("default-a", "default-b"),
        replacements=(claim,), moves=tuple(Move(pod, "new") for pod in both),
    )  # fmt: skip
    guarded = pod_on("b", annotations={labels.DO_NOT_DISRUPT: "true"})
    outcome = validation_checked(command, world(*nodes, pods=(pod_on("a"), guarded)))
    assert isinstance(outcome, Command)
    assert (outcome.nodes, outcome.moves) == (("a",), (Move("default/on-a", "new"),))
    assert [replacement.name for replacement in outcome.replacements] == ["new"]


def test_a_check_needs_no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by real parts: `execute` checks commands, and its bundle has neither numpy nor the solver."""
    for module in ("numpy", "highspy", "core.scheduling.fleet_rows", "core.scheduling.optimization.repacker"):
        monkeypatch.setitem(sys.modules, module, None)
    command = Command(
        reason="Underutilized", method="repack", nodes=("a",), claims=("default-a",), moves=(Move("default/on-a", "c"),)
    )
    nodes = (a_node_of(MIDDLE, "a"), a_node_of(LARGE, "c"))
    outcome = validation_checked(command, world(*nodes, pods=(pod_on("a"), pod_on("c"))))
    assert isinstance(outcome, Command)
    assert outcome.moves == command.moves


def test_one_node_that_is_left_of_several_goes_by_the_method_for_one() -> None:
    """Karpenter's rules for several nodes at once are others than those for one."""
    nodes = (a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), a_node_of(LARGE, "c"))
    guard = {"annotations": {labels.DO_NOT_DISRUPT: "true"}}
    pods = (pod_on("a", cpu="100m"), pod_on("b", cpu="100m"), pod_on("c", cpu="14", **guard))
    (command,) = disrupt(world(*nodes, pods=pods, options=KARPENTER)).commands
    assert (command.method, set(command.nodes)) == ("multi", {"a", "b"})
    outcome = validation_checked(
        command, world(*nodes, pods=(*pods, pod_on("b", "guard", cpu="1m", **guard)), options=KARPENTER)
    )
    assert isinstance(outcome, Command)
    assert (outcome.method, outcome.nodes) == ("single", ("a",))
