"""Older API versions keep their meaning in v1, and the result is valid."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from core import api
from core.api import older_versions
from core.api.objects import JsonObject
from core.api.older_versions import MODELS, problems
from core.errors import InvalidInputError
from tests.unit.api.objects import ABSENT, NODE_CLAIM, NODE_CLASS, NODE_OVERLAY, NODE_POOL, changed

TERMS = [{"tags": {"karpenter.sh/discovery": "demo"}}]


def a_beta_pool(name: str = "default", disruption: JsonObject | None = None, **template: Any) -> JsonObject:
    spec = {"nodeClassRef": {"name": "default"}, "requirements": [], **template}
    obj: JsonObject = {"template": {"spec": spec}} | ({} if disruption is None else {"disruption": disruption})
    return {"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "metadata": {"name": name}, "spec": obj}


def a_beta_class(**spec: Any) -> JsonObject:
    common = {"role": "nodes", "subnetSelectorTerms": TERMS, "securityGroupSelectorTerms": TERMS}
    metadata = {"name": "default"}
    full = {"amiFamily": "AL2023", **common, **spec}
    return {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "metadata": metadata, "spec": full}


def a_provisioner(**spec: Any) -> JsonObject:
    full = {"providerRef": {"name": "default"}, **spec}
    return {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "default"}, "spec": full}


def a_template(**spec: Any) -> JsonObject:
    selector = {"karpenter.sh/discovery": "demo"}
    full = {"instanceProfile": "nodes", "subnetSelector": selector, "securityGroupSelector": selector, **spec}
    metadata = {"name": "default"}
    return {"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "metadata": metadata, "spec": full}


def converted(old: JsonObject) -> JsonObject:
    before = copy.deepcopy(old)
    new = api.as_v1(old)
    assert old == before, "the input is never changed"
    assert api.problems(new) == ()
    spec: JsonObject = new["spec"]
    return spec


@pytest.mark.parametrize(
    ("old", "expiry", "policy", "after"),
    [
        (None, "720h", "WhenEmptyOrUnderutilized", "0s"),
        (
            {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "Never"},
            "Never",
            "WhenEmptyOrUnderutilized",
            "0s",
        ),
        ({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"}, "720h", "WhenEmpty", "30s"),
        ({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}, "720h", "WhenEmpty", "Never"),
        ({"consolidationPolicy": "WhenEmpty"}, "720h", "WhenEmpty", "Never"),
    ],
)
def test_the_disruption_block_keeps_its_meaning(old: JsonObject | None, expiry: str, policy: str, after: str) -> None:
    spec = converted(a_beta_pool(disruption=old))
    assert spec["template"]["spec"]["expireAfter"] == expiry
    assert spec["disruption"]["consolidationPolicy"] == policy
    assert spec["disruption"]["consolidateAfter"] == after
    assert "expireAfter" not in spec["disruption"]


def test_budgets_limits_and_weight_stay() -> None:
    old = a_beta_pool(disruption={"budgets": [{"nodes": "0", "schedule": "@daily", "duration": "1h"}]})
    old["spec"] |= {"limits": {"cpu": "10"}, "weight": 7}
    spec = converted(old)
    assert spec["disruption"]["budgets"] == [{"nodes": "0", "schedule": "@daily", "duration": "1h"}]
    assert (spec["limits"], spec["weight"]) == ({"cpu": "10"}, 7)


@pytest.mark.parametrize(
    "reference",
    [
        {"name": "default"},
        {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "default"},
    ],
)
def test_a_class_is_named_by_group_without_version(reference: JsonObject) -> None:
    spec = converted(a_beta_pool(nodeClassRef=reference))
    expected = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    assert spec["template"]["spec"]["nodeClassRef"] == expected


@pytest.mark.parametrize(
    ("changes", "family", "terms"),
    [
        ({"amiFamily": "AL2"}, None, [{"alias": "al2@latest"}]),
        ({"amiFamily": "Windows2019"}, None, [{"alias": "windows2019@latest"}]),
        ({"amiFamily": "AL2", "amiSelectorTerms": [{"id": "ami-1"}]}, "AL2", [{"id": "ami-1"}]),
        ({"amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-1"}]}, "Custom", [{"id": "ami-1"}]),
        ({"amiFamily": "Ubuntu", "amiSelectorTerms": [{"id": "ami-1"}]}, "AL2", [{"id": "ami-1"}]),
    ],
)
def test_a_family_without_images_becomes_an_alias(changes: JsonObject, family: str | None, terms: list[Any]) -> None:
    spec = converted(a_beta_class(**changes))
    assert (spec.get("amiFamily"), spec["amiSelectorTerms"]) == (family, terms)


def test_ubuntu_keeps_its_root_volume_and_says_that_it_needs_images() -> None:
    new = api.as_v1(a_beta_class(amiFamily="Ubuntu"))
    assert new["spec"]["blockDeviceMappings"][0]["deviceName"] == "/dev/sda1"
    assert any("Ubuntu" in remark for remark in older_versions.remarks(new))


def test_the_metadata_hop_limit_stays_two() -> None:
    """v1 defaults to one hop, at which pods lose the instance metadata that they may rely on."""
    assert converted(a_beta_class())["metadataOptions"]["httpPutResponseHopLimit"] == 2
    assert converted(a_beta_class(metadataOptions={"httpPutResponseHopLimit": 1}))["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 1,
        "httpTokens": "required",
    }


@pytest.mark.parametrize(
    ("spec", "expiry", "policy", "after"),
    [
        ({}, "Never", "WhenEmpty", "Never"),
        ({"consolidation": {"enabled": True}}, "Never", "WhenEmptyOrUnderutilized", "0s"),
        ({"consolidation": {"enabled": False}}, "Never", "WhenEmpty", "Never"),
        ({"ttlSecondsAfterEmpty": 0}, "Never", "WhenEmpty", "0s"),
        ({"ttlSecondsAfterEmpty": 30, "ttlSecondsUntilExpired": 3600}, "3600s", "WhenEmpty", "30s"),
    ],
)
def test_a_provisioner_s_times_become_a_policy(spec: JsonObject, expiry: str, policy: str, after: str) -> None:
    new = converted(a_provisioner(**spec))
    assert new["template"]["spec"]["expireAfter"] == expiry
    assert new["disruption"] == {"consolidationPolicy": policy, "consolidateAfter": after}


def test_requirements_that_the_old_webhook_added_are_written_out() -> None:
    """Without them a Provisioner that said nothing would start to launch Windows, arm64 and spot."""
    entries = converted(a_provisioner())["template"]["spec"]["requirements"]
    assert {entry["key"]: entry["values"] for entry in entries} == {
        "kubernetes.io/os": ["linux"],
        "kubernetes.io/arch": ["amd64"],
        "karpenter.sh/capacity-type": ["on-demand"],
        "karpenter.k8s.aws/instance-category": ["c", "m", "r"],
        "karpenter.k8s.aws/instance-generation": ["2"],
    }


def test_requirements_that_were_given_are_not_added_to() -> None:
    given = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
        {"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["arm64"]},
    ]
    new = converted(a_provisioner(requirements=given, labels={"kubernetes.io/os": "linux"}))
    assert new["template"]["spec"]["requirements"] == given


def test_all_other_provisioner_fields_are_converted() -> None:
    new = converted(
        a_provisioner(
            labels={"team": "a"},
            annotations={"karpenter.sh/do-not-consolidate": "true"},
            taints=[{"key": "a", "effect": "NoSchedule"}],
            startupTaints=[{"key": "s", "effect": "NoExecute"}],
            limits={"resources": {"cpu": "100"}},
            weight=3,
        )
    )
    assert (new["limits"], new["weight"]) == ({"cpu": "100"}, 3)
    template = new["template"]
    assert template["metadata"] == {"labels": {"team": "a"}, "annotations": {"karpenter.sh/do-not-disrupt": "true"}}
    assert template["spec"]["taints"] == [{"key": "a", "effect": "NoSchedule"}]
    assert template["spec"]["startupTaints"] == [{"key": "s", "effect": "NoExecute"}]


@pytest.mark.parametrize(
    ("selector", "terms"),
    [
        ({"aws-ids": "subnet-1, subnet-2"}, [{"id": "subnet-1"}, {"id": "subnet-2"}]),
        ({"aws::ids": "subnet-1"}, [{"id": "subnet-1"}]),
        ({"a": "b", "c": "*"}, [{"tags": {"a": "b", "c": "*"}}]),
        ({"Name": "x,y", "a": "b"}, [{"tags": {"Name": "x", "a": "b"}}, {"tags": {"Name": "y", "a": "b"}}]),
    ],
)
def test_a_selector_becomes_one_term_for_each_choice(selector: JsonObject, terms: list[JsonObject]) -> None:
    assert converted(a_template(subnetSelector=selector))["subnetSelectorTerms"] == terms


@pytest.mark.parametrize(
    ("selector", "terms"),
    [
        ({"aws::ids": "ami-1,ami-2"}, [{"id": "ami-1"}, {"id": "ami-2"}]),
        ({"aws::name": "a,b"}, [{"name": "a"}, {"name": "b"}]),
        (
            {"aws::name": "a", "aws::owners": "self,amazon"},
            [{"name": "a", "owner": "self"}, {"name": "a", "owner": "amazon"}],
        ),
        ({"team": "x", "aws::owners": "self"}, [{"owner": "self", "tags": {"team": "x"}}]),
    ],
)
def test_images_are_selected_by_every_name_and_owner(selector: JsonObject, terms: list[JsonObject]) -> None:
    new = converted(a_template(amiSelector=selector))
    assert (new["amiFamily"], new["amiSelectorTerms"]) == ("AL2", terms)


def test_a_template_without_a_profile_gets_a_role_to_fill_in() -> None:
    new = api.as_v1(a_template(instanceProfile=None))
    assert "instanceProfile" not in new["spec"]
    assert any("spec.role" in remark for remark in older_versions.remarks(new))


def test_a_users_own_launch_template_cannot_be_converted() -> None:
    with pytest.raises(InvalidInputError, match=r"AWSNodeTemplate default: spec\.launchTemplate"):
        api.as_v1(a_template(launchTemplate="mine"))
    assert [p.field for p in api.problems(a_template(launchTemplate="mine"))] == ["spec.launchTemplate"]


def test_a_provider_inside_a_provisioner_becomes_a_class() -> None:
    inside = a_template(amiFamily="Bottlerocket")["spec"]
    pool, node_class = api.all_as_v1([a_provisioner(providerRef=None, provider=inside)])
    assert pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] == node_class["metadata"]["name"] == "default"
    assert node_class["spec"]["amiSelectorTerms"] == [{"alias": "bottlerocket@latest"}]
    assert api.problems(node_class) == ()


def test_the_kubelet_s_settings_move_to_the_class() -> None:
    pool, node_class = api.all_as_v1([a_beta_pool(kubelet={"maxPods": 20}), a_beta_class()])
    assert node_class["spec"]["kubelet"] == {"maxPods": 20}
    assert pool["metadata"]["annotations"] == {}
    assert "kubelet" not in pool["spec"]["template"]["spec"]


def test_a_pool_with_its_own_settings_gets_its_own_class() -> None:
    """Otherwise, the nodes of the other pools of that class change."""
    pools = [a_beta_pool("plain"), a_beta_pool("dense", kubelet={"maxPods": 200})]
    plain, dense, shared, own = api.all_as_v1([*pools, a_beta_class()])
    assert "kubelet" not in shared["spec"]
    assert own["metadata"]["name"] == dense["spec"]["template"]["spec"]["nodeClassRef"]["name"] == "default-dense"
    assert own["spec"]["kubelet"] == {"maxPods": 200}
    assert plain["spec"]["template"]["spec"]["nodeClassRef"]["name"] == "default"


def test_without_its_class_a_pool_keeps_the_settings_and_reports_it() -> None:
    (pool,) = api.all_as_v1([a_beta_pool(kubelet={"maxPods": 20})])
    (text,) = pool["metadata"]["annotations"].values()
    assert json.loads(text) == {"maxPods": 20}
    assert len(older_versions.remarks(pool)) == 1


def test_a_claim_takes_the_expiry_of_its_pool() -> None:
    """v1beta1 has it on the pool only; the v1 default of 720h would end nodes that must stay."""
    claim = {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodeClaim",
        "metadata": {"name": "c", "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {"nodeClassRef": {"name": "default"}, "requirements": []},
    }
    new, _ = api.all_as_v1([claim, a_beta_pool(disruption={"expireAfter": "Never"})])
    assert new["spec"]["expireAfter"] == "Never"
    assert api.problems(new) == ()


def test_v1_objects_and_objects_of_other_groups_are_unchanged() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    current = api.as_v1(a_beta_pool())
    assert api.all_as_v1([pod, current]) == [pod, current]
    assert api.as_v1(current) is current


@pytest.mark.parametrize("spec", [None, 5, {"template": 5}, {"template": {"spec": []}}, {"disruption": "no"}])
def test_malformed_older_objects_are_problems_and_not_crashes(spec: Any) -> None:
    old = {**a_beta_pool(), "spec": spec}
    assert api.problems(old)


@pytest.mark.parametrize("terms", ["ami-1", 5, {"id": "ami-1"}, None])
def test_a_field_of_the_wrong_type_is_left_to_validation(terms: object) -> None:
    """`convert` ended with an internal error instead of the object, which `validate` explains."""
    node_class = {"kind": "EC2NodeClass", "metadata": {"name": "default"}, "spec": {"amiSelectorTerms": terms}}
    assert older_versions.remarks(node_class) == []


def a_claim(name: str, pool: str, version: str = "v1beta1") -> JsonObject:
    spec = {"nodeClassRef": {"name": "default"}, "requirements": []}
    metadata = {"name": name, "labels": {"karpenter.sh/nodepool": pool}}
    return {"apiVersion": f"karpenter.sh/{version}", "kind": "NodeClaim", "metadata": metadata, "spec": spec}


def a_pool_of_now(name: str, **template: Any) -> JsonObject:
    new = older_versions.as_v1(a_beta_pool(name, **template))
    assert not older_versions.is_old(new)
    return new


def test_only_old_claims_take_the_expiry_of_their_pool() -> None:
    """A claim of v1 has an expiry of its own, or none; other objects of the same name are left alone."""
    pool = a_beta_pool("p", {"expireAfter": "5h"})
    others = [a_claim("new", "p", "v1"), a_claim("other", "q"), a_beta_pool("old", {"expireAfter": "9h"})]
    converted = older_versions.all_as_v1([pool, a_claim("old", "p"), *others])
    claims = {
        obj["metadata"]["name"]: obj["spec"].get("expireAfter") for obj in converted if obj["kind"] == "NodeClaim"
    }
    assert claims == {"old": "5h", "new": None, "other": None}
    assert [obj["spec"].get("expireAfter") for obj in converted if obj["kind"] == "NodePool"] == [None, None]


def kubelets(*objects: JsonObject) -> list[tuple[str, Any]]:
    """Class → its kubelet settings after a conversion of all."""
    found = older_versions.all_as_v1(objects)
    return [
        (obj["metadata"].get("name", ""), obj["spec"].get("kubelet")) for obj in found if obj["kind"] == "EC2NodeClass"
    ]


def test_kubelet_settings_of_old_pools_move_to_their_class() -> None:
    """To a copy of the class for each pool whose settings differ; the class itself keeps those that it had."""
    five, six = ({"maxPods": pods} for pods in (5, 6))
    node_class = a_beta_class()
    assert kubelets(a_beta_pool("a", kubelet=five), node_class) == [("default", five)]
    both = [a_beta_pool("a", kubelet=five), a_beta_pool("b", kubelet=five)]
    assert kubelets(*both, node_class) == [("default", five)]
    assert kubelets(a_beta_pool("a", kubelet=five), a_beta_pool("b"), node_class) == [
        ("default", None),
        ("default-a", five),
    ]
    differ = [a_beta_pool("a", kubelet=five), a_beta_pool("b", kubelet=six)]
    assert kubelets(*differ, node_class) == [("default", None), ("default-a", five), ("default-b", six)]
    assert kubelets(a_beta_pool("a", kubelet=five), a_beta_class(kubelet=six)) == [("default", six)]
    elsewhere = a_beta_pool("a", nodeClassRef={"name": "other"}, kubelet=five)
    assert kubelets(elsewhere, node_class) == [("default", None)]
    assert kubelets(a_pool_of_now("a", kubelet=five), node_class) == [("default", None)]
    assert kubelets(a_pool_of_now("a", kubelet=five), a_beta_pool("b", kubelet=six), node_class) == [
        ("default", None),
        ("default-b", six),
    ]


def test_a_pool_without_a_class_moves_nothing() -> None:
    """A class without a name is no more its class than any other."""
    nameless = {**a_beta_class(), "metadata": {}}
    pool = a_beta_pool("a", nodeClassRef={}, kubelet={"maxPods": 5})
    assert [found for _, found in kubelets(pool, nameless)] == [{"maxPods": 5}]


def test_only_a_pool_is_told_to_move_its_kubelet_settings() -> None:
    """A claim carries the annotation, too, and goes with its node."""
    old_claim = a_claim("c", "p")
    old_claim["spec"]["kubelet"] = {"maxPods": 5}
    (claim,) = older_versions.all_as_v1([old_claim])
    assert older_versions.remarks(claim) == []
    assert len(older_versions.remarks(a_pool_of_now("a", kubelet={"maxPods": 5}))) == 1
    assert older_versions.remarks(a_pool_of_now("a")) == []


@pytest.mark.parametrize(
    ("family", "terms", "becomes", "selects"),
    [
        ("AL2", None, None, [{"alias": "al2@latest"}]),
        ("AL2023", None, None, [{"alias": "al2023@latest"}]),
        ("Bottlerocket", None, None, [{"alias": "bottlerocket@latest"}]),
        ("AL2023", [{"id": "ami-1"}], "AL2023", [{"id": "ami-1"}]),
        ("Custom", [{"id": "ami-1"}], "Custom", [{"id": "ami-1"}]),
        ("", [{"id": "ami-1"}], "Custom", [{"id": "ami-1"}]),
        ("", None, None, [{"alias": "al2@latest"}]),
        ("Custom", None, "Custom", None),
    ],
)
def test_a_family_without_terms_becomes_an_alias(
    family: str, terms: Any, becomes: str | None, selects: list[dict[str, str]] | None
) -> None:
    """Custom has no images of its own: a class without terms stays as it is, and is told so by its validation."""
    given = a_beta_class(amiFamily=family, **({} if terms is None else {"amiSelectorTerms": terms}))
    spec = api.as_v1(given)["spec"]
    assert (spec.get("amiFamily"), spec.get("amiSelectorTerms")) == (becomes, selects)


def test_a_class_from_a_provisioner_follows_its_pool() -> None:
    """`convert` prints objects in the order of the file: a person finds the class beside what it was a part of."""
    first, second = a_provisioner(providerRef=None, provider=a_template()["spec"]), a_beta_pool("later")
    found = api.all_as_v1([first, second])
    assert [(obj["kind"], obj["metadata"]["name"]) for obj in found] == [
        ("NodePool", "default"),
        ("EC2NodeClass", "default"),
        ("NodePool", "later"),
    ]


def test_only_a_provisioner_has_a_provider_inside() -> None:
    """Another program's object may have a field of that name."""
    other = {
        "apiVersion": "example.com/v1",
        "kind": "Database",
        "metadata": {"name": "d"},
        "spec": {"provider": {"a": "b"}},
    }
    assert api.all_as_v1([other]) == [other]


def test_the_name_of_an_object_of_another_kind_means_nothing() -> None:
    """Objects of different kinds often have one name: a claim of v1 keeps its expiry, a class has none."""
    pool = a_beta_pool("p", {"expireAfter": "5h"})
    (_, claim) = older_versions.all_as_v1([pool, a_claim("p", "p", "v1")])
    assert "expireAfter" not in claim["spec"]
    node_class = a_beta_class()
    node_class["metadata"] = {"name": "c", "labels": {"karpenter.sh/nodepool": "p"}}
    *_, found = older_versions.all_as_v1([pool, a_claim("c", "p"), node_class])
    assert (found["kind"], "expireAfter" in found["spec"]) == ("EC2NodeClass", False)


def test_a_pool_of_v1_keeps_its_annotation_whatever_is_converted_beside_it() -> None:
    """Its class may be in the cluster already, with other settings: a person moves them."""
    five = {"maxPods": 5}
    node_class = a_beta_class()
    node_class["metadata"] = {"name": "default"}
    current = a_pool_of_now("default", kubelet=five)
    assert kubelets(current, node_class) == [("default", None)]
    both = [a_pool_of_now("a", kubelet=five), a_beta_pool("b", kubelet=five)]
    assert kubelets(*both, a_beta_class()) == [("default", None), ("default-b", five)]


# Objects of the first API in v1beta1: what was implied is written out.


IMPLIED = ["kubernetes.io/os", "kubernetes.io/arch", "karpenter.sh/capacity-type"]
SHAPES = ["karpenter.k8s.aws/instance-category", "karpenter.k8s.aws/instance-generation"]


def v1alpha5_a_provisioner(**spec: object) -> JsonObject:
    return {"kind": "Provisioner", "metadata": {"name": "old"}, "spec": spec}


def v1alpha5_a_template(**spec: object) -> JsonObject:
    return {"kind": "AWSNodeTemplate", "metadata": {"name": "old"}, "spec": spec}


def keys(provisioner: JsonObject) -> list[str]:
    spec = older_versions.provisioner(provisioner)["spec"]["template"]["spec"]
    return [entry["key"] for entry in spec["requirements"]]


@pytest.mark.parametrize(
    ("key", "left"),
    [
        ("kubernetes.io/os", [*IMPLIED[1:], *SHAPES]),
        ("beta.kubernetes.io/arch", [IMPLIED[0], IMPLIED[2], *SHAPES]),
        ("node.kubernetes.io/instance-type", IMPLIED),
        ("karpenter.k8s.aws/instance-family", IMPLIED),
    ],
)
def test_a_requirement_that_is_there_implies_no_other(key: str, left: list[str]) -> None:
    given = {"key": key, "operator": "In", "values": ["x"]}
    assert keys(v1alpha5_a_provisioner(requirements=[given])) == [key, *left]


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({}, {"expireAfter": "Never", "consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}),
        (
            {"ttlSecondsUntilExpired": 60, "ttlSecondsAfterEmpty": 30},
            {"expireAfter": "60s", "consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"},
        ),
        ({"consolidation": {"enabled": True}}, {"expireAfter": "Never", "consolidationPolicy": "WhenUnderutilized"}),
    ],
)
def test_nodes_go_as_they_went(spec: JsonObject, found: JsonObject) -> None:
    assert older_versions.provisioner(v1alpha5_a_provisioner(**spec))["spec"]["disruption"] == found


def test_names_of_annotations_and_of_the_class_follow() -> None:
    old = v1alpha5_a_provisioner(
        annotations={"karpenter.sh/do-not-evict": "true"}, limits={"resources": {"cpu": "9"}}, weight=3
    )
    spec = older_versions.provisioner(old)["spec"]
    assert spec["template"]["metadata"] == {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
    assert spec["template"]["spec"]["nodeClassRef"] == {"name": "old"}
    assert (spec["limits"], spec["weight"]) == ({"cpu": "9"}, 3)


def test_a_provider_inside_becomes_a_class_of_the_same_name() -> None:
    found = older_versions.inline_provider(v1alpha5_a_provisioner(provider={"subnetSelector": {"a": "b"}}))
    assert found is not None
    assert (found["kind"], found["metadata"]["name"]) == ("EC2NodeClass", "old")
    assert (
        older_versions.inline_provider(v1alpha5_a_provisioner(provider={"a": "b"}, providerRef={"name": "other"}))
        is None
    )
    assert older_versions.inline_provider(v1alpha5_a_provisioner()) is None


def test_defaults_of_the_cluster_are_placeholders() -> None:
    spec = older_versions.node_template(v1alpha5_a_template())["spec"]
    assert (spec["role"], spec["amiFamily"]) == (older_versions.PLACEHOLDER_ROLE, "AL2")
    assert "role" not in older_versions.node_template(v1alpha5_a_template(instanceProfile="p"))["spec"]


def test_a_launch_template_of_ones_own_is_refused_by_name_and_field() -> None:
    with pytest.raises(InvalidInputError) as refused:
        older_versions.node_template(v1alpha5_a_template(launchTemplate="lt-1"))
    assert (refused.value.subject, refused.value.field) == ("AWSNodeTemplate old", "spec.launchTemplate")


def test_what_a_provisioner_does_not_say_stays_unsaid() -> None:
    """An empty map of limits, or a weight of nothing, would be a field that nobody wrote."""
    spec = older_versions.provisioner(v1alpha5_a_provisioner())["spec"]
    assert spec.keys() == {"template", "disruption"}
    assert spec["template"]["spec"].keys() == {"nodeClassRef", "requirements"}


def kubelet_of(**settings: object) -> object:
    new = older_versions.provisioner(v1alpha5_a_provisioner(kubeletConfiguration=settings))
    return new["spec"]["template"]["spec"].get("kubelet")


def test_kubelet_settings_stay_except_the_one_that_no_later_version_has() -> None:
    """Otherwise, nodes come back with room for other numbers of pods, or the API server refuses the NodePool."""
    kept = {"maxPods": 20, "clusterDNS": ["10.0.0.10"], "kubeReserved": {"cpu": "100m"}}
    assert kubelet_of(**kept, containerRuntime="containerd") == kept
    assert kubelet_of(containerRuntime="dockerd") is None


def test_all_that_describes_a_node_stays_in_its_class() -> None:
    """Otherwise, nodes come back without their start script, their disks or the tags that cost reports need."""
    described = {
        "amiFamily": "Bottlerocket",
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "50Gi"}}],
        "context": "reserved",
        "detailedMonitoring": True,
        "instanceProfile": "nodes",
        "metadataOptions": {"httpTokens": "optional"},
        "tags": {"team": "a"},
        "userData": "echo started",
    }
    spec = older_versions.node_template(v1alpha5_a_template(**described))["spec"]
    assert {field: spec.get(field) for field in described} == described


# Objects of v1beta1 in v1: the same meaning in other fields.


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
    older_versions.node_pool(old)
    assert old == before


def test_the_kubelets_configuration_moves_to_an_annotation() -> None:
    """In v1 it belongs to the class, which other NodePools share."""
    new = older_versions.node_claim(an_object("NodeClaim", kubelet=KUBELET, nodeClassRef={"name": "c"}))
    assert json.loads(new["metadata"]["annotations"][older_versions.KUBELET_ANNOTATION]) == KUBELET
    assert "kubelet" not in new["spec"]


@pytest.mark.parametrize(
    "reference", [{"name": "c"}, {"name": "c", "apiVersion": "karpenter.k8s.aws/v1beta1", "kind": ""}]
)
def test_a_class_is_named_with_group_and_kind(reference: JsonObject) -> None:
    new = older_versions.node_claim(an_object("NodeClaim", nodeClassRef=reference))
    assert new["spec"]["nodeClassRef"] == {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"}
    assert new["apiVersion"] == "karpenter.sh/v1"


@pytest.mark.parametrize(
    ("spec", "family", "terms"),
    [
        ({"amiFamily": "AL2023"}, None, [{"alias": "al2023@latest"}]),
        ({}, None, [{"alias": "al2@latest"}]),
        ({"amiFamily": "AL2023", "amiSelectorTerms": [{"id": "ami-1"}]}, "AL2023", [{"id": "ami-1"}]),
        ({"amiSelectorTerms": [{"id": "ami-1"}]}, "Custom", [{"id": "ami-1"}]),
        ({"amiFamily": "Ubuntu"}, "AL2", [{"id": older_versions.PLACEHOLDER_AMI}]),
    ],
)
def test_a_family_becomes_an_alias_where_it_has_one(
    spec: JsonObject, family: str | None, terms: list[JsonObject]
) -> None:
    new = older_versions.node_class(an_object("EC2NodeClass", **spec))
    assert (new["spec"].get("amiFamily"), new["spec"]["amiSelectorTerms"]) == (family, terms)


def test_ubuntu_says_what_was_changed_for_it() -> None:
    new = older_versions.node_class(an_object("EC2NodeClass", amiFamily="Ubuntu", blockDeviceMappings=[]))
    assert new["metadata"]["annotations"][older_versions.UBUNTU_ANNOTATION] == "amiFamily,incompatible"


def test_metadata_options_keep_the_defaults_of_the_old_version() -> None:
    """v1 has a hop limit of one, on which pods that read the metadata service fail."""
    given = older_versions.node_class(an_object("EC2NodeClass", metadataOptions={"httpTokens": "optional"}))
    options = given["spec"]["metadataOptions"]
    assert (options["httpTokens"], options["httpPutResponseHopLimit"]) == ("optional", 2)


def test_ubuntu_keeps_its_root_volume() -> None:
    """Its images boot from another device than AL2's."""
    old = {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "metadata": {"name": "u"}}
    root = {"encrypted": True, "volumeType": "gp3", "volumeSize": "20Gi"}
    assert older_versions.node_class({**old, "spec": {"amiFamily": "Ubuntu"}})["spec"]["blockDeviceMappings"] == [
        {"deviceName": "/dev/sda1", "rootVolume": True, "ebs": root}
    ]
    own = [{"deviceName": "/dev/sdb"}]
    given = {**old, "spec": {"amiFamily": "Ubuntu", "blockDeviceMappings": own}}
    assert older_versions.node_class(given)["spec"]["blockDeviceMappings"] == own


@pytest.mark.parametrize(
    ("written", "expiry"), [(3600, "3600s"), (0, "0s"), ("1h", "1h"), ("Never", "Never"), (True, True)]
)
def test_a_bare_number_is_seconds(written: object, expiry: object) -> None:
    """Old manifests may have one; a truth value is left to validation."""
    new = older_versions.node_pool(a_pool({"expireAfter": written}))
    assert new["spec"]["template"]["spec"]["expireAfter"] == expiry


def test_kubelet_settings_are_written_in_one_order() -> None:
    """Pools with equal settings share a class."""
    ways = ({"maxPods": 20, "clusterDNS": []}, {"clusterDNS": [], "maxPods": 20})
    texts = {
        older_versions.node_pool(a_pool(kubelet=way))["metadata"]["annotations"][older_versions.KUBELET_ANNOTATION]
        for way in ways
    }
    assert texts == {'{"clusterDNS": [], "maxPods": 20}'}


def test_a_class_of_another_provider_keeps_its_group() -> None:
    reference = {"name": "c", "apiVersion": "karpenter.azure.com/v1beta1", "kind": "AKSNodeClass"}
    new = older_versions.node_claim(an_object("NodeClaim", nodeClassRef=reference))
    assert new["spec"]["nodeClassRef"] == {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "c"}


def test_ubuntu_names_each_change() -> None:
    new = older_versions.node_class(an_object("EC2NodeClass", amiFamily="Ubuntu", amiSelectorTerms=[{"id": "ami-1"}]))
    assert new["metadata"]["annotations"][older_versions.UBUNTU_ANNOTATION] == "amiFamily,blockDeviceMappings"
    assert new["spec"]["amiSelectorTerms"] == [{"id": "ami-1"}]


# Every problem of an object is found, whatever its kind and version.


@pytest.mark.parametrize("valid", [NODE_POOL, NODE_CLAIM, NODE_OVERLAY, NODE_CLASS])
def test_each_kind_with_a_model_is_accepted_and_found_by_its_group(valid: JsonObject) -> None:
    group, _, version = valid["apiVersion"].partition("/")
    assert (group, version, valid["kind"]) in MODELS
    assert problems(valid) == ()


def test_all_problems_are_found_at_once_each_with_object_and_field() -> None:
    """Otherwise, somebody corrects a manifest as many times as it has mistakes."""
    wrong = changed(changed(NODE_POOL, "spec.weight", 0), "spec.limits.cpu", "many")
    assert [(found.kind, found.name, found.field) for found in problems(wrong)] == [
        ("NodePool", "default", "spec.limits.cpu"),
        ("NodePool", "default", "spec.weight"),
    ]


def test_a_null_is_a_field_that_is_not_there() -> None:
    """The API server drops nulls before it validates."""
    assert problems(changed(NODE_POOL, "spec.weight", None)) == ()


@pytest.mark.parametrize(
    ("path", "value", "kind", "field"),
    [
        ("kind", ABSENT, "object", "kind"),
        ("metadata.name", ABSENT, "NodePool", "metadata.name"),
        ("apiVersion", ABSENT, "NodePool", "apiVersion"),
        ("kind", "NodePond", "NodePond", "apiVersion"),
        ("apiVersion", "karpenter.sh/v7", "NodePool", "apiVersion"),
    ],
)
def test_an_object_that_cannot_be_identified_has_one_problem(path: str, value: object, kind: str, field: str) -> None:
    (found,) = problems(changed(NODE_POOL, path, value))
    assert (found.kind, found.field) == (kind, field)


def test_kinds_of_others_only_need_kind_and_name() -> None:
    assert problems({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"weight": 0}}) == ()


def test_an_object_without_kind_and_version_has_two_problems() -> None:
    found = problems({"metadata": {"name": "p"}})
    assert [(one.kind, one.name, one.field, one.message) for one in found] == [
        ("object", "p", "apiVersion", "is required"),
        ("object", "p", "kind", "is required"),
    ]
