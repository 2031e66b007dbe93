"""Whether a group counts a node that does not exist yet."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from msgspec import structs

from core import labels
from core.model.catalogue import Offering
from core.model.pod import NodeSelectorTerm
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint
from core.scheduling.primitives.handles import TopologyGroupId
from core.scheduling.primitives.requirement_table import IMPOSSIBLE
from core.scheduling.topology.new_node_membership import NewNodeMembership
from core.scheduling.topology.topology_group import SPREAD, TopologyGroup, TopologyNodeFilter
from tests.builders import ZONES, a_pool, a_selector, a_type
from tests.unit.scheduling.reading import context_of

FIRST = (Requirement.one_of(labels.ZONE, ZONES[0]),)
FILTERS = (TopologyNodeFilter(), TopologyNodeFilter(selector=FIRST), TopologyNodeFilter(tolerations=()))
GROUPS = [TopologyGroup(SPREAD, labels.ZONE, None, a_selector(app="web"), 1, 0, one) for one in FILTERS]


def test_an_open_zone_may_count() -> None:
    """Otherwise, a pod on a new node is counted for a rule that later ignores the node."""
    context = context_of(types=(a_type(),))
    (template,) = context.templates
    new_nodes = NewNodeMembership(GROUPS, context.templates, context.table)
    within, outside = (context.table.with_value(template.offered, labels.ZONE, zone) for zone in ZONES[:2])

    def about(group: int, reqs: object) -> tuple[bool, bool]:
        number = TopologyGroupId(group)
        return new_nodes.counts(number, reqs, template), new_nodes.is_uncertain(number, reqs, template)

    assert about(0, template.offered) == (True, False)
    assert [about(1, reqs) for reqs in (template.offered, within)] == [(True, True), (True, False)]
    assert about(1, outside)[0] is False


def test_a_pool_with_taints_that_the_owner_does_not_tolerate_is_ignored() -> None:
    """Otherwise, its zones count for pods that never go there (nodeTaintsPolicy Honor)."""
    tainted = a_pool(taints=(Taint("team", NO_SCHEDULE, "a"),))
    context = context_of(types=(a_type(),), node_pools=(tainted,))
    new_nodes = NewNodeMembership(GROUPS, context.templates, context.table)
    (template,) = context.templates
    assert [new_nodes.counts(TopologyGroupId(n), template.offered, template) for n in (0, 2)] == [True, False]


def test_alternatives_of_the_owner_decide_like_its_selector() -> None:
    """Otherwise, a node that may come up in another zone counts for a rule that ignores it there."""
    context = context_of(types=(a_type(),))
    (template,) = context.templates
    in_terms = TopologyNodeFilter(terms=(NodeSelectorTerm(FIRST),))
    groups = [TopologyGroup(SPREAD, labels.ZONE, None, a_selector(app="web"), 1, 0, in_terms)]
    new_nodes = NewNodeMembership(groups, context.templates, context.table)
    within = context.table.with_value(template.offered, labels.ZONE, ZONES[0])
    number = TopologyGroupId(0)
    assert [new_nodes.is_uncertain(number, reqs, template) for reqs in (template.offered, within)] == [True, False]


TEAM = "example.com/team"
FAMILY = "example.com/family"
TEAMS = ("red", "blue", "green", "0", "7")
"""Stand for every value: those that the requirements below name, and others."""

TYPES = (
    a_type("a.1", zones=ZONES[:1], **{FAMILY: "a"}),
    a_type("a.2", zones=ZONES[:2], **{FAMILY: "a"}),
    a_type("b.1", zones=ZONES[1:2], **{FAMILY: "b"}),
    structs.replace(
        a_type("c.1", zones=ZONES[2:]),
        offerings=(
            Offering("c.1", ZONES[2], labels.ON_DEMAND, 10),
            Offering("c.1", ZONES[2], labels.RESERVED, 0, reservation_id="cr-1", reservation_capacity=1),
        ),
    ),
)
POOLS = (
    (),
    (Requirement.one_of(TEAM, "red"),),
    (Requirement.one_of(TEAM, "red", "blue"), Requirement.one_of(FAMILY, "a")),
    (Requirement.of(TEAM, "Exists"), Requirement.one_of(labels.ZONE, *ZONES[1:])),
    (Requirement.of(TEAM, "Exists"), Requirement.of(TEAM, "NotIn", ["green"])),
    (Requirement.of(TEAM, "DoesNotExist"),),
    (Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT),),
    (Requirement.one_of(labels.CAPACITY_TYPE, labels.RESERVED),),
)
NARROWED = (
    (),
    (Requirement.one_of(labels.ZONE, ZONES[1]),),
    (Requirement.of(FAMILY, "Exists"),),
    (Requirement.of(FAMILY, "DoesNotExist"),),
    (Requirement.of(FAMILY, "NotIn", ["a"]),),
    (Requirement.of(FAMILY, "NotIn", ["a", "b"]),),
    (Requirement.of(TEAM, "NotIn", ["blue"]),),
)
EXPRESSIONS = (
    Requirement.one_of(labels.ZONE, ZONES[0]),
    Requirement.one_of(labels.ZONE, *ZONES[:2]),
    Requirement.of(labels.ZONE, "NotIn", [ZONES[2]]),
    Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT),
    Requirement.one_of(labels.INSTANCE_TYPE, "a.1", "a.2"),
    Requirement.one_of(FAMILY, "a"),
    Requirement.of(FAMILY, "NotIn", ["a"]),
    Requirement.of(FAMILY, "Exists"),
    Requirement.of(FAMILY, "DoesNotExist"),
    Requirement.of(labels.RESERVATION_ID, "Exists"),
    Requirement.one_of(TEAM, "red"),
    Requirement.of(TEAM, "NotIn", ["green"]),
    Requirement.of(TEAM, "Exists"),
    Requirement.of(TEAM, "DoesNotExist"),
)
WAYS = (*((one,) for one in EXPRESSIONS), *combinations(EXPRESSIONS, 2))
"""What an owner may require of its node."""


def _nodes(pool: tuple[Requirement, ...], narrowed: tuple[Requirement, ...]) -> list[dict[str, str]]:
    """The labels of every node that a NodePool may launch under further requirements, one by one."""
    has_team = any(one.key == TEAM and one.operator != "DoesNotExist" for one in pool)
    found = []
    for one, team in product(TYPES, TEAMS if has_team else ("",)):
        for offering in one.offerings:
            node = {key: values[0] for key, values in one.labels.items()} | {labels.INSTANCE_TYPE: one.name}
            node |= {labels.ZONE: offering.zone, labels.CAPACITY_TYPE: offering.capacity_type}
            node |= offering.reservation_labels() | ({TEAM: team} if team else {})
            if _meets(node, pool) and _meets(node, narrowed):
                found.append(node)
    return found


def _meets(node: dict[str, str], asked: tuple[Requirement, ...]) -> bool:
    return all(one.has(node[one.key]) if one.key in node else one.tolerates_absence for one in asked)


@pytest.mark.parametrize("pool", POOLS)
def test_a_node_counts_where_one_that_may_come_up_does(pool: tuple[Requirement, ...]) -> None:
    """It is uncertain if another that may come up does not; both by launching every node that the NodePool may have."""
    context = context_of(types=TYPES, node_pools=(a_pool("default", *pool),))
    (template,), table = context.templates, context.table
    groups = [
        TopologyGroup(SPREAD, labels.ZONE, None, a_selector(app="web"), 1, 0, TopologyNodeFilter(selector=way))
        for way in WAYS
    ]
    new_nodes = NewNodeMembership(groups, context.templates, table)
    for narrowed in NARROWED:
        reqs = table.narrowed(template.offered, asked=table.conjunction(narrowed))
        nodes = _nodes(pool, narrowed)
        assert (reqs != IMPOSSIBLE and template.types.mask(reqs) > 0) is bool(nodes)
        for number, way in enumerate(WAYS if nodes else ()):
            group, admitted = TopologyGroupId(number), [_meets(node, way) for node in nodes]
            assert new_nodes.counts(group, reqs, template) is any(admitted), (narrowed, way)
            assert new_nodes.is_uncertain(group, reqs, template) is not all(admitted), (narrowed, way)


def test_one_alternative_that_every_node_meets_makes_it_certain() -> None:
    """And one that some node meets is enough for the group to count it."""
    context = context_of(types=TYPES)
    (template,) = context.templates
    third, anywhere, nowhere = (
        NodeSelectorTerm((Requirement.one_of(labels.ZONE, *zones),)) for zones in (ZONES[2:], ZONES, ("zone-x",))
    )
    contradicted = NodeSelectorTerm((*third.requirements, *FIRST))
    cases = (
        ((third, anywhere), True, False),
        ((anywhere, third), True, False),
        ((nowhere, third), True, True),
        ((nowhere, nowhere), False, True),
        ((contradicted, nowhere), False, True),
        ((contradicted, third), True, True),
    )
    groups = [
        TopologyGroup(SPREAD, labels.ZONE, None, a_selector(app="web"), 1, 0, TopologyNodeFilter(terms=terms))
        for terms, *_ in cases
    ]
    new_nodes = NewNodeMembership(groups, context.templates, context.table)
    for number, (terms, may, may_not) in enumerate(cases):
        about = TopologyGroupId(number), template.offered, template
        assert (new_nodes.counts(*about), new_nodes.is_uncertain(*about)) == (may, may_not), terms
