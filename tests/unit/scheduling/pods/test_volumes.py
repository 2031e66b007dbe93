"""Where volumes let a pod run, and which of their faults no node can help."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core import labels
from core.model.pod import NodeSelectorTerm, VolumeUse
from core.model.storage import (
    IMMEDIATE,
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from core.model.values.requirements import Requirement, Requirements
from core.reasons.pod import PodReason
from core.scheduling.pods.volumes import NO_VOLUMES, VolumeIndex, VolumeNeeds
from tests.builders import ZONES, a_pod, a_snapshot, a_type
from tests.unit.scheduling.reading import claim_of, context_of, plan_of, reasons_of

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
