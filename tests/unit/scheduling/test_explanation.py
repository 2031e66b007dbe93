"""Why there is no new node although types are suitable."""

from __future__ import annotations

import msgspec
import pytest

from core import labels
from core.model.pod import (
    LabelSelector,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    PodAffinityTerm,
    PodSpec,
    TopologySpread,
    VolumeUse,
)
from core.model.snapshot import BEST_EFFORT, DaemonSet, Options
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint
from core.reasons.pods import RANK, PodReason
from core.scheduling import Planner
from core.scheduling.claim_search import PlanState
from core.scheduling.explanation import Diagnosis, NewNodeRefusal, demand_source, disagreement
from core.scheduling.explanation_text import TypeElimination
from core.scheduling.pods import Avoids
from core.scheduling.scheduler import GreedyScheduler, queue_of
from core.scheduling.topology.domains import DomainCounts
from tests.builders import ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type
from tests.unit.scheduling.reading import context_of, group_of, plan_of

# Which part of a pod demands a label.


HERE, THERE = (Requirement.one_of(labels.ZONE, zone) for zone in ZONES[:2])
IN_ZONE = (NodeSelectorTerm((HERE,)),)
STORAGE = {
    "volumes": (PersistentVolume(name="v", node_terms=IN_ZONE, driver="ebs.csi.aws.com"),),
    "volume_claims": (
        PersistentVolumeClaim(namespace="default", name="data", volume_name="v", phase="Bound", is_bind_completed=True),
    ),
}
OTHER = Requirement.one_of("example.com/rack", "r1")
OF_VOLUME = "PersistentVolumeClaim default/data (volume v)"


@pytest.mark.parametrize(
    ("spec", "subject"),
    [
        ({}, "the pod"),
        ({"node_selector": (HERE,)}, "the pod's nodeSelector"),
        ({"required_terms": IN_ZONE}, "the pod's node affinity"),
        ({"node_selector": (HERE,), "required_terms": IN_ZONE}, "the pod's nodeSelector with the pod's node affinity"),
        ({"volumes": (VolumeUse("data"),)}, OF_VOLUME),
    ],
)
def test_a_demand_is_of_the_field_that_makes_it(spec: dict[str, object], subject: str) -> None:
    """Otherwise, people change a field that is not the cause."""
    pod = a_pod("p", **spec)
    context = context_of(types=(a_type(),), pods=(pod,), **STORAGE)
    group = group_of(context, "p")
    assert demand_source(context, pod, group, group.steps[0], labels.ZONE) == subject
    if "volumes" in spec:
        assert demand_source(context, None, group, group.steps[0], labels.ZONE) == "a volume of the pod"


def test_a_pod_and_its_volume_disagree_about_a_zone() -> None:
    """Each demand alone can be met, so neither is the culprit by itself."""
    pods = [
        a_pod(zone, node_selector=(zone_terms,), volumes=(VolumeUse("data"),))
        for zone, zone_terms in (("a", HERE), ("b", THERE))
    ]
    context = context_of(types=(a_type(),), pods=tuple(pods), **STORAGE)
    messages = []
    for pod in pods:
        group = context.pod_groups.of(pod)
        messages += [disagreement(context, pod, group, step) for step in group.steps[:1]]
    agrees, *disagrees = messages
    assert agrees == ""
    assert all(
        message == f"{OF_VOLUME} is where {labels.ZONE} is another than the pod itself demands" for message in disagrees
    )


@pytest.mark.parametrize(
    ("terms", "is_of_volume"),
    [
        ((NodeSelectorTerm((HERE,)), NodeSelectorTerm((OTHER,))), True),
        ((NodeSelectorTerm((OTHER,)), NodeSelectorTerm((HERE,))), True),
        ((NodeSelectorTerm((OTHER,)),), False),
    ],
)
def test_a_volume_demands_a_label_if_one_of_its_ways_does(
    terms: tuple[NodeSelectorTerm, ...], is_of_volume: bool
) -> None:
    """A volume may be reached in several ways, and each names other labels."""
    volumes = (PersistentVolume(name="v", node_terms=terms, driver="ebs.csi.aws.com"),)
    pod = a_pod("p", volumes=(VolumeUse("data"),))
    context = context_of(types=(a_type(),), pods=(pod,), **{**STORAGE, "volumes": volumes})
    group = group_of(context, "p")
    source = demand_source(context, None, group, group.steps[0], labels.ZONE)
    assert source == ("a volume of the pod" if is_of_volume else "the pod")


def test_the_first_of_several_volumes_is_named() -> None:
    """One is enough to find the cause."""
    claims = tuple(
        PersistentVolumeClaim(namespace="default", name=name, volume_name="v", phase="Bound", is_bind_completed=True)
        for name in ("data", "logs")
    )
    pod = a_pod("p", volumes=(VolumeUse("data"), VolumeUse("logs")))
    context = context_of(types=(a_type(),), pods=(pod,), **{**STORAGE, "volume_claims": claims})
    group = group_of(context, "p")
    assert demand_source(context, pod, group, group.steps[0], labels.ZONE) == OF_VOLUME


# Why pods have no place, with the nearest miss.


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
    finding = planner.finding("default/p")
    assert finding is not None
    assert finding.pools[0].nearest == nearest


def test_a_misspelt_topology_key_is_named() -> None:
    """`no zonne satisfies spread` reads as if the zones were full."""
    spread = TopologySpread(topology_key="topology.kubernetes.io/zonne", max_skew=1, selector=LabelSelector())
    (entry,) = plan_of(types=(SMALL,), pods=(a_pod("p", spreads=(spread,)),)).unschedulable
    assert entry.reason == PodReason.TOPOLOGY_SPREAD
    assert "its nodes do not have topology.kubernetes.io/zonne" in entry.message


def test_a_resource_that_no_type_has_is_reported_as_absent() -> None:
    """A type that lacks one unit of it is no nearer than all others."""
    planner = Planner(a_snapshot(types=(SMALL,), pods=(a_pod("p", extra={"example.com/fpga": "1"}),)))
    finding = planner.finding("default/p")
    assert finding is not None
    assert finding.pools[0].nearest == "none of its types has example.com/fpga"


def test_daemon_sets_that_take_the_room_together_are_named() -> None:
    """Each of them fits, so that none is refused by itself, and the pod's own size is not at fault."""
    daemons = [
        DaemonSet(namespace="kube-system", name=f"agent-{n}", spec=PodSpec(requests={"cpu": 1000 + 500 * (n == 7)}))
        for n in range(10)
    ]
    planner = Planner(a_snapshot(types=(SMALL,), daemon_sets=daemons, pods=(a_pod("p", cpu="500m"),)))
    finding = planner.finding("default/p")
    assert finding is not None
    assert finding.reason == PodReason.NO_OFFERING_FITS
    assert finding.pools[0].nearest == (
        "without DaemonSets' pods small would do, and they request 10500m of its 2 cpu (kube-system/agent-7 1500m, "
        "kube-system/agent-0 1, kube-system/agent-1 1, and 7 more): lower their requests, keep some of them off these nodes "
        "by node affinity or a taint, or allow larger types"
    )
    alone = Planner(a_snapshot(types=(SMALL,), daemon_sets=daemons[:1], pods=(a_pod("p", cpu="3"),)))
    lacking = alone.finding("default/p")
    assert lacking is not None
    assert lacking.pools[0].nearest == "small lacks 2 cpu", "the pod would not fit without them, either"


def test_the_nearest_pool_gives_the_code() -> None:
    """Otherwise, the explanation of a pod that is slightly too large blames its labels."""
    pools = (a_pool("far", Requirement.one_of("team", "b")), a_pool("near", Requirement.one_of("team", "a")))
    pod = a_pod("p", cpu="9", node_selector=(Requirement.one_of("team", "a"),))
    context = context_of(types=(a_type("m", cpu="4"),), pods=(pod,), node_pools=pools)
    queue = queue_of(context, [(context.pending, Avoids.NO_NODE)])
    solution = GreedyScheduler(context, queue, frozenset(), frozenset()).run()
    finding = Diagnosis(context, solution).of(group_of(context, "p"))
    assert finding.reason == PodReason.NO_OFFERING_FITS
    assert {pool.node_pool: pool.reason for pool in finding.pools} == {
        "far": PodReason.REQUIREMENT_NOT_MET,
        "near": PodReason.NO_OFFERING_FITS,
    }


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_alternatives_the_one_that_comes_nearest_is_told(order: int) -> None:
    """Otherwise, people add a label that the NodePool never had, where another alternative lacks only a limit."""
    unknown, known = Requirement.one_of("rack", "r1"), Requirement.one_of(labels.ZONE, ZONES[0])
    terms = tuple(NodeSelectorTerm((requirement,)) for requirement in (unknown, known)[::order])
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
    without = a_pod("a", node_selector=elsewhere)  # otherwise alike, and first
    for pods in ((pod,), (without, pod)):
        (entry,) = plan_of(types=(SMALL,), pods=pods, volumes=(volume,), volume_claims=(claim,)).unschedulable
        assert (entry.reason, entry.message) == (
            PodReason.REQUIREMENT_NOT_MET,
            (
                f"NodePool default: PersistentVolumeClaim default/data (volume v) is where {labels.ZONE} is another than "
                "the pod itself demands"
            ),
        )


GI = 2**30
TYPE = a_type("m", cpu="4", memory="16Gi")
WEB = a_selector(app="web")
EVEN = {"labels": {"app": "web"}, "spreads": (TopologySpread(labels.ZONE, 1, selector=WEB),)}
CLAIM, NODE = a_node_of(a_type("old", zones=ZONES[1:2]), zone=ZONES[1])
RUNNING = a_pod("running", cpu="1500m", labels={"app": "web"}, node_name=NODE.name, phase="Running")
WITH_NODE = {"nodes": (NODE,), "node_claims": (CLAIM,)}
CLOSED = (Taint("closed", NO_SCHEDULE),)


def refusal(name: str, **world: object) -> tuple[str, str]:
    """The code and the message of the first NodePool for a pod."""
    (entry,) = (entry for entry in plan_of(**world).unschedulable if entry.pod == f"default/{name}")
    return entry.reason, entry.message.splitlines()[0].partition(": ")[2]


def several(minimum: int) -> Requirement:
    return Requirement.of(labels.INSTANCE_TYPE, "Exists", (), minimum)


def near(key: str, selector: LabelSelector | None, *namespaces: str) -> PodAffinityTerm:
    return PodAffinityTerm(key, selector, namespaces=namespaces)


def reason_for(cpu: int) -> str | None:
    context = context_of(types=(a_type("a", cpu="4"),), pods=(a_pod("p"),), node_pools=(a_pool(limits={"cpu": cpu}),))
    (template,), group = context.templates, group_of(context, "p")
    state = PlanState(context, DomainCounts(context.topology), context.plan_constraints(()))
    (step,) = group.steps
    reqs = context.table.narrowed(template.offered, required=step.alternatives[0])
    elimination = TypeElimination(context, state.constraints, template, group, reqs)
    return NewNodeRefusal(context, state).finding(elimination, step).reason


def test_limits_are_the_reason_only_if_they_leave_nothing() -> None:
    """Otherwise, a user raises a limit that has room."""
    assert (reason_for(3_999), reason_for(4_000)) == (PodReason.LIMIT_REACHED, None)


def test_limits_tell_the_smallest_type_that_would_do_and_what_new_nodes_hold() -> None:
    """Otherwise, a user raises a limit by too little, or does not see that nodes not yet launched count in full."""
    two = (a_type("m1", cpu="4", memory="16Gi"), a_type("m2", cpu="4", memory="32Gi"))

    def said(limits: dict[str, int], *pods: str, memory: str = "1Gi") -> str:
        waiting = tuple(a_pod(name, cpu="3", memory=memory) for name in pods)
        reason, message = refusal(pods[-1], types=two, node_pools=(a_pool(limits=limits),), pods=waiting)
        assert reason == PodReason.LIMIT_REACHED
        return message

    assert said({"cpu": 3_000}, "p") == (
        "its limits leave cpu 3, too little for another node; the smallest suitable instance type has cpu 4"
    )
    assert said({"memory": 20 * GI, "nodes": 9}, "p", memory="20Gi") == (
        "its limits leave memory 20Gi, nodes 9, too little for another node; "
        "the smallest suitable instance type has memory 32Gi"
    )
    assert said({"memory": 20 * GI, "nodes": 1}, "p", "q") == (
        "its limits leave memory 4Gi, nodes 0, too little for another node; "
        "the smallest suitable instance type has memory 16Gi; "
        "1 new node of this plan counts at the largest instance type until launched, memory 16Gi in all"
    )
    assert said({"cpu": 8_000}, "p", "q", "r") == (
        "its limits leave cpu 0, too little for another node; the smallest suitable instance type has cpu 4; "
        "2 new nodes of this plan count at the largest instance type until launched, cpu 8 in all"
    )
    assert said({"nodes": 1}, "p", "q") == "its limits leave nodes 0, too little for another node"


def test_limits_that_leave_types_only_where_the_pod_may_not_go_are_the_reason() -> None:
    """Otherwise, users change the pod's rule, which the larger type in the other zone would satisfy."""
    types = (a_type("big", cpu="8", zones=ZONES[:1]), a_type("small", cpu="4", zones=ZONES[1:2]))
    apart = a_pod("p", anti_affinity=(PodAffinityTerm(labels.ZONE, WEB),))
    pool = a_pool(limits={"cpu": 6_000})
    assert refusal("p", types=types, node_pools=(pool,), pods=(RUNNING, apart), **WITH_NODE) == (
        PodReason.LIMIT_REACHED,
        "its limits leave cpu 4 of 6, no room where the pod's rules allow it",
    )


def test_limits_that_leave_too_few_types_for_min_values_are_the_reason() -> None:
    types = (a_type("m1", memory="16Gi"), a_type("m2", memory="32Gi"))
    pool = a_pool("default", several(2), limits={"memory": 20 * GI})
    assert refusal("p", types=types, node_pools=(pool,), pods=(a_pod("p"),)) == (
        PodReason.LIMIT_REACHED,
        (
            "its limits leave memory 20Gi of 20Gi, and so too few instance types for minValues "
            "(node.kubernetes.io/instance-type: 1 of 2)"
        ),
    )


class TestMinValues:
    """Which of the pool, the pod's demands and the pod's rules leaves too few types."""

    def test_of_the_pool_itself(self) -> None:
        pool = a_pool("default", several(3))
        assert refusal("p", types=(a_type("a"), a_type("b")), node_pools=(pool,), pods=(a_pod("p"),)) == (
            PodReason.MIN_VALUES_NOT_MET,
            "too few values for minValues (node.kubernetes.io/instance-type: 2 of 3)",
        )

    def test_by_what_the_pod_demands(self) -> None:
        types = (a_type("a"), a_type("b"), a_type("c", **{labels.ARCH: "arm64"}))
        pod = a_pod("p", node_selector=(Requirement.one_of(labels.ARCH, "amd64"),))
        assert refusal("p", types=types, node_pools=(a_pool("default", several(3)),), pods=(pod,)) == (
            PodReason.MIN_VALUES_NOT_MET,
            "too few values for minValues (node.kubernetes.io/instance-type: 2 of 3) under the pod's requirements",
        )

    def test_by_the_pods_rules(self) -> None:
        """The zone with most types is told; three types in all would read as if minValues were met."""
        types = tuple(a_type(name, zones=(zone,)) for name, zone in zip("abcd", (*ZONES, ZONES[1]), strict=True))
        pool = a_pool("default", several(3))
        assert refusal("p", types=types, node_pools=(pool,), pods=(a_pod("p", **EVEN),)) == (
            PodReason.MIN_VALUES_NOT_MET,
            "too few values for minValues (node.kubernetes.io/instance-type: 2 of 3) where the pod's rules allow it",
        )

    def test_not_where_they_are_a_wish(self) -> None:
        types = tuple(a_type(name, zones=(zone,)) for name, zone in zip("abc", ZONES, strict=True))
        world = {"types": types, "node_pools": (a_pool("default", several(2)),), "pods": (a_pod("p", **EVEN),)}
        plan = plan_of(**world, options=Options(min_values_policy=BEST_EFFORT))
        assert [claim.pods for claim in plan.claims] == [("default/p",)]


NOBODY = "no pod that has or gets a node matches the pod's affinity: "


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (near(labels.HOSTNAME, WEB), f"{NOBODY}app In [web] in namespace default"),
        (near(labels.ZONE, None), f"{NOBODY}no label at all in namespace default"),
        (
            near(
                labels.ZONE,
                LabelSelector((Requirement.one_of("app", "web"), Requirement.of("tier", "Exists"))),
                "a",
                "b",
            ),
            f"{NOBODY}app In [web] and tier Exists in namespace a or b",
        ),
        (
            PodAffinityTerm(labels.ZONE, WEB, namespaces=(), namespace_selector=LabelSelector()),
            f"{NOBODY}app In [web] in any namespace",
        ),
        (near("rack", WEB), "its nodes do not have rack, the topologyKey of the pod's affinity"),
    ],
)
def test_an_affinity_tells_which_pods_are_missing(term: PodAffinityTerm, message: str) -> None:
    """The state of the zones sends users to look at zones."""
    reason = refusal("p", types=(TYPE,), pods=(a_pod("p", affinity=(term,)),))
    assert reason == (PodReason.POD_AFFINITY, message)


def test_pods_that_must_share_a_full_node_get_no_new_one() -> None:
    pods = (RUNNING, a_pod("p", cpu="2", affinity=(PodAffinityTerm(labels.HOSTNAME, WEB),)))
    assert refusal("p", types=(TYPE,), pods=pods, **WITH_NODE) == (
        PodReason.POD_AFFINITY,
        "no kubernetes.io/hostname satisfies the pod's affinity (a new node has none of the pods that it must be near)",
    )


def test_an_anti_affinity_tells_where_the_pods_are() -> None:
    apart = a_pod("p", anti_affinity=(PodAffinityTerm(labels.ZONE, WEB),))
    types = (a_type("m", cpu="4", zones=ZONES[1:2]),)
    assert refusal("p", types=types, pods=(RUNNING, apart), **WITH_NODE) == (
        PodReason.POD_ANTI_AFFINITY,
        f"no topology.kubernetes.io/zone satisfies the pod's anti-affinity (pods now: {ZONES[1]}: 1)",
    )


class TestASpread:
    """What must fill up first, why it counts, and what the user can do."""

    KEY = "topology.kubernetes.io/zone"

    def said(self, name: str, **world: object) -> str:
        reason, message = refusal(name, **world)
        assert reason == PodReason.TOPOLOGY_SPREAD
        beginning, _, rest = message.partition("; ")
        assert beginning.startswith(f"no {self.KEY} satisfies the pod's spread (pods now: ")
        return f"{beginning.partition('now: ')[2]} {rest}"

    def advice(self, what: str) -> str:
        return (
            f"this NodePool cannot: demand the values of {self.KEY} that may be used in the pod's node affinity, "
            f"set nodeTaintsPolicy: Honor, or keep {what} out of it"
        )

    def test_over_domains_of_nodes_of_other_pools(self) -> None:
        first, second, third = ZONES
        pools = (
            a_pool("b", Requirement.one_of(labels.ZONE, second), taints=CLOSED),
            a_pool("a", Requirement.one_of(labels.ZONE, third), taints=CLOSED),
            a_pool("own", Requirement.one_of(labels.ZONE, first), weight=1),
        )
        pods = tuple(a_pod(f"web-{number}", cpu="3", **EVEN) for number in range(2))
        assert (
            plan_of(types=(TYPE,), node_pools=pools, pods=pods).unschedulable == ()
        )  # where no pod can run, none counts
        closed = [a_node_of(TYPE, f"n{zone}", pool=pool, zone=zone) for pool, zone in (("b", second), ("a", third))]
        nodes = tuple(msgspec.structs.replace(node, taints=CLOSED) for _, node in closed)
        world = {"nodes": nodes, "node_claims": tuple(claim for claim, _ in closed)}
        assert self.said("web-1", types=(TYPE,), node_pools=pools, pods=pods, **world) == (
            f"{first}: 1, {second}: 0, {third}: 0) {second}, {third} must fill up first (maxSkew 1) and count because of "
            f"NodePool a, NodePool b; {self.advice('NodePool a, NodePool b')}"
        )

    def test_over_a_domain_of_nodes_that_exist(self) -> None:
        first, second = ZONES[:2]
        pools = (a_pool("own", Requirement.one_of(labels.ZONE, first)),)
        pods = tuple(a_pod(f"web-{number}", cpu="3", **EVEN) for number in range(2))
        assert self.said("web-1", types=(TYPE,), node_pools=pools, pods=pods, **WITH_NODE) == (
            f"{first}: 1, {second}: 0) {second} must fill up first (maxSkew 1) and counts because of nodes that exist; "
            f"{self.advice('nodes that exist')}"
        )

    def test_over_fewer_domains_than_its_least(self) -> None:
        first, second = ZONES[:2]
        spread = TopologySpread(labels.ZONE, 1, selector=WEB, min_domains=3)
        pods = tuple(a_pod(f"web-{n}", labels={"app": "web"}, spreads=(spread,)) for n in range(3))
        assert self.said("web-2", types=(a_type("m", zones=(first, second)),), pods=pods) == (
            f"{first}: 1, {second}: 1) minDomains asks for 3 values of {self.KEY}, and NodePools and nodes have 2"
        )
