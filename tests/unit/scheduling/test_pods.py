"""Pods as the planner sees them: what they demand, what they give up, which are alike, and which no node can help."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from core import labels
from core.model.pod import (
    NodeSelectorTerm,
    PodAffinityTerm,
    PreferredTerm,
    TopologySpread,
    WeightedPodAffinityTerm,
)
from core.model.snapshot import Options
from core.model.values.requirements import Requirement
from core.reasons.code import Stated
from core.reasons.pods import PodReason
from core.scheduling import pods as pod_signatures
from core.scheduling.pods import (
    TOLERATE_PREFERENCES,
    DefaultSpreads,
    KnownQuestions,
    PendingGroup,
    PodDemands,
    PodSignature,
    PodSignatures,
    relaxation_steps,
    required_alternatives,
    why_unsupported,
    with_all_preferences,
)
from core.scheduling.primitives import ResourceAxis
from core.scheduling.volume_binding import NO_VOLUMES, VolumeNeeds
from tests.builders import ZONES, a_pod, a_selector, a_snapshot, a_type
from tests.unit.scheduling.reading import context_of, group_of

# The cluster's default spreads.


DEFAULT = TopologySpread(topology_key=labels.ZONE, max_skew=5, selector=None)


def test_own_spreads_win_and_unselected_pods_get_none() -> None:
    """Otherwise, the plan spreads pods that kube-scheduler does not."""
    own_spread = TopologySpread(topology_key=labels.HOSTNAME, max_skew=1, selector=a_selector(app="web"))
    spreads = DefaultSpreads(a_snapshot(options=Options(default_spreads=(DEFAULT,))))
    assert spreads.of(a_pod(spreads=(own_spread,))) == (own_spread,)
    assert spreads.of(a_pod()) == ()


@pytest.mark.parametrize(("rule", "reads"), [("ScheduleAnyway", 0), ("DoNotSchedule", 1)])
def test_services_are_read_for_required_constraints_only_if_a_default_is_one(
    rule: str, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, each pod that moves is compared with every Service of the cluster."""
    default = msgspec.structs.replace(DEFAULT, when_unsatisfiable=rule)
    own = tuple(TopologySpread(labels.HOSTNAME, 1, way, a_selector()) for way in ("DoNotSchedule", "ScheduleAnyway"))
    spreads = DefaultSpreads(a_snapshot(options=Options(default_spreads=(default,))))
    selected: list[str] = []
    monkeypatch.setattr(DefaultSpreads, "_selector", lambda _, pod: selected.append(pod.name) or a_selector(app="web"))
    required = (msgspec.structs.replace(default, selector=a_selector(app="web")),) * reads
    assert spreads.required_of(a_pod()) == required
    assert len(selected) == reads
    assert spreads.required_of(a_pod(spreads=own)) == own[:1]


# Where a pod's own node affinity lets it run.


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
    first_zones = Requirement.one_of(labels.ZONE, *ZONES[:2])
    other = Requirement.of(labels.ZONE, "NotIn", [ZONES[0]])
    signature = a_signature(node_selector=(first_zones,), required_terms=(NodeSelectorTerm((other,)),))
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
        preferred_steps = with_all_preferences(steps)
        assert preferred_steps == steps[:kept]
        assert [step.demands.terms for step in preferred_steps] == [terms[dropped:] for dropped in range(kept)]
        assert all(step.demands.preferred_terms == (PREFERRED,) for step in preferred_steps)
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


# What makes pods equal for scheduling.


APART = PodAffinityTerm(labels.ZONE, a_selector(app="web"))


def test_labels_that_no_rule_reads_do_not_distinguish_pods() -> None:
    """Otherwise, every pod of a workload is planned alone."""
    pods = (
        a_pod("a", cpu="1", labels={"app": "web", "pod-template-hash": "1"}, anti_affinity=(APART,)),
        a_pod("b", cpu="2", labels={"app": "web", "pod-template-hash": "2"}, anti_affinity=(APART,)),
        a_pod("c", cpu="1", labels={"app": "db", "pod-template-hash": "1"}, anti_affinity=(APART,)),
    )
    signatures = PodSignatures(a_snapshot(pods=pods), pods, ResourceAxis(["cpu"]))
    sized = [signatures.of(pod) for pod in pods]
    a, b, c = (sized_pod.signature for sized_pod in sized)
    assert a is b
    assert a is not c
    assert [sized_pod.requests for sized_pod in sized] == [(1000,), (2000,), (1000,)]
    assert (a.labels, signatures.all) == ({"app": "web"}, [a, c])


def test_fields_that_a_constraint_reads_distinguish_pods() -> None:
    """Otherwise, pods with and without the constraint are one group."""
    pods = (a_pod("a", annotations={"cap": "1"}), a_pod("b"))
    plain = PodSignatures(a_snapshot(pods=pods), pods, ResourceAxis(["cpu"]))
    told = PodSignatures(
        a_snapshot(pods=pods), pods, ResourceAxis(["cpu"]), lambda pod: ((int, pod.annotations.get("cap")),)
    )
    assert len({id(plain.of(pod).signature) for pod in pods}) == 1
    assert [told.of(pod).signature.facts for pod in pods] == [{int: "1"}, {int: None}]


@pytest.mark.parametrize("kept", [0, 100])
def test_with_known_questions_the_signatures_are_those_of_each_snapshot_alone(
    kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A simulation keeps the questions of unchanged pods: no change of a pod or of the labels that rules read is missed."""
    monkeypatch.setattr(pod_signatures, "QUESTIONS_KEPT", kept)
    web = tuple(a_pod(name, labels={"app": "web", "tier": name}) for name in "abc")
    db = a_pod("d", labels={"app": "db", "tier": "a"})
    relabelled = msgspec.structs.replace(web[0], labels={"app": "db"})
    apart = a_pod("e", labels={"app": "web"}, anti_affinity=(APART,))
    by_tier = a_pod("f", anti_affinity=(PodAffinityTerm(labels.ZONE, a_selector(tier="a")),))
    elsewhere = msgspec.structs.replace(db, namespace="shop")
    known = KnownQuestions()
    for pods in ((*web, db), (*web[1:], db, relabelled), (*web, apart, db), (*web, apart, by_tier), (elsewhere, *web)):
        snapshot, axis = a_snapshot(pods=pods), ResourceAxis(["cpu"])
        alone, with_known = PodSignatures(snapshot, pods, axis), PodSignatures(snapshot, pods, axis, known=known)
        for pod in pods:
            assert msgspec.structs.astuple(with_known.of(pod).signature) == msgspec.structs.astuple(
                alone.of(pod).signature
            )
            assert with_known.of(pod).requests == alone.of(pod).requests
        assert len(with_known.all) == len(alone.all)


# What a pod gives up, and in which order.


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
    steps = steps_of(required_terms=(A, B), preferred_affinity=(WeightedPodAffinityTerm(1, WEB),))
    assert [(step.terms, len(step.preferred_affinity)) for step in steps] == [
        ((A, B), 1),
        ((B,), 1),
        ((B,), 0),
        ((A, B), 0),
    ]


def test_alternatives_alone_are_each_tried_once() -> None:
    assert [step.terms for step in steps_of(required_terms=(A, B))] == [(A, B), (B,)]
    assert [step.terms for step in steps_of(required_terms=(A,))] == [(A,)]


def test_a_toleration_is_given_at_last_and_once() -> None:
    for tolerations, tolerated in (((), [False, True]), ((TOLERATE_PREFERENCES,), [True])):
        steps = steps_of(tolerations=tolerations, tolerate_at_last=True)
        assert [TOLERATE_PREFERENCES in step.tolerations for step in steps] == tolerated
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
    steps = steps_of(preferred_affinity=(light, heavy), preferred_anti_affinity=(light, heavy))
    assert [step.preferred_affinity for step in steps[:3]] == [(heavy, light), (light,), ()]
    assert [step.preferred_anti_affinity for step in steps[2:]] == [(heavy, light), (light,), ()]


def test_the_node_selector_holds_in_every_alternative() -> None:
    own_requirement = Requirement.one_of("team", "a")
    spec = a_pod(node_selector=(own_requirement,), required_terms=(A, NodeSelectorTerm(()), B)).spec
    assert required_alternatives(spec) == ((own_requirement, *A.requirements), (own_requirement, *B.requirements))
    assert required_alternatives(a_pod(node_selector=(own_requirement,)).spec) == ((own_requirement,),)


def test_a_term_about_fields_of_nodes_is_met_by_no_new_one() -> None:
    by_name = NodeSelectorTerm(A.requirements, uses_fields=True)
    assert required_alternatives(a_pod(required_terms=(by_name,)).spec) == ()
    assert required_alternatives(a_pod(required_terms=(by_name, B)).spec) == (B.requirements,)


# Pods that no new node could help.


OPTED_OUT = NodeSelectorTerm((Requirement.of(labels.NODEPOOL, "DoesNotExist"),))
BY_NAME = NodeSelectorTerm((Requirement.one_of(labels.NODE_NAME, "node-1"),))


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({}, None),
        ({"problem": "no"}, PodReason.INVALID_POD),
        ({"resource_claims": ("gpu",)}, PodReason.UNSUPPORTED_RESOURCE_CLAIM),
        ({"required_terms": (NodeSelectorTerm(()),)}, PodReason.UNSUPPORTED_AFFINITY),
        ({"node_selector": (Requirement.of(labels.NODEPOOL, "DoesNotExist"),)}, PodReason.OPTED_OUT),
        ({"node_selector": (Requirement.one_of("karpenter.sh/unknown", "a"),)}, PodReason.RESTRICTED_LABEL),
        ({"node_selector": (Requirement.one_of(labels.HOSTNAME, "node-1"),)}, PodReason.RESTRICTED_LABEL),
        ({"required_terms": (NodeSelectorTerm((Requirement.of(labels.HOSTNAME, "NotIn", ["node-1"]),)),)}, None),
        ({"required_terms": (OPTED_OUT, A)}, None),
        ({"required_terms": (A, BY_NAME)}, None),
        ({"required_terms": (BY_NAME, OPTED_OUT)}, PodReason.UNSUPPORTED_AFFINITY),
    ],
)
def test_each_has_its_reason(spec: dict[str, Any], code: PodReason | None) -> None:
    """Otherwise, a node is launched for a pod that cannot use it."""
    refusal = why_unsupported(a_pod(**spec).spec, NO_VOLUMES, labels.WELL_KNOWN)
    assert (None if refusal is None else refusal.reason) is code


def test_faults_of_volumes_are_reported() -> None:
    """Otherwise, a pod waits for its volume without a reason."""
    refusal = Stated(PodReason.VOLUME_MISSING, "gone")
    assert why_unsupported(a_pod().spec, VolumeNeeds(refusal=refusal), labels.WELL_KNOWN) == refusal
