"""A claim's requirements after one more pod."""

from __future__ import annotations

from core import labels
from core.model.pod import NodeSelectorTerm, PodAffinityTerm, TopologySpread, VolumeUse
from core.model.storage import EBS_DRIVER, WAIT_FOR_FIRST_CONSUMER, StorageClass
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint
from core.scheduling.capacity.claim_draft import ClaimDraft
from core.scheduling.capacity.claim_profile import ClaimProfile, ClaimProfiles
from core.scheduling.greedy.claim_narrowing import ClaimNarrowing
from core.scheduling.greedy.plan_state import PlanState
from core.scheduling.pods.pod_group import PodSignature, RelaxationStep
from core.scheduling.primitives.handles import RequirementId
from core.scheduling.primitives.requirement_table import IMPOSSIBLE
from core.scheduling.topology.domain_choice import DomainChoice
from core.scheduling.topology.domain_counts import DomainCounts
from tests.builders import ZONES, a_pod, a_pool, a_selector, a_type
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


WEB = a_selector(app="web")
OVER_ZONES, OVER_TYPES, OVER_RACKS = (
    TopologySpread(topology_key=key, max_skew=1, selector=WEB) for key in (labels.ZONE, labels.CAPACITY_TYPE, "rack")
)
STORAGE = StorageClass(
    name="two-zones",
    provisioner=EBS_DRIVER,
    binding_mode=WAIT_FOR_FIRST_CONSUMER,
    allowed_topologies=tuple(NodeSelectorTerm((Requirement.one_of(labels.ZONE, zone),)) for zone in ZONES[1:]),
)
RULES = {
    "plain": {},
    "held": {"node_selector": (Requirement.one_of(labels.ZONE, ZONES[0]),)},
    "nowhere": {"node_selector": (Requirement.one_of(labels.ZONE, "zone-x"),)},
    "counted": {"labels": {"app": "web"}},
    "spread": {"labels": {"app": "web"}, "spreads": (OVER_ZONES,)},
    "twice": {"labels": {"app": "web"}, "spreads": (OVER_ZONES, OVER_TYPES)},
    "near": {"affinity": (PodAffinityTerm(labels.ZONE, WEB),)},
    "far": {"anti_affinity": (PodAffinityTerm(labels.ZONE, WEB),)},
    "racks": {"spreads": (OVER_RACKS,)},
    "apart": {"anti_affinity": (PodAffinityTerm("rack", WEB),)},
    "ways": {"volumes": (VolumeUse("", ephemeral="scratch", storage_class="two-zones"),)},
    "spread ways": {
        "labels": {"app": "web"},
        "spreads": (OVER_ZONES,),
        "volumes": (VolumeUse("", ephemeral="scratch", storage_class="two-zones"),),
    },
}
TYPES = (a_type("a", zones=ZONES[:2]), a_type("b", zones=ZONES[1:], capacity_types=(labels.ON_DEMAND,)))


def test_a_narrowed_claim_is_that_of_choosing_again_whatever_was_asked_before() -> None:
    """Results are kept as long as nothing can change them; counts change with every pod that is placed."""
    pools = (a_pool("open"), a_pool("tainted", taints=(Taint("team", NO_SCHEDULE, "a"),)))
    pods = tuple(a_pod(name, **rules) for name, rules in RULES.items())
    context = context_of(types=TYPES, node_pools=pools, pods=pods, storage_classes=(STORAGE,))
    counts, profiles, table = DomainCounts(context.topology), ClaimProfiles(), context.table
    state = PlanState(context, counts, context.plan_constraints(()))
    choice = DomainChoice(context.topology, counts, ())
    narrowing = ClaimNarrowing(state, choice, profiles)

    def chosen_again(
        profile: ClaimProfile, signature: PodSignature, step: RelaxationStep
    ) -> list[tuple[RequirementId, int]]:
        found, template = [], profile.template
        for alternative in step.alternatives if context.open_templates(step)[template.index] else ():
            reqs = table.narrowed(profile.reqs, asked=alternative)
            if reqs != IMPOSSIBLE and template.types.mask(reqs) & profile.allowed:
                draft = ClaimDraft(template, reqs, profile.allowed, context.axis.zero)
                found += [one.reqs for one in choice.choices(draft, signature, step, step.keys)]
        return [(reqs, profile.allowed) for reqs in found]

    asked = [
        profiles.of(template, reqs, allowed)
        for template in context.templates
        for reqs in (
            template.offered,
            table.with_value(template.offered, labels.ZONE, ZONES[1]),
            table.with_value(template.offered, labels.CAPACITY_TYPE, labels.SPOT),
        )
        for allowed in (template.mask, 0b01, 0b10)
        if template.types.mask(reqs) & allowed
    ]
    web = group_of(context, "spread").signature
    placed = [table.with_value(asked[0].reqs, labels.ZONE, zone) for zone in (ZONES[1], ZONES[0], ZONES[0], ZONES[2])]
    seen = set()
    for reqs in (None, *placed):
        if reqs is not None:
            counts.record_on_claim(web, profiles.of(asked[0].template, reqs, asked[0].allowed), 0)
        for group in (group_of(context, name) for name in RULES):
            for profile in asked * 2:
                (step, *_) = group.steps
                ways = narrowing.of(profile, group.signature, step)
                found = [(way.reqs, way.allowed) for way in ways]
                assert found == chosen_again(profile, group.signature, step)
                assert all(way.mask and way.template is profile.template for way in ways)
                seen.add(len(found))
    assert seen >= {0, 1, 2, 3}
