"""A snapshot holds what decisions read: neither environments and images nor what other controllers noted."""

from __future__ import annotations

from typing import Any

import pytest

from cli.cluster.lean_objects import lean
from core import labels
from core.errors import InvalidInputError
from core.manifests.wire.api_resources import NODE_POOLS, NODES, PODS

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
