"""All constraints of one plan together."""

from __future__ import annotations

from msgspec.structs import replace

from core import labels
from core.model.pod import (
    IGNORE,
    WAIT_FOR_FIRST_CONSUMER,
    HostPort,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    TopologySpread,
    VolumeRequest,
    VolumeUse,
)
from core.model.values.requirements import Requirement
from core.reasons.pods import PodReason, VolumeCause, VolumeUnusable
from core.scheduling.constraints.constraint import Constraint
from core.scheduling.constraints.per_node import HostPorts
from core.scheduling.constraints.registry import CONSTRAINTS, ExclusiveClaims, VacantDomain, VacantDomains, reads_of
from core.scheduling.new_node import InFlightClaim
from core.scheduling.primitives import IMPOSSIBLE, TopologyGroupId
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_selector, a_type
from tests.unit.scheduling.reading import context_of, group_of, places, plan_of, reasons_of


class ByName(Constraint):
    """A rule that goes by the pod's name."""

    @classmethod
    def reads(cls, pod: Pod) -> str:
        return pod.name


def test_only_the_constraints_that_concern_a_pod_are_asked_about_it() -> None:
    """Most pods have neither host ports nor volumes: asking for each of them would cost every plan."""
    pods = (a_pod("plain"), a_pod("port", host_ports=(HostPort(80),)))
    context = context_of(types=(a_type(),), pods=pods)
    constraints = context.plan_constraints(())
    assert constraints.concerning(group_of(context, "plain")) == ()
    assert [type(constraint) for constraint in constraints.concerning(group_of(context, "port"))] == [HostPorts]


def test_a_copy_reserves_for_itself() -> None:
    """Otherwise, a plan that is given up leaves its reservations in the next one."""
    context = context_of(types=(a_type(),), pods=(a_pod(),), node_pools=(a_pool(limits={"cpu": 4000}),))
    constraints = context.plan_constraints(())
    copied = constraints.copy()
    assert all(
        own is not other for own, other in zip(constraints.all, copied.all, strict=True) if own.copy() is not own
    )
    assert copied.limits is not constraints.limits
    assert copied.limits.remaining[0].left == constraints.limits.remaining[0].left == {"cpu": 4000}


def test_what_is_read_of_a_pod_is_kept_by_constraint() -> None:
    assert reads_of(CONSTRAINTS) is None, "otherwise each pod is read again for nothing"
    read = reads_of((*CONSTRAINTS, ByName))
    assert read is not None
    assert read(a_pod("p")) == ((ByName, "p"),)


# Claims that one pod of a plan uses alone, and domains without nodes on which placed pods depend.


TYPE = a_type("m", cpu="4")
STORAGE = StorageClass(name="gp3", provisioner="ebs.csi.aws.com", binding_mode=WAIT_FOR_FIRST_CONSUMER)
ALONE = PersistentVolumeClaim(
    namespace="default",
    name="alone",
    storage_class="gp3",
    request=VolumeRequest(size=1, access_modes=("ReadWriteOncePod",)),
)
CLAIMS = {"storage_classes": (STORAGE,), "volume_claims": (ALONE,)}


def with_claim(name: str, **changes: object) -> Pod:
    return a_pod(name, volumes=(VolumeUse("alone"),), **changes)


def test_one_pod_of_a_plan_gets_a_claim_for_one_pod() -> None:
    """kube-scheduler refuses every node to the second (volumerestrictions)."""
    plan = plan_of(types=(TYPE,), pods=(with_claim("a"), with_claim("b"), a_pod("c")), **CLAIMS)
    assert sorted(places(plan)) == ["a", "c"]
    (unplaced,) = plan.unschedulable
    assert (unplaced.pod, unplaced.reason) == ("default/b", PodReason.VOLUME_IN_USE)
    assert "default/alone" in unplaced.message


def test_a_pod_on_a_node_keeps_its_claim_from_others_until_it_is_gone() -> None:
    """kube-scheduler refuses every node to a second pod until the first is gone, terminating ones included."""
    claim, node = a_node_of(TYPE, "n")
    first = replace(with_claim("first", cpu="1"), node_name="n", phase="Running", deleted_at=NOW)
    cluster = {"nodes": (node,), "node_claims": (claim,), **CLAIMS}
    plan = plan_of(types=(TYPE,), pods=(first, with_claim("next")), **cluster)
    assert reasons_of(plan) == {"next": PodReason.VOLUME_IN_USE}


def test_of_pods_that_wait_for_a_claim_the_most_important_gets_it() -> None:
    """kube-scheduler's queue is in the order of priority; the largest pod would come first otherwise."""
    waiting = with_claim("a", cpu="2"), with_claim("urgent", cpu="1", priority=5), with_claim("b", cpu="1")
    plan = plan_of(types=(TYPE,), pods=waiting, **CLAIMS)
    assert sorted(places(plan)) == ["urgent"]
    assert reasons_of(plan) == dict.fromkeys(("a", "b"), PodReason.VOLUME_IN_USE)


def test_a_pod_without_a_place_leaves_its_claim_to_the_next() -> None:
    """It holds the claim once it has a node: until then, kube-scheduler would place another."""
    first = with_claim("first", cpu="64", priority=9)
    plan = plan_of(types=(TYPE,), pods=(first, with_claim("second")), **CLAIMS)
    assert sorted(places(plan)) == ["second"]


def test_the_claim_in_use_is_named_with_its_user() -> None:
    used = {
        VolumeCause.USED_BY: "PersistentVolumeClaim a/c is ReadWriteOncePod, and pod o uses it",
        VolumeCause.USED_IN_PLAN: (
            "PersistentVolumeClaim a/c is ReadWriteOncePod, and another pod that gets a node uses it"
        ),
    }
    assert {cause: VolumeUnusable(cause, "a/c", "o").message for cause in used} == used


def test_a_copy_keeps_its_own_claims_in_use() -> None:
    """A plan that is tried beside another would otherwise take its claims."""
    context = context_of(types=(TYPE,), pods=(with_claim("a"), a_pod("c")), **CLAIMS)
    (exclusive,) = (
        constraint for constraint in context.plan_constraints(()).all if isinstance(constraint, ExclusiveClaims)
    )
    group, (template,) = group_of(context, "a"), context.templates
    before = exclusive.copy()
    exclusive.reserve_on_claim(InFlightClaim(0, template, template.offered, template.mask, context.axis.zero), group)
    assert (bool(exclusive.exhausted(group)), before.exhausted(group)) == (True, None)
    assert context.plan_constraints(()).exhausted(group_of(context, "c")) is None


# Three large pods need zones a and b, because zone c has types for small pods only. A small pod may then not open zone c.


LARGE, SMALL = a_type("large", zones=ZONES[:2]), a_type("small", cpu="1", zones=ZONES[2:])
TINY = a_type("tiny", cpu="100m", zones=ZONES[:1])
TINY = replace(TINY, labels={**TINY.labels, labels.ARCH: ("arm64",)})


def test_a_new_node_does_not_open_a_domain_whose_absence_has_placed_pods() -> None:
    """kube-scheduler counts zone c as empty as soon as a node is there, and would refuse the large pods their nodes."""
    spread = TopologySpread(labels.ZONE, 1, selector=a_selector(app="web"))
    webs = [a_pod(f"web-{n}", cpu="1500m", labels={"app": "web"}, spreads=(spread,)) for n in range(4)]
    claim, node = a_node_of(LARGE, "n")
    running = a_pod("b-0", cpu="2", labels={"app": "b"}, node_name="n", phase="Running")
    even = TopologySpread(labels.ARCH, 1, selector=a_selector(app="b"), node_affinity_policy=IGNORE)
    in_c = (Requirement.one_of(labels.ZONE, ZONES[2]),)
    waiting = a_pod("b-1", cpu="500m", labels={"app": "b"}, spreads=(even,), node_selector=in_c)
    world = {"types": (LARGE, SMALL, TINY), "nodes": (node,), "node_claims": (claim,)}
    assert reasons_of(plan_of(pods=(running, waiting), **world)) == {}
    plan = plan_of(pods=(*webs, running, waiting), **world)
    assert reasons_of(plan) == {"b-1": PodReason.TOPOLOGY_SPREAD}
    assert ZONES[2] in plan.unschedulable[0].message


def test_domains_without_nodes_restrict_only_new_nodes_that_count_there() -> None:
    """A NodePool that no spread counts may launch anywhere."""
    context = context_of(types=(LARGE, SMALL), pods=(a_pod("p", cpu="500m"),))
    vacant, (template,) = context.plan_constraints(()).vacant, context.templates
    assert vacant is not None
    draft = InFlightClaim(0, template, template.offered, template.mask, context.axis.zero).draft
    zone_c = VacantDomain(TopologyGroupId(0), labels.ZONE, ZONES[2])
    assert vacant.keep([zone_c], lambda *_: False)
    assert vacant.narrowed(draft) is draft
    assert not vacant.keep([zone_c], lambda *_: True)
    narrowed = vacant.narrowed(draft)
    assert context.table.single(narrowed.reqs, labels.ZONE) is None
    assert not narrowed.narrowed(context.table.with_value(narrowed.reqs, labels.ZONE, ZONES[2])).is_possible
    before: VacantDomains = vacant.copy()
    vacant.keep([VacantDomain(TopologyGroupId(0), labels.HOSTNAME, None)], lambda *_: True)
    assert (vacant.narrowed(draft).reqs, before.narrowed(draft) == narrowed) == (IMPOSSIBLE, True)


def test_repacking_opens_no_domain_that_must_stay_without_nodes() -> None:
    """Nodes found for pods without rules would otherwise come up in zone c after the large pods were placed."""
    context = context_of(types=(LARGE, SMALL), pods=(a_pod("p", cpu="500m"),))
    vacant, (template,) = context.plan_constraints(()).vacant, context.templates
    assert vacant is not None
    anywhere = InFlightClaim(0, template, template.offered, template.mask, context.axis.zero)
    assert vacant.replace([], [anywhere])
    vacant.keep([VacantDomain(TopologyGroupId(0), labels.ZONE, ZONES[2])], lambda *_: True)
    assert not vacant.replace([], [anywhere])
    outside = context.table.with_value(template.offered, labels.ZONE, ZONES[0])
    assert vacant.replace([], [InFlightClaim(0, template, outside, template.mask, context.axis.zero)])
