"""Commands that are valid alone and break a rule together; found by seed 101120 of the random worlds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption import independence
from core.disruption.candidates.candidate import Candidate
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.independence import Independence
from core.model.catalogue import Catalogue
from core.model.plan import Command, Move, PlannedClaim
from core.model.pod import LabelSelector, PodAffinityTerm, TopologySpread
from core.model.policy import Service
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement
from core.scheduling.pods.default_topology_spread import DefaultSpreads
from tests.builders import CLASS_REF, a_node_of, a_pool, a_type
from tests.unit.disruption.nodes_for_tests import MIDDLE, ON_DEMAND, OPEN, TYPES, pod_on, world

MOVES_TO_X_AND_Z = (Move("default/a", "x"), Move("default/b", "z"))
GPU = "nvidia.com/gpu"
AWAY = PodAffinityTerm(labels.ZONE, LabelSelector((Requirement.one_of("app", "b"),)))


def candidates(*, limits: dict[str, int] | None = None, **first: Any) -> tuple[DisruptionPass, list[Candidate]]:
    """Two nodes with a pod each; `first` is the first pod's."""
    pods = (pod_on("node-1", labels={"app": "a"}, **first), pod_on("node-2", labels={"app": "b"}))
    pools = (a_pool("default", ON_DEMAND, disruption=OPEN, limits=limits or {}),)
    this_pass = DisruptionPass(world(a_node_of(MIDDLE), a_node_of(MIDDLE, "node-2"), pods=pods, node_pools=pools))
    return this_pass, list(this_pass.survey.candidates)


def a_command(node: str, to: str, *types: str, **claim: Any) -> Command:
    fields = {"node_class": CLASS_REF, "node_pool": "default", "instance_types": types, **claim}
    replacements = (PlannedClaim(name=to, **fields),) if types else ()
    return Command(
        reason="Drifted",
        method="drift",
        nodes=(node,),
        claims=(node,),
        replacements=replacements,
        moves=(Move(f"default/on-{node}", to),),
    )


@pytest.mark.parametrize(
    ("world_of", "first", "second", "are"),
    [
        ({}, a_command("node-1", "x"), a_command("node-2", "y"), True),
        ({}, a_command("node-1", "x"), a_command("node-2", "x"), False),
        ({}, a_command("node-1", "node-2"), a_command("node-2", "y"), False),
        ({}, a_command("node-1", "x"), a_command("node-2", "node-1"), False),
        ({"anti_affinity": (AWAY,)}, a_command("node-1", "x"), a_command("node-2", "y"), False),
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
    together = Independence(this_pass.snapshot)
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
    together = Independence(snapshot)

    def command(node: str) -> Command:
        (claim,) = a_command(node, f"{node}-new", "t-1").replacements
        claims = [msgspec.structs.replace(claim, name=f"{claim.name}-{n}", node_pool=p) for n, p in enumerate(pools)]
        return msgspec.structs.replace(a_command(node, claims[0].name), replacements=tuple(claims))

    assert together.takes(command("node-1"), one)
    assert together.takes(command("node-2"), two) is are


def a_deletion(node: str, to: str) -> Command:
    moves = (Move(f"default/on-{node}", to),)
    return Command(reason="Underutilized", method="single", nodes=(node,), claims=(node,), moves=moves)


def with_default_spread(snapshot: Snapshot, key: str) -> Snapshot:
    """The snapshot with a default spread along a key, for the pods of one Service."""
    service = Service(namespace="default", name="shop", selector={"of": "shop"})
    options = msgspec.structs.replace(snapshot.options, default_spreads=(TopologySpread(key, 1),))
    return msgspec.structs.replace(snapshot, services=(service,), options=options)


@pytest.mark.parametrize(("key", "are"), [(labels.ZONE, False), (labels.HOSTNAME, True)])
def test_a_default_spread_over_zones_connects_pods_as_their_own_does(key: str, are: bool) -> None:
    nodes = (a_node_of(MIDDLE), a_node_of(MIDDLE, "node-2"))
    pods = tuple(pod_on(name, labels={"of": "shop"}) for name in ("node-1", "node-2"))
    snapshot = with_default_spread(world(*nodes, pods=pods), key)
    one, two = DisruptionPass(snapshot).survey.candidates
    assert are_independent(one, two, snapshot) is are


def are_independent(one: Candidate, two: Candidate, snapshot: Snapshot) -> bool:
    together = Independence(snapshot)
    assert together.takes(a_command("node-1", "x"), one)
    return together.takes(a_command("node-2", "y"), two)


def widened(commands: list[Command], command: Command, snapshot: Snapshot) -> list[Command]:
    """The commands with one more, in a cluster."""
    return independence.widened(commands, command, snapshot.pods, DefaultSpreads(snapshot))


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
    together = Independence(this_pass.snapshot)
    assert together.takes(a_command("node-2", "y"), two)
    assert together.takes(a_command("node-1", "x"), one) is are


def test_a_refused_command_leaves_no_trace() -> None:
    """Otherwise, what it would have filled and needed keeps others from starting."""
    this_pass, (one, two) = candidates()
    together = Independence(this_pass.snapshot)
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
    together = Independence(msgspec.structs.replace(this_pass.snapshot, catalogue=Catalogue(default=types)))
    assert together.takes(a_command("node-1", "x", *instance_types), one)
    assert together.takes(a_command("node-2", "y", *instance_types), two) is are


class TestWidened:
    def test_a_deletion_that_fills_a_node_becomes_part_of_that_nodes_own(self) -> None:
        merged = widened([a_deletion("node-1", "node-2")], a_deletion("node-2", "node-3"), world())
        assert [command.nodes for command in merged] == [("node-1", "node-2")]

    def test_a_deletion_that_another_command_builds_upon_keeps_its_place(self) -> None:
        """Merged, it would come after the command that moves its pods on; found by seed 500624 of the random worlds."""
        first = msgspec.structs.replace(
            a_deletion("node-1", "node-2"),
            moves=(Move("default/on-node-1", "node-2"), Move("default/other", "node-3")),
        )
        commands = [first, a_command("node-2", "x", "t-4")]
        assert widened(commands, a_deletion("node-3", "x"), world()) == [*commands, a_deletion("node-3", "x")]

    def test_the_merged_command_has_all_that_its_parts_had(self) -> None:
        """Pods that were to stop over move on: each moves once, to where it stays."""
        aside = Move("default/aside", "node-7")
        first = msgspec.structs.replace(a_deletion("node-1", "node-2"), savings=3)
        first = msgspec.structs.replace(first, moves=(*first.moves, aside))
        on = (*a_deletion("node-2", "node-3").moves, Move("default/on-node-1", "node-3"))
        second = msgspec.structs.replace(a_deletion("node-2", "node-3"), moves=on, savings=4)
        kept = a_deletion("node-8", "node-9")
        found = widened([kept, first], second, world())
        whole = msgspec.structs.replace(
            second,
            method="multi",
            nodes=("node-1", "node-2"),
            claims=("node-1", "node-2"),
            moves=(aside, Move("default/on-node-1", "node-3"), Move("default/on-node-2", "node-3")),
            savings=7,
        )
        assert found == [kept, whole]

    def test_a_command_of_another_method_keeps_its_name(self) -> None:
        empty = msgspec.structs.replace(a_deletion("node-2", "node-3"), method="repack")
        assert [command.method for command in widened([a_deletion("node-1", "node-2")], empty, world())] == ["repack"]

    @pytest.mark.parametrize(
        "earlier",
        [
            a_deletion("node-1", "node-9"),
            msgspec.structs.replace(a_command("node-1", "node-2", "t-4"), reason="Underutilized"),
            msgspec.structs.replace(a_deletion("node-1", "node-2"), reason="Empty"),
        ],
        ids=["moves-nothing-there", "launches", "other-reason"],
    )
    def test_other_commands_stay_apart(self, earlier: Command) -> None:
        last = a_deletion("node-2", "node-3")
        assert widened([earlier], last, world()) == [earlier, last]

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
        self, spread: TopologySpread, other: str, moves_on: bool, is_merged: bool
    ) -> None:
        """Merged, it would come after a pod that its spread counts; found by seed 305121 of the random worlds."""
        pods = (
            pod_on("node-1", name="even", labels={"app": "a"}, spreads=(spread,)),
            pod_on("node-2", name="counted", labels={"app": "b"}),
        )
        snapshot = world(pods=pods)
        even, counted = Move("default/even", "host"), Move("default/counted", other)
        first = msgspec.structs.replace(
            a_deletion("node-1", "node-3"), moves=(even, Move("default/on-node-1", "node-3"))
        )
        between = msgspec.structs.replace(a_deletion("node-2", other), moves=(counted,))
        last = a_deletion("node-3", "x")
        if moves_on:
            last = msgspec.structs.replace(last, moves=(*last.moves, Move("default/even", "x")))
        found = widened([first, between], last, snapshot)
        assert [command.nodes for command in found] == (
            [("node-2",), ("node-1", "node-3")] if is_merged else [("node-1",), ("node-2",), ("node-3",)]
        )
        assert len(widened([between, first], last, snapshot)) == 2

    @pytest.mark.parametrize(("selected", "is_merged"), [({"of": "shop"}, False), ({"of": "other"}, True)])
    def test_a_default_spread_over_hosts_counts_as_one_of_the_pods_own(
        self, selected: dict[str, str], is_merged: bool
    ) -> None:
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
        found = widened([first, a_deletion("node-2", "host")], a_deletion("node-3", "x"), snapshot)
        assert (len(found) == 2) is is_merged

    @pytest.mark.parametrize(("key", "is_merged"), [(labels.ZONE, False), (labels.HOSTNAME, True)])
    def test_pods_of_the_last_command_count_in_shared_domains(self, key: str, is_merged: bool) -> None:
        """Merged, the pod that went first came last, into a zone with too many by then; found by seed 1014096."""
        spread = TopologySpread(key, 1, selector=BOTH)
        even = pod_on("node-1", name="even", labels={"app": "a"}, spreads=(spread,))
        snapshot = world(pods=(even, pod_on("node-2", labels={"app": "b"})))
        first = msgspec.structs.replace(
            a_deletion("node-1", "node-2"), moves=(Move("default/even", "host"), Move("default/x", "node-2"))
        )
        found = widened([first], a_deletion("node-2", "host"), snapshot)
        assert (len(found) == 1) is is_merged

    def test_one_of_two_earlier_commands_that_cannot_be_merged_keeps_all_apart(self) -> None:
        earlier = [
            a_deletion("node-1", "node-2"),
            msgspec.structs.replace(a_deletion("node-4", "node-2"), reason="Empty"),
        ]
        last = a_deletion("node-2", "node-3")
        assert widened(earlier, last, world()) == [*earlier, last]

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
    def test_a_command_that_says_nothing_of_its_pods_is_not_merged(
        self, changes: dict[str, Any], is_merged: bool
    ) -> None:
        """Drift of static pools replaces nodes and moves no pods; an empty node has none to move."""
        last = msgspec.structs.replace(a_deletion("node-2", ""), **{"moves": (), **changes})
        assert (len(widened([a_deletion("node-1", "node-2")], last, world())) == 1) is is_merged


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
    found = widened(
        [first, between], a_deletion("node-3", "x"), world(pods=tuple(pod for pod in pods if pod.name == known))
    )
    assert [command.nodes for command in found] == [("node-2",), ("node-1", "node-3")]
