"""References that lead nowhere, and objects that are in a file twice."""

from __future__ import annotations

from typing import Any

import pytest

from cli.manifests.document import Document
from cli.validation.references import dangling_references, repeated_objects
from tests.unit.api.objects import NODE_CLASS, NODE_POOL, changed

OLD_CLASS = {"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "metadata": {"name": "default"}}


def documents(*objects: dict[str, Any]) -> list[Document]:
    return [Document("a.yaml", index, obj) for index, obj in enumerate(objects)]


def named(name: str) -> dict[str, Any]:
    return changed(NODE_CLASS, "metadata.name", name)


@pytest.mark.parametrize(
    ("classes", "severity", "suggestion"),
    [
        ([NODE_CLASS], None, ""),
        ([OLD_CLASS], None, ""),
        ([], "warning", ""),
        ([named("defalt")], "error", "defalt"),
        ([named("zzz")], "error", ""),
    ],
)
def test_a_class_that_is_missing_beside_others_is_an_error(
    classes: list[dict[str, Any]], severity: str | None, suggestion: str
) -> None:
    found = list(dangling_references(documents(NODE_POOL, *classes)))
    assert [(one.severity.value, one.suggestion) for one in found] == ([(severity, suggestion)] if severity else [])
    assert all(one.field == "spec.template.spec.nodeClassRef.name" for one in found)
    assert all(one.message.startswith("there is no EC2NodeClass 'default' in the input") for one in found)


@pytest.mark.parametrize(
    "obj",
    [
        changed(NODE_POOL, "spec.template.spec.nodeClassRef", {"kind": "Other", "name": "x"}),
        changed(NODE_POOL, "spec.template.spec.nodeClassRef", {}),
        {**NODE_POOL, "apiVersion": "example.com/v1"},
        {**NODE_POOL, "kind": "NodeClaim"},
        {**NODE_POOL, "spec": "odd"},
        {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "a"}, "spec": 7},
    ],
)
def test_objects_that_name_no_class_of_ours_are_left_alone(obj: dict[str, Any]) -> None:
    assert list(dangling_references(documents(obj))) == []


def placed(namespace: str | None = None, name: str = "a", **changes: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({} if namespace is None else {"namespace": namespace})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **changes}


@pytest.mark.parametrize(
    ("second", "is_same"),
    [
        (placed(), True),
        (placed("default"), True),
        (placed("shop"), False),
        (placed(name="b"), False),
        (placed(kind="Service"), False),
        (placed(apiVersion="example.com/v1"), False),
        (placed(name=""), False),
    ],
)
def test_an_object_is_repeated_if_group_kind_namespace_and_name_are(second: dict[str, Any], is_same: bool) -> None:
    found = list(repeated_objects(documents(placed(name=""), placed(), second)))
    assert [(one.document.index, one.severity.value, one.message) for one in found] == (
        [(2, "warning", "is given in document 2 already; the last one counts")] if is_same else []
    )
    apart = [Document("a.yaml", 0, placed()), Document("b.yaml", 0, second)]
    assert list(repeated_objects(apart)) == []
