"""Older API versions keep their meaning in v1, and the result is valid."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from core import api
from core.api import conversion
from core.api.objects import JsonObject
from core.errors import InvalidInputError

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
    assert any("Ubuntu" in remark for remark in conversion.remarks(new))


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
    assert any("spec.role" in remark for remark in conversion.remarks(new))


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
    assert len(conversion.remarks(pool)) == 1


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
    assert conversion.remarks(node_class) == []


def a_claim(name: str, pool: str, version: str = "v1beta1") -> JsonObject:
    spec = {"nodeClassRef": {"name": "default"}, "requirements": []}
    metadata = {"name": name, "labels": {"karpenter.sh/nodepool": pool}}
    return {"apiVersion": f"karpenter.sh/{version}", "kind": "NodeClaim", "metadata": metadata, "spec": spec}


def a_pool_of_now(name: str, **template: Any) -> JsonObject:
    new = conversion.as_v1(a_beta_pool(name, **template))
    assert not conversion.is_old(new)
    return new


def test_only_old_claims_take_the_expiry_of_their_pool() -> None:
    """A claim of v1 has an expiry of its own, or none; other objects of the same name are left alone."""
    pool = a_beta_pool("p", {"expireAfter": "5h"})
    others = [a_claim("new", "p", "v1"), a_claim("other", "q"), a_beta_pool("old", {"expireAfter": "9h"})]
    converted = conversion.all_as_v1([pool, a_claim("old", "p"), *others])
    claims = {
        obj["metadata"]["name"]: obj["spec"].get("expireAfter") for obj in converted if obj["kind"] == "NodeClaim"
    }
    assert claims == {"old": "5h", "new": None, "other": None}
    assert [obj["spec"].get("expireAfter") for obj in converted if obj["kind"] == "NodePool"] == [None, None]


def kubelets(*objects: JsonObject) -> list[tuple[str, Any]]:
    """Class → its kubelet settings after a conversion of all."""
    found = conversion.all_as_v1(objects)
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
    (claim,) = conversion.all_as_v1([old_claim])
    assert conversion.remarks(claim) == []
    assert len(conversion.remarks(a_pool_of_now("a", kubelet={"maxPods": 5}))) == 1
    assert conversion.remarks(a_pool_of_now("a")) == []


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
    (_, claim) = conversion.all_as_v1([pool, a_claim("p", "p", "v1")])
    assert "expireAfter" not in claim["spec"]
    node_class = a_beta_class()
    node_class["metadata"] = {"name": "c", "labels": {"karpenter.sh/nodepool": "p"}}
    *_, found = conversion.all_as_v1([pool, a_claim("c", "p"), node_class])
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
