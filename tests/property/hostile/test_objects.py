"""Law: no text in a pod, NodePool, NodeClaim or EC2NodeClass changes anything in user data except its own value."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core import labels
from core.ami_families.family import Cluster
from core.ami_families.registry import FAMILIES
from core.catalogue.node_class import EC2NodeClass, read_node_class
from core.errors import InvalidInputError
from core.launch.request import render_launch
from core.lifecycle.node_claim_objects import hand_made_plan
from core.manifests.assemble import assemble
from core.manifests.wire import decoding, resources
from core.model.catalogue import Catalogue
from core.model.plan import LaunchOrder, Plan, PlannedClaim
from core.model.snapshot import Snapshot
from core.model.values.requirements import is_label_key, is_label_value
from core.model.values.taints import Taint
from core.scheduling import Planner
from tests.builders import NOW, ZONES, a_class_manifest, a_type
from tests.property.hostile.reading import outline
from tests.property.hostile.texts import BREAKERS, HARMLESS, Place, hostile, places, planted

CLUSTER = Cluster(name="shop", endpoint="https://api.example", certificate_authority="Q0E=", service_cidr="10.1.0.0/16")
TEAM = "company.com/team"
STATUS: dict[str, Any] = {
    "subnets": [{"id": f"subnet-{zone}", "zone": zone} for zone in ZONES],
    "securityGroups": [{"id": "sg-1", "name": "nodes"}],
    "amis": [{"id": "ami-1", "name": "image", "requirements": []}],
    "instanceProfile": "shop-nodes",
    "conditions": [{"type": "Ready", "status": "True", "reason": "Ready"}],
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "namespace": "shop",
        "uid": "u-1",
        "labels": {"app": "p"},
        "annotations": {"karpenter.sh/do-not-disrupt": "5m"},
        "creationTimestamp": "2026-11-19T23:00:00Z",
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "p", "uid": "r-1"}],
    },
    "spec": {
        "nodeSelector": {"company.com/tier": "front"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": TEAM, "operator": "In", "values": ["a", "b"]},
                                {"key": "company.com/rank", "operator": "Gt", "values": ["3"]},
                            ]
                        }
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "preference": {"matchExpressions": [{"key": TEAM, "operator": "In", "values": ["b"]}]},
                    }
                ],
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "p"}}}
                ]
            },
        },
        "topologySpreadConstraints": [
            {
                "topologyKey": "topology.kubernetes.io/zone",
                "maxSkew": 1,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["p"]}]},
            }
        ],
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}],
        "schedulerName": "default-scheduler",
        "priorityClassName": "high",
        "containers": [
            {
                "name": "c",
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}},
                "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "TCP"}],
            }
        ],
        "volumes": [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "gp3"}}}}],
    },
    "status": {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    },
}
POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default", "annotations": {"note": "n"}},
    "spec": {
        "template": {
            "metadata": {"labels": {"company.com/own": "x"}, "annotations": {"company.com/note": "n"}},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": TEAM, "operator": "Exists"},
                    {"key": "company.com/tier", "operator": "In", "values": ["front", "back"]},
                    {"key": "company.com/rank", "operator": "Exists"},
                ],
                "taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "company.com/starting", "value": "yes", "effect": "NoSchedule"}],
                "expireAfter": "720h",
            },
        },
        "limits": {"cpu": "1000"},
        "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "10%"}]},
    },
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
CLASS = a_class_manifest(
    status=STATUS,
    kubelet={
        "clusterDNS": ["10.1.0.10"],
        "kubeReserved": {"cpu": "100m"},
        "systemReserved": {"memory": "100Mi"},
        "evictionHard": {"memory.available": "5%"},
        "evictionSoft": {"memory.available": "10%"},
        "evictionSoftGracePeriod": {"memory.available": "1m"},
    },
    tags={"team": "a"},
    context="c",
    blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi", "volumeType": "gp3"}}],
)
NODE_CLAIM: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodeClaim",
    "metadata": {
        "name": "mine",
        "uid": "u-2",
        "labels": {"company.com/own": "x", "karpenter.sh/nodepool": "default"},
        "annotations": {"company.com/note": "n"},
    },
    "spec": {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [
            {"key": TEAM, "operator": "In", "values": ["b"]},
            {"key": "company.com/rank", "operator": "Gt", "values": ["3"]},
        ],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        "taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}],
        "startupTaints": [{"key": "company.com/starting", "value": "yes", "effect": "NoSchedule"}],
        "expireAfter": "720h",
        "terminationGracePeriod": "1h",
    },
}
TYPES = (a_type("m5.large"), a_type("m5.xlarge", cpu="4", memory="16Gi", price=0.2))
FAMILY_NAMES = ("AL2", "AL2023", "Bottlerocket", "Windows2022")
STORAGE = {"metadata": {"name": "gp3"}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer"}


def seen(pod: dict[str, Any], pool: dict[str, Any]) -> Snapshot:
    """The snapshot that `provision` builds from the bytes that the API server sends."""
    raw = msgspec.json.encode({"items": [pod], "metadata": {}})
    objects = {
        resources.PODS: decoding.decode_page(resources.PODS, raw).items,
        resources.NODE_POOLS: (pool,),
        resources.EC2_NODE_CLASSES: (CLASS,),
        resources.STORAGE_CLASSES: (decoding.from_object(resources.STORAGE_CLASSES, STORAGE),),
    }
    snapshot, _ = assemble(objects, now=NOW, catalogue=Catalogue(default=TYPES), is_live=True)
    return snapshot


def planned(pod: dict[str, Any], pool: dict[str, Any]) -> Plan:
    return Planner(seen(pod, pool)).results().plan


def user_data_of(claim: PlannedClaim, node_class: EC2NodeClass) -> str:
    """The user data of the claim's node."""
    order = LaunchOrder(
        claim="general-1",
        token="t",
        node_class={},
        node_pool=claim.node_pool,
        offerings=tuple(o for t in TYPES[:1] for o in t.offerings),
        instance_types=TYPES[:1],
        node_labels=claim.labels,
        taints=tuple(map(str, (*claim.taints, *claim.startup_taints))),
        tags={},
    )
    (template,) = render_launch(order, node_class, CLUSTER).templates
    return base64.b64decode(template.data["UserData"]).decode()


def of_family(name: str, manifest: dict[str, Any] | None = None) -> EC2NodeClass:
    written = CLASS if manifest is None else manifest
    return read_node_class({**written, "spec": {**written["spec"], "amiFamily": name}})


OURS = frozenset({labels.MADE_BY_HAND, labels.COMMITMENT})
"""Annotations with our prefix that a plan itself gives a claim."""


def check(claims: Iterable[PlannedClaim], *, by_hand: str = "") -> None:
    """Labels and taints keep their format, every node reads a value only as a value, and our own annotations are ours.

    `by_hand` is the UID of the hand-made NodeClaim, if any.
    """
    for claim in claims:
        assert claim.made_by_hand == by_hand
        assert {key for key in claim.annotations if key.startswith(labels.OWN_PREFIX)} <= OURS
        assert all(is_label_key(key) and is_label_value(value) for key, value in claim.labels.items())
        taints = (*claim.taints, *claim.startup_taints)
        assert all(is_label_key(taint.key) and is_label_value(taint.value) for taint in taints)
        tame = msgspec.structs.replace(
            claim,
            labels=dict.fromkeys(claim.labels, HARMLESS),
            taints=_tamed(claim.taints),
            startup_taints=_tamed(claim.startup_taints),
        )
        for name in FAMILY_NAMES:
            node_class = of_family(name)
            actual, expected = (outline(FAMILIES[name], user_data_of(c, node_class), "") for c in (claim, tame))
            assert actual == expected


def _tamed(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    return tuple(Taint(key=taint.key, value=taint.value and HARMLESS, effect=taint.effect) for taint in taints)


def examples(manifest: dict[str, Any]) -> st.SearchStrategy[Place]:
    return st.sampled_from(list(places(manifest)))


def test_the_harmless_objects_get_a_node() -> None:
    """Otherwise, the laws below would hold only because nothing is launched."""
    plan = planned(POD, POOL)
    assert [claim.labels[TEAM] for claim in plan.claims] == ["b"]
    check(plan.claims)


PREFERRED = (
    *("spec", "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution", 0),
    *("preference", "matchExpressions", 0, "values", 0),
)


@example(place=(PREFERRED, False), text=BREAKERS[0])
@given(place=examples(POD), text=hostile)
def test_a_pod_cannot_write_into_user_data(place: Place, text: str) -> None:
    """Otherwise, anyone who may create a pod could become root on a node, or stop all planning with a huge number."""
    plan = planned(planted(POD, place, text), POOL)
    check(plan.claims)


@given(place=examples(POOL), text=hostile)
def test_a_node_pool_sets_only_its_own_fields(place: Place, text: str) -> None:
    """An API server with older definitions accepts objects that ours would reject."""
    plan = planned(POD, planted(POOL, place, text))
    check(plan.claims)


def test_a_harmless_node_claim_made_by_hand_gets_a_node() -> None:
    """Otherwise, the next law would hold only because nothing is launched."""
    claim = hand_made_plan(NODE_CLAIM, seen(POD, POOL), {})
    assert isinstance(claim, PlannedClaim)
    assert claim.labels[TEAM] == "b"
    check([claim], by_hand="u-2")


@given(place=examples(NODE_CLAIM), text=hostile)
def test_a_node_claim_made_by_hand_sets_only_its_own_fields(place: Place, text: str) -> None:
    """Otherwise, whoever may create NodeClaims could run commands on the node."""
    claim = hand_made_plan(planted(NODE_CLAIM, place, text), seen(POD, POOL), {})
    if isinstance(claim, PlannedClaim):
        check([claim], by_hand=text if place == (("metadata", "uid"), False) else "u-2")


@pytest.mark.parametrize("family", FAMILY_NAMES)
@given(place=examples({"spec": CLASS["spec"], "status": CLASS["status"]}), text=hostile)
def test_a_node_class_sets_only_its_own_fields(family: str, place: Place, text: str) -> None:
    """The functions read the class without validating it first."""
    (claim,) = planned(POD, POOL).claims
    try:
        node_class = of_family(family, planted(CLASS, place, text))
        actual = user_data_of(claim, node_class)
    except InvalidInputError:
        return
    expected = user_data_of(claim, of_family(family, planted(CLASS, place, _tame(place))))
    assert outline(FAMILIES[family], actual, text) == outline(FAMILIES[family], expected, _tame(place))


def _tame(place: Place) -> str:
    path, is_key = place
    if is_key:
        return HARMLESS
    value: Any = CLASS
    for step in path:
        value = value[step]
    return str(value)
