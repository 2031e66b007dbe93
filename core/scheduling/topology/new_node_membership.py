"""Determines whether topology groups count a new node, whose type and labels may still be open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from core.model.values.requirements import Requirement
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.primitives.handles import RequirementId, TopologyGroupId
from core.scheduling.primitives.memo import memo
from core.scheduling.primitives.requirement_table import IMPOSSIBLE, RequirementTable
from core.scheduling.topology.topology_group import ANY_NODE, TopologyGroup


class NewNodeMembership:
    """Applies the groups' node filters to claims; the same for all plans of a snapshot."""

    def __init__(
        self, groups: Sequence[TopologyGroup], templates: Sequence[NodeClaimTemplate], table: RequirementTable
    ) -> None:
        self._groups = groups
        self._may_count: Callable[[TopologyGroupId, RequirementId, int], bool] = memo(
            partial(_may_count, groups, templates, table)
        )
        self._may_not_count: Callable[[TopologyGroupId, RequirementId, int], bool] = memo(
            partial(_may_not_count, groups, templates)
        )

    def counts(self, group: TopologyGroupId, reqs: RequirementId, template: NodeClaimTemplate) -> bool:
        """Whether a new node with these requirements might count for a group."""
        # Most groups count any node, and each is asked for each set of requirements: a tenth of the time of a plan.
        return self._groups[group].node_filter == ANY_NODE or self._may_count(group, reqs, template.index)

    def is_uncertain(self, group: TopologyGroupId, reqs: RequirementId, template: NodeClaimTemplate) -> bool:
        """Whether a new node with these requirements might still not count for the group."""
        # As above: another tenth.
        node_filter = self._groups[group].node_filter
        is_open = not node_filter.selector and not node_filter.terms
        return not is_open and self._may_not_count(group, reqs, template.index)


def _may_count(
    groups: Sequence[TopologyGroup],
    templates: Sequence[NodeClaimTemplate],
    table: RequirementTable,
    group: TopologyGroupId,
    reqs: RequirementId,
    index: int,
) -> bool:
    template, node_filter = templates[index], groups[group].node_filter
    return node_filter.admits(table[reqs], template.taints, table.well_known) and any(
        _can_be(template, reqs, table.conjunction(way)) for way in node_filter.alternatives()
    )


def _can_be(template: NodeClaimTemplate, reqs: RequirementId, alternative: RequirementId) -> bool:
    """Whether any type of a new node can meet the alternative."""
    if alternative == IMPOSSIBLE:
        return False
    narrowed = template.types.table.narrowed(reqs, asked=alternative)
    return narrowed != IMPOSSIBLE and template.types.mask(narrowed) > 0


def _may_not_count(
    groups: Sequence[TopologyGroup],
    templates: Sequence[NodeClaimTemplate],
    group: TopologyGroupId,
    reqs: RequirementId,
    index: int,
) -> bool:
    template, node_filter = templates[index], groups[group].node_filter
    return not any(all(_is_sure(template, reqs, asked) for asked in way) for way in node_filter.alternatives())


def _is_sure(template: NodeClaimTemplate, reqs: RequirementId, asked: Requirement) -> bool:
    """Whether every possible node of a claim meets the expression."""
    types, table = template.types, template.types.table
    required = table[reqs].get(asked.key)
    if required is not None and required.operator == "In" and required.intersection(asked) == required:
        return True
    if required is not None and not required.is_finite and asked.key not in table.well_known:
        return required.intersection(asked) == required
    without = table.narrowed(reqs, asked=table.conjunction((Requirement.of(asked.key, "DoesNotExist"),)))
    may_lack = without != IMPOSSIBLE and types.mask(without) > 0
    values = types.values(types.mask(reqs), reqs, asked.key)
    return all(asked.has(value) for value in values) and (asked.tolerates_absence or not may_lack)
