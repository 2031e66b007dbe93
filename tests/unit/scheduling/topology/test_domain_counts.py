"""The counts of one plan, and what rules derive from them."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.model.pod import HONOR, IGNORE, NodeSelectorTerm, PodAffinityTerm, TopologySpread
from core.model.values.requirements import Requirement
from core.scheduling.capacity.claim_profile import ClaimProfile, ClaimProfiles
from core.scheduling.primitives.handles import TopologyGroupId
from core.scheduling.topology.departures import Departures
from core.scheduling.topology.domain_counts import DomainCounts
from core.scheduling.topology.group_domains import GroupDomains
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


class Placing:
    """Zones with this many running pods of `web`; `w` has the rules, and `x`, of `web` as well, has none."""

    def __init__(self, *running: int, others: tuple[Any, ...] = (), **rules: Any) -> None:
        pairs = [a_node_of(TYPE, f"n{place}", zone=zone) for place, zone in enumerate(ZONES[: len(running)])]
        self.running = [
            a_pod(f"r{place}-{number}", labels={"app": "web"}, node_name=f"n{place}", phase="Running")
            for place, count in enumerate(running)
            for number in range(count)
        ]
        pods = (*self.running, a_pod("w", labels={"app": "web"}, **rules), a_pod("x", labels={"app": "web"}), *others)
        nodes, claims = tuple(node for _, node in pairs), tuple(claim for claim, _ in pairs)
        self.context = context_of(types=(TYPE,), pods=pods, nodes=nodes, node_claims=claims)
        self.owner, self.other = (group_of(self.context, name) for name in "wx")
        self.counts = DomainCounts(self.context.topology)
        step = self.owner.steps[0]
        self.rules = [rule for rule in (*step.zone_rules, *step.host_rules) if rule.kind != INVERSE]

    def profile(self, *labelled: tuple[str, str]) -> ClaimProfile:
        template, table = self.context.templates[0], self.context.table
        reqs = template.offered
        for key, value in labelled:
            reqs = table.with_value(reqs, key, value)
        return ClaimProfiles().of(template, reqs, template.mask)

    def place(self, zone: str, *labelled: tuple[str, str]) -> None:
        """Put a pod without rules on a new node in the zone."""
        self.counts.record_on_claim(self.other.signature, self.profile((labels.ZONE, zone), *labelled), 0)

    def admitted(self) -> str:
        """The zones in which the first rule admits its owner."""
        (rule, *_), signature = self.rules, self.owner.signature
        return "".join(zone[-1] for zone in ZONES if self.counts.admits(rule, zone, signature))


SPOT = (Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT),)
"""What an owner requires whose rule counts only pods on nodes of that kind."""

ON_SPOT = (labels.CAPACITY_TYPE, labels.SPOT)


class TestAnUncertainCount:
    """A pod on a new node that may come up where the owner cannot run counts where it could be one too many, and only there."""

    def test_bars_its_zone_and_does_not_open_others(self) -> None:
        world = Placing(node_selector=SPOT, spreads=(SPREAD,))
        world.place(ZONES[1], ON_SPOT)
        world.place(ZONES[2], ON_SPOT)
        world.place(ZONES[0])
        assert world.counts.of(world.rules[0].group) == dict.fromkeys(ZONES, 1)
        assert world.admitted() == "a", "the first zone may have no pod, then the others would have two more"

    def test_taken_back_leaves_nothing_uncertain(self) -> None:
        world = Placing(node_selector=SPOT, spreads=(SPREAD,))
        open_, decided = world.profile((labels.ZONE, ZONES[0])), world.profile((labels.ZONE, ZONES[0]), ON_SPOT)
        for zone in ZONES:
            world.place(zone, ON_SPOT)
        world.counts.record_on_claim(world.other.signature, open_, 3)
        world.counts.recount(world.other.signature, open_, decided, 3)
        assert world.counts.of(world.rules[0].group) == {ZONES[0]: 2, ZONES[1]: 1, ZONES[2]: 1}
        assert world.admitted() == "bc"
        world.place(ZONES[1], ON_SPOT)
        world.place(ZONES[2], ON_SPOT)
        assert world.admitted() == "abc"

    def test_of_several_new_nodes_at_once_is_uncertain_too(self) -> None:
        for profile_of_first in ((), (ON_SPOT,)):
            world = Placing(node_selector=SPOT, spreads=(SPREAD,))
            for zone, further in ((ZONES[0], profile_of_first), (ZONES[1], (ON_SPOT,)), (ZONES[2], (ON_SPOT,))):
                profile = world.profile((labels.ZONE, zone), *further)
                world.counts.record_on_claims(world.other.signature, profile, (0,))
            assert world.admitted() == ("abc" if profile_of_first else "a")


def test_pods_on_several_new_nodes_count_as_if_one_by_one() -> None:
    """A node that is named twice has two of them; a rule over hosts does not end the count of one over zones."""
    hosts = TopologySpread(topology_key=labels.HOSTNAME, max_skew=2, selector=WEB)
    at_once, in_turn = (Placing(1, 0, 0, spreads=(hosts, SPREAD), anti_affinity=(APART,)) for _ in range(2))
    claims, signature = (0, 2, 2, 5), at_once.owner.signature
    at_once.counts.record_on_claims(signature, at_once.profile((labels.ZONE, ZONES[0])), claims)
    for claim in claims:
        in_turn.counts.record_on_claim(signature, in_turn.profile((labels.ZONE, ZONES[0])), claim)
    (zonal,) = (rule for rule in at_once.rules if not rule.is_hostname)
    assert at_once.counts.of(zonal.group) == in_turn.counts.of(zonal.group) == {ZONES[0]: 5, ZONES[1]: 0, ZONES[2]: 0}
    for rule in (rule for rule in at_once.rules if rule.is_hostname):
        barred = at_once.counts.barred_claims(rule)
        assert barred == in_turn.counts.barred_claims(rule) == (0b100 if rule.kind == "spread" else 0b100101)


def test_a_new_node_counts_where_its_label_is_known_and_the_owner_may_run() -> None:
    """Otherwise, a pod bars a zone in which it never comes up, or one in which its owner has no node."""
    first = (Requirement.one_of(labels.ZONE, *ZONES[:2]),)
    world = Placing(node_selector=first, spreads=(SPREAD,))
    group = world.rules[0].group
    world.counts.record_on_claim(world.other.signature, world.profile(), 0)
    world.place(ZONES[2])
    assert world.counts.of(group) == {ZONES[0]: 0, ZONES[1]: 0}
    world.place(ZONES[1])
    assert world.counts.of(group) == {ZONES[0]: 0, ZONES[1]: 1}


def test_a_rule_over_nodes_counts_a_new_node_by_its_number() -> None:
    """Its hostname, even where a pod names one, is not a domain of the cluster yet."""
    world = Placing(1, 0, spreads=(TopologySpread(topology_key=labels.HOSTNAME, max_skew=1, selector=WEB),))
    (rule,) = world.rules
    world.counts.record_on_claim(world.other.signature, world.profile((labels.HOSTNAME, "named")), 4)
    assert world.counts.of(rule.group) == {"n0": 1}
    assert world.counts.barred_claims(rule) == 0b10000
    admitted = [world.counts.admits(rule, name, world.owner.signature) for name in ("n0", "n1")]
    assert admitted == [False, True], "the emptiest node is a new one, which has none"


def test_the_first_pod_of_a_domain_is_one() -> None:
    """An affinity knows only the domains with pods."""
    for way in ("on a node", "on a new one", "on several"):
        world = Placing(0, 0, affinity=(PodAffinityTerm(labels.ZONE, WEB),))
        (rule,), signature = world.rules, world.other.signature
        profile = world.profile((labels.ZONE, ZONES[1]))
        assert world.counts.of(rule.group) == {}
        if way == "on a node":
            world.counts.record_on_node(signature, 1)
        elif way == "on a new one":
            world.counts.record_on_claim(signature, profile, 7)
        else:
            world.counts.record_on_claims(signature, profile, (7,))
        assert world.counts.of(rule.group) == {ZONES[1]: 1}
        assert world.admitted() == "b"


def test_a_pod_whose_zone_is_open_is_not_the_first_of_an_affinity_over_zones() -> None:
    """Nobody can join it: which zone it will be in is not known."""
    world = Placing(affinity=(PodAffinityTerm(labels.ZONE, WEB),))
    world.counts.record_on_claim(world.other.signature, world.profile(), 0)
    assert world.counts.is_first(world.rules[0])
    assert world.admitted() == "abc"


@pytest.mark.parametrize(("minimum", "admitted"), [(1, "ab"), (2, "ab"), (3, "")])
def test_a_spread_over_fewer_usable_domains_than_it_asks_for_measures_against_none(minimum: int, admitted: str) -> None:
    """Kubernetes' minDomains, for a pod that may use two of three zones."""
    spread = TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=WEB, min_domains=minimum)
    term = NodeSelectorTerm((Requirement.one_of(labels.ZONE, *ZONES[:2]),))
    found = Placing(1, 1, 1, required_terms=(term,), spreads=(spread,)).admitted()
    assert found.removesuffix("c") == admitted


def test_a_spread_without_any_domain_measures_against_none() -> None:
    """The first node of a rack opens the rack."""
    racks = TopologySpread(topology_key="rack", max_skew=1, selector=WEB)
    nowhere = (Requirement.one_of(labels.ZONE, "zone-x"),)
    for world in (Placing(spreads=(racks,)), Placing(1, node_selector=nowhere, spreads=(SPREAD,))):
        (rule,) = world.rules
        assert world.counts.of(rule.group) == {}
        assert world.counts.admits(rule, "new", world.owner.signature)


def test_a_zone_that_only_the_plan_opens_counts_with_the_policy_ignore() -> None:
    """Its new node will be one of the nodes that the policy counts, whoever may use it."""
    spread = TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=WEB, node_affinity_policy=IGNORE)
    term = NodeSelectorTerm((Requirement.one_of(labels.ZONE, *ZONES[:2]),))
    world = Placing(2, 2, required_terms=(term,), spreads=(spread,))
    assert world.admitted()[:2] == "ab"
    world.place(ZONES[2])
    assert world.admitted()[:2] == "c"
    world.place(ZONES[2])
    assert world.admitted()[:2] == "ab"


def test_what_a_departure_leaves_is_counted_and_what_it_empties_is_not() -> None:
    """An affinity is met by the pod that stays; a domain without pods is none for it."""
    world = Placing(2, 1, affinity=(PodAffinityTerm(labels.ZONE, WEB),))
    (rule,), signature = world.rules, world.other.signature
    leaving = [(signature, pod, int(pod.node_name[1])) for pod in world.running[1:]]
    counts = DomainCounts(world.context.topology, Departures.of((0, 1), leaving))
    assert counts.of(rule.group) == {ZONES[0]: 1}


def test_a_domain_with_another_node_is_still_the_least_loaded_one() -> None:
    """Otherwise, a rack counts as gone although one of its nodes stays."""
    racks = TopologySpread(topology_key="rack", max_skew=1, selector=WEB)
    pairs = [a_node_of(a_type("m", rack=rack), name) for name, rack in (("n0", "l"), ("n1", "r"), ("n2", "r"))]
    running = [a_pod(f"r{n}", labels={"app": "web"}, node_name=f"n{n}", phase="Running") for n in (0, 1)]
    waiting = a_pod("w", labels={"app": "web"}, spreads=(racks,))
    context = context_of(
        types=(TYPE,),
        pods=(*running, waiting),
        nodes=tuple(node for _, node in pairs),
        node_claims=tuple(claim for claim, _ in pairs),
    )
    group = group_of(context, "w")
    (rule,) = group.steps[0].zone_rules
    for gone, found in (((1,), {"l": 1, "r": 0}), ((1, 2), {"l": 1})):
        counts = DomainCounts(context.topology, Departures.of(gone, [(group.signature, running[1], 1)]))
        assert counts.of(rule.group) == found


def test_hosts_that_a_plan_empties_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, a look at many nodes of a large cluster that go takes their number squared."""
    hosts = TopologySpread(topology_key=labels.HOSTNAME, max_skew=1, selector=WEB)
    names = [f"n{number}" for number in range(8)]
    pairs = [a_node_of(TYPE, name) for name in names]
    running = [a_pod(f"of-{n}", labels={"app": "web"}, spreads=(hosts,), node_name=n, phase="Running") for n in names]
    nodes = {"nodes": tuple(node for _, node in pairs), "node_claims": tuple(claim for claim, _ in pairs)}
    context = context_of(types=(TYPE,), pods=tuple(running), **nodes)
    groups = [context.pod_groups.of(pod) for pod in running]
    leaving = [(g.signature, p, context.positions[p.node_name]) for g, p in zip(groups, running, strict=True)]
    (rule,) = groups[0].steps[0].host_rules
    asked: list[int] = []
    domain_at = GroupDomains.at

    def counted_at(self: GroupDomains, number: TopologyGroupId, position: int) -> str | None:
        asked.append(position)
        return domain_at(self, number, position)

    monkeypatch.setattr(GroupDomains, "at", counted_at)
    assert DomainCounts(context.topology, Departures.of(range(8), leaving)).of(rule.group) == {}
    assert sorted(asked) == [*range(8)]
