"""Groups of equal pods, and what each requests."""

from __future__ import annotations

from core import labels
from core.model.pod import PodAffinityTerm, TopologySpread
from core.model.values.requirements import Requirement
from core.reasons.pod import PodReason
from core.scheduling.pod_grouping import PodGroups
from core.scheduling.primitives.requirement_table import IMPOSSIBLE
from tests.builders import ZONES, a_pod, a_selector, a_type
from tests.unit.scheduling.reading import context_of, group_of


def test_equal_pods_are_one_group_and_sizes_share_their_steps() -> None:
    """Otherwise, each size of a pod is searched separately."""
    context = context_of(types=(a_type(),), pods=(a_pod("a"), a_pod("b"), a_pod("large", cpu="2")))
    assert isinstance(context.pod_groups, PodGroups)
    a, b, large = (group_of(context, name) for name in ("a", "b", "large"))
    assert a is b
    assert a is not large
    assert a.steps is large.steps


def test_a_step_has_the_numbers_of_its_requirements() -> None:
    """Otherwise, searches use other requirements than the pod's."""
    spread = TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=a_selector(app="web"))
    near = PodAffinityTerm(labels.HOSTNAME, a_selector(app="web"))
    zone = (Requirement.one_of(labels.ZONE, ZONES[0]),)
    pods = (
        a_pod("held", node_selector=zone),
        a_pod("spread", labels={"app": "web"}, spreads=(spread,)),
        a_pod("near", labels={"app": "web"}, affinity=(near,)),
        a_pod("hopeless", resource_claims=("gpu",)),
    )
    context = context_of(types=(a_type(),), pods=pods)
    held, spread_, near_, hopeless = (group_of(context, pod.name) for pod in pods)
    (alternative,) = held.steps[0].alternatives
    assert alternative != IMPOSSIBLE
    assert context.table.single(alternative, labels.ZONE) == ZONES[0]
    assert [group.steps[0].is_monotone for group in (held, spread_, near_)] == [True, False, False]
    assert (spread_.steps[0].keys, len(spread_.steps[0].zone_rules)) == ((labels.ZONE,), 1)
    assert (len(near_.steps[0].host_rules), near_.steps[0].keys) == (1, (labels.ZONE,))
    assert (hopeless.steps, hopeless.reason) == ((), PodReason.UNSUPPORTED_RESOURCE_CLAIM)
