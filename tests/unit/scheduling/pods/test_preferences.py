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
from core.scheduling.pods.preferences import TOLERATE_PREFERENCES, relaxation_steps, required_alternatives
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
