"""A claim while it is tried."""

from __future__ import annotations

from core import labels
from core.scheduling.capacity.claim_draft import ClaimDraft
from core.scheduling.primitives.handles import NO_TYPES
from core.scheduling.primitives.requirement_table import IMPOSSIBLE
from tests.builders import ZONES, a_pod, a_type
from tests.unit.scheduling.reading import context_of, group_of


def test_a_draft_is_possible_while_a_type_with_enough_room_is_left() -> None:
    """Otherwise, a node is opened that holds no pod."""
    context = context_of(types=(a_type("a", cpu="4", zones=ZONES[:1]),), pods=(a_pod("p", cpu="3"),))
    (template,), requests = context.templates, group_of(context, "p").requests
    draft = ClaimDraft(template, template.offered, template.mask, requests)
    assert draft.is_possible
    assert not draft.restricted_to(NO_TYPES).is_possible
    assert not draft.narrowed(IMPOSSIBLE).is_possible
    assert draft.narrowed(IMPOSSIBLE).price > draft.price
    elsewhere = context.table.with_value(draft.reqs, labels.ZONE, ZONES[1])
    assert not draft.narrowed(elsewhere).is_possible
    assert draft.with_min_values({labels.INSTANCE_TYPE: 2}).missing_values() == {labels.INSTANCE_TYPE: 1}
    assert draft.with_min_values({labels.INSTANCE_TYPE: 2}).without_min_values().missing_values() == {}
