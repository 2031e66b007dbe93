"""Which deletions become part of a later command, so that no pod moves twice."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption.commands.merging import Merger
from core.model.plan import Command, Move
from core.model.pod import LabelSelector, Owner, PodAffinityTerm, TopologySpread
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement
from core.scheduling.pods.default_topology_spread import DefaultSpreads
from tests.builders import NOW
from tests.unit.disruption.commands.commands_for_tests import a_command, a_deletion, with_default_spread
from tests.unit.disruption.nodes_for_tests import pod_on, world

BOTH = LabelSelector((Requirement.one_of("app", "a", "b"),))
NEITHER = LabelSelector((Requirement.one_of("app", "x"),))


def merged(commands: list[Command], command: Command, snapshot: Snapshot) -> list[Command]:
    """The commands with one more, in a cluster."""
    return Merger(snapshot, DefaultSpreads(snapshot)).added(commands, command)


def test_a_deletion_that_fills_a_node_becomes_part_of_that_nodes_own() -> None:
    found = merged([a_deletion("node-1", "node-2")], a_deletion("node-2", "node-3"), world())
    assert [command.nodes for command in found] == [("node-1", "node-2")]


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
    found = merged([kept, first], second, world())
    whole = msgspec.structs.replace(
        second,
        method="multi",
        nodes=("node-1", "node-2"),
        claims=("node-1", "node-2"),
        moves=(aside, Move("default/on-node-1", "node-3"), Move("default/on-node-2", "node-3")),
        savings=7,
    )
    assert found == [kept, whole]


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
    found = merged([first, between], last, snapshot)
    assert [command.nodes for command in found] == (
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
    found = merged([first, a_deletion("node-2", "host")], a_deletion("node-3", "x"), snapshot)
    assert (len(found) == 2) is is_merged


@pytest.mark.parametrize(("key", "is_merged"), [(labels.ZONE, False), (labels.HOSTNAME, True)])
def test_pods_of_the_last_command_count_in_shared_domains(key: str, is_merged: bool) -> None:
    """Merged, the pod that went first came last, into a zone with too many by then; found by seed 1014096."""
    spread = TopologySpread(key, 1, selector=BOTH)
    even = pod_on("node-1", name="even", labels={"app": "a"}, spreads=(spread,))
    snapshot = world(pods=(even, pod_on("node-2", labels={"app": "b"})))
    first = msgspec.structs.replace(
        a_deletion("node-1", "node-2"), moves=(Move("default/even", "host"), Move("default/x", "node-2"))
    )
    found = merged([first], a_deletion("node-2", "host"), snapshot)
    assert (len(found) == 1) is is_merged


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
    found = merged(
        [first, between], a_deletion("node-3", "x"), world(pods=tuple(pod for pod in pods if pod.name == known))
    )
    assert [command.nodes for command in found] == [("node-2",), ("node-1", "node-3")]


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
    found = merged([a_deletion("node-1", "node-2")], a_deletion("node-2", "x"), world(pods=pods))
    assert [command.nodes for command in found] == [("node-1", "node-2")]


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
    found = merged(apart, msgspec.structs.replace(a_deletion("host", "y"), moves=on), snapshot)
    assert [command.nodes for command in found] == [("a", "b", "d", "c", "host")]


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
