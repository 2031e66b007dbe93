"""The reason names the object that has to change."""

from __future__ import annotations

import msgspec
import pytest

from core import labels, scheduling
from core.model.catalogue import InstanceType
from core.model.plan import Plan
from core.model.pod import (
    DO_NOT_SCHEDULE,
    WAIT_FOR_FIRST_CONSUMER,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    StorageClass,
    TopologySpread,
    VolumeUse,
)
from core.model.snapshot import Snapshot
from core.model.values.quotas import BY_NAME, quota_of
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint, Toleration
from core.reasons.pods import PodReason
from core.scheduling import schedule
from tests.builders import ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type
from tests.classes import classes_of, is_compared_by_fields
from tests.unit.scheduling.optimization.clusters import ON_DEMAND, a_cluster, greedy, instance_types, plain_pods
from tests.unit.scheduling.subnets import A, B, a_class

TYPE = a_type("m", cpu="4", memory="16Gi")
GPU = Taint("nvidia.com/gpu", NO_SCHEDULE)


def explained(snapshot: Snapshot, name: str) -> tuple[str, str]:
    """The code and the message for an unschedulable pod."""
    (entry,) = (entry for entry in schedule(snapshot).unschedulable if entry.pod == f"default/{name}")
    return entry.reason, entry.message


def test_a_requirement_that_no_type_meets_is_named_with_its_values() -> None:
    """A hint to tolerate the GPU taint would put a web pod on a GPU node."""
    pools = (a_pool("general", Requirement.one_of(labels.ARCH, "x86_64")), a_pool("gpu", taints=(GPU,)))
    reason, message = explained(a_snapshot(types=(TYPE,), node_pools=pools, pods=(a_pod("web"),)), "web")
    assert reason == PodReason.REQUIREMENT_NOT_MET
    assert "kubernetes.io/arch In [x86_64] is required, and its types have amd64" in message


def test_a_zone_of_the_pool_that_is_not_available_is_named() -> None:
    pools = (a_pool("general", Requirement.one_of(labels.ZONE, "us-west-2a")), a_pool("gpu", taints=(GPU,)))
    reason, message = explained(a_snapshot(types=(TYPE,), node_pools=pools, pods=(a_pod("web"),)), "web")
    assert reason == PodReason.REQUIREMENT_NOT_MET
    assert "none is on offer with topology.kubernetes.io/zone In [us-west-2a]" in message


def test_the_zone_of_a_volume_is_reported_as_the_volumes() -> None:
    """The pod's manifest does not mention a zone: users would search there without success."""
    pools = (a_pool("general", Requirement.one_of(labels.ZONE, *ZONES[:2])), a_pool("gpu", taints=(GPU,)))
    term = NodeSelectorTerm((Requirement.one_of(labels.ZONE, ZONES[2]),))
    snapshot = a_snapshot(
        types=(TYPE,),
        node_pools=pools,
        pods=(a_pod("reader", volumes=(VolumeUse("legacy"),)),),
        volumes=(PersistentVolume(name="pv-legacy", node_terms=(term,)),),
        volume_claims=(
            PersistentVolumeClaim(namespace="default", name="legacy", volume_name="pv-legacy", phase="Bound"),
        ),
    )
    reason, message = explained(snapshot, "reader")
    assert reason == PodReason.REQUIREMENT_NOT_MET
    assert f"PersistentVolumeClaim default/legacy (volume pv-legacy) demands {labels.ZONE} In [{ZONES[2]}]" in message


def test_the_pods_own_requirement_differs_from_its_volumes() -> None:
    pod = a_pod("p", node_selector=(Requirement.one_of(labels.ZONE, "nowhere"),))
    pool = a_pool("general", Requirement.one_of(labels.ZONE, *ZONES))
    _, message = explained(a_snapshot(types=(TYPE,), node_pools=(pool,), pods=(pod,)), "p")
    assert "the pod's nodeSelector demands topology.kubernetes.io/zone In [nowhere]" in message


def test_a_limit_that_leaves_too_few_types_is_a_limit() -> None:
    """Lowering minValues would not help while the limit is used up."""
    types = tuple(a_type(f"m{n}", cpu="4", memory=f"{16 * n}Gi", price=0.1 * n) for n in (1, 2, 3, 4))
    pool = a_pool("general", Requirement.of(labels.INSTANCE_TYPE, "Exists", (), 3), limits={"memory": 96 * 2**30})
    pods = tuple(a_pod(f"p{number}", cpu="3") for number in range(2))
    reason, message = explained(a_snapshot(types=types, node_pools=(pool,), pods=pods), "p1")
    assert reason == PodReason.LIMIT_REACHED
    assert "its limits leave memory" in message
    assert "of 96Gi" in message


def test_a_full_limit_reports_how_much_new_nodes_hold_until_they_are_launched() -> None:
    types = (a_type("m1", cpu="4"), a_type("m8", cpu="32", price=0.8))
    pods = tuple(a_pod(f"p{number}", cpu="3") for number in range(9))
    snapshot = a_snapshot(types=types, node_pools=(a_pool("general", limits={"cpu": 8000}),), pods=pods)
    reason, message = explained(snapshot, "p8")
    assert reason == PodReason.LIMIT_REACHED
    assert "the smallest suitable instance type has cpu 4; 2 new nodes of this plan count at the largest" in message


def test_a_spread_names_the_unreachable_domain_and_what_makes_it_count() -> None:
    """Otherwise, users raise maxSkew, or believe that zones are full."""
    pools = (a_pool("general", Requirement.one_of(labels.ZONE, *ZONES[:2])), a_pool("gpu", taints=(GPU,)))
    spread = TopologySpread(labels.ZONE, 1, DO_NOT_SCHEDULE, a_selector(app="web"))
    pods: tuple[Pod, ...] = tuple(
        a_pod(f"web-{number}", cpu="3", labels={"app": "web"}, spreads=(spread,)) for number in range(4)
    )
    world = {"types": (TYPE,), "node_pools": pools, "pods": pods}
    assert schedule(a_snapshot(**world)).unschedulable == (), "a zone without nodes counts where the pod could get one"
    claim, node = a_node_of(TYPE, pool="gpu", zone=ZONES[2], taints=(GPU,))
    reason, message = explained(a_snapshot(nodes=(node,), node_claims=(claim,), **world), "web-3")
    assert reason == PodReason.TOPOLOGY_SPREAD
    assert f"; {ZONES[2]} must fill up first (maxSkew 1) and counts because of NodePool gpu" in message
    assert "nodeTaintsPolicy: Honor" in message


def test_a_pod_with_a_device_gets_the_taint_of_the_nodes_with_it() -> None:
    """A common mistake with the first GPU nodes."""
    device = a_type("g", cpu="8", extra={"nvidia.com/gpu": "1"}, price=1.0)
    pools = (a_pool("general", Requirement.one_of(labels.INSTANCE_TYPE, "m")), a_pool("gpu", taints=(GPU,)))
    pod = a_pod("train", extra={"nvidia.com/gpu": "1"})
    reason, _ = explained(a_snapshot(types=(TYPE, device), node_pools=pools, pods=(pod,)), "train")
    assert reason == PodReason.TAINT_NOT_TOLERATED


def test_an_affinity_to_pods_that_are_nowhere_names_them() -> None:
    """The state of the zones sends users to look at zones."""
    term = PodAffinityTerm(topology_key=labels.ZONE, selector=a_selector(app="nobody"), namespaces=("default",))
    snapshot = a_snapshot(types=(TYPE,), node_pools=(a_pool("general"),), pods=(a_pod("web", affinity=(term,)),))
    reason, message = explained(snapshot, "web")
    assert reason == PodReason.POD_AFFINITY
    assert "no pod that has or gets a node matches the pod's affinity: app In [nobody] in namespace default" in message


def test_a_capacity_type_that_nothing_is_on_offer_with_is_named() -> None:
    pod = a_pod("web", node_selector=(Requirement.one_of(labels.CAPACITY_TYPE, "Spot"),))
    reason, message = explained(a_snapshot(types=(TYPE,), node_pools=(a_pool("general"),), pods=(pod,)), "web")
    assert reason == PodReason.REQUIREMENT_NOT_MET
    assert "karpenter.sh/capacity-type In [Spot] is required, and its types are offered with on-demand, spot" in message


def test_requirements_that_exclude_each_other_name_the_one_that_leaves_nothing() -> None:
    pool = a_pool("general", Requirement.one_of(labels.ARCH, "amd64"), Requirement.of("size", "In", ["big"]))
    types = (a_type("m", size="small"), a_type("n", size="big", **{labels.ARCH: "arm64"}))
    _, message = explained(a_snapshot(types=types, node_pools=(pool,), pods=(a_pod("web"),)), "web")
    assert "meets its own requirements: size In [big] excludes the only type that those before it allow" in message


def test_a_toleration_of_the_same_key_is_named_beside_the_taint() -> None:
    pool = a_pool("team-a", taints=(Taint("team", NO_SCHEDULE, "a"),))
    pod = a_pod("web", tolerations=(Toleration("team", "Equal", "b", NO_SCHEDULE),))
    _, message = explained(a_snapshot(types=(TYPE,), node_pools=(pool,), pods=(pod,)), "web")
    assert "taint team=a:NoSchedule is not tolerated (the pod tolerates team=b:NoSchedule)" in message


def test_min_domains_out_of_reach_are_named() -> None:
    spread = TopologySpread(labels.ZONE, 1, DO_NOT_SCHEDULE, a_selector(app="web"), min_domains=5)
    pods = tuple(a_pod(f"web-{n}", labels={"app": "web"}, spreads=(spread,)) for n in range(4))
    _, message = explained(a_snapshot(types=(TYPE,), node_pools=(a_pool("general"),), pods=pods), "web-3")
    assert f"minDomains asks for 5 values of {labels.ZONE}, and NodePools and nodes have {len(ZONES)}" in message


def test_too_many_volumes_are_told_with_what_a_node_can_attach() -> None:
    volumes = tuple(VolumeUse(f"data-{n}") for n in range(3))
    claims = tuple(
        PersistentVolumeClaim(namespace="default", name=f"data-{n}", storage_class="gp3", phase="Pending")
        for n in range(3)
    )
    snapshot = a_snapshot(
        types=(msgspec.structs.replace(TYPE, attach_limit=2),),
        node_pools=(a_pool("general"),),
        pods=(a_pod("db", volumes=volumes),),
        volume_claims=claims,
        storage_classes=(
            StorageClass(name="gp3", provisioner="ebs.csi.aws.com", binding_mode=WAIT_FOR_FIRST_CONSUMER),
        ),
    )
    reason, message = explained(snapshot, "db")
    assert reason == PodReason.ATTACH_LIMIT
    assert "the pod has 3 EBS volumes, and m attaches 2" in message


# Whether new nodes got cheaper is known once free addresses have restricted their zones.


CHEAP = a_type("cheap", cpu="4", price=0.4, zones=(A,))
EXPENSIVE = a_type("expensive", cpu="8", price=0.9, zones=(A, B))


def the_plan(free: int, *, expensive: InstanceType = EXPENSIVE, is_searched: bool = True) -> Plan:
    """Two pods: one expensive node takes both, and so do two cheap ones in a zone with so many free addresses."""
    snapshot = a_cluster(
        types=(CHEAP, expensive),
        pods=tuple(a_pod(f"p{n}", cpu="3") for n in range(2)),
        node_classes=(a_class(("subnet-a", A), ("subnet-b", B)),),
        subnet_addresses={"subnet-a": free, "subnet-b": 100},
    )
    return schedule(snapshot) if is_searched else greedy(snapshot)


def test_two_cheap_nodes_replace_an_expensive_one_if_both_have_an_address() -> None:
    assert the_plan(2).cost.hourly < the_plan(2, is_searched=False).cost.hourly


def test_cheap_nodes_of_which_one_would_get_expensive_do_not() -> None:
    """They cost 0.8 as they were found and 1.3 in the zones that have addresses; the plan before cost 0.9."""
    plan, before = the_plan(1), the_plan(1, is_searched=False)
    assert plan.cost.hourly == before.cost.hourly
    assert plan.claims == before.claims


def test_cheap_nodes_of_which_one_would_have_no_address_do_not() -> None:
    only_there = a_type("expensive", cpu="8", price=0.9, zones=(A,))
    plan = the_plan(1, expensive=only_there)
    assert plan.claims == the_plan(1, expensive=only_there, is_searched=False).claims
    assert not plan.unschedulable


# New nodes are made cheaper under quotas that fall short, too, but for those of a quota that refused pods a node.


GENERAL, SHORT = BY_NAME["F"].on_demand, BY_NAME["G and VT"].on_demand
LARGE = a_type("g5.4xlarge", cpu="16", memory="64Gi", pods="110", price=1.6)
GPU_POOL = a_pool("gpu", ON_DEMAND, Requirement.one_of(labels.INSTANCE_TYPE, LARGE.name))
GENERAL_POOL = a_pool("default", ON_DEMAND, Requirement(labels.INSTANCE_TYPE, True, (LARGE.name,)))
VCPUS = {instance_type.name: instance_type.capacity["cpu"] // 1000 for instance_type in (*instance_types(), LARGE)}


def a_short_cluster(*, general: int = 10_000) -> Snapshot:
    """Sixty pods for general nodes under one quota, and two for nodes of a family whose quota has room for one."""
    wanted = (Requirement.one_of(labels.NODEPOOL, "gpu"),)
    large = tuple(a_pod(f"large-{n}", cpu="9", node_selector=wanted) for n in range(2))
    general_only = (Requirement.one_of(labels.NODEPOOL, "default"),)
    return a_cluster(
        types=(*instance_types(), LARGE),
        node_pools=(GENERAL_POOL, GPU_POOL),
        pods=(*plain_pods(60, node_selector=general_only), *large),
        vcpu_quotas={SHORT: 16, GENERAL: general},
    )


def taken(plan: Plan, code: str) -> int:
    """What the claims may turn out to take of a quota, each at its largest type."""
    return sum(
        max((VCPUS[name] for name in claim.instance_types if quota_of(name).on_demand == code), default=0)
        for claim in plan.claims
    )


def test_a_short_quota_of_one_family_keeps_no_other_nodes_from_getting_cheaper() -> None:
    """One GPU pod too many kept the nodes of every NodePool at the price of the greedy plan."""
    snapshot = a_short_cluster()
    plan, before = schedule(snapshot), greedy(snapshot)
    assert len(plan.unschedulable) == 1
    assert plan.cost.hourly < before.cost.hourly
    assert [c for c in plan.claims if c.node_pool == "gpu"] == [c for c in before.claims if c.node_pool == "gpu"]


@pytest.mark.parametrize("general", range(40, 140, 10))
def test_cheaper_nodes_are_charged_what_they_may_turn_out_to_take(general: int) -> None:
    """Under each quota: it refuses pods, or their nodes get cheaper within it."""
    snapshot = a_short_cluster(general=general)
    plan, before = schedule(snapshot), greedy(snapshot)
    assert taken(plan, GENERAL) <= general
    assert taken(plan, SHORT) <= 16
    assert plan.cost.hourly <= before.cost.hourly
    assert len(plan.unschedulable) == len(before.unschedulable)


def test_claims_of_a_quota_that_refused_pods_stay_as_they_are() -> None:
    """The greedy plan decides by its order which pods get the last room of a quota."""
    snapshot = a_short_cluster(general=24)
    plan = schedule(snapshot)
    assert len(plan.unschedulable) > 1
    assert plan.claims == greedy(snapshot).claims


# What a plan builds is told apart by identity: two groups of pods with equal fields are two, and comparing takes long.


CLASSES = (
    "ClaimProfile",
    "DaemonPod",
    "ExistingNode",
    "NodeRoom",
    "InFlightClaim",
    "NodeClaimTemplate",
    "DrainableNode",
    "PlanState",
    "GreedyScheduler",
    "Solution",
    "AssignedMachine",
    "BarePlan",
    "DrainedFleet",
    "RepackScope",
    "_Replaceable",
    "_Task",
    "_MachineTypes",
    "ZoneLoads",
    "PendingGroup",
    "PodGroup",
    "PodSignature",
    "RelaxationStep",
    "ReachableDomains",
    "TopologyRule",
    "SizedSignature",
    "VariationSearch",
    "Departures",
    "_PreferenceGroups",
)
"""All classes of the planner with fields that are not compared: no other one is added unnoticed."""


def test_an_object_of_a_plan_equals_itself_alone() -> None:
    """Otherwise, groups with equal fields would be one in a set, and a memo by object would compare their masks."""
    names = [name for name, class_ in classes_of(scheduling) if not is_compared_by_fields(class_)]
    assert sorted(names) == sorted(CLASSES)
