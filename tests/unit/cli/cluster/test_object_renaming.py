"""What a snapshot without names shows of an object, field by field, and what it replaces."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest

from cli.cluster.object_renaming import ObjectRenaming
from core import labels
from core.catalogue.discovered.node_memory import with_renamed_images

RENAMING = ObjectRenaming(lambda text: f"NS({text})", lambda text: f"N({text})")
GIVEN = {"metadata": {"name": "it"}}
DIGEST = sha256(b"ami-1,ami-2").hexdigest()[:12]
WRITTEN = f'{{"images":"{DIGEST}","mib":{{"m5.large":7600}}}}'


def renamed(**fields: Any) -> dict[str, Any]:
    found = RENAMING.object({**GIVEN, **fields})
    return {key: value for key, value in found.items() if key != "metadata"}


def annotations(**texts: str) -> dict[str, str]:
    found: dict[str, str] = RENAMING.object({"metadata": {"name": "it", "annotations": texts}})["metadata"][
        "annotations"
    ]
    return found


def test_a_namespace_has_one_pseudonym_wherever_it_is_named() -> None:
    labelled = {"kubernetes.io/metadata.name": "shop", "a.example/b": "c"}
    found = RENAMING.object(
        {"kind": "Namespace", "metadata": {"name": "shop", "labels": labelled}, "spec": {"name": "x"}}
    )
    assert found == {
        "kind": "Namespace",
        "metadata": {
            "name": "NS(shop)",
            "labels": {"kubernetes.io/metadata.name": "NS(shop)", "N(a.example/b)": "N(c)"},
        },
        "spec": {"name": "N(x)"},
    }
    assert renamed(namespace="shop", namespaces=["shop", "b"]) == {
        "namespace": "NS(shop)",
        "namespaces": ["NS(shop)", "NS(b)"],
    }
    assert renamed(namespace="") == {"namespace": ""}
    selector = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["shop"]}
    assert renamed(term=selector) == {"term": {**selector, "values": ["NS(shop)"]}}


@pytest.mark.parametrize(
    ("field", "shown", "hidden"),
    [
        ("name", "7", "cart"),
        ("role", "", "nodes"),
        ("providerID", "1.5", "aws:///a/i-1"),
        ("schedulerName", "default-scheduler", "own-scheduler"),
        ("priorityClassName", "system-node-critical", "gold"),
        ("apiVersion", "karpenter.sh/v1", "acme.example/v1"),
        ("group", "karpenter.k8s.aws", "acme.example"),
        ("apiGroup", "apps", "acme.example"),
        ("driver", "ebs.csi.aws.com", "csi.acme.example"),
        ("provisioner", "kubernetes.io/no-provisioner", "csi.acme.example"),
        ("hostIP", "0.0.0.0", "10.0.0.1"),  # noqa: S104 - every address, as Kubernetes writes it
        ("hostIP", "::", "fd00::1"),
        ("owner", "amazon", "123456789012"),
        ("ownerID", "self", "123456789012"),
        ("provisioningStrategy", "buffer.x-k8s.io/active-capacity", "acme.example/own"),
        ("key", "topology.kubernetes.io/zone", "acme.example/team"),
        ("topologyKey", "kubernetes.io/hostname", "rack"),
        ("key", "metadata.name", "name"),
        ("key", "sub.kubernetes.io/x", "kubernetes.io"),
        ("key", "k8s.aws/x", "notk8s.aws/x"),
    ],
)
def test_what_every_cluster_has_is_shown_and_what_one_user_has_is_not(field: str, shown: str, hidden: str) -> None:
    assert renamed(**{field: shown}) == {field: shown}
    assert renamed(**{field: hidden}) == {field: f"N({hidden})"}


def test_other_texts_numbers_and_truth_values_stay() -> None:
    """They are words of the API, such as an operator or an effect, and quantities."""
    spec = {"operator": "In", "effect": "NoSchedule", "weight": 7, "isOn": True, "none": None, "list": [1, "a"]}
    assert renamed(spec=spec) == {"spec": spec}


def test_what_nobody_decides_by_is_left_out() -> None:
    assert renamed(userData="#!/bin/sh", message="denied", context="vpc", kubeletUserData="x", kept=1) == {"kept": 1}
    for source in ("hostPath", "local", "awsElasticBlockStore"):
        assert renamed(**{source: {"path": "/srv/secret", "fsType": "ext4"}}) == {source: {"path": "left-out"}}


@pytest.mark.parametrize("field", ["labels", "matchLabels", "nodeSelector", "tags"])
def test_labels_and_tags_keep_what_kubernetes_and_aws_define(field: str) -> None:
    own = {"topology.kubernetes.io/zone": "eu-west-1a", labels.NODEPOOL: "web", "a.example/b": "c", "n": "17"}
    assert renamed(**{field: own}) == {
        field: {
            "topology.kubernetes.io/zone": "eu-west-1a",
            labels.NODEPOOL: "N(web)",
            "N(a.example/b)": "N(c)",
            "N(n)": "17",
        }
    }
    account = {"topology.kubernetes.io/zone": "123456789012"}
    assert renamed(**{field: account}) == {field: {"topology.kubernetes.io/zone": "N(123456789012)"}}


def test_a_selector_is_a_map_of_labels_or_an_object() -> None:
    assert renamed(selector={"app": "cart"}) == {"selector": {"N(app)": "N(cart)"}}
    mixed = {"selector": {"matchLabels": {"app": "cart"}, "name": "web"}}
    assert renamed(**mixed) == {"selector": {"matchLabels": {"N(app)": "N(cart)"}, "name": "N(web)"}}
    terms = {"matchLabels": {"app": "cart"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]}
    assert renamed(selector=terms) == {
        "selector": {
            "matchLabels": {"N(app)": "N(cart)"},
            "matchExpressions": [{"key": "N(app)", "operator": "Exists"}],
        }
    }


@pytest.mark.parametrize("field", ["requests", "limits", "capacity", "allocatable", "overhead", "allocatedResources"])
def test_amounts_stay_and_resources_of_the_user_are_renamed(field: str) -> None:
    amounts = {"cpu": "2", "nvidia.com/gpu": 1, "hugepages-2Mi": "4Mi", "acme.example/fpga": 1}
    assert renamed(**{field: amounts}) == {
        field: {"cpu": "2", "nvidia.com/gpu": 1, "hugepages-2Mi": "4Mi", "N(acme.example/fpga)": 1}
    }
    assert renamed(**{field: {"inner": {"name": "x"}, "own": "1"}}) == {field: {"inner": {"name": "N(x)"}, "own": "1"}}


def test_resources_are_the_amounts_of_a_node_pool_or_the_requests_of_a_container() -> None:
    assert renamed(resources={"cpu": "8", "acme.example/fpga": 2}) == {
        "resources": {"cpu": "8", "N(acme.example/fpga)": 2}
    }
    of_container = {"requests": {"acme.example/fpga": "1"}, "claims": [{"name": "gpu"}]}
    assert renamed(resources=of_container) == {
        "resources": {"requests": {"N(acme.example/fpga)": "1"}, "claims": [{"name": "N(gpu)"}]}
    }
    assert renamed(resources={}) == {"resources": {}}


def test_lists_of_keys_values_and_drivers() -> None:
    keys = {"matchLabelKeys": ["pod-template-hash", "topology.kubernetes.io/zone"], "mismatchLabelKeys": ["tenant"]}
    assert renamed(**keys) == {
        "matchLabelKeys": ["N(pod-template-hash)", "topology.kubernetes.io/zone"],
        "mismatchLabelKeys": ["N(tenant)"],
    }
    assert renamed(finalizers=["kubernetes.io/pvc-protection", "acme.example/f"]) == {
        "finalizers": ["kubernetes.io/pvc-protection", "N(acme.example/f)"]
    }
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["eu-west-1a"]}
    assert renamed(a=zone, b={**zone, "key": "team"}, c={"values": ["x"]}) == {
        "a": zone,
        "b": {**zone, "key": "N(team)", "values": ["N(eu-west-1a)"]},
        "c": {"values": ["N(x)"]},
    }
    drivers = [{"name": "ebs.csi.aws.com", "nodeID": "i-1"}, {"name": "acme.example", "nodeID": "i-1"}]
    assert renamed(drivers=drivers) == {"drivers": [drivers[0], {**drivers[1], "name": "N(acme.example)"}]}
    assert renamed(clusterDNS=["10.0.0.10", "fd00::a"]) == {"clusterDNS": ["192.0.2.1", "192.0.2.1"]}


def test_a_taint_or_toleration_has_the_value_of_its_key() -> None:
    assert renamed(t=[{"key": "karpenter.sh/capacity-type", "value": "spot"}, {"key": "team", "value": "ads"}]) == {
        "t": [{"key": "karpenter.sh/capacity-type", "value": "spot"}, {"key": "N(team)", "value": "N(ads)"}]
    }
    assert renamed(env={"value": "plain"}) == {"env": {"value": "plain"}}


def test_a_kind_is_the_users_if_its_group_is() -> None:
    assert renamed(ref={"apiVersion": "apps/v1", "kind": "ReplicaSet"}) == {
        "ref": {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
    }
    own = {"apiVersion": "acme.example/v1", "kind": "Job"}
    assert renamed(ref=own) == {"ref": {"apiVersion": "N(acme.example/v1)", "kind": "N(Job)"}}
    assert renamed(ref={"kind": "Job", "apiGroup": "acme.example"})["ref"]["kind"] == "N(Job)"
    assert renamed(ref={"kind": "EC2NodeClass", "group": "karpenter.k8s.aws"})["ref"]["kind"] == "EC2NodeClass"
    assert renamed(ref={"kind": "Pod"}) == {"ref": {"kind": "Pod"}}


@pytest.mark.parametrize(
    ("condition", "is_shown"),
    [
        ({"type": "Ready", "status": "True", "reason": "KubeletReady"}, True),
        ({"type": "karpenter.sh/Own", "status": "True", "reason": "Any"}, True),
        ({"type": "acme.example/gate", "status": "True", "reason": "Released"}, False),
        ({"type": "acme.example/gate", "reason": "Released"}, True),
    ],
)
def test_a_condition_of_the_users_own_type_has_neither_type_nor_reason(
    condition: dict[str, str], is_shown: bool
) -> None:
    hidden = {key: text if key == "status" else f"N({text})" for key, text in condition.items()}
    assert renamed(conditions=[condition]) == {"conditions": [condition if is_shown else hidden]}


def test_of_the_kubelets_settings_amounts_and_numbers_are_shown() -> None:
    given = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "maxPods": 20,
        "kubeReserved": {"cpu": "100m", "acme.example/fpga": "1"},
        "evictionHard": {"memory.available": "5%"},
        "clusterDNS": ["10.0.0.10"],
        "clusterDomain": "acme.local",
        "allowed": ["acme", "1h", {"kind": "Own"}],
        "tracing": {"endpoint": "otel.acme:4317"},
        "staticPodURLHeader": {"Authorization": ["secret"]},
    }
    assert renamed(kubelet=given) == {
        "kubelet": {
            **given,
            "kubeReserved": {"cpu": "100m", "N(acme.example/fpga)": "1"},
            "clusterDNS": ["192.0.2.1"],
            "clusterDomain": "N(acme.local)",
            "allowed": ["N(acme)", "1h", {"kind": "Own"}],
            "tracing": {"endpoint": "N(otel.acme:4317)"},
            "staticPodURLHeader": {},
        }
    }


def test_annotations_that_decisions_read_stay_and_others_go() -> None:
    assert annotations(**{labels.DO_NOT_DISRUPT: "true", "acme.example/note": "ours", labels.CLAIM: "web-1"}) == {
        labels.DO_NOT_DISRUPT: "true",
        labels.CLAIM: "N(web-1)",
    }
    own = {"pv.kubernetes.io/provisioned-by": "csi.acme.example"}
    assert annotations(**own) == {"pv.kubernetes.io/provisioned-by": "N(csi.acme.example)"}
    public = {"pv.kubernetes.io/provisioned-by": "ebs.csi.aws.com"}
    assert annotations(**public) == public


def test_what_was_discovered_for_a_node_class_names_the_same_objects_as_its_terms() -> None:
    texts = {
        labels.RESERVATION_PLACES: '{"cr-1": 3}',
        labels.UPCOMING_RESERVATIONS: '[{"id": "cr-1", "ownerID": "123456789012", "state": "scheduled"}]',
        labels.SUBNET_ADDRESSES: '{"readAt": "2026-07-01T00:00:00Z", "perNode": 2, "free": {"subnet-1": 9}}',
        labels.PLACEMENT_GROUP: '{"id": "pg-1", "name": "fast", "strategy": "cluster"}',
    }
    found = {key: json.loads(text) for key, text in annotations(**texts).items()}
    assert found[labels.RESERVATION_PLACES] == {"N(cr-1)": 3}
    (upcoming,) = found[labels.UPCOMING_RESERVATIONS]
    assert (upcoming["id"], upcoming["ownerID"], upcoming["state"]) == ("N(cr-1)", "N(123456789012)", "scheduled")
    assert found[labels.SUBNET_ADDRESSES] == {
        "readAt": "2026-07-01T00:00:00Z",
        "perNode": 2,
        "free": {"N(subnet-1)": 9},
    }
    assert found[labels.PLACEMENT_GROUP] == {"id": "N(pg-1)", "name": "N(fast)", "strategy": "cluster"}


@pytest.mark.parametrize(
    "key",
    [labels.RESERVATION_PLACES, labels.UPCOMING_RESERVATIONS, labels.SUBNET_ADDRESSES, labels.PLACEMENT_GROUP],
)
@pytest.mark.parametrize("text", ["ours", "[1", "7"])
def test_what_was_not_discovered_but_written_by_somebody_is_left_out(key: str, text: str) -> None:
    """Users may write anything there: it may name what is theirs, and may stop no snapshot."""
    assert annotations(**{key: text}) == {}


def test_the_memory_that_nodes_of_an_image_had_is_kept_for_the_image_of_the_new_name() -> None:
    images = [{"id": "ami-1"}, {"id": "ami-2"}]

    def memory(status: dict[str, Any] | None) -> str | None:
        metadata = {"name": "it", "annotations": {labels.NODE_MEMORY: WRITTEN}}
        found = RENAMING.object({"kind": "EC2NodeClass", "metadata": metadata, "status": status})
        return found["metadata"]["annotations"].get(labels.NODE_MEMORY)

    kept = memory({"amis": images})
    assert kept is not None
    assert with_renamed_images(kept, ["N(ami-1)", "N(ami-2)"], ["ami-1", "ami-2"]) == WRITTEN
    for other in (None, {}, {"amis": None}, {"amis": images[:1]}):
        assert memory(other) is None
    assert "annotations" not in RENAMING.object({"metadata": {"name": "it"}, "status": {"amis": images}})["metadata"]
