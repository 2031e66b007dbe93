"""Why there is no new node although types are suitable."""

from __future__ import annotations

import pytest

from core import labels
from core.model.pod import LabelSelector, PodAffinityTerm, TopologySpread
from core.model.snapshot import BEST_EFFORT, Options
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint
from core.reasons.pod import PodReason
from core.scheduling.explanation.new_node_refusal import NewNodeRefusal
from core.scheduling.explanation.type_elimination import TypeElimination
from core.scheduling.greedy.plan_state import PlanState
from core.scheduling.topology.domain_counts import DomainCounts
from tests.builders import ZONES, a_node_of, a_pod, a_pool, a_selector, a_type
from tests.unit.scheduling.reading import context_of, group_of, plan_of

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
    reqs = context.table.narrowed(template.offered, asked=step.alternatives[0])
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
    found = refusal("p", types=(TYPE,), pods=(a_pod("p", affinity=(term,)),))
    assert found == (PodReason.POD_AFFINITY, message)


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

    def test_over_domains_of_other_pools(self) -> None:
        first, second, third = ZONES
        pools = (
            a_pool("b", Requirement.one_of(labels.ZONE, second), taints=CLOSED),
            a_pool("a", Requirement.one_of(labels.ZONE, third), taints=CLOSED),
            a_pool("own", Requirement.one_of(labels.ZONE, first), weight=1),
        )
        pods = tuple(a_pod(f"web-{number}", cpu="3", **EVEN) for number in range(2))
        assert self.said("web-1", types=(TYPE,), node_pools=pools, pods=pods) == (
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
