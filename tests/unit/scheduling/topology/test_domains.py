"""The counts of one plan, and what rules derive from them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from core import labels
from core.model.catalogue import InstanceType
from core.model.plan import PlannedClaim
from core.model.pod import (
    DO_NOT_SCHEDULE,
    HONOR,
    IGNORE,
    SCHEDULE_ANYWAY,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    TopologySpread,
    WeightedPodAffinityTerm,
)
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint
from core.scheduling.new_node import ClaimDraft, ClaimProfile, ClaimProfiles
from core.scheduling.planner import Planner
from core.scheduling.pods import Avoids, PodSignature
from core.scheduling.primitives import TopologyGroupId, bits
from core.scheduling.scheduler import queue_of
from core.scheduling.topology.domains import (
    SETS_MAX,
    Departures,
    DomainChoice,
    DomainCounts,
    HostnameCounts,
    ReachableDomains,
)
from core.scheduling.topology.groups import INVERSE, GroupDomains
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type
from tests.unit.disruption.nodes_for_tests import pod_on
from tests.unit.scheduling.reading import claim_of, context_of, group_of, plan_of

# Pods of nodes that a plan removes count where they are until they are placed elsewhere.


def departures_of(*pods: Pod) -> tuple[Departures, PodSignature]:
    signature = group_of(context_of(pods=(a_pod("w"),)), "w").signature
    return Departures.of((2, 0), [(signature, pod, 0) for pod in pods]), signature


def test_departures_are_counted_by_node_and_terminating_ones_apart() -> None:
    pods = [a_pod("a"), a_pod("b"), a_pod("c", deleted_at=NOW)]
    found, signature = departures_of(*pods)
    assert found.positions == (0, 2)
    assert list(found.counted(signature, with_ending=False)) == [(0, 2)]
    assert list(found.counted(signature, with_ending=True)) == [(0, 2), (0, 1)]


def test_departures_of_no_pods_count_nothing() -> None:
    found, signature = departures_of()
    assert list(found.counted(signature, with_ending=True)) == []


# Which of several equal domains a new node is held to.


HOME, AWAY = ZONES[:2]
DOMAIN_CHOICE_SPREAD = {
    "labels": {"app": "web"},
    "spreads": (TopologySpread(labels.ZONE, 2, selector=a_selector(app="web")),),
}


def on_demand(name: str, cpu: str, price: float, zone: str) -> InstanceType:
    return a_type(name, cpu=cpu, price=price, zones=(zone,), capacity_types=(labels.ON_DEMAND,))


LITTLE_AT_HOME = on_demand("little-at-home", "1", 0.05, HOME)
MIDDLE_AT_HOME = on_demand("middle-at-home", "4", 0.2, HOME)
MIDDLE_AWAY = on_demand("middle-away", "4", 0.25, AWAY)
MUCH_AT_HOME = on_demand("much-at-home", "16", 2.0, HOME)
MUCH_AWAY = on_demand("much-away", "16", 1.0, AWAY)
RUNNING = on_demand("running", "16", 3.0, HOME)


def launched_instead(*cpus: str, **changes: object) -> tuple[PlannedClaim, ...]:
    """New nodes for pods of a node that leaves: the largest has the spread, `changes` are of the last."""
    last = len(cpus) - 1
    pods = [
        pod_on(
            "node-1",
            f"pod-{number}",
            cpu=cpu,
            **({} if number else DOMAIN_CHOICE_SPREAD),
            **(changes if number == last else {}),
        )
        for number, cpu in enumerate(cpus)
    ]
    claim, node = a_node_of(RUNNING)
    types = (RUNNING, MIDDLE_AT_HOME, MIDDLE_AWAY, MUCH_AT_HOME, MUCH_AWAY)
    world = a_snapshot(types=types, node_claims=(claim,), nodes=(node,), pods=tuple(pods))
    return Planner(world).what_if([node.name], consolidation=True).plan.claims


def test_a_domain_is_as_cheap_as_its_cheapest_type_with_room_for_the_pod() -> None:
    """Otherwise, a type that is too small for the pod decides where it runs."""
    types = (LITTLE_AT_HOME, MUCH_AT_HOME, MUCH_AWAY)
    assert claim_of(plan_of(types=types, pods=(a_pod("web", cpu="8", **DOMAIN_CHOICE_SPREAD),)), "web").zones == (AWAY,)


def test_pods_of_a_leaving_node_choose_the_domain_by_the_price_of_one_node_for_all() -> None:
    """Otherwise, the first of them chooses where a node for it alone is cheap and one for all costs twice as much."""
    assert [claim.zones for claim in launched_instead("3", "2", "2")] == [(AWAY,)]
    assert [claim.zones for claim in launched_instead("3")] == [(HOME,)]


def test_pods_of_a_leaving_node_choose_a_domain_that_all_can_share() -> None:
    """Otherwise, they need two nodes, and a node whose pods need two is not replaced."""
    (claim,) = launched_instead("3", "1", node_selector=(Requirement.one_of(labels.ZONE, AWAY),))
    assert (claim.zones, len(claim.pods)) == ((AWAY,), 2)


def test_pods_that_an_existing_node_takes_do_not_count_for_the_price() -> None:
    """Otherwise, the domain is chosen for a node that is larger than what is launched."""
    claim, node = a_node_of(RUNNING)
    other_claim, other = a_node_of(MUCH_AT_HOME, "node-2", zone=HOME)
    pods = (pod_on(node.name, "large", cpu="9"), pod_on(node.name, "web", cpu="3", **DOMAIN_CHOICE_SPREAD))
    types = (RUNNING, MIDDLE_AT_HOME, MIDDLE_AWAY, MUCH_AT_HOME, MUCH_AWAY)
    filler = pod_on(other.name, "filler", cpu="7")
    world = a_snapshot(types=types, node_claims=(claim, other_claim), nodes=(node, other), pods=(*pods, filler))
    plan = Planner(world).what_if([node.name], consolidation=True).plan
    assert claim_of(plan, "web").zones == (HOME,)


def test_pods_that_need_several_nodes_choose_the_domain_by_price() -> None:
    """Otherwise, they go where a pod can join them that gets a node of its own anyway, for three times the price."""
    launched = launched_instead(*["3"] * 6, node_selector=(Requirement.one_of(labels.ZONE, AWAY),))
    assert {claim.zones for claim in launched if "default/pod-0" in claim.pods} == {(HOME,)}


def test_only_pods_that_still_wait_attract_others_to_their_domain() -> None:
    """A pod that has its node needs no other: the pods that its affinity selects go to the cheapest zone."""
    claim, node = a_node_of(RUNNING, "node-2", zone=AWAY)
    full = pod_on(node.name, "db-0", cpu="15", labels={"app": "db"})
    there = (Requirement.one_of(labels.ZONE, AWAY),)
    near = (PodAffinityTerm(labels.ZONE, a_selector(app="db")),)
    client = a_pod("client", cpu="3", node_selector=there, affinity=near)
    alone = (PodAffinityTerm(labels.ZONE, a_selector(app="batch")),)
    database = a_pod("db-1", cpu="2", labels={"app": "db"}, anti_affinity=alone)
    types = (MIDDLE_AT_HOME, MIDDLE_AWAY)
    plan = plan_of(types=types, node_claims=(claim,), nodes=(node,), pods=(full, client, database))
    assert (claim_of(plan, "client").zones, claim_of(plan, "db-1").zones) == ((AWAY,), (HOME,))


CLOSED = Taint("closed", NO_SCHEDULE)
DOMAIN_CHOICE_WEB, CACHE = {"app": "web"}, {"app": "cache"}
TO_WEB = PodAffinityTerm(labels.ZONE, a_selector(app="web"))
TO_CACHE = PodAffinityTerm(labels.ZONE, a_selector(app="cache"))
BY_ZONE = TopologySpread(labels.ZONE, 9, selector=a_selector(app="web"))
DEARER_BY_ZONE = tuple(on_demand(f"t-{zone}", "4", 0.1 + 0.1 * n, zone) for n, zone in enumerate(ZONES[:3]))
ALIKE = tuple(on_demand(f"t-{zone}", "4", 0.1, zone) for zone in ZONES[:3])
"""Types of one size in each zone."""


def only_in(*zones: int) -> tuple[Requirement, ...]:
    return (Requirement.one_of(labels.ZONE, *(ZONES[zone] for zone in zones)),)


def ordered(
    *others: Pod,
    types: tuple[InstanceType, ...] = DEARER_BY_ZONE,
    running: tuple[int, ...] = (),
    placed: tuple[str, ...] = (),
    together: str = "",
    only_compares: bool = False,
    **rules: object,
) -> str:
    """The zones of a new node for a pod with these rules beside other waiting pods, the best first, by their last letters.

    Args:
        others: The other pods.
        types: The instance types.
        running: The zones of pods like it that run.
        placed: Names of the others that have got a place.
        together: The CPU that one node should have for all pods; any number of nodes if empty.
        only_compares: Whether that only shows in what is returned: the zones end with `!` if they would be others.
        rules: The pod's.
    """
    pairs = [a_node_of(RUNNING, f"n{n}", zone=ZONES[zone]) for n, zone in enumerate(running)]
    web = a_pod("web", cpu="1", labels=DOMAIN_CHOICE_WEB, **rules)
    there = (
        structs.replace(web, name=f"w{n}", node_name=f"n{n}", phase="Running", uid=f"w{n}") for n in range(len(pairs))
    )
    context = context_of(
        types=types,
        node_claims=tuple(claim for claim, _ in pairs),
        nodes=tuple(node for _, node in pairs),
        pods=(web, *others, *there),
    )
    queue = queue_of(context, [(context.pending, Avoids.NO_NODE)])
    for pending in queue:
        pending.placed = sum(pod.name in placed for pod in pending.pods)
    one_node = (lambda: context.axis.vector({"cpu": int(together) * 1000})) if together else None
    counts = DomainCounts(context.topology)
    choice = DomainChoice(context.topology, counts, queue, one_node, only_compares=only_compares)
    (template,), group = context.templates, context.pod_groups.of(web)
    draft = ClaimDraft(template, template.offered, template.mask, group.requests)
    options = choice.options(draft, group.signature, group.steps[0], labels.ZONE)
    return "".join(value[-1] for value in options if value) + "!" * choice.differs_if_shared


class TestOrder:
    def test_the_cheapest_zone_comes_first_and_the_first_name_of_equal_ones(self) -> None:
        assert ordered() == "abc"
        assert ordered(types=DEARER_BY_ZONE[::-1]) == "abc"
        assert ordered(types=tuple(on_demand(f"t{n}", "4", 0.3 - 0.1 * n, ZONES[n]) for n in range(3))) == "cba"
        assert ordered(types=ALIKE) == "abc"

    def test_an_own_spread_goes_before_the_price_and_that_of_other_pods_after_it(self) -> None:
        assert ordered(running=(0, 0, 1), spreads=(BY_ZONE,)) == "cba"
        watcher = a_pod("watcher", spreads=(BY_ZONE,))
        assert ordered(watcher, running=(0, 0, 1)) == "abc"
        assert ordered(watcher, running=(0, 0, 1), types=ALIKE) == "cba"
        elsewhere = a_pod("watcher", spreads=(TopologySpread(labels.CAPACITY_TYPE, 9, selector=a_selector(app="web")),))
        assert ordered(elsewhere, running=(0, 0, 1), types=ALIKE) == "abc"

    def test_pods_that_must_be_beside_it_attract_it_to_each_zone_that_they_may_have(self) -> None:
        follower = a_pod("follower", node_selector=only_in(2), affinity=(TO_WEB,))
        assert ordered(follower) == "cab"
        assert ordered(follower, placed=("follower",)) == "abc"
        assert ordered(a_pod("follower", node_selector=only_in(1, 2), affinity=(TO_WEB,))) == "bca"
        assert ordered(a_pod("follower", cpu="5", node_selector=only_in(2), affinity=(TO_WEB,))) == "abc"
        assert ordered(a_pod("follower", node_selector=only_in(2))) == "abc"
        two = (follower, a_pod("second", node_selector=only_in(1, 2), affinity=(TO_WEB,)))
        assert ordered(*two) == "cba"

    def test_pods_that_avoid_it_keep_it_off_and_the_more_the_fewer_zones_they_may_have(self) -> None:
        for avoids in ({"anti_affinity": (TO_WEB,)}, {"anti_affinity": (TO_WEB, TO_CACHE)}):
            assert ordered(a_pod("foe", node_selector=only_in(0), **avoids)) == "bca"
            assert ordered(a_pod("foe", node_selector=only_in(0, 1), **avoids)) == "cab"
            narrow = a_pod("narrow", node_selector=only_in(1), **avoids)
            assert ordered(narrow, a_pod("wide", node_selector=only_in(0, 1), **avoids)) == "cab"
            assert ordered(a_pod("wide", node_selector=only_in(0, 1), **avoids), a_pod("foe", **avoids)) == "cab"

    def test_pods_that_it_avoids_keep_it_off_as_well(self) -> None:
        cache = a_pod("cache", labels=CACHE, node_selector=only_in(0))
        assert ordered(cache, anti_affinity=(TO_CACHE,)) == "bca"
        assert ordered(cache, anti_affinity=(TO_CACHE,), placed=("cache",)) == "abc"
        assert ordered(cache) == "abc"

    def test_what_attracts_and_what_keeps_off_adds_up(self) -> None:
        """A pod that must be beside it weighs as much as two that avoid it and may have two zones."""
        follower = a_pod("follower", node_selector=only_in(0), affinity=(TO_WEB,))
        foes = tuple(
            a_pod(f"foe{n}", cpu=f"{n + 1}00m", node_selector=only_in(0, 1), anti_affinity=(TO_WEB,)) for n in range(3)
        )
        assert ordered(follower, *foes[:1]) == "acb"
        assert ordered(follower, *foes[:2]) == "acb"
        assert ordered(follower, *foes) == "cab"


SIZES = (
    *DEARER_BY_ZONE,
    *(on_demand(f"large-{zone}", "16", 1.0 - 0.1 * n, zone) for n, zone in enumerate(ZONES[:3])),
)
"""The zone where a small type costs least is where a large one costs most."""


class TestShared:
    """The order for a node that should take all pods."""

    def test_the_price_is_that_of_a_type_with_room_for_all(self) -> None:
        assert ordered(types=SIZES) == "abc"
        assert ordered(types=SIZES, together="4") == "abc"
        assert ordered(types=SIZES, together="5") == "cba"
        assert ordered(types=SIZES, together="17") == "abc", "no type has the room: they need several nodes"

    def test_zones_that_waiting_pods_cannot_have_come_last(self) -> None:
        tied = a_pod("tied", cpu="2", node_selector=only_in(1))
        assert ordered(tied) == "abc"
        assert ordered(tied, together="4") == "bac"
        assert ordered(tied, together="4", placed=("tied",)) == "abc"
        assert ordered(tied, a_pod("other", node_selector=only_in(0, 2)), together="4") == "abc"
        two = (tied, structs.replace(tied, name="tied-2", uid="tied-2"))
        assert ordered(*two, a_pod("other", node_selector=only_in(0, 2)), together="4") == "bac"
        assert ordered(a_pod("anywhere", node_selector=only_in(0, 1, 2)), together="4") == "abc"
        assert ordered(a_pod("nowhere", cpu="99", node_selector=only_in(2)), together="4") == "abc"

    def test_a_comparison_changes_no_order_and_says_whether_sharing_would(self) -> None:
        assert ordered(types=SIZES, together="4", only_compares=True) == "abc"
        assert ordered(types=SIZES, together="5", only_compares=True) == "abc!"
        assert ordered(types=SIZES, together="17", only_compares=True) == "abc"
        assert ordered(types=SIZES, only_compares=True) == "abc"


def test_a_label_that_its_pool_leaves_open_gets_the_value_in_use_with_the_fewest_pods_or_a_new_one() -> None:
    """A new value is a new domain: it makes a spread less even, and is taken only if a required rule refuses the others."""
    team = "example.com/team"
    pool = a_pool("default", Requirement.of(team, "Exists"), Requirement.of(team, "NotIn", ["0", "old"]))
    apart = PodAffinityTerm(team, a_selector(app="web"))
    weighted = WeightedPodAffinityTerm(1, apart)

    def values(*teams: str, tainted: str = "", **rules: object) -> list[str | None]:
        """The values for a pod with these rules beside nodes of these teams, each of which has a pod like it.

        `tainted`: the team whose nodes it does not tolerate.
        """
        web = a_pod("web", cpu="1", labels=DOMAIN_CHOICE_WEB, **rules)
        pairs = [a_node_of(RUNNING, f"n{n}") for n, _ in enumerate(teams)]
        there = (
            structs.replace(web, name=f"w{n}", node_name=f"n{n}", phase="Running", uid=f"w{n}")
            for n in range(len(teams))
        )
        context = context_of(
            types=ALIKE,
            node_pools=(pool,),
            node_claims=tuple(claim for claim, _ in pairs),
            nodes=tuple(
                structs.replace(node, labels=node.labels | {team: own}, taints=(CLOSED,) * (own == tainted))
                for (_, node), own in zip(pairs, teams, strict=True)
            ),
            pods=(web, *there),
        )
        choice = DomainChoice(context.topology, DomainCounts(context.topology), ())
        (template,), group = context.templates, context.pod_groups.of(web)
        draft = ClaimDraft(template, template.offered, template.mask, group.requests)
        return choice.options(draft, group.signature, group.steps[0], team)

    there = ("red", "red", "blue", "old")
    for unless in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY):
        for skew, found in ((1, ["1"]), (2, ["1", "blue"]), (9, ["1", "blue", "red"])):
            assert values(*there, spreads=(TopologySpread(team, skew, unless, a_selector(app="web")),)) == found
    assert values(*there, anti_affinity=(apart,)) == ["1"]
    assert values(*there, "1", anti_affinity=(apart,)) == ["2"]
    assert values(*there, preferred_anti_affinity=(weighted,)) == []
    assert values(*there, affinity=(apart,)) == ["blue", "red"]
    assert values(affinity=(apart,)) == ["1"]
    assert values("old", affinity=(apart,)) == []
    web = a_selector(app="web")
    both = (TopologySpread(team, 9, selector=web), TopologySpread(team, 9, selector=web, node_taints_policy=HONOR))
    assert values("a", "b", spreads=both) == ["1", "a", "b"]
    assert values("a", "b", tainted="b", spreads=both) == ["1", "b", "a"], "one of both spreads knows no pod of b"


def test_rules_along_other_keys_do_not_order_zones() -> None:
    for key in (labels.CAPACITY_TYPE, labels.HOSTNAME):
        term = PodAffinityTerm(key, a_selector(app="web"))
        assert ordered(a_pod("follower", node_selector=only_in(2), affinity=(term,))) == "abc"
        assert ordered(a_pod("foe", node_selector=only_in(0), anti_affinity=(term,))) == "abc"


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
    own_rule, foreign = (group_of(context, name).steps[0].host_rules[0] for name in ("w", "other"))
    assert (counts.bars_new_node(own_rule), counts.bars_new_node(foreign)) == (False, True)


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
        overfull_zones = [zone for zone in ZONES if counts.is_overfull(world.rule, zone, signature)]
        assert "".join(zone[-1] for zone in overfull_zones) == overfull

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


@given(st.lists(st.integers(0, 2), max_size=12))
def test_the_minimum_over_hosts_follows_every_pod_that_is_placed(positions: list[int]) -> None:
    world = World(1, 0, 2, spreads=(TopologySpread(topology_key=labels.HOSTNAME, max_skew=1, selector=WEB),))
    remembering, running = world.counts, [1, 0, 2]
    remembering.reachable = ReachableDomains(lambda _, __: False, [])
    for position in positions:
        remembering.record_on_node(world.group.signature, position)
        running[position] += 1
        admitted = [remembering.admits(world.rule, f"n{place}", world.group.signature) for place in range(3)]
        assert admitted == [pods - min(running) < 1 for pods in running]


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
    reason = Placing(1, 1, 1, required_terms=(term,), spreads=(spread,)).admitted()
    assert reason.removesuffix("c") == admitted


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


# Pods of a topology group on each new node.


HIGHEST = 3
CHANGES = st.lists(st.tuples(st.integers(0, 4), st.integers(-2, 5)), max_size=12)


@given(CHANGES)
def test_claims_are_found_by_the_pods_that_they_have(changes: list[tuple[int, int]]) -> None:
    """Otherwise, a rule puts a pod onto a node that has as many as it may, or refuses one that has room."""
    counts, expected = HostnameCounts(HIGHEST), Counter[int]()
    for claim, change in changes:
        times = max(change, -expected[claim])  # pods are only taken out of where they were counted
        counts.add(claim, times)
        expected[claim] += times
    for count in range(1, HIGHEST + 1):
        assert counts.with_at_least(count) == bits(claim for claim, pods in expected.items() if pods >= count)
    assert counts.total == expected.total()


def test_a_skew_of_any_size_takes_no_memory() -> None:
    """One pod with maxSkew 2147483647 along hostnames took 17 GB, and ended each run."""
    counts = HostnameCounts(10**15)
    counts.add(3, SETS_MAX + 2)
    assert counts.copy().with_at_least(SETS_MAX + 1) == counts.with_at_least(SETS_MAX) == bits([3])
    assert counts.with_at_least(10**15) == 0
    spread = TopologySpread(topology_key=labels.HOSTNAME, max_skew=2**31 - 1, min_domains=2**31 - 1, selector=WEB)
    pods = tuple(a_pod(f"w-{number}", labels={"app": "web"}, spreads=(spread,)) for number in range(3))
    assert Planner(a_snapshot(types=(a_type(),), pods=pods)).plan().unschedulable == ()


def test_a_copy_is_independent() -> None:
    """A plan that is tried and dropped must leave the counts of the one that is kept."""
    counts = HostnameCounts(HIGHEST)
    counts.add(0, 1)
    other = counts.copy()
    other.add(0, 1)
    assert (counts.total, other.total) == (1, 2)
    assert (counts.with_at_least(2), other.with_at_least(2)) == (0, 1)
