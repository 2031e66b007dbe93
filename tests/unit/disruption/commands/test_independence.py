"""Commands that are valid alone and break a rule together; found by seed 101120 of the random worlds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption.candidates.candidate import Candidate
from core.disruption.commands.independence import Independence
from core.disruption.disruption_pass import DisruptionPass
from core.model.catalogue import Catalogue
from core.model.plan import Command, Move
from core.model.pod import LabelSelector, PodAffinityTerm, TopologySpread
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement
from core.scheduling.pods.default_topology_spread import DefaultSpreads
from tests.builders import a_node_of, a_pool, a_type
from tests.unit.disruption.commands.commands_for_tests import a_command, with_default_spread
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
