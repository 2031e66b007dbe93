"""The counts of one plan, and what rules derive from them."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.model.pod import HONOR, IGNORE, NodeSelectorTerm, PodAffinityTerm, TopologySpread
from core.model.values.requirements import Requirement
from core.scheduling.capacity.claim_profile import ClaimProfile, ClaimProfiles
from core.scheduling.topology.departures import Departures
from core.scheduling.topology.domain_counts import ALL_CLAIMS, DomainCounts
from core.scheduling.topology.topology_group import INVERSE
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


class World:
    """Zones with this many running pods of `web`, and a waiting one with the rules."""

    def __init__(self, *running: int, app: str = "web", **rules: Any) -> None:
        pairs = [a_node_of(TYPE, f"n{place}", zone=zone) for place, zone in enumerate(ZONES[: len(running)])]
        pods = [
            a_pod(f"r{place}-{number}", labels={"app": "web"}, node_name=f"n{place}", phase="Running")
            for place, count in enumerate(running)
            for number in range(count)
        ]
        waiting = a_pod("w", labels={"app": app}, **rules)
        nodes, claims = tuple(node for _, node in pairs), tuple(claim for claim, _ in pairs)
        self.context = context_of(types=(TYPE,), pods=(*pods, waiting), nodes=nodes, node_claims=claims)
        self.group = group_of(self.context, "w")
        self.counts = DomainCounts(self.context.topology)
        step = self.group.steps[0]
        (self.rule,) = (rule for rule in (*step.zone_rules, *step.host_rules) if rule.kind != INVERSE)

    def admitted(self) -> list[str]:
        return [zone for zone in ZONES if self.counts.admits(self.rule, zone, self.group.signature)]

    def claim_in(self, zone: str) -> ClaimProfile:
        template, table = self.context.templates[0], self.context.table
        reqs = table.with_value(template.offered, labels.ZONE, zone) if zone else template.offered
        return ClaimProfiles().of(template, reqs, template.mask)

    def record(self, zone: str, times: int = 1, claim: int = 0) -> None:
        self.counts.record_on_claim(self.group.signature, self.claim_in(zone), claim, times)


class TestASpread:
    """The pods of a domain with one more, less those of the emptiest one, are at most maxSkew."""

    def spread(self, **changes: Any) -> dict[str, Any]:
        return {
            "spreads": (TopologySpread(**{"topology_key": labels.ZONE, "max_skew": 1, "selector": WEB, **changes}),)
        }

    @pytest.mark.parametrize(
        ("running", "skew", "admitted"),
        [
            ((1, 1, 1), 1, "abc"),
            ((2, 1, 1), 1, "bc"),
            ((2, 1, 1), 2, "abc"),
            ((3, 1, 1), 2, "bc"),
            ((1, 0, 0), 1, "bc"),
        ],
    )
    def test_of_running_pods(self, running: tuple[int, ...], skew: int, admitted: str) -> None:
        assert [zone[-1] for zone in World(*running, **self.spread(max_skew=skew)).admitted()] == list(admitted)

    def test_counts_a_pod_that_it_does_not_select_nowhere(self) -> None:
        """The pod itself adds nothing to the skew."""
        assert [zone[-1] for zone in World(2, 1, 1, app="other", **self.spread()).admitted()] == ["a", "b", "c"]

    @pytest.mark.parametrize(("minimum", "admitted"), [(3, "abc"), (4, "")])
    def test_over_fewer_domains_than_it_asks_for_measures_against_none(self, minimum: int, admitted: str) -> None:
        world = World(1, 1, 1, **self.spread(min_domains=minimum))
        assert "".join(zone[-1] for zone in world.admitted()) == admitted

    @pytest.mark.parametrize(
        ("running", "policy", "admitted"),
        [
            ((1, 1, 0), HONOR, "ab"),  # the empty zone is closed to the pod: measured against it, the pod had no place
            ((1, 0, 0), HONOR, "b"),
            ((1, 1, 0), IGNORE, ""),  # with Ignore, its Node counts, whoever may use it
            ((1, 1), IGNORE, "ab"),  # a zone without nodes or pods is no domain
            ((2, 2, 1), IGNORE, ""),
            ((1, 1, 1), IGNORE, "ab"),
        ],
    )
    def test_measures_against_the_zones_that_count(self, running: tuple[int, ...], policy: str, admitted: str) -> None:
        """The pod may run in the first two zones only (nodeAffinityPolicy of Kubernetes)."""
        term = NodeSelectorTerm((Requirement.one_of(labels.ZONE, *ZONES[:2]),))
        world = World(*running, required_terms=(term,), **self.spread(node_affinity_policy=policy))
        assert "".join(zone[-1] for zone in world.admitted() if zone in ZONES[:2]) == admitted

    @pytest.mark.parametrize(
        ("running", "skew", "overfull"), [((3, 1, 1), 1, "a"), ((2, 1, 1), 1, ""), ((4, 3, 1), 2, "a")]
    )
    def test_is_exceeded_where_a_domain_has_more_than_it_allows(
        self, running: tuple[int, ...], skew: int, overfull: str
    ) -> None:
        """A pod that leaves such a domain may not return to it."""
        world = World(*running, **self.spread(max_skew=skew))
        counts, signature = world.counts, world.group.signature
        found = [zone for zone in ZONES if counts.is_overfull(world.rule, zone, signature)]
        assert "".join(zone[-1] for zone in found) == overfull

    def test_admits_no_node_without_the_label(self) -> None:
        world = World(1, **self.spread())
        assert not world.counts.admits(world.rule, None, world.group.signature)

    def test_counts_pods_of_the_plan_and_not_those_taken_back(self) -> None:
        world = World(0, 0, 0, **self.spread())
        world.record(ZONES[0])
        assert world.admitted() == list(ZONES[1:])
        world.record(ZONES[0], -1)
        assert world.admitted() == list(ZONES)

    def test_counts_pods_on_existing_nodes(self) -> None:
        world = World(0, 0, 0, **self.spread())
        world.counts.record_on_node(world.group.signature, 1)
        assert world.counts.of(world.rule.group) == {ZONES[0]: 0, ZONES[1]: 1, ZONES[2]: 0}

    def test_moves_the_count_of_a_claim_whose_zone_is_decided_later(self) -> None:
        world = World(0, 0, 0, **self.spread())
        first, later = world.claim_in(ZONES[0]), world.claim_in(ZONES[1])
        world.record(ZONES[0])
        world.counts.recount(world.group.signature, first, first, 0)
        assert world.counts.of(world.rule.group)[ZONES[0]] == 1
        world.counts.recount(world.group.signature, first, later, 0)
        assert world.counts.of(world.rule.group) == {ZONES[0]: 0, ZONES[1]: 1, ZONES[2]: 0}

    @pytest.mark.parametrize(("skew", "barred"), [(1, 0b01), (2, 0)])
    def test_over_nodes_bars_those_that_are_full(self, skew: int, barred: int) -> None:
        """A new node is always possible, so the emptiest one has none."""
        world = World(**self.spread(topology_key=labels.HOSTNAME, max_skew=skew))
        world.record("", claim=0)
        assert world.counts.barred_claims(world.rule) == barred
        world.record("", claim=1, times=2)
        assert world.counts.barred_claims(world.rule) == barred | 0b10
        assert not world.counts.bars_new_node(world.rule)

    def test_over_nodes_that_does_not_select_its_pod_bars_nothing_new(self) -> None:
        world = World(app="other", **self.spread(topology_key=labels.HOSTNAME))
        assert (world.counts.barred_claims(world.rule), world.counts.bars_new_node(world.rule)) == (0, False)


class TestAnAffinity:
    """A pod goes where another is that it needs; the first of a group that selects itself goes anywhere."""

    ZONAL = PodAffinityTerm(labels.ZONE, WEB)

    def test_goes_where_one_is(self) -> None:
        assert World(0, 1, 0, affinity=(self.ZONAL,)).admitted() == [ZONES[1]]

    @pytest.mark.parametrize(("app", "admitted"), [("web", list(ZONES)), ("other", [])])
    def test_of_the_first_pod_is_met_if_it_selects_itself(self, app: str, admitted: list[str]) -> None:
        assert World(0, app=app, affinity=(self.ZONAL,)).admitted() == admitted

    def test_over_nodes_is_met_by_a_node_of_the_plan(self) -> None:
        world = World(affinity=(PodAffinityTerm(labels.HOSTNAME, WEB),))
        assert world.counts.is_first(world.rule)
        world.record("", claim=1)
        assert not world.counts.is_first(world.rule)
        assert world.counts.barred_claims(world.rule) == ~0b10
        assert world.counts.bars_new_node(world.rule)


class TestAnAntiAffinity:
    """A pod goes where none is that it avoids; a node without the label is no domain."""

    def test_is_never_overfull(self) -> None:
        """Only a spread has a number that may be exceeded."""
        world = World(0, 3, 0, anti_affinity=(PodAffinityTerm(labels.ZONE, WEB),))
        assert not any(world.counts.is_overfull(world.rule, zone, world.group.signature) for zone in ZONES)

    def test_goes_where_none_is(self) -> None:
        world = World(0, 1, 2, anti_affinity=(PodAffinityTerm(labels.ZONE, WEB),))
        assert world.admitted() == [ZONES[0]]
        assert world.counts.admits(world.rule, None, world.group.signature)


def test_the_counts_before_the_plan_are_known_afterwards() -> None:
    spread = TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=WEB)
    world = World(1, 0, 0, spreads=(spread,))
    world.record(ZONES[1])
    assert world.counts.of(world.rule.group) == {ZONES[0]: 1, ZONES[1]: 1, ZONES[2]: 0}
    assert world.counts.at_start().of(world.rule.group) == {ZONES[0]: 1, ZONES[1]: 0, ZONES[2]: 0}


def test_a_copy_counts_for_itself_on_nodes_too() -> None:
    world = World(anti_affinity=(APART,))
    world.record("", claim=0)
    copy = world.counts.copy()
    world.record("", claim=1)
    assert (copy.barred_claims(world.rule), world.counts.barred_claims(world.rule)) == (0b01, 0b11)
