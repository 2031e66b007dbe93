"""Which of several equal domains a new node is held to."""

from __future__ import annotations

from msgspec import structs

from core import labels
from core.model.catalogue import InstanceType
from core.model.plan import PlannedClaim
from core.model.pod import (
    DO_NOT_SCHEDULE,
    HONOR,
    SCHEDULE_ANYWAY,
    Pod,
    PodAffinityTerm,
    TopologySpread,
    WeightedPodAffinityTerm,
)
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint
from core.scheduling.capacity.claim_draft import ClaimDraft
from core.scheduling.greedy.queue import queue_of
from core.scheduling.planner import Planner
from core.scheduling.topology.domain_choice import DomainChoice
from core.scheduling.topology.domain_counts import DomainCounts
from tests.builders import ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type
from tests.unit.disruption.nodes_for_tests import pod_on
from tests.unit.scheduling.reading import claim_of, context_of, plan_of

HOME, AWAY = ZONES[:2]
SPREAD = {"labels": {"app": "web"}, "spreads": (TopologySpread(labels.ZONE, 2, selector=a_selector(app="web")),)}


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
        pod_on("node-1", f"pod-{number}", cpu=cpu, **({} if number else SPREAD), **(changes if number == last else {}))
        for number, cpu in enumerate(cpus)
    ]
    claim, node = a_node_of(RUNNING)
    types = (RUNNING, MIDDLE_AT_HOME, MIDDLE_AWAY, MUCH_AT_HOME, MUCH_AWAY)
    world = a_snapshot(types=types, node_claims=(claim,), nodes=(node,), pods=tuple(pods))
    return Planner(world).what_if([node.name], consolidation=True).plan.claims


def test_a_domain_is_as_cheap_as_its_cheapest_type_with_room_for_the_pod() -> None:
    """Otherwise, a type that is too small for the pod decides where it runs."""
    types = (LITTLE_AT_HOME, MUCH_AT_HOME, MUCH_AWAY)
    assert claim_of(plan_of(types=types, pods=(a_pod("web", cpu="8", **SPREAD),)), "web").zones == (AWAY,)


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
    pods = (pod_on(node.name, "large", cpu="9"), pod_on(node.name, "web", cpu="3", **SPREAD))
    types = (RUNNING, MIDDLE_AT_HOME, MIDDLE_AWAY, MUCH_AT_HOME, MUCH_AWAY)
    filler = pod_on(other.name, "filler", cpu="7")
    world = a_snapshot(types=types, node_claims=(claim, other_claim), nodes=(node, other), pods=(*pods, filler))
    plan = Planner(world).what_if([node.name], consolidation=True).plan
    assert claim_of(plan, "web").zones == (HOME,)


def test_pods_that_need_several_nodes_choose_the_domain_by_price() -> None:
    """Otherwise, they go where a pod can join them that gets a node of its own anyway, for three times the price."""
    found = launched_instead(*["3"] * 6, node_selector=(Requirement.one_of(labels.ZONE, AWAY),))
    assert {claim.zones for claim in found if "default/pod-0" in claim.pods} == {(HOME,)}


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
WEB, CACHE = {"app": "web"}, {"app": "cache"}
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
    web = a_pod("web", cpu="1", labels=WEB, **rules)
    there = (
        structs.replace(web, name=f"w{n}", node_name=f"n{n}", phase="Running", uid=f"w{n}") for n in range(len(pairs))
    )
    context = context_of(
        types=types,
        node_claims=tuple(claim for claim, _ in pairs),
        nodes=tuple(node for _, node in pairs),
        pods=(web, *others, *there),
    )
    queue = queue_of(context, [(context.pending, False)])
    for pending in queue:
        pending.placed = sum(pod.name in placed for pod in pending.pods)
    one_node = (lambda: context.axis.vector({"cpu": int(together) * 1000})) if together else None
    counts = DomainCounts(context.topology)
    choice = DomainChoice(context.topology, counts, queue, one_node, only_compares=only_compares)
    (template,), group = context.templates, context.pod_groups.of(web)
    draft = ClaimDraft(template, template.offered, template.mask, group.requests)
    found = choice.options(draft, group.signature, group.steps[0], labels.ZONE)
    return "".join(value[-1] for value in found if value) + "!" * choice.differs_if_shared


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
        web = a_pod("web", cpu="1", labels=WEB, **rules)
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
