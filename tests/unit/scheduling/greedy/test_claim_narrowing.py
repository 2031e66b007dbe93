"""A claim's requirements after one more pod."""

from __future__ import annotations

from core import labels
from core.model.pod import TopologySpread
from core.model.values.requirements import Requirement
from core.scheduling.capacity.claim_profile import ClaimProfiles
from core.scheduling.greedy.claim_narrowing import ClaimNarrowing
from core.scheduling.greedy.plan_state import PlanState
from core.scheduling.topology.domain_choice import DomainChoice
from core.scheduling.topology.domain_counts import DomainCounts
from tests.builders import ZONES, a_pod, a_selector, a_type
from tests.unit.scheduling.reading import context_of, group_of


def test_a_rule_about_zones_narrows_to_one_zone_and_follows_the_counts() -> None:
    """Otherwise, a spread is planned with outdated counts."""
    spread = TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=a_selector(app="web"))
    held = (Requirement.one_of(labels.ZONE, ZONES[0]),)
    pods = (a_pod("web", labels={"app": "web"}, spreads=(spread,)), a_pod("held", node_selector=held))
    context = context_of(types=(a_type("m"),), pods=pods)
    counts, profiles = DomainCounts(context.topology), ClaimProfiles()
    state = PlanState(context, counts, context.plan_constraints(()))
    narrowing = ClaimNarrowing(state, DomainChoice(context.topology, counts, ()), profiles)
    (template,), table = context.templates, context.table
    blank = profiles.of(template, template.offered, template.mask)

    def zones(name: str) -> list[str | None]:
        group = group_of(context, name)
        ways = narrowing.of(blank, group.signature, group.steps[0])
        return [table.single(way.reqs, labels.ZONE) for way in ways]

    assert zones("held") == [ZONES[0]]
    assert zones("web") == list(ZONES)
    web = group_of(context, "web").signature
    counts.record_on_claim(
        web, profiles.of(template, table.with_value(blank.reqs, labels.ZONE, ZONES[0]), blank.allowed), 0
    )
    assert zones("web") == list(ZONES[1:])
