"""Which deletions become part of a later command, so that no pod moves twice."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption.candidate import Candidate
from core.disruption.command import Independence, Merger, PodRules, carried_out, joined, selects_any
from core.disruption.decision import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.model import plan
from core.model.catalogue import Catalogue, Offering
from core.model.plan import Command, Condition, Move
from core.model.pod import (
    EBS_DRIVER,
    LabelSelector,
    NodeSelectorTerm,
    Owner,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    TopologySpread,
    VolumeUse,
)
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint, Toleration
from core.scheduling.pods import DefaultSpreads
from core.scheduling.topology.groups import Namespaces
from tests.builders import NOW, ZONES, a_node_of, a_pool, a_selector, a_type
from tests.unit.disruption.commands.commands_for_tests import a_command, a_deletion, with_default_spread
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, ON_DEMAND, OPEN, SMALL, TYPES, drifted, pod_on, world
from tests.unit.lifecycle.records_for_tests import a_plan

# A command applied to the snapshot, so that later commands of the pass are judged in the resulting cluster.


def test_the_node_is_gone_and_its_pods_run_on_the_replacement() -> None:
    snapshot = world(a_node_of(LARGE), pods=(pod_on("node-1"),))
    (command,) = disrupt(snapshot).commands
    (replacement,) = command.replacements
    after = carried_out(snapshot, command)
    (state,) = state_nodes(after)
    assert (state.name, state.is_initialized) == (replacement.name, True)
    assert [pod.node_name for pod in after.pods] == [replacement.name]
    assert state.labels[labels.INSTANCE_TYPE] == SMALL.name


TAINTS = (Taint("team", "a", "NoSchedule"),)


def test_a_replacement_joins_as_it_was_planned() -> None:
    """Later commands of the pass must not move pods to it that its NodePool keeps out, or take it for another's."""
    pool = a_pool(
        "default", ON_DEMAND, disruption=OPEN, taints=TAINTS, startup_taints=(Taint("boot", "", "NoExecute"),)
    )
    snapshot = world(
        a_node_of(LARGE, taints=TAINTS),
        pods=(pod_on("node-1", tolerations=(Toleration("team", "Exists"),)),),
        node_pools=(pool,),
    )
    (command,) = disrupt(snapshot).commands
    (planned,) = command.replacements
    claim, node = joined(planned, snapshot)
    assert planned.resources
    for field in ("name", "taints", "startup_taints", "requirements", "resources", "node_class"):
        assert getattr(claim, field) == getattr(planned, field), field
    assert (node.taints, node.is_ready, node.created_at) == (TAINTS, True, snapshot.now)
    assert claim.allocatable == node.allocatable == SMALL.allocatable()
    assert claim.provider_id == node.provider_id
    assert claim.labels.items() <= node.labels.items()


def test_pods_of_other_nodes_stay_and_those_without_a_successor_are_gone() -> None:
    """A DaemonSet's pod ends with its node; it must not count as room that is used."""
    pods = (pod_on("a"), pod_on("a", "daemon"), pod_on("b"))
    snapshot = world(*(a_node_of(LARGE, name) for name in "abc"), pods=pods)
    command = Command(
        reason="Underutilized", method="single", nodes=("a",), claims=("a",), moves=(Move("default/on-a", "c"),)
    )
    after = carried_out(snapshot, command)
    assert [(pod.name, pod.node_name) for pod in after.pods] == [("on-a", "c"), ("on-b", "b")]
    assert [node.name for node in after.nodes] == ["b", "c"]


def test_several_commands_are_applied_at_once() -> None:
    pairs = [a_node_of(LARGE, name) for name in "abc"]
    snapshot = world(*pairs, pods=(pod_on("a"), pod_on("b")))
    commands = [
        Command(
            reason="Underutilized",
            method="single",
            nodes=(name,),
            claims=(claim.name,),
            moves=(Move(f"default/on-{name}", "c"),),
        )
        for name, (claim, _) in zip("ab", pairs, strict=False)
    ]
    after = carried_out(snapshot, *commands)
    assert [pod.node_name for pod in after.pods] == ["c", "c"]
    assert [claim.name for claim in after.node_claims] == [pairs[2][0].name]


class TestTheOfferingOfAReplacement:
    """The cheapest of the cheapest type; ties are broken by zone and capacity type, so that equal snapshots agree."""

    def labels_of(self, **prices: float) -> dict[str, str]:
        first = a_type("t", cpu="1", price=0.05)
        offerings = tuple(
            msgspec.structs.replace(o, price=int(prices.get(o.zone[-1], 1) * 10**9)) for o in first.offerings
        )
        snapshot = msgspec.structs.replace(
            world(), catalogue=Catalogue(default=(msgspec.structs.replace(first, offerings=offerings),))
        )
        zones, capacity = ZONES, (labels.ON_DEMAND, labels.SPOT)
        planned = a_plan(name="x", instance_types=("t",), zones=zones, capacity_types=capacity)
        return joined(planned, snapshot)[1].labels

    def test_is_the_cheapest(self) -> None:
        assert self.labels_of(b=0.5)[labels.ZONE] == ZONES[1]

    def test_is_the_first_of_equals(self) -> None:
        node_labels = self.labels_of()
        assert (node_labels[labels.ZONE], node_labels[labels.CAPACITY_TYPE]) == (ZONES[0], labels.ON_DEMAND)


def test_a_replacement_is_ready_to_be_consolidated_and_carries_its_labels() -> None:
    snapshot = world(a_node_of(LARGE), pods=(pod_on("node-1"),))
    (command,) = disrupt(snapshot).commands
    claim, node = joined(command.replacements[0], snapshot)
    assert (claim.node_name, claim.created_at, claim.capacity) == (claim.name, snapshot.now, SMALL.capacity)
    ready = (plan.LAUNCHED, plan.REGISTERED, plan.INITIALIZED, plan.CONSOLIDATABLE)
    assert claim.conditions == {name: Condition("True", changed_at=snapshot.now) for name in ready}
    node_labels = {labels.HOSTNAME: claim.name, labels.NODEPOOL: "default", labels.INSTANCE_TYPE: SMALL.name}
    assert node_labels.items() <= node.labels.items()


def test_a_replacement_has_the_labels_of_its_requirements_that_admit_one_value_alone() -> None:
    """Pods that ask for another value would be moved to a node that never gets it."""
    asked = (
        Requirement.one_of("one", "a"),
        Requirement.one_of("two", "a", "b"),
        Requirement.of("without", "NotIn", ["a"]),
        Requirement.of("any", "Exists", []),
    )
    where = {"zones": ZONES, "capacity_types": (labels.ON_DEMAND,), "instance_types": (SMALL.name,)}
    claim, node = joined(a_plan(name="x", requirements=asked, **where), world())
    assert {key: claim.labels[key] for key in ("one", "two", "without", "any") if key in claim.labels} == {"one": "a"}
    assert claim.labels.items() <= node.labels.items()


def test_a_replacement_attaches_as_many_volumes_as_its_type() -> None:
    """Its node has no CSINode yet; without a limit, later commands would move any number of volumes to it."""
    planned = a_plan(name="x", instance_types=("t",), zones=ZONES, capacity_types=(labels.ON_DEMAND,))
    for limit, expected in ((2, {EBS_DRIVER: 2}), (0, {EBS_DRIVER: 0}), (None, {})):
        instance_type = msgspec.structs.replace(a_type("t"), attach_limit=limit)
        snapshot = msgspec.structs.replace(world(), catalogue=Catalogue(default=(instance_type,)))
        assert joined(planned, snapshot)[1].attach_limits == expected


IN_BLOCK = Offering("t", ZONES[0], labels.RESERVED, 0, True, "cr-1", 3, "default")
RESERVATION = {
    labels.RESERVATION_ID: "cr-1",
    labels.RESERVATION_TYPE: "default",
    labels.RESERVATION_INTERRUPTIBLE: "false",
}


def test_a_replacement_in_a_reservation_says_so() -> None:
    """Its NodePool may require it, and would take a claim without the label for a drifted one."""
    instance_type = msgspec.structs.replace(a_type("t"), offerings=(IN_BLOCK, *a_type("t").offerings))
    snapshot = msgspec.structs.replace(world(), catalogue=Catalogue(default=(instance_type,)))
    where = {"instance_types": ("t",), "zones": ZONES}
    for capacity_type, expected in ((labels.RESERVED, RESERVATION), (labels.ON_DEMAND, {})):
        claim, node = joined(a_plan(name="x", capacity_types=(capacity_type,), **where), snapshot)
        for labels_found in (claim.labels, node.labels):
            assert {key: labels_found[key] for key in labels.RESERVATION_LABELS if key in labels_found} == expected


def test_later_commands_move_no_pod_to_a_replacement_in_a_reservation_that_it_avoids() -> None:
    """A static pool's new node is in a reservation; its room serves consolidation in the same pass."""
    in_block = msgspec.structs.replace(IN_BLOCK, instance_type=LARGE.name)
    instance_type = msgspec.structs.replace(LARGE, offerings=(in_block, *LARGE.offerings))
    either = Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND, labels.RESERVED)
    static = a_pool("static", either, disruption=OPEN, replicas=1)
    avoid = (NodeSelectorTerm((Requirement.of(labels.RESERVATION_ID, "DoesNotExist", []),)),)
    snapshot = world(
        drifted(a_node_of(instance_type, "old", pool="static")),
        *(a_node_of(instance_type, name) for name in "ab"),
        pods=tuple(pod_on(name, cpu="1500m", required_terms=avoid) for name in "ab"),
        node_pools=(static, a_pool("default", ON_DEMAND, disruption=OPEN)),
    )
    commands = disrupt(msgspec.structs.replace(snapshot, catalogue=Catalogue(default=(instance_type,)))).commands
    (new,) = (claim.name for command in commands if command.method == "static-drift" for claim in command.replacements)
    assert [(move.pod, move.to) for command in commands for move in command.moves] == [("default/on-a", "b")]
    assert new == "static-0"


def test_later_commands_move_no_more_volumes_to_a_replacement_than_it_attaches() -> None:
    """A drifted node of a static pool is replaced first; the room of the new node serves consolidation in the same pass."""
    instance_type = msgspec.structs.replace(LARGE, attach_limit=1)
    static = a_pool("static", ON_DEMAND, disruption=OPEN, replicas=1)
    names = ("a", "b")
    snapshot = msgspec.structs.replace(
        world(
            drifted(a_node_of(instance_type, "old", pool="static")),
            *(a_node_of(instance_type, name) for name in names),
            pods=tuple(pod_on(name, volumes=(VolumeUse(f"data-{name}"),)) for name in names),
            node_pools=(static, a_pool("default", ON_DEMAND, disruption=OPEN)),
            volumes=tuple(PersistentVolume(name=f"pv-{name}", driver=EBS_DRIVER) for name in names),
            volume_claims=tuple(
                PersistentVolumeClaim(
                    namespace="default", name=f"data-{name}", volume_name=f"pv-{name}", phase="Bound",
                    is_bind_completed=True,
                )
                for name in names
            ),
        ),
        catalogue=Catalogue(default=(instance_type,)),
    )  # fmt: skip
    commands = disrupt(snapshot).commands
    (new,) = (claim.name for command in commands if command.method == "static-drift" for claim in command.replacements)
    assert [move.to for command in commands for move in command.moves].count(new) == 1


def test_a_replacement_has_the_labels_of_its_type_that_have_one_value() -> None:
    """Which of several it gets is not known before it joins."""
    instance_type = a_type("t", capacity_types=(labels.ON_DEMAND,), team="x")
    either = msgspec.structs.replace(instance_type, labels={**instance_type.labels, "either": ("a", "b")})
    snapshot = msgspec.structs.replace(world(), catalogue=Catalogue(default=(either,)))
    planned = a_plan(instance_types=("t",), zones=ZONES[:1], capacity_types=(labels.ON_DEMAND,))
    claim, node = joined(planned, snapshot)
    node_labels = {
        **planned.labels,
        labels.ARCH: "amd64",
        labels.OS: "linux",
        "team": "x",
        labels.NODEPOOL: "default",
        labels.INSTANCE_TYPE: "t",
        labels.ZONE: ZONES[0],
        labels.CAPACITY_TYPE: labels.ON_DEMAND,
    }
    assert claim.labels == node_labels
    assert node.labels == {**node_labels, labels.HOSTNAME: "c", labels.REGISTERED: "true", labels.INITIALIZED: "true"}


# Commands that are valid alone and break a rule together; found by seed 101120 of the random worlds.


MOVES_TO_X_AND_Z = (Move("default/a", "x"), Move("default/b", "z"))
GPU = "nvidia.com/gpu"
INDEPENDENCE_AWAY = PodAffinityTerm(labels.ZONE, LabelSelector((Requirement.one_of("app", "b"),)))


def candidates(*, limits: dict[str, int] | None = None, **first: Any) -> tuple[DisruptionPass, list[Candidate]]:
    """Two nodes with a pod each; `first` is the first pod's."""
    pods = (pod_on("node-1", labels={"app": "a"}, **first), pod_on("node-2", labels={"app": "b"}))
    pools = (a_pool("default", ON_DEMAND, disruption=OPEN, limits=limits or {}),)
    this_pass = DisruptionPass(world(a_node_of(MIDDLE), a_node_of(MIDDLE, "node-2"), pods=pods, node_pools=pools))
    return this_pass, list(this_pass.survey.candidates)


@pytest.mark.parametrize(
    ("world_of", "first", "second", "are"),
    [
        ({}, a_command("node-1", "x"), a_command("node-2", "y"), True),
        ({}, a_command("node-1", "x"), a_command("node-2", "x"), False),
        ({}, a_command("node-1", "node-2"), a_command("node-2", "y"), False),
        ({}, a_command("node-1", "x"), a_command("node-2", "node-1"), False),
        ({"anti_affinity": (INDEPENDENCE_AWAY,)}, a_command("node-1", "x"), a_command("node-2", "y"), False),
        ({"limits": {"cpu": 9000}}, a_command("node-1", "x", "t-4"), a_command("node-2", "y", "t-4"), True),
        ({"limits": {"cpu": 9000}}, a_command("node-1", "x", "t-16"), a_command("node-2", "y", "t-16"), False),
        (
            {},
            a_command("node-1", "x", "t-4", capacity_types=(labels.RESERVED,)),
            a_command("node-2", "y", "t-4", capacity_types=(labels.RESERVED,)),
            False,
        ),
        (
            {},
            a_command("node-1", "x", "t-4", annotations={labels.COMMITMENT: "ri"}),
            a_command("node-2", "y", "t-4", annotations={labels.COMMITMENT: "ri"}),
            False,
        ),
    ],
)
def test_two_commands(world_of: dict[str, Any], first: Command, second: Command, are: bool) -> None:
    this_pass, (one, two) = candidates(**world_of)
    together = Independence(this_pass.snapshot, DefaultSpreads(this_pass.snapshot))
    assert together.takes(first, one)
    assert together.takes(second, two) is are


@pytest.mark.parametrize(
    ("pools", "are"),
    [
        (("default",), True),
        (("default", "default"), False),
        (("other",), False),
        (("unlimited", "unlimited"), True),
    ],
)
def test_commands_that_use_more_of_a_pools_limits_are_not_taken_together(pools: tuple[str, ...], are: bool) -> None:
    """Only one node for one of the same pool, and no larger, leaves as much of the limits as before."""
    this_pass, (one, two) = candidates(limits={"cpu": 9000})
    limited = a_pool("other", ON_DEMAND, disruption=OPEN, limits={"cpu": 9000})
    snapshot = msgspec.structs.replace(this_pass.snapshot, node_pools=(*this_pass.snapshot.node_pools, limited))
    together = Independence(snapshot, DefaultSpreads(snapshot))

    def command(node: str) -> Command:
        (claim,) = a_command(node, f"{node}-new", "t-1").replacements
        claims = [msgspec.structs.replace(claim, name=f"{claim.name}-{n}", node_pool=p) for n, p in enumerate(pools)]
        return msgspec.structs.replace(a_command(node, claims[0].name), replacements=tuple(claims))

    assert together.takes(command("node-1"), one)
    assert together.takes(command("node-2"), two) is are


@pytest.mark.parametrize(("key", "are"), [(labels.ZONE, False), (labels.HOSTNAME, True)])
def test_a_default_spread_over_zones_connects_pods_as_their_own_does(key: str, are: bool) -> None:
    nodes = (a_node_of(MIDDLE), a_node_of(MIDDLE, "node-2"))
    pods = tuple(pod_on(name, labels={"of": "shop"}) for name in ("node-1", "node-2"))
    snapshot = with_default_spread(world(*nodes, pods=pods), key)
    one, two = DisruptionPass(snapshot).survey.candidates
    assert are_independent(one, two, snapshot) is are


def are_independent(one: Candidate, two: Candidate, snapshot: Snapshot) -> bool:
    together = Independence(snapshot, DefaultSpreads(snapshot))
    assert together.takes(a_command("node-1", "x"), one)
    return together.takes(a_command("node-2", "y"), two)


BOTH = LabelSelector((Requirement.one_of("app", "a", "b"),))
NEITHER = LabelSelector((Requirement.one_of("app", "x"),))


@pytest.mark.parametrize(
    ("rule", "are"),
    [
        ({"affinity": (PodAffinityTerm(labels.ZONE, BOTH),)}, False),
        ({"anti_affinity": (PodAffinityTerm(labels.ZONE, BOTH),)}, False),
        ({"spreads": (TopologySpread(labels.ZONE, 1, selector=BOTH),)}, False),
        ({"spreads": (TopologySpread(labels.ZONE, 1, "ScheduleAnyway", BOTH),)}, True),
        ({"spreads": (TopologySpread(labels.HOSTNAME, 1, selector=BOTH),)}, True),
        ({"spreads": (TopologySpread(labels.ZONE, 1, selector=NEITHER),)}, True),
        ({"spreads": (TopologySpread(labels.ZONE, 1, selector=None),)}, True),
    ],
)
def test_a_rule_over_zones_connects_two_commands_whichever_of_their_pods_has_it(
    rule: dict[str, Any], are: bool
) -> None:
    """A rule within nodes, one that does not bind and one that counts none of the moved pods connect nothing."""
    this_pass, (one, two) = candidates(**rule)
    assert are_independent(one, two, this_pass.snapshot) is are
    together = Independence(this_pass.snapshot, DefaultSpreads(this_pass.snapshot))
    assert together.takes(a_command("node-2", "y"), two)
    assert together.takes(a_command("node-1", "x"), one) is are


def test_a_refused_command_leaves_no_trace() -> None:
    """Otherwise, what it would have filled and needed keeps others from starting."""
    this_pass, (one, two) = candidates()
    together = Independence(this_pass.snapshot, DefaultSpreads(this_pass.snapshot))
    assert together.takes(a_command("node-1", "x"), one)
    assert not together.takes(msgspec.structs.replace(a_command("node-2", "x"), moves=MOVES_TO_X_AND_Z), two)
    assert together.takes(a_command("node-2", "z"), two)


@pytest.mark.parametrize(
    ("limits", "instance_types", "are"),
    [
        ({"cpu": 9000}, ("t-4", "t-16"), False),  # the largest type may be launched
        ({"cpu": 9000}, ("t-1", "t-4"), True),
        ({"nodes": 3}, ("t-16",), True),
        ({"cpu": 9000}, ("unlisted",), True),
        ({}, ("t-16",), True),
        ({GPU: 4}, ("t-16",), True),
        ({GPU: 4}, ("g-4",), False),
    ],
)
def test_one_node_for_one_of_the_same_pool_needs_more_of_its_limits_where_it_may_be_larger(
    limits: dict[str, int], instance_types: tuple[str, ...], are: bool
) -> None:
    this_pass, (one, two) = candidates(limits=limits)
    types = (*TYPES, a_type("g-4", cpu="4", extra={GPU: "1"}))
    snapshot = msgspec.structs.replace(this_pass.snapshot, catalogue=Catalogue(default=types))
    together = Independence(snapshot, DefaultSpreads(snapshot))
    assert together.takes(a_command("node-1", "x", *instance_types), one)
    assert together.takes(a_command("node-2", "y", *instance_types), two) is are


def merged(commands: list[Command], command: Command, snapshot: Snapshot) -> list[Command]:
    """The commands with one more, in a cluster."""
    return Merger(snapshot, DefaultSpreads(snapshot)).added(commands, command)


def test_a_deletion_that_fills_a_node_becomes_part_of_that_nodes_own() -> None:
    commands = merged([a_deletion("node-1", "node-2")], a_deletion("node-2", "node-3"), world())
    assert [command.nodes for command in commands] == [("node-1", "node-2")]


def test_a_deletion_that_another_command_builds_upon_keeps_its_place() -> None:
    """Merged, it would come after the command that moves its pods on; found by seed 500624 of the random worlds."""
    first = msgspec.structs.replace(
        a_deletion("node-1", "node-2"),
        moves=(Move("default/on-node-1", "node-2"), Move("default/other", "node-3")),
    )
    commands = [first, a_command("node-2", "x", "t-4")]
    assert merged(commands, a_deletion("node-3", "x"), world()) == [*commands, a_deletion("node-3", "x")]


def test_the_merged_command_has_all_that_its_parts_had() -> None:
    """Pods that were to stop over move on: each moves once, to where it stays."""
    aside = Move("default/aside", "node-7")
    first = msgspec.structs.replace(a_deletion("node-1", "node-2"), savings=3)
    first = msgspec.structs.replace(first, moves=(*first.moves, aside))
    on = (*a_deletion("node-2", "node-3").moves, Move("default/on-node-1", "node-3"))
    second = msgspec.structs.replace(a_deletion("node-2", "node-3"), moves=on, savings=4)
    kept = a_deletion("node-8", "node-9")
    commands = merged([kept, first], second, world())
    whole = msgspec.structs.replace(
        second,
        method="multi",
        nodes=("node-1", "node-2"),
        claims=("node-1", "node-2"),
        moves=(aside, Move("default/on-node-1", "node-3"), Move("default/on-node-2", "node-3")),
        savings=7,
    )
    assert commands == [kept, whole]


def test_a_command_of_another_method_keeps_its_name() -> None:
    empty = msgspec.structs.replace(a_deletion("node-2", "node-3"), method="repack")
    assert [command.method for command in merged([a_deletion("node-1", "node-2")], empty, world())] == ["repack"]


@pytest.mark.parametrize(
    "earlier",
    [
        a_deletion("node-1", "node-9"),
        msgspec.structs.replace(a_command("node-1", "node-2", "t-4"), reason="Underutilized"),
        msgspec.structs.replace(a_deletion("node-1", "node-2"), reason="Empty"),
    ],
    ids=["moves-nothing-there", "launches", "other-reason"],
)
def test_other_commands_stay_apart(earlier: Command) -> None:
    last = a_deletion("node-2", "node-3")
    assert merged([earlier], last, world()) == [earlier, last]


@pytest.mark.parametrize(
    ("spread", "other", "moves_on", "is_merged"),
    [
        (TopologySpread(labels.HOSTNAME, 1, selector=BOTH), "host", False, False),
        (TopologySpread(labels.HOSTNAME, 1, selector=BOTH), "elsewhere", False, True),
        (TopologySpread(labels.HOSTNAME, 1, selector=BOTH), "host", True, True),
        (TopologySpread(labels.HOSTNAME, 1, selector=NEITHER), "host", False, True),
        (TopologySpread(labels.HOSTNAME, 1, "ScheduleAnyway", BOTH), "host", False, True),
        (TopologySpread(labels.ZONE, 1, selector=BOTH), "host", False, False),
        (TopologySpread(labels.ZONE, 1, selector=BOTH), "elsewhere", False, False),
        (TopologySpread(labels.ZONE, 1, selector=BOTH), "host", True, True),
        (TopologySpread(labels.ZONE, 1, selector=NEITHER), "elsewhere", False, True),
        (TopologySpread(labels.ZONE, 1, "ScheduleAnyway", BOTH), "elsewhere", False, True),
        (TopologySpread(labels.HOSTNAME, 1, selector=BOTH, match_label_keys=("app",)), "host", False, True),
    ],
)
def test_a_deletion_whose_pod_must_come_first_on_its_new_node_keeps_its_place(
    spread: TopologySpread, other: str, moves_on: bool, is_merged: bool
) -> None:
    """Merged, it would come after a pod that its spread counts; found by seed 305121 of the random worlds."""
    pods = (
        pod_on("node-1", name="even", labels={"app": "a"}, spreads=(spread,)),
        pod_on("node-2", name="counted", labels={"app": "b"}),
    )
    snapshot = world(pods=pods)
    even, counted = Move("default/even", "host"), Move("default/counted", other)
    first = msgspec.structs.replace(a_deletion("node-1", "node-3"), moves=(even, Move("default/on-node-1", "node-3")))
    between = msgspec.structs.replace(a_deletion("node-2", other), moves=(counted,))
    last = a_deletion("node-3", "x")
    if moves_on:
        last = msgspec.structs.replace(last, moves=(*last.moves, Move("default/even", "x")))
    commands = merged([first, between], last, snapshot)
    assert [command.nodes for command in commands] == (
        [("node-2",), ("node-1", "node-3")] if is_merged else [("node-1",), ("node-2",), ("node-3",)]
    )
    assert len(merged([between, first], last, snapshot)) == 2


@pytest.mark.parametrize(("selected", "is_merged"), [({"of": "shop"}, False), ({"of": "other"}, True)])
def test_a_default_spread_over_hosts_counts_as_one_of_the_pods_own(selected: dict[str, str], is_merged: bool) -> None:
    snapshot = with_default_spread(
        world(
            pods=(
                pod_on("node-1", labels={"of": "shop"}),
                pod_on("node-2", labels=selected),
                pod_on("node-3", labels={}),
            )
        ),
        labels.HOSTNAME,
    )
    stays = (Move("default/on-node-1", "host"), Move("default/x", "node-3"))
    first = msgspec.structs.replace(a_deletion("node-1", "host"), moves=stays)
    commands = merged([first, a_deletion("node-2", "host")], a_deletion("node-3", "x"), snapshot)
    assert (len(commands) == 2) is is_merged


@pytest.mark.parametrize(("key", "is_merged"), [(labels.ZONE, False), (labels.HOSTNAME, True)])
def test_pods_of_the_last_command_count_in_shared_domains(key: str, is_merged: bool) -> None:
    """Merged, the pod that went first came last, into a zone with too many by then; found by seed 1014096."""
    spread = TopologySpread(key, 1, selector=BOTH)
    even = pod_on("node-1", name="even", labels={"app": "a"}, spreads=(spread,))
    snapshot = world(pods=(even, pod_on("node-2", labels={"app": "b"})))
    first = msgspec.structs.replace(
        a_deletion("node-1", "node-2"), moves=(Move("default/even", "host"), Move("default/x", "node-2"))
    )
    commands = merged([first], a_deletion("node-2", "host"), snapshot)
    assert (len(commands) == 1) is is_merged


def test_one_of_two_earlier_commands_that_cannot_be_merged_keeps_all_apart() -> None:
    earlier = [
        a_deletion("node-1", "node-2"),
        msgspec.structs.replace(a_deletion("node-4", "node-2"), reason="Empty"),
    ]
    last = a_deletion("node-2", "node-3")
    assert merged(earlier, last, world()) == [*earlier, last]


@pytest.mark.parametrize(
    ("changes", "is_merged"),
    [
        ({"method": "static-drift"}, False),
        ({"method": "terminate-first"}, False),
        ({"replacements": a_command("node-2", "x", "t-4").replacements}, False),
        ({"replacements": a_command("node-2", "x", "t-4").replacements, "moves": (Move("p", "x"),)}, True),
        ({}, True),
    ],
)
def test_a_command_that_says_nothing_of_its_pods_is_not_merged(changes: dict[str, Any], is_merged: bool) -> None:
    """Drift of static pools replaces nodes and moves no pods; an empty node has none to move."""
    last = msgspec.structs.replace(a_deletion("node-2", ""), **{"moves": (), **changes})
    assert (len(merged([a_deletion("node-1", "node-2")], last, world())) == 1) is is_merged


@pytest.mark.parametrize("known", ["even", "counted"])
def test_pods_that_are_gone_hold_no_command_back(known: str) -> None:
    """A command may have been decided for a pod that has ended since."""
    spread = TopologySpread(labels.HOSTNAME, 1, selector=BOTH)
    pods = [
        pod_on("node-1", name="even", labels={"app": "a"}, spreads=(spread,)),
        pod_on("node-2", name="counted", labels={"app": "b"}),
    ]
    moves = (Move("default/even", "host"), Move("default/on-node-1", "node-3"))
    first = msgspec.structs.replace(a_deletion("node-1", "node-3"), moves=moves)
    between = msgspec.structs.replace(a_deletion("node-2", "host"), moves=(Move("default/counted", "host"),))
    commands = merged(
        [first, between], a_deletion("node-3", "x"), world(pods=tuple(pod for pod in pods if pod.name == known))
    )
    assert [command.nodes for command in commands] == [("node-2",), ("node-1", "node-3")]


AWAY = PodAffinityTerm(labels.ZONE, BOTH)
DAEMON: dict[str, Any] = {"labels": {"app": "a"}, "owners": (Owner("DaemonSet", "agent"),)}


@pytest.mark.parametrize(
    ("mover", "remaining", "is_merged"),
    [
        ({"anti_affinity": (AWAY,)}, {}, False),
        ({"affinity": (AWAY,)}, {}, False),
        ({"spreads": (TopologySpread(labels.ZONE, 1, selector=BOTH),)}, {}, False),
        ({}, {"anti_affinity": (AWAY,)}, False),
        ({}, {"anti_affinity": (AWAY,), "deleted_at": NOW}, False),  # it keeps others away until it is gone
        ({"anti_affinity": (AWAY,)}, {"deleted_at": NOW}, True),
        ({"anti_affinity": (AWAY,)}, {"phase": "Succeeded"}, True),
        ({"anti_affinity": (AWAY,)}, {"labels": {"app": "x"}}, True),
        ({"anti_affinity": (PodAffinityTerm(labels.HOSTNAME, BOTH),)}, {}, True),
        ({"spreads": (TopologySpread(labels.ZONE, 1, "ScheduleAnyway", BOTH),)}, {}, True),
        ({}, {"affinity": (AWAY,)}, True),
        ({}, {}, True),
    ],
)
@pytest.mark.parametrize("moves_last", [True, False])
def test_a_node_whose_last_pods_are_in_another_pods_way_is_gone_first(
    mover: dict[str, Any], remaining: dict[str, Any], is_merged: bool, moves_last: bool
) -> None:
    """Merged, the pod would be pending until the node with its DaemonSet's pod is gone; found by seed 1614."""
    snapshot = world(
        pods=(
            pod_on("node-1", name="agent", **{**DAEMON, **remaining}),
            pod_on("node-1", labels={}),
            pod_on("node-2", name="mover", labels={"app": "b"}, **mover),
        )
    )
    first, moved = a_deletion("node-1", "node-3"), (Move("default/mover", "host"),)
    between = [] if moves_last else [msgspec.structs.replace(a_deletion("node-2", "host"), moves=moved)]
    last = msgspec.structs.replace(a_deletion("node-3", "x"), moves=moved if moves_last else ())
    assert (len(merged([first, *between], last, snapshot)) == 1 + len(between)) is is_merged


def test_a_pod_that_leaves_the_node_is_in_nobodys_way() -> None:
    pods = (pod_on("node-1", labels={"app": "a"}), pod_on("node-2", labels={"app": "b"}, anti_affinity=(AWAY,)))
    commands = merged([a_deletion("node-1", "node-2")], a_deletion("node-2", "x"), world(pods=pods))
    assert [command.nodes for command in commands] == [("node-1", "node-2")]


def test_commands_that_another_kept_apart_are_merged_once_that_is() -> None:
    """Pods moved to a node that went, and on from there with a later one; found by seed 2008409 of the random worlds.

    Node `a` fills `c` and so does `b`, which a spread of its pod on `host` keeps apart until that node goes as well.
    """
    even = pod_on("b", name="even", labels={"app": "a"}, spreads=(TopologySpread(labels.HOSTNAME, 1, selector=BOTH),))
    snapshot = world(pods=(pod_on("a", labels={}), even, pod_on("c", labels={}), pod_on("d", labels={"app": "b"})))
    second = msgspec.structs.replace(a_deletion("b", "c"), moves=(Move("default/even", "host"), Move("default/x", "c")))
    apart = merged([a_deletion("a", "c"), second, a_deletion("d", "host")], a_deletion("c", "host"), snapshot)
    assert [command.nodes for command in apart] == [("a",), ("b",), ("d",), ("c",)]
    on = tuple(Move(f"default/{name}", "y") for name in ("even", "on-a", "on-c", "on-d", "x"))
    commands = merged(apart, msgspec.structs.replace(a_deletion("host", "y"), moves=on), snapshot)
    assert [command.nodes for command in commands] == [("a", "b", "d", "c", "host")]


NEAR = PodAffinityTerm(labels.HOSTNAME, BOTH)
EVEN = TopologySpread(labels.ZONE, 1, selector=BOTH)


@pytest.mark.parametrize(
    ("first", "follower", "to", "is_merged"),
    [
        ({}, {"affinity": (NEAR,)}, "host", False),
        ({}, {"affinity": (NEAR,)}, "elsewhere", True),
        ({}, {"affinity": (AWAY,)}, "elsewhere", False),
        ({}, {"anti_affinity": (AWAY,)}, "elsewhere", False),
        ({}, {"spreads": (EVEN,)}, "elsewhere", False),
        ({"anti_affinity": (AWAY,)}, {}, "elsewhere", False),
        ({"affinity": (AWAY,)}, {}, "elsewhere", False),
        ({"affinity": (NEAR,)}, {}, "host", True),
        ({}, {}, "host", True),
    ],
)
@pytest.mark.parametrize("moves_on", [False, True])
def test_a_command_that_another_pod_follows_comes_before_that(
    first: dict[str, Any], follower: dict[str, Any], to: str, is_merged: bool, moves_on: bool
) -> None:
    """Merged, the other pod would go where nobody is yet that it must be near, or where one still is that it avoids."""
    pods = (
        pod_on("node-1", labels={"app": "a"}, **first),
        pod_on("node-2", labels={"app": "b"}, **follower),
        pod_on("node-3", labels={}),
    )
    to_host = (Move("default/aside", "node-3"), Move("default/on-node-1", "host"))
    earlier = [msgspec.structs.replace(a_deletion("node-1", "host"), moves=to_host), a_deletion("node-2", to)]
    last = a_deletion("node-3", "x")
    if moves_on:
        last = msgspec.structs.replace(last, moves=(*last.moves, Move("default/on-node-1", "x")))
    is_harmless = moves_on and first.get("affinity") == (AWAY,)  # it is asked again when the pod moves on
    assert (len(merged(earlier, last, world(pods=pods))) == 2) is (is_merged or is_harmless)


# Rules by their domains, those of the cluster's defaults included.


WEB, DB = pod_on("web", labels={"app": "web"}), pod_on("db", labels={"app": "db"})


def rules_of(pod: Pod, default: str = "") -> PodRules:
    """The rules of a pod; `default` is the topology key of the cluster's default spread."""
    snapshot = world(pods=(pod, WEB, DB))
    snapshot = with_default_spread(snapshot, default) if default else snapshot
    return PodRules.of(pod, DefaultSpreads(snapshot), Namespaces.of(snapshot))


def test_rules_over_hosts_and_over_zones_are_apart() -> None:
    web, db = a_selector(app="web"), a_selector(app="db")
    rules = rules_of(
        pod_on(
            "a",
            spreads=(TopologySpread(labels.HOSTNAME, 1, selector=web), TopologySpread(labels.ZONE, 1, selector=db)),
            affinity=(PodAffinityTerm(labels.ZONE, web),),
            anti_affinity=(PodAffinityTerm(labels.HOSTNAME, web), PodAffinityTerm(labels.ZONE, db)),
        )
    )
    asked = (rules.host_spreads, rules.host_affinity, rules.wide_spreads, rules.wide_affinity, rules.wide_anti_affinity)
    assert [selects_any(groups, (WEB,)) for groups in asked] == [True, False, False, True, False]
    assert [selects_any(groups, (DB,)) for groups in asked] == [False, False, True, False, True]
    assert selects_any(rules.wide, (WEB,))
    assert selects_any(rules.wide, (DB,))
    near = rules_of(pod_on("a", affinity=(PodAffinityTerm(labels.HOSTNAME, db),)))
    assert [selects_any(near.host_affinity, (pod,)) for pod in (WEB, DB)] == [False, True]
    assert not near.wide


def test_only_pods_that_meet_all_affinity_terms_are_company() -> None:
    """kube-scheduler asks of a pod to meet all terms before it counts for any of them."""
    terms = (
        PodAffinityTerm(labels.HOSTNAME, a_selector(app="db")),
        PodAffinityTerm(labels.ZONE, a_selector(tier="back")),
    )
    rules = rules_of(pod_on("a", affinity=terms))
    both = pod_on("both", labels={"app": "db", "tier": "back"})
    for groups in (rules.host_affinity, rules.wide_affinity):
        assert [selects_any(groups, (pod,)) for pod in (WEB, DB, both)] == [False, False, True]


def test_rules_that_need_not_hold_are_left_out() -> None:
    rules = rules_of(pod_on("a", spreads=(TopologySpread(labels.ZONE, 1, "ScheduleAnyway", a_selector(app="web")),)))
    assert not selects_any(rules.wide, (WEB, DB))


def test_the_default_spread_of_a_pod_counts() -> None:
    shop = pod_on("a", labels={"of": "shop"})
    assert selects_any(rules_of(shop, labels.ZONE).wide_spreads, (shop,))
    assert not rules_of(shop, labels.ZONE).host_spreads
    assert selects_any(rules_of(shop, labels.HOSTNAME).host_spreads, (shop,))
    assert not rules_of(WEB, labels.ZONE).wide
