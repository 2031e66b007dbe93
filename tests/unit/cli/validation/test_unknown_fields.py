"""A field that no API server knows: an error where it is surely a mistake, else a warning: a newer version may have it."""

from __future__ import annotations

from typing import Any

import pytest

from cli.manifests.document import Document
from cli.validation.finding import Severity
from cli.validation.unknown_fields import unknown_fields

POOL = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool"}
POD = {"apiVersion": "v1", "kind": "Pod"}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment"}
NOT_HERE, NOWHERE = "there is no such field here", "there is no such field"


def found(obj: dict[str, Any], *, is_lenient: bool = False) -> list[tuple[str, bool, str, str]]:
    """Path, whether it is an error, message and suggestion of each finding."""
    document = Document("x.yaml", 0, obj)
    return [
        (one.field, one.severity is Severity.ERROR, one.message, one.suggestion)
        for one in unknown_fields(document, is_lenient=is_lenient)
    ]


def test_a_misspelt_field_is_an_error_with_the_one_that_is_meant() -> None:
    pool = {
        **POOL,
        "metadata": {"name": "a", "anotations": {}},
        "spec": {"wieght": 3, "template": {"spec": {"taint": []}}},
    }
    assert found(pool) == [
        ("metadata.anotations", True, NOWHERE, "annotations"),
        ("spec.wieght", True, NOWHERE, "weight"),
        ("spec.template.spec.taint", True, NOWHERE, "taints"),
    ]
    assert [error for _, error, *_ in found(pool, is_lenient=True)] == [False] * 3


def test_a_field_like_no_other_may_be_of_a_newer_version() -> None:
    assert found({**POOL, "spec": {"quixotic": 1}}) == [("spec.quixotic", False, NOWHERE, "")]
    assert found({**POD, "spec": {"quixotic": 1}}) == [("spec.quixotic", False, NOWHERE, "")]


def test_a_field_of_another_place_is_an_error_with_the_place() -> None:
    ((field, error, message, meant),) = found({**POOL, "spec": {"consolidateAfter": "1m"}})
    assert (field, error, message, meant) == (
        "spec.consolidateAfter",
        True,
        NOT_HERE,
        "spec.disruption.consolidateAfter",
    )
    ((_, error, message, meant),) = found({**DEPLOYMENT, "spec": {"nodeSelector": {"a": "b"}}})
    assert (error, message, meant) == (True, NOT_HERE, "spec.template.spec.nodeSelector")


def test_every_unknown_field_of_a_pod_template_is_an_error() -> None:
    """The API server drops it, and the pod runs without."""
    template = {"metadata": {}, "spec": {"containers": [{"name": "c"}, {"quixotic": 1}], "quixotic": 2}}
    assert [
        (field, error) for field, error, *_ in found({**DEPLOYMENT, "spec": {"template": template, "quixotic": 3}})
    ] == [
        ("spec.quixotic", False),
        ("spec.template.spec.quixotic", True),
        ("spec.template.spec.containers[1].quixotic", True),
    ]


@pytest.mark.parametrize(
    "obj",
    [
        {"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "spec": {"quixotic": 1}},
        {"apiVersion": "acme.example/v1", "kind": "Pod", "spec": {"quixotic": 1}},
        {"apiVersion": "v1", "kind": "Secret", "quixotic": 1},
        {**POOL, "spec": None, "metadata": None},
        {**POD, "spec": [1], "metadata": {"labels": {"quixotic": "1"}}},
        {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "spec": {"tags": {"quixotic": "1"}}},
    ],
    ids=["older version", "another group", "a kind not known", "empty", "of another form", "open maps"],
)
def test_what_is_not_known_is_not_judged(obj: dict[str, Any]) -> None:
    assert found(obj) == []


def test_fields_beside_spec_are_those_of_an_object() -> None:
    assert found({**POOL, "spce": {}, "status": {}}) == [("spce", True, NOWHERE, "spec")]
    assert found({**POD, "statsu": {}}) == [("statsu", True, NOWHERE, "status")]
