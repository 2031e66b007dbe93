"""Which nodes are launched: types, prices, pools, limits, minValues, reservations, overlays."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from core import labels
from core.model.catalogue import Offering
from core.model.pod import (
    EBS_DRIVER,
    WAIT_FOR_FIRST_CONSUMER,
    HostPort,
    NodeSelectorTerm,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    PodSpec,
    StorageClass,
    TopologySpread,
    VolumeUse,
)
from core.model.snapshot import BEST_EFFORT, CapacityBuffer, DaemonSet, FeatureGates, Options
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint, Toleration
from core.reasons.pods import PodReason
from core.scheduling.claim_search import ClaimNarrowing, NewClaims, PlanState, Solution, narrow_to_cheapest
from core.scheduling.context import SchedulingContext
from core.scheduling.new_node import ClaimDraft, ClaimProfile, ClaimProfiles
from core.scheduling.pods import Avoids, PodSignature, RelaxationStep
from core.scheduling.primitives import IMPOSSIBLE, RequirementId
from core.scheduling.scheduler import GreedyScheduler, queue_of
from core.scheduling.topology.domains import DomainChoice, DomainCounts
from tests.builders import CLASS_REF, ZONES, a_pod, a_pool, a_selector, a_snapshot, a_type
from tests.unit.scheduling.greedy.types_for_tests import APART as NEW_CLAIMS_APART
from tests.unit.scheduling.greedy.types_for_tests import LARGE as NEW_CLAIMS_LARGE
from tests.unit.scheduling.greedy.types_for_tests import SMALL as NEW_CLAIMS_SMALL
from tests.unit.scheduling.greedy.types_for_tests import some_claims
from tests.unit.scheduling.reading import claim_of, context_of, group_of, places, plan_of, reasons_of

# A claim's requirements after one more pod.


def test_a_rule_about_zones_narrows_to_one_zone_and_follows_the_counts() -> None:
    """Otherwise, a spread is planned with outdated counts."""
    spread = TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=a_selector(app="web"))
    held = (Requirement.one_of(labels.ZONE, ZONES[0]),)
    pods = (a_pod("web", labels={"app": "web"}, spreads=(spread,)), a_pod("held", node_selector=held))
    context = context_of(types=(a_type("m"),), pods=pods)
    counts, profiles = DomainCounts(context.topology), ClaimProfiles()
    state = PlanState(context, counts, context.plan_constraints(()))
    narrowing = ClaimNarrowing(state, DomainChoice(context.topology, counts, ()), profiles)
    (template,), table = context.templates, context.table
    blank = profiles.of(template, template.offered, template.mask)

    def zones(name: str) -> list[str | None]:
        group = group_of(context, name)
        ways = narrowing.of(blank, group.signature, group.steps[0])
        return [table.single(way.reqs, labels.ZONE) for way in ways]

    assert zones("held") == [ZONES[0]]
    assert zones("web") == list(ZONES)
    web = group_of(context, "web").signature
    counts.record_on_claim(
        web, profiles.of(template, table.with_value(blank.reqs, labels.ZONE, ZONES[0]), blank.allowed), 0
    )
    assert zones("web") == list(ZONES[1:])


WEB = a_selector(app="web")
OVER_ZONES, OVER_TYPES, OVER_RACKS = (
    TopologySpread(topology_key=key, max_skew=1, selector=WEB) for key in (labels.ZONE, labels.CAPACITY_TYPE, "rack")
)
STORAGE = StorageClass(
    name="two-zones",
    provisioner=EBS_DRIVER,
    binding_mode=WAIT_FOR_FIRST_CONSUMER,
    allowed_topologies=tuple(NodeSelectorTerm((Requirement.one_of(labels.ZONE, zone),)) for zone in ZONES[1:]),
)
RULES = {
    "plain": {},
    "held": {"node_selector": (Requirement.one_of(labels.ZONE, ZONES[0]),)},
    "nowhere": {"node_selector": (Requirement.one_of(labels.ZONE, "zone-x"),)},
    "counted": {"labels": {"app": "web"}},
    "spread": {"labels": {"app": "web"}, "spreads": (OVER_ZONES,)},
    "twice": {"labels": {"app": "web"}, "spreads": (OVER_ZONES, OVER_TYPES)},
    "near": {"affinity": (PodAffinityTerm(labels.ZONE, WEB),)},
    "far": {"anti_affinity": (PodAffinityTerm(labels.ZONE, WEB),)},
    "racks": {"spreads": (OVER_RACKS,)},
    "apart": {"anti_affinity": (PodAffinityTerm("rack", WEB),)},
    "ways": {"volumes": (VolumeUse("", ephemeral="scratch", storage_class="two-zones"),)},
    "spread ways": {
        "labels": {"app": "web"},
        "spreads": (OVER_ZONES,),
        "volumes": (VolumeUse("", ephemeral="scratch", storage_class="two-zones"),),
    },
}
TYPES = (a_type("a", zones=ZONES[:2]), a_type("b", zones=ZONES[1:], capacity_types=(labels.ON_DEMAND,)))


def test_a_narrowed_claim_is_that_of_choosing_again_whatever_was_asked_before() -> None:
    """Results are kept as long as nothing can change them; counts change with every pod that is placed."""
    pools = (a_pool("open"), a_pool("tainted", taints=(Taint("team", NO_SCHEDULE, "a"),)))
    pods = tuple(a_pod(name, **rules) for name, rules in RULES.items())
    context = context_of(types=TYPES, node_pools=pools, pods=pods, storage_classes=(STORAGE,))
    counts, profiles, table = DomainCounts(context.topology), ClaimProfiles(), context.table
    state = PlanState(context, counts, context.plan_constraints(()))
    choice = DomainChoice(context.topology, counts, ())
    narrowing = ClaimNarrowing(state, choice, profiles)

    def chosen_again(
        profile: ClaimProfile, signature: PodSignature, step: RelaxationStep
    ) -> list[tuple[RequirementId, int]]:
        found, template = [], profile.template
        for alternative in step.alternatives if context.open_templates(step)[template.index] else ():
            reqs = table.narrowed(profile.reqs, required=alternative)
            if reqs != IMPOSSIBLE and template.types.mask(reqs) & profile.allowed:
                draft = ClaimDraft(template, reqs, profile.allowed, context.axis.zero)
                found += [one.reqs for one in choice.choices(draft, signature, step, step.keys)]
        return [(reqs, profile.allowed) for reqs in found]

    asked = [
        profiles.of(template, reqs, allowed)
        for template in context.templates
        for reqs in (
            template.offered,
            table.with_value(template.offered, labels.ZONE, ZONES[1]),
            table.with_value(template.offered, labels.CAPACITY_TYPE, labels.SPOT),
        )
        for allowed in (template.mask, 0b01, 0b10)
        if template.types.mask(reqs) & allowed
    ]
    web = group_of(context, "spread").signature
    placed = [table.with_value(asked[0].reqs, labels.ZONE, zone) for zone in (ZONES[1], ZONES[0], ZONES[0], ZONES[2])]
    seen = set()
    for reqs in (None, *placed):
        if reqs is not None:
            counts.record_on_claim(web, profiles.of(asked[0].template, reqs, asked[0].allowed), 0)
        for group in (group_of(context, name) for name in RULES):
            for profile in asked * 2:
                (step, *_) = group.steps
                ways = narrowing.of(profile, group.signature, step)
                found = [(way.reqs, way.allowed) for way in ways]
                assert found == chosen_again(profile, group.signature, step)
                assert all(way.mask and way.template is profile.template for way in ways)
                seen.add(len(found))
    assert seen >= {0, 1, 2, 3}


# Claims are restricted to small types if limits keep pods out.


SMALL, LARGE = a_type("a", cpu="4", price=0.1), a_type("b", cpu="16", price=0.4)


def test_a_claim_releases_what_only_its_larger_types_would_use() -> None:
    """Otherwise, one pod's claim, charged sixteen cores, keeps a second pod waiting."""
    context = context_of(
        types=(SMALL, LARGE), pods=(a_pod("p", cpu="3"),), node_pools=(a_pool(limits={"cpu": 16_000}),)
    )
    run = GreedyScheduler(context, queue_of(context, [(context.pending, Avoids.NO_NODE)]), frozenset(), frozenset())
    run.run()
    assert run.state.limits[0].left == {"cpu": 0}
    assert not narrow_to_cheapest(run.state, run.claims, ())
    assert narrow_to_cheapest(run.state, run.claims, {0})
    assert run.state.limits[0].left == {"cpu": 12_000}
    assert context.templates[0].types.names(run.claims.claims[0].allowed) == ("a",)
    assert not narrow_to_cheapest(run.state, run.claims, {0}), "what is held to the least gives nothing more"


def test_room_in_one_limit_is_room() -> None:
    """Both types have as much memory, and one node is one node."""
    limits = {"cpu": 16_000, "memory": 9 * 2**30, "nodes": 2}
    context = context_of(types=(SMALL, LARGE), pods=(a_pod("p", cpu="3"),), node_pools=(a_pool(limits=limits),))
    run = GreedyScheduler(context, queue_of(context, [(context.pending, Avoids.NO_NODE)]), frozenset(), frozenset())
    run.run()
    assert narrow_to_cheapest(run.state, run.claims, {0})
    assert run.state.limits[0].left == {"cpu": 12_000, "memory": 2**30, "nodes": 1}


def test_types_come_cheapest_first_and_only_those_that_fit() -> None:
    """Otherwise, a claim lists a type too small for its pods, and its node is useless."""
    claim = claim_of(plan_of(types=(NEW_CLAIMS_LARGE, NEW_CLAIMS_SMALL), pods=(a_pod("p", cpu="1"),)), "p")
    assert claim.instance_types == ("small", "large")
    assert claim_of(
        plan_of(types=(NEW_CLAIMS_LARGE, NEW_CLAIMS_SMALL), pods=(a_pod("p", cpu="3"),)), "p"
    ).instance_types == ("large",)


def test_the_price_is_that_of_the_cheapest_available_offering() -> None:
    """Otherwise, the plan shows a price that is not available."""
    sold_out = tuple(
        msgspec.structs.replace(o, available=o.capacity_type != "spot") for o in NEW_CLAIMS_SMALL.offerings
    )
    claim = claim_of(
        plan_of(types=(msgspec.structs.replace(NEW_CLAIMS_SMALL, offerings=sold_out),), pods=(a_pod("p"),)), "p"
    )
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
    plan = plan_of(
        types=(NEW_CLAIMS_SMALL, NEW_CLAIMS_LARGE), node_pools=pools, pods=(a_pod("p"), a_pod("big", cpu="4"))
    )
    assert claim_of(plan, "p").node_pool == "light"  # it shares the node of the big one, which was placed first
    alone = plan_of(types=(NEW_CLAIMS_SMALL, NEW_CLAIMS_LARGE), node_pools=pools, pods=(a_pod("p"),))
    assert claim_of(alone, "p").node_pool == "heavy"


def test_taints_of_a_pool_keep_others_out_and_startup_taints_do_not() -> None:
    """Otherwise, pods are placed on nodes that repel them, or kept from nodes that only boot."""
    tainted = a_pool(taints=(Taint("gpu", NO_SCHEDULE),))
    starting = a_pool(startup_taints=(Taint("boot", NO_SCHEDULE),))
    assert reasons_of(plan_of(types=(NEW_CLAIMS_SMALL,), node_pools=(tainted,), pods=(a_pod("p"),))) == {
        "p": PodReason.TAINT_NOT_TOLERATED
    }
    tolerant = a_pod("p", tolerations=(Toleration("gpu", "Exists"),))
    assert plan_of(types=(NEW_CLAIMS_SMALL,), node_pools=(tainted,), pods=(tolerant,)).unschedulable == ()
    assert plan_of(types=(NEW_CLAIMS_SMALL,), node_pools=(starting,), pods=(a_pod("p"),)).claims[0].startup_taints != ()


def test_prefer_no_schedule_is_avoided_until_nothing_else_is_left() -> None:
    """The taint must be neither meaningless nor absolute."""
    avoid = a_pool("avoid", taints=(Taint("old", PREFER_NO_SCHEDULE),), weight=50)
    assert (
        plan_of(types=(NEW_CLAIMS_SMALL,), node_pools=(avoid, a_pool("plain")), pods=(a_pod(),)).claims[0].node_pool
        == "plain"
    )
    assert plan_of(types=(NEW_CLAIMS_SMALL,), node_pools=(avoid,), pods=(a_pod(),)).claims[0].node_pool == "avoid"


def test_limits_hold_for_every_type_that_ec2_may_choose() -> None:
    """EC2 may launch the largest type of each claim: together they must stay within the limit."""
    claims = some_claims(
        "a", "b", "c", types=(NEW_CLAIMS_SMALL, NEW_CLAIMS_LARGE), node_pools=(a_pool(limits={"cpu": 8000}),)
    )
    sizes = {"small": 2000, "large": 8000}
    assert sum(max(sizes[t] for t in claim.instance_types) for claim in claims) <= 8000
    assert len(claims) == 3, "each pod fits on a small node, so choice is given up before pods are"


def test_a_limit_on_nodes_holds_within_one_batch() -> None:
    """Karpenter counts nodes only between batches and exceeds the limit; ours holds."""
    assert len(some_claims("a", "b", "c", types=(NEW_CLAIMS_SMALL,), node_pools=(a_pool(limits={"nodes": 2}),))) == 2


def test_a_reached_limit_is_named() -> None:
    """Otherwise, users look for a missing instance type instead of raising the limit."""
    plan = plan_of(types=(NEW_CLAIMS_SMALL,), node_pools=(a_pool(limits={"cpu": 1000}),), pods=(a_pod("p"),))
    assert reasons_of(plan) == {"p": PodReason.LIMIT_REACHED}


def test_min_values_keep_a_claim_flexible() -> None:
    """A second pod must not reduce the choice that minValues require."""
    flexible = Requirement.of(labels.INSTANCE_TYPE, "Exists", min_values=2)
    pods = (a_pod("p", cpu="1500m"), a_pod("q", cpu="1500m"))
    plan = plan_of(types=(NEW_CLAIMS_SMALL, NEW_CLAIMS_LARGE), node_pools=(a_pool("default", flexible),), pods=pods)
    assert [claim.instance_types for claim in plan.claims] == [("small", "large")] * 2


def test_best_effort_lowers_min_values_where_strict_refuses() -> None:
    """Strict guarantees the choice, BestEffort the node."""
    pool = a_pool("default", Requirement.of(labels.INSTANCE_TYPE, "Exists", min_values=3))
    world = {"types": (NEW_CLAIMS_SMALL, NEW_CLAIMS_LARGE), "node_pools": (pool,), "pods": (a_pod("p"),)}
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
        assert reasons_of(plan_of(types=(NEW_CLAIMS_SMALL,), node_pools=(pool,), pods=(a_pod("p"),))) == {
            "p": PodReason.NO_NODE_POOL
        }
    assert (
        plan_of(types=(NEW_CLAIMS_SMALL,), node_pools=(a_pool(is_ready=None),), pods=(a_pod("p"),)).unschedulable == ()
    )


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
    plan = plan_of(types=(NEW_CLAIMS_SMALL, NEW_CLAIMS_LARGE), daemon_sets=(agent,), pods=(a_pod("p", cpu="1"),))
    assert plan.claims[0].instance_types == ("large",)
    assert plan.claims[0].resources["cpu"] == 1000


def test_a_daemons_host_port_is_taken_on_every_new_node() -> None:
    """Otherwise, the pod is planned onto a node where its port is never free."""
    agent = DaemonSet(namespace="k", name="agent", spec=PodSpec(requests={"pods": 1}, host_ports=(HostPort(80),)))
    plan = plan_of(types=(NEW_CLAIMS_SMALL,), daemon_sets=(agent,), pods=(a_pod("p", host_ports=(HostPort(80),)),))
    assert reasons_of(plan) == {"p": PodReason.HOST_PORT_TAKEN}


def test_one_value_of_a_pools_own_label_lands_on_the_claim() -> None:
    """Otherwise, the node comes up without the label that its pods select."""
    pool = a_pool("default", Requirement.of("team", "Exists"), Requirement.of("rank", "Gt", ["5"]), labels={"a": "b"})
    selecting = a_pod("p", node_selector=(Requirement.one_of("team", "blue"),))
    claim = plan_of(types=(NEW_CLAIMS_SMALL,), node_pools=(pool,), pods=(selecting,)).claims[0]
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
    assert reasons_of(plan_of(types=(NEW_CLAIMS_SMALL,), pods=(picky,))) == {"p": PodReason.REQUIREMENT_NOT_MET}
    labelled = a_pool(labels={"team": "blue"})
    assert plan_of(types=(NEW_CLAIMS_SMALL,), node_pools=(labelled,), pods=(picky,)).unschedulable == ()


def test_contradicting_requirements_are_met_by_no_node() -> None:
    """An empty set of values must not be read as 'label absent'."""
    torn = a_pod("p", node_selector=(Requirement.one_of("team", "red"), Requirement.of("team", "In", ["blue"])))
    assert reasons_of(plan_of(types=(NEW_CLAIMS_SMALL,), pods=(torn,))) == {"p": PodReason.REQUIREMENT_NOT_MET}


def test_capacity_buffers_get_nodes_but_are_no_pods_of_the_plan() -> None:
    """Otherwise, the headroom would be missing, or pods that do not exist would be reported."""
    spec = PodSpec(requests={"cpu": 1500, "memory": 2**30, "pods": 1})
    buffer = CapacityBuffer(namespace="default", name="spare", pods=2, spec=spec)
    on = Options(feature_gates=FeatureGates(capacity_buffer=True))
    plan = plan_of(types=(NEW_CLAIMS_SMALL,), buffers=(buffer,), options=on)
    assert [claim.pods for claim in plan.claims] == [(), ()]
    assert plan_of(types=(NEW_CLAIMS_SMALL,), buffers=(buffer,)).claims == ()


def test_volumes_beyond_a_types_attachments_go_to_a_second_node() -> None:
    """Karpenter has no attach limit on new nodes: the last pods would wait forever for their volumes."""
    storage = StorageClass(name="gp3", provisioner="ebs.csi.aws.com", binding_mode=WAIT_FOR_FIRST_CONSUMER)
    claims = tuple(PersistentVolumeClaim(namespace="default", name=f"c{n}", storage_class="gp3") for n in range(3))
    pods = tuple(a_pod(f"p{n}", cpu="100m", volumes=(VolumeUse(f"c{n}"),)) for n in range(3))
    one_type = (msgspec.structs.replace(NEW_CLAIMS_LARGE, attach_limit=2),)
    plan = plan_of(types=one_type, pods=pods, volume_claims=claims, storage_classes=(storage,))
    assert sorted(len(claim.pods) for claim in plan.claims) == [1, 2]
    four = a_pod("p", volumes=tuple(VolumeUse(f"c{n}") for n in range(3)))
    alone = plan_of(types=one_type, pods=(four,), volume_claims=claims, storage_classes=(storage,))
    assert reasons_of(alone) == {"p": PodReason.ATTACH_LIMIT}


def test_cost_is_the_sum_of_the_claims() -> None:
    """Otherwise, the plan's total is wrong."""
    plan = plan_of(types=(NEW_CLAIMS_SMALL,), pods=tuple(a_pod(f"p{n}", **NEW_CLAIMS_APART) for n in range(3)))
    assert plan.cost.hourly == sum(claim.price for claim in plan.claims) == 3 * 40_000_000
    assert len(places(plan)) == 3


def opening(*waiting: Pod, **world: object) -> tuple[NewClaims, SchedulingContext, PlanState]:
    """The claims of a plan that has opened none, with its context and its state."""
    context = context_of(**{"types": (NEW_CLAIMS_SMALL, NEW_CLAIMS_LARGE), "pods": waiting, **world})
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
        opened = new.open(5, group, step)
        offered = context.templates[0].types
        names = opened and offered.names(offered.room.fitting(opened.profile.mask, opened.total))
        assert (names, new.limited) == (types, {0} if is_limited else set())
        assert opened is None or (opened.claim.index, opened.total, opened.reservations) == (5, group.requests, ())


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
        opened = new.open(0, group, group.steps[0])
        assert opened is not None
        assert (opened.claim.min_values, opened.claim.min_values_relaxed) == ({labels.INSTANCE_TYPE: 1}, True)


def test_places_of_a_reservation_go_to_as_many_claims_as_it_has() -> None:
    """The pods are alike, and the next claim costs what it costs."""
    place = Offering("small", ZONES[0], labels.RESERVED, 0, reservation_id="cr", reservation_capacity=1)
    small = msgspec.structs.replace(NEW_CLAIMS_SMALL, offerings=(*NEW_CLAIMS_SMALL.offerings, place))
    plan = plan_of(types=(small,), pods=tuple(a_pod(f"p{n}", cpu="1500m") for n in range(3)))
    assert [claim.capacity_types for claim in plan.claims] == [("reserved",), *[("on-demand", "spot")] * 2]
    strict = Requirement.of(labels.INSTANCE_TYPE, "Exists", (), 2)
    plan = plan_of(
        types=(small, NEW_CLAIMS_LARGE), node_pools=(a_pool("default", strict),), pods=(a_pod("p", cpu="1500m"),)
    )
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
    first_plan = GreedyScheduler(
        context, queue_of(context, [(context.pending, Avoids.NO_NODE)]), frozenset(), frozenset()
    ).run()
    assert first_plan.unplaced == []
    (claim,) = plan_of(**world).claims
    assert (claim.instance_types, claim.zones, claim.capacity_types) == (("one", "two"), ZONES[1:2], ("spot",))


def test_a_pod_that_must_share_a_node_opens_none_once_the_first_has_one() -> None:
    beside = PodAffinityTerm(labels.HOSTNAME, WEB)
    pods = tuple(a_pod(f"p{n}", cpu="5", labels={"app": "web"}, affinity=(beside,)) for n in range(3))
    plan = plan_of(types=(NEW_CLAIMS_SMALL, NEW_CLAIMS_LARGE), pods=pods)
    assert (len(plan.claims), [*reasons_of(plan).values()]) == (1, [PodReason.POD_AFFINITY] * 2)


# Which open claim takes a pod.


TYPE = a_type("m", cpu="8")
APART = {"labels": {"app": "a"}, "anti_affinity": (PodAffinityTerm(labels.HOSTNAME, a_selector(app="a")),)}


def planned(context: SchedulingContext, *names: str) -> GreedyScheduler:
    """A plan for these pods alone, so that the others can be tried on its claims."""
    pods = tuple(pod for pod in context.pending if pod.name in names)
    run = GreedyScheduler(context, queue_of(context, [(pods, Avoids.NO_NODE)]), frozenset(), frozenset())
    run.run()
    return run


def test_the_claim_with_the_fewest_pods_takes_the_next_one_and_the_oldest_of_equal_ones() -> None:
    """Otherwise, equal snapshots give other plans, or one node takes all small pods."""
    pods = (*(a_pod(f"a{n}", cpu="3", **APART) for n in range(2)), a_pod("first"), a_pod("second"), a_pod("third"))
    context = context_of(types=(TYPE,), pods=pods)
    run = planned(context, "a0", "a1", "first")
    assert [len(claim.pods) for claim in run.claims.claims] == [2, 1]
    for name, index in (("second", 1), ("third", 0)):
        group = group_of(context, name)
        found = run.claims.find(group, group.steps[0], partial(getattr, group, "requests"))
        assert found is not None
        assert found.claim.index == index
        run.claims.place(found, next(pod for pod in pods if pod.name == name), group)
    assert [len(claim.pods) for claim in run.claims.claims] == [3, 2]


def test_no_claim_takes_more_than_its_largest_type_has() -> None:
    """Otherwise, a pod is planned onto a node on which it never starts."""
    context = context_of(types=(TYPE,), pods=(a_pod("a", cpu="6"), a_pod("fits", cpu="2"), a_pod("not", cpu="2500m")))
    run = planned(context, "a")
    fits, larger = group_of(context, "fits"), group_of(context, "not")
    assert run.claims.find(larger, larger.steps[0], lambda: fits.requests) is None
    assert run.claims.find(fits, fits.steps[0], lambda: fits.requests) is not None


def test_a_claim_without_room_for_the_smallest_pod_is_closed() -> None:
    """It is passed over for good: the next pods do not try it again."""
    context = context_of(types=(TYPE,), pods=(a_pod("a", cpu="6"), a_pod("fits", cpu="2"), a_pod("not", cpu="2040m")))
    run = planned(context, "a")
    larger, fits = group_of(context, "not"), group_of(context, "fits")
    assert run.claims.find(larger, larger.steps[0], lambda: larger.requests) is None
    assert run.claims.find(fits, fits.steps[0], lambda: fits.requests) is None


def test_labels_that_a_claim_leaves_open_are_fixed_once() -> None:
    """Otherwise, pods that wait for it are tried again for ever, or never."""
    context = context_of(
        types=(TYPE, a_type("n", cpu="4")), pods=(a_pod("a"), a_pod("b", **APART), a_pod("c", **APART))
    )
    run = planned(context, "a", "b", "c")
    before = [claim.reqs for claim in run.claims.claims]
    assert run.claims.fix_open_labels()
    after = [claim.reqs for claim in run.claims.claims]
    assert all(fixed != open_ for fixed, open_ in zip(after, before, strict=True))
    assert not run.claims.fix_open_labels()
    assert [claim.reqs for claim in run.claims.claims] == after


# What one plan has used up.


def test_a_copy_keeps_what_was_left_when_it_was_made() -> None:
    """Otherwise, an explanation of a pod speaks of room that later pods have taken."""
    pool = a_pool(limits={"cpu": 8000})
    context = context_of(types=(a_type("m", cpu="4"),), pods=(a_pod("p", cpu="3"),), node_pools=(pool,))
    run = GreedyScheduler(context, queue_of(context, [(context.pending, Avoids.NO_NODE)]), frozenset(), frozenset())
    before = run.state.copy()
    run.run()
    assert [limits.left for limits in before.limits] == [{"cpu": 8000}]
    assert [limits.left for limits in run.state.limits] == [{"cpu": 4000}]


# The result of one plan.


def a_state() -> PlanState:
    context = SchedulingContext(a_snapshot(pods=(a_pod("a"),)))
    return PlanState(context, DomainCounts(context.topology), context.plan_constraints(()))


def test_unplaced_pods_were_refused_before_virtual_pods_took_room() -> None:
    """Virtual pods come last: a reason that counts them would blame a buffer for a pod that it did not displace."""
    before, after = a_state(), a_state()
    without = Solution([], [], [], after)
    assert (without.refusing_state, Solution([], [], [], after, before).refusing_state) == (after, before)


def test_without_commitments_settling_changes_nothing() -> None:
    solution = Solution([], [], [], a_state())
    assert solution.settle_commitments() is solution
    assert not solution.claims
