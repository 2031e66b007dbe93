"""Which nodes are launched: types, prices, pools, limits, minValues, reservations, overlays."""

from __future__ import annotations

import msgspec
import pytest

from core import labels
from core.model.catalogue import Offering
from core.model.feature_gates import FeatureGates
from core.model.overlay import CapacityBuffer
from core.model.pod import HostPort, Pod, PodAffinityTerm, PodSpec, TopologySpread, VolumeUse
from core.model.policy import DaemonSet
from core.model.snapshot import BEST_EFFORT, Options
from core.model.storage import WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim, StorageClass
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint, Toleration
from core.reasons.pod import PodReason
from core.scheduling.capacity.claim_profile import ClaimProfiles
from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.new_claims import NewClaims
from core.scheduling.greedy.plan_state import PlanState
from core.scheduling.greedy.queue import queue_of
from core.scheduling.greedy.scheduler import GreedyScheduler
from core.scheduling.topology.domain_choice import DomainChoice
from core.scheduling.topology.domain_counts import DomainCounts
from tests.builders import CLASS_REF, ZONES, a_pod, a_pool, a_selector, a_type
from tests.unit.scheduling.greedy.types_for_tests import APART, LARGE, SMALL, some_claims
from tests.unit.scheduling.reading import claim_of, context_of, group_of, places, plan_of, reasons_of

WEB = a_selector(app="web")


def test_types_come_cheapest_first_and_only_those_that_fit() -> None:
    """Otherwise, a claim lists a type too small for its pods, and its node is useless."""
    claim = claim_of(plan_of(types=(LARGE, SMALL), pods=(a_pod("p", cpu="1"),)), "p")
    assert claim.instance_types == ("small", "large")
    assert claim_of(plan_of(types=(LARGE, SMALL), pods=(a_pod("p", cpu="3"),)), "p").instance_types == ("large",)


def test_the_price_is_that_of_the_cheapest_available_offering() -> None:
    """Otherwise, the plan shows a price that is not available."""
    sold_out = tuple(msgspec.structs.replace(o, available=o.capacity_type != "spot") for o in SMALL.offerings)
    claim = claim_of(plan_of(types=(msgspec.structs.replace(SMALL, offerings=sold_out),), pods=(a_pod("p"),)), "p")
    assert (claim.price, claim.capacity_types) == (100_000_000, ("on-demand",))


def test_equal_prices_are_ordered_by_name() -> None:
    """Otherwise, two runs with one input differ."""
    twins = tuple(a_type(name) for name in ("b", "a", "c"))
    assert claim_of(plan_of(types=twins, pods=(a_pod("p"),)), "p").instance_types == ("a", "b", "c")


def test_the_heavier_pool_wins_and_the_next_takes_the_rest() -> None:
    """Otherwise, a pool's weight would be ignored, or a pod would wait although another pool could serve it."""
    pools = (
        a_pool("light"),
        a_pool("heavy", Requirement.one_of(labels.INSTANCE_TYPE, "small"), weight=50),
    )
    plan = plan_of(types=(SMALL, LARGE), node_pools=pools, pods=(a_pod("p"), a_pod("big", cpu="4")))
    assert claim_of(plan, "p").node_pool == "light"  # it shares the node of the big one, which was placed first
    alone = plan_of(types=(SMALL, LARGE), node_pools=pools, pods=(a_pod("p"),))
    assert claim_of(alone, "p").node_pool == "heavy"


def test_taints_of_a_pool_keep_others_out_and_startup_taints_do_not() -> None:
    """Otherwise, pods are placed on nodes that repel them, or kept from nodes that only boot."""
    tainted = a_pool(taints=(Taint("gpu", NO_SCHEDULE),))
    starting = a_pool(startup_taints=(Taint("boot", NO_SCHEDULE),))
    assert reasons_of(plan_of(types=(SMALL,), node_pools=(tainted,), pods=(a_pod("p"),))) == {
        "p": PodReason.TAINT_NOT_TOLERATED
    }
    tolerant = a_pod("p", tolerations=(Toleration("gpu", "Exists"),))
    assert plan_of(types=(SMALL,), node_pools=(tainted,), pods=(tolerant,)).unschedulable == ()
    assert plan_of(types=(SMALL,), node_pools=(starting,), pods=(a_pod("p"),)).claims[0].startup_taints != ()


def test_prefer_no_schedule_is_avoided_until_nothing_else_is_left() -> None:
    """The taint must be neither meaningless nor absolute."""
    avoid = a_pool("avoid", taints=(Taint("old", PREFER_NO_SCHEDULE),), weight=50)
    assert plan_of(types=(SMALL,), node_pools=(avoid, a_pool("plain")), pods=(a_pod(),)).claims[0].node_pool == "plain"
    assert plan_of(types=(SMALL,), node_pools=(avoid,), pods=(a_pod(),)).claims[0].node_pool == "avoid"


def test_limits_hold_for_every_type_that_ec2_may_choose() -> None:
    """EC2 may launch the largest type of each claim: together they must stay within the limit."""
    claims = some_claims("a", "b", "c", types=(SMALL, LARGE), node_pools=(a_pool(limits={"cpu": 8000}),))
    sizes = {"small": 2000, "large": 8000}
    assert sum(max(sizes[t] for t in claim.instance_types) for claim in claims) <= 8000
    assert len(claims) == 3, "each pod fits on a small node, so choice is given up before pods are"


def test_a_limit_on_nodes_holds_within_one_batch() -> None:
    """Karpenter counts nodes only between batches and exceeds the limit; ours holds."""
    assert len(some_claims("a", "b", "c", types=(SMALL,), node_pools=(a_pool(limits={"nodes": 2}),))) == 2


def test_a_reached_limit_is_named() -> None:
    """Otherwise, users look for a missing instance type instead of raising the limit."""
    plan = plan_of(types=(SMALL,), node_pools=(a_pool(limits={"cpu": 1000}),), pods=(a_pod("p"),))
    assert reasons_of(plan) == {"p": PodReason.LIMIT_REACHED}


def test_min_values_keep_a_claim_flexible() -> None:
    """A second pod must not reduce the choice that minValues require."""
    flexible = Requirement.of(labels.INSTANCE_TYPE, "Exists", min_values=2)
    pods = (a_pod("p", cpu="1500m"), a_pod("q", cpu="1500m"))
    plan = plan_of(types=(SMALL, LARGE), node_pools=(a_pool("default", flexible),), pods=pods)
    assert [claim.instance_types for claim in plan.claims] == [("small", "large")] * 2


def test_best_effort_lowers_min_values_where_strict_refuses() -> None:
    """Strict guarantees the choice, BestEffort the node."""
    pool = a_pool("default", Requirement.of(labels.INSTANCE_TYPE, "Exists", min_values=3))
    world = {"types": (SMALL, LARGE), "node_pools": (pool,), "pods": (a_pod("p"),)}
    assert reasons_of(plan_of(**world)) == {"p": PodReason.MIN_VALUES_NOT_MET}
    claim = plan_of(**world, options=Options(min_values_policy=BEST_EFFORT)).claims[0]
    kept = {r.key: r.min_values for r in claim.requirements}
    assert claim.min_values_relaxed
    assert kept[labels.INSTANCE_TYPE] == 2


def test_best_effort_lowers_min_values_where_no_single_zone_meets_them() -> None:
    """A pod that needs one zone for all of its group had no node, although BestEffort prefers a node to the choice."""
    types = tuple(a_type(name, zones=(zone,)) for name, zone in zip(("one", "two"), ZONES, strict=False))
    pool = a_pool("default", Requirement.of(labels.INSTANCE_TYPE, "Exists", min_values=2))
    by_zone = (PodAffinityTerm(labels.ZONE, a_selector(app="a")),)
    world = {"types": types, "node_pools": (pool,), "pods": (a_pod("p", labels={"app": "a"}, affinity=by_zone),)}
    assert plan_of(**world).claims == ()
    (claim,) = plan_of(**world, options=Options(min_values_policy=BEST_EFFORT)).claims
    assert (claim.min_values_relaxed, claim.instance_types, claim.zones) == (True, ("one",), ZONES[:1])


def test_unusable_pools_launch_nothing() -> None:
    """Otherwise, a static, deleting, invalid or unready pool would be given nodes that nobody wants."""
    for pool in (
        a_pool(is_ready=False),
        a_pool(replicas=2),
        a_pool(problem="spec.limits.cpu: is no quantity"),
        a_pool(deleted_at=a_pod().created_at),
    ):
        assert reasons_of(plan_of(types=(SMALL,), node_pools=(pool,), pods=(a_pod("p"),))) == {
            "p": PodReason.NO_NODE_POOL
        }
    assert plan_of(types=(SMALL,), node_pools=(a_pool(is_ready=None),), pods=(a_pod("p"),)).unschedulable == ()


def test_a_daemon_counts_on_the_types_that_it_runs_on() -> None:
    """Otherwise, the node would be too small once the DaemonSet's pod is there."""
    agent = DaemonSet(
        namespace="kube-system",
        name="agent",
        spec=PodSpec(
            requests={"cpu": 1500, "memory": 1, "pods": 1},
            node_selector=(Requirement.one_of(labels.INSTANCE_TYPE, "small"),),
        ),
    )
    plan = plan_of(types=(SMALL, LARGE), daemon_sets=(agent,), pods=(a_pod("p", cpu="1"),))
    assert plan.claims[0].instance_types == ("large",)
    assert plan.claims[0].resources["cpu"] == 1000


def test_a_daemons_host_port_is_taken_on_every_new_node() -> None:
    """Otherwise, the pod is planned onto a node where its port is never free."""
    agent = DaemonSet(namespace="k", name="agent", spec=PodSpec(requests={"pods": 1}, host_ports=(HostPort(80),)))
    plan = plan_of(types=(SMALL,), daemon_sets=(agent,), pods=(a_pod("p", host_ports=(HostPort(80),)),))
    assert reasons_of(plan) == {"p": PodReason.HOST_PORT_TAKEN}


def test_one_value_of_a_pools_own_label_lands_on_the_claim() -> None:
    """Otherwise, the node comes up without the label that its pods select."""
    pool = a_pool("default", Requirement.of("team", "Exists"), Requirement.of("rank", "Gt", ["5"]), labels={"a": "b"})
    selecting = a_pod("p", node_selector=(Requirement.one_of("team", "blue"),))
    claim = plan_of(types=(SMALL,), node_pools=(pool,), pods=(selecting,)).claims[0]
    assert claim.labels == {
        "a": "b",
        "team": "blue",
        "rank": "6",
        labels.NODEPOOL: "default",
        f"{CLASS_REF.group}/{CLASS_REF.kind.lower()}": CLASS_REF.name,
    }


def test_a_requirement_that_a_label_exists_survives_merging_with_not_in() -> None:
    """NotIn alone admits a node without the label; with Exists beside it, the node must have it."""
    picky = a_pod("p", node_selector=(Requirement.of("team", "NotIn", ["red"]), Requirement.of("team", "Exists")))
    assert reasons_of(plan_of(types=(SMALL,), pods=(picky,))) == {"p": PodReason.REQUIREMENT_NOT_MET}
    labelled = a_pool(labels={"team": "blue"})
    assert plan_of(types=(SMALL,), node_pools=(labelled,), pods=(picky,)).unschedulable == ()


def test_contradicting_requirements_are_met_by_no_node() -> None:
    """An empty set of values must not be read as 'label absent'."""
    torn = a_pod("p", node_selector=(Requirement.one_of("team", "red"), Requirement.of("team", "In", ["blue"])))
    assert reasons_of(plan_of(types=(SMALL,), pods=(torn,))) == {"p": PodReason.REQUIREMENT_NOT_MET}


def test_capacity_buffers_get_nodes_but_are_no_pods_of_the_plan() -> None:
    """Otherwise, the headroom would be missing, or pods that do not exist would be reported."""
    spec = PodSpec(requests={"cpu": 1500, "memory": 2**30, "pods": 1})
    buffer = CapacityBuffer(namespace="default", name="spare", pods=2, spec=spec)
    on = Options(feature_gates=FeatureGates(capacity_buffer=True))
    plan = plan_of(types=(SMALL,), buffers=(buffer,), options=on)
    assert [claim.pods for claim in plan.claims] == [(), ()]
    assert plan_of(types=(SMALL,), buffers=(buffer,)).claims == ()


def test_volumes_beyond_a_types_attachments_go_to_a_second_node() -> None:
    """Karpenter has no attach limit on new nodes: the last pods would wait forever for their volumes."""
    storage = StorageClass(name="gp3", provisioner="ebs.csi.aws.com", binding_mode=WAIT_FOR_FIRST_CONSUMER)
    claims = tuple(PersistentVolumeClaim(namespace="default", name=f"c{n}", storage_class="gp3") for n in range(3))
    pods = tuple(a_pod(f"p{n}", cpu="100m", volumes=(VolumeUse(f"c{n}"),)) for n in range(3))
    one_type = (msgspec.structs.replace(LARGE, attach_limit=2),)
    plan = plan_of(types=one_type, pods=pods, volume_claims=claims, storage_classes=(storage,))
    assert sorted(len(claim.pods) for claim in plan.claims) == [1, 2]
    four = a_pod("p", volumes=tuple(VolumeUse(f"c{n}") for n in range(3)))
    alone = plan_of(types=one_type, pods=(four,), volume_claims=claims, storage_classes=(storage,))
    assert reasons_of(alone) == {"p": PodReason.ATTACH_LIMIT}


def test_cost_is_the_sum_of_the_claims() -> None:
    """Otherwise, the plan's total is wrong."""
    plan = plan_of(types=(SMALL,), pods=tuple(a_pod(f"p{n}", **APART) for n in range(3)))
    assert plan.cost.hourly == sum(claim.price for claim in plan.claims) == 3 * 40_000_000
    assert len(places(plan)) == 3


def opening(*waiting: Pod, **world: object) -> tuple[NewClaims, SchedulingContext, PlanState]:
    """The claims of a plan that has opened none, with its context and its state."""
    context = context_of(**{"types": (SMALL, LARGE), "pods": waiting, **world})
    state = PlanState(context, DomainCounts(context.topology), context.plan_constraints(()))
    return NewClaims(state, DomainChoice(context.topology, state.domain_counts, ()), ClaimProfiles()), context, state


@pytest.mark.parametrize(
    ("cpu", "limit", "types", "is_limited"),
    [
        ("1", None, ("large", "small"), False),
        ("3", None, ("large",), False),
        ("9", None, None, False),
        ("1", 4000, ("small",), False),
        ("3", 4000, None, True),
        ("9", 4000, None, True),
        ("1", 1000, None, True),
    ],
)
def test_limits_that_leave_no_type_for_a_pod_are_noted(
    cpu: str, limit: int | None, types: tuple[str, ...] | None, is_limited: bool
) -> None:
    """Claims that are open then give up larger types, so that the limit has room."""
    new, context, _ = opening(a_pod("p", cpu=cpu), node_pools=(a_pool(limits={} if limit is None else {"cpu": limit}),))
    group = group_of(context, "p")
    (step,) = group.steps
    for _ in range(2):
        found = new.open(5, group, step)
        offered = context.templates[0].types
        names = found and offered.names(offered.room.fitting(found.profile.mask, found.total))
        assert (names, new.limited) == (types, {0} if is_limited else set())
        assert found is None or (found.claim.index, found.total, found.reservations) == (5, group.requests, ())


def test_a_refusal_holds_until_limits_have_room_again() -> None:
    """The plan says so; each pod of a burst would ask every NodePool. A rule along zones may be met later, and is asked."""
    for rules, is_asked in (({}, False), ({"spreads": (TopologySpread(labels.ZONE, 1, selector=WEB),)}, True)):
        new, context, state = opening(
            a_pod("p", labels={"app": "web"}, **rules), node_pools=(a_pool(limits={"nodes": 0}),)
        )
        group = group_of(context, "p")
        assert new.open(0, group, group.steps[0]) is None
        state.constraints.limits.remaining[0].left["nodes"] = 1
        assert (new.open(0, group, group.steps[0]) is not None) is is_asked
        new.forget_refusals()
        assert new.open(0, group, group.steps[0]) is not None


def test_each_claim_lowers_min_values_by_itself() -> None:
    """Pods alike share what was found for the first of them, but not what its claim has given up."""
    new, context, _ = opening(
        a_pod("p", cpu="3"),
        node_pools=(a_pool("default", Requirement.of(labels.INSTANCE_TYPE, "Exists", (), 2)),),
        options=Options(min_values_policy=BEST_EFFORT),
    )
    group = group_of(context, "p")
    for _ in range(2):
        found = new.open(0, group, group.steps[0])
        assert found is not None
        assert (found.claim.min_values, found.claim.min_values_relaxed) == ({labels.INSTANCE_TYPE: 1}, True)


def test_places_of_a_reservation_go_to_as_many_claims_as_it_has() -> None:
    """The pods are alike, and the next claim costs what it costs."""
    place = Offering("small", ZONES[0], labels.RESERVED, 0, reservation_id="cr", reservation_capacity=1)
    small = msgspec.structs.replace(SMALL, offerings=(*SMALL.offerings, place))
    plan = plan_of(types=(small,), pods=tuple(a_pod(f"p{n}", cpu="1500m") for n in range(3)))
    assert [claim.capacity_types for claim in plan.claims] == [("reserved",), *[("on-demand", "spot")] * 2]
    strict = Requirement.of(labels.INSTANCE_TYPE, "Exists", (), 2)
    plan = plan_of(types=(small, LARGE), node_pools=(a_pool("default", strict),), pods=(a_pod("p", cpu="1500m"),))
    assert [(claim.capacity_types, claim.instance_types) for claim in plan.claims] == [
        (("on-demand", "spot"), ("small", "large"))
    ]


def test_a_zone_is_not_chosen_for_a_reservation_that_min_values_rule_out() -> None:
    """With the reservation its zone has both types; a claim that takes it has one, so none was launched in any zone."""
    one, two = (a_type(name, price=0.1, capacity_types=(labels.SPOT,), zones=ZONES[:2]) for name in ("one", "two"))
    reserved = Offering("one", ZONES[0], labels.RESERVED, 0, reservation_id="cr-1", reservation_capacity=1)
    one = msgspec.structs.replace(one, offerings=(reserved, *(o for o in one.offerings if o.zone == ZONES[1])))
    pool = a_pool("default", Requirement.of(labels.INSTANCE_TYPE, "Exists", (), 2))
    by_zone = (PodAffinityTerm(labels.ZONE, a_selector(app="a")),)
    pod = a_pod("p", cpu="100m", labels={"app": "a"}, affinity=by_zone)
    world = {"types": (one, two), "node_pools": (pool,), "pods": (pod,)}
    context = context_of(**world)
    first_plan = GreedyScheduler(context, queue_of(context, [(context.pending, False)]), frozenset(), frozenset()).run()
    assert first_plan.unplaced == []
    (claim,) = plan_of(**world).claims
    assert (claim.instance_types, claim.zones, claim.capacity_types) == (("one", "two"), ZONES[1:2], ("spot",))


def test_a_pod_that_must_share_a_node_opens_none_once_the_first_has_one() -> None:
    beside = PodAffinityTerm(labels.HOSTNAME, WEB)
    pods = tuple(a_pod(f"p{n}", cpu="5", labels={"app": "web"}, affinity=(beside,)) for n in range(3))
    plan = plan_of(types=(SMALL, LARGE), pods=pods)
    assert (len(plan.claims), [*reasons_of(plan).values()]) == (1, [PodReason.POD_AFFINITY] * 2)
