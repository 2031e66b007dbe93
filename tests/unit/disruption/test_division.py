"""What couples NodePools, what keeps a cluster whole, and what becomes of parts for which there is no time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.command import carried_out
from core.disruption.division import divided
from core.disruption.target.stored import after_commands
from core.model.node_pool import Budget, Disruption
from core.model.plan import DisruptionPlan, NodeClaim, StoredTarget
from core.model.pod import Pod, PodAffinityTerm, TopologySpread, VolumeUse
from core.model.snapshot import Node, Options, PodDisruptionBudget, Snapshot
from core.model.values.taints import Taint, Toleration
from core.reasons.code import TargetReason
from core.reasons.nodes import NodeReason
from core.scheduling.planner import Planner
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_selector
from tests.unit.disruption.nodes_for_tests import MIDDLE, ON_DEMAND, OPEN, pod_on, world

TEAMS: Final = ("blue", "green", "red")


def tolerates(*teams: str) -> tuple[Toleration, ...]:
    """Tolerations of the taints of these teams' nodes."""
    return tuple(Toleration(key="team", operator="Equal", value=team, effect="NoSchedule") for team in teams)


def machine(team: str, number: int, zone: str = ZONES[0]) -> tuple[NodeClaim, Node]:
    """A node with its team's taint."""
    return a_node_of(MIDDLE, f"{team}-{number}", pool=team, zone=zone, taints=(Taint("team", "NoSchedule", team),))


def teams(*pods: Pod, number: int = 3, **changes: Any) -> Snapshot:
    """A NodePool for each team, with nodes of which each has a pod that uses a tenth and may go to nodes of its team alone."""
    pairs = [machine(team, n) for team in TEAMS for n in range(number)]
    running = [on(team, n) for team in TEAMS for n in range(number)]
    pools = [a_pool(team, ON_DEMAND, taints=(Taint("team", "NoSchedule", team),), disruption=OPEN) for team in TEAMS]
    return world(*pairs, **{"pods": (*running, *pods), "node_pools": tuple(pools), **changes})


def on(team: str, number: int, name: str = "", **changes: Any) -> Pod:
    """A pod on a node of its team."""
    return pod_on(f"{team}-{number}", name, **{"cpu": "400m", "tolerations": tolerates(team), **changes})


def pools_of_parts(snapshot: Snapshot, most: int = 1) -> list[list[str]]:
    """The NodePools of each part; those of the whole cluster where it is not divided."""
    parts = divided(snapshot, Planner(snapshot).context, most).parts or (snapshot,)
    return sorted(sorted(pool.name for pool in part.node_pools) for part in parts)


def in_parts(snapshot: Snapshot, most: int = 1) -> Snapshot:
    """The same with the option that divides it."""
    return msgspec.structs.replace(snapshot, options=msgspec.structs.replace(snapshot.options, part_nodes=most))


def test_nodepools_with_taints_are_apart_and_small_ones_share_a_part() -> None:
    assert pools_of_parts(teams()) == [["blue"], ["green"], ["red"]]
    assert pools_of_parts(teams(), 6) == [["blue", "green"], ["red"]]
    assert pools_of_parts(teams(), 9) == [list(TEAMS)]


AFFINITY: Final = PodAffinityTerm(labels.ZONE, a_selector(app="db"))


@pytest.mark.parametrize(
    "coupling",
    [
        lambda: teams(on("blue", 0, "both", tolerations=tolerates("blue", "red"))),
        lambda: teams(a_pod("waits", tolerations=tolerates("blue", "red"))),
        lambda: teams(
            on("blue", 0, "a", labels={"app": "web"}),
            on("red", 0, "b", labels={"app": "web"}),
            budgets=(PodDisruptionBudget(namespace="default", name="web", selector=a_selector(app="web")),),
        ),
        lambda: teams(on("blue", 0, "a", affinity=(AFFINITY,)), on("red", 0, "b", labels={"app": "db"})),
        lambda: teams(on("blue", 0, "a", labels={"app": "db"}), on("red", 0, "b", anti_affinity=(AFFINITY,))),
        lambda: teams(
            on("blue", 0, "a", volumes=(VolumeUse("data"),)),
            on("red", 0, "b", volumes=(VolumeUse("data"),)),
        ),
    ],
    ids=["running pod", "waiting pod", "budget", "affinity", "anti-affinity", "volume"],
)
def test_what_pods_of_two_nodepools_share_keeps_both_in_one_part(coupling: Callable[[], Snapshot]) -> None:
    assert pools_of_parts(coupling()) == [["blue", "red"], ["green"]]


def test_a_spread_whose_domains_are_those_of_other_nodes_too_keeps_all_together() -> None:
    """Without the other nodes, the zone with the fewest pods would be another one, and the spread would allow more."""
    spread = TopologySpread(labels.ZONE, 1, selector=a_selector(app="web"))
    spreads = on("blue", 0, "a", labels={"app": "web"}, spreads=(spread,))
    apart = teams(spreads)
    elsewhere = msgspec.structs.replace(
        apart,
        nodes=tuple(_moved(node) if node.name.startswith("red") else node for node in apart.nodes),
    )
    everywhere = [machine("blue", 5, zone) for zone in ZONES]
    assert pools_of_parts(elsewhere) == [list(TEAMS)]
    nodes = [msgspec.structs.replace(node, name=f"blue-{n}") for n, (_, node) in enumerate(everywhere, 5)]
    assert pools_of_parts(msgspec.structs.replace(elsewhere, nodes=(*elsewhere.nodes, *nodes))) == [
        ["blue"],
        ["green"],
        ["red"],
    ]


def _moved(node: Node) -> Node:
    return msgspec.structs.replace(node, labels={**node.labels, labels.ZONE: ZONES[1]})


def test_a_node_without_a_nodepool_couples_the_pods_that_may_use_it() -> None:
    _, bare = a_node_of(MIDDLE, "bare")
    without = {key: value for key, value in bare.labels.items() if key != labels.NODEPOOL}
    snapshot = teams()
    shared = msgspec.structs.replace(snapshot, nodes=(*snapshot.nodes, msgspec.structs.replace(bare, labels=without)))
    assert pools_of_parts(shared) == [list(TEAMS)]


@pytest.mark.parametrize(
    ("changes", "shared"),
    [
        ({"options": Options(karpenter_moves_only=True)}, "Karpenter's order of nodes"),
        ({"options": Options(evictions_per_hour=9)}, "a limit on evictions per hour"),
        ({"subnet_addresses": {"subnet-1": 3}}, "subnets with few free addresses"),
        ({"vcpu_quotas": {"L-1216C47A": 71}}, "EC2 quotas that are half used"),
    ],
)
def test_what_all_nodepools_share_keeps_the_cluster_whole(changes: dict[str, Any], shared: str) -> None:
    snapshot = teams(**changes)
    assert divided(snapshot, Planner(snapshot).context, 1).undivided == f"all NodePools share {shared}"
    assert disrupt(in_parts(snapshot), proves=False).undivided.endswith(shared)


def test_a_quota_with_room_for_as_much_again_is_not_shared() -> None:
    assert len(pools_of_parts(teams(vcpu_quotas={"L-1216C47A": 72}))) == len(TEAMS)


def gone(plan: DisruptionPlan) -> set[str]:
    """The nodes that commands remove."""
    return {node for command in plan.commands for node in command.nodes}


def test_parts_that_share_nothing_are_decided_about_as_the_whole_is() -> None:
    whole, parts = disrupt(teams()), disrupt(in_parts(teams()))
    assert (whole.parts, parts.parts) == (1, len(TEAMS))
    assert gone(whole) == gone(parts)
    assert (whole.cost.before, whole.cost.after) == (parts.cost.before, parts.cost.after)
    assert (whole.blocked, whole.budgets) == (parts.blocked, parts.budgets)
    assert whole.target is not None
    assert parts.target is not None
    numbers = ("settings", "kept_price", "kept_by_pool", "drained_price", "new_price")
    assert [getattr(whole.target, name) for name in numbers] == [getattr(parts.target, name) for name in numbers]
    assert parts.cost.lower_bound == pytest.approx(whole.cost.lower_bound, abs=len(TEAMS))  # each is rounded
    assert gone(parts)


class Clock:
    """Time is up after this many readings."""

    def __init__(self, readings: int = 10**6) -> None:
        self.read = 0
        self._most = readings

    def __call__(self) -> float:
        self.read += 1
        return 0.0 if self.read <= self._most else 0.8


def test_a_part_without_time_is_left_alone_and_has_its_turn_in_a_later_minute() -> None:
    """Each run has time for one part. A run's time is a minute after that of the one before."""
    snapshot, whole = in_parts(teams()), Clock()
    disrupt(snapshot, proves=False, deadline=whole)
    examined = []
    for minute in range(len(TEAMS)):
        later = msgspec.structs.replace(snapshot, now=NOW + timedelta(minutes=minute))
        plan = disrupt(later, proves=False, deadline=Clock(whole.read // len(TEAMS)))
        left_alone = {block.node for block in plan.blocked if block.reason == NodeReason.NOT_TRIED}
        [team] = {node.partition("-")[0] for node in gone(plan)}
        assert left_alone == {node.name for node in snapshot.nodes if not node.name.startswith(team)}
        examined.append(team)
    assert sorted(examined) == sorted(TEAMS)


def slow(number: int = 6, **changes: Any) -> Snapshot:
    """The same teams; a node of each may go at a time."""
    one = Disruption(budgets=(Budget("1"),))
    snapshot = teams(number=number, **changes)
    pools = tuple(msgspec.structs.replace(pool, disruption=one) for pool in snapshot.node_pools)
    return in_parts(msgspec.structs.replace(snapshot, node_pools=pools))


def teams_of(target: StoredTarget | None) -> set[str]:
    """The teams whose nodes the target drains."""
    return {drain.node.partition("-")[0] for drain in target.drains} if target is not None else set()


def test_each_part_continues_its_part_of_the_stored_target() -> None:
    snapshot = slow()
    first = disrupt(snapshot, proves=False)
    assert (first.target_reason, teams_of(first.target), len(gone(first))) == (TargetReason.MADE, set(TEAMS), 3)
    kept = after_commands(first.target, first.commands, snapshot.pods, {}) if first.target is not None else None
    assert teams_of(kept) == set(TEAMS)
    assert kept is not None
    assert kept.kept_price == sum(kept.kept_by_pool.values())
    then = carried_out(snapshot, *first.commands)
    again = disrupt(msgspec.structs.replace(then, stored_target=kept), proves=False)
    assert (again.target_reason, len(gone(again))) == (TargetReason.CONTINUED, 3)
    assert again.target is not None
    assert again.target.made_at == kept.made_at


def test_a_target_of_an_older_release_or_of_other_settings_is_planned_again() -> None:
    snapshot = slow()
    target = disrupt(snapshot, proves=False).target
    assert target is not None
    for older in ({"kept_by_pool": {}}, {"settings": "other"}):
        stored = msgspec.structs.replace(target, **{"kept_price": 1, **older})
        again = disrupt(msgspec.structs.replace(snapshot, stored_target=stored), proves=False)
        assert again.target_reason == TargetReason.MADE


def test_a_part_left_alone_keeps_its_part_of_the_target() -> None:
    snapshot = slow()
    target = disrupt(snapshot, proves=False).target
    late = disrupt(msgspec.structs.replace(snapshot, stored_target=target), proves=False, deadline=Clock(0))
    assert late.commands == ()
    assert late.target == target
