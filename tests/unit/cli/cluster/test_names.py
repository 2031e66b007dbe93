"""Nothing in an anonymized snapshot says whose cluster it is: every field is filled with what must not be found again."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from hashlib import sha256
from time import process_time
from typing import Any

import pytest

from cli.cluster.names import ObjectRenaming, Pseudonyms, lean
from cli.manifests.inventory import Document, kind_read
from core import labels
from core.api.older_versions import problems
from core.catalogue.node_class import read_node_class
from core.catalogue.node_memory import SeenMemory, discovered_memory, placement_group_of, with_renamed_images, with_seen
from core.errors import InvalidInputError
from core.manifests.wire.objects import ACTIVE_CAPACITY
from core.manifests.wire.resources import CAPACITY_BUFFERS, NODE_POOLS, NODES, PODS, Resource
from tests.builders import a_class_manifest
from tests.unit.cli.cluster.filled_objects import SERVED, filled

# A snapshot holds what decisions read: neither environments and images nor what other controllers noted.


SINCE = "2026-11-20T00:00:00Z"


def pod(**fields: Any) -> dict[str, Any]:
    return lean(PODS, {"metadata": {"name": "p"}, **fields})


def test_a_list_without_kinds_gives_objects_with_them_in_a_namespace() -> None:
    """Items of a list of the API server have neither apiVersion nor kind."""
    assert pod() == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
    assert pod(metadata={"name": "p", "namespace": "shop"})["metadata"] == {"name": "p", "namespace": "shop"}
    assert "namespace" not in lean(NODES, {"metadata": {"name": "n"}})["metadata"]
    assert lean(NODE_POOLS, {"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool"}) == {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodePool",
        "metadata": {},
    }


def test_of_a_pod_stays_what_places_it() -> None:
    container = {"name": "c", "image": "acme/cart", "env": [{"name": "TOKEN", "value": "x"}]}
    requests = {"resources": {"requests": {"cpu": "1"}}}
    found = pod(spec={"containers": [{**container, **requests}], "nodeName": "n1", "priority": 7, "hostname": "h"})
    assert found["spec"] == {"containers": [{"name": "c", **requests}], "nodeName": "n1", "priority": 7}
    assert "boundTo" not in found
    assert "nodeName" not in pod(spec={"containers": [container]})["spec"]


def test_moments_are_written_as_texts() -> None:
    found = pod(metadata={"name": "p", "namespace": "a", "creationTimestamp": SINCE, "resourceVersion": "17"})
    assert found["metadata"] == {"name": "p", "namespace": "a", "creationTimestamp": SINCE}


@pytest.mark.parametrize(
    ("annotation", "is_kept"),
    [
        ("karpenter.sh/do-not-disrupt", True),
        ("compatibility.karpenter.sh/x", True),
        ("notkarpenter.sh/x", False),
        ("karpenter.k8s.aws/ec2nodeclass-hash", True),
        ("pv.kubernetes.io/provisioned-by", True),
        ("controller.kubernetes.io/pod-deletion-cost", True),
        ("storageclass.kubernetes.io/is-default-class", True),
        ("kubectl.kubernetes.io/last-applied-configuration", False),
        ("acme.example/owner", False),
        (labels.CLAIM, True),
        (labels.CLAIM_SPEC, False),
        (labels.DECISION, False),
        (labels.LAUNCH_VALIDATION, False),
    ],
)
def test_annotations_stay_that_decisions_read(annotation: str, is_kept: bool) -> None:
    metadata = {"name": "x", "namespace": "a", "annotations": {annotation: "v"}}
    kept = {"annotations": {annotation: "v"}} if is_kept else {}
    template = {"metadata": metadata, "spec": {"expireAfter": "1h"}}
    pool = lean(NODE_POOLS, {"metadata": metadata, "spec": {"template": template, "weight": 3}})
    assert pool["metadata"] == {"name": "x", "namespace": "a", **kept}
    assert pool["spec"] == {
        "template": {"metadata": {"name": "x", "namespace": "a", **kept}, "spec": {"expireAfter": "1h"}},
        "weight": 3,
    }


def test_of_a_pod_fewer_annotations_are_read() -> None:
    read = {labels.DO_NOT_DISRUPT: "true", labels.POD_DELETION_COST: "5"}
    found = pod(metadata={"name": "p", "namespace": "a", "annotations": {**read, "acme.example/owner": "x"}})
    assert found["metadata"]["annotations"] == read


def test_metadata_that_only_the_api_server_reads_goes() -> None:
    unread = {"managedFields": [{}], "resourceVersion": "1", "selfLink": "/a", "generateName": "x-"}
    empty = {"labels": {}, "finalizers": [], "namespace": "", "uid": None}
    assert lean(NODE_POOLS, {"metadata": {"name": "x", "generation": 3, **unread, **empty}})["metadata"] == {
        "name": "x",
        "generation": 3,
    }


@pytest.mark.parametrize("spec", [None, {}, {"template": None}, {"template": {"metadata": None}}])
def test_a_pool_without_a_template_stays_as_it_is(spec: Any) -> None:
    assert lean(NODE_POOLS, {"metadata": {"name": "x"}, "spec": spec})["spec"] == spec


def test_a_field_of_the_wrong_type_is_named() -> None:
    with pytest.raises(InvalidInputError, match="priority"):
        pod(spec={"containers": [], "priority": "high"})


# What a snapshot without names shows of an object, field by field, and what it replaces.


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


def test_an_entry_of_a_quota_keeps_what_it_limits() -> None:
    """A quota counts `requests.cpu` and `count/pods`, but not the user's own resource by its name."""
    hard = {"requests.cpu": "8", "limits.memory": "1Gi", "pods": "9", "count/pods": "9", "requests.acme.example/x": 1}
    assert renamed(hard=hard) == {
        "hard": {**dict(list(hard.items())[:4]), "requests.N(acme.example/x)": 1},
    }


def test_a_type_with_the_users_domain_and_a_controller_of_theirs_are_renamed() -> None:
    """An entry of a LimitRange may have such a type (validateLimitRangeTypeName), and it has no status."""
    assert renamed(type="acme.example/Type", managedBy="acme.example/queue") == {
        "type": "N(acme.example/Type)",
        "managedBy": "N(acme.example/queue)",
    }
    public = {"type": "RollingUpdate", "managedBy": "kubernetes.io/job-controller"}
    assert renamed(**public) == public


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


def test_what_was_discovered_for_a_node_class_names_the_same_objects_as_its_terms() -> None:
    texts = {
        labels.RESERVATION_PLACES: '{"cr-1": 3}',
        labels.UPCOMING_RESERVATIONS: '[{"id": "cr-1", "ownerID": "123456789012", "state": "scheduled"}]',
        labels.SUBNET_ADDRESSES: '{"readAt": "2026-07-01T00:00:00Z", "perNode": 2, "free": {"subnet-1": 9}}',
        labels.PLACEMENT_GROUP: '{"id": "pg-1", "name": "fast", "strategy": "cluster"}',
    }
    limits = {labels.SHARED_LIMITS: "team:cpu=4, all:nodes=2"}
    assert annotations(**limits) == {labels.SHARED_LIMITS: "N(team):cpu=4,N(all):nodes=2"}
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


ACCOUNT, ADDRESS, IDENTIFIER = "123456789012", "10.99.0.10", "0a1b2c3d4e5f60718"
HASH = "8129873498723498"
TELLING = re.compile(f"hush|{ACCOUNT}|{re.escape(ADDRESS)}|{IDENTIFIER}|{HASH}", re.IGNORECASE)

METADATA = {"name": "hush", "namespace": "hush", "finalizers": ["hush.example/f"], "labels": {"hush.example/l": "hush"}}
OWNER = {"apiVersion": "hush.example/v1", "kind": "HushJob", "name": "hush", "uid": "hush", "controller": True}

NODE_CLASS = a_class_manifest(
    "hush",
    metadata={
        "annotations": {
            labels.NODECLASS_HASH: HASH,
            labels.LAUNCH_VALIDATION: f'{{"message":"arn:aws:iam::{ACCOUNT}:role/hush"}}',
            labels.RESERVATION_PLACES: f'{{"cr-{IDENTIFIER}":3}}',
            labels.SUBNET_ADDRESSES: f'{{"readAt":"2026-07-01T00:00:00Z","perNode":1,"free":{{"subnet-{IDENTIFIER}":3}}}}',
            labels.UPCOMING_RESERVATIONS: f'[{{"id":"cr-{IDENTIFIER}","ownerID":"{ACCOUNT}","state":"scheduled"}}]',
            labels.PLACEMENT_GROUP: f'{{"id":"pg-{IDENTIFIER}","name":"hush","strategy":"partition","partitions":3}}',
            "karpenter.sh/note": "hush",
        }
    },
    amiFamily="AL2023",
    role="hush",
    subnetSelectorTerms=[{"id": f"subnet-{IDENTIFIER}"}, {"tags": {"hush": "*", "account": ACCOUNT}}],
    securityGroupSelectorTerms=[{"id": f"sg-{IDENTIFIER}"}, {"name": "hush"}],
    amiSelectorTerms=[
        {"id": f"ami-{IDENTIFIER}"},
        {"name": "hush", "owner": ACCOUNT},
        {"ssmParameter": "/hush/ami"},
    ],
    capacityReservationSelectorTerms=[
        {"id": f"cr-{IDENTIFIER}"},
        {"ownerID": ACCOUNT, "instanceMatchCriteria": "open"},
    ],
    placementGroupSelector={"name": "hush"},
    kubelet={"clusterDNS": [ADDRESS]},
    tags={"hush": ACCOUNT},
    blockDeviceMappings=[
        {"deviceName": "/dev/xvda", "ebs": {"kmsKeyID": f"arn:aws:kms:x:{ACCOUNT}:key/hush", "volumeSize": "20Gi"}}
    ],
    userData="hush",
)
OBJECTS: list[dict[str, Any]] = [
    NODE_CLASS,
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**METADATA, "ownerReferences": [OWNER]},
        "spec": {
            "schedulerName": "hush",
            "containers": [
                {"name": "hush", "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": ADDRESS}]},
            ],
        },
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "hush.example/gate", "status": "True", "reason": "HushReason", "message": "hush"}],
        },
    },
    {"apiVersion": "v1", "kind": "Service", "metadata": METADATA, "spec": {"selector": {"app": "hush"}}},
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            **METADATA,
            "annotations": {
                "volume.beta.kubernetes.io/storage-class": "hush",
                "pv.kubernetes.io/provisioned-by": "hush.csi.example",
            },
        },
        "spec": {"volumeName": "hush"},
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "hush"},
        "spec": {"csi": {"driver": "hush.csi.example", "volumeHandle": "hush"}},
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "hush"},
        "provisioner": "hush.csi.example",
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "hush"},
        "spec": {
            "drivers": [{"name": "hush.csi.example", "nodeID": "hush"}, {"name": "ebs.csi.aws.com", "nodeID": "x"}]
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "hush",
            "labels": {
                "hush.example/l": "hush",
                labels.RESERVATION_ID: f"cr-{IDENTIFIER}",
                labels.PLACEMENT_GROUP_ID: f"pg-{IDENTIFIER}",
            },
            "annotations": {labels.MADE_BY_HAND: "hush", labels.CLAIM: "hush", labels.COMMITMENT: "hush"},
        },
        "spec": {"providerID": f"aws:///us-east-1a/i-{IDENTIFIER}"},
        "status": {"addresses": [{"type": "InternalIP", "address": ADDRESS}]},
    },
]


def leaned(obj: dict[str, Any]) -> dict[str, Any]:
    resource = kind_read(Document("-", 0, obj))
    assert resource is not None
    return lean(resource, obj)


def hidden(*objects: dict[str, Any]) -> list[dict[str, Any]]:
    items = [leaned(copy.deepcopy(obj)) for obj in objects]
    return [*map(Pseudonyms(items).of, items)]


@pytest.mark.parametrize("obj", OBJECTS, ids=lambda obj: obj["kind"])
def test_nothing_tells_whose_it_is(obj: dict[str, Any]) -> None:
    """An account's id, addresses, keys, drivers and hashes of names say as much as the names do."""
    assert TELLING.search(json.dumps(obj))
    assert TELLING.findall(json.dumps(hidden(obj))) == []


@pytest.mark.parametrize("resource", SERVED, ids=lambda resource: resource.kind)
def test_no_field_of_any_kind_tells_whose_it_is(resource: Resource) -> None:
    """Objects are made from the types that decode them and from the CRDs: a field that is added is filled, too."""
    obj = filled(resource)
    assert TELLING.search(json.dumps(lean(resource, obj)))
    (found,) = hidden(obj)
    assert [*told(found)] == []


def test_a_field_that_its_kind_lacks_is_left_out() -> None:
    """A misspelt `userData` in a file would be shown as it is."""
    class_spec = {
        "role": "Nodes",
        "userdata": "hush",
        "metadataOptions": {"httpToken": "hush", "httpTokens": "required"},
    }
    disruption = {"budgets": [{"nodes": "1", "why": "hush"}]}
    shown = hidden(
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": "a"},
            "spec": class_spec,
        },
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "b"},
            "spec": {"disruption": disruption},
        },
    )
    assert "hush" not in json.dumps(shown)
    assert shown[0]["spec"]["metadataOptions"] == {"httpTokens": "required"}
    assert shown[1]["spec"]["disruption"]["budgets"] == [{"nodes": "1"}]


def told(value: Any, path: str = "") -> Iterator[str]:
    """Where in an object a text of the user still is."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if TELLING.search(key):
                yield f"{path}.{key}"
            yield from told(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from told(inner, f"{path}[]")
    elif isinstance(value, str) and TELLING.search(value):
        yield f"{path} = {value}"


def test_settings_of_the_kubelet_that_size_nodes_are_shown() -> None:
    """The plan of the snapshot is that of the cluster; what names hosts, files and images is hidden."""
    shown = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "maxPods": 20,
        "podsPerCore": 4,
        "kubeReserved": {"cpu": "100m", "memory": "1.5Gi"},
        "evictionHard": {"memory.available": "5%", "nodefs.available": "500Mi"},
        "evictionSoftGracePeriod": {"memory.available": "1m30s"},
        "cpuCFSQuota": True,
    }
    hush = {"clusterDomain": "hush.example", "tracing": {"endpoint": "otel.hush:4317"}, "reservedSystemCPUs": "0-3"}
    secret = {"staticPodURLHeader": {"Authorization": ["hush"]}, "podCIDR": "10.99.0.0/24"}
    (found,) = hidden(a_class_manifest("hush", kubelet=shown | hush | secret))
    kubelet = found["spec"]["kubelet"]
    assert {name: kubelet[name] for name in shown} == shown
    assert kubelet.keys() == {*shown, *hush, *secret}
    assert kubelet["staticPodURLHeader"] == {}
    assert TELLING.findall(json.dumps(kubelet)) == []


@pytest.mark.parametrize(
    "text", ["0", "-1", "1.5Gi", "250m", "20%", "1h30m", "1h2m3.5s", "10ms", "100µs", "1e3", "16E", "99999Mi"]
)
def test_an_amount_is_shown(text: str) -> None:
    assert the_setting(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("9f86d081884c7d65", "0a1b2c3d4e5f60718293", "1a2b3c", "12ab", "1.2.3", "10.20s30", "4Gib"),
        *(ACCOUNT, f"+{ACCOUNT}", f"{ACCOUNT}m", f"1.{ACCOUNT}", "1" * 500, "1s" * 500),
    ],
)
def test_a_text_that_only_looks_like_an_amount_is_hidden(text: str) -> None:
    """Tokens of digits and letters were shown, and the number of an account."""
    assert the_setting(text) != text


def test_the_number_of_an_account_is_hidden_in_labels_and_in_what_selects_them_alike() -> None:
    """The label was hidden and the requirement was not: it showed the account, and selected nothing any more."""
    term = {"matchExpressions": [{"key": "hush.example/of", "operator": "In", "values": [ACCOUNT, "7"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    spec = {"nodeSelector": {"hush.example/of": ACCOUNT}, "containers": [], "affinity": affinity}
    (found,) = hidden({"apiVersion": "v1", "kind": "Pod", "metadata": METADATA, "spec": spec})
    (selected,) = found["spec"]["nodeSelector"].values()
    ((_, required),) = found["spec"]["affinity"]["nodeAffinity"].items()
    ((expression,),) = (one["matchExpressions"] for one in required["nodeSelectorTerms"])
    assert selected != ACCOUNT
    assert expression["values"] == [selected, "7"]


def the_setting(text: str) -> Any:
    """A setting of the kubelet as the snapshot has it."""
    (found,) = hidden(a_class_manifest("hush", kubelet={"setting": text}))
    return found["spec"]["kubelet"]["setting"]


def test_long_texts_take_no_time() -> None:
    """24 digits and a hyphen took four seconds, and each further digit twice as long."""
    began = process_time()
    for text in ("1" * 400 + "-", "1m" * 400 + "-", "1.1" * 400):
        assert the_setting(text) != text
    assert process_time() - began < 1


def test_the_only_strategy_of_buffers_that_is_followed_stays() -> None:
    buffer = filled(CAPACITY_BUFFERS)
    buffer["spec"]["provisioningStrategy"] = ACTIVE_CAPACITY
    assert hidden(buffer)[0]["spec"].get("provisioningStrategy", ACTIVE_CAPACITY) == ACTIVE_CAPACITY


def test_a_node_class_stays_a_valid_one() -> None:
    """A plan with an invalid class is another plan."""
    assert problems(leaned(NODE_CLASS)) == ()
    (renamed,) = hidden(NODE_CLASS)
    assert problems(renamed) == ()
    places = json.loads(renamed["metadata"]["annotations"][labels.RESERVATION_PLACES])
    assert list(places) == [renamed["spec"]["capacityReservationSelectorTerms"][0]["id"]]
    (upcoming,) = json.loads(renamed["metadata"]["annotations"][labels.UPCOMING_RESERVATIONS])
    assert upcoming["id"] == renamed["spec"]["capacityReservationSelectorTerms"][0]["id"]
    addresses = json.loads(renamed["metadata"]["annotations"][labels.SUBNET_ADDRESSES])
    assert addresses["free"] == {renamed["spec"]["subnetSelectorTerms"][0]["id"]: 3}
    assert renamed["spec"]["subnetSelectorTerms"][1]["tags"].popitem()[1] != ACCOUNT
    assert "*" in renamed["spec"]["subnetSelectorTerms"][1]["tags"].values()


def test_nodes_stay_in_their_reservation_and_placement_group() -> None:
    """If one of both names were another, the places of the nodes would count as free."""
    status = {"capacityReservations": [{"id": f"cr-{IDENTIFIER}"}]}
    found = copy.deepcopy(NODE_CLASS)
    found["status"] = status
    node_class, node = hidden(found, OBJECTS[-1])
    group = placement_group_of(read_node_class(node_class))
    assert group is not None
    assert (group.strategy, group.partitions) == ("partition", 3)
    assert node["metadata"]["labels"][labels.PLACEMENT_GROUP_ID] == group.id
    reservation = node_class["status"]["capacityReservations"][0]["id"]
    assert node["metadata"]["labels"][labels.RESERVATION_ID] == reservation


@pytest.mark.parametrize("text", ["", "hush", "[1]"])
def test_an_annotation_that_cannot_be_read_is_left_out(text: str) -> None:
    keys = (labels.PLACEMENT_GROUP, labels.RESERVATION_PLACES, labels.SUBNET_ADDRESSES, labels.UPCOMING_RESERVATIONS)
    metadata = {"annotations": dict.fromkeys(keys, text)}
    (renamed,) = hidden(a_class_manifest(metadata=metadata))
    assert not renamed["metadata"].get("annotations")


def test_a_service_selects_the_same_pods() -> None:
    """By Services pods are spread by default."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "hush"}}, "spec": {}}
    service, renamed = hidden(OBJECTS[2], pod)
    assert service["spec"]["selector"] == renamed["metadata"]["labels"]


def test_the_parts_of_a_volume_stay_together() -> None:
    """The driver of a claim's class limits how many volumes a node takes."""
    claim, volume, storage_class, node = hidden(*OBJECTS[3:7])
    driver = volume["spec"]["csi"]["driver"]
    assert claim["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == driver
    assert (
        claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"] == storage_class["metadata"]["name"]
    )
    assert [storage_class["provisioner"], "ebs.csi.aws.com"] == [driver, node["spec"]["drivers"][1]["name"]]
    assert node["spec"]["drivers"][0]["name"] == driver


def test_memory_that_nodes_have_shown_counts_for_the_renamed_images() -> None:
    """It is kept under a digest of the images' ids."""
    status = {"amis": [{"id": f"ami-{IDENTIFIER}", "name": "hush"}]}
    seen = with_seen(
        read_node_class(a_class_manifest(status=status)), [SeenMemory("m5.large", f"ami-{IDENTIFIER}", 7 << 30)]
    )
    for written, known in ((seen, (("m5.large", 7168),)), ('{"images":"other","mib":{"m5.large":1}}', ())):
        (renamed,) = hidden(a_class_manifest(status=status, metadata={"annotations": {labels.NODE_MEMORY: written}}))
        assert not TELLING.search(json.dumps(renamed))
        assert discovered_memory(read_node_class(renamed)) == known
