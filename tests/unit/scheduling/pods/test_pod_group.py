"""Where a pod's own node affinity lets it run."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from core import labels
from core.model.pod import NodeSelectorTerm, PreferredTerm, TopologySpread
from core.model.values.requirements import Requirement
from core.scheduling.pods.pod_group import PendingGroup, PodSignature, with_all_preferences
from tests.builders import ZONES, a_pod, a_selector, a_type
from tests.unit.scheduling.reading import context_of, group_of


def a_signature(**spec: Any) -> PodSignature:
    return PodSignature(0, "default", {}, a_pod(**spec).spec, ())


def test_alternatives_are_checked_one_by_one() -> None:
    """Otherwise, a spread counts zones that the pod may not use, or misses some that it may."""
    first, second = (NodeSelectorTerm((Requirement.one_of(labels.ZONE, zone),)) for zone in ZONES[:2])
    spec = a_pod(required_terms=(first, second)).spec
    signature = PodSignature(0, "default", {}, spec, ())
    assert [signature.may_run_at(labels.ZONE, zone) for zone in ZONES] == [True, True, False]
    assert (signature.may_run_anywhere(labels.ZONE), signature.may_run_anywhere(labels.ARCH)) == (False, True)


def test_a_pod_runs_anywhere_where_no_alternative_names_the_label() -> None:
    """Otherwise, a spread measures against zones that one of the alternatives excludes."""
    zone, arch = Requirement.one_of(labels.ZONE, ZONES[0]), Requirement.one_of(labels.ARCH, "arm64")
    both = a_signature(required_terms=(NodeSelectorTerm((zone,)), NodeSelectorTerm((arch,))))
    assert [both.may_run_anywhere(key) for key in (labels.ZONE, labels.ARCH, labels.OS)] == [False, False, True]
    assert a_signature().may_run_anywhere(labels.ZONE)


def test_a_pod_whose_affinity_no_node_meets_runs_nowhere() -> None:
    """Affinity to fields of a node names one that exists."""
    nowhere = a_signature(required_terms=(NodeSelectorTerm((), uses_fields=True),))
    assert not nowhere.may_run_anywhere(labels.ZONE)
    assert not nowhere.may_run_at(labels.ZONE, ZONES[0])


def test_every_expression_about_a_label_must_admit_its_value() -> None:
    one = Requirement.one_of(labels.ZONE, *ZONES[:2])
    other = Requirement.of(labels.ZONE, "NotIn", [ZONES[0]])
    signature = a_signature(node_selector=(one,), required_terms=(NodeSelectorTerm((other,)),))
    assert [signature.may_run_at(labels.ZONE, zone) for zone in ZONES] == [False, True, False]


def test_terminating_pods_count_only_where_asked_for() -> None:
    """They hold their place in an anti-affinity until they are gone, and in no other rule."""
    signature = replace(a_signature(), bound={0: 2, 3: 1}, ending={3: 4})
    assert list(signature.counted(with_ending=False)) == [(0, 2), (3, 1)]
    assert list(signature.counted(with_ending=True)) == [(0, 2), (3, 1), (3, 4)]


FIRST, SECOND, THIRD = (NodeSelectorTerm((Requirement.one_of(labels.ZONE, zone),)) for zone in ZONES)
PREFERRED = PreferredTerm(1, NodeSelectorTerm((Requirement.one_of(labels.ARCH, "arm64"),)))


def test_steps_with_all_preferences_give_up_alternatives_alone() -> None:
    """Otherwise, a pod loses a preference where another alternative of its affinity has it."""
    for terms, kept in (((), 0), ((FIRST,), 0), ((FIRST, SECOND), 2), ((FIRST, SECOND, THIRD), 3)):
        pod = a_pod(required_terms=terms, preferred_terms=(PREFERRED,))
        steps = group_of(context_of(types=(a_type(),), pods=(pod,)), "p").steps
        found = with_all_preferences(steps)
        assert found == steps[:kept]
        assert [step.demands.terms for step in found] == [terms[dropped:] for dropped in range(kept)]
        assert all(step.demands.preferred_terms == (PREFERRED,) for step in found)
    assert with_all_preferences(()) == ()


def test_the_keys_of_a_group_are_those_of_what_it_cannot_give_up() -> None:
    """A preferred spread over zones does not keep a moved pod in its zone."""
    hard = TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=a_selector(app="web"))
    soft = TopologySpread("rack", 1, when_unsatisfiable="ScheduleAnyway", selector=a_selector(app="web"))
    pods = (a_pod("hard", spreads=(hard, soft)), a_pod("none"), a_pod("hopeless", resource_claims=("gpu",)))
    context = context_of(types=(a_type(),), pods=pods)
    assert [group_of(context, pod.name).topology_keys for pod in pods] == [(labels.ZONE,), (), ()]


def test_a_pending_group_waits_for_those_without_a_place() -> None:
    """It is placed like any other unless it says otherwise."""
    pods = [a_pod(name) for name in "abc"]
    pending = PendingGroup(group_of(context_of(types=(a_type(),), pods=tuple(pods)), "a"), pods)
    flags = (
        pending.avoids_recently_changed,
        pending.is_displaced,
        pending.avoids_drained_later,
        pending.is_released,
    )
    assert (pending.waiting, flags) == (3, (False, False, False, False))
    pending.placed = 2
    assert pending.waiting == 1
