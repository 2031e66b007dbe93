"""Objects of v1beta1 in v1: the same meaning in other fields."""

from __future__ import annotations

import copy
import json

import pytest

from core.api import v1beta1
from core.api.objects import JsonObject

KUBELET = {"maxPods": 20}


def an_object(kind: str, **spec: object) -> JsonObject:
    group = "karpenter.k8s.aws" if kind == "EC2NodeClass" else "karpenter.sh"
    return {"apiVersion": f"{group}/v1beta1", "kind": kind, "metadata": {"name": "old"}, "spec": spec}


def a_pool(disruption: JsonObject | None = None, **template: object) -> JsonObject:
    return an_object(
        "NodePool", template={"spec": template}, **({} if disruption is None else {"disruption": disruption})
    )


def test_the_old_object_stays_as_it_is() -> None:
    old = a_pool(kubelet=KUBELET, nodeClassRef={"name": "c"})
    before = copy.deepcopy(old)
    v1beta1.node_pool(old)
    assert old == before


def test_the_kubelets_configuration_moves_to_an_annotation() -> None:
    """In v1 it belongs to the class, which other NodePools share."""
    new = v1beta1.node_claim(an_object("NodeClaim", kubelet=KUBELET, nodeClassRef={"name": "c"}))
    assert json.loads(new["metadata"]["annotations"][v1beta1.KUBELET_ANNOTATION]) == KUBELET
    assert "kubelet" not in new["spec"]


@pytest.mark.parametrize(
    "reference", [{"name": "c"}, {"name": "c", "apiVersion": "karpenter.k8s.aws/v1beta1", "kind": ""}]
)
def test_a_class_is_named_with_group_and_kind(reference: JsonObject) -> None:
    new = v1beta1.node_claim(an_object("NodeClaim", nodeClassRef=reference))
    assert new["spec"]["nodeClassRef"] == {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"}
    assert new["apiVersion"] == "karpenter.sh/v1"


@pytest.mark.parametrize(
    ("spec", "family", "terms"),
    [
        ({"amiFamily": "AL2023"}, None, [{"alias": "al2023@latest"}]),
        ({}, None, [{"alias": "al2@latest"}]),
        ({"amiFamily": "AL2023", "amiSelectorTerms": [{"id": "ami-1"}]}, "AL2023", [{"id": "ami-1"}]),
        ({"amiSelectorTerms": [{"id": "ami-1"}]}, "Custom", [{"id": "ami-1"}]),
        ({"amiFamily": "Ubuntu"}, "AL2", [{"id": v1beta1.PLACEHOLDER_AMI}]),
    ],
)
def test_a_family_becomes_an_alias_where_it_has_one(
    spec: JsonObject, family: str | None, terms: list[JsonObject]
) -> None:
    new = v1beta1.node_class(an_object("EC2NodeClass", **spec))
    assert (new["spec"].get("amiFamily"), new["spec"]["amiSelectorTerms"]) == (family, terms)


def test_ubuntu_says_what_was_changed_for_it() -> None:
    new = v1beta1.node_class(an_object("EC2NodeClass", amiFamily="Ubuntu", blockDeviceMappings=[]))
    assert new["metadata"]["annotations"][v1beta1.UBUNTU_ANNOTATION] == "amiFamily,incompatible"


def test_metadata_options_keep_the_defaults_of_the_old_version() -> None:
    """v1 has a hop limit of one, on which pods that read the metadata service fail."""
    given = v1beta1.node_class(an_object("EC2NodeClass", metadataOptions={"httpTokens": "optional"}))
    options = given["spec"]["metadataOptions"]
    assert (options["httpTokens"], options["httpPutResponseHopLimit"]) == ("optional", 2)


def test_ubuntu_keeps_its_root_volume() -> None:
    """Its images boot from another device than AL2's."""
    old = {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "metadata": {"name": "u"}}
    root = {"encrypted": True, "volumeType": "gp3", "volumeSize": "20Gi"}
    assert v1beta1.node_class({**old, "spec": {"amiFamily": "Ubuntu"}})["spec"]["blockDeviceMappings"] == [
        {"deviceName": "/dev/sda1", "rootVolume": True, "ebs": root}
    ]
    own = [{"deviceName": "/dev/sdb"}]
    given = {**old, "spec": {"amiFamily": "Ubuntu", "blockDeviceMappings": own}}
    assert v1beta1.node_class(given)["spec"]["blockDeviceMappings"] == own


@pytest.mark.parametrize(
    ("written", "expiry"), [(3600, "3600s"), (0, "0s"), ("1h", "1h"), ("Never", "Never"), (True, True)]
)
def test_a_bare_number_is_seconds(written: object, expiry: object) -> None:
    """Old manifests may have one; a truth value is left to validation."""
    new = v1beta1.node_pool(a_pool({"expireAfter": written}))
    assert new["spec"]["template"]["spec"]["expireAfter"] == expiry


def test_kubelet_settings_are_written_in_one_order() -> None:
    """Pools with equal settings share a class."""
    ways = ({"maxPods": 20, "clusterDNS": []}, {"clusterDNS": [], "maxPods": 20})
    texts = {
        v1beta1.node_pool(a_pool(kubelet=way))["metadata"]["annotations"][v1beta1.KUBELET_ANNOTATION] for way in ways
    }
    assert texts == {'{"clusterDNS": [], "maxPods": 20}'}


def test_a_class_of_another_provider_keeps_its_group() -> None:
    reference = {"name": "c", "apiVersion": "karpenter.azure.com/v1beta1", "kind": "AKSNodeClass"}
    new = v1beta1.node_claim(an_object("NodeClaim", nodeClassRef=reference))
    assert new["spec"]["nodeClassRef"] == {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "c"}


def test_ubuntu_names_each_change() -> None:
    new = v1beta1.node_class(an_object("EC2NodeClass", amiFamily="Ubuntu", amiSelectorTerms=[{"id": "ami-1"}]))
    assert new["metadata"]["annotations"][v1beta1.UBUNTU_ANNOTATION] == "amiFamily,blockDeviceMappings"
    assert new["spec"]["amiSelectorTerms"] == [{"id": "ami-1"}]
