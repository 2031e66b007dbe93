"""Whether a group counts a node that does not exist yet."""

from __future__ import annotations

from core import labels
from core.model.pod import NodeSelectorTerm
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint
from core.scheduling.primitives.handles import TopologyGroupId
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
