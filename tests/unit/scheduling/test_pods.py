"""Where volumes let a pod run, and which of their faults no node can help."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from core import labels
from core.model.pod import (
    IMMEDIATE,
    WAIT_FOR_FIRST_CONSUMER,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    PodAffinityTerm,
    PreferredTerm,
    StorageClass,
    TopologySpread,
    VolumeRequest,
    VolumeUse,
    WeightedPodAffinityTerm,
)
from core.model.snapshot import Options
from core.model.values.requirements import Requirement, Requirements
from core.reasons.pods import PodReason
from core.scheduling import pods as pod_signatures
from core.scheduling.pods import (
    NO_VOLUMES,
    TOLERATE_PREFERENCES,
    DefaultSpreads,
    KnownQuestions,
    PendingGroup,
    PodDemands,
    PodSignature,
    PodSignatures,
    VolumeIndex,
    VolumeNeeds,
    relaxation_steps,
    required_alternatives,
    why_unsupported,
    with_all_preferences,
)
from core.scheduling.primitives import ResourceAxis
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_selector, a_snapshot, a_type
from tests.unit.scheduling.reading import claim_of, context_of, group_of, places, plan_of, reasons_of, zones

# The cluster's default spreads.


DEFAULT = TopologySpread(topology_key=labels.ZONE, max_skew=5, selector=None)


def test_own_spreads_win_and_unselected_pods_get_none() -> None:
    """Otherwise, the plan spreads pods that kube-scheduler does not."""
    own = TopologySpread(topology_key=labels.HOSTNAME, max_skew=1, selector=a_selector(app="web"))
    spreads = DefaultSpreads(a_snapshot(options=Options(default_spreads=(DEFAULT,))))
    assert spreads.of(a_pod(spreads=(own,))) == (own,)
    assert spreads.of(a_pod()) == ()


@pytest.mark.parametrize(("rule", "reads"), [("ScheduleAnyway", 0), ("DoNotSchedule", 1)])
def test_services_are_read_for_required_constraints_only_if_a_default_is_one(
    rule: str, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, each pod that moves is compared with every Service of the cluster."""
    default = msgspec.structs.replace(DEFAULT, when_unsatisfiable=rule)
    own = tuple(TopologySpread(labels.HOSTNAME, 1, way, a_selector()) for way in ("DoNotSchedule", "ScheduleAnyway"))
    spreads = DefaultSpreads(a_snapshot(options=Options(default_spreads=(default,))))
    asked: list[str] = []
    monkeypatch.setattr(DefaultSpreads, "_selector", lambda _, pod: asked.append(pod.name) or a_selector(app="web"))
    required = (msgspec.structs.replace(default, selector=a_selector(app="web")),) * reads
    assert spreads.required_of(a_pod()) == required
    assert len(asked) == reads
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
    a, b, c = (one.signature for one in sized)
    assert a is b
    assert a is not c
    assert [one.requests for one in sized] == [(1000,), (2000,), (1000,)]
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
        alone, found = PodSignatures(snapshot, pods, axis), PodSignatures(snapshot, pods, axis, known=known)
        for pod in pods:
            assert msgspec.structs.astuple(found.of(pod).signature) == msgspec.structs.astuple(alone.of(pod).signature)
            assert found.of(pod).requests == alone.of(pod).requests
        assert len(found.all) == len(alone.all)


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


# Pods that no new node could help.


OPTED_OUT = NodeSelectorTerm((Requirement.of(labels.NODEPOOL, "DoesNotExist"),))
BY_NAME = NodeSelectorTerm((Requirement.one_of(labels.NODE_NAME, "node-1"),))


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({}, ""),
        ({"problem": "no"}, PodReason.INVALID_POD),
        ({"resource_claims": ("gpu",)}, PodReason.UNSUPPORTED_RESOURCE_CLAIM),
        ({"required_terms": (NodeSelectorTerm(()),)}, PodReason.UNSUPPORTED_AFFINITY),
        ({"node_selector": (Requirement.of(labels.NODEPOOL, "DoesNotExist"),)}, PodReason.OPTED_OUT),
        ({"node_selector": (Requirement.one_of("karpenter.sh/unknown", "a"),)}, PodReason.RESTRICTED_LABEL),
        ({"required_terms": (OPTED_OUT, A)}, ""),
        ({"required_terms": (A, BY_NAME)}, ""),
        ({"required_terms": (BY_NAME, OPTED_OUT)}, PodReason.UNSUPPORTED_AFFINITY),
    ],
)
def test_each_has_its_reason(spec: dict[str, Any], code: str) -> None:
    """Otherwise, a node is launched for a pod that cannot use it."""
    assert why_unsupported(a_pod(**spec).spec, NO_VOLUMES, labels.WELL_KNOWN)[0] == code


def test_faults_of_volumes_are_reported() -> None:
    """Otherwise, a pod waits for its volume without a reason."""
    needs = VolumeNeeds(reason=PodReason.VOLUME_MISSING, message="gone")
    assert why_unsupported(a_pod().spec, needs, labels.WELL_KNOWN) == (PodReason.VOLUME_MISSING, "gone")


TYPE = a_type("m", cpu="4", memory="16Gi")
GP3 = StorageClass(name="gp3", provisioner="ebs.csi.aws.com", binding_mode=WAIT_FOR_FIRST_CONSUMER)


def a_claim(name: str = "c", **changes: Any) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(namespace="default", name=name, **changes)


def in_zone(zone: str, key: str = labels.ZONE) -> NodeSelectorTerm:
    return NodeSelectorTerm((Requirement.one_of(key, zone),))


def a_volume(name: str, *zones: str, **changes: Any) -> PersistentVolume:
    return PersistentVolume(
        name=name, node_terms=tuple(in_zone(zone) for zone in zones), driver="ebs.csi.aws.com", **changes
    )


def using(*names: str, **changes: Any) -> Any:
    return a_pod("p", volumes=tuple(VolumeUse(name) for name in names), **changes)


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "missing claim": ({}, PodReason.VOLUME_CLAIM_MISSING),
    "deleted claim": ({"volume_claims": (a_claim(is_terminating=True),)}, PodReason.VOLUME_CLAIM_TERMINATING),
    "lost claim": ({"volume_claims": (a_claim(phase="Lost"),)}, PodReason.VOLUME_CLAIM_LOST),
    "missing volume": ({"volume_claims": (a_claim(volume_name="v"),)}, PodReason.VOLUME_MISSING),
    "deleted volume": (
        {"volume_claims": (a_claim(volume_name="v"),), "volumes": (a_volume("v", is_terminating=True),)},
        PodReason.VOLUME_CLAIM_TERMINATING,
    ),
    "half bound": (
        {"volume_claims": (a_claim(volume_name="v"),), "volumes": (a_volume("v"),)},
        PodReason.VOLUME_CLAIM_UNBOUND,
    ),
    "no class": ({"volume_claims": (a_claim(),)}, PodReason.STORAGE_CLASS_MISSING),
    "unknown class": ({"volume_claims": (a_claim(storage_class="x"),)}, PodReason.STORAGE_CLASS_MISSING),
    "made by hand": ({"volume_claims": (a_claim(storage_class=""),)}, PodReason.VOLUME_CLAIM_UNBOUND),
    "binds at once": (
        {
            "volume_claims": (a_claim(storage_class="now"),),
            "storage_classes": (StorageClass(name="now", binding_mode=IMMEDIATE),),
        },
        PodReason.VOLUME_CLAIM_UNBOUND,
    ),
}


@pytest.mark.parametrize("case", sorted(BROKEN))
def test_broken_volumes_are_named_and_nothing_is_launched(case: str) -> None:
    """Otherwise, a node would be launched for a pod that cannot start, and people would look in the wrong place."""
    world, reason = BROKEN[case]
    plan = plan_of(types=(TYPE,), pods=(using("c"),), **world)
    assert (reasons_of(plan), plan.claims) == ({"p": reason}, ())


def test_a_bound_volume_holds_its_pod_to_one_of_its_zones() -> None:
    """The disk cannot follow the pod into another zone."""
    world = {
        "volumes": (a_volume("v", ZONES[1], ZONES[2]),),
        "volume_claims": (a_claim(volume_name="v", phase="Bound"),),
    }
    assert claim_of(plan_of(types=(TYPE,), pods=(using("c"),), **world), "p").zones == (ZONES[1],)
    tied = using("c", node_selector=(Requirement.one_of(labels.ZONE, ZONES[2]),))
    assert claim_of(plan_of(types=(TYPE,), pods=(tied,), **world), "p").zones == (ZONES[2],)


def test_two_volumes_must_share_a_zone() -> None:
    """Each volume alone could be used, but not both together."""
    claims = (a_claim("a", volume_name="v", phase="Bound"), a_claim("b", volume_name="w", phase="Bound"))
    apart = {"volumes": (a_volume("v", ZONES[0]), a_volume("w", ZONES[1])), "volume_claims": claims}
    assert reasons_of(plan_of(types=(TYPE,), pods=(using("a", "b"),), **apart)) == {"p": PodReason.VOLUMES_DISAGREE}
    overlapping = {"volumes": (a_volume("v", *ZONES[:2]), a_volume("w", ZONES[1])), "volume_claims": claims}
    assert claim_of(plan_of(types=(TYPE,), pods=(using("a", "b"),), **overlapping), "p").zones == (ZONES[1],)


def test_a_class_limits_zones_also_by_the_drivers_own_key() -> None:
    """The EBS driver has its own label for zones."""
    storage = msgspec.structs.replace(GP3, allowed_topologies=(in_zone(ZONES[2], labels.EBS_ZONE),))
    plan = plan_of(
        types=(TYPE,), pods=(using("c"),), storage_classes=(storage,), volume_claims=(a_claim(storage_class="gp3"),)
    )
    assert claim_of(plan, "p").zones == (ZONES[2],)


def test_the_default_class_applies_to_claims_without_one() -> None:
    """Claims written by hand usually name no class."""
    default = msgspec.structs.replace(GP3, is_default=True)
    world = {"storage_classes": (default,), "volume_claims": (a_claim(),)}
    assert plan_of(types=(TYPE,), pods=(using("c"),), **world).unschedulable == ()


def test_an_ephemeral_volume_is_planned_by_its_template_until_its_claim_exists() -> None:
    """Otherwise, pods of raw manifests would never be planned, as nobody has made their claims yet."""
    pod = a_pod("p", volumes=(VolumeUse("", ephemeral="scratch", storage_class="gp3"),))
    assert plan_of(types=(TYPE,), pods=(pod,), storage_classes=(GP3,)).unschedulable == ()
    lost = a_claim("p-scratch", phase="Lost")
    assert reasons_of(plan_of(types=(TYPE,), pods=(pod,), storage_classes=(GP3,), volume_claims=(lost,))) == {
        "p": PodReason.VOLUME_CLAIM_LOST
    }


HAND_MADE = StorageClass(name="hand", provisioner="kubernetes.io/no-provisioner", binding_mode=WAIT_FOR_FIRST_CONSUMER)
ASKED = VolumeRequest(size=10, access_modes=("ReadWriteOnce",))


def a_free_volume(name: str, zone: str = ZONES[1], **changes: Any) -> PersistentVolume:
    fields = {
        "storage_class": "hand",
        "size": 10,
        "access_modes": ("ReadWriteOnce", "ReadOnlyMany"),
        "phase": "Available",
    }
    return PersistentVolume(name=name, node_terms=(in_zone(zone),), **{**fields, **changes})


def waiting(name: str = "c", **changes: Any) -> PersistentVolumeClaim:
    return a_claim(name, **{"storage_class": "hand", "request": ASKED, **changes})


@pytest.mark.parametrize(
    ("volume", "claim", "fits"),
    [
        ({}, {}, True),
        ({"size": 9}, {}, False),
        ({"storage_class": "other"}, {}, False),
        ({"phase": "Bound"}, {}, False),
        ({"phase": ""}, {}, True),
        ({"phase": "Bound", "claim": ("default", "other")}, {}, False),
        ({"claim": ("default", "c"), "storage_class": "other"}, {}, True),
        ({"claim": ("default", "other")}, {}, False),
        ({"mode": "Block"}, {}, False),
        ({"access_modes": ("ReadOnlyMany",)}, {}, False),
        ({"is_terminating": True}, {}, False),
        ({}, {"request": replace(ASKED, selector=a_selector(tier="gold"))}, False),
        ({"labels": {"tier": "gold"}}, {"request": replace(ASKED, selector=a_selector(tier="gold"))}, True),
    ],
)
def test_a_class_without_provisioner_needs_a_free_volume_that_fits(
    volume: dict[str, Any], claim: dict[str, Any], fits: bool
) -> None:
    """kube-scheduler binds the claim to it, or refuses every node (volumebinding, FindMatchingVolume)."""
    storage = {"volumes": (a_free_volume("v", **volume),), "volume_claims": (waiting(**claim),)}
    plan = plan_of(types=(TYPE,), pods=(using("c"),), storage_classes=(HAND_MADE,), **storage)
    assert reasons_of(plan) == ({} if fits else {"p": PodReason.VOLUME_CLAIM_UNBOUND})
    assert not fits or zones(plan) == {"p": (ZONES[1],)}


def test_each_free_volume_is_for_one_claim_and_both_of_a_pod_are_in_one_zone() -> None:
    """A second claim on the same volume would wait for ever on the node launched for it."""
    two = (a_free_volume("small"), a_free_volume("large", ZONES[0], size=20))
    pods = tuple(replace(using(name), name=name) for name in ("a", "b", "c"))
    claims = tuple(waiting(name) for name in ("a", "b", "c"))
    plan = plan_of(types=(TYPE,), pods=pods, storage_classes=(HAND_MADE,), volumes=two, volume_claims=claims)
    assert zones(plan) == {"a": (ZONES[1],), "b": (ZONES[0],)}
    assert reasons_of(plan) == {"c": PodReason.VOLUME_CLAIM_UNBOUND}
    both = plan_of(
        types=(TYPE,), pods=(using("a", "b"),), storage_classes=(HAND_MADE,), volumes=two, volume_claims=claims
    )
    assert reasons_of(both) == {"p": PodReason.VOLUME_CLAIM_UNBOUND}


def test_a_free_volume_of_a_class_with_provisioner_adds_its_zone() -> None:
    """kube-scheduler takes it before it has one made in the zones that the class allows."""
    allowed = replace(GP3, name="hand", allowed_topologies=(in_zone(ZONES[0]),))
    pod = using("c", node_selector=(Requirement.one_of(labels.ZONE, ZONES[1]),))
    storage = {"storage_classes": (allowed,), "volume_claims": (waiting(),)}
    assert zones(plan_of(types=(TYPE,), pods=(pod,), volumes=(a_free_volume("v"),), **storage)) == {"p": (ZONES[1],)}
    assert reasons_of(plan_of(types=(TYPE,), pods=(pod,), **storage)) == {"p": PodReason.REQUIREMENT_NOT_MET}


def test_pods_that_share_an_unbound_claim_get_one_zone() -> None:
    """The first pod decides the volume's zone; a node elsewhere would be in vain."""
    large = {"cpu": "3"}
    pods = tuple(replace(using("c", **large), name=name) for name in ("p", "q"))
    storage = {"storage_classes": (GP3,), "volume_claims": (a_claim(storage_class="gp3"),)}
    found = zones(plan_of(types=(TYPE,), pods=pods, **storage))
    assert found["p"] == found["q"]
    assert len(found["p"]) == 1
    spread = (TopologySpread(labels.ZONE, 1, selector=a_selector(app="web")),)
    even = tuple(replace(pod, labels={"app": "web"}, spec=replace(pod.spec, spreads=spread)) for pod in pods)
    assert len(reasons_of(plan_of(types=(TYPE,), pods=even, **storage))) == 1
    shared_by_all = replace(GP3, provisioner="efs.csi.aws.com")
    anywhere = zones(plan_of(types=(TYPE,), pods=pods, **{**storage, "storage_classes": (shared_by_all,)}))
    assert anywhere["p"] == ZONES


def test_a_claim_for_one_pod_has_one_user() -> None:
    """kube-scheduler refuses every node to a second pod until the first is gone, terminating ones included."""
    request = VolumeRequest(access_modes=("ReadWriteOncePod",))
    storage = {"storage_classes": (GP3,), "volume_claims": (a_claim(storage_class="gp3", request=request),)}
    claim, node = a_node_of(TYPE, "n")
    first = replace(using("c", cpu="1"), name="first", node_name="n", phase="Running", deleted_at=NOW)
    cluster = {"nodes": (node,), "node_claims": (claim,), **storage}
    assert reasons_of(plan_of(types=(TYPE,), pods=(first, using("c")), **cluster)) == {"p": PodReason.VOLUME_IN_USE}
    urgent = replace(using("c", priority=5), name="urgent")
    plan = plan_of(types=(TYPE,), pods=(urgent, using("c")), **cluster)
    assert places(plan) == {"urgent": "n"}
    assert reasons_of(plan) == {"p": PodReason.VOLUME_IN_USE}


def test_a_claim_with_a_selected_node_waits_for_that_node() -> None:
    """The provisioner makes the volume there: a new node would be in vain."""
    storage = {"storage_classes": (GP3,), "volume_claims": (a_claim(storage_class="gp3", selected_node="b"),)}
    pairs = [a_node_of(TYPE, name) for name in ("a", "b")]
    cluster = {"nodes": tuple(n for _, n in pairs), "node_claims": tuple(c for c, _ in pairs), **storage}
    assert places(plan_of(types=(TYPE,), pods=(using("c"),), **cluster)) == {"p": "b"}
    full = plan_of(types=(TYPE,), pods=(using("c", cpu="5"),), **cluster)
    assert (reasons_of(full), full.claims) == ({"p": PodReason.REQUIREMENT_NOT_MET}, ())


def test_an_ebs_volume_without_a_claim_is_attached_like_any_other() -> None:
    """The node's limit counts it: the pod would wait for an attachment that fails."""
    claim, node = a_node_of(TYPE, "n", attach_limits={"ebs.csi.aws.com": 1})
    inline = a_pod("p", volumes=(VolumeUse("", inline="vol-2"),))
    held = replace(a_pod("r", cpu="1", volumes=(VolumeUse("", inline="vol-1"),)), node_name="n", phase="Running")
    plan = plan_of(types=(TYPE,), pods=(inline, held), nodes=(node,), node_claims=(claim,))
    assert len(plan.claims) == 1


def test_a_local_volumes_host_holds_while_its_node_exists() -> None:
    """A node launched elsewhere stays empty until somebody deletes the first."""
    term = NodeSelectorTerm((Requirement.one_of(labels.HOSTNAME, "n"),))
    volume = PersistentVolume(name="v", node_terms=(term,), is_local=True)
    bound = a_claim(volume_name="v", phase="Bound", is_bind_completed=True)
    claim, node = a_node_of(TYPE, "n", allocatable={"cpu": 0, "memory": 0, "pods": 1})
    storage = {"volumes": (volume,), "volume_claims": (bound,)}
    assert plan_of(types=(TYPE,), pods=(using("c"),), nodes=(node,), node_claims=(claim,), **storage).claims == ()
    assert len(plan_of(types=(TYPE,), pods=(using("c"),), **storage).claims) == 1


def test_a_local_volumes_host_is_ignored() -> None:
    """The host may be gone; Karpenter ignores it, too. A network volume's host is binding."""
    term = NodeSelectorTerm((Requirement.one_of(labels.HOSTNAME, "old"),))
    for is_local, expected in ((True, {}), (False, {"p": PodReason.REQUIREMENT_NOT_MET})):
        volume = PersistentVolume(name="v", node_terms=(term,), is_local=is_local)
        world = {"volumes": (volume,), "volume_claims": (a_claim(volume_name="v", phase="Bound"),)}
        assert reasons_of(plan_of(types=(TYPE,), pods=(using("c"),), **world)) == expected


def test_a_pod_without_volumes_has_no_volume_requirements() -> None:
    """Otherwise, every pod is a group of its own."""
    index = VolumeIndex(a_snapshot(storage_classes=(GP3,)))
    assert index.needs(a_pod("p")) is NO_VOLUMES
    scratch = a_pod("p", volumes=(VolumeUse("", ephemeral="scratch", storage_class="gp3"),))
    assert index.needs(scratch).attachments == (("ebs.csi.aws.com", "default/p-scratch"),)


def test_a_pod_that_must_stay_in_its_zone_meets_its_volumes_there() -> None:
    """A pin narrows what the volumes allow; where they exclude it, the pod stays where it runs."""
    needs = VolumeNeeds(tuple(Requirements((Requirement.one_of(labels.ZONE, zone),)) for zone in ZONES[:2]))
    pin = Requirements((Requirement.one_of(labels.ZONE, ZONES[1]),))
    assert needs.restricted_to(pin).alternatives == (pin,)
    elsewhere = Requirements((Requirement.one_of(labels.ZONE, ZONES[2]),))
    assert needs.restricted_to(elsewhere).alternatives == (elsewhere,)
    broken = VolumeNeeds(reason=PodReason.VOLUME_MISSING)
    assert broken.restricted_to(pin) is broken


def test_a_claim_that_nobody_has_is_named_without_a_volume() -> None:
    """A generic ephemeral volume has a claim only once the pod has a node."""
    storage = msgspec.structs.replace(GP3, allowed_topologies=(in_zone(ZONES[2]),))
    pod = a_pod("p", volumes=(VolumeUse("", "cache", "gp3"), VolumeUse("data")))
    claims = (a_claim("data", volume_name="v", phase="Bound", is_bind_completed=True),)
    index = VolumeIndex(
        a_snapshot(volume_claims=claims, volumes=(a_volume("v", ZONES[2]),), storage_classes=(storage,))
    )
    assert index.volumes_that_demand(pod, labels.ZONE) == [
        "PersistentVolumeClaim default/p-cache",
        "PersistentVolumeClaim default/data (volume v)",
    ]
    assert index.volumes_that_demand(pod, labels.REGION) == []


def test_what_a_running_pod_attaches_is_its_volumes_or_what_their_class_will_make() -> None:
    """A claim that is being deleted still has its volume; one without a driver, or made by hand, attaches nothing."""
    no_driver, by_hand = a_volume("old"), StorageClass(name="hand", provisioner="kubernetes.io/no-provisioner")
    no_driver = msgspec.structs.replace(no_driver, driver="")
    world = {
        "volumes": (a_volume("v"), no_driver),
        "storage_classes": (GP3, msgspec.structs.replace(by_hand, binding_mode=WAIT_FOR_FIRST_CONSUMER)),
    }
    bound = {"phase": "Bound", "is_bind_completed": True}
    found = {}
    for case, claim in {
        "bound": a_claim(volume_name="v", **bound),
        "deleted": a_claim(volume_name="v", is_terminating=True, **bound),
        "no driver": a_claim(volume_name="old", **bound),
        "gone": a_claim(volume_name="gone", **bound),
        "waits": a_claim(storage_class="gp3"),
        "by hand": a_claim(storage_class="hand"),
        "another": a_claim("other", volume_name="v", **bound),
    }.items():
        context = context_of(types=(TYPE,), pods=(using("c"),), volume_claims=(claim,), **world)
        found[case] = context.volumes.attachments(using("c"))
    driver = GP3.provisioner
    assert found == {
        "bound": ((driver, "v"),),
        "deleted": ((driver, "v"),),
        "no driver": (),
        "gone": (),
        "waits": ((driver, "default/c"),),
        "by hand": (),
        "another": (),
    }
