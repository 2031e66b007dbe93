"""Counting what the input holds."""

from __future__ import annotations

from typing import Any

import pytest

from cli.errors import InputError
from cli.manifests.document import Document
from cli.manifests.inventory import Inventory, field_in, refused_version_of, take_inventory
from cli.manifests.reading import parse
from core.manifests.wire import api_resources as kinds


def inventory(text: str) -> Inventory:
    return take_inventory(parse(text, "x.yaml"))


def fault(text: str) -> str:
    with pytest.raises(InputError) as caught:
        inventory(text)
    return str(caught.value)


def test_unknown_kinds_are_counted_in_one_line() -> None:
    """A cluster dump has hundreds of them."""
    secret, widget = (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: %s}",
        "apiVersion: x/v1\nkind: Widget\nmetadata: {name: a}",
    )
    found = inventory("\n---\n".join([secret % "a", widget, secret % "b"]))
    assert list(found.warnings()) == ["skipped 3 objects of kinds that are not read here: Secret 2, Widget 1"]


def test_an_unknown_kind_needs_no_name() -> None:
    """Many folders of manifests contain a kustomization.yaml."""
    found = inventory("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: []")
    assert found.skipped == {"Kustomization": 1}


def test_a_kind_of_another_group_is_another_kind() -> None:
    """Knative has Services too."""
    found = inventory("apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: a}")
    assert found.skipped == {"Service": 1}
    assert kinds.SERVICES not in found.objects


def test_an_object_given_twice_counts_once() -> None:
    """The later one counts, as with kubectl apply; a pod counted twice would launch a node too many."""
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a%s}\nspec: {priority: %d}"
    found = inventory("\n---\n".join([pod % ("", 1), pod % (", namespace: b", 2), pod % (", namespace: default", 3)]))
    assert [(p.metadata.namespace, p.spec.priority) for p in found.objects[kinds.PODS]] == [("b", 2), ("default", 3)]
    assert len(list(found.warnings())) == 1


def test_workloads_are_expanded_with_their_document() -> None:
    """A fault in a template must be reported with the workload's document."""
    text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: cart}\nspec: {replicas: 2}"
    found = inventory(text)
    assert [pod.metadata.name for pod in found.objects[kinds.PODS]] == ["cart-0", "cart-1"]
    assert {document.subject for document in found.documents[kinds.PODS]} == {"Deployment cart"}


def test_older_karpenter_objects_are_converted() -> None:
    """The contract accepts v1beta1 and v1alpha5."""
    text = """
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: old}
spec: {providerRef: {name: old}}
---
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: old}
spec: {subnetSelector: {a: b}, securityGroupSelector: {a: b}}
---
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: newer}
spec: {template: {spec: {nodeClassRef: {name: old}, requirements: []}}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: present}
spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: old}, requirements: []}}}
"""
    found = inventory(text)
    assert {pool["apiVersion"] for pool in found.objects[kinds.NODE_POOLS]} == {"karpenter.sh/v1"}
    assert [pool["metadata"]["name"] for pool in found.objects[kinds.NODE_POOLS]] == ["old", "newer", "present"]
    assert [obj["kind"] for obj in found.objects[kinds.EC2_NODE_CLASSES]] == ["EC2NodeClass"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("apiVersion: v1\nmetadata: {name: a}", ("document 1", "kind: is required")),
        ("apiVersion: v1\nkind: [Pod]", ("document 1", "kind: must be text")),
        ("apiVersion: v1\nkind: 5\nmetadata: {name: a}", ("document 1", "object a: kind: must be text")),
        ("apiVersion: 1\nkind: Foo\nmetadata: {name: a}", ("document 1", "Foo a: apiVersion: must be text")),
        ("apiVersion: v1\nkind: Pod", ("document 1", "Pod without a name", "metadata.name: is missing")),
        (
            (
                "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n"
                "apiVersion: v1\nkind: Pod\nmetadata: {name: b, namespace: shop}\nspec: {containers: 3}"
            ),
            ("x.yaml", "document 2", "Pod shop/b", "spec.containers"),
        ),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: -1}",
            ("Deployment default/a", "spec.replicas"),
        ),
    ],
)
def test_a_bad_object_is_named_with_file_document_and_field(text: str, parts: tuple[str, ...]) -> None:
    """No part of the input is used, and the place is easy to find."""
    message = fault(text)
    assert all(part in message for part in parts), message


@pytest.mark.parametrize("kind", ["NodePool", "Provisioner", "Pod", "Deployment"])
def test_an_object_of_a_version_that_does_not_exist_is_refused(kind: str) -> None:
    """The message was `spec.template: is required` for a Provisioner, and a Deployment of apps/v9 was read as of v1."""
    found = fault(f"apiVersion: karpenter.sh/v9\nkind: {kind}\nmetadata: {{name: a}}")
    assert found.startswith(f"x.yaml: document 1: {kind} a: apiVersion: karpenter.sh/v9 has no {kind}; allowed: ")


def test_a_cluster_wide_object_is_the_same_in_any_namespace() -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: a%s}\n"
    found = inventory("---\n".join([node % "", node % ", namespace: b"]))
    assert len(found.objects[kinds.NODES]) == 1
    assert list(found.warnings()) == ["Node b/a is given more than once: the last one counts"]


@pytest.mark.parametrize(
    ("version", "kind", "said"),
    [
        ("v1", "Pod", ""),
        ("karpenter.sh/v1", "NodePool", ""),
        ("karpenter.sh/v1alpha5", "Provisioner", ""),
        ("example.com/v9", "Widget", ""),
        ("serving.knative.dev/v9", "Service", ""),
        (None, "Widget", ""),
        ("apps/v1", "Pod", "apps/v1 has no Pod; allowed: v1"),
        (None, "Pod", "is missing; allowed: v1"),
        ("karpenter.sh/v1", "NodePol", "karpenter.sh/v1 has no kind NodePol (did you mean NodePool?)"),
        ("karpenter.sh/v1", "Widget", "karpenter.sh/v1 has no kind Widget"),
        ("karpenter.sh/v9", "Provisioner", "karpenter.sh/v9 has no Provisioner; allowed: karpenter.sh/v1alpha5"),
    ],
)
def test_a_version_is_refused_with_those_that_are_read_or_with_the_kind_that_is_meant(
    version: str | None, kind: str, said: str
) -> None:
    assert refused_version_of(Document("-", 0, {"apiVersion": version, "kind": kind})) == said


def test_a_misspelt_kind_is_a_question_and_a_kind_of_others_is_not() -> None:
    objects = "apiVersion: x/v1\nkind: Deploymet\n---\napiVersion: serving.knative.dev/v1\nkind: Service\n---\nkind: X"
    (warning,) = inventory(f"{objects}\napiVersion: 'y'").warnings()
    assert warning == (
        "skipped 3 objects of kinds that are not read here: Deploymet 1 (did you mean Deployment?), Service 1, X 1"
    )


@pytest.mark.parametrize(
    ("kind", "resource", "field", "found"),
    [
        ("Deployment", kinds.PODS, "spec.containers", "spec.template.spec.containers"),
        ("Deployment", kinds.PODS, "", ""),
        ("Pod", kinds.PODS, "spec.containers", "spec.containers"),
        ("StatefulSet", kinds.PERSISTENT_VOLUME_CLAIMS, "spec", "spec"),
    ],
)
def test_a_field_of_a_pod_of_a_workload_is_in_its_template(kind: str, resource: Any, field: str, found: str) -> None:
    assert field_in(Document("-", 0, {"kind": kind}), resource, field) == found
