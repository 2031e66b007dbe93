"""Groups of equal pods, and what each requests."""

from __future__ import annotations

from core import labels
from core.model.pod import HostPort, NodeSelectorTerm, PodAffinityTerm, PreferredTerm, TopologySpread, VolumeUse
from core.model.snapshot import Options
from core.model.storage import EBS_DRIVER, WAIT_FOR_FIRST_CONSUMER, StorageClass
from core.model.values.requirements import Requirement, Requirements
from core.model.values.taints import NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint
from core.reasons.pod import PodReason
from core.scheduling.pod_grouping import PodGroups
from core.scheduling.pods.preferences import TOLERATE_PREFERENCES
from core.scheduling.primitives.requirement_table import IMPOSSIBLE
from tests.builders import ZONES, a_node_of, a_pod, a_pool, a_selector, a_type
from tests.unit.scheduling.reading import context_of, group_of


def test_equal_pods_are_one_group_and_sizes_share_their_steps() -> None:
    """Otherwise, each size of a pod is searched separately."""
    context = context_of(types=(a_type(),), pods=(a_pod("a"), a_pod("b"), a_pod("large", cpu="2")))
    assert isinstance(context.pod_groups, PodGroups)
    a, b, large = (group_of(context, name) for name in ("a", "b", "large"))
    assert a is b
    assert a is not large
    assert a.steps is large.steps


def test_a_step_has_the_numbers_of_its_requirements() -> None:
    """Otherwise, searches use other requirements than the pod's."""
    spread = TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=a_selector(app="web"))
    near = PodAffinityTerm(labels.HOSTNAME, a_selector(app="web"))
    zone = (Requirement.one_of(labels.ZONE, ZONES[0]),)
    pods = (
        a_pod("held", node_selector=zone),
        a_pod("spread", labels={"app": "web"}, spreads=(spread,)),
        a_pod("near", labels={"app": "web"}, affinity=(near,)),
        a_pod("hopeless", resource_claims=("gpu",)),
    )
    context = context_of(types=(a_type(),), pods=pods)
    held, spread_, near_, hopeless = (group_of(context, pod.name) for pod in pods)
    (alternative,) = held.steps[0].alternatives
    assert alternative != IMPOSSIBLE
    assert context.table.single(alternative, labels.ZONE) == ZONES[0]
    assert [group.steps[0].is_monotone for group in (held, spread_, near_)] == [True, False, False]
    assert (spread_.steps[0].keys, len(spread_.steps[0].zone_rules)) == ((labels.ZONE,), 1)
    assert (len(near_.steps[0].host_rules), near_.steps[0].keys) == (1, (labels.ZONE,))
    assert (hopeless.steps, hopeless.reason) == ((), PodReason.UNSUPPORTED_RESOURCE_CLAIM)


def test_only_affinity_and_spreads_over_shared_domains_may_become_easier() -> None:
    """A failure of other pods is final for a plan; these are asked again once others have been placed."""
    web = a_selector(app="web")
    rules = {
        "zones": {"spreads": (TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=web),)},
        "hosts": {"spreads": (TopologySpread(topology_key=labels.HOSTNAME, max_skew=1, selector=web),)},
        "near": {"affinity": (PodAffinityTerm(labels.ZONE, web),)},
        "close": {"affinity": (PodAffinityTerm(labels.HOSTNAME, web),)},
        "apart": {"anti_affinity": (PodAffinityTerm(labels.HOSTNAME, web),)},
        "far": {"anti_affinity": (PodAffinityTerm(labels.ZONE, web),)},
        "none": {},
    }
    found = {}
    for name, rule in rules.items():
        context = context_of(types=(a_type(),), pods=(a_pod(name, labels={"app": "web"}, **rule),))
        found[name] = group_of(context, name).steps[0].is_monotone
    assert [name for name, is_monotone in found.items() if not is_monotone] == ["zones", "near", "close"]
    assert set(map(type, found.values())) == {bool}


def test_a_pinned_pod_has_its_pin_and_others_have_none() -> None:
    """Otherwise, a pod that moves leaves the zone that a rule keeps it in."""
    pods = (a_pod("a"), a_pod("b"))
    context = context_of(types=(a_type(),), pods=pods)
    pin = Requirements((Requirement.one_of(labels.ZONE, ZONES[1]),))
    pinned = context.pod_groups.pinned({pods[0].key: pin})
    (own,), (other,) = (pinned.of(pod).steps[0].alternatives for pod in pods)
    assert context.table[own] == pin
    assert context.table[other] == Requirements()
    assert pinned.of(pods[1]) is context.pod_groups.of(pods[0]) is context.pod_groups.of(pods[1])


def test_a_pods_own_requirements_are_its_selector_first_alternative_and_heaviest_preference() -> None:
    """The next steps take the next alternative, then the next preference."""
    zones = [NodeSelectorTerm((Requirement.one_of(labels.ZONE, zone),)) for zone in ZONES[:2]]
    arch = [NodeSelectorTerm((Requirement.one_of(labels.ARCH, arch),)) for arch in ("amd64", "arm64")]
    selector = (Requirement.one_of(labels.OS, "linux"),)
    pod = a_pod(
        node_selector=selector,
        required_terms=tuple(zones),
        preferred_terms=(PreferredTerm(1, arch[0]), PreferredTerm(9, arch[1])),
    )
    context = context_of(types=(a_type(),), pods=(pod,))
    steps = group_of(context, "p").steps
    wanted = [(zones[0], arch[1]), (zones[1], arch[1]), (zones[1], arch[0]), (zones[1],), (zones[0],)]
    assert [context.table[step.alternatives[0]] for step in steps] == [
        Requirements((*selector, *(one for term in terms for one in term.requirements))) for terms in wanted
    ]
    assert [step.number for step in steps] == [0, 1, 2, 3, 4]
    assert len({step.index for step in steps}) == len(steps)


def test_preferences_are_ignored_where_the_policy_says_so() -> None:
    term = NodeSelectorTerm((Requirement.one_of(labels.ARCH, "arm64"),))
    pod = a_pod(preferred_terms=(PreferredTerm(1, term),))
    for policy, steps in (("Respect", 2), ("Ignore", 1)):
        context = context_of(types=(a_type(),), pods=(pod,), options=Options(preference_policy=policy))
        assert len(group_of(context, "p").steps) == steps


def test_a_pod_tolerates_preferences_of_nodes_at_last_where_there_are_any() -> None:
    """The step costs a search of all nodes, so it is only made if any taint asks for it."""
    soft, hard = Taint("team", PREFER_NO_SCHEDULE, "a"), Taint("team", NO_SCHEDULE, "a")
    node_of = {taint: a_node_of(a_type(), taints=(taint,)) for taint in (soft, hard)}
    cases = (
        ({"node_pools": (a_pool(taints=(hard, soft)),)}, True),
        ({"node_pools": (a_pool(taints=(hard,)),)}, False),
        ({"nodes": (node_of[soft][1],), "node_claims": (node_of[soft][0],)}, True),
        ({"nodes": (node_of[hard][1],), "node_claims": (node_of[hard][0],)}, False),
    )
    for world, tolerates in cases:
        last = group_of(context_of(types=(a_type(),), pods=(a_pod(),), **world), "p").steps[-1]
        assert (TOLERATE_PREFERENCES in last.demands.tolerations) is tolerates


def test_a_group_is_plain_if_no_constraint_concerns_it() -> None:
    """Constraints are not asked about plain pods at all."""
    pods = (a_pod("plain"), a_pod("port", host_ports=(HostPort(80),)))
    context = context_of(types=(a_type(),), pods=pods)
    assert [group_of(context, pod.name).is_plain for pod in pods] == [True, False]


def test_a_pod_with_volumes_has_their_requirements() -> None:
    """Otherwise, it is placed in another zone than its volume."""
    storage = StorageClass(
        name="gp3",
        provisioner=EBS_DRIVER,
        binding_mode=WAIT_FOR_FIRST_CONSUMER,
        allowed_topologies=(NodeSelectorTerm((Requirement.one_of(labels.ZONE, ZONES[2]),)),),
    )
    pod = a_pod(volumes=(VolumeUse("", ephemeral="scratch", storage_class="gp3"),))
    context = context_of(types=(a_type(),), pods=(pod,), storage_classes=(storage,))
    group = group_of(context, "p")
    assert [context.table.single(way, labels.ZONE) for way in group.steps[0].alternatives] == [ZONES[2]]
    assert not group.is_plain
