"""Why pods have no place, with the nearest miss."""

from __future__ import annotations

import msgspec
import pytest

from core import labels
from core.model.pod import LabelSelector, NodeSelectorTerm, TopologySpread, VolumeUse
from core.model.storage import PersistentVolume, PersistentVolumeClaim
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint
from core.reasons.pod import RANK, PodReason
from core.scheduling import Planner
from core.scheduling.explanation.diagnosis import Diagnosis
from core.scheduling.greedy.queue import queue_of
from core.scheduling.greedy.scheduler import GreedyScheduler
from tests.builders import ZONES, a_pod, a_pool, a_snapshot, a_type
from tests.unit.scheduling.reading import context_of, group_of, plan_of

SMALL = a_type("small", cpu="2", memory="8Gi")
LARGE = a_type("large", cpu="8", memory="32Gi", price=0.4)


def test_every_code_is_ranked() -> None:
    """Otherwise, no reason can be chosen."""
    assert list(RANK) == list(PodReason)


def test_the_message_counts_the_excluded_types_and_names_the_nearest() -> None:
    """Otherwise, users have to guess which type is almost large enough."""
    arm = a_type("arm", cpu="64", memory="256Gi", zones=ZONES[:1])
    arm = msgspec.structs.replace(arm, labels={**arm.labels, labels.ARCH: ("arm64",)})
    pod = a_pod("p", cpu="9", node_selector=(Requirement.one_of(labels.ARCH, "amd64"),))
    (entry,) = plan_of(types=(SMALL, LARGE, arm), pods=(pod,)).unschedulable
    assert entry.reason == PodReason.NO_OFFERING_FITS
    assert entry.message == (
        "NodePool default: 3 types: 1 ruled out by kubernetes.io/arch, 2 by cpu; nearest: large lacks 1 cpu"
    )


def test_the_finding_is_that_of_the_nearest_pool() -> None:
    """Otherwise, the taint of an unrelated pool hides that the right pool's types are too small."""
    pools = (a_pool("gpu", taints=(Taint("gpu", NO_SCHEDULE),)), a_pool("plain"), a_pool("off", is_ready=False))
    planner = Planner(a_snapshot(types=(SMALL,), node_pools=pools, pods=(a_pod("p", cpu="9"),)))
    found = planner.finding("default/p")
    assert found is not None
    assert found.reason == PodReason.NO_OFFERING_FITS
    assert {finding.node_pool: finding.reason for finding in found.pools} == {
        "gpu": PodReason.TAINT_NOT_TOLERATED,
        "plain": PodReason.NO_OFFERING_FITS,
        "off": PodReason.NO_NODE_POOL,
    }


def test_sold_out_differs_from_never_offered() -> None:
    """Waiting helps only in the first case; the second needs another pod or pool."""
    sold_out = msgspec.structs.replace(
        SMALL, offerings=tuple(msgspec.structs.replace(o, available=o.zone != ZONES[0]) for o in SMALL.offerings)
    )
    reasons_by_zone = {
        zone: plan_of(types=(sold_out,), pods=(a_pod("p", node_selector=(Requirement.one_of(labels.ZONE, zone),)),))
        for zone in (ZONES[0], "nowhere")
    }
    assert [plan.unschedulable[0].reason for plan in reasons_by_zone.values()] == [
        PodReason.NO_OFFERING_AVAILABLE,
        PodReason.REQUIREMENT_NOT_MET,
    ]


def test_without_any_pool_the_answer_says_so() -> None:
    """It is the first thing that newcomers forget."""
    (entry,) = plan_of(types=(SMALL,), node_pools=(), pods=(a_pod("p"),)).unschedulable
    assert (entry.reason, entry.message) == (PodReason.NO_NODE_POOL, "there is no NodePool")


def test_a_placed_pod_has_a_suitable_pool() -> None:
    """Otherwise, `explain` lists obstacles for a pod that has none."""
    planner = Planner(a_snapshot(types=(SMALL,), pods=(a_pod("p"),)))
    found = planner.finding("default/p")
    assert found is not None
    assert [finding.reason for finding in found.pools] == [None]
    assert planner.finding("default/unknown") is None


def test_a_pool_that_lacks_only_a_toleration_is_a_near_miss() -> None:
    """A common mistake with the first GPU nodes; the type sizes of other pools would mislead."""
    pools = (a_pool("gpu", taints=(Taint("gpu", NO_SCHEDULE),)), a_pool("off", taints=(Taint("x", NO_SCHEDULE),)))
    planner = Planner(a_snapshot(types=(SMALL,), node_pools=pools, pods=(a_pod("p"),)))
    found = planner.finding("default/p")
    assert found is not None
    assert {pool.node_pool: pool.nearest for pool in found.pools} == {
        "gpu": "a toleration of gpu:NoSchedule is missing",
        "off": "a toleration of x:NoSchedule is missing",
    }
    small = Planner(
        a_snapshot(types=(SMALL,), node_pools=(*pools, a_pool("full", limits={"cpu": 1000})), pods=(a_pod("p"),))
    )
    assert small.plan().unschedulable[0].reason == PodReason.LIMIT_REACHED
    huge = Planner(a_snapshot(types=(SMALL,), node_pools=pools, pods=(a_pod("p", cpu="99"),))).finding("default/p")
    assert huge is not None
    assert [finding.nearest for finding in huge.pools] == ["", ""]


@pytest.mark.parametrize(
    ("selector", "nearest"),
    [
        (
            Requirement.one_of(labels.ARCH, "x86_64"),
            "kubernetes.io/arch In [x86_64] is required, and its types have amd64",
        ),
        (
            Requirement.one_of(labels.INSTANCE_TYPE, "lagre"),
            "node.kubernetes.io/instance-type In [lagre] is required, and its types have large, small",
        ),
    ],
)
def test_a_misspelt_label_value_is_shown_beside_the_existing_ones(selector: Requirement, nearest: str) -> None:
    """Seven hundred excluded types do not show that the value has a typo."""
    planner = Planner(a_snapshot(types=(SMALL, LARGE), pods=(a_pod("p", node_selector=(selector,)),)))
    found = planner.finding("default/p")
    assert found is not None
    assert found.pools[0].nearest == nearest


def test_a_misspelt_topology_key_is_named() -> None:
    """`no zonne satisfies spread` reads as if the zones were full."""
    spread = TopologySpread(topology_key="topology.kubernetes.io/zonne", max_skew=1, selector=LabelSelector())
    (entry,) = plan_of(types=(SMALL,), pods=(a_pod("p", spreads=(spread,)),)).unschedulable
    assert entry.reason == PodReason.TOPOLOGY_SPREAD
    assert "its nodes do not have topology.kubernetes.io/zonne" in entry.message


def test_a_resource_that_no_type_has_is_reported_as_absent() -> None:
    """A type that lacks one unit of it is no nearer than all others."""
    planner = Planner(a_snapshot(types=(SMALL,), pods=(a_pod("p", extra={"example.com/fpga": "1"}),)))
    found = planner.finding("default/p")
    assert found is not None
    assert found.pools[0].nearest == "none of its types has example.com/fpga"


def test_the_nearest_pool_gives_the_code() -> None:
    """Otherwise, the explanation of a pod that is slightly too large blames its labels."""
    pools = (a_pool("far", Requirement.one_of("team", "b")), a_pool("near", Requirement.one_of("team", "a")))
    pod = a_pod("p", cpu="9", node_selector=(Requirement.one_of("team", "a"),))
    context = context_of(types=(a_type("m", cpu="4"),), pods=(pod,), node_pools=pools)
    queue = queue_of(context, [(context.pending, False)])
    solution = GreedyScheduler(context, queue, frozenset(), frozenset()).run()
    found = Diagnosis(context, solution).of(group_of(context, "p"))
    assert found.reason == PodReason.NO_OFFERING_FITS
    assert {pool.node_pool: pool.reason for pool in found.pools} == {
        "far": PodReason.REQUIREMENT_NOT_MET,
        "near": PodReason.NO_OFFERING_FITS,
    }


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_alternatives_the_one_that_comes_nearest_is_told(order: int) -> None:
    """Otherwise, people add a label that the NodePool never had, where another alternative lacks only a limit."""
    unknown, known = Requirement.one_of("rack", "r1"), Requirement.one_of(labels.ZONE, ZONES[0])
    terms = tuple(NodeSelectorTerm((one,)) for one in (unknown, known)[::order])
    world = {
        "types": (SMALL,),
        "node_pools": (a_pool(limits={"nodes": 0}),),
        "pods": (a_pod("p", required_terms=terms),),
    }
    assert plan_of(**world).unschedulable[0].reason == PodReason.LIMIT_REACHED


def test_a_pod_that_its_volume_contradicts_is_told_which_volume() -> None:
    """Neither the NodePool nor a type is the cause."""
    volume = PersistentVolume(
        name="v", node_terms=(NodeSelectorTerm((Requirement.one_of(labels.ZONE, ZONES[0]),)),), driver="ebs.csi.aws.com"
    )
    claim = PersistentVolumeClaim(
        namespace="default", name="data", volume_name="v", phase="Bound", is_bind_completed=True
    )
    elsewhere = (Requirement.one_of(labels.ZONE, ZONES[1]),)
    pod = a_pod("p", node_selector=elsewhere, volumes=(VolumeUse("data"),))
    (entry,) = plan_of(types=(SMALL,), pods=(pod,), volumes=(volume,), volume_claims=(claim,)).unschedulable
    assert (entry.reason, entry.message) == (
        PodReason.REQUIREMENT_NOT_MET,
        (
            f"NodePool default: PersistentVolumeClaim default/data (volume v) is where {labels.ZONE} is another than the "
            "pod itself demands"
        ),
    )
