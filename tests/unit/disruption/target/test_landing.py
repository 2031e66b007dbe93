"""Tests of `core.disruption.target.landing`: kube-scheduler's choice for moved pods.

`python -m tests.oracle_scheduler.agreement` compares it with the scheduler's own plugins.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption.target.landing import Landing, _Selection, landed
from core.model.node_pool import Budget, Disruption
from core.model.plan import Command, Move, PlannedClaim
from core.model.pod import (
    NodeSelectorTerm,
    Owner,
    Pod,
    PodAffinityTerm,
    PreferredTerm,
    TopologySpread,
    WeightedPodAffinityTerm,
)
from core.model.snapshot import LEAST_ALLOCATED, MOST_ALLOCATED, Node, Options, Snapshot
from core.model.values.requirements import Requirement
from core.model.values.taints import OUTDATED, Toleration
from tests.builders import CLASS_REF, ZONES, a_node_of, a_pool, a_selector
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, ON_DEMAND, pod_on, world

ALONE = (Owner("Workload", "alone"),)
PRICES = {"gone": 5, "gone-2": 7}


def cluster(*pods: Pod, scoring: str = LEAST_ALLOCATED) -> Snapshot:
    """The nodes of these pods, and three more: `full` has a pod of 2 vCPU, `half` of 1, `idle` none."""
    names = sorted({"full", "half", "idle", *(pod.node_name for pod in pods)})
    loads = (pod_on("full", "load-2", cpu="2", owners=ALONE), pod_on("half", "load-1", cpu="1", owners=ALONE))
    pairs = [a_node_of(MIDDLE, name) for name in names]
    return world(*pairs, pods=(*loads, *pods), options=Options(scoring=scoring))


def a_command(*pods: Pod, to: str = "full", nodes: tuple[str, ...] = ("gone",), **changes: Any) -> Command:
    """A command that moves these pods."""
    fields = {"reason": "Underutilized", "method": "repack", "savings": sum(PRICES[node] for node in nodes)}
    moves = tuple(Move(pod.key, to) for pod in pods)
    return Command(nodes=nodes, claims=tuple(f"default-{n}" for n in nodes), moves=moves, **{**fields, **changes})


def places(snapshot: Snapshot, *pods: Pod, later: tuple[str, ...] = ()) -> list[str]:
    """Where the pods of `gone` land."""
    (command,) = landed([a_command(*pods)], snapshot, later, PRICES).commands
    to = {move.pod: move.to for move in command.moves}
    return [to[pod.key] for pod in pods]


def marked(snapshot: Snapshot, *names: str) -> Snapshot:
    """The cluster, where these nodes have drifted."""

    def mark(node: Node) -> Node:
        return msgspec.structs.replace(node, taints=(OUTDATED,)) if node.name in names else node

    return msgspec.structs.replace(snapshot, nodes=tuple(map(mark, snapshot.nodes)))


@pytest.mark.parametrize(("scoring", "node"), [(LEAST_ALLOCATED, "idle"), (MOST_ALLOCATED, "full")])
def test_a_pod_lands_on_the_emptiest_node_or_on_the_fullest(scoring: str, node: str) -> None:
    """A target's own place would be announced, and would not hold."""
    pod = pod_on("gone", owners=ALONE)
    assert places(cluster(pod, scoring=scoring), pod) == [node]


def test_each_pod_lands_where_the_one_before_has_left_it_the_most_room() -> None:
    pods = [pod_on("gone", f"p{number}", cpu="1200m", owners=ALONE) for number in range(3)]
    assert places(cluster(*pods), *pods) == ["idle", "half", "idle"]


def test_a_node_that_goes_later_is_no_place_even_if_it_is_the_emptiest() -> None:
    """Its pods would move twice. It carries a mark that outweighs the room."""
    pod = pod_on("gone", owners=ALONE)
    assert places(cluster(pod), pod, later=("idle",)) == ["half"]


def test_a_drifted_node_is_avoided_but_taken_by_who_tolerates_its_mark() -> None:
    pod, tolerant = (
        pod_on("gone", name, owners=ALONE, tolerations=own)
        for name, own in (("p", ()), ("tolerant", (Toleration("fleetwright.dev/outdated", "Exists"),)))
    )
    assert places(marked(cluster(pod), "idle"), pod) == ["half"]
    assert places(marked(cluster(tolerant), "idle"), tolerant) == ["idle"]


def test_replicas_of_one_controller_are_kept_apart_by_default() -> None:
    """kube-scheduler's default spread over hosts outweighs the free room."""
    mine = (Owner("ReplicaSet", "web", is_controller=True),)
    sibling = pod_on("idle", "s", cpu="100m", labels={"app": "web"}, owners=mine)
    pod = pod_on("gone", "p", labels={"app": "web"}, owners=mine)
    assert places(cluster(sibling, pod), pod) == ["half"]
    lonely = msgspec.structs.replace(pod, owners=ALONE)
    assert places(cluster(sibling, lonely), lonely) == ["idle"]


def test_a_preference_of_nodes_outweighs_the_free_room() -> None:
    wanted = PreferredTerm(1, NodeSelectorTerm((Requirement.one_of(labels.HOSTNAME, "full"),)))
    pod = pod_on("gone", owners=ALONE, preferred_terms=(wanted,))
    assert places(cluster(pod), pod) == ["full"]


@pytest.mark.parametrize(("field", "node"), [("preferred_affinity", "full"), ("preferred_anti_affinity", "half")])
def test_preferences_between_pods_count_both_ways(field: str, node: str) -> None:
    """What the pod prefers, and what pods that are there prefer of it."""
    term = WeightedPodAffinityTerm(10, PodAffinityTerm(labels.HOSTNAME, a_selector(app="db")))
    there = "full" if field == "preferred_affinity" else "idle"
    database = pod_on(there, "db", cpu="10m", labels={"app": "db"}, owners=ALONE)
    asking = pod_on("gone", "p", owners=ALONE, **{field: (term,)})
    assert places(cluster(database, asking), asking) == [node]
    of_it = WeightedPodAffinityTerm(10, PodAffinityTerm(labels.HOSTNAME, a_selector(app="web")))
    choosy = pod_on(there, "db", cpu="10m", labels={"app": "db"}, owners=ALONE, **{field: (of_it,)})
    joining = pod_on("gone", "p", labels={"app": "web"}, owners=ALONE)
    assert places(cluster(choosy, joining), joining) == [node]


def test_the_pods_of_a_workload_are_not_compared_with_those_of_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 5,000 workloads, 25 million comparisons took most of a decision's time."""
    compared: list[str] = []
    has = _Selection.has

    def counted(selection: _Selection, pod: Pod) -> bool:
        compared.append(pod.key)
        return has(selection, pod)

    monkeypatch.setattr(_Selection, "has", counted)
    pods = []
    for number in range(30):
        app, owners = {"app": f"w{number}"}, (Owner("ReplicaSet", f"w{number}", is_controller=True),)
        near = WeightedPodAffinityTerm(10, PodAffinityTerm(labels.HOSTNAME, a_selector(**app)))
        there = pod_on("half", f"there-{number}", cpu="10m", labels=app, owners=owners, preferred_anti_affinity=(near,))
        pods += [there, pod_on("gone", f"comes-{number}", cpu="10m", labels=app, owners=owners)]
    coming = [pod for pod in pods if pod.node_name == "gone"]
    assert set(places(cluster(*pods), *coming)) == {"full", "idle"}
    assert len(compared) <= 6 * len(coming)


def test_with_too_many_pairs_all_keep_the_targets_places_and_none_is_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 5,000 pods and 500 nodes, those beyond the bound were listed once for each node: half of a decision's time."""
    pods = [pod_on("gone", f"p{number}", owners=ALONE) for number in range(2)]
    command, snapshot = a_command(*pods), cluster(*pods)
    nodes = len(snapshot.nodes)
    monkeypatch.setattr("core.disruption.target.landing.PAIRS_MAX", 2 * nodes)
    assert places(snapshot, *pods) == ["idle", "idle"]
    monkeypatch.setattr("core.disruption.target.landing.PAIRS_MAX", 2 * nodes - 1)
    monkeypatch.setattr("core.disruption.target.landing.NodeScores", None)
    assert landed([command], snapshot, (), PRICES) == Landing((command,))


def test_a_node_whose_pod_would_find_no_place_stays_and_the_others_go() -> None:
    """The large pod of `gone-2` comes second: each node has a small one by then."""
    small = [pod_on("gone", f"a{number}", cpu="1500m", owners=ALONE) for number in range(4)]
    large = pod_on("gone-2", "large", cpu="3", owners=ALONE)
    snapshot = cluster(*small, large)
    both = a_command(*small, large, nodes=("gone", "gone-2"))
    landing = landed([both], snapshot, (), PRICES)
    (command,) = landing.commands
    assert (command.nodes, command.claims, command.savings) == (("gone",), ("default-gone",), PRICES["gone"])
    assert {move.pod for move in command.moves} == {pod.key for pod in small}
    assert landing.stays == {"gone-2": "default/large"}


def test_a_drain_whose_pod_fits_few_nodes_goes_before_those_that_would_fill_them() -> None:
    """The second command's pod fits only the idle node, which the first one's pods would take."""
    small = pod_on("gone", "small", cpu="1500m", owners=ALONE)
    large = pod_on("gone-2", "large", cpu="3500m", owners=ALONE)
    landing = landed([a_command(small), a_command(large, nodes=("gone-2",))], cluster(small, large), (), PRICES)
    assert [(command.nodes, [move.to for move in command.moves]) for command in landing.commands] == [
        (("gone-2",), ["idle"]),
        (("gone",), ["half"]),
    ]
    assert not landing.stays


def test_a_new_node_to_which_no_pod_comes_is_not_launched() -> None:
    """Packing fills nodes that the target keeps empty for others, and a node that stays empty only costs money."""
    pod, busy = pod_on("gone", owners=ALONE), pod_on("idle", "busy", cpu="1", owners=ALONE)
    where = {"zones": ZONES, "capacity_types": (labels.ON_DEMAND,), "instance_types": ("t-4",)}
    new = PlannedClaim(name="new", node_pool="default", node_class=CLASS_REF, price=3, pods=(pod.key,), **where)
    awaits = {"gone": (new.name,)}
    command = a_command(pod, to=new.name, replacements=(new,), awaits=awaits, savings=PRICES["gone"] - new.price)
    (unlaunched,) = landed([command], cluster(pod, busy, scoring=MOST_ALLOCATED), (), PRICES).commands
    assert (unlaunched.replacements, unlaunched.awaits, unlaunched.savings) == ((), {}, PRICES["gone"])
    assert [move.to for move in unlaunched.moves] == ["full"]
    settling = Disruption(consolidate_after=timedelta(hours=1), budgets=(Budget("100%"),))
    for pools in (cluster().node_pools, (a_pool("default", ON_DEMAND, disruption=settling),)):
        snapshot = msgspec.structs.replace(cluster(pod, busy), node_pools=pools)
        (launching,) = landed([command], snapshot, (), PRICES).commands
        assert (launching.replacements[0].pods, launching.savings) == ((pod.key,), command.savings)


def test_a_new_node_grows_until_it_also_has_room_for_a_pod_without_a_place() -> None:
    """It keeps the planned types that have the room, as long as the command still saves."""
    small = [pod_on("gone", f"a{number}", cpu="1500m", owners=ALONE) for number in range(6)]
    large = pod_on("gone-2", "large", cpu="3", owners=ALONE)
    where = {"zones": ZONES, "capacity_types": (labels.ON_DEMAND,), "instance_types": ("t-4", "t-16")}
    price = MIDDLE.offerings[0].price
    planned = {"pods": (large.key,), "resources": large.spec.requests}
    new = PlannedClaim(name="new", node_pool="default", node_class=CLASS_REF, price=price, **planned, **where)
    moves = {"replacements": (new,), "nodes": ("gone", "gone-2")}
    command = msgspec.structs.replace(a_command(large, *small, to="new", **moves), savings=4 * price)
    (grown,) = landed([command], cluster(*small, large), (), PRICES).commands
    assert grown.replacements[0].instance_types == ("t-16",)
    assert grown.savings == command.savings + price - LARGE.offerings[0].price
    expensive = msgspec.structs.replace(command, savings=price)
    assert landed([expensive], cluster(*small, large), (), PRICES).commands == ()


OF_POOL, OF_TYPE = Requirement.one_of(labels.NODEPOOL, "default"), Requirement.one_of(labels.INSTANCE_TYPE, "t-4")
OVER_TYPES = TopologySpread(labels.INSTANCE_TYPE, 9, selector=a_selector(app="none"))


@pytest.mark.parametrize(
    ("rules", "types", "moves"),
    [
        ({"node_selector": (OF_POOL,)}, ("t-4",), {"new": 2}),
        ({"node_selector": (OF_TYPE,)}, ("t-4",), {"new": 2}),
        ({"node_selector": (OF_TYPE,)}, ("t-4", "t-16"), {"half": 1, "new": 1}),
        ({"spreads": (OVER_TYPES,)}, ("t-4",), {"new": 2}),
        ({"spreads": (OVER_TYPES,)}, ("t-4", "t-16"), {"half": 1, "new": 1}),
    ],
)
def test_a_pod_with_rules_comes_to_a_new_node_of_which_they_know_the_labels(
    rules: dict[str, Any], types: tuple[str, ...], moves: dict[str, int]
) -> None:
    """kube-scheduler prefers the emptier new node also for a pod that was meant to go elsewhere."""
    small, large = (
        pod_on("gone", name, cpu=cpu, owners=ALONE, **rules) for name, cpu in (("small", "500m"), ("large", "600m"))
    )
    where = {"zones": ZONES, "capacity_types": (labels.ON_DEMAND,), "instance_types": types}
    planned = {"pods": (large.key,), "resources": large.spec.requests}
    new = PlannedClaim(name="new", node_pool="default", node_class=CLASS_REF, price=1, **planned, **where)
    command = a_command(replacements=(new,))
    command = msgspec.structs.replace(command, moves=(Move(large.key, "new"), Move(small.key, "half")))
    busy = pod_on("idle", "busy", cpu="3", owners=ALONE)
    (announced,) = landed([command], cluster(small, large, busy), (), PRICES).commands
    assert Counter(move.to for move in announced.moves) == moves


def test_nothing_goes_where_no_pod_finds_a_place() -> None:
    pod = pod_on("gone", cpu="3900m", owners=ALONE)
    busy = pod_on("idle", "busy", cpu="1", owners=ALONE)
    assert landed([a_command(pod)], cluster(pod, busy), (), PRICES).commands == ()


@pytest.mark.parametrize("reason", ["Drifted", "Underutilized"])
def test_no_pod_is_sent_to_a_node_that_is_not_initialized(reason: str) -> None:
    pod = pod_on("gone", owners=ALONE)
    nodes = [
        msgspec.structs.replace(node, labels={k: v for k, v in node.labels.items() if k != labels.INITIALIZED})
        if node.name == "idle"
        else node
        for node in cluster(pod).nodes
    ]
    snapshot = msgspec.structs.replace(cluster(pod), nodes=tuple(nodes))
    (command,) = landed([a_command(pod, reason=reason)], snapshot, (), PRICES).commands
    assert [move.to for move in command.moves] == ["half"]


def test_a_drifted_node_goes_at_any_cost() -> None:
    """Its pods have the places of the target, or wait for a node."""
    pod = pod_on("gone", cpu="3900m", owners=ALONE)
    busy = pod_on("idle", "busy", cpu="1", owners=ALONE)
    command = a_command(pod, reason="Drifted", method="drift")
    (found,) = landed([command], cluster(pod, busy), (), PRICES).commands
    assert found.moves == command.moves
