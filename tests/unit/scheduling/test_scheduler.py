"""The order in which the greedy planner takes pods and the virtual pods of capacity buffers."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec import structs

from core import labels
from core.model.node_pool import Disruption
from core.model.plan import NodeClaim
from core.model.pod import (
    DO_NOT_SCHEDULE,
    HostPort,
    NodeSelectorTerm,
    Owner,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    PodSpec,
    TopologySpread,
    VolumeUse,
)
from core.model.snapshot import CapacityBuffer, DaemonSet, FeatureGates, Node, Options, PodDisruptionBudget, Snapshot
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint
from core.reasons.pods import PodReason
from core.scheduling.context import SchedulingContext
from core.scheduling.planner import Planner
from core.scheduling.pods import Avoids
from core.scheduling.scheduler import DomainOrder, GreedyScheduler, GuidedSteps, least_of, least_requests_from, queue_of
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_stored_target, a_type
from tests.unit.disruption.nodes_for_tests import pod_on
from tests.unit.scheduling.greedy.types_for_tests import SMALL
from tests.unit.scheduling.reading import claim_of, context_of, group_of, places, plan_of, reasons_of

# Existing nodes come first: their room, labels, taints, ports and volumes, and nodes removed in a what-if.


TYPE = a_type("m", cpu="4", memory="16Gi", pods="10")
SET = (Owner("ReplicaSet", "rs", is_controller=True),)


def a_world(*names: str, **changes: Any) -> Snapshot:
    """Nodes of ours by these names, and the rest of a snapshot."""
    made = [a_node_of(TYPE, name) for name in names]
    fields = {"nodes": tuple(node for _, node in made), "node_claims": tuple(claim for claim, _ in made)}
    return a_snapshot(types=(TYPE,), **{**fields, **changes})


def placed(world: Snapshot) -> dict[str, str]:
    return places(Planner(world).plan())


def bound(name: str, node: str, **changes: Any) -> Any:
    return a_pod(name, **{"node_name": node, "phase": "Running", "owners": SET, **changes})


def test_free_room_is_used_before_anything_is_launched() -> None:
    """Otherwise, a superfluous node is paid for."""
    assert placed(a_world("n1", "n2", pods=(a_pod("p"), a_pod("q", cpu="3500m")))) == {"q": "n1", "p": "n2"}


def test_room_is_what_running_pods_and_missing_daemons_leave() -> None:
    """Otherwise, the pod would be planned onto a node that is full once its DaemonSet's pod arrives."""
    agent = DaemonSet(namespace="k", name="agent", spec=PodSpec(requests={"cpu": 2000, "pods": 1}))
    world = a_world("n1", pods=(bound("r", "n1"), a_pod("p", cpu="1500m")))
    assert placed(world) == {"p": "n1"}
    assert placed(msgspec.structs.replace(world, daemon_sets=(agent,))) == {"p": "default-0"}
    here = bound("agent-x", "n1", cpu="2", owners=(Owner("DaemonSet", "agent"),))
    with_agent = (here, bound("r", "n1", cpu="500m"), a_pod("p", cpu="1500m"))
    assert placed(msgspec.structs.replace(world, daemon_sets=(agent,), pods=with_agent)) == {"p": "n1"}


def test_labels_must_be_there_not_only_possible() -> None:
    """A new node may still get a label; a running one has it or not."""
    arch = (Requirement.one_of(labels.INSTANCE_TYPE, "m"), Requirement.one_of("team", "a"))
    assert placed(a_world("n1", pods=(a_pod("p", node_selector=arch[:1]),))) == {"p": "n1"}
    assert reasons_of(Planner(a_world("n1", pods=(a_pod("p", node_selector=arch),))).plan()) == {
        "p": PodReason.REQUIREMENT_NOT_MET
    }


def test_a_tainted_or_leaving_node_receives_nothing() -> None:
    """Otherwise, the pod would wait for a node that repels it or is about to vanish."""
    claim, node = a_node_of(TYPE, "n1")
    tainted = msgspec.structs.replace(node, taints=(Taint("x", NO_SCHEDULE),))
    going = msgspec.structs.replace(claim, deleted_at=NOW)
    for of_node in ({"nodes": (tainted,), "node_claims": (claim,)}, {"nodes": (node,), "node_claims": (going,)}):
        assert placed(a_world(pods=(a_pod("p"),), **of_node)) == {"p": "default-0"}


def test_a_launched_claim_receives_pods_before_its_node_joins() -> None:
    """Otherwise, each run launches another node for the same pods."""
    claim, _ = a_node_of(TYPE, "n1")
    in_flight = msgspec.structs.replace(claim, node_name="", conditions={})
    assert placed(a_world(node_claims=(in_flight,), pods=(a_pod("p"),))) == {"p": claim.name}


def test_a_claim_without_an_instance_counts_against_the_limit_and_offers_no_room() -> None:
    """Otherwise, the limit would be overshot while a launch is under way."""
    waiting = NodeClaim(name="w", labels={labels.NODEPOOL: "default"}, resources={"cpu": 4000})
    pools = (a_pool(limits={"nodes": 1}),)
    plan = Planner(a_world(node_claims=(waiting,), node_pools=pools, pods=(a_pod("p"),))).plan()
    assert reasons_of(plan) == {"p": PodReason.LIMIT_REACHED}


def test_host_ports_conflict_on_nodes_and_on_claims() -> None:
    """Otherwise, two pods use one port."""
    port = (HostPort(8080),)
    found = placed(a_world("n1", pods=(bound("r", "n1", host_ports=port), *(a_pod(n, host_ports=port) for n in "pq"))))
    assert found["p"] != found["q"]
    assert "n1" not in found.values()


def test_attachments_are_limited_if_the_node_says_so_and_shared_volumes_count_once() -> None:
    """Otherwise, the volume would never attach and the pod never start."""
    volumes = tuple(PersistentVolume(name=f"v{n}", driver="ebs.csi.aws.com") for n in range(3))
    claims = tuple(
        PersistentVolumeClaim(namespace="default", name=f"c{n}", volume_name=f"v{n}", is_bind_completed=True)
        for n in range(3)
    )
    claim, node = a_node_of(TYPE, "n1", attach_limits={"ebs.csi.aws.com": 2})

    def pod(name: str, volume: int, **changes: Any) -> Any:
        return a_pod(name, cpu="100m", volumes=(VolumeUse(f"c{volume}"),), **changes)

    pods = (pod("r", 0, node_name="n1", phase="Running"), pod("same", 0), pod("p", 1), pod("q", 2))
    world = a_snapshot(
        types=(TYPE,), nodes=(node,), node_claims=(claim,), volumes=volumes, volume_claims=claims, pods=pods
    )
    assert placed(world) == {"same": "n1", "p": "n1", "q": "default-0"}
    dying = msgspec.structs.replace(claims[0], is_terminating=True)
    held = msgspec.structs.replace(world, pods=(pods[0], *pods[2:]), volume_claims=(dying, *claims[1:]))
    assert placed(held) == {"p": "n1", "q": "default-0"}, "a volume whose claim is being deleted is attached still"


def test_pods_of_a_leaving_node_are_planned_for_unless_they_may_not_move() -> None:
    """Otherwise, their new node comes only after they are gone, or is launched for pods that stay."""
    claim, node = a_node_of(TYPE, "n1")
    going = msgspec.structs.replace(claim, deleted_at=NOW)
    guarded = bound("guarded", "n1", annotations={labels.DO_NOT_DISRUPT: "true"})
    held = bound("held", "n1", labels={"app": "held"})
    agent = bound("agent", "n1", owners=(Owner("DaemonSet", "agent"),))
    budget = PodDisruptionBudget(namespace="default", name="b", selector=a_selector(app="held"), max_unavailable="0")
    pods = (bound("free", "n1"), guarded, held, agent)
    world = a_world(nodes=(node,), node_claims=(going,), pods=pods, budgets=(budget,))
    assert placed(world) == {"free": "default-0"}


def test_a_what_if_moves_the_pods_of_the_removed_node() -> None:
    """Otherwise, consolidation removes nodes whose pods have no other place."""
    world = a_world("n1", "n2", pods=(bound("p", "n1"), bound("big", "n2", cpu="3500m"), a_pod("w", cpu="100m")))
    planner = Planner(world)
    away = planner.what_if(["n1"], consolidation=True)
    assert away.displaced == ("default/p",)
    assert places(away.plan)["p"] == "default-0"
    assert places(planner.what_if(["n2"], consolidation=True).plan)["big"] == "default-0"
    assert places(planner.plan()) == {"w": "n1"}, "asking what if changes nothing"
    assert planner.what_if([], consolidation=True).plan == planner.plan()


def test_a_moved_pod_takes_no_room_that_a_waiting_one_is_bound_to() -> None:
    """kube-scheduler binds the waiting pod at once; the moved one comes later, and would be announced for a full node."""
    pods = (bound("p", "n1", cpu="2"), bound("other", "n2", cpu="2"), bound("more", "n3", cpu="2"), a_pod("w", cpu="1"))
    world = a_world("n1", "n2", "n3", pods=pods)
    assert places(Planner(world).plan()) == {"w": "n1"}
    drained = Planner(a_world("n1", "n2", "n3", pods=pods)).what_if(["n1"], consolidation=True).plan
    assert places(drained) == {"w": "n2", "p": "n3"}
    as_karpenter = msgspec.structs.replace(world.options, karpenter_moves_only=True)
    by_size = Planner(msgspec.structs.replace(world, options=as_karpenter)).what_if(["n1"], consolidation=True).plan
    assert places(by_size) == {"w": "n3", "p": "n2"}


def test_a_what_if_does_not_count_the_removed_nodes_pods() -> None:
    """Otherwise, its old place keeps the pod out of its own zone."""
    apart = (PodAffinityTerm(labels.ZONE, a_selector(app="a")),)
    spread = (TopologySpread(labels.ZONE, 1, selector=a_selector(app="a")),)
    for rule in ({"anti_affinity": apart}, {"spreads": spread}):
        pinned = (Requirement.one_of(labels.ZONE, ZONES[0]),)
        pods = (bound("p", "n1", labels={"app": "a"}, node_selector=pinned, **rule),)
        outcome = Planner(a_world("n1", "n2", pods=pods)).what_if(["n1"], consolidation=False)
        assert places(outcome.plan) == {"p": "n2"}


def test_consolidation_uses_no_node_that_changed_recently() -> None:
    """Otherwise, pods are moved onto a node that consolidateAfter protects."""
    claim, node = a_node_of(TYPE, "n2")
    busy = msgspec.structs.replace(claim, last_pod_event_at=NOW - timedelta(minutes=1))
    first_claim, first = a_node_of(TYPE, "n1")
    pool = a_pool(disruption=Disruption(consolidate_after=timedelta(minutes=10)))
    world = a_world(
        nodes=(node, first), node_claims=(busy, first_claim), node_pools=(pool,), pods=(bound("p", "n1"), a_pod("w"))
    )
    results = Planner(world).what_if(["n1"], consolidation=True)
    assert places(results.plan) == {"w": "n2", "p": "default-0"}
    assert places(Planner(world).what_if(["n1"], consolidation=False).plan) == {"w": "n2", "p": "n2"}


def test_a_drifted_nodes_pods_are_not_expected_on_a_node_that_nothing_proves() -> None:
    """The Node may have no instance: a new node is paid for the pods, wherever kube-scheduler binds them."""
    claim, node = a_node_of(TYPE, "n1")
    false = a_node_of(TYPE, "false")[1]
    world = {"nodes": (node, false), "node_claims": (claim,), "node_pools": (a_pool(),)}
    moved = Planner(a_world(pods=(bound("p", "n1"),), **world)).what_if(["n1"], consolidation=False).plan
    assert places(moved) == {"p": "default-0"}
    agent = bound("agent", "false", owners=(Owner("DaemonSet", "agent"),))
    proven = Planner(a_world(pods=(bound("p", "n1"), agent), **world)).what_if(["n1"], consolidation=False).plan
    assert places(proven) == {"p": "false"}
    assert placed(a_world(pods=(a_pod("w", cpu="4"), bound("p", "n1")), **world)) == {"w": "false"}, (
        "kube-scheduler binds a pod that waits in any case"
    )


def test_placements_on_a_booting_node_are_reported() -> None:
    """Otherwise, consolidation relies on a node that may never come up."""
    claim, node = a_node_of(TYPE, "n2")
    booting: Node = msgspec.structs.replace(
        node, labels={k: v for k, v in node.labels.items() if k != labels.INITIALIZED}
    )
    first_claim, first = a_node_of(TYPE, "n1")
    world = a_world(nodes=(booting, first), node_claims=(claim, first_claim), pods=(bound("p", "n1"),))
    assert Planner(world).what_if(["n1"], consolidation=True).on_uninitialized == ("default/p",)


def test_removed_nodes_free_the_limits() -> None:
    """Otherwise, a pool at its limit can never replace a node."""
    pool = a_pool(limits={"nodes": 1})
    outcome = Planner(a_world("n1", node_pools=(pool,), pods=(bound("p", "n1"),))).what_if(["n1"], consolidation=False)
    assert places(outcome.plan) == {"p": "default-0"}


def test_every_plan_is_for_all_pending_pods() -> None:
    """Otherwise, a pod is forgotten."""
    pods = tuple(a_pod(f"p{n}", cpu=str(1 + n * 2)) for n in range(4))
    plan = plan_of(types=(TYPE,), pods=pods)
    assert {*places(plan), *reasons_of(plan)} == {"p0", "p1", "p2", "p3"}


def drained_later(world: Snapshot, *names: str) -> Snapshot:
    """The cluster, whose stored target has yet to drain these nodes."""
    return msgspec.structs.replace(world, stored_target=a_stored_target(*names))


def test_nodes_that_the_target_drains_later_are_tried_last() -> None:
    """Otherwise, the pod moves again within hours."""
    pods = (a_pod("p", cpu="3"), a_pod("q", cpu="3"))
    world = a_world("n1", "n2", pods=pods)
    assert placed(drained_later(world, "n1")) == {"p": "n2", "q": "n1"}, "the scheduler would bind q there in any case"
    as_karpenter = msgspec.structs.replace(world, options=Options(karpenter_moves_only=True))
    assert placed(drained_later(as_karpenter, "n1")) == placed(world) == {"p": "n1", "q": "n2"}


def test_pods_of_a_leaving_node_get_a_new_node_rather_than_one_that_the_target_drains_later() -> None:
    """An expired node's pods would move twice, for expiry and for consolidation."""
    world = a_world("n1", "n2", "n3", pods=(bound("p", "n1"), a_pod("q")))
    world = msgspec.structs.replace(world, marked_for_deletion=(world.node_claims[0].name,))
    assert placed(world) == {"p": "n2", "q": "n2"}
    assert placed(drained_later(world, "n2")) == {"p": "n3", "q": "n3"}
    assert placed(drained_later(world, "n2", "n3")) == {"p": "default-0", "q": "n2"}


def test_a_waiting_pod_takes_the_room_that_equal_pods_of_a_leaving_node_avoid() -> None:
    """It runs nowhere; the other still runs."""
    full = a_pool("default", limits={"nodes": 1})
    pods = (bound("p", "n1", cpu="3"), a_pod("q", cpu="3", owners=SET))
    world = a_world("n1", "n2", pods=pods, node_pools=(full,))
    world = msgspec.structs.replace(world, marked_for_deletion=(world.node_claims[0].name,))
    assert placed(drained_later(world, "n2")) == {"q": "n2"}


def test_pods_of_a_leaving_node_stay_schedulable_on_nodes_that_the_target_drains_later() -> None:
    """Otherwise, an expired node of a NodePool at its limit is not drained."""
    full = a_pool("default", limits={"nodes": 1})
    world = a_world("n1", "n2", pods=(bound("p", "n1"),), node_pools=(full,))
    world = msgspec.structs.replace(world, marked_for_deletion=(world.node_claims[0].name,))
    assert placed(drained_later(world, "n2")) == placed(world) == {"p": "n2"}


# Steps under guidance.


SPREADING = 14
"""So many groups that numbers of steps meet where they can."""


def _spread(app: str) -> TopologySpread:
    return TopologySpread(labels.ZONE, 1, DO_NOT_SCHEDULE, a_selector(app=app))


def _arch(number: int) -> tuple[Requirement, ...]:
    return (Requirement.one_of(labels.ARCH, "amd64"),) if number % 2 else ()


def test_no_two_steps_share_a_number_whatever_guides_them() -> None:
    """Searches remember answers by the numbers: a pod once got the answer of another pod's step, and an arm64 node."""
    pods = tuple(
        a_pod(f"p{n}", cpu=f"{n + 1}00m", labels={"app": f"x{n}"}, spreads=(_spread(f"x{n}"),), node_selector=_arch(n))
        for n in range(SPREADING)
    )
    context = context_of(types=(a_type(cpu="64"),), pods=pods)
    groups = [context.pod_groups.of(pod) for pod in context.pending]
    barred = [(group.signature.index, labels.ZONE, ZONES[n % 3]) for n, group in enumerate(groups) if n % 2 == 0]
    guide = GuidedSteps(context.table, barred, (), DomainOrder(labels.ZONE, ZONES))
    asked: dict[int, tuple[object, ...]] = {}
    steps = [step for group in groups for step in guide.of(group, 0)]
    assert all(asked.setdefault(step.index, step.alternatives) == step.alternatives for step in steps)
    assert all(step.index < 0 for step in steps)
    assert len(asked) > len(ZONES)


def test_a_pod_that_leaves_a_value_to_others_still_needs_the_label() -> None:
    """`Exists` without one value is `NotIn`, which a node without the label meets: the pod was bound to such a node."""
    pod = a_pod("p", labels={"app": "x"}, node_selector=(Requirement("team"),), spreads=(
        msgspec.structs.replace(_spread("x"), topology_key="team"),))  # fmt: skip
    context = context_of(types=(a_type(cpu="64"),), pods=(pod,))
    (group,) = (context.pod_groups.of(pod) for pod in context.pending)
    (step,) = GuidedSteps(context.table, [(group.signature.index, "team", "y")], ()).of(group, 0)
    (alternative,) = step.alternatives
    assert not context.table[alternative]["team"].has("y")
    assert context.table.needed(alternative) == {"team"}


def test_of_several_turns_of_one_group_the_same_counts_in_every_order() -> None:
    """They come from a set of texts, whose order each process draws: two processes planned 24 and 26 pods without a place."""
    context = context_of(types=(a_type(cpu="64"),), pods=(a_pod("p", labels={"app": "x"}, spreads=(_spread("x"),)),))
    (group,) = (context.pod_groups.of(pod) for pod in context.pending)
    turns = [(group.signature.index, labels.ZONE, zones) for zones in (ZONES, ZONES[1:], ZONES[:1])]
    alternatives = [
        [step.alternatives for step in GuidedSteps(context.table, (), each).of(group, 1)]
        for each in (turns, turns[::-1])
    ]
    assert alternatives[0] == alternatives[1]


# The order in which pods get their places.


def test_the_largest_first_then_the_oldest_and_equal_pods_together() -> None:
    """Otherwise, small pods fill the nodes that large ones need, and the order depends on the listing."""
    pods = (
        a_pod("young", cpu="1", created_at=NOW - timedelta(minutes=1)),
        a_pod("wide", cpu="1", memory="2Gi"),
        a_pod("large", cpu="2"),
        a_pod("old", cpu="1", created_at=NOW - timedelta(minutes=5)),
    )
    context = context_of(types=(a_type(),), pods=pods)
    queue = queue_of(context, [(context.pending, Avoids.NO_NODE)])
    assert [[pod.name for pod in group.pods] for group in queue] == [["large"], ["wide"], ["old", "young"]]
    cpu = context.axis.names.index("cpu")
    assert [least[cpu] for least in least_requests_from(queue)] == [1000, 1000, 1000]


def test_pods_that_may_not_use_resting_nodes_form_their_own_group() -> None:
    """Otherwise, consolidation moves pods onto a node that must rest."""
    context = context_of(types=(a_type(),), pods=(a_pod("a"), a_pod("b")))
    first, second = context.pending
    queue = queue_of(context, [((first,), Avoids.NO_NODE), ((second,), Avoids.RECENTLY_CHANGED)])
    assert [group.avoids_recently_changed for group in queue] == [False, True]
    assert queue[0].pod_group is queue[1].pod_group


def test_pods_that_a_target_moves_form_their_own_group() -> None:
    """Otherwise, equal pods of both kinds get places in the order of their age: pods that wait in any case come first."""
    context = context_of(types=(a_type(),), pods=(a_pod("a"), a_pod("b")))
    first, second = context.pending
    queue = queue_of(context, [((first,), Avoids.NO_NODE)], [((second,), Avoids.NO_NODE)])
    assert [([pod.name for pod in group.pods], group.is_displaced) for group in queue] == [
        (["a"], False),
        (["b"], True),
    ]


def test_pods_that_a_pinned_context_releases_are_marked() -> None:
    """They are placed once all pods that keep their domains are counted there."""
    context = context_of(types=(a_type(),), pods=(a_pod("a"), a_pod("b", cpu="2")))
    assert not any(group.is_released for group in queue_of(context, [(context.pending, Avoids.NO_NODE)]))
    context.released = frozenset({"default/b"})
    queue = queue_of(context, [(context.pending, Avoids.NO_NODE)])
    assert {group.pods[0].name: group.is_released for group in queue} == {"a": False, "b": True}


def test_an_absent_bound_does_not_bound() -> None:
    """Otherwise, the last pod of a queue is compared with nothing."""
    assert (least_of((3, 4), None), least_of((3, 4), (4, 1))) == ((3, 4), (3, 1))


def test_a_pending_pod_gets_the_last_of_a_limit_before_a_buffer_does() -> None:
    """Otherwise, spare room would take the only node that the NodePool may still launch."""
    spare = PodSpec(requests={"cpu": 1900, "memory": 2**30, "pods": 1})
    buffer = CapacityBuffer(namespace="default", name="spare", pods=1, spec=spare)
    on = Options(feature_gates=FeatureGates(capacity_buffer=True))
    pool = a_pool("default", limits={"nodes": 1})
    plan = plan_of(types=(SMALL,), node_pools=(pool,), buffers=(buffer,), options=on, pods=(a_pod("p", cpu="500m"),))
    assert [claim.pods for claim in plan.claims] == [("default/p",)]
    assert [(room.buffer, room.without_room) for room in plan.buffers] == [("default/spare", 1)]


def test_a_buffer_uses_no_room_of_a_pod_that_must_wait_for_another_pod() -> None:
    """The larger pod fails at first, the pod that it needs comes second, and the buffer took the room in between."""
    near = (PodAffinityTerm(labels.ZONE, a_selector(app="db")),)
    spare = PodSpec(requests={"cpu": 1000, "memory": 2**20, "pods": 1})
    buffer = CapacityBuffer(namespace="default", name="spare", pods=1, spec=spare)
    on = Options(feature_gates=FeatureGates(capacity_buffer=True))
    pool = a_pool("default", limits={"nodes": 1})
    pods = (a_pod("seeker", cpu="1", affinity=near), a_pod("db", cpu="900m", labels={"app": "db"}))
    plan = plan_of(types=(SMALL,), node_pools=(pool,), buffers=(buffer,), options=on, pods=pods)
    assert reasons_of(plan) == {}


def test_a_pod_with_an_affinity_is_not_satisfied_by_a_buffer() -> None:
    """The scheduler does not see virtual pods: the explanation named a place, although the pod stayed pending."""
    web = {"app": "web"}
    near = (PodAffinityTerm(labels.ZONE, a_selector(app="web")),)
    spare = PodSpec(requests={"cpu": 100, "memory": 2**20, "pods": 1})
    buffer = CapacityBuffer(namespace="default", name="spare", pods=1, spec=spare, labels=web)
    on = Options(feature_gates=FeatureGates(capacity_buffer=True))
    plan = plan_of(types=(SMALL,), buffers=(buffer,), options=on, pods=(a_pod("seeker", affinity=near),))
    assert reasons_of(plan) == {"seeker": PodReason.POD_AFFINITY}
    assert "no pod that has or gets a node matches the pod's affinity" in plan.unschedulable[0].message


TERMS = tuple(NodeSelectorTerm((Requirement.one_of(labels.ZONE, zone),)) for zone in ZONES[:2])
"""The first zone, or else the second, where a node has room."""


def test_under_karpenters_policy_a_pod_that_waits_gets_a_node_for_its_first_alternative() -> None:
    """Karpenter relaxes to the next alternative only if no node, running or new, meets the first."""
    claim, node = a_node_of(SMALL, zone=ZONES[1])
    pods = (a_pod("p", required_terms=TERMS),)
    karpenter = Options(karpenter_moves_only=True)
    plan = plan_of(types=(SMALL,), nodes=(node,), node_claims=(claim,), pods=pods, options=karpenter)
    assert claim_of(plan, "p").zones == ZONES[:1]


def test_a_pod_that_consolidation_moves_joins_a_node_for_any_alternative() -> None:
    """Otherwise, a node is launched, and paid for, beside one with room; under Karpenter's policy it is."""
    claim, leaving = a_node_of(SMALL)
    other_claim, staying = a_node_of(SMALL, "node-2", zone=ZONES[1])
    moved = pod_on(leaving.name, "p", required_terms=TERMS)
    world = {"types": (SMALL,), "nodes": (leaving, staying), "node_claims": (claim, other_claim), "pods": (moved,)}
    plan = Planner(a_snapshot(**world)).what_if([leaving.name], consolidation=True).plan
    assert places(plan) == {"p": "node-2"}
    as_karpenter = a_snapshot(**world, options=Options(karpenter_moves_only=True))
    (launched,) = Planner(as_karpenter).what_if([leaving.name], consolidation=True).plan.claims
    assert launched.zones == ZONES[:1]


def with_slots(wanted: list[tuple[int, int]], *, taken: str = "1m", **demands: object) -> list[tuple[str, str]]:
    """Where five pods of half a vCPU go with so many slots by node: three nodes of two vCPU, `taken` is used on the last."""
    pairs = [a_node_of(SMALL, f"n{number}", zone=ZONES[number]) for number in range(3)]
    claims, nodes = zip(*pairs, strict=True)
    pods = tuple(a_pod(f"p{number}", cpu="450m", **demands) for number in range(5))
    context = context_of(
        types=(SMALL,), nodes=nodes, node_claims=claims, pods=(*pods, a_pod("there", cpu=taken, node_name="n2"))
    )
    slots = {group_of(context, "p0").index: wanted}
    queue = queue_of(context, [(context.pending, Avoids.NO_NODE)])
    bindings = GreedyScheduler(context, queue, frozenset(), frozenset(), slots=slots).run()
    assert not bindings.unplaced
    return sorted((context.existing_nodes[position].name, pod.name) for pod, position in bindings.bound)


@pytest.mark.parametrize("wanted", [[(1, 3), (2, 2)], [(2, 1), (0, 4)], [(0, 1), (1, 2), (2, 2)]])
def test_pods_go_to_the_nodes_that_a_target_meant_for_them(wanted: list[tuple[int, int]]) -> None:
    """Any other placement would use room that the target meant for other pods."""
    places_now = [node for node, _ in with_slots(wanted)]
    assert [(position, places_now.count(f"n{position}")) for position, _ in wanted] == wanted


def test_a_slot_that_no_longer_admits_the_pod_is_left_to_others() -> None:
    """The node is in another zone than the pod asks for, or has become full; the other pods have theirs all the same."""
    here = (Requirement.one_of(labels.ZONE, *ZONES[:2]),)
    for wanted in ([(2, 2), (1, 3)], [(1, 3), (2, 2)]):
        assert [node for node, _ in with_slots(wanted, node_selector=here)].count("n1") >= 3
        assert "n2" not in [node for node, _ in with_slots(wanted, node_selector=here)]
    assert [node for node, _ in with_slots([(2, 3), (1, 2)], taken="1000m")].count("n2") == 2


def test_a_slot_does_not_outweigh_a_spread() -> None:
    """What a target meant for its pods may be uneven once other pods have gone elsewhere."""
    evenly = TopologySpread(labels.ZONE, 1, DO_NOT_SCHEDULE, a_selector(app="a"))
    bindings = with_slots([(1, 4)], labels={"app": "a"}, spreads=(evenly,))
    assert sorted(Counter(node for node, _ in bindings).values()) == [1, 2, 2]


def phases(
    slots: dict[str, list[tuple[int, int]]] | None = None,
    first: str = "",
    pods: tuple[Pod, ...] = (),
    drained_later: tuple[str, ...] = ("n0",),
    **kinds: str,
) -> tuple[dict[str, str], str, str]:
    """Pod → node on two nodes of two vCPU, the pods without a place, and those whose claims are fixed.

    Each of three pods fits once on a node, the largest comes first, and no node is launched.

    Args:
        slots: Pod → the nodes that a target means for it.
        first: The pod that is placed before the others.
        pods: Other pods in place of the three.
        drained_later: Nodes that the stored target drains later.
        kinds: Attribute of `PendingGroup` → the pods that have it.
    """
    claims, nodes = zip(*(a_node_of(SMALL, f"n{number}") for number in range(2)), strict=True)
    waiting = pods or tuple(a_pod(name, cpu=cpu) for name, cpu in zip("abc", ("1500m", "1400m", "1200m"), strict=True))
    world = a_snapshot(types=(SMALL,), nodes=nodes, node_claims=claims, pods=waiting, node_pools=())
    context = SchedulingContext(structs.replace(world, stored_target=a_stored_target(*drained_later)))
    queue = queue_of(context, [(context.pending, Avoids.NO_NODE)])
    for group in queue:
        for kind, names in kinds.items():
            setattr(group, kind, group.pods[0].name in names)
    index = {group.pods[0].name: group.pod_group.index for group in queue}
    results = GreedyScheduler(
        context,
        queue,
        frozenset(),
        frozenset(),
        frozenset(index[name] for name in first),
        slots={index[name]: places for name, places in (slots or {}).items()},
    ).run()
    assert results.claims == []
    unplaced = "".join(group.pods[0].name for group in results.unplaced)
    at = {pod.name: context.existing_nodes[position].name for pod, position in results.bound}
    return at, unplaced, "".join(sorted(key.removeprefix("default/") for key in results.fixed_pods))


class TestPhases:
    def test_nodes_that_are_drained_later_come_last_and_last_of_all_for_pods_that_avoid_them(self) -> None:
        assert phases(drained_later=()) == ({"a": "n0", "b": "n1"}, "c", "")
        assert phases() == ({"a": "n1", "b": "n0"}, "c", "")
        assert phases(avoids_drained_later="a") == ({"a": "n1", "b": "n0"}, "c", "")
        assert phases(avoids_drained_later="ab") == ({"a": "n1", "c": "n0"}, "b", "")
        assert phases(avoids_drained_later="abc") == ({"a": "n1", "b": "n0"}, "c", "")
        assert phases(avoids_drained_later="abc", drained_later=("n0", "n1")) == ({"a": "n0", "b": "n1"}, "c", "")

    def test_pods_that_wait_in_any_case_come_before_those_that_a_target_moves(self) -> None:
        assert phases(is_displaced="a") == ({"b": "n1", "c": "n0"}, "a", "bc")
        assert phases(is_displaced="ac") == ({"b": "n1", "a": "n0"}, "c", "b")
        assert phases(is_displaced="abc") == ({"a": "n1", "b": "n0"}, "c", "")

    def test_pods_that_may_leave_their_domain_come_after_those_that_keep_it(self) -> None:
        assert phases(is_released="a") == ({"b": "n1", "c": "n0"}, "a", "")
        assert phases(is_released="ab") == ({"c": "n1", "a": "n0"}, "b", "")
        assert phases({"b": [(0, 1)], "a": [(1, 1)]}, is_released="a") == ({"b": "n0", "c": "n1"}, "a", "")

    def test_a_group_that_is_to_be_first_is(self) -> None:
        assert phases(first="c") == ({"c": "n1", "a": "n0"}, "b", "")
        assert phases(first="bc") == ({"b": "n1", "c": "n0"}, "a", "")
        assert phases(first="c", is_displaced="a") == ({"b": "n1", "c": "n0"}, "a", "bc")

    def test_slots_are_filled_before_other_pods_are_placed(self) -> None:
        assert phases({"a": [(0, 1)]}) == ({"a": "n0", "b": "n1"}, "c", "")
        assert phases({"c": [(1, 1)]}) == ({"c": "n1", "a": "n0"}, "b", "")
        assert phases({"a": [(0, 1)], "b": [(0, 1), (1, 1)]}) == ({"a": "n0", "b": "n1"}, "c", "")
        assert phases({"c": [(0, 1)], "b": [(1, 1)]}) == ({"b": "n1", "c": "n0"}, "a", "")
        assert phases({"a": [(0, 1)]}, is_displaced="a") == ({"b": "n1", "c": "n0"}, "a", "bc")

    def test_pods_that_must_share_a_node_take_no_slots(self) -> None:
        """A slot may be on another node than the one that the first of them takes."""
        together = PodAffinityTerm(labels.HOSTNAME, a_selector(app="web"))
        for rules, at in (({"affinity": (together,)}, {"n0": 3}), ({}, {"n0": 2, "n1": 1})):
            pods = tuple(a_pod(f"p{n}", cpu="500m", labels={"app": "web"}, **rules) for n in range(3))
            placed, unplaced, _ = phases({"p0": [(1, 1), (0, 2)]}, pods=pods, drained_later=())
            assert (Counter(placed.values()), unplaced) == (Counter(at), "")

    def test_a_pod_that_no_node_could_help_is_left(self) -> None:
        broken = a_pod("d", cpu="100m", required_terms=(NodeSelectorTerm((), uses_fields=True),))
        assert phases(pods=(a_pod("a", cpu="100m"), broken)) == ({"a": "n1"}, "d", "")


def test_a_node_that_is_too_full_for_the_other_pods_still_takes_a_buffer() -> None:
    """It would get a node of its own beside room for it."""
    spare = PodSpec(requests={"cpu": 100, "memory": 2**30, "pods": 1})
    buffer = CapacityBuffer(namespace="default", name="spare", pods=1, spec=spare)
    on = Options(feature_gates=FeatureGates(capacity_buffer=True))
    pods = (a_pod("a", cpu="1500m"), a_pod("b", cpu="600m", memory="7900Mi"))
    assert len(plan_of(types=(SMALL,), buffers=(buffer,), options=on, pods=pods).claims) == 2
