"""A requirement on a zone id becomes one on its zone once the zone is known."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core import api, labels
from core.disruption.conditions.drift import DriftCheck
from core.manifests.zone_ids import requirements_with_zones, with_zones, zones_by_id
from core.model.node_pool import NodeClass
from core.model.pod import (
    NodeSelectorTerm,
    PodAffinityTerm,
    PodSpec,
    PreferredTerm,
    TopologySpread,
    WeightedPodAffinityTerm,
)
from core.model.policy import Service
from core.model.snapshot import Options
from core.model.storage import PersistentVolume, StorageClass
from core.model.values.requirements import Requirement
from core.scheduling import schedule
from tests.builders import ZONES, a_class_manifest, a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.unit.scheduling.reading import claim_of, places

TYPE = a_type("m")
IDS = dict(zip(("use1-az4", "use1-az6", "use1-az1"), ZONES, strict=True))
CLASS = NodeClass(name="default", zone_ids=IDS)
ASKED = Requirement.one_of(labels.ZONE_ID, "use1-az6")
MEANT = Requirement.one_of(labels.ZONE, ZONES[1])


def test_a_pod_gets_a_node_in_the_zone_of_its_required_id() -> None:
    """Otherwise, it waits forever: no offering has a zone id."""
    world = a_snapshot(types=(TYPE,), node_classes=(CLASS,), pods=(a_pod("p", node_selector=(ASKED,)),))
    assert claim_of(schedule(with_zones(world)), "p").zones == (ZONES[1],)


def test_a_node_in_flight_takes_the_pod_that_it_was_launched_for() -> None:
    """It has no id before it joins; otherwise, another node is launched, and another after that."""
    claim, node = a_node_of(TYPE, "n", zone=ZONES[1])
    coming = msgspec.structs.replace(claim, node_name="")
    world = a_snapshot(
        types=(TYPE,), node_classes=(CLASS,), node_claims=(coming,), pods=(a_pod("p", node_selector=(ASKED,)),)
    )
    assert places(schedule(with_zones(world))) == {"p": coming.name}
    assert node.name != coming.name


def test_a_pool_that_requires_an_id_does_not_drift_because_of_it() -> None:
    """Otherwise, its claims are replaced again and again: their labels name the zone."""
    pool = a_pool("default", ASKED)
    claim, node = a_node_of(TYPE, "n", zone=ZONES[1])
    world = with_zones(
        a_snapshot(types=(TYPE,), node_classes=(CLASS,), node_pools=(pool,), nodes=(node,), node_claims=(claim,))
    )
    assert world.node_pools[0].requirements == (MEANT,)
    assert DriftCheck(world).reason(world.node_claims[0], world.node_pools[0]) == ""


def test_every_field_that_can_name_a_zone_id_is_translated() -> None:
    """Otherwise, a pod stays pending, or is placed where it must not be."""
    spec = PodSpec(
        requests={"pods": 1},
        required_terms=(NodeSelectorTerm((Requirement.of(labels.ZONE_ID, "NotIn", ["use1-az4", "unheard-of"]),)),),
        spreads=(TopologySpread(labels.ZONE_ID, 1),),
        anti_affinity=(PodAffinityTerm(labels.ZONE_ID),),
    )
    volume = PersistentVolume(name="v", node_terms=(NodeSelectorTerm((ASKED,)),))
    pod = msgspec.structs.replace(a_pod("p"), spec=spec)
    storage = StorageClass(name="s", allowed_topologies=(NodeSelectorTerm((ASKED,)),))
    world = with_zones(
        a_snapshot(
            node_classes=(CLASS,),
            pods=(pod,),
            volumes=(volume,),
            storage_classes=(storage,),
            node_pools=(a_pool("default", ASKED),),
        )
    )
    read = world.pods[0].spec
    assert read.required_terms[0].requirements == (Requirement.of(labels.ZONE, "NotIn", [ZONES[0]]),)
    assert (read.spreads[0].topology_key, read.anti_affinity[0].topology_key) == (labels.ZONE, labels.ZONE)
    assert world.volumes[0].node_terms[0].requirements == (MEANT,)
    assert world.storage_classes[0].allowed_topologies[0].requirements == (MEANT,)
    assert world.node_pools[0].requirements == (MEANT,)


def test_pods_are_spread_by_a_default_along_zone_ids() -> None:
    """Otherwise, every pod without constraints of its own waits forever: no offering has a zone id."""
    world = a_snapshot(
        types=(TYPE,),
        node_classes=(CLASS,),
        pods=tuple(a_pod(name, labels={"app": "web"}) for name in ("p", "q")),
        services=(Service(namespace="default", name="web", selector={"app": "web"}),),
        options=Options(default_spreads=(TopologySpread(labels.ZONE_ID, 1),)),
    )
    plan = schedule(with_zones(world))
    assert plan.unschedulable == ()
    assert len({claim.zones for claim in plan.claims}) == 2


def test_an_unknown_id_stays_and_is_explained() -> None:
    """Any zone in its place would be a guess."""
    pod = a_pod("p", node_selector=(Requirement.one_of(labels.ZONE_ID, "use1-az9"),))
    world = with_zones(a_snapshot(types=(TYPE,), node_classes=(CLASS,), pods=(pod,)))
    (entry,) = schedule(world).unschedulable
    assert labels.ZONE_ID in entry.message


def test_ids_are_learned_from_subnets_and_from_nodes() -> None:
    """Subnets give them before the first node exists, nodes give those of zones without a subnet today."""
    subnets = [{"id": "subnet-1", "zone": ZONES[1], "zoneID": "use1-az6"}, {"id": "subnet-2", "zone": ZONES[0]}]
    node_class = api.node_class(a_class_manifest(status={"subnets": subnets}))
    assert node_class.zone_ids == {"use1-az6": ZONES[1]}
    claim, node = a_node_of(TYPE, "n", zone=ZONES[2])
    node = msgspec.structs.replace(node, labels={**node.labels, labels.ZONE_ID: "use1-az1"})
    pod = a_pod("p", node_selector=(Requirement.one_of(labels.ZONE_ID, "use1-az1"),))
    world = with_zones(a_snapshot(nodes=(node,), node_claims=(claim,), node_classes=(node_class,), pods=(pod,)))
    assert world.pods[0].spec.node_selector == (Requirement.one_of(labels.ZONE, ZONES[2]),)


def test_every_rule_along_zone_ids_is_one_along_zones_and_all_others_stay() -> None:
    """Required and preferred rules, of pods and of nodes."""

    def rules(key: str, asked: Requirement) -> dict[str, Any]:
        near, host = PodAffinityTerm(key), PodAffinityTerm(labels.HOSTNAME)
        return {
            "node_selector": (asked,),
            "preferred_terms": (PreferredTerm(5, NodeSelectorTerm((asked,))),),
            "spreads": (TopologySpread(key, 1), TopologySpread(labels.HOSTNAME, 1)),
            "affinity": (near, host),
            "anti_affinity": (near, host),
            "preferred_affinity": (WeightedPodAffinityTerm(1, near), WeightedPodAffinityTerm(2, host)),
            "preferred_anti_affinity": (WeightedPodAffinityTerm(3, near), WeightedPodAffinityTerm(4, host)),
        }

    pods = (a_pod("p", **rules(labels.ZONE_ID, ASKED)), a_pod("q"))
    world = with_zones(a_snapshot(node_classes=(CLASS,), pods=pods))
    assert world.pods[0].spec == a_pod("p", **rules(labels.ZONE, MEANT)).spec
    assert world.pods[1] is pods[1]


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        (Requirement.of(labels.ZONE_ID, "In", ["use1-az6", "use1-az9"]), MEANT),
        (Requirement.of(labels.ZONE_ID, "In", ["use1-az9"]), None),
        (Requirement.of(labels.ZONE_ID, "NotIn", ["use1-az6"]), Requirement.of(labels.ZONE, "NotIn", [ZONES[1]])),
        (Requirement.of(labels.ZONE_ID, "NotIn", ["use1-az9"]), Requirement.of(labels.ZONE, "Exists")),
        (Requirement.of(labels.ZONE_ID, "Exists"), Requirement.of(labels.ZONE, "Exists")),
        (Requirement.of(labels.ZONE_ID, "Gt", ["1"]), None),
        (Requirement.of(labels.ZONE_ID, "Lt", ["1"]), None),
        (Requirement.of("other", "In", ["use1-az6"]), None),
    ],
)
def test_each_operator_keeps_its_meaning(asked: Requirement, meant: Requirement | None) -> None:
    """What cannot be translated stays, and is explained where it matters."""
    assert requirements_with_zones([asked], IDS) == (meant or asked,)


def test_a_node_that_lacks_one_of_the_names_teaches_nothing() -> None:
    nodes = [
        msgspec.structs.replace(a_node_of(TYPE, name)[1], labels=own)
        for name, own in (
            ("a", {labels.ZONE: "z1", labels.ZONE_ID: "i1"}),
            ("b", {labels.ZONE: "z2"}),
            ("c", {labels.ZONE_ID: "i3"}),
        )
    ]
    assert zones_by_id([], nodes) == {"i1": "z1"}
    assert zones_by_id([NodeClass(name="c", zone_ids={"i1": "of-class"})], nodes) == {"i1": "of-class"}


def test_without_a_known_zone_nothing_is_translated() -> None:
    """A rule along zones that nobody knows would be another rule."""
    pod = a_pod(
        "p", node_selector=(Requirement.of(labels.ZONE_ID, "Exists"),), spreads=(TopologySpread(labels.ZONE_ID, 1),)
    )
    world = a_snapshot(
        pods=(pod,), node_pools=(a_pool("default", Requirement.of(labels.ZONE_ID, "NotIn", ["use1-az6"])),)
    )
    assert with_zones(world) is world
