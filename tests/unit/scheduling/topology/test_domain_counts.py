"""The counts of one plan, and what rules derive from them."""

from __future__ import annotations

from core import labels
from core.model.pod import PodAffinityTerm, TopologySpread
from core.scheduling.capacity.claim_profile import ClaimProfiles
from core.scheduling.topology.domain_counts import ALL_CLAIMS, Departures, DomainCounts
from tests.builders import ZONES, a_node_of, a_pod, a_selector, a_type
from tests.unit.scheduling.reading import context_of, group_of

TYPE = a_type("m")
WEB = a_selector(app="web")
SPREAD = TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=WEB)
APART = PodAffinityTerm(labels.HOSTNAME, WEB)


def test_a_spread_admits_the_least_loaded_zones_and_a_copy_is_unchanged() -> None:
    """Otherwise, an outage of one zone takes more pods than the skew allows."""
    claim, node = a_node_of(TYPE, zone=ZONES[0])
    running = a_pod("r", labels={"app": "web"}, node_name=node.name, phase="Running")
    waiting = a_pod("w", labels={"app": "web"}, spreads=(SPREAD,))
    context = context_of(types=(TYPE,), pods=(running, waiting), nodes=(node,), node_claims=(claim,))
    group, counts = group_of(context, "w"), DomainCounts(context.topology)
    (rule,) = group.steps[0].zone_rules
    assert counts.of(rule.group) == {ZONES[0]: 1, ZONES[1]: 0, ZONES[2]: 0}
    assert [counts.admits(rule, zone, group.signature) for zone in ZONES] == [False, True, True]
    before = counts.copy()
    template, table = context.templates[0], context.table
    profile = ClaimProfiles().of(template, table.with_value(template.offered, labels.ZONE, ZONES[1]), template.mask)
    counts.record_on_claim(group.signature, profile, 0)
    assert (counts.of(rule.group)[ZONES[1]], before.of(rule.group)[ZONES[1]]) == (1, 0)
    moved = Departures.of((0,), [(group.signature, running, 0)])
    assert DomainCounts(context.topology, moved).of(rule.group)[ZONES[0]] == 0, "it counts where it is moved"
    staying = Departures.of((0,), ())
    assert DomainCounts(context.topology, staying).of(rule.group)[ZONES[0]] == 1, "it is there until its node ends"


def test_pods_with_anti_affinity_exclude_each_others_claims_and_no_new_one() -> None:
    """Otherwise, two replicas share a node, or none gets one."""
    context = context_of(types=(TYPE,), pods=(a_pod("w", labels={"app": "web"}, anti_affinity=(APART,)),))
    group, counts = group_of(context, "w"), DomainCounts(context.topology)
    template = context.templates[0]
    counts.record_on_claim(group.signature, ClaimProfiles().of(template, template.offered, template.mask), 3)
    for rule in group.steps[0].host_rules:
        assert counts.barred_claims(rule) == 0b1000
        assert counts.barred_claims(rule) != ALL_CLAIMS
        assert not counts.bars_new_node(rule)


def test_an_affinity_needs_another_pod_except_for_the_first_of_its_group() -> None:
    """Otherwise, pods that need each other wait for each other."""
    near = PodAffinityTerm(labels.HOSTNAME, WEB)
    pods = (a_pod("w", labels={"app": "web"}, affinity=(near,)), a_pod("other", affinity=(near,)))
    context = context_of(types=(TYPE,), pods=pods)
    counts = DomainCounts(context.topology)
    own, foreign = (group_of(context, name).steps[0].host_rules[0] for name in ("w", "other"))
    assert (counts.bars_new_node(own), counts.bars_new_node(foreign)) == (False, True)


def test_a_domain_that_only_vanished_nodes_made_is_no_longer_the_least_loaded_one() -> None:
    """Otherwise, a rack whose last node goes counts as empty for ever, and no pod may join the rack that is left."""
    racks = TopologySpread(topology_key="rack", max_skew=1, selector=WEB)
    stays, goes = (a_node_of(a_type("m", rack=name), name) for name in ("left", "right"))
    running = a_pod("r", labels={"app": "web"}, node_name="left", phase="Running")
    waiting = a_pod("w", labels={"app": "web"}, spreads=(racks,))
    world = {"nodes": (stays[1], goes[1]), "node_claims": (stays[0], goes[0]), "pods": (running, waiting)}
    context = context_of(types=(TYPE,), **world)
    group = group_of(context, "w")
    (rule,) = group.steps[0].zone_rules
    before, after = DomainCounts(context.topology), DomainCounts(context.topology, Departures.of((1,), ()))
    assert (before.of(rule.group), after.of(rule.group)) == ({"left": 1, "right": 0}, {"left": 1})
    assert [counts.admits(rule, "left", group.signature) for counts in (before, after)] == [False, True]
