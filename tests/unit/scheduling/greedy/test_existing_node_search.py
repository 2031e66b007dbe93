"""Existing nodes come first: their room, labels, taints, ports and volumes, and nodes removed in a what-if."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from core import labels
from core.model.node import Node
from core.model.node_claim import NodeClaim
from core.model.node_pool import Disruption
from core.model.pod import HostPort, Owner, PodAffinityTerm, PodSpec, TopologySpread, VolumeUse
from core.model.policy import DaemonSet, PodDisruptionBudget
from core.model.snapshot import Options, Snapshot
from core.model.storage import PersistentVolume, PersistentVolumeClaim
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint
from core.reasons.pod import PodReason
from core.scheduling import Planner
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_stored_target, a_type
from tests.unit.scheduling.reading import places, plan_of, reasons_of

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
    for own in ({"nodes": (tainted,), "node_claims": (claim,)}, {"nodes": (node,), "node_claims": (going,)}):
        assert placed(a_world(pods=(a_pod("p"),), **own)) == {"p": "default-0"}


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
    found = Planner(world).what_if(["n1"], consolidation=True)
    assert places(found.plan) == {"w": "n2", "p": "default-0"}
    assert places(Planner(world).what_if(["n1"], consolidation=False).plan) == {"w": "n2", "p": "n2"}


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
