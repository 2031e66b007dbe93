"""Where volumes let a pod run: bound ones, those that kube-scheduler would bind, and those that are yet to be made."""

from __future__ import annotations

from datetime import timedelta
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
    StorageClass,
    TopologySpread,
    VolumeRequest,
    VolumeUse,
)
from core.model.values.requirements import Requirement, Requirements
from core.reasons.code import Stated
from core.reasons.pods import PodReason
from core.scheduling.volume_binding import NO_VOLUMES, VolumeIndex, VolumeNeeds
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_selector, a_snapshot, a_type
from tests.unit.scheduling.reading import claim_of, context_of, places, plan_of, reasons_of, zones

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
        ({"attributes_class": "fast"}, {}, False),
        ({}, {"request": replace(ASKED, attributes_class="fast")}, False),
        ({"attributes_class": "fast"}, {"request": replace(ASKED, attributes_class="fast")}, True),
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


def test_a_volume_that_is_kept_for_a_claim_but_too_small_leaves_it_the_others() -> None:
    """kube-scheduler leaves out what is too small before it looks whose it is."""
    kept = a_free_volume("kept", ZONES[0], size=9, claim=("default", "c"))
    storage = {"volumes": (kept, a_free_volume("free")), "volume_claims": (waiting(),)}
    plan = plan_of(types=(TYPE,), pods=(using("c"),), storage_classes=(HAND_MADE,), **storage)
    assert zones(plan) == {"p": (ZONES[1],)}


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


def test_a_pod_without_a_place_gives_its_free_volume_to_another() -> None:
    """kube-scheduler binds a volume when its pod is placed: one that fits nowhere keeps it from nobody."""
    large = replace(using("a", cpu="64"), name="a-large")
    fitting = replace(using("b"), name="fitting")
    storage = {"volumes": (a_free_volume("v"),), "volume_claims": (waiting("a"), waiting("b"))}
    plan = plan_of(types=(TYPE,), pods=(large, fitting), storage_classes=(HAND_MADE,), **storage)
    assert zones(plan) == {"fitting": (ZONES[1],)}


def test_pods_that_fit_nowhere_keep_a_free_volume_from_nobody_however_many_they_are() -> None:
    """There are more of them than choices of volumes, and each comes before the pod that fits."""
    large = tuple(replace(using(f"c{number}", cpu="64"), name=f"a{number:02}") for number in range(20))
    claims = (*(waiting(f"c{number}") for number in range(20)), waiting("z"))
    pods = (*large, replace(using("z"), name="z"))
    storage = {"storage_classes": (HAND_MADE,), "volumes": (a_free_volume("v"),), "volume_claims": claims}
    assert zones(plan_of(types=(TYPE,), pods=pods, **storage)) == {"z": (ZONES[1],)}


def test_a_free_volume_that_is_given_up_costs_no_other_pod_its_place() -> None:
    """Of those that wait for the volume, the one for which there is room beside the others gets it."""
    claim, node = a_node_of(TYPE, "n", zone=ZONES[1])
    pods = (
        replace(using("a", cpu="64"), name="a-large"),
        replace(using("b", cpu="3"), name="b-larger-than-the-rest"),
        replace(using("d", cpu="500m"), name="d-fitting"),
        a_pod("other", cpu="2"),
    )
    claims = tuple(waiting(name) for name in ("a", "b", "d"))
    storage = {"storage_classes": (HAND_MADE,), "volumes": (a_free_volume("v"),), "volume_claims": claims}
    plan = plan_of(types=(), pods=pods, nodes=(node,), node_claims=(claim,), **storage)
    assert places(plan) == {"other": "n", "d-fitting": "n"}


def test_a_pod_that_is_not_scheduled_keeps_a_free_volume_from_nobody() -> None:
    """kube-scheduler binds no volume for a pod with scheduling gates, nor for one that is being deleted."""
    for fields in ({"is_gated": True}, {"deleted_at": NOW}):
        pods = (replace(using("a"), name="a", **fields), replace(using("b"), name="b"))
        storage = {"storage_classes": (HAND_MADE,), "volumes": (a_free_volume("v"),)}
        plan = plan_of(types=(TYPE,), pods=pods, volume_claims=(waiting("a"), waiting("b")), **storage)
        assert zones(plan) == {"b": (ZONES[1],)}


def test_the_more_important_pod_gets_the_only_free_volume() -> None:
    """kube-scheduler takes pods by priority, then by age."""
    storage = {"storage_classes": (HAND_MADE,), "volumes": (a_free_volume("v"),)}
    for fields in ({"priority": 10}, {"created_at": NOW - timedelta(hours=1)}):
        pods = (replace(using("a"), name="a"), replace(using("b", **fields), name="b"))
        plan = plan_of(types=(TYPE,), pods=pods, volume_claims=(waiting("a"), waiting("b")), **storage)
        assert zones(plan) == {"b": (ZONES[1],)}


def test_a_pod_takes_a_larger_free_volume_where_it_can_run() -> None:
    """The smallest volume that fits may be where no type is offered."""
    only_b = a_type("b", cpu="4", zones=ZONES[1:2])
    two = (a_free_volume("small", ZONES[0]), a_free_volume("large", ZONES[1], size=20))
    plan = plan_of(
        types=(only_b,), pods=(using("c"),), storage_classes=(HAND_MADE,), volumes=two, volume_claims=(waiting(),)
    )
    assert zones(plan) == {"p": (ZONES[1],)}


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
    beside = zones(plan_of(types=(TYPE,), pods=even, **storage))
    assert beside["p"] == beside["q"], (
        "no pod of the claim could get a node in another zone, so none counts for the spread"
    )
    shared_by_all = replace(GP3, provisioner="efs.csi.aws.com")
    anywhere = zones(plan_of(types=(TYPE,), pods=pods, **{**storage, "storage_classes": (shared_by_all,)}))
    assert anywhere["p"] == ZONES


def test_a_pod_on_a_node_has_not_decided_the_zone_of_its_unbound_claim() -> None:
    """Only a pod that kube-scheduler places gets a volume for its claim; one that names its node itself waits for another."""
    claim, node = a_node_of(TYPE, "n", zone=ZONES[2])
    held = replace(using("c"), name="held", node_name="n", phase="Running")
    storage = {"storage_classes": (GP3,), "volume_claims": (a_claim(storage_class="gp3"),)}
    only_there = replace(TYPE, offerings=tuple(o for o in TYPE.offerings if o.zone == ZONES[0]))
    tied = replace(using("c", cpu="4"), name="p")
    plan = plan_of(types=(only_there,), pods=(held, tied), nodes=(node,), node_claims=(claim,), **storage)
    assert zones(plan) == {"p": (ZONES[0],)}


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


def test_an_ebs_volume_without_a_claim_is_for_one_pod_of_a_node() -> None:
    """kube-scheduler refuses a second one there, whatever the node attaches (volumerestrictions, isVolumeConflict)."""
    claim, node = a_node_of(TYPE, "n")
    volume = (VolumeUse("", inline="vol-1"),)
    held = replace(a_pod("r", cpu="1", volumes=volume), node_name="n", phase="Running")
    waiting = (a_pod("p", volumes=volume), a_pod("q", volumes=volume))
    plan = plan_of(types=(TYPE,), pods=(held, *waiting), nodes=(node,), node_claims=(claim,))
    assert len(set(places(plan).values()) - {"n"}) == len(plan.claims) == 2
    alike = plan_of(types=(TYPE,), pods=(a_pod("a"), *waiting))
    assert len(alike.claims) == 2, "a pod without the volume that is otherwise alike changes nothing"
    other = a_pod("p", volumes=(VolumeUse("", inline="vol-2"),))
    assert places(plan_of(types=(TYPE,), pods=(held, other), nodes=(node,), node_claims=(claim,))) == {"p": "n"}


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


def test_a_free_local_volume_of_a_host_that_is_gone_is_for_nobody() -> None:
    """kube-scheduler binds it on its own host alone: every node launched for it stays empty."""
    term = NodeSelectorTerm((Requirement.one_of(labels.HOSTNAME, "old"),))
    # More of them than a plan tries one after another.
    gone = tuple(replace(a_free_volume(f"a{number:02}"), node_terms=(term,), is_local=True) for number in range(12))
    world = {"storage_classes": (HAND_MADE,), "volume_claims": (waiting(),)}
    plan = plan_of(types=(TYPE,), pods=(using("c"),), volumes=gone, **world)
    assert reasons_of(plan) == {"p": PodReason.VOLUME_CLAIM_UNBOUND}
    other = a_free_volume("b")
    assert zones(plan_of(types=(TYPE,), pods=(using("c"),), volumes=(*gone, other), **world)) == {"p": (ZONES[1],)}


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
    broken = VolumeNeeds(refusal=Stated(PodReason.VOLUME_MISSING, "gone"))
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
