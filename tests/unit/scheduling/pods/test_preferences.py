"""What a pod gives up, and in which order."""

from __future__ import annotations

from core import labels
from core.model.pod import (
    NodeSelectorTerm,
    PodAffinityTerm,
    PreferredTerm,
    TopologySpread,
    WeightedPodAffinityTerm,
)
from core.model.values.requirements import Requirement
from core.scheduling.pods.preferences import TOLERATE_PREFERENCES, PodDemands, relaxation_steps, required_alternatives
from tests.builders import ZONES, a_pod, a_selector


def test_each_step_drops_one_preference_and_the_last_one_tolerates() -> None:
    """Otherwise, a pod waits for what it only prefers, or loses a preference that it could have had (Karpenter)."""
    light, heavy = (
        PreferredTerm(weight, NodeSelectorTerm((Requirement.one_of(labels.ZONE, zone),)))
        for weight, zone in ((1, ZONES[0]), (9, ZONES[1]))
    )
    soft = TopologySpread(
        topology_key=labels.ZONE, max_skew=1, selector=a_selector(app="web"), when_unsatisfiable="ScheduleAnyway"
    )
    spec = a_pod(preferred_terms=(light, heavy), spreads=(soft,)).spec
    steps = list(relaxation_steps(spec, spec.spreads, respect=True, tolerate_at_last=True))
    assert [(len(step.preferred_terms), len(step.spreads)) for step in steps] == [
        (2, 1),
        (1, 1),
        (0, 1),
        (0, 0),
        (0, 0),
    ]
    assert steps[0].preferred_terms[0] is heavy
    assert [TOLERATE_PREFERENCES in step.tolerations for step in steps] == [False] * 4 + [True]
    (ignored,) = relaxation_steps(spec, spec.spreads, respect=False, tolerate_at_last=False)
    assert (ignored.preferred_terms, ignored.spreads) == ((), ())


def test_alternatives_that_no_node_can_meet_are_dropped() -> None:
    """Otherwise, an empty term, which matches no node, matches every node."""
    assert required_alternatives(a_pod(required_terms=(NodeSelectorTerm(()),)).spec) == ()
    assert required_alternatives(a_pod().spec) == ((),)


def test_of_several_soft_spreads_the_last_takes_the_place_of_the_first() -> None:
    """Karpenter's order, which decides which of them a pod keeps longest."""
    keys = (labels.ZONE, labels.HOSTNAME, labels.CAPACITY_TYPE)
    soft = tuple(
        TopologySpread(
            topology_key=key, max_skew=1, selector=a_selector(app="web"), when_unsatisfiable="ScheduleAnyway"
        )
        for key in keys
    )
    spec = a_pod(spreads=soft).spec
    steps = relaxation_steps(spec, spec.spreads, respect=True, tolerate_at_last=False)
    kept = [tuple(spread.topology_key for spread in step.spreads) for step in steps]
    assert kept == [keys, (keys[2], keys[1]), (keys[1],), ()]


def test_affinity_to_pods_is_given_up_before_anti_affinity() -> None:
    term = PodAffinityTerm(topology_key=labels.ZONE, selector=a_selector(app="web"))
    weighted = (WeightedPodAffinityTerm(1, term),)
    spec = a_pod(preferred_affinity=weighted, preferred_anti_affinity=weighted).spec
    steps = relaxation_steps(spec, (), respect=True, tolerate_at_last=False)
    kept = [(len(step.preferred_affinity), len(step.preferred_anti_affinity)) for step in steps]
    assert kept == [(1, 1), (0, 1), (0, 0)]


A, B = (NodeSelectorTerm((Requirement.one_of(labels.ZONE, zone),)) for zone in ZONES[:2])
WEB = PodAffinityTerm(topology_key=labels.ZONE, selector=a_selector(app="web"))
HARD = TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=a_selector(app="web"))


def steps_of(*, respect: bool = True, tolerate_at_last: bool = False, **spec: object) -> list[PodDemands]:
    own = a_pod(**spec).spec
    return list(relaxation_steps(own, own.spreads, respect=respect, tolerate_at_last=tolerate_at_last))


def test_alternatives_are_given_up_first_and_tried_again_without_preferences() -> None:
    """Karpenter stops after the last alternative: a pod whose first term needs a preference dropped would wait."""
    found = steps_of(required_terms=(A, B), preferred_affinity=(WeightedPodAffinityTerm(1, WEB),))
    assert [(step.terms, len(step.preferred_affinity)) for step in found] == [
        ((A, B), 1),
        ((B,), 1),
        ((B,), 0),
        ((A, B), 0),
    ]


def test_alternatives_alone_are_each_tried_once() -> None:
    assert [step.terms for step in steps_of(required_terms=(A, B))] == [(A, B), (B,)]
    assert [step.terms for step in steps_of(required_terms=(A,))] == [(A,)]


def test_a_toleration_is_given_at_last_and_once() -> None:
    for own, tolerated in (((), [False, True]), ((TOLERATE_PREFERENCES,), [True])):
        found = steps_of(tolerations=own, tolerate_at_last=True)
        assert [TOLERATE_PREFERENCES in step.tolerations for step in found] == tolerated
    assert len(steps_of()) == 1


def test_hard_rules_stay_in_every_step() -> None:
    """They are no preferences, also where preferences are ignored."""
    soft = TopologySpread(labels.HOSTNAME, 1, "ScheduleAnyway", a_selector(app="web"))
    for respect in (True, False):
        for step in steps_of(respect=respect, spreads=(soft, HARD), affinity=(WEB,), anti_affinity=(WEB,)):
            assert HARD in step.spreads
            assert (step.affinity, step.anti_affinity) == ((WEB,), (WEB,))


def test_ignored_preferences_are_in_no_step() -> None:
    weighted = (WeightedPodAffinityTerm(1, WEB),)
    (step,) = steps_of(
        respect=False,
        preferred_affinity=weighted,
        preferred_anti_affinity=weighted,
        preferred_terms=(PreferredTerm(1, A),),
    )
    assert (step.preferred_affinity, step.preferred_anti_affinity, step.preferred_terms) == ((), (), ())


def test_the_heaviest_of_each_kind_is_given_up_first() -> None:
    """Karpenter's order."""
    other = PodAffinityTerm(topology_key=labels.HOSTNAME, selector=a_selector(app="web"))
    light, heavy = WeightedPodAffinityTerm(1, WEB), WeightedPodAffinityTerm(2, other)
    found = steps_of(preferred_affinity=(light, heavy), preferred_anti_affinity=(light, heavy))
    assert [step.preferred_affinity for step in found[:3]] == [(heavy, light), (light,), ()]
    assert [step.preferred_anti_affinity for step in found[2:]] == [(heavy, light), (light,), ()]


def test_the_node_selector_holds_in_every_alternative() -> None:
    own = Requirement.one_of("team", "a")
    spec = a_pod(node_selector=(own,), required_terms=(A, NodeSelectorTerm(()), B)).spec
    assert required_alternatives(spec) == ((own, *A.requirements), (own, *B.requirements))
    assert required_alternatives(a_pod(node_selector=(own,)).spec) == ((own,),)


def test_a_term_about_fields_of_nodes_is_met_by_no_new_one() -> None:
    by_name = NodeSelectorTerm(A.requirements, uses_fields=True)
    assert required_alternatives(a_pod(required_terms=(by_name,)).spec) == ()
    assert required_alternatives(a_pod(required_terms=(by_name, B)).spec) == (B.requirements,)
