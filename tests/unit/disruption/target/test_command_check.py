"""A target may be valid as a whole while one of its commands is not valid alone."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.command_check import approved_commands, valid_commands
from core.disruption.target.target_refusals import NO_SAVING, SLOT_CHANGED, SLOT_DENIED, WaveObjection
from core.model.node_pool import BALANCED, Budget, Disruption
from core.model.plan import Command, Move, PlannedClaim
from core.model.pod import NodeSelectorTerm, PodAffinityTerm, PreferredTerm, TopologySpread
from core.model.values.requirements import Requirement
from core.reasons.node import NodeReason
from tests.builders import CLASS_REF, ZONES, a_node_of, a_pool, a_selector
from tests.unit.disruption.nodes_for_tests import MIDDLE, ON_DEMAND, OPEN, drifted, pod_on, world

HOUR = timedelta(hours=1)


def deleting(node: str, to: str) -> Command:
    """Delete one node and move its pod to another."""
    return Command(reason="Underutilized", method="repack", nodes=(node,), claims=(f"default-{node}",),
                   moves=(Move(f"default/on-{node}", to),), savings=2 * 10**8)  # fmt: skip


def kept(commands: list[Command], this_pass: DisruptionPass, worthwhile: int = 20) -> list[Command]:
    """The commands that hold."""
    return valid_commands(commands, this_pass, worthwhile=worthwhile)[0]


def test_a_second_command_is_invalid_if_the_first_took_its_room() -> None:
    nodes = [a_node_of(MIDDLE, name) for name in "abc"]
    this_pass = DisruptionPass(world(*nodes, pods=tuple(pod_on(name, cpu="1500m") for name in "abc")))
    first, second = deleting("a", "c"), deleting("b", "c")
    found, objections = valid_commands([first, second], this_pass, worthwhile=20)
    assert found == [first]
    assert objections["b"].reason == NodeReason.NO_CHEAPER_OPTION


@pytest.mark.parametrize("prefers", [False, True])
def test_a_pod_has_its_slot_after_those_of_earlier_commands_moved(prefers: bool) -> None:
    """The second pod's spread counts the first, which has none: that order is none that kube-scheduler can keep to."""
    even = TopologySpread(labels.HOSTNAME, 1, selector=a_selector(app="web"))
    nearby = PreferredTerm(1, NodeSelectorTerm((Requirement.one_of(labels.HOSTNAME, "d"),)))
    spec = {"spreads": (even,), "preferred_terms": (nearby,) if prefers else ()}
    pods = (pod_on("a", labels={"app": "web"}), pod_on("b", labels={"app": "web"}, **spec), pod_on("c"), pod_on("d"))
    this_pass = DisruptionPass(world(*(a_node_of(MIDDLE, name) for name in "abcd"), pods=pods))
    counted, spread = deleting("a", "c"), deleting("b", "c")
    assert kept([spread, counted], this_pass) == [spread, counted]
    found, objections = valid_commands([counted, spread], this_pass, worthwhile=20)
    assert (found, objections) == ([counted], {"b": SLOT_DENIED})


@pytest.mark.parametrize("is_new", [False, True])
def test_a_pod_does_not_come_before_the_pods_that_it_must_be_near(is_new: bool) -> None:
    """A new node was launched by the command of a pod that may run there only beside a pod of a later command."""
    near = PodAffinityTerm(labels.HOSTNAME, a_selector(app="web"))
    pods = (
        pod_on("a", labels={"app": "web"}),
        pod_on("b", affinity=(near,)),
        pod_on("c"),
        pod_on("d", labels={"app": "web"}),
    )
    this_pass = DisruptionPass(world(*(a_node_of(MIDDLE, name) for name in "abcd"), pods=pods))
    place = "new" if is_new else "c"

    def moving(node: str, *, opens: bool) -> Command:
        return replacing(node, "new", price=10**8, saves=10**8) if opens and is_new else deleting(node, place)

    company, follower = moving("a", opens=True), moving("b", opens=False)
    assert kept([company, follower], this_pass) == [company, follower]
    early = moving("b", opens=True)
    assert valid_commands([early], this_pass, worthwhile=20) == ([], {"b": SLOT_DENIED})
    assert kept([deleting("b", "d")], this_pass) == [deleting("b", "d")], "it is there already"


@pytest.mark.parametrize(("others", "holds"), [((), True), (("d",), False)])
def test_the_first_pods_that_must_be_near_each_other_go_together(others: tuple[str, ...], holds: bool) -> None:
    """Kubernetes lets the first of them run anywhere, and no other."""
    web = {"app": "web"}
    near = PodAffinityTerm(labels.HOSTNAME, a_selector(**web))
    pods = (
        *(pod_on("a", f"pod-{number}", labels=web, affinity=(near,)) for number in range(2)),
        pod_on("c"),
        *(pod_on(name, labels=web) for name in others),
    )
    this_pass = DisruptionPass(world(*(a_node_of(MIDDLE, name) for name in ("a", "c", *others)), pods=pods))
    moves = tuple(Move(pod.key, "c") for pod in pods[:2])
    command = msgspec.structs.replace(deleting("a", "c"), moves=moves)
    assert (kept([command], this_pass) == [command]) is holds


def test_a_node_that_is_no_candidate_does_not_go() -> None:
    this_pass = DisruptionPass(world(a_node_of(MIDDLE, "a"), pods=(pod_on("a"),)))
    assert kept([deleting("gone", "a")], this_pass) == []


def replacing(node: str, new: str, *, price: int, saves: int) -> Command:
    """Replace a node by a new one of its own type."""
    where = {"zones": ZONES, "capacity_types": (labels.ON_DEMAND,), "instance_types": ("t-4",)}
    claim = PlannedClaim(name=new, node_pool="default", node_class=CLASS_REF, price=price, **where)
    return msgspec.structs.replace(deleting(node, new), replacements=(claim,), savings=saves)


def test_a_replacement_by_choice_saves_one_part_in_so_many() -> None:
    """What has to go is replaced whatever that costs."""
    this_pass = DisruptionPass(world(a_node_of(MIDDLE, "a"), pods=(pod_on("a", cpu="3"),)))
    price = 2 * 10**8
    enough, little = (replacing("a", "new", price=price - saves, saves=saves) for saves in (10**7, 10**7 - 1))
    assert kept([enough], this_pass) == [enough]
    assert kept([little], this_pass) == []
    assert kept([little], this_pass, worthwhile=19) == []
    assert kept([little], this_pass, worthwhile=21) == [little]
    drifts = msgspec.structs.replace(little, reason="Drifted", method="drift", savings=-1)
    assert kept([drifts], this_pass) == [drifts]


def test_what_needs_the_new_node_of_a_command_that_does_not_hold_does_not_hold_either() -> None:
    nodes = [a_node_of(MIDDLE, name) for name in "abc"]
    pods = (pod_on("a", cpu="1500m"), pod_on("b", cpu="1500m"), pod_on("c", cpu="3"))
    this_pass = DisruptionPass(world(*nodes, pods=pods))
    bad = replacing("a", "new", price=2 * 10**8, saves=0)
    needs = deleting("b", "new")
    found, objections = valid_commands([bad, needs], this_pass, worthwhile=20)
    assert (found, set(objections)) == ([], {"a", "b"})
    assert objections["a"] == objections["b"], "the second does not go for the reason of the first"
    assert kept([deleting("b", "a")], this_pass) == [deleting("b", "a")]


@pytest.mark.parametrize(("zone", "holds"), [(ZONES[0], False), (ZONES[1], True)])
def test_a_new_node_is_where_its_pods_may_go(zone: str, holds: bool) -> None:
    """Another new node in another zone would do, but the command does not launch that one: the pod stayed pending."""
    even = TopologySpread(labels.ZONE, 1, selector=a_selector(app="web"))
    crowded, other = (pod_on(name, labels={"app": "web"}) for name in "bc")
    pods = (pod_on("a", cpu="3", labels={"app": "web"}, spreads=(even,)), crowded, other)
    this_pass = DisruptionPass(world(*(a_node_of(MIDDLE, name) for name in "abc"), pods=pods))
    command = msgspec.structs.replace(replacing("a", "new", price=10**8, saves=10**8), reason="Drifted", method="drift")
    (claim,) = command.replacements
    new = msgspec.structs.replace(claim, zones=(zone,), pods=("default/on-a",))
    command = msgspec.structs.replace(command, replacements=(new,))
    found, objections = valid_commands([command], this_pass, worthwhile=20)
    assert (found == [command], [one.reason for one in objections.values()]) == (
        holds,
        [] if holds else [NodeReason.PODS_UNSCHEDULABLE],
    )


@pytest.mark.parametrize(("rests", "reason"), [(timedelta(0), "Drifted"), (HOUR, "Drifted"), (HOUR, "Underutilized")])
def test_consolidation_moves_no_pods_to_a_node_that_drift_launches_and_that_rests(
    rests: timedelta, reason: str
) -> None:
    """Both share a new node. Its consolidateAfter begins once it is there; another one would do, and passed the check."""
    pools = (a_pool("default", ON_DEMAND, disruption=msgspec.structs.replace(OPEN, consolidate_after=rests)),)
    nodes = (drifted(a_node_of(MIDDLE, "a")), drifted(a_node_of(MIDDLE, "b")))
    pods = (pod_on("a", cpu="1"), pod_on("b", cpu="1"), pod_on("b", "more", cpu="1"))
    this_pass = DisruptionPass(world(*nodes, pods=pods, node_pools=pools))
    first = msgspec.structs.replace(replacing("a", "new", price=10**8, saves=10**8), reason="Drifted", method="drift")
    second = replacing("b", "own", price=10**8, saves=10**8)
    second = msgspec.structs.replace(
        second, moves=(Move("default/more", "own"), Move("default/on-b", "new")), reason=reason
    )
    found, objections = valid_commands([first, second], this_pass, worthwhile=20)
    if rests and reason == "Underutilized":
        assert (found, objections) == ([first], {"b": SLOT_CHANGED})
    else:
        assert (found, objections) == ([first, second], {})


def test_a_deletion_holds_however_little_it_saves_and_launches_nothing() -> None:
    """Nothing is started for it; a pod that would need a new node after all makes it another decision."""
    nodes = [a_node_of(MIDDLE, name) for name in "ab"]
    little = msgspec.structs.replace(deleting("a", "b"), savings=1)
    half_empty = DisruptionPass(world(*nodes, pods=(pod_on("a"), pod_on("b"))))
    assert kept([little], half_empty) == [little]
    full = DisruptionPass(world(*nodes, pods=(pod_on("a"), pod_on("b", cpu="4"))))
    assert valid_commands([little], full, worthwhile=20) == ([], {"a": NO_SAVING})
    held = (a_pool("default", ON_DEMAND, disruption=OPEN, limits={"cpu": 0}),)
    stuck = DisruptionPass(world(*nodes, pods=(pod_on("a"), pod_on("b", cpu="4")), node_pools=held))
    (objection,) = valid_commands([little], stuck, worthwhile=20)[1].values()
    assert objection.reason == NodeReason.PODS_UNSCHEDULABLE
    assert "pod default/on-a would find no place" in objection.message


BALANCED_POOL = a_pool("default", ON_DEMAND, disruption=Disruption(policy=BALANCED, budgets=(Budget("100%"),)))
TOLD = "the policy Balanced of NodePool default asks for more saving per moved pod"


def test_the_policy_balanced_approves_each_command_by_choice_and_what_needs_a_refused_one_stays() -> None:
    """In a large fleet nothing else is asked of a command, and without such a NodePool not even that."""
    nodes = [a_node_of(MIDDLE, name) for name in "abc"]
    pods = tuple(pod_on(name) for name in "abc")
    balanced = DisruptionPass(world(*nodes, pods=pods, node_pools=(BALANCED_POOL,)))
    whole, little = deleting("a", "c"), replacing("b", "new", price=2 * 10**8 - 1, saves=1)
    late = msgspec.structs.replace(deleting("c", "new"), reason="Drifted")
    objection = WaveObjection(NodeReason.BALANCED, TOLD)
    assert approved_commands([whole, little, late], balanced) == ([whole], {"b": objection, "c": objection})
    assert approved_commands([late], balanced) == ([late], {}), "it must go"
    assert valid_commands([msgspec.structs.replace(whole, savings=1)], balanced, worthwhile=20)[1] == {"a": objection}
    other = DisruptionPass(world(*nodes, pods=pods))
    assert approved_commands([whole, little, late], other) == ([whole, little, late], {})
