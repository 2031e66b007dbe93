"""What a pod gives up, and in which order."""

from __future__ import annotations

from core import labels
from core.model.pod import NodeSelectorTerm, PreferredTerm, TopologySpread
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
